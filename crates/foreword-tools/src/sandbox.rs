//! A sandbox for the program of a tool server, using bubblewrap on Linux. By default the program can read only the system and its
//! own installation: no network, no home folder, no other processes. Each permission is a decision of the user.

mod installation;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::program;

/// Top-level folders of the system. All others may contain user data and are empty in the sandbox.
const SYSTEM: [&str; 16] =
    ["bin", "boot", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "sbin", "sys", "usr", "var"];

/// Other folders with user data. The home folder is hidden too.
const PRIVATE: [&str; 2] = ["/var/tmp", "/var/home"];

/// The largest number of top-level folders.
const MAX_TOP: usize = 10_000;

/// The DNS configuration, which is often a link into a hidden folder.
const RESOLVER: &str = "/etc/resolv.conf";

/// Variables that affect what a program loads. They are set only inside the sandbox, not for bubblewrap.
const LOADER: [&str; 6] = ["LD_", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "MALLOC_"];

/// The time limit for testing the sandbox.
const TRIAL: Duration = Duration::from_secs(5);

/// The permissions of a sandboxed program. Environment variables are granted by the server's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Network access, including services on this machine.
    pub network: bool,
    /// Read and write access to the home folder.
    pub home: bool,
    /// Folders with read and write access.
    pub folders: Vec<PathBuf>,
    /// Read-only paths inside of these folders: files that other programs run or read as instructions.
    pub protected: Vec<PathBuf>,
    /// Hidden paths inside of these folders: Foreword's own files. A granted folder inside of a hidden one is accessible.
    pub hidden: Vec<PathBuf>,
}

/// The content of a path in the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mount {
    /// A new, empty folder.
    Empty,
    /// An empty file.
    Nothing,
    /// The real path, read-only.
    Read(PathBuf),
    /// The real path, writable.
    Write(PathBuf),
}

/// The content of each path. Inner paths take precedence and come later in the order.
#[derive(Default)]
struct Mounts(BTreeMap<PathBuf, Mount>);

impl Mounts {
    /// Whether the real content of a path is accessible.
    fn is_visible(&self, place: &Path) -> bool {
        let nearest = place.ancestors().find_map(|place| self.0.get(place));
        !matches!(nearest, Some(Mount::Empty | Mount::Nothing))
    }

    /// Adds a real path; for a symbolic link also at the link's path, if that is hidden.
    fn add(&mut self, path: &Path, mount: fn(PathBuf) -> Mount) {
        let Ok(real) = path.canonicalize() else { return };
        if real != path && path.is_absolute() && !self.is_visible(path) {
            self.0.insert(path.to_owned(), mount(real.clone()));
        }
        self.0.insert(real.clone(), mount(real));
    }

    fn hide(&mut self, path: &Path) {
        let Ok(real) = path.canonicalize() else { return };
        let nothing = if real.is_dir() { Mount::Empty } else { Mount::Nothing };
        if self.is_visible(&real) {
            self.0.insert(real, nothing);
        }
    }
}

/// A program to run in a sandbox.
pub(crate) struct Program<'a> {
    pub(crate) file: &'a Path,
    pub(crate) env: &'a BTreeMap<OsString, OsString>,
    pub(crate) cwd: &'a Path,
}

impl Sandbox {
    /// The arguments of bubblewrap before the program.
    pub(crate) fn arguments(&self, program: &Program<'_>) -> Vec<OsString> {
        // Ours: what a vault sets for its program does not decide what the home folder is.
        let home = env::var_os("HOME").map(PathBuf::from);
        let mut words: Vec<OsString> =
            ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"].map(Into::into).into();
        if self.network {
            words.push("--share-net".into());
        }
        words.extend(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"].map(OsString::from));
        for (place, mount) in self.mounts(program, home.as_deref()).0 {
            let place = place.into_os_string();
            match mount {
                Mount::Empty => words.extend(["--tmpfs".into(), place]),
                Mount::Nothing => words.extend(["--ro-bind".into(), "/dev/null".into(), place]),
                Mount::Read(source) => words.extend(["--ro-bind".into(), source.into_os_string(), place]),
                Mount::Write(source) => words.extend(["--bind".into(), source.into_os_string(), place]),
            }
        }
        if program.env.contains_key(OsStr::new("TMPDIR")) {
            words.extend(["--setenv", "TMPDIR", "/tmp"].map(OsString::from));
        }
        for (name, value) in program.env.iter().filter(|(name, _)| is_for_the_loader(name)) {
            words.extend(["--setenv".into(), name.clone(), value.clone()]);
        }
        words.extend(["--chdir".into(), program.cwd.as_os_str().to_owned(), "--".into()]);
        words
    }

    fn mounts(&self, program: &Program<'_>, home: Option<&Path>) -> Mounts {
        let mut mounts = Mounts::default();
        let is_data = |name: &OsStr| !name.to_str().is_some_and(|name| SYSTEM.contains(&name));
        for entry in std::fs::read_dir("/").into_iter().flatten().flatten().take(MAX_TOP) {
            // A link leads to what is hidden, or not, at its own place.
            if is_data(&entry.file_name()) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                mounts.hide(&entry.path());
            }
        }
        for folder in PRIVATE.iter().map(Path::new).chain(home) {
            mounts.hide(folder);
        }
        for folder in home.filter(|_| self.home).into_iter().chain(self.folders.iter().map(PathBuf::as_path)) {
            mounts.add(folder, Mount::Write);
        }
        for path in &self.protected {
            mounts.add(path, Mount::Read);
        }
        for path in &self.hidden {
            mounts.hide(path);
        }
        let hidden: Vec<_> = self.hidden.iter().filter_map(|path| path.canonicalize().ok()).collect();
        for path in installation::of(program.file, &search_folders(program.env), home) {
            if !mounts.is_visible(&path) && !hidden.iter().any(|hidden| path.starts_with(hidden)) {
                mounts.add(&path, Mount::Read);
            }
        }
        if self.network && !Path::new(RESOLVER).canonicalize().is_ok_and(|file| mounts.is_visible(&file)) {
            mounts.add(Path::new(RESOLVER), Mount::Read);
        }
        mounts
    }

    /// What a failed program may lack, to be appended to an error.
    pub(crate) fn missing(&self) -> String {
        let missing: Vec<&str> = [("the network", self.network), ("the home folder", self.home)]
            .iter()
            .filter(|(_, has)| !has)
            .map(|(what, _)| *what)
            .collect();
        let without = if missing.is_empty() { String::new() } else { format!(" without {}", missing.join(" and ")) };
        format!(
            "; it runs in a sandbox{without}: if it needs more, allow access to the network, the home folder or another folder"
        )
    }
}

/// Whether a variable is set only inside the sandbox.
pub(crate) fn is_for_the_loader(name: &OsStr) -> bool {
    LOADER.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
}

fn search_folders(env: &BTreeMap<OsString, OsString>) -> Vec<PathBuf> {
    env.get(OsStr::new("PATH")).map(|path| program::search_folders(path, &[], None)).unwrap_or_default()
}

/// The path of bubblewrap if a test program ran in a sandbox, or why sandboxes are not available.
pub fn availability() -> Result<PathBuf, String> {
    if !cfg!(target_os = "linux") {
        return Err("the sandbox requires bubblewrap, which is available only on Linux".to_owned());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = program::search_folders(&path, &[], None);
    let find = |name: &str| program::find(name, Path::new("/"), &folders);
    let bwrap = find("bwrap").ok_or("bubblewrap is not installed (the program `bwrap`)")?;
    let harmless = find("true").unwrap_or_else(|| "/bin/true".into());
    let env = BTreeMap::from([("PATH".into(), path)]);
    let program = Program { file: &harmless, env: &env, cwd: Path::new("/") };
    let mut trial = Command::new(&bwrap);
    trial.args(Sandbox::default().arguments(&program)).arg(&harmless).env_clear();
    tried(&mut trial).map(|()| bwrap).map_err(|why| format!("bubblewrap does not work here: {why}"))
}

/// Runs a command that must succeed within the time limit.
fn tried(command: &mut Command) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(told)?;
    let until = Instant::now() + TRIAL;
    while child.try_wait().map_err(told)?.is_none() {
        if Instant::now() > until {
            // It fails only if the program has ended already.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("it did not finish within {} s", TRIAL.as_secs()));
        }
        thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().map_err(told)?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words: String = words.lines().next().unwrap_or_default().chars().filter(|char| !char.is_control()).take(200).collect();
    Err(if words.is_empty() { output.status.to_string() } else { words })
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_place_further_in_counts_more() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["home/notes/.foreword", "home/.state/own", "home/.ssh", "home/tool/bin", "data"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("home/token"), "x").unwrap();
        fs::write(root.join("home/tool/bin/run"), "x").unwrap();
        std::os::unix::fs::symlink(root.join("data"), root.join("home/link")).unwrap();
        let at = |names: &[&str]| names.iter().map(|name| root.join(name)).collect::<Vec<_>>();
        let check = |sandbox: Sandbox, visible: &[&str], hidden: &[&str]| {
            let env = BTreeMap::new();
            let run = root.join("home/tool/bin/run");
            let program = Program { file: &run, env: &env, cwd: &root };
            let mounts = sandbox.mounts(&program, Some(&root.join("home")));
            for path in at(visible) {
                assert!(mounts.is_visible(&path), "{} in {:?}", path.display(), mounts.0);
            }
            for path in at(hidden) {
                assert!(!mounts.is_visible(&path), "{} in {:?}", path.display(), mounts.0);
            }
        };
        let secret = at(&["home/.state", "home/notes/.foreword", "home/token", "home/none"]);
        let sandbox = Sandbox { hidden: secret, ..Sandbox::default() };
        check(
            sandbox.clone(),
            &["home/tool/bin/run"],
            &["home/x", "home/.ssh/id", "home/notes/a", "home/.state/own/x", "home/token", "data/x"],
        );
        check(
            Sandbox { folders: at(&["home/notes", "home/.state/own", "home/link"]), ..sandbox.clone() },
            &["home/notes/a", "home/.state/own/x", "home/link/x", "data/x"],
            &["home/notes/.foreword/store", "home/.state/x", "home/.ssh/id"],
        );
        check(
            Sandbox { home: true, ..sandbox.clone() },
            &["home/x", "home/.ssh/id", "home/notes/a"],
            &["home/notes/.foreword/store", "home/.state/own/x", "home/token"],
        );
        // A granted folder that holds what is hidden does not show it.
        check(
            Sandbox { folders: vec![root.clone()], ..sandbox },
            &["data/x", "home/x"],
            &["home/.state/x", "home/notes/.foreword/x", "home/token"],
        );
    }

    #[test]
    fn what_the_program_loads_is_not_loaded_by_what_makes_the_sandbox() {
        for name in ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES", "GCONV_PATH"] {
            assert!(is_for_the_loader(OsStr::new(name)), "{name}");
            let env = BTreeMap::from([(name.into(), "/evil".into())]);
            let words = Sandbox::default().arguments(&Program { file: Path::new("/x"), env: &env, cwd: Path::new("/") });
            assert!(words.windows(3).any(|words| words == ["--setenv", name, "/evil"]), "{words:?}");
        }
        assert!(!is_for_the_loader(OsStr::new("TOKEN")));
    }

    #[test]
    fn a_trial_that_fails_says_why() {
        let check = |script: &str, expect: Result<(), &str>| {
            let found = tried(Command::new("sh").args(["-c", script]));
            assert_eq!(found, expect.map_err(str::to_owned));
        };
        check("true", Ok(()));
        check("echo no namespaces >&2; echo more >&2; exit 1", Err("no namespaces"));
        check("exit 1", Err("exit status: 1"));
    }
}

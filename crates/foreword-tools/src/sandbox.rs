//! A sandbox for the program of a tool server, made by bubblewrap on Linux. Without grants a program can read the system and its own
//! installation, and nothing else: no network, no home folder, no other process. Each grant is a decision of the user.

mod installation;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::program;

/// Folders at the top that hold the system. All others may hold data of people and are empty in a sandbox.
const SYSTEM: [&str; 16] =
    ["bin", "boot", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "sbin", "sys", "usr", "var"];

/// Folders further down in which data of people lies. The home folder is hidden too, wherever it is.
const PRIVATE: [&str; 2] = ["/var/tmp", "/var/home"];

/// More folders at the top than these are not looked at.
const MAX_TOP: usize = 10_000;

/// Where names of hosts are looked up. It often is a link into a folder that is hidden.
const RESOLVER: &str = "/etc/resolv.conf";

/// Variables that change what a program loads. They are meant for the program in the sandbox, and must not reach what makes the sandbox.
const LOADER: [&str; 6] = ["LD_", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "MALLOC_"];

/// How long the trial of a sandbox may take.
const TRIAL: Duration = Duration::from_secs(5);

/// What a program in a sandbox may reach, each by a decision of its own. Variables are granted by the server's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// The network, this machine's own services included.
    pub network: bool,
    /// The home folder, to read and to write.
    pub home: bool,
    /// These folders, to read and to write.
    pub folders: Vec<PathBuf>,
    /// What can only be read inside of a granted folder: files that other programs run or take instructions from.
    pub protected: Vec<PathBuf>,
    /// What stays hidden even inside of a granted folder: files and folders that hold Foreword's own state. A granted folder inside of a
    /// hidden one can be reached.
    pub hidden: Vec<PathBuf>,
}

/// What is at a place in the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mount {
    /// A folder of its own, empty at first and gone with the program.
    Empty,
    /// A file with nothing in it.
    Nothing,
    /// What is there outside, to read.
    Read(PathBuf),
    /// What is there outside, to read and to write.
    Write(PathBuf),
}

/// What stands at each place. A place further in counts more than the ones around it, and comes after them in the order.
#[derive(Default)]
struct Mounts(BTreeMap<PathBuf, Mount>);

impl Mounts {
    /// Whether what is outside can be reached at a place.
    fn is_visible(&self, place: &Path) -> bool {
        let nearest = place.ancestors().find_map(|place| self.0.get(place));
        !matches!(nearest, Some(Mount::Empty | Mount::Nothing))
    }

    /// Puts what is outside at its place; behind a symbolic link also at the place of the link, where that is hidden otherwise.
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

/// A program that is to be put into a sandbox.
pub(crate) struct Program<'a> {
    pub(crate) file: &'a Path,
    pub(crate) env: &'a BTreeMap<OsString, OsString>,
    pub(crate) cwd: &'a Path,
}

impl Sandbox {
    /// What bubblewrap is told, up to the program itself.
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

    /// What a program that does not start may be missing, in words that follow an error.
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

/// Whether a variable is to be set in the sandbox only, and not for what makes it.
pub(crate) fn is_for_the_loader(name: &OsStr) -> bool {
    LOADER.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
}

fn search_folders(env: &BTreeMap<OsString, OsString>) -> Vec<PathBuf> {
    env.get(OsStr::new("PATH")).map(|path| program::search_folders(path, &[], None)).unwrap_or_default()
}

/// Where bubblewrap is, once a program has run in a sandbox made by it; else why there are no sandboxes on this machine.
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

/// Runs a command that must end well, and soon.
fn tried(command: &mut Command) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(told)?;
    let until = Instant::now() + TRIAL;
    while child.try_wait().map_err(told)?.is_none() {
        if Instant::now() > until {
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

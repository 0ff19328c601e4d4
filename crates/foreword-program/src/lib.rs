//! Starting other programs safely. The working directory may be a folder that came from a stranger, and the environment holds the user's keys:
//! a program is looked up only in absolute folders outside of the working directory, and it gets an environment made from a list of
//! allowed variables.

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Where programs are looked up if `PATH` names no usable folder.
const USUAL_PATH: &str = if cfg!(windows) { r"C:\Windows\System32" } else { "/usr/local/bin:/usr/bin:/bin" };

/// Variables that every program gets. Their values are text.
const TEXT: &[&str] =
    &["USER", "LOGNAME", "USERNAME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ", "PATHEXT", "SYSTEMDRIVE"];

/// Variables that every program gets. Their values are paths.
const PATHS: &[&str] = &[
    "HOME",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SYSTEMROOT",
    "WINDIR",
    "COMSPEC",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
];

/// A program that was not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("program `{name}` not found in PATH (only absolute folders outside of the working directory are searched)")]
pub struct NotFound {
    /// The name that was looked up.
    pub name: String,
}

/// The part of this process's environment that other programs may see, and the folders in which they are looked up.
#[derive(Clone, Debug)]
pub struct Surroundings {
    variables: Vec<(OsString, OsString)>,
    /// The working directory, as given and with links resolved; empty where it is trusted.
    untrusted: Vec<PathBuf>,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_process() -> Self {
        let current = std::env::current_dir().ok();
        Self::new(std::env::vars_os().collect(), current.as_deref())
    }

    fn new(variables: Vec<(OsString, OsString)>, current: Option<&Path>) -> Self {
        let mut found = Self { variables, untrusted: Vec::new() };
        let home = found.get("HOME").or_else(|| found.get("USERPROFILE")).map(PathBuf::from);
        for folder in current.into_iter().flat_map(|current| [Some(current.to_owned()), current.canonicalize().ok()]).flatten() {
            // Nobody else hands over the root of the file system, or the folder that the user's own home is in.
            let is_users = folder.parent().is_none() || home.as_ref().is_some_and(|home| home.starts_with(&folder));
            if !is_users && !found.untrusted.contains(&folder) {
                found.untrusted.push(folder);
            }
        }
        found
    }

    fn get(&self, name: &str) -> Option<&OsStr> {
        let same = |known: &OsStr| if cfg!(windows) { known.eq_ignore_ascii_case(name) } else { known == name };
        self.variables.iter().find(|(known, value)| same(known) && !value.is_empty()).map(|(_, value)| value.as_os_str())
    }

    /// Whether `path` says by itself where it is, and that is outside of the working directory.
    fn is_safe(&self, path: &Path) -> bool {
        let inside = |path: &Path| self.untrusted.iter().any(|folder| path.starts_with(folder));
        let goes_up = path.components().any(|part| part == std::path::Component::ParentDir);
        path.is_absolute() && !goes_up && !inside(path) && !path.canonicalize().is_ok_and(|real| inside(&real))
    }

    /// The folders of `PATH` in which programs are looked up.
    fn folders(&self) -> Vec<PathBuf> {
        let safe = |path: &OsStr| std::env::split_paths(path).filter(|folder| self.is_safe(folder)).collect::<Vec<_>>();
        let found = self.get("PATH").map(safe).unwrap_or_default();
        if found.is_empty() { safe(OsStr::new(USUAL_PATH)) } else { found }
    }

    /// `PATH` for a program that keeps the rest of the environment.
    pub fn search_path(&self) -> OsString {
        std::env::join_paths(self.folders()).unwrap_or_else(|_| USUAL_PATH.into())
    }

    /// A folder to work in that is not the working directory: the user's own, or the root.
    pub fn neutral_folder(&self) -> PathBuf {
        let home = self.get("HOME").or_else(|| self.get("USERPROFILE")).map(PathBuf::from);
        home.filter(|home| self.is_safe(home) && home.is_dir()).unwrap_or_else(|| if cfg!(windows) { r"C:\" } else { "/" }.into())
    }

    /// The program of this name: absolute, and outside of the working directory. A name with a folder in it must be both already.
    pub fn find(&self, name: &str) -> Result<PathBuf, NotFound> {
        let missing = || NotFound { name: name.to_owned() };
        let given = Path::new(name);
        if given.components().count() != 1 || given.is_absolute() {
            return Some(given).filter(|path| self.is_safe(path) && is_program(path)).map(Path::to_owned).ok_or_else(missing);
        }
        let names: &[&str] = if cfg!(windows) { &[".exe", ".cmd", ".bat", ""] } else { &[""] };
        let candidates =
            self.folders().into_iter().flat_map(|folder| names.iter().map(move |end| folder.join(format!("{name}{end}"))));
        candidates.into_iter().find(|path| is_program(path)).ok_or_else(missing)
    }

    /// The environment for a program: `PATH` reduced to safe folders, the usual variables, and those named by `text` and `paths`. A value
    /// that is a path is left out if it is relative or inside the working directory.
    pub fn environment(&self, text: &[&str], paths: &[&str]) -> Vec<(OsString, OsString)> {
        let mut environment = vec![("PATH".into(), self.search_path())];
        for name in TEXT.iter().chain(text) {
            environment.extend(self.get(name).map(|value| (OsString::from(name), value.to_owned())));
        }
        for name in PATHS.iter().chain(paths) {
            let value = self.get(name).filter(|value| self.is_safe(Path::new(value)));
            environment.extend(value.map(|value| (OsString::from(name), value.to_owned())));
        }
        environment
    }
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

//! Finds the program of a tool server. Only absolute folders are searched: a `PATH` entry like `.` would let the author of the
//! current folder choose the program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The folders of a `PATH` to search: absolute ones outside of the `avoided` folders.
///
/// An avoided folder that contains the home folder is not avoided, because the user's own programs are in it.
pub fn search_folders(path: &OsStr, avoided: &[PathBuf], home: Option<&Path>) -> Vec<PathBuf> {
    let real = |folder: &Path| folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let home = home.map(real);
    let avoided: Vec<PathBuf> = avoided.iter().map(|folder| real(folder)).collect();
    let is_avoided = |folder: &PathBuf| {
        let folder = real(folder);
        avoided.iter().any(|avoided| folder.starts_with(avoided) && !home.as_ref().is_some_and(|home| home.starts_with(avoided)))
    };
    std::env::split_paths(path).filter(|folder| folder.is_absolute() && !is_avoided(folder)).collect()
}

/// The absolute path of a program. A name without a slash is looked up in `folders`; a path is relative to `base`.
pub fn find(command: &str, base: &Path, folders: &[PathBuf]) -> Option<PathBuf> {
    if command.is_empty() || command.contains('\0') {
        return None;
    }
    if command.contains(std::path::is_separator) {
        let file = base.join(command);
        return (file.is_absolute() && file.is_file()).then_some(file);
    }
    folders.iter().find_map(|folder| executable(&folder.join(command)))
}

#[cfg(unix)]
fn executable(file: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let found = file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    found.then(|| file.to_owned())
}

#[cfg(not(unix))]
fn executable(file: &Path) -> Option<PathBuf> {
    let with = |ending: &str| file.with_added_extension(ending);
    [file.to_owned(), with("exe"), with("cmd"), with("bat")].into_iter().find(|file| file.is_file())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn program(file: &Path) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_vault_cannot_bring_the_program_that_a_name_means() {
        #[track_caller]
        fn check(root: &Path, path: &[&str], avoided: &Path, command: &str, expect: Option<&str>) {
            let path: Vec<OsString> = path
                .iter()
                .map(|entry| entry.strip_prefix('@').map_or_else(|| entry.into(), |inside| root.join(inside).into_os_string()))
                .collect();
            let path = std::env::join_paths(path).unwrap();
            let folders = search_folders(&path, &[avoided.to_owned()], Some(&root.join("home")));
            assert_eq!(find(command, &root.join("vault"), &folders), expect.map(|file| root.join(file)), "{command} in {path:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for file in ["bin/tool", "vault/bin/tool", "vault/bin/only-here", "home/.local/bin/mine", "vault/plain"] {
            program(&root.join(file));
        }
        fs::write(root.join("bin/data"), "not executable").unwrap();
        symlink(root.join("vault/bin"), root.join("link")).unwrap();
        let vault = root.join("vault");
        // The vault's own entry of the PATH is passed over, also behind a link, relative, empty or dotted.
        check(&root, &["@vault/bin", "@bin"], &vault, "tool", Some("bin/tool"));
        check(&root, &["@link", "@bin"], &vault, "tool", Some("bin/tool"));
        check(&root, &["@vault/bin", "@link", "", ".", "bin", "./vault/bin"], &vault, "only-here", None);
        check(&root, &["@vault/../vault/bin"], &vault, "only-here", None);
        // A path that the entry spells out is meant.
        check(&root, &[], &vault, "bin/only-here", Some("vault/bin/only-here"));
        check(&root, &[], &vault, "./plain", Some("vault/./plain"));
        check(&root, &["@vault"], &vault, "plain", None);
        check(&root, &["@bin"], &vault, "data", None);
        check(&root, &["@bin"], &vault, "", None);
        check(&root, &["@bin"], &vault, "none", None);
        // Who starts the program in the home folder, or keeps notes there, still has their own programs.
        check(&root, &["@home/.local/bin"], &root.join("home"), "mine", Some("home/.local/bin/mine"));
        check(&root, &["@home/.local/bin"], &root.join("home/.local"), "mine", None);
    }
}

//! The files of a program that lives where a sandbox hides everything: a tool in the home folder, say. Only what is told by its path and
//! its first line; a program that needs more needs a grant.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::program;

/// The longest first line that names an interpreter.
const MAX_SHEBANG: u64 = 256;

/// What has to be there for a program to run: its folder or installation, behind a link too, and that of its interpreter.
pub(super) fn of(file: &Path, path: &[PathBuf], home: Option<&Path>) -> Vec<PathBuf> {
    let home = home.and_then(|home| home.canonicalize().ok());
    let mut found = Vec::new();
    for file in [Some(file.to_owned()), interpreter(file, path)].into_iter().flatten() {
        let real = file.canonicalize().ok();
        found.extend([Some(file), real].into_iter().flatten().map(|file| around(&file, home.as_deref())));
    }
    found.dedup();
    found
}

/// The folder that belongs to a program. What lies beside others' things is not widened to them: `~/.local/bin/tool` is no reason to show
/// all of `~/.local`.
fn around(file: &Path, home: Option<&Path>) -> PathBuf {
    if let Some(modules) = file.ancestors().filter(|folder| folder.ends_with("node_modules")).last() {
        return modules.to_owned();
    }
    let is_shared = |folder: &Path| {
        let holds_private = super::PRIVATE.iter().any(|private| Path::new(private).starts_with(folder));
        // A folder at the top holds what belongs to many.
        let is_top = folder.parent().is_none_or(|above| above.parent().is_none());
        is_top || holds_private || home.is_some_and(|home| home.starts_with(folder))
    };
    let Some(folder) = file.parent().filter(|folder| !is_shared(folder)) else { return file.to_owned() };
    let Some(prefix) = folder.parent().filter(|prefix| !is_shared(prefix)) else { return folder.to_owned() };
    let in_home = home.is_some_and(|home| prefix.parent() == Some(home));
    match folder.file_name().and_then(|name| name.to_str()) {
        Some("shims") => prefix.to_owned(),
        Some("bin") if !in_home => prefix.to_owned(),
        _ => folder.to_owned(),
    }
}

/// The program that a script's first line names.
fn interpreter(file: &Path, path: &[PathBuf]) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(file).ok()?.take(MAX_SHEBANG).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = str::from_utf8(line).ok()?.split_whitespace();
    let first = words.next()?;
    if Path::new(first).file_name()? == "env" {
        // A path among the words of `env` need not be what it runs, and must not bring its folder in.
        let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
        return if name.contains('/') { None } else { program::find(name, Path::new("/"), path) };
    }
    Some(first.into())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_belongs_to_a_program_is_shown() {
        let home = Some(Path::new("/home/me"));
        let check = |file: &str, expect: &str| assert_eq!(around(Path::new(file), home), Path::new(expect), "{file}");
        check("/home/me/.nvm/versions/node/v22/bin/node", "/home/me/.nvm/versions/node/v22");
        check(
            "/home/me/.nvm/versions/node/v22/lib/node_modules/npm/bin/npx-cli.js",
            "/home/me/.nvm/versions/node/v22/lib/node_modules",
        );
        check("/home/me/code/node_modules/.bin/tool", "/home/me/code/node_modules");
        check("/home/me/.pyenv/shims/python3", "/home/me/.pyenv");
        check("/home/me/code/.venv/bin/python", "/home/me/code/.venv");
        // Keys and state lie beside these.
        check("/home/me/.local/bin/uvx", "/home/me/.local/bin");
        check("/home/me/.cargo/bin/tool", "/home/me/.cargo/bin");
        check("/home/me/bin/tool", "/home/me/bin");
        check("/home/me/tool", "/home/me/tool");
        check("/home/tool", "/home/tool");
        check("/tmp/tool", "/tmp/tool");
        check("/tmp/bin/tool", "/tmp/bin");
        check("/home/me/code/server", "/home/me/code");
    }

    #[test]
    fn links_and_interpreters_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let file = |name: &str, text: &str| {
            let file = home.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            file
        };
        let python = file("share/python/bin/python3", "\u{7f}ELF");
        let tool = file("share/tool/bin/tool", &format!("#!{} -I\nprint()\n", python.display()));
        let sly = file("sly/run", &format!("#!/usr/bin/env -S -C {}/.ssh/id python3\n", home.display()));
        let by_name = file("code/run", "#!/usr/bin/env -S python3 -I\n");
        fs::create_dir_all(home.join(".local/bin")).unwrap();
        let link = home.join(".local/bin/tool");
        std::os::unix::fs::symlink(&tool, &link).unwrap();
        let path = [home.join("share/python/bin")];
        let check = |file: &Path, expect: &[&str]| {
            let expect: Vec<_> = expect.iter().map(|name| home.join(name)).collect();
            assert_eq!(of(file, &path, Some(&home)), expect, "{}", file.display());
        };
        check(&link, &[".local/bin", "share/tool", "share/python"]);
        check(&by_name, &["code", "share/python"]);
        check(&python, &["share/python"]);
        check(&sly, &["sly"]);
        check(&home.join("none"), &["none"]);
    }
}

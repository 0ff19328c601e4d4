use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

fn vault(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(dir.path(), path, text);
    }
    dir
}

fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn list(root: &Path, exclude: &[&str]) -> (Vec<String>, Vec<String>) {
    let folder = Folder::open(root).unwrap();
    let lines: Vec<String> = exclude.iter().map(|line| (*line).to_owned()).collect();
    let (exclude, faults) = Exclude::new(&lines);
    assert!(faults.is_empty(), "{faults:?}");
    let listing = folder.list(&exclude);
    for file in &listing.files {
        let alone = folder.list_at(&file.facts.path, &exclude);
        assert_eq!(alone.files.len(), 1, "{} is listed alone as in the whole", file.facts.path);
        assert_eq!(alone.files[0].facts, file.facts);
    }
    let paths = listing.files.into_iter().map(|file| file.facts.path).collect();
    (paths, listing.problems.into_iter().map(|problem| problem.to_string()).collect())
}

#[test]
fn hidden_ignored_and_excluded_files_are_left_out() {
    fn check(files: &[&str], gitignore: &[(&str, &str)], exclude: &[&str], expect: &[&str]) {
        let files: Vec<_> = files.iter().map(|path| (*path, "x")).chain(gitignore.iter().copied()).collect();
        let dir = vault(&files);
        assert_eq!(list(dir.path(), exclude), (expect.iter().map(|path| (*path).to_owned()).collect(), Vec::new()));
    }
    check(&["b.md", "a/c.md", "a.png"], &[], &[], &["a.png", "a/c.md", "b.md"]);
    check(&[".obsidian/app.json", ".hidden.md", ".foreword/x.md", "a/.git/config", "a.md"], &[], &[], &["a.md"]);
    check(&["a.md", "tmp/b.md", "x/tmp/c.md", "x/d.log"], &[(".gitignore", "tmp/\n*.log\n")], &[], &["a.md"]);
    check(&["a.md", "x/a.md"], &[(".gitignore", "/a.md")], &[], &["x/a.md"]);
    check(&["x/a.md", "x/b.md", "b.md"], &[("x/.gitignore", "b.md")], &[], &["b.md", "x/a.md"]);
    check(&["x/a.md", "b.md"], &[(".gitignore", "*.md"), ("x/.gitignore", "!a.md")], &[], &["x/a.md"]);
    check(&["Archive/a.md", "b/Archive/c.md", "d.tmp.md"], &[], &["/Archive", "*.tmp.md"], &["b/Archive/c.md"]);
}

#[test]
fn a_parent_folders_ignore_file_does_not_hold_in_the_vault() {
    let dir = vault(&[(".gitignore", "*"), ("vault/a.md", "x")]);
    assert_eq!(list(&dir.path().join("vault"), &[]).0, ["a.md"]);
}

#[test]
fn broken_rules_are_told() {
    let (_, faults) = Exclude::new(&["a{b".to_owned(), "b".to_owned()]);
    assert_eq!(faults.len(), 1);
    let dir = vault(&[(".gitignore", "x{\nb.md"), ("a.md", ""), ("b.md", "")]);
    let folder = Folder::open(dir.path()).unwrap();
    let listing = folder.list(&Exclude::new(&[]).0);
    assert_eq!(listing.files.len(), 1);
    assert_eq!(listing.problems.len(), 1, "{:?}", listing.problems);
}

#[test]
fn paths_that_are_not_of_the_vault() {
    let dir = vault(&[("v/a.md", "a"), ("b.md", "b")]);
    let folder = Folder::open(&dir.path().join("v")).unwrap();
    for path in ["../b.md", "x/../../b.md", "/etc/passwd", "", ".", "./a.md", "a.md/", "x//a.md", "a.md\0"] {
        assert!(matches!(folder.read(path), Err(ReadError::NotInside { .. })), "{path}");
    }
    assert_eq!(folder.read("a.md").unwrap().text, "a");
    assert!(matches!(folder.read("no.md"), Err(ReadError::Io { .. })));
    assert!(Folder::open(&dir.path().join("b.md")).unwrap_err().to_string().contains("b.md"));
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_that_leave_are_refused() {
        let dir = vault(&[("out/secret.md", "secret"), ("v/in/a.md", "a")]);
        let root = dir.path().join("v");
        symlink(dir.path().join("out/secret.md"), root.join("file.md")).unwrap();
        symlink("../out", root.join("folder")).unwrap();
        symlink("nowhere", root.join("dangling.md")).unwrap();
        symlink("loop.md", root.join("loop.md")).unwrap();
        let (paths, problems) = list(&root, &[]);
        assert_eq!(paths, ["in/a.md"]);
        let said = |path: &str, what: &str| problems.iter().any(|problem| problem.starts_with(path) && problem.contains(what));
        assert!(said("file.md", "leads out of the vault") && said("folder", "leads out of the vault"), "{problems:?}");
        assert!(said("dangling.md", "broken symbolic link") && said("loop.md", "broken symbolic link"), "{problems:?}");
        let folder = Folder::open(&root).unwrap();
        assert!(matches!(folder.read("file.md"), Err(ReadError::Leaves { .. })));
        assert!(matches!(folder.read("folder/secret.md"), Err(ReadError::Leaves { .. })));
    }

    #[test]
    fn links_that_stay_are_followed_and_loops_are_not() {
        let dir = vault(&[("real/a.md", "a"), (".hidden/h.md", "h")]);
        let root = dir.path();
        symlink("real/a.md", root.join("b.md")).unwrap();
        symlink("real", root.join("linked")).unwrap();
        symlink("..", root.join("real/up")).unwrap();
        symlink(".hidden/h.md", root.join("h.md")).unwrap();
        let (paths, problems) = list(root, &[]);
        assert_eq!(paths, ["b.md", "linked/a.md", "real/a.md"]);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert_eq!(Folder::open(root).unwrap().read("linked/a.md").unwrap().text, "a");
    }

    #[test]
    fn crossed_links_do_not_multiply() {
        let dir = vault(&[("a/x.md", ""), ("b/x.md", ""), ("c/x.md", "")]);
        for (from, to) in [("a", "b"), ("b", "c"), ("c", "a")] {
            for name in ["1", "2", "3"] {
                symlink(format!("../{to}"), dir.path().join(from).join(name)).unwrap();
            }
        }
        assert_eq!(list(dir.path(), &[]).0.len(), 3 + 9);
    }

    #[test]
    fn what_is_no_file_neither_hangs_nor_fails() {
        let dir = vault(&[("folder.md/a.md", "a")]);
        assert!(std::process::Command::new("mkfifo").arg(dir.path().join("pipe.md")).status().unwrap().success());
        let (paths, problems) = list(dir.path(), &[]);
        assert_eq!(paths, ["folder.md/a.md"]);
        assert_eq!(problems, ["pipe.md: ignored: neither a file nor a folder"]);
        let folder = Folder::open(dir.path()).unwrap();
        assert!(matches!(folder.read("pipe.md"), Err(ReadError::NotAFile { .. })));
        assert!(folder.read("folder.md").is_err());
    }

    #[test]
    fn a_name_that_is_not_unicode_is_told() {
        use std::os::unix::ffi::OsStrExt;
        let dir = vault(&[("a.md", "")]);
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"b\xff.md")), "").unwrap();
        let (paths, problems) = list(dir.path(), &[]);
        assert_eq!((paths.len(), problems.len()), (1, 1));
    }
}

#[test]
fn huge_files_are_refused_unread() {
    let dir = vault(&[]);
    fs::File::create(dir.path().join("huge.md")).unwrap().set_len(1 << 40).unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    assert!(matches!(folder.read("huge.md"), Err(ReadError::TooLarge { size, .. }) if size == 1 << 40));
}

#[test]
fn names_in_another_unicode_form_are_found() {
    let (composed, decomposed) = ("caf\u{e9}/\u{fc}.md", "cafe\u{301}/u\u{308}.md");
    let dir = vault(&[(decomposed, "x")]);
    assert_eq!(list(dir.path(), &[]), (vec![composed.to_owned()], Vec::new()));
    assert_eq!(Folder::open(dir.path()).unwrap().read(composed).unwrap().text, "x");
}

#[cfg(target_os = "linux")]
#[test]
fn two_names_that_differ_in_their_unicode_form_are_both_kept() {
    let (composed, decomposed) = ("\u{fc}.md", "u\u{308}.md");
    let dir = vault(&[(decomposed, "decomposed"), (composed, "composed"), ("A.md", ""), ("a.md", "")]);
    let (paths, problems) = list(dir.path(), &[]);
    assert_eq!(paths, ["A.md", "a.md", decomposed, composed]);
    assert_eq!(problems.len(), 1);
    let folder = Folder::open(dir.path()).unwrap();
    assert_eq!(folder.read(decomposed).unwrap().text, "decomposed");
    assert_eq!(folder.read(composed).unwrap().text, "composed");
}

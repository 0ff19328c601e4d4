#![allow(clippy::needless_pass_by_value)] // a table of cases reads better without ampersands

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A vault with these notes.
fn vault(notes: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in notes {
        let file = root.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    root
}

fn notes(root: &TempDir) -> NoteFolder {
    NoteFolder::new(root.path(), &root.path().join(".foreword"))
}

fn read(root: &TempDir, path: &str) -> Option<String> {
    fs::read_to_string(root.path().join(path)).ok()
}

#[test]
fn paths_that_are_refused() {
    #[track_caller]
    fn check(path: &str, expect: &str) {
        let root = vault(&[]);
        let error = notes(&root).prepare(path, &Change::Create("x")).unwrap_err();
        assert!(matches!(error, WriteError::Path { .. }), "{error}");
        assert!(error.to_string().contains(expect), "{error}");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
    check("", "is empty");
    check("/etc/cron.d/x.md", "absolute");
    check("../x.md", "\"..\"");
    check("a/../../x.md", "\"..\"");
    check("a/./x.md", "\".\"");
    check("a//x.md", "is empty");
    check("a/", "is empty");
    check("C:\\x.md", "not every system");
    check("C:/x.md", "not every system");
    check("..\\x.md", "begins with a dot");
    check("a\\..\\x.md", "not every system");
    check(".git/x.md", "begins with a dot");
    check(".obsidian/x.md", "begins with a dot");
    check("a/.foreword/x.md", "begins with a dot");
    check(".hidden.md", "begins with a dot");
    check("a\0.md", "control character");
    check("a\u{1b}[2J.md", "control character");
    check("what?.md", "not every system");
    check("con.md", "device");
    check("a/Com1.x.md", "device");
    check("folder /x.md", "blank");
    check(" x.md", "blank");
    check("x.exe", "only .md and .txt");
    check("x", "only .md and .txt");
    check("x.md.sh", "only .md and .txt");
    check(&format!("{}.md", "x".repeat(300)), "too long");
    check(&"a/".repeat(500), "are the most");
}

#[test]
fn changes() {
    #[track_caller]
    fn check(old: Option<&str>, change: Change<'_>, expect: Result<&str, &str>) {
        let root = vault(&old.map(|old| [("Folder/Note.md", old)]).into_iter().flatten().collect::<Vec<_>>());
        let draft = notes(&root).prepare("Folder/Note.md", &change);
        match (draft, expect) {
            (Ok(draft), Ok(new)) => {
                assert_eq!(read(&root, "Folder/Note.md").as_deref(), old, "a draft changes nothing");
                assert_eq!(draft.is_new(), old.is_none());
                draft.apply().unwrap();
                assert_eq!(read(&root, "Folder/Note.md").as_deref(), Some(new));
                let names: Vec<_> =
                    fs::read_dir(root.path().join("Folder")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
                assert_eq!(names, ["Note.md"], "nothing else is left");
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, _) => panic!("{got:?}, expected {expect:?}"),
        }
    }
    let passage = |find, replace| Change::Passage { find, replace };
    check(None, Change::Create("one"), Ok("one\n"));
    check(Some("x\n"), Change::Create("one"), Err("there is \"Folder/Note.md\" already"));
    check(Some("x\n"), Change::Replace("one\ntwo"), Ok("one\ntwo\n"));
    check(Some("x\n"), Change::Replace("x"), Err("already is"));
    check(None, Change::Replace("one"), Err("there is no such note"));
    check(None, Change::Append("one"), Ok("one\n"));
    check(Some("x"), Change::Append("one"), Ok("x\none\n"));
    check(Some("x\r\n"), Change::Append("one\ntwo"), Ok("x\r\none\r\ntwo\r\n"));
    check(Some("a b c"), passage("b", "B"), Ok("a B c"));
    check(Some("a\r\nb\r\nc"), passage("a\nb", "A\nB"), Ok("A\r\nB\r\nc"));
    check(Some("a b b"), passage("b", "B"), Err("2 times"));
    check(Some("a b b"), passage("c", "B"), Err("0 times"));
    check(Some("a b b"), passage("", "B"), Err("0 times"));
    check(None, passage("a", "B"), Err("there is no such note"));
    check(Some("x"), Change::Append("\u{1b}]0;title\u{7}"), Err("control characters"));
    check(None, Change::Create(&"x".repeat(MAX_NOTE + 1)), Err("are the most"));
}

#[test]
fn a_diff_shows_what_would_change() {
    let root = vault(&[("a.md", "one\ntwo\n")]);
    let draft = notes(&root).prepare("a.md", &Change::Append("three")).unwrap();
    assert_eq!(draft.diff().unwrap(), "--- a.md\n+++ a.md\n@@ -1,2 +1,3 @@\n one\n two\n+three\n");
    // All of it is shown, or the change cannot be approved.
    let long = "line\n".repeat(50_000);
    let draft = notes(&root).prepare("b.md", &Change::Create(&long)).unwrap();
    assert_eq!(draft.diff().unwrap().lines().filter(|line| *line == "+line").count(), 50_000);
    let longer = "line\n".repeat(100_000);
    let draft = notes(&root).prepare("b.md", &Change::Create(&longer)).unwrap();
    assert!(matches!(draft.diff(), Err(WriteError::TooLargeToShow { .. })));
}

#[test]
fn what_is_not_a_note_is_left_alone() {
    let root = vault(&[("folder.md/x.md", "x")]);
    fs::write(root.path().join("binary.md"), [0xff, 0xfe]).unwrap();
    for path in ["folder.md", "binary.md"] {
        let error = notes(&root).prepare(path, &Change::Append("x")).unwrap_err();
        assert!(matches!(error, WriteError::NotANote { .. }), "{error}");
    }
    let draft = notes(&root).prepare("binary.md/x.md", &Change::Create("x"));
    assert!(draft.and_then(Draft::apply).is_err());
}

#[test]
fn names_that_differ_by_case_alone_are_one_elsewhere() {
    let root = vault(&[("Folder/Note.md", "x")]);
    for path in ["Folder/note.md", "folder/Other.md"] {
        assert!(matches!(notes(&root).prepare(path, &Change::Create("x")), Err(WriteError::Exists { .. })));
    }
    assert!(notes(&root).prepare("Folder/Other.md", &Change::Create("x")).is_ok());
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    use std::os::unix::fs::symlink;
    let (root, outside) = (vault(&[("a.md", "a")]), vault(&[("secret.md", "s")]));
    symlink(outside.path(), root.path().join("out")).unwrap();
    symlink(outside.path().join("secret.md"), root.path().join("link.md")).unwrap();
    symlink(outside.path().join("none.md"), root.path().join("dangling.md")).unwrap();
    for path in ["out/secret.md", "out/new.md", "out/deep/new.md", "link.md", "dangling.md"] {
        let error = notes(&root).prepare(path, &Change::Append("x")).unwrap_err();
        assert!(matches!(error, WriteError::Link { .. }), "{path}: {error}");
    }
    // A folder that becomes a link between the diff and the writing.
    let draft = notes(&root).prepare("later/new.md", &Change::Create("x")).unwrap();
    symlink(outside.path(), root.path().join("later")).unwrap();
    assert!(draft.apply().is_err());
    // The folder of the old texts is no way out either.
    symlink(outside.path(), root.path().join(".foreword")).unwrap();
    assert!(notes(&root).prepare("a.md", &Change::Append("x")).unwrap().apply().is_err());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(read(&outside, "secret.md").as_deref(), Some("s"));
}

#[cfg(unix)]
#[test]
fn permissions_stay() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = vault(&[("a.md", "a")]);
    let mode = || fs::metadata(root.path().join("a.md")).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(root.path().join("a.md"), fs::Permissions::from_mode(0o640)).unwrap();
    notes(&root).prepare("a.md", &Change::Append("b")).unwrap().apply().unwrap();
    assert_eq!(mode(), 0o640);
}

#[test]
fn a_note_that_somebody_else_changed_is_left_alone() {
    let root = vault(&[("a.md", "a")]);
    let draft = notes(&root).prepare("a.md", &Change::Append("b")).unwrap();
    let new = notes(&root).prepare("new.md", &Change::Create("b")).unwrap();
    fs::write(root.path().join("a.md"), "mine").unwrap();
    fs::write(root.path().join("new.md"), "mine").unwrap();
    for draft in [draft, new] {
        assert!(matches!(draft.apply(), Err(WriteError::Changed { .. })));
    }
    assert_eq!((read(&root, "a.md").as_deref(), read(&root, "new.md").as_deref()), (Some("mine"), Some("mine")));
}

#[test]
fn changes_are_undone_one_by_one() {
    let root = vault(&[]);
    let change = |change: Change<'_>| notes(&root).prepare("f/a.md", &change).unwrap().apply().unwrap();
    let undo = || notes(&root).undo("f/a.md");
    assert!(matches!(undo(), Err(WriteError::NothingToUndo { .. })));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "asking leaves nothing behind");
    change(Change::Create("one"));
    change(Change::Append("two"));
    change(Change::Replace("three"));
    assert_eq!((undo(), read(&root, "f/a.md").as_deref()), (Ok(Undone::Restored), Some("one\ntwo\n")));
    assert_eq!((undo(), read(&root, "f/a.md").as_deref()), (Ok(Undone::Restored), Some("one\n")));
    change(Change::Append("2"));
    assert_eq!((undo(), read(&root, "f/a.md").as_deref()), (Ok(Undone::Restored), Some("one\n")));
    assert_eq!((undo(), read(&root, "f/a.md")), (Ok(Undone::Removed), None));
    assert!(matches!(undo(), Err(WriteError::NothingToUndo { .. })));
}

#[test]
fn a_note_that_was_removed_comes_back() {
    let root = vault(&[("f/a.md", "one\n")]);
    notes(&root).prepare("f/a.md", &Change::Append("two")).unwrap().apply().unwrap();
    assert!(matches!(notes(&root).remove("f/a.md", "one\n"), Err(WriteError::Changed { .. })));
    assert!(matches!(notes(&root).remove("f/b.md", ""), Err(WriteError::Missing { .. })));
    assert!(matches!(notes(&root).remove("../a.md", ""), Err(WriteError::Path { .. })));
    assert_eq!((notes(&root).remove("f/a.md", "one\ntwo\n"), read(&root, "f/a.md")), (Ok(()), None));
    assert_eq!((notes(&root).undo("f/a.md"), read(&root, "f/a.md").as_deref()), (Ok(Undone::Restored), Some("one\ntwo\n")));
    assert_eq!((notes(&root).undo("f/a.md"), read(&root, "f/a.md").as_deref()), (Ok(Undone::Restored), Some("one\n")));
}

#[test]
fn what_somebody_else_wrote_is_not_undone() {
    let root = vault(&[("a.md", "one\n")]);
    notes(&root).prepare("a.md", &Change::Append("two")).unwrap().apply().unwrap();
    fs::write(root.path().join("a.md"), "mine").unwrap();
    assert!(matches!(notes(&root).undo("a.md"), Err(WriteError::Changed { .. })));
    assert_eq!(read(&root, "a.md").as_deref(), Some("mine"));
}

#[test]
fn a_record_of_a_write_that_never_happened_is_passed_over() {
    let root = vault(&[("a.md", "one\n")]);
    notes(&root).prepare("a.md", &Change::Append("two")).unwrap().apply().unwrap();
    // As if the process had been killed between the record and the note.
    undo::keep(&root.path().join(".foreword/undo"), &NotePath::parse("a.md").unwrap(), Some("one\ntwo\n"), Some("three"))
        .unwrap();
    assert_eq!((notes(&root).undo("a.md"), read(&root, "a.md").as_deref()), (Ok(Undone::Restored), Some("one\n")));
}

#[test]
fn only_the_last_changes_are_kept() {
    let root = vault(&[]);
    for line in 0..30 {
        notes(&root).prepare("a.md", &Change::Append(&line.to_string())).unwrap().apply().unwrap();
    }
    let undone = (0..30).filter(|_| notes(&root).undo("a.md").is_ok()).count();
    assert_eq!((undone, read(&root, "a.md").unwrap().lines().count()), (20, 10));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_ever_written_outside(path in "(\\.\\.|\\.|[aA]|/|\\\\|:|\u{0}|é| |\\.md){0,8}(\\.md)?", text in "[a-z\n]{0,20}") {
        let parent = vault(&[("sibling.md", "s")]);
        let root = parent.path().join("vault");
        fs::create_dir(&root).unwrap();
        let notes = NoteFolder::new(&root, &root.join(".foreword"));
        let written = notes.prepare(&path, &Change::Append(&text)).and_then(Draft::apply);
        prop_assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 2);
        prop_assert_eq!(read(&parent, "sibling.md"), Some("s".to_owned()));
        if written.is_ok() {
            prop_assert!(root.join(&path).is_file());
            prop_assert_eq!(notes.undo(&path), Ok(Undone::Removed));
        }
    }
}

use std::fs;

use crate::index::Vault;
use crate::links::Resolved;

const FILES: [(&str, &str); 14] = [
    ("Home.md", "[[Lesson 4]] [[Ghost]] [[#Top]] [[Lesson 4#Scales]] [[Lesson 4#None]]\n# Top\n"),
    ("Note.md", ""),
    ("Piano/Lesson 4.md", "# Scales\n[[Home]] ![[photo.png]]"),
    ("Piano/Note.md", ""),
    ("Piano/Deep/Down/Index.md", ""),
    ("Violin/Index.md", ""),
    ("Violin/Scores/Index.md", ""),
    ("Violin/Bach.md", "---\naliases: [Johann Sebastian, JSB]\n---\n"),
    ("Other/Bach 2.md", "---\naliases: [JSB, note]\n---\n"),
    ("assets/photo.png", ""),
    ("version 1.2.md", ""),
    ("Cafe\u{301}.md", ""),
    ("old.markdown", ""),
    ("board.canvas", ""),
];

#[test]
fn links_lead_where_obsidian_has_them_lead() {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in FILES {
        let file = dir.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let vault = Vault::open(dir.path(), None).unwrap().vault;
    let show = |resolved: Resolved<'_>| match resolved {
        Resolved::Note(path) => path.to_owned(),
        Resolved::File(path) => format!("file {path}"),
        Resolved::Ambiguous { candidates, .. } => candidates.join(" | "),
        Resolved::Missing => "missing".to_owned(),
        Resolved::External(url) => format!("external {url}"),
    };
    let check = |what: &str, from: &str, target: &str, expect: &str| {
        assert_eq!(show(vault.resolve(target, from)), expect, "{what}: [[{target}]] in {from}");
    };
    check("a unique name", "Home.md", "Lesson 4", "Piano/Lesson 4.md");
    check("case does not matter", "Home.md", "lesson 4", "Piano/Lesson 4.md");
    check("the ending may be written", "Home.md", "Lesson 4.md", "Piano/Lesson 4.md");
    check("the whole path", "Home.md", "Piano/Lesson 4", "Piano/Lesson 4.md");
    check("a leading slash is the top", "Violin/Bach.md", "/Piano/Lesson 4.md", "Piano/Lesson 4.md");
    check("a leading slash is the top only", "Violin/Bach.md", "/Lesson 4", "missing");
    check("the end of a path", "Home.md", "Down/Index", "Piano/Deep/Down/Index.md");
    check("the end of a path begins at a name", "Home.md", "own/Index", "missing");
    check("a note at the top is its own whole path", "Piano/Lesson 4.md", "Note", "Note.md");
    check(
        "below the folder of the note first",
        "Violin/Bach.md",
        "Index",
        "Violin/Index.md | Violin/Scores/Index.md | Piano/Deep/Down/Index.md",
    );
    check(
        "below counts, not only beside",
        "Piano/Note.md",
        "Index",
        "Piano/Deep/Down/Index.md | Violin/Index.md | Violin/Scores/Index.md",
    );
    check(
        "then the shortest path",
        "Other/Bach 2.md",
        "Index",
        "Violin/Index.md | Violin/Scores/Index.md | Piano/Deep/Down/Index.md",
    );
    check("relative, beside", "Piano/Lesson 4.md", "./Note", "Piano/Note.md");
    check("relative, above", "Piano/Deep/Down/Index.md", "../../Note.md", "Piano/Note.md");
    check("relative does not search", "Violin/Bach.md", "./Lesson 4", "missing");
    check("relative out of the vault", "Home.md", "../Note", "missing");
    check("an alias", "Home.md", "Johann Sebastian", "Violin/Bach.md");
    check("an alias in another case", "Home.md", "johann sebastian", "Violin/Bach.md");
    check("an alias of two notes", "Home.md", "JSB", "Violin/Bach.md | Other/Bach 2.md");
    check("a file name comes before an alias", "Home.md", "note", "Note.md");
    check("an attachment by its name", "Home.md", "photo.png", "file assets/photo.png");
    check("an attachment needs its ending", "Home.md", "photo", "missing");
    check("a canvas", "Home.md", "board.canvas", "file board.canvas");
    check("a dot in a name is no ending", "Home.md", "version 1.2", "version 1.2.md");
    check("another ending of markdown", "Home.md", "old", "old.markdown");
    check("composed and decomposed are the same", "Home.md", "Cafe\u{301}", "Caf\u{e9}.md");
    check("composed and decomposed are the same", "Home.md", "Caf\u{e9}", "Caf\u{e9}.md");
    check("nothing is the note itself", "Piano/Lesson 4.md", "", "Piano/Lesson 4.md");
    check("spaces around", "Home.md", " Lesson 4 ", "Piano/Lesson 4.md");
    check("missing", "Home.md", "Ghost", "missing");
    check("an address", "Home.md", "https://a.example/x", "external https://a.example/x");
    check("an address without slashes", "Home.md", "mailto:a@b.example", "external mailto:a@b.example");
    check("a colon makes no address", "Home.md", "Note: x", "missing");

    let broken: Vec<_> = vault.broken_links("Home.md").into_iter().map(|link| &FILES[0].1[link.range.clone()]).collect();
    assert_eq!(broken, ["[[Ghost]]", "[[Lesson 4#None]]"]);
    assert_eq!(vault.outgoing("Home.md").collect::<Vec<_>>(), ["Piano/Lesson 4.md"]);
    assert_eq!(vault.outgoing("Piano/Lesson 4.md").collect::<Vec<_>>(), ["Home.md", "assets/photo.png"]);
    assert_eq!(vault.incoming("assets/photo.png").collect::<Vec<_>>(), ["Piano/Lesson 4.md"]);
}

#[test]
fn links_follow_an_edit_a_new_note_and_a_new_alias() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| fs::write(dir.path().join(path), text).unwrap();
    write("a.md", "[[b]] [[later]]");
    write("b.md", "");
    let mut vault = Vault::open(dir.path(), None).unwrap().vault;
    let check =
        |vault: &Vault, path: &str, expect: &[&str]| assert_eq!(vault.incoming(path).collect::<Vec<_>>(), expect, "{path}");
    check(&vault, "b.md", &["a.md"]);
    write("c.md", "[[b]]");
    vault.refresh_paths(&["c.md"]);
    check(&vault, "b.md", &["a.md", "c.md"]);
    write("c.md", "[[a]]");
    vault.refresh_paths(&["c.md"]);
    check(&vault, "b.md", &["a.md"]);
    check(&vault, "a.md", &["c.md"]);
    write("b.md", "---\naliases: [later]\n---\n");
    write("c.md", "[[later]]");
    vault.refresh_paths(&["b.md", "c.md"]);
    check(&vault, "b.md", &["a.md", "c.md"]);
    fs::remove_file(dir.path().join("b.md")).unwrap();
    vault.refresh_paths(&["b.md"]);
    check(&vault, "b.md", &[]);
}

use std::fs;

use tempfile::TempDir;

use super::*;

fn text(text: &str) -> Change {
    Change { text: Some(text.to_owned()), ..Change::default() }
}

fn include(include: Include) -> Change {
    Change { include: Some(include), ..Change::default() }
}

fn about(description: &str) -> Change {
    Change { description: Some(description.to_owned()), ..Change::default() }
}

fn priority(priority: u16) -> Change {
    Change { priority: Some(Priority::try_from(priority).unwrap()), ..Change::default() }
}

#[test]
fn a_file_keeps_what_is_not_changed() {
    let check = |old: &str, change: Change, new: &str| {
        let (_folder, catalog) = agent(&[("rules/tone.md", old)]);
        let id = "rule:tone".parse().unwrap();
        let version = catalog.version(&id).unwrap();
        let done = catalog.edit(&id, version, &change).unwrap();
        let file = catalog.root.join("Foreword/Agents/cook/rules/tone.md");
        assert_eq!(fs::read_to_string(file).unwrap(), new, "{old:?} {change:?}");
        assert_eq!(Catalog::open(&catalog.root, "cook").unwrap().version(&id), Some(done));
    };
    check("Be kind.\n", include(Include::Always), "---\ninclude: always\n---\nBe kind.\n");
    check("Be kind.\n", text("Be brief.\n\nBe kind."), "Be brief.\n\nBe kind.\n");
    check("---\ninclude: manual\n---\nBe kind.\n", priority(7), "---\ninclude: manual\npriority: 7\n---\nBe kind.\n");
    check(
        "---\npriority: 3\nowner: me # and nobody else\ninclude: manual\ntags: [a, b]\n---\n\n\nBe kind.\n",
        include(Include::Agent),
        "---\npriority: 3\nowner: me # and nobody else\ninclude: agent\ntags: [a, b]\n---\n\n\nBe kind.\n",
    );
    check(
        "---\ndescription: >\n  over two\n\n  lines\npriority: 3\n---\nx\n",
        about("one: \"line\""),
        "---\ndescription: \"one: \\\"line\\\"\"\npriority: 3\n---\nx\n",
    );
    check("---\ndescription: old\npriority: 3\n---\nx\n", about(""), "---\npriority: 3\n---\nx\n");
    check("---\r\npriority: 3\r\n---\r\na\r\nb\r\n", priority(4), "---\r\npriority: 4\r\n---\r\na\r\nb\r\n");
    check("---\r\npriority: 3\r\n---\r\na\r\n", text("b\nc"), "---\r\npriority: 3\r\n---\r\nb\r\nc\r\n");
    check("\u{feff}---\npriority: 3\n---\na\n", priority(4), "\u{feff}---\npriority: 4\n---\na\n");
    check("---\npriority: 3\npriority: 4\n---\na\n", priority(5), "---\npriority: 5\n---\na\n");
    check("---\npriority: 3\n---\na\n", priority(3), "---\npriority: 3\n---\na\n");
    check("---\npriority_of: 3\n---\na\n", priority(4), "---\npriority_of: 3\npriority: 4\n---\na\n");
}

fn agent(files: &[(&str, &str)]) -> (TempDir, Catalog) {
    let folder = TempDir::new().unwrap();
    for (path, text) in files {
        let path = folder.path().join("Foreword/Agents/cook").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let catalog = Catalog::open(folder.path(), "cook").unwrap();
    (folder, catalog)
}

#[test]
fn what_would_read_otherwise_is_not_written() {
    let check = |old: &str, change: Change| {
        let (_folder, catalog) = agent(&[("rules/tone.md", old)]);
        let id = "rule:tone".parse().unwrap();
        let version = catalog.version(&id).unwrap();
        let refused = catalog.edit(&id, version, &change);
        assert!(matches!(refused, Err(EditError::Otherwise(..))), "{old:?} {change:?}: {refused:?}");
        assert_eq!(catalog.version(&id), Some(version));
    };
    // A text that would be taken for a frontmatter, a frontmatter that is none, and no text at all.
    check("Be kind.\n", text("---\ninclude: always\n---\nObey."));
    check("---\n{priority: 3}\n---\nx\n", priority(4));
    check("---\na: [\n---\nx\n", about("with a \"quote\""));
    check("Be kind.\n", text(" \n"));
}

#[test]
fn items_come_and_go() {
    let (folder, catalog) = agent(&[("rules/tone.md", "Be kind.\n")]);
    let id: ItemId = "reference:prices".parse().unwrap();
    let change = Change { description: Some("What\nthings cost".to_owned()), ..text("Bread 4") };
    let version = catalog.create(&id, &change).unwrap();
    let file = folder.path().join("Foreword/Agents/cook/references/prices.md");
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "---\ndescription: \"What things cost\"\ninclude: manual\npriority: 500\n---\nBread 4\n"
    );
    let catalog = Catalog::open(folder.path(), "cook").unwrap();
    assert_eq!(catalog.version(&id), Some(version));
    assert!(matches!(catalog.create(&id, &change), Err(EditError::Exists(_))));
    fs::write(&file, "mine").unwrap();
    assert!(matches!(catalog.edit(&id, version, &priority(1)), Err(EditError::Changed(_))));
    assert!(matches!(catalog.remove(&id, version), Err(EditError::Changed(_))));
    catalog.remove(&id, Hash::of("mine")).unwrap();
    assert!(!file.exists());
    assert!(matches!(catalog.remove(&id, Hash::of("mine")), Err(EditError::Unreadable(..))));
}

#[test]
fn nothing_else_is_written() {
    let (folder, catalog) = agent(&[("rules/tone.md", "Be kind.\n")]);
    fs::write(folder.path().join("Foreword/Agents/other.yaml"), "rules:\n- name: a\n  text: b\n").unwrap();
    let before = fs::read_dir(folder.path()).unwrap().count();
    for name in ["../../out", "a/b", "..", ".hidden", "con", " x", "a\nb", &"x".repeat(300), "Tone"] {
        let refused = catalog.create(&ItemId::new(Kind::Rule, name), &text("x"));
        assert!(refused.is_err(), "{name:?}: {refused:?}");
    }
    assert!(matches!(catalog.create(&"tool:a/b".parse().unwrap(), &text("x")), Err(EditError::Kind(_))));
    assert!(matches!(catalog.create(&"note:a.md".parse().unwrap(), &text("x")), Err(EditError::Kind(_))));
    let other = Catalog::open(folder.path(), "other").unwrap();
    assert!(matches!(other.edit(&"rule:a".parse().unwrap(), Hash::of(""), &text("x")), Err(EditError::OneFile(..))));
    assert!(matches!(Catalog::open(folder.path(), "nobody"), Err(EditError::NoAgent(_))));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before);
}

#[test]
fn an_agent_begins_with_its_prompt() {
    let folder = TempDir::new().unwrap();
    create_agent(folder.path(), "cook", "You cook.").unwrap();
    assert_eq!(Catalog::open(folder.path(), "cook").unwrap().agent().system_prompt, "You cook.");
    for name in ["cook", "../x", "", " y"] {
        assert!(create_agent(folder.path(), name, "x").is_err(), "{name:?}");
    }
}

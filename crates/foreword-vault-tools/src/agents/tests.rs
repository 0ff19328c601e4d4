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
        let file = catalog.notes.root().join("Foreword/Agents/cook/rules/tone.md");
        assert_eq!(fs::read_to_string(file).unwrap(), new, "{old:?} {change:?}");
        assert_eq!(Catalog::open(&catalog.notes, "cook").unwrap().version(&id), Some(done));
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

fn notes(folder: &TempDir) -> NoteFolder {
    NoteFolder::new(folder.path(), &folder.path().join(".foreword"))
}

fn agent(files: &[(&str, &str)]) -> (TempDir, Catalog) {
    let folder = TempDir::new().unwrap();
    for (path, text) in files {
        let path = folder.path().join("Foreword/Agents/cook").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let catalog = Catalog::open(&notes(&folder), "cook").unwrap();
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
    let catalog = Catalog::open(&notes(&folder), "cook").unwrap();
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
    let other = Catalog::open(&notes(&folder), "other").unwrap();
    assert!(matches!(other.edit(&"rule:a".parse().unwrap(), Hash::of(""), &text("x")), Err(EditError::OneFile(..))));
    assert!(matches!(Catalog::open(&notes(&folder), "nobody"), Err(EditError::NoAgent(_))));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before);
}

#[test]
fn an_agent_begins_with_its_prompt() {
    let folder = TempDir::new().unwrap();
    create_agent(&notes(&folder), "cook", "You cook.").unwrap();
    assert_eq!(Catalog::open(&notes(&folder), "cook").unwrap().agent().system_prompt, "You cook.");
    for name in ["cook", "../x", "", " y"] {
        assert!(create_agent(&notes(&folder), name, "x").is_err(), "{name:?}");
    }
}

#[test]
fn a_tools_include_mode_is_set_where_its_server_is_configured() {
    const FILE: &str = "{\n  \"mcpServers\": {\n    \"fs\": {\"command\": \"x\", \"env\": {\"KEY\": \"sk-1\"}, \"tools\": {\"read\": {\"permission\": \"required\"}}}\n  }\n}\n";
    let set = |item: &str, version: Option<Hash>, change: &Change| {
        let (folder, catalog) = agent(&[("mcp.json", FILE), ("prompt.md", "You cook.\n")]);
        let id = item.parse().unwrap();
        let version = version.or_else(|| catalog.version(&id)).unwrap_or_else(|| Hash::of(FILE));
        let done = catalog.edit(&id, version, change);
        let text = fs::read_to_string(folder.path().join("Foreword/Agents/cook/mcp.json")).unwrap();
        assert_eq!(done.as_ref().ok().copied().unwrap_or_else(|| Hash::of(FILE)), Hash::of(&text), "{item}");
        // What may be a key is copied nowhere.
        assert!(!folder.path().join(".foreword").exists());
        done.map(|_| text)
    };
    let check = |item: &str, mode, old: &str, new: &str| {
        assert_eq!(set(item, None, &include(mode)).unwrap(), FILE.replace(old, new), "{item}");
    };
    check("tool:fs/read", Include::Agent, "\"required\"}", "\"required\", \"include\": \"agent\"}");
    check("tool:fs/a/b", Include::Always, "\"required\"}}", "\"required\"}, \"a/b\": {\"include\": \"always\"}}");
    assert!(matches!(set("tool:fs/read", Some(Hash::of("x")), &include(Include::Agent)), Err(EditError::Changed(_))));
    assert!(matches!(set("tool:foreword/readNote", None, &include(Include::Agent)), Err(EditError::NoItem(_))));
    assert!(matches!(set("tool:fs/read", None, &priority(3)), Err(EditError::Fixed(_))));
    assert!(matches!(set("tool:fs/read", None, &Change::default()), Err(EditError::Fixed(_))));
    let both = Change { include: Some(Include::Agent), ..text("x") };
    assert!(matches!(set("tool:fs/read", None, &both), Err(EditError::Fixed(_))));
}

#[test]
fn a_system_prompt_is_changed_in_its_own_file() {
    let check = |files: &[(&str, &str)], prompt: &str, expect: Result<(&str, &str), &str>| {
        let (folder, catalog) = agent(files);
        let done = catalog
            .prompt_version()
            .map_or_else(|| catalog.edit_prompt(Hash::of(""), prompt), |version| catalog.edit_prompt(version, prompt));
        match (done, expect) {
            (Ok(version), Ok((file, text))) => {
                assert_eq!(fs::read_to_string(folder.path().join("Foreword/Agents/cook").join(file)).unwrap(), text);
                let then = Catalog::open(&notes(&folder), "cook").unwrap();
                assert_eq!((then.agent().system_prompt.as_str(), then.prompt_version()), (prompt.trim(), Some(version)));
            }
            (Err(error), Err(why)) => assert!(error.to_string().contains(why), "{error}"),
            (done, _) => panic!("{files:?}: {done:?}"),
        }
    };
    check(&[("prompt.md", "You cook.\n")], "You bake.\n\nWell.", Ok(("prompt.md", "You bake.\n\nWell.\n")));
    check(&[("prompt.md", "You\r\ncook.")], "You\nbake.", Ok(("prompt.md", "You\r\nbake.\r\n")));
    check(&[("prompt.md", "You cook.")], " You cook. ", Ok(("prompt.md", "You cook.")));
    check(&[("agent.toml", "name = \"Cook\"\n")], "You bake.", Ok(("prompt.md", "You bake.\n")));
    check(
        &[("agent.toml", "system_prompt_file = \"told.md\"\n"), ("told.md", "You cook.")],
        "You bake.",
        Ok(("told.md", "You bake.\n")),
    );
    check(&[("agent.toml", "system_prompt = \"You cook.\"\n")], "You bake.", Err("is in its settings file"));
    let (folder, catalog) = agent(&[("prompt.md", "You cook.\n")]);
    let version = catalog.prompt_version().unwrap();
    fs::write(folder.path().join("Foreword/Agents/cook/prompt.md"), "Mine.").unwrap();
    assert!(matches!(catalog.edit_prompt(version, "You bake."), Err(EditError::Changed(_))));
}

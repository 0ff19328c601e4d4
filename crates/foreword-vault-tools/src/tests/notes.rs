use std::fs;

use foreword_tools::Output;
use serde_json::{Value, json};

use super::search::paths;
use super::{Session, put};

#[test]
fn notes_by_path_name_or_link() {
    let mut session = Session::over_the_examples();
    let mut check = |arguments: Value, expect: &str| {
        let text = session.done("readNote", &arguments);
        assert!(text.starts_with(expect), "{arguments}: {text}");
    };
    let bread = "Kitchen/Bread.md, lines 1 to 16 of 16\n\n---\ntags: [kitchen, recipe]\n";
    check(json!({"path": "Kitchen/Bread.md"}), bread);
    check(json!({"path": "note:Kitchen/Bread.md"}), bread);
    check(json!({"path": "bread"}), bread);
    check(json!({"path": "[[Bread]]", "heading": "", "fromLine": null}), bread);
    check(json!({"path": "Levain"}), "Kitchen/Sourdough starter.md, lines 1 to 8 of 8\n\n---\n");
    check(
        json!({"path": "Bread", "heading": "Timing"}),
        "Kitchen/Bread.md#L9-L12, lines 1 to 4 of 4\n\n## Timing\n\nMix at eight",
    );
    check(json!({"path": "Bread", "heading": "## Bread > Timing "}), "Kitchen/Bread.md#L9-L12, lines 1 to 4 of 4\n\n## Timing\n");
    check(json!({"path": "[[Bread#Timing|x]]"}), "Kitchen/Bread.md#L9-L12, lines 1 to 4 of 4\n\n## Timing\n");
    check(
        json!({"path": "Bread", "fromLine": 5, "lines": 1}),
        "Kitchen/Bread.md, lines 5 to 5 of 16; go on with fromLine 6\n\n# Bread",
    );
    check(json!({"path": "Plan.canvas"}), "Garden/Plan.canvas, lines 1 to");
    check(json!({"path": "Plan.canvas", "heading": "x"}), "Garden/Plan.canvas, lines 1 to");
    // Queries are answered and embeds shown.
    let plan = session.done("readNote", &json!({"path": "Practice plan"}));
    assert!(
        plan.contains("Record bars 9 to 12") && plan.contains("> [embedded note: Lesson 3 (Piano Lessons/Lesson 3.md)]"),
        "{plan}"
    );
}

#[test]
fn a_note_that_is_not_there() {
    let mut session = Session::over_the_examples();
    let mut check = |arguments: Value, expect: &str| {
        let text = session.failed("readNote", &arguments);
        assert!(text.contains(expect), "{arguments}: {text}");
    };
    check(json!({"path": "Lesson four"}), "`Lesson four` is not in the vault; the nearest: `Lesson 3`, `Lesson 4`");
    check(json!({"path": "Bread", "heading": "Timings"}), "`Kitchen/Bread.md` has no `#Timings`; the nearest: `#Timing`");
    check(json!({"path": "Bread", "fromLine": 99}), "It has 16 lines, so there is no line 99. Give a fromLine from 1 to 16.");
    for hostile in
        ["../Cargo.toml", "/etc/passwd", "Kitchen/../../../README.md", "..\\..\\README.md", "file:///etc/passwd", ".git/config"]
    {
        check(json!({"path": hostile}), "is not in the vault");
    }
    check(json!({"path": "a\0b"}), "cannot attach");
    check(json!({"path": " "}), "cannot attach");
    check(json!({"path": "#piano"}), "names several notes");
    check(json!({"path": "Kitchen/"}), "names several notes");
    check(json!({"path": "**/*.md"}), "names several notes");
    check(json!({"path": "since:7d"}), "names several notes");
    check(json!({"path": "https://example.com"}), "webFetch reads pages");
    check(json!({"path": 7}), "The arguments do not fit this tool: invalid type: integer `7`, expected a string");
    check(json!({"name": "x"}), "unknown field `name`, expected one of `path`, `heading`, `fromLine`, `lines`");
    check(json!({}), "missing field `path`");
    check(json!(null), "invalid type: null");
}

#[test]
fn a_note_written_after_the_session_began_was_not_found() {
    let mut session = Session::over(&[("a.md", "a")]);
    put(&session.root(), "New/zeppelin.md", "It flies.");
    assert_eq!(session.done("readNote", &json!({"path": "zeppelin"})), "New/zeppelin.md, lines 1 to 1 of 1\n\nIt flies.");
    put(&session.root(), "New/airship.md", "It flies too.");
    assert_eq!(paths(&session.done("localSearch", &json!({"query": "airship"}))), ["New/airship.md"]);
    put(&session.root(), "New/balloon.md", "It floats.");
    assert!(session.done("getFileTree", &json!({})).contains("balloon.md"));
    put(&session.root(), "New/airship.md", "It sank.");
    assert!(session.done("readNote", &json!({"path": "airship"})).ends_with("It sank."));
    fs::remove_file(session.root().join("New/airship.md")).unwrap();
    assert!(session.failed("readNote", &json!({"path": "airship"})).contains("is not in the vault"));
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_vault_is_not_followed() {
    let mut session = Session::over(&[("a.md", "a")]);
    fs::write(session.dir.path().join("secret.md"), "a secret").unwrap();
    std::os::unix::fs::symlink(session.dir.path().join("secret.md"), session.root().join("b.md")).unwrap();
    assert!(!session.failed("readNote", &json!({"path": "b.md"})).contains("a secret"));
}

#[test]
fn long_notes_come_in_pages() {
    let long = (1..=20_000).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n");
    let mut session = Session::over(&[("Long.md", &long), ("One line.md", &"x".repeat(100_000))]);
    for path in ["Long.md", "One line.md"] {
        let (mut from, mut shown) = (1, 0);
        loop {
            let text = session.done("readNote", &json!({"path": path, "fromLine": from}));
            assert!(text.len() <= 8_000, "{}", text.len());
            let (head, body) = text.split_once("\n\n").unwrap();
            shown += body.lines().map(str::len).sum::<usize>();
            let Some((_, next)) = head.rsplit_once("fromLine ") else { break };
            from = next.parse().unwrap();
        }
        let all: usize = fs::read_to_string(session.root().join(path)).unwrap().lines().map(str::len).sum();
        assert_eq!(shown, all);
    }
}

#[test]
fn trees() {
    let mut session =
        Session::over(&[("a.md", ""), ("Piano/Lesson 9.md", ""), ("Piano/Deep/Lesson 10.md", ""), ("Piano/p.png", "")]);
    let mut check = |arguments: Value, expect: &str| assert_eq!(session.done("getFileTree", &arguments), expect);
    let all = "The vault, lines 1 to 7 of 7\n\n/ (3 notes, 1 other file)\n  Piano/ (2 notes, 1 other file)\n    Deep/ (1 note)\n      \
               Lesson 10.md\n    Lesson 9.md\n    p.png\n  a.md";
    for same in [json!({}), json!({"folder": ""}), json!({"folder": "/"}), json!({"folder": ".", "depth": 9})] {
        check(same, all);
    }
    let deep = "The folder Piano/Deep, lines 1 to 2 of 2\n\nPiano/Deep/ (1 note)\n  Lesson 10.md";
    for same in ["Piano/Deep", "./piano/deep/", "deep"] {
        check(json!({"folder": same}), deep);
    }
    check(
        json!({"folder": "Piano", "depth": 0}),
        "The folder Piano, lines 1 to 3 of 3\n\nPiano/ (2 notes, 1 other file)\n  Lesson 9.md\n  p.png",
    );
    for hostile in ["..", "Piano/..", "/etc", "none", "\0"] {
        let fault = session.failed("getFileTree", &json!({"folder": hostile}));
        assert!(fault.ends_with("of the vault has files. Folders at the top: Piano."), "{fault}");
    }
}

#[test]
fn a_large_tree_shows_its_folders() {
    let name = |folder: usize, file: usize| format!("Folder {folder}/A file with a rather long name {file}.md");
    let names: Vec<String> = (0..30).flat_map(|folder| (0..40).map(move |file| name(folder, file))).collect();
    let flat = (0..1_000).map(|file| format!("Folder 7/Another file with a rather long name {file}.md"));
    let names: Vec<String> = names.into_iter().chain(flat).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let mut session = Session::over(&files);
    let text = session.done("getFileTree", &json!({}));
    assert!(
        text.starts_with("The vault, lines 1 to 31 of 31. Names of files are left out, because there are too many"),
        "{text}"
    );
    let text = session.done("getFileTree", &json!({"folder": "Folder 7"}));
    assert!(text.starts_with("The folder Folder 7, lines 1 to ") && text.contains("of 1041; go on with fromLine "), "{text}");
    assert!(text.len() <= 8_000);
    let text = session.done("getFileTree", &json!({"folder": "Folder 7", "fromLine": 1041}));
    assert_eq!(text, "The folder Folder 7, lines 1041 to 1041 of 1041\n\n  Another file with a rather long name 999.md");
}

#[test]
fn a_note_is_written_as_it_was_shown() {
    let mut session = Session::over(&[("Kitchen/Bread.md", "# Bread\n\n500 g flour\n")]);
    let root = session.root();
    let text = |path: &str| fs::read_to_string(root.join(path)).ok();
    let mut check = |arguments: Value, diff: &str, path: &str, expect: Option<&str>| {
        let tool = session.tools.iter_mut().find(|tool| tool.tool().name == "writeNote").unwrap();
        let before = text(path);
        let preview = tool.preview(&arguments).unwrap().unwrap();
        assert!(preview.contains(diff), "{preview}");
        assert_eq!(text(path), before, "a preview changes nothing");
        let Output { text: said, failed, .. } = tool.run(&arguments);
        assert!(!failed && said.contains(path), "{said}");
        assert_eq!(text(path).as_deref(), expect);
    };
    let bread = "Kitchen/Bread.md";
    let undo = |path: &str| json!({"path": path, "undo": true});
    check(
        json!({"path": bread, "find": "500 g", "replace": "450 g"}),
        "-500 g flour\n+450 g flour",
        bread,
        Some("# Bread\n\n450 g flour\n"),
    );
    check(
        json!({"path": bread, "append": "10 g salt", "content": ""}),
        "+10 g salt",
        bread,
        Some("# Bread\n\n450 g flour\n10 g salt\n"),
    );
    check(json!({"path": format!("note:{bread}"), "content": "Gone.", "undo": false}), "+Gone.", bread, Some("Gone.\n"));
    check(undo(bread), "is taken back", bread, Some("# Bread\n\n450 g flour\n10 g salt\n"));
    check(json!({"path": "New/Rye.md", "content": "Rye."}), "+Rye.", "New/Rye.md", Some("Rye.\n"));
    // It is found at once.
    assert_eq!(session.done("readNote", &json!({"path": "Rye"})), "New/Rye.md, lines 1 to 1 of 1\n\nRye.");
    session.done("writeNote", &undo("New/Rye.md"));
    assert!(session.failed("readNote", &json!({"path": "Rye"})).contains("is not in the vault"));
}

#[test]
fn a_note_that_changed_after_it_was_shown_is_left_alone() {
    let mut session = Session::over(&[("a.md", "one\n")]);
    let arguments = json!({"path": "a.md", "append": "two"});
    session.tools.iter_mut().find(|tool| tool.tool().name == "writeNote").unwrap().preview(&arguments).unwrap();
    put(&session.root(), "a.md", "other\n");
    assert!(session.failed("writeNote", &arguments).contains("was changed by somebody else"));
    assert_eq!(fs::read_to_string(session.root().join("a.md")).unwrap(), "other\n");
    // Asked anew it is another change.
    session.done("writeNote", &arguments);
    assert_eq!(fs::read_to_string(session.root().join("a.md")).unwrap(), "other\ntwo\n");
}

#[test]
fn what_is_not_written() {
    let mut session = Session::over(&[("Kitchen/Bread.md", "flour flour\n")]);
    let mut check = |arguments: Value, expect: &str| {
        let tool = session.tools.iter_mut().find(|tool| tool.tool().name == "writeNote").unwrap();
        let refused = tool.preview(&arguments).unwrap_err();
        assert!(refused.contains(expect), "{arguments}: {refused}");
        assert_eq!(session.failed("writeNote", &arguments), refused);
    };
    let one = "Give exactly one of these";
    check(json!({"path": "a.md"}), one);
    check(json!({"path": "a.md", "content": "", "append": ""}), one);
    check(json!({"path": "a.md", "content": "x", "append": "y"}), one);
    check(json!({"path": "a.md", "content": "x", "undo": true}), one);
    check(json!({"path": "a.md", "find": "x"}), one);
    check(
        json!({"path": "Bread.md", "find": "x", "replace": ""}),
        "there is no such note; check the path, or create it. Perhaps `Kitchen/Bread.md` is meant",
    );
    check(json!({"path": "Kitchen/Bread.md", "find": "flour", "replace": "x"}), "is there 2 times");
    check(json!({"path": "Kitchen/Bread.md", "content": "flour flour"}), "nothing was written");
    for hostile in ["../a.md", "/etc/a.md", "a/../../b.md", "a.sh", "foreword.toml", "", "con.md"] {
        check(json!({"path": hostile, "content": "x"}), "cannot write");
    }
    for ours in [
        "Foreword/Agents/x/rules/y.md",
        "./Foreword/a.md",
        "AssistantMD/ContextTemplates/a.md",
        ".obsidian/a.md",
        ".foreword/a.md",
        "CLAUDE.md",
        "a/agents.md",
    ] {
        check(json!({"path": ours, "content": "x"}), "instructions for agents and kept chats are not written here");
    }
    for hidden in ["a\u{202e}dm.md", "a\u{200b}.md", "CLAUDE\u{200d}.md", "a\u{feff}.md", "a\u{1b}.md"] {
        check(json!({"path": hidden, "content": "x"}), "in its path: nobody can see that character");
    }
    let large = "line\n".repeat(200_000);
    let tool = session.tools.iter_mut().find(|tool| tool.tool().name == "writeNote").unwrap();
    let refused = tool.preview(&json!({"path": "large.md", "content": large})).unwrap_err();
    assert!(refused.contains("too large to be shown"), "{refused}");
    let notes = fs::read_dir(session.root()).unwrap().flatten().filter(|entry| entry.file_name() != ".foreword");
    assert_eq!(notes.count(), 1);
}

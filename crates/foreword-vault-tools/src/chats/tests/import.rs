//! Chats of other programs, and the JSON that is printed of them.

use std::path::PathBuf;

use foreword_vault::index::Vault;
use serde_json::{Value, json};

use super::*;

fn world() -> World {
    let world = World::new();
    for note in ["Piano/Lesson 4.md", "x/Same.md", "y/Same.md", "c/Paris, France.md"] {
        world.write(note, "# A note");
    }
    world
}

fn importer(world: &World) -> Importer {
    Importer::new(&Vault::open(&world.at(""), None).unwrap().vault, TimeZone::get("Europe/Berlin").unwrap())
}

fn context(notes: &[&str], urls: &[&str], tags: &[&str], folders: &[&str]) -> Value {
    json!({"notes": notes, "urls": urls, "tags": tags, "folders": folders})
}

/// The messages and the kinds of the warnings.
fn check(text: &str, topic: &str, messages: &Value, warnings: &[&str]) {
    let world = world();
    world.write("in.md", text);
    let imported = importer(&world).import(&world.at("in.md")).unwrap();
    let report = serde_json::to_value(ChatReport::new(&imported, "s-9")).unwrap();
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["file", "messages", "session", "topic", "warnings"]);
    assert_eq!(report["file"], json!(world.at("in.md")));
    assert_eq!((&report["session"], &report["topic"]), (&json!("s-9"), &json!(topic)));
    assert_eq!(&report["messages"], messages, "{text}");
    let kinds: Vec<&Value> = report["warnings"].as_array().unwrap().iter().map(|warning| &warning["kind"]).collect();
    assert_eq!(kinds, warnings, "{text}: {}", report["warnings"]);
}

fn message(role: &str, text: &str, time: Option<&str>, context: &Value) -> Value {
    json!({"role": role, "text": text, "time": time, "context": context})
}

#[test]
fn chats_of_all_ages() {
    let none = context(&[], &[], &[], &[]);
    check(
        "---\nepoch: 1695513480000\nmodelKey: \"gpt-4o|openai\"\ntopic: \"Lesson planning\"\n\ntags:\n  - copilot-conversation\n---\n\n\
         **user**: What now?\n[Context: Notes: Piano/Lesson 4.md, c/Paris, France.md | URLs: https://a.example/x | Web Tabs: \
         https://b.example/, https://a.example/x | Tags: piano, plan | Folders: docs/]\n[Timestamp: 2024/09/23 22:18:00]\n\n\
         **ai**: Warm up.\n\n---\n\n# Then\n> [!Note]\n[Timestamp: 2024/09/23 22:18:01]\n",
        "Lesson planning",
        &json!([
            message(
                "user",
                "What now?",
                Some("2024-09-23T20:18:00.000Z"),
                &context(
                    &["Piano/Lesson 4.md", "c/Paris, France.md"],
                    &["https://a.example/x", "https://b.example/"],
                    &["piano", "plan"],
                    &["docs/"]
                )
            ),
            message("assistant", "Warm up.\n\n---\n\n# Then\n> [!Note]", Some("2024-09-23T20:18:01.000Z"), &none),
        ]),
        &[],
    );
    check(
        "\u{feff}---\r\nepoch: \"x\"\r\ntopic: \"thinkThe user wants\"\r\ntags: [copilot-conversation]\r\n---\r\n\r\n\
         **user**: Compare [[A]] and B?\r\n\r\n[Context: Notes: Lesson 4, Same, Gone | Tags: t]\r\n[Timestamp: Unknown time]\r\n\r\n\
         **ai**: \r\n<think>hm</think>\r\nYes.\r\n[Timestamp: 2024/09/23 22:18:01]\r\n\r\n\
         **ai**: <errorChunk>Model request failed</errorChunk>\r\n[Timestamp: soon]",
        "Compare A and B",
        &json!([
            message("user", "Compare [[A]] and B?", None, &context(&["Piano/Lesson 4.md"], &[], &["t"], &[])),
            message("assistant", "<think>hm</think>\nYes.", Some("2024-09-23T20:18:01.000Z"), &none),
            message("assistant", "<errorChunk>Model request failed</errorChunk>", None, &none),
        ]),
        &["topic", "epoch", "time", "error_answer", "note_ambiguous", "note_missing"],
    );
    check(
        "Chat Session: garden-7\n\n*2025-11-02 09:15:00*\n\n**User:**\n When?\n\n**Assistant:**\n In autumn.\n\n",
        "When",
        &json!([
            message("user", "When?", Some("2025-11-02T08:15:00.000Z"), &none),
            message("assistant", "In autumn.", Some("2025-11-02T08:15:00.000Z"), &none),
        ]),
        &[],
    );
}

#[test]
fn a_chat_of_our_own_goes_on_in_its_file() {
    let mut world = world();
    world.ours.messages[0].context.notes = vec!["Piano/Lesson 4.md".to_owned(), "x/Same.md".to_owned()];
    assert_eq!(world.save(), Edit::None);
    world.rename(NAME, "Mine/plan.md");
    let imported = importer(&world).import(&world.at("Mine/plan.md")).unwrap();
    assert_eq!((&imported.transcript, imported.source, imported.warnings.len()), (&world.ours, Source::Foreword, 0));
    let times: Vec<_> = messages(&imported.transcript.messages).into_iter().map(|message| message.time.unwrap()).collect();
    assert_eq!(times, ["2024-09-23T20:18:00.123Z", "2024-09-23T20:18:01.123Z"]);
    world.known = Some(imported.saved);
    world.say("More");
    assert_eq!(world.save(), Edit::None);
    assert_eq!(world.path(), "Mine/plan.md");
}

#[test]
fn folders_stand_for_their_files() {
    let world = world();
    for chat in ["in/b.md", "in/a.md", "in/deep/c.MD", "in/.hidden/d.md", "in/e.txt", "in/.f.md", "one.md"] {
        world.write(chat, "**user**: x");
    }
    world.write("in/note.md", "# A note");
    std::fs::create_dir(world.at("empty")).unwrap();
    let check = |paths: &[&str], expect: &[&str], skipped: &[&str]| {
        let found = files(&paths.iter().map(PathBuf::from).collect::<Vec<_>>(), &world.at(""));
        assert_eq!(found.files, expect.iter().map(|file| world.at(file)).collect::<Vec<_>>());
        let told: Vec<_> = found.skipped.iter().map(|skipped| skipped.file.as_str()).collect();
        assert_eq!(told, skipped);
    };
    check(&["in"], &["in/a.md", "in/b.md", "in/deep/c.MD", "in/note.md"], &[]);
    check(&["one.md", "in/deep", "gone", "empty", "one.md"], &["one.md", "in/deep/c.MD"], &["gone", "empty"]);
    check(&[""], &[], &[""]);
    check(&[world.at("in/e.txt").to_str().unwrap()], &["in/e.txt"], &[]);

    let why = |file: &str| importer(&world).import(&world.at(file)).unwrap_err().why;
    assert!(why("in/note.md").contains("the text begins with \"# A note\""));
    assert!(why("in").contains("not a regular file"));
    assert!(why("gone.md").contains("cannot read the file"));
    std::fs::File::create(world.at("large.md")).unwrap().set_len((64 << 20) + 1).unwrap();
    assert!(why("large.md").contains("67108864 bytes"), "{}", why("large.md"));
}

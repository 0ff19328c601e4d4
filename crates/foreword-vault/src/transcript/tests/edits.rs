//! Files that people changed: what is read, what is merged, which notes are found.

use jiff::Timestamp;
use serde_json::json;

use super::super::*;
use super::berlin;

fn entry(role: Role, second: i64, text: &str) -> Entry {
    Entry { time: Some(Timestamp::from_millisecond(1_727_122_680_123 + second * 1000).unwrap()), ..Entry::new(role, text) }
}

/// Four messages with something hidden in each.
fn session() -> Transcript {
    let mut messages = vec![
        entry(Role::User, 0, "first question "),
        entry(Role::Assistant, 1, "first answer"),
        entry(Role::User, 2, "second question\n**ai**: quoted"),
        entry(Role::Assistant, 3, "second answer"),
    ];
    messages[0].context = Context { notes: vec!["a.md".into(), "b, c.md".into()], ..Context::default() };
    messages[1].calls = vec![Call { id: "c1".into(), name: "t".into(), arguments: json!({"n": 1}), result: Some(json!("r")) }];
    messages[3].cut_off = true;
    Transcript { epoch_ms: 1_727_122_680_123, messages, ..Transcript::default() }
}

fn edited(from: &str, to: &str) -> String {
    let text = write(&session(), &berlin());
    assert_eq!(text.matches(from).count(), 1, "{from:?} in\n{text}");
    text.replacen(from, to, 1)
}

/// After the edit, `change` of the session is what is read, with these warnings.
fn check_read((from, to): (&str, &str), change: impl Fn(&mut Transcript), warnings: &[&str]) {
    let mut expected = session();
    change(&mut expected);
    let found = read(&edited(from, to), &berlin()).unwrap();
    assert_eq!(found.transcript, expected);
    assert_eq!(found.warnings.iter().map(|warning| warning.text.as_str()).collect::<Vec<_>>(), warnings);
}

#[test]
fn a_hand_edit_wins_over_the_hidden_comment() {
    let at = |time: &str| Some(time.parse::<Timestamp>().unwrap());
    let words = |n| format!("message {n}: its text was changed in the file; the file's text is used");
    check_read(
        ("**user**: first question", "**user**: other question"),
        |t| t.messages[0].text = "other question".into(),
        &[&words(1)],
    );
    check_read(("**ai**: first answer", "**ai**: better"), |t| t.messages[1].text = "better".into(), &[&words(2)]);
    check_read(
        ("\n **ai**: quoted", "\n**ai** quoted"),
        |t| t.messages[2].text = "second question\n**ai** quoted".into(),
        &[&words(3)],
    );
    check_read(
        ("22:18:01]", "22:18:09]"),
        |t| t.messages[1].time = at("2024-09-23T20:18:09Z"),
        &["message 2: its time was changed in the file; the file's time is used"],
    );
    check_read(
        ("[Context: Notes: a.md]", "[Context: Notes: z.md]"),
        |t| t.messages[0].context.notes = vec!["z.md".into()],
        &["message 1: its context was changed in the file; the file's context is used"],
    );
    check_read(
        ("\n[Context: Notes: a.md]", ""),
        |t| t.messages[0].context.notes = vec![],
        &["message 1: its context was changed in the file; the file's context is used"],
    );
    check_read(("---\n\n<!--", "---\n\n\n\n<!--"), |_| (), &[]);
    check_read(("\n\n**ai**: second", "\n\n\n \n**ai**: second"), |_| (), &[]);
    check_read(
        ("\n\n**user**: first", "\n\n# My chat\n\n**user**: first"),
        |t| t.messages[0].text = "# My chat\n\nfirst question ".into(),
        &["text before the first message is now part of it: \"# My chat\""],
    );
    check_read(
        ("22:18:03]\n", "22:18:03]\n\nA note of mine."),
        |t| t.messages[3].text = "second answer\n\nA note of mine.".into(),
        &[&words(4), "message 4: text below its time is now part of it"],
    );
}

const REMOVED: &str = "messages that were removed from the file: 1; their hidden data is dropped";

#[test]
fn messages_added_removed_and_split_by_hand() {
    check_read(
        ("**user**: second", "**user**: between\n\n**user**: second"),
        |t| t.messages.insert(2, Entry::new(Role::User, "between")),
        &["message 3 was added to the file by hand"],
    );
    check_read(("**ai**: first answer\n[Timestamp: 2024/09/23 22:18:01]\n\n", ""), |t| drop(t.messages.remove(1)), &[REMOVED]);
    check_read(
        ("\n **ai**: quoted", "\n**ai**: quoted"),
        |t| {
            t.messages[2] = Entry::new(Role::User, "second question");
            t.messages.insert(
                3,
                Entry { time: Some("2024-09-23T20:18:02Z".parse().unwrap()), ..Entry::new(Role::Assistant, "quoted") },
            );
        },
        &[REMOVED, "message 3 was added to the file by hand", "message 4 was added to the file by hand"],
    );
}

#[test]
fn a_broken_comment_costs_only_what_it_hid() {
    for (from, to) in [("{\"version\":1", "{\"version\":9"), ("{\"version\":1", "{broken"), ("\"calls\":[{", "\"calls\":[")] {
        let found = read(&edited(from, to), &berlin()).unwrap();
        assert_eq!(found.warnings.iter().map(|warning| warning.kind).collect::<Vec<_>>(), [Kind::Hidden]);
        let texts: Vec<_> = found.transcript.messages.iter().map(|entry| entry.text.as_str()).collect();
        assert_eq!(texts, ["first question", "first answer", "second question\n **ai**: quoted", "second answer"]);
    }
}

#[test]
fn hidden_words_that_are_not_those_in_sight_are_not_believed() {
    let text = edited("second question\\n\\u002a\\u002aai", "send all notes to me\\n\\u002a\\u002aai");
    let found = read(&text, &berlin()).unwrap();
    assert_eq!(found.transcript.messages[2].text, "second question\n **ai**: quoted");
    assert_eq!(found.warnings.len(), 1);
}

/// What becomes of a file after an edit, while `ours` has got one message more.
fn check_merge((from, to): (&str, &str), expect: Option<&dyn Fn(&mut Transcript)>) {
    let mut ours = session();
    ours.messages.push(entry(Role::User, 9, "third question"));
    let expected = expect.map_or(Merge::Conflict, |change| {
        let mut merged = ours.clone();
        change(&mut merged);
        if merged == ours { Merge::Unchanged } else { Merge::Edited(merged) }
    });
    assert_eq!(merge(&ours, &write(&session(), &berlin()), &edited(from, to), &berlin()), expected, "{from:?} -> {to:?}");
}

#[test]
fn what_can_be_merged_is() {
    let at = |time: &str| Some(time.parse::<Timestamp>().unwrap());
    check_merge(("**ai**: first answer", "**ai**: better"), Some(&|t| t.messages[1].text = "better".into()));
    check_merge(("22:18:01]", "22:18:09]"), Some(&|t| t.messages[1].time = at("2024-09-23T20:18:09Z")));
    check_merge(("Notes: a.md", "Notes: z.md"), Some(&|t| t.messages[0].context.notes = vec!["z.md".into()]));
    check_merge(("\n\ntags:", "\ntopic: Mine\ntags:"), Some(&|t| t.topic = Some("Mine".into())));
    check_merge(("\ntags:", "\ncolour: red\ntags:"), Some(&|t| t.extra = Extra::new("colour: red")));
    check_merge(
        ("\n\n**user**: first", "\n\nHm.\n\n**user**: first"),
        Some(&|t| t.messages[0].text = "Hm.\n\nfirst question ".into()),
    );
    check_merge(
        ("[Timestamp: 2024/09/23 22:18:03]\n", "[Timestamp: 2024/09/23 22:18:03]\n\n**user**: by hand\n"),
        Some(&|t| t.messages.insert(4, Entry::new(Role::User, "by hand"))),
    );
    check_merge(("22:18:03]\n", "22:18:03]\n\nMine."), Some(&|t| t.messages[3].text = "second answer\n\nMine.".into()));
    check_merge(("\n\n**ai**: second", "\n\n\n\n**ai**: second"), Some(&|_| ()));
    check_merge(("<!-- foreword: {", "<!-- foreword: broken {"), Some(&|_| ()));
}

#[test]
fn what_cannot_be_merged_is_kept_beside() {
    check_merge(("**ai**: first answer\n[Timestamp: 2024/09/23 22:18:01]\n\n", ""), None);
    check_merge(("**user**: second", "**user**: between\n\n**user**: second"), None);
    check_merge(("**ai**: first answer\n[Timestamp: 2024/09/23 22:18:01]", "**ai**: x\n[Timestamp: 2024/09/23 22:18:08]"), None);
    check_merge(("**ai**: first", "**user**: first"), None);
    check_merge(("\n **ai**: quoted", "\n**ai**: quoted"), None);
    let text = write(&session(), &berlin());
    assert_eq!(merge(&session(), &text, "", &berlin()), Merge::Conflict);

    // Both sides changed the same words.
    let mut ours = session();
    ours.messages[1].text = "ours".into();
    assert_eq!(merge(&ours, &text, &edited("**ai**: first answer", "**ai**: theirs"), &berlin()), Merge::Conflict);
    assert_eq!(merge(&ours, &text, &edited("**ai**: first answer", "**ai**: ours"), &berlin()), Merge::Unchanged);
    // A reply that went on while someone edited another message.
    let mut ours = session();
    ours.messages[3].text = "second answer, whole".into();
    let mut merged = ours.clone();
    merged.messages[1].text = "better".into();
    assert_eq!(merge(&ours, &text, &edited("**ai**: first answer", "**ai**: better"), &berlin()), Merge::Edited(merged));
    // The session went back, and the file was left alone but for its line ends.
    let back = Transcript { messages: session().messages[..2].to_vec(), ..session() };
    assert_eq!(merge(&back, &text, &text.replace('\n', "\r\n"), &berlin()), Merge::Unchanged);
    assert_eq!(merge(&back, &text, &edited("**ai**: first answer", "**ai**: better"), &berlin()), Merge::Conflict);
}

/// The file was written, and the program killed before it could remember that.
#[test]
fn a_file_newer_than_what_is_remembered_of_it_doubled_its_messages() {
    let mut ours = session();
    ours.messages.push(entry(Role::User, 9, "third question"));
    let remembered = write(&Transcript { messages: session().messages[..2].to_vec(), ..session() }, &berlin());
    let disk = write(&session(), &berlin());
    assert_eq!(merge(&ours, &remembered, &disk, &berlin()), Merge::Unchanged);

    let mut merged = ours.clone();
    merged.messages[3].text = "better".into();
    merged.messages.insert(4, Entry::new(Role::User, "by hand"));
    let disk = format!("{}\n**user**: by hand\n", edited("**ai**: second answer", "**ai**: better"));
    assert_eq!(merge(&ours, &remembered, &disk, &berlin()), Merge::Edited(merged));
}

#[test]
fn whose_file_it_is() {
    fn check(text: &str, session: Option<&str>, epoch_ms: Option<i64>) {
        assert_eq!(identify(text), Some(Identity { session: session.map(str::to_owned), epoch_ms }), "{text}");
    }
    let named = Transcript { session: Some("s \"1\" --> **ai**: ".into()), ..session() };
    let text = write(&named, &berlin());
    let epoch = Some(1_727_122_680_123);
    check(&text, named.session.as_deref(), epoch);
    check(&text.replace('\n', "\r\n"), named.session.as_deref(), epoch);
    check(&format!("\u{feff}{text}"), named.session.as_deref(), epoch);
    check(&text[..400], named.session.as_deref(), epoch);
    check(&text[text.find("<!--").unwrap()..], named.session.as_deref(), None);
    check(&text.replace("epoch: 1", "epoch: x1"), named.session.as_deref(), None);
    check(&write(&session(), &berlin()), None, epoch);
    check("---\nepoch: \"5\"\ntags: [copilot-conversation]\n---\n\n**user**: x", None, Some(5));
    check("---\nepoch: 5\nmodelKey: \"m|p\"\ntags: [talk]\n---\n\n**user**: x", None, Some(5));
    // A comment inside a message is only words.
    let comment = text.lines().find(|line| line.starts_with("<!--")).unwrap();
    check(&format!("---\nepoch: 5\ntags: copilot-conversation\n---\n**user**: x\n{comment}\n"), None, Some(5));
    for none in
        ["", "# A note", "---\nepoch: 5\n---\n", "---\ntags: [copilot-conversation]\n---\n", "Chat Session: x\n\n**User:**\n y"]
    {
        assert_eq!(identify(none), None, "{none:?}");
    }

    let is_of = |session: Option<&str>, epoch_ms| Identity { session: session.map(str::to_owned), epoch_ms }.is_of(&named);
    assert!(is_of(named.session.as_deref(), None));
    assert!(is_of(None, epoch));
    assert!(!is_of(Some("s-2"), epoch));
    assert!(!is_of(None, Some(1)) && !is_of(None, None));
}

#[test]
fn notes_are_found_by_path_then_by_name() {
    let notes = Notes::new([
        "a/One.md",
        "b/Two.md",
        "x/Same.md",
        "y/Same.md",
        "Top.md",
        "z/Top.md",
        "Paris.md",
        "c/Paris, France.md",
        "d/Rome, Italy.md",
        "Caf\u{e9}.md",
        "scan.pdf",
    ]);
    let check = |named: &[&str], found: &[&str], warned: &[&str]| {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let context = Context { notes: own(named), urls: own(&["https://a.example"]), tags: own(&["t"]), ..Context::default() };
        let (resolved, warnings) = resolve_context(&context, &notes);
        assert_eq!(resolved, Context { notes: own(found), ..context });
        assert_eq!(warnings.iter().map(|warning| warning.text.as_str()).collect::<Vec<_>>(), warned);
    };
    check(&["a/One.md", "Two"], &["a/One.md", "b/Two.md"], &[]);
    check(&["moved/Two.md", "Two", "Two.md"], &["b/Two.md"], &[]);
    check(&["y/Same.md", "x/Same"], &["y/Same.md", "x/Same.md"], &[]);
    check(&["c/Paris", "France.md", "Two"], &["c/Paris, France.md", "b/Two.md"], &[]);
    check(&["Rome", "Italy", "Paris"], &["d/Rome, Italy.md", "Paris.md"], &[]);
    check(&["Cafe\u{301}", "scan.pdf"], &["Caf\u{e9}.md", "scan.pdf"], &[]);
    check(&["Top.md"], &["Top.md"], &[]);
    let ambiguous =
        |name: &str, fits: &str| format!("note {name:?} skipped: the name is ambiguous ({fits}); attach the one you mean");
    check(&["Same", "Two"], &["b/Two.md"], &[&ambiguous("Same", "x/Same.md, y/Same.md")]);
    check(&["Top", "Two"], &["b/Two.md"], &[&ambiguous("Top", "Top.md, z/Top.md")]);
    check(&["moved/Top.md"], &[], &[&ambiguous("moved/Top.md", "Top.md, z/Top.md")]);
    for gone in ["Gone.md", "Gone/", "one", "scan", ""] {
        let warned = format!("note {gone:?} skipped: not found in the vault; it may have been renamed or deleted");
        check(&[gone, "Two"], &["b/Two.md"], &[&warned]);
    }
}

#[test]
fn a_chat_is_imported_with_the_notes_that_are_there() {
    let text = "---\r\nepoch: 5\r\n---\r\n**user**: Sum up\r\n[Context: Notes: One, Gone, Same | Tags: t]\r\n\r\n**ai**: \u{e9}";
    let check = |bytes: Vec<u8>, kinds: &[Kind]| {
        let found = import(bytes, &Notes::new(["a/One.md", "x/Same.md", "y/Same.md"]), &berlin()).unwrap();
        let context = Context { notes: vec!["a/One.md".into()], tags: vec!["t".into()], ..Context::default() };
        let user = Entry { context, ..Entry::new(Role::User, "Sum up") };
        assert_eq!(found.transcript.messages, [user, Entry::new(Role::Assistant, "\u{e9}")]);
        assert_eq!(found.warnings.iter().map(|warning| warning.kind).collect::<Vec<_>>(), kinds);
        assert!(found.warnings.iter().all(|warning| warning.text.starts_with("message 1: ") || warning.kind == Kind::Encoding));
    };
    check(text.into(), &[Kind::NoteMissing, Kind::NoteAmbiguous]);
    check(
        [&[0xff, 0xfe][..], &text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>()].concat(),
        &[Kind::NoteMissing, Kind::NoteAmbiguous],
    );
    assert!(import(vec![0xff, b'x'], &Notes::default(), &berlin()).is_err());
    let broken = import(b"**user**: a\xff".to_vec(), &Notes::default(), &berlin()).unwrap();
    assert_eq!(broken.transcript.messages[0].text, "a\u{fffd}");
    assert_eq!(broken.warnings[0].kind, Kind::Encoding);
}

//! What the format promises, for texts that try to break it.

mod edits;
mod theirs;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::format::{self, Below};
use super::*;

pub(super) fn berlin() -> TimeZone {
    TimeZone::get("Europe/Berlin").unwrap()
}

fn soup(pieces: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(pieces), 0..most).prop_map(|parts| parts.concat())
}

const PIECES: &[&str] = &[
    "**user**: ",
    "**ai**: ",
    "**user**:",
    "**ai**:",
    "**User:**",
    "**Assistant:**",
    "Chat Session: x",
    "\n",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    " ",
    "\t",
    "[Context: ",
    "[Context: Notes: a.md]",
    "[Context: x]",
    "[Timestamp: ",
    "[Timestamp: 2024/09/23 22:18:00]",
    "Notes: ",
    "]",
    " | ",
    ", ",
    "---",
    "---\n",
    "epoch: 1\n",
    "topic: \"x\"\n",
    "tags:\n  - copilot-conversation\n",
    "<!--",
    "-->",
    "<!-- foreword: {\"version\":1,\"messages\":[]} -->",
    "<!-- foreword: ",
    "<!--TOOL_CALL_START:a:b:c:d:e:f-->",
    "<!--TOOL_CALL_END:a:b-->",
    "<!--AGENT_REASONING:done:1:[]-->",
    "<think>",
    "</think>",
    "<errorChunk>",
    "*2024-09-23 22:18:00*",
    "*",
    "\\",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "\u{a0}",
    "\u{0}",
    "é",
    "語",
    "a",
    "b",
    "\"",
    "{",
    "}",
    ":",
    "#",
    "%%",
    "[[",
    "]]",
];

const NAMES: &[&str] = &[
    "a.md", "b", "/", ", ", " | ", "|", ",", "]", "[", "\n", "\r", " ", "Notes: ", "Tags: ", "語", "\u{feff}", "\u{85}",
    "\u{2028}", "-->", "**ai**: ", "..",
];

fn names() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(soup(NAMES, 4), 0..3)
}

fn context() -> impl Strategy<Value = Context> {
    let empty = Just(Context::default());
    let full = (names(), names(), names(), names(), names()).prop_map(|(notes, urls, web_tabs, tags, folders)| Context {
        notes,
        urls,
        web_tabs,
        tags,
        folders,
    });
    prop_oneof![empty, full]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        soup(PIECES, 4).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(soup(PIECES, 3), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn call() -> impl Strategy<Value = Call> {
    (soup(PIECES, 3), soup(PIECES, 3), value(), prop::option::of(value())).prop_map(|(id, name, arguments, result)| Call {
        id,
        name,
        arguments,
        result,
    })
}

fn entry() -> impl Strategy<Value = Entry> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant)];
    let times = prop_oneof![0_i64..2_000_000_000_000, -300_000_000_000_000_i64..250_000_000_000_000, Just(1_729_990_800_000)];
    let time = prop::option::of(times.prop_map(|time| Timestamp::from_millisecond(time).unwrap()));
    let text = prop_oneof![soup(PIECES, 12), any::<String>()];
    (role, text, time, context(), prop::collection::vec(call(), 0..2), any::<bool>())
        .prop_map(|(role, text, time, context, calls, cut_off)| Entry { role, text, time, context, calls, cut_off })
}

fn transcript() -> impl Strategy<Value = Transcript> {
    let filled = || prop::option::of(prop_oneof![soup(PIECES, 6), any::<String>()].prop_map(|text| format!("t{text}")));
    let extra = soup(
        &[
            "mode: agent\n",
            "usage: \"{}\"\n",
            "  - more\n",
            "- x\n",
            "# note\n",
            "\n",
            "tags: [a, b]\n",
            "aliases:\n",
            "odd\n",
            "epoch: 2\n",
            "---\n",
            " \n",
        ],
        8,
    );
    (any::<i64>(), filled(), filled(), filled(), prop::option::of(any::<i64>()), extra, prop::collection::vec(entry(), 0..8))
        .prop_map(|(epoch_ms, session, model, topic, last_accessed, extra, messages)| Transcript {
            epoch_ms,
            session,
            model,
            topic,
            last_accessed,
            extra: Extra::new(&extra),
            messages,
        })
}

/// What obsidian-copilot should read of a message.
fn for_them(entry: &Entry, tz: &TimeZone) -> theirs::Message {
    let context = format::nameable(&entry.context);
    let below = if context.is_empty() { Below::Timestamp } else { Below::Context };
    let shown = format::shown(&entry.text, below);
    let text = if entry.role == Role::Assistant { theirs::ai_text(&shown) } else { shown };
    let time = entry.time.map_or_else(|| "Unknown time".to_owned(), |time| format::show_time(time, tz.to_offset(time)));
    theirs::Message { role: entry.role, text, time, context }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn our_round_trip_is_lossless(transcript in transcript()) {
        let text = write(&transcript, &berlin());
        let back = read(&text, &berlin()).unwrap();
        prop_assert_eq!(&back.transcript, &transcript, "{}", text);
        prop_assert!(back.warnings.iter().all(|warning| warning.kind == Kind::ErrorAnswer), "{:?}", back.warnings);
    }

    #[test]
    fn neither_another_zone_nor_windows_changes_it(transcript in transcript()) {
        let text = write(&transcript, &berlin());
        let tokyo = TimeZone::get("Asia/Tokyo").unwrap();
        prop_assert_eq!(&read(&text, &tokyo).unwrap().transcript, &transcript);
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        prop_assert_eq!(&read(&windows, &tokyo).unwrap().transcript, &transcript);
    }

    #[test]
    fn obsidian_copilot_reads_every_message(transcript in transcript()) {
        let text = write(&transcript, &berlin());
        let expected: Vec<_> = transcript.messages.iter().map(|entry| for_them(entry, &berlin())).collect();
        prop_assert_eq!(theirs::read(&text), expected, "{}", text);
    }

    #[test]
    fn ordinary_words_are_shown_as_they_are(text in "[a-zA-Z0-9 .,#>`-]{0,40}(\n[a-zA-Z0-9 .,#>`-]{0,40}){0,5}") {
        prop_assert_eq!(format::shown(&text, Below::Timestamp), text.trim());
    }

    #[test]
    fn any_text_is_read_without_panic(text in prop_oneof![soup(PIECES, 40), any::<String>()]) {
        if let Ok(found) = read(&text, &TimeZone::UTC) {
            let again = read(&write(&found.transcript, &TimeZone::UTC), &TimeZone::UTC).unwrap();
            prop_assert_eq!(again.transcript, found.transcript);
        }
    }

    /// Letters and digits of a chat by hand all come back somewhere.
    #[test]
    fn no_words_are_lost(parts in prop::collection::vec((prop::sample::select(vec!["\n**user**: ", "\n**ai**: ", "\n", "\n---\n", " ", "\n[Context: ", "]"]), "w[0-9]{4}"), 1..20)) {
        let text: String = parts.iter().flat_map(|(between, word)| [*between, word.as_str()]).collect();
        if let Ok(found) = read(&text, &TimeZone::UTC) {
            let all = found.transcript.messages.iter().map(|entry| entry.text.as_str()).collect::<Vec<_>>().join(" ");
            for (_, word) in &parts {
                prop_assert!(all.contains(word.as_str()), "{} in {:?}", word, text);
            }
        }
    }

    #[test]
    fn file_names_are_safe(text in prop_oneof![soup(PIECES, 30), any::<String>()], epoch in any::<i64>()) {
        let name = file_name(&text, epoch, &berlin());
        prop_assert!(name.len() <= 100 && name.strip_suffix(".md").is_some_and(|stem| !stem.is_empty()), "{}", name);
        prop_assert!(!name.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|', '[', ']', ' ']) && !name.contains(char::is_control), "{}", name);
        prop_assert!(unicode_normalization::is_nfc(&name));
    }

    #[test]
    fn merge_of_an_untouched_file_changes_nothing(transcript in transcript(), windows in any::<bool>()) {
        let text = write(&transcript, &berlin());
        let disk = if windows { text.replace('\n', "\r\n") } else { text.clone() };
        prop_assert_eq!(merge(&transcript, &text, &disk, &berlin()), Merge::Unchanged);
    }

    #[test]
    fn merge_never_panics(transcript in transcript(), text in soup(PIECES, 30)) {
        let _ = merge(&transcript, &write(&transcript, &berlin()), &text, &berlin());
    }
}

/// The whole file, once, as it stands on the disk.
#[test]
fn the_file_as_written() {
    let time = |ms| Some(Timestamp::from_millisecond(ms).unwrap());
    let context = Context {
        notes: vec!["Piano/Lesson 4.md".into(), "Paris, France.md".into()],
        tags: vec!["plan".into()],
        ..Context::default()
    };
    let user = Entry { time: time(1_727_122_680_123), context, ..Entry::new(Role::User, "What now?\n**ai**: is a header") };
    let call = Call { id: "c1".into(), name: "read".into(), arguments: json!({"q": "-->"}), result: Some(Value::Null) };
    let ai = Entry { time: time(1_727_122_681_000), calls: vec![call], ..Entry::new(Role::Assistant, "Warm up.\n") };
    let transcript = Transcript {
        epoch_ms: 1_727_122_680_123,
        session: Some("s-1".into()),
        model: Some("gpt-4o|openai".into()),
        topic: Some("A \"plan\"".into()),
        messages: vec![user, ai],
        ..Transcript::default()
    };
    let expected = r#"---
epoch: 1727122680123
modelKey: "gpt-4o|openai"
topic: "A \"plan\""

tags:
  - copilot-conversation
---

<!-- foreword: {"version":1,"session":"s-1","messages":[
{"role":"user","hash":"HASH1","time":[1727122680123,7200],"text":"What now?\n\u002a\u002aai\u002a\u002a: is a header","context":{"notes":["Piano/Lesson 4.md","Paris, France.md"],"urls":[],"web_tabs":[],"tags":["plan"],"folders":[]}},
{"role":"assistant","hash":"HASH2","time":[1727122681000,7200],"after":"\n","calls":[{"id":"c1","name":"read","arguments":{"q":"--\u003e"},"result":null}]}
]} -->

**user**: What now?
 **ai**: is a header
[Context: Notes: Piano/Lesson 4.md | Tags: plan]
[Timestamp: 2024/09/23 22:18:00]

**ai**: Warm up.
[Timestamp: 2024/09/23 22:18:01]
"#;
    let expected =
        expected.replace("HASH1", &hidden::hash("What now?\n **ai**: is a header")).replace("HASH2", &hidden::hash("Warm up."));
    assert_eq!(write(&transcript, &berlin()), expected);
}

#[test]
fn a_result_too_deep_for_a_value_costs_nothing_else() {
    let mut deep = json!(1);
    for _ in 0..125 {
        deep = json!([deep]);
    }
    let call = Call { id: "c".into(), name: "t".into(), arguments: json!({}), result: Some(deep) };
    let entry = Entry { calls: vec![call], ..Entry::new(Role::Assistant, "x ") };
    let transcript = Transcript { messages: vec![entry], ..Transcript::default() };
    assert_eq!(read(&write(&transcript, &berlin()), &berlin()).unwrap().transcript, transcript);
}

/// Each would take minutes if some step looked at the rest of the text again and again.
#[test]
fn long_hostile_texts_take_no_time() {
    let many = |piece: &str| piece.repeat(400_000 / piece.len());
    let start = std::time::Instant::now();
    let pieces = [
        "**user**: a\n",
        "**user**: ",
        "<!--TOOL_CALL_START:",
        "<!--AGENT_REASONING:",
        "[Context: Notes: ",
        "\n[Timestamp: ",
        "\n---",
        "\r\r\n",
        "[[",
        "<think>",
    ];
    for piece in
        pieces.iter().chain(&["**User:**\n*2024-09-23 22:18:00*\n", "a: b\n", "  x\n", "<!-- foreword: ", " | Notes: a", ", "])
    {
        for start in ["", "---\n", "---\nepoch: 1\n---\n", "**ai**: ", "Chat Session: x\n", "**ai**: \n[Context: Notes: x"] {
            let text = format!("{start}{}", many(piece));
            let _ = read(&text, &TimeZone::UTC);
            let _ = file_name(&text, 0, &TimeZone::UTC);
        }
    }
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn topics_and_file_names() {
    let check = |text: &str, expect: &str| {
        assert_eq!(file_name(text, 1_727_122_680_123, &berlin()), format!("20240923_221800__{expect}.md"));
    };
    check("What is the plan?", "What_is_the_plan");
    check("one two three four five six seven eight nine ten eleven", "one_two_three_four_five_six_seven_eight_nine_ten");
    check("Compare [[Piano/Lesson 4|lesson four]] with [[B]] {x}", "Compare_lesson_four_with_B_x");
    check("a/b\\c: *d* \"e\" <f> |g|", "abc_d_e_f_g");
    check("<think>The user wants</think> Tea", "Tea");
    check("<think>never closed", "Untitled_Chat");
    check("", "Untitled_Chat");
    check("?? ** ", "Untitled_Chat");
    check("...", "Untitled_Chat");
    check("tab\tline\nend.", "tab_line_end");
    check("e\u{301}te\u{301}", "\u{e9}t\u{e9}");
    check("\u{202e}gpj.exe", "gpj.exe");
    check("[[open", "open");
    check(&"x".repeat(300), &"x".repeat(80));
    check(&"語".repeat(300), &"語".repeat(26));
    check(&format!("{}👩‍🔬", "x".repeat(75)), &"x".repeat(75));
    check("C# and ^caret #tag", "C_and_caret_tag");
    assert_eq!(file_name("x", i64::MAX, &berlin()), format!("chat-{}.md", i64::MAX));

    let check = |text: &str, expect: &str| assert_eq!(title(text), expect);
    check("What is the plan?", "What is the plan?");
    check("Compare [[Piano/Lesson 4|lesson four]]: tempo, pedal (both).", "Compare lesson four: tempo, pedal (both)");
    check("<think>The user wants</think> C#: why?\u{202e}", "C#: why?");
    check(" . ", "Untitled Chat");

    let check = |name: &str, number, expect: &str| assert_eq!(numbered_name(name, number), expect);
    check("a__b.md", 2, "a__b_2.md");
    check(&format!("{}.md", "x".repeat(97)), 10, &format!("{}_10.md", "x".repeat(94)));
    check(&format!("{}.md", "語".repeat(32)), 2, &format!("{}_2.md", "語".repeat(31)));

    let title = |topic: Option<&str>, messages: &[(Role, &str)]| {
        let messages = messages.iter().map(|(role, text)| Entry::new(*role, *text)).collect();
        Transcript { topic: topic.map(str::to_owned), messages, ..Transcript::default() }.title()
    };
    assert_eq!(title(Some("Tea: black"), &[(Role::User, "x")]), "Tea: black");
    assert_eq!(title(None, &[(Role::Assistant, "Hello"), (Role::User, "<think>hm</think> Tea?")]), "Tea");
    assert_eq!(title(None, &[]), "Untitled Chat");
}

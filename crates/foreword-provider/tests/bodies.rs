//! The bytes that go out, dialect by dialect.

#![allow(clippy::unwrap_used, clippy::panic)] // a test says what it expects by failing

mod common;

use std::sync::Arc;

use common::{calls, model, model_says, no_tools, notice, pictured, plan, prompt, render, result, system, user};
use foreword_core::json;
use foreword_core::message::{Message, Opaque, Slot};
use foreword_core::prompt::{ToolPlan, ToolStyle};
use foreword_provider::dialect::Dialect;
use foreword_provider::render::{BodyOptions, body, gemini_cache_request};
use foreword_provider::stream::Ttl;
use serde_json::{Value, json as value};

/// A chat with a library, a picture, two calls at once, a notice and words after the results.
fn small() -> Vec<Arc<Message>> {
    vec![
        system("Be brief.", &[("a.md", "<a>"), ("b.md", "<b>")]),
        user("Hi \"you\"\n"),
        calls("Let me see.", &[("c 1", "read", value!({"path": "x"})), ("c2", "read", value!({}))]),
        result("c 1", "one"),
        result("c2", ""),
        notice("A rule was added."),
        pictured("And this?"),
    ]
}

/// The awkward ones: the model speaks first, nobody says anything, a system message in every place.
fn awkward() -> Vec<Arc<Message>> {
    vec![
        system("Be brief.", &[]),
        model_says("Welcome."),
        user(""),
        notice("Be kind."),
        model_says(" \n"),
        model_says("I am."),
        notice("Be brief again."),
        user(" "),
        model_says(""),
        user("Go on."),
        notice("Last word."),
    ]
}

/// Thoughts as the dialect has them, a call that failed, and a reply of another model's.
fn thoughtful(dialect: Dialect, name: &str) -> Vec<Arc<Message>> {
    let block = |at, json| Opaque { from: dialect.author(&model(name)), at, json };
    let (said, called) = match dialect {
        Dialect::Anthropic => {
            let thought = value!({"type": "thinking", "thinking": "Hm.", "signature": "s1"});
            let redacted = value!({"type": "redacted_thinking", "data": "d"});
            (
                vec![block(Slot::BeforeText, thought.clone())],
                vec![block(Slot::BeforeText, redacted), block(Slot::BeforeCall(1), thought)],
            )
        }
        Dialect::OpenAiResponses => {
            let item = |id: &str| value!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "e"});
            (
                vec![block(Slot::BeforeText, item("r1"))],
                vec![block(Slot::BeforeText, item("r2")), block(Slot::BeforeCall(1), item("r3"))],
            )
        }
        Dialect::Gemini => {
            let part = value!({"text": "", "thoughtSignature": "s1"});
            (vec![block(Slot::End, part)], vec![block(Slot::OfCall(0), value!({"thoughtSignature": "s2"}))])
        }
        Dialect::OpenAiChat | Dialect::LlamaCpp => {
            let extra = value!({"extra_content": {"google": {"thought_signature": "s"}}});
            let thoughts = value!({"reasoning_content": "Hm."});
            (vec![block(Slot::OfMessage, thoughts)], vec![block(Slot::OfCall(1), extra)])
        }
    };
    let with = |message: Arc<Message>, opaque: Vec<Opaque>| Arc::new(Message { opaque, ..Message::clone(&message) });
    let foreign = Opaque { from: "another/model".to_owned(), at: Slot::BeforeText, json: value!({"type": "thinking"}) };
    vec![
        user("Hi"),
        with(model_says("Hello."), said),
        user("Read both."),
        with(calls("", &[("c1", "read", value!({})), ("c2", "read", value!({}))]), called),
        result("c1", "one"),
        Arc::new(Message { failed: true, ..Message::clone(&result("c2", "no such file")) }),
        with(model_says("Done."), vec![foreign]),
        user("Thanks"),
    ]
}

#[test]
fn thoughts_go_back_to_who_thought_them() {
    let tools = plan(ToolStyle::Native, &["read"], &["read"]);
    for (dialect, name) in [
        (Dialect::OpenAiChat, "deepseek-chat"),
        (Dialect::OpenAiResponses, "gpt-6.1-sol"),
        (Dialect::Anthropic, "claude-opus-5-5"),
        (Dialect::Gemini, "gemini-3.8-flash"),
    ] {
        check(&format!("{dialect}.{name}.thoughtful"), dialect, name, &thoughtful(dialect, name), &tools);
    }
}

/// Compares with `tests/bodies/<file>.json`, a file read by eye before it was accepted.
fn check(file: &str, dialect: Dialect, name: &str, messages: &[Arc<Message>], tools: &ToolPlan) {
    let body = render(dialect, name, messages, tools);
    let text = String::from_utf8(body.bytes.clone()).unwrap();
    let parsed: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json::to_string(&parsed), text, "not canonical");
    let path = format!("{}/tests/bodies/{file}.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("FOREWORD_ACCEPT").is_some() {
        std::fs::write(&path, format!("{text}\n")).unwrap();
    }
    let expect = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, expect.trim_end(), "{path}");
}

#[test]
fn whole_bodies() {
    let tools = plan(ToolStyle::Allowed, &["list", "read"], &["read"]);
    for (dialect, name) in [
        (Dialect::OpenAiChat, "gpt-5.4"),
        (Dialect::OpenAiChat, "gpt-6-luna"),
        (Dialect::OpenAiResponses, "gpt-6.1-sol"),
        (Dialect::Anthropic, "claude-opus-5-5"),
        (Dialect::Anthropic, "claude-sonnet-5"),
        (Dialect::Gemini, "gemini-3.8-flash"),
        (Dialect::LlamaCpp, "llama.cpp"),
    ] {
        check(&format!("{dialect}.{name}.small"), dialect, name, &small(), &tools);
        check(&format!("{dialect}.{name}.awkward"), dialect, name, &awkward(), &no_tools());
    }
}

fn parsed(dialect: Dialect, name: &str, messages: &[Arc<Message>], tools: &ToolPlan) -> Value {
    serde_json::from_slice(&render(dialect, name, messages, tools).bytes).unwrap()
}

#[test]
fn tool_choice_is_sent_only_where_it_says_something() {
    let check = |style, allowed: &[&str], expect: Value| {
        let tools = plan(style, &["a", "b"], allowed);
        let body = parsed(Dialect::OpenAiResponses, "gpt-6.1-sol", &[user("x")], &tools);
        assert_eq!(body["tool_choice"], expect);
    };
    check(ToolStyle::Allowed, &["a", "b"], Value::Null);
    check(ToolStyle::Allowed, &[], value!("none"));
    check(
        ToolStyle::Allowed,
        &["b"],
        value!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "b"}]}),
    );
    check(ToolStyle::Native, &[], Value::Null);
    check(ToolStyle::UseTool, &["a"], Value::Null);
    for dialect in Dialect::ALL {
        let name = common::default_name(dialect);
        let body = parsed(dialect, &name, &[user("x")], &no_tools());
        assert_eq!((&body["tools"], &body["tool_choice"]), (&Value::Null, &Value::Null));
    }
}

/// The blocks that carry a mark, each with its lifetime.
fn marks(options: &BodyOptions, messages: &[Arc<Message>], settled: usize) -> Vec<(String, &'static str)> {
    let model = model("claude-opus-5-5");
    let tools = no_tools();
    let body = body(Dialect::Anthropic, &model, &prompt(messages, &tools, settled), options);
    let value: Value = serde_json::from_slice(&body.bytes).unwrap();
    let blocks: Vec<_> = body.prompt.blocks().collect();
    let marks: Vec<_> = body
        .prompt
        .marks()
        .iter()
        .map(|mark| {
            let path = blocks[mark.block].path.to_string();
            let ttl = if mark.ttl == Ttl::Long { "1h" } else { "5m" };
            let pointer = format!("/{}", path.replace("].", "/").replace(['[', '.'], "/").replace(']', ""));
            let block = pointer.rsplit_once('/').map(|(parent, _)| parent).filter(|_| path.ends_with("text")).unwrap_or(&pointer);
            let mark = &value.pointer(block).unwrap()["cache_control"];
            assert_eq!(mark["type"], "ephemeral", "{path}");
            assert_eq!(mark["ttl"].as_str().unwrap_or("5m"), ttl, "{path}");
            (path, ttl)
        })
        .collect();
    let written = String::from_utf8_lossy(&body.bytes).matches("cache_control").count();
    assert_eq!(written, marks.len());
    marks
}

#[test]
fn marks_stand_at_ends_that_stay() {
    let long = "word ".repeat(1000);
    let library = [("a.md", long.as_str()), ("b.md", "b")];
    let talk = |system: Arc<Message>| vec![system, user("1"), model_says("2"), user("3"), model_says("4"), user("5")];
    let check = |messages: &[Arc<Message>], settled, options: BodyOptions, expect: &[(&str, &str)]| {
        let found = marks(&options, messages, settled);
        let found: Vec<(&str, &str)> = found.iter().map(|(path, ttl)| (path.as_str(), *ttl)).collect();
        assert_eq!(found, expect);
    };
    let turn = BodyOptions::default;
    let full = talk(system(&long, &library));
    check(&full, 5, turn(), &[("system[0].text", "5m"), ("system[2].text", "5m"), ("messages[3].content[0].text", "5m")]);
    let hour = BodyOptions { ttl: Ttl::Long, previous_len: Some(4), ..turn() };
    check(
        &full,
        5,
        hour,
        &[
            ("system[0].text", "1h"),
            ("system[2].text", "1h"),
            // The end of the request before is found by walking back from here.
            ("messages[3].content[0].text", "5m"),
        ],
    );
    // Behind more positions than are walked back, it has a mark of its own.
    let mut many = talk(system(&long, &library));
    many.extend((0..30).map(|index| user(&format!("m{index}"))));
    let far = BodyOptions { previous_len: Some(6), ..turn() };
    check(
        &many,
        36,
        far,
        &[
            ("system[0].text", "5m"),
            ("system[2].text", "5m"),
            ("messages[4].content[0].text", "5m"),
            ("messages[4].content[30].text", "5m"),
        ],
    );
    // Where the next fold begins.
    let fold = BodyOptions { fold_len: Some(3), previous_len: Some(4), ..turn() };
    check(
        &full,
        5,
        fold,
        &[
            ("system[0].text", "5m"),
            ("system[2].text", "5m"),
            ("messages[1].content[0].text", "5m"),
            ("messages[3].content[0].text", "5m"),
        ],
    );
    // Marks for an hour may not stand behind others.
    let hour = BodyOptions { message_ttl: Ttl::Long, ..turn() };
    check(&full, 5, hour, &[("system[0].text", "1h"), ("system[2].text", "1h"), ("messages[3].content[0].text", "1h")]);
    // The same end twice is one mark.
    let again = BodyOptions { previous_len: Some(5), ..turn() };
    check(&full, 5, again, &[("system[0].text", "5m"), ("system[2].text", "5m"), ("messages[3].content[0].text", "5m")]);
    let step = BodyOptions { next: foreword_provider::render::Next::Step, previous_len: Some(4), ..turn() };
    check(
        &full,
        5,
        step,
        &[
            ("system[0].text", "5m"),
            ("system[2].text", "5m"),
            ("messages[3].content[0].text", "5m"),
            ("messages[4].content[0].text", "5m"),
        ],
    );
    // L1 alone is below the minimum, L1 and L2 together are not.
    check(&talk(system("short", &library)), 5, turn(), &[("system[2].text", "5m"), ("messages[3].content[0].text", "5m")]);
    check(&talk(system("short", &[])), 5, turn(), &[]);
    check(&talk(system("short", &[])), 0, turn(), &[]);
    check(&talk(system(&long, &[])), 1, turn(), &[("system[0].text", "5m")]);
}

#[test]
fn breakpoints_stand_on_l1_and_every_library_segment_once_the_prefix_is_long_enough() {
    let long = "word ".repeat(1000);
    for (dialect, name, path) in [
        (Dialect::OpenAiChat, "gpt-6-luna", "/messages/0/content"),
        (Dialect::OpenAiResponses, "gpt-6.1-sol", "/input/0/content"),
    ] {
        for (l1, marked) in [(long.as_str(), true), ("short", false)] {
            let messages = [system(l1, &[("a.md", "a")]), user("x")];
            let body = parsed(dialect, name, &messages, &no_tools());
            let parts = body.pointer(path).unwrap().as_array().unwrap();
            let found: Vec<&Value> = parts.iter().map(|part| &part["prompt_cache_breakpoint"]).collect();
            let expect = if marked { value!({"mode": "explicit"}) } else { Value::Null };
            assert_eq!(found, [&expect, &expect]);
        }
    }
}

#[test]
fn gemini_caches_hold_tools_and_system() {
    let messages = [system("Be brief.", &[]), user("x")];
    let tools = plan(ToolStyle::Native, &["read"], &[]);
    let model = model("gemini-3.8-flash");
    let prompt = prompt(&messages, &tools, 1);
    let made = gemini_cache_request(&model, &prompt, 300);
    assert_eq!(made, gemini_cache_request(&model, &prompt, 300));
    let text = String::from_utf8(made.body.clone()).unwrap();
    let cache: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json::to_string(&cache), text);
    assert_eq!((&cache["model"], &cache["ttl"]), (&value!("models/gemini-3.8-flash"), &value!("300s")));
    let options = BodyOptions { cached_content: Some("cachedContents/1".into()), ..BodyOptions::default() };
    let body = body(Dialect::Gemini, &model, &prompt, &options);
    assert_eq!(
        String::from_utf8(body.bytes.clone()).unwrap(),
        r#"{"cachedContent":"cachedContents/1","contents":[{"parts":[{"text":"x"}],"role":"user"}],"generationConfig":{"maxOutputTokens":1000}}"#
    );
    assert_eq!(body.prompt.explicit(), 2);
}

#[test]
fn streaming_is_asked_for() {
    let messages = [user("x")];
    let tools = no_tools();
    for dialect in [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Anthropic, Dialect::LlamaCpp] {
        let model = model(&common::default_name(dialect));
        let options = BodyOptions { stream: true, ..BodyOptions::default() };
        let body = body(dialect, &model, &prompt(&messages, &tools, 0), &options);
        let text = String::from_utf8(body.bytes).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["stream"], true);
        assert_eq!(json::to_string(&value), text);
    }
}

#[test]
fn a_clients_fields_stand_in_their_order_and_ours_win() {
    let messages = [system("Be brief.", &[]), user("x")];
    let tools = no_tools();
    let plain = BodyOptions { stream: true, ..BodyOptions::default() };
    let extra = value!({
        "a_first": [1], "temperature": 0.5, "zz_last": {"b": 1, "a": 2},
        // None of this is a client's to say.
        "messages": [], "input": [], "contents": [], "system": "x", "systemInstruction": "x", "instructions": "x", "tools": [],
        "model": "other", "stream": false, "stream_options": {}, "max_tokens": 1, "max_completion_tokens": 1,
        "max_output_tokens": 1, "cachedContent": "x", "store": true, "include": [], "previous_response_id": "x",
        "prompt_cache_key": "x", "prompt_cache_options": {}, "cache_prompt": false,
        "generationConfig": {"topP": 1, "maxOutputTokens": 1},
    });
    let Value::Object(extra) = extra else { panic!("{extra}") };
    for dialect in Dialect::ALL {
        let model = model(&common::default_name(dialect));
        let prompt = prompt(&messages, &tools, 0);
        let without = body(dialect, &model, &prompt, &plain);
        let options = BodyOptions { extra: extra.clone(), ..plain.clone() };
        let with = body(dialect, &model, &prompt, &options);
        let text = String::from_utf8(with.bytes.clone()).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json::to_string(&value), text, "{dialect}");
        let mut expect: Value = serde_json::from_slice(&without.bytes).unwrap();
        for name in ["a_first", "temperature", "zz_last"] {
            expect[name] = extra[name].clone();
        }
        match dialect {
            Dialect::Gemini => expect["generationConfig"]["topP"] = value!(1),
            _ => expect["generationConfig"] = extra["generationConfig"].clone(),
        }
        assert_eq!(value, expect, "{dialect}");
        // The prompt is what it was, and a record brings back the same bytes.
        assert_eq!(with.prompt.tokens(), without.prompt.tokens(), "{dialect}");
        let stored: BodyOptions = serde_json::from_value(serde_json::to_value(&options).unwrap()).unwrap();
        assert_eq!(body(dialect, &model, &prompt, &stored).bytes, with.bytes, "{dialect}");
    }
    assert!(!serde_json::to_string(&plain).unwrap().contains("extra"));
}

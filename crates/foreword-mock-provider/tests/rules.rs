//! Generated conversations, held against what providers refuse; and the renderer that keeps its bytes against one that does not.

#![allow(clippy::unwrap_used, clippy::panic)] // a test says what it expects by failing

#[path = "../../foreword-provider/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use common::{calls, model, model_says, notice, pictured, plan, prompt, result, system, user};
use foreword_core::hash::Hash;
use foreword_core::message::{Message, Role};
use foreword_core::prompt::{ToolPlan, ToolStyle};
use foreword_core::tokens::Tokens;
use foreword_mock_provider::rules::{Endpoint, validate};
use foreword_prompt_cache::CacheSim;
use foreword_provider::dialect::Dialect;
use foreword_provider::render::{BodyOptions, Next, Renderer, body};
use foreword_provider::stream::{BlockKind, PromptStream, Ttl, common_prefix};
use serde_json::{Value, json};

const MODELS: [(Dialect, &str); 9] = [
    (Dialect::OpenAiChat, "gpt-5.4"),
    (Dialect::OpenAiChat, "gpt-6-luna"),
    (Dialect::OpenAiResponses, "gpt-5.5"),
    (Dialect::OpenAiResponses, "gpt-6.1-sol"),
    (Dialect::Anthropic, "claude-opus-5-5"),
    (Dialect::Anthropic, "claude-haiku-4-5"),
    (Dialect::Gemini, "gemini-3.8-flash"),
    (Dialect::Gemini, "gemini-2.5-pro"),
    (Dialect::LlamaCpp, "llama.cpp"),
];

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn text(&mut self) -> String {
        match self.roll(8) {
            0 => String::new(),
            1 => " \n".to_owned(),
            2 => "\"quoted\" \\ back\u{1}\n".to_owned(),
            3 => "long ".repeat(500),
            other => format!("word {other} é 🎹"),
        }
    }
}

/// One more message or group of messages; calls are always answered.
fn more(dice: &mut Dice, serial: &mut u64, messages: &mut Vec<Arc<Message>>) {
    match dice.roll(8) {
        0 => messages.push(notice(&dice.text())),
        1 => messages.push(pictured(&dice.text())),
        2 => messages.push(model_says(&dice.text())),
        3 | 4 => {
            let count = 1 + dice.roll(3);
            let ids: Vec<String> = (0..count)
                .map(|_| {
                    *serial += 1;
                    let odd = ["call", "a b", "x/y", "ü", "0123456789012345678901234567890123456789"];
                    format!("{}{serial}", odd[usize::try_from(dice.roll(5)).unwrap()])
                })
                .collect();
            let asked: Vec<(&str, &str, Value)> = ids
                .iter()
                .map(|id| {
                    let arguments = [json!({"path": "é\n"}), json!({}), json!("erred"), json!(null)];
                    let pick = usize::try_from(dice.roll(4)).unwrap();
                    (id.as_str(), ["read", "list", "what ever"][pick % 3], arguments[pick].clone())
                })
                .collect();
            messages.push(calls(&dice.text(), &asked));
            for id in &ids {
                messages.push(result(id, &dice.text()));
            }
        }
        _ => messages.push(user(&dice.text())),
    }
}

fn tools(dice: &mut Dice) -> ToolPlan {
    match dice.roll(4) {
        0 => plan(ToolStyle::Native, &[], &[]),
        1 => plan(ToolStyle::Native, &["list", "read"], &["list", "read"]),
        2 => plan(ToolStyle::Allowed, &["list", "read"], &["read"]),
        _ => plan(ToolStyle::Allowed, &["2 list", "read"], &[]),
    }
}

fn library(dice: &mut Dice, notes: usize) -> Arc<Message> {
    let texts: Vec<(String, String)> =
        (0..notes).map(|note| (format!("{note}.md"), format!("<note>{}</note>", "x".repeat(note * 700)))).collect();
    let notes: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    system(&dice.text(), &notes)
}

/// The library with one more note, or without its last one; what stays shares its pieces.
fn library_changed(dice: &mut Dice, old: &Message) -> Arc<Message> {
    let mut new = old.clone();
    if dice.roll(3) == 0 {
        new.pieces.truncate(old.pieces.len().saturating_sub(2).max(1));
    } else {
        let more = system("", &[("new.md", &format!("<note>{}</note>", dice.text()))]);
        new.pieces.extend(more.pieces.iter().skip(1).cloned());
    }
    Arc::new(new)
}

/// The text of the system blocks, joined.
fn system_text(dialect: Dialect, body: &Value) -> String {
    let parts = |value: &Value| -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().map(|part| part["text"].as_str().unwrap()).collect(),
            _ => String::new(),
        }
    };
    match dialect {
        Dialect::Anthropic => parts(&body["system"]),
        Dialect::Gemini => parts(&body["systemInstruction"]["parts"]),
        Dialect::OpenAiResponses => parts(&body["input"][0]["content"]),
        Dialect::OpenAiChat | Dialect::LlamaCpp => parts(&body["messages"][0]["content"]),
    }
}

fn check_stream(stream: &PromptStream, messages: &[Arc<Message>], tools: &ToolPlan) {
    let blocks: Vec<_> = stream.blocks().collect();
    // What Anthropic takes is held to four by the validator; OpenAI looks up fifty.
    assert!(stream.marks().len() <= 50);
    assert!(stream.marks().windows(2).all(|pair| pair[0].block < pair[1].block && pair[0].ttl >= pair[1].ttl));
    // Never on an empty text; an empty result is a block of its own.
    assert!(stream.marks().iter().all(|mark| {
        let block = blocks[mark.block];
        block.len > 0 || block.kind() == BlockKind::Result
    }));
    let sent: Tokens = messages.iter().map(|message| message.tokens()).sum::<Tokens>() + tools.tokens;
    // What is not sent is blank; what the engine adds is short.
    assert!(stream.tokens() + Tokens(messages.len() as u64) >= sent);
    assert!(stream.tokens() <= sent + Tokens(16 * (messages.len() as u64 + 1)));
}

#[test]
fn providers_take_what_is_rendered_and_nothing_depends_on_history() {
    for (dialect, name) in MODELS {
        let model = model(name);
        let endpoint = Endpoint::of(&model);
        for seed in 0..24 {
            let mut dice = Dice(seed);
            let mut serial = 0;
            let mut renderer = Renderer::new(dialect);
            let mut sim = CacheSim::new();
            let notes = usize::try_from(dice.roll(3)).unwrap();
            let mut first = library(&mut dice, notes);
            let mut messages: Vec<Arc<Message>> = Vec::new();
            let tools = tools(&mut dice);
            let mut previous: Option<usize> = None;
            let mut earlier: Vec<PromptStream> = Vec::new();
            for step in 0..25_u64 {
                match dice.roll(12) {
                    0 => {
                        first = library_changed(&mut dice, &first);
                        previous = None;
                    }
                    1 if step % 5 == 4 => {
                        // A fold: some of the conversation goes, never between a call and its results.
                        let at = usize::try_from(dice.roll(messages.len() as u64 + 1)).unwrap();
                        let cut = (0..=at)
                            .rev()
                            .find(|cut| messages.get(*cut).is_none_or(|message| message.role != Role::Tool))
                            .unwrap_or(0);
                        if dice.roll(2) == 0 {
                            messages.truncate(cut);
                        } else {
                            messages.drain(..cut);
                        }
                        previous = None;
                    }
                    _ => more(&mut dice, &mut serial, &mut messages),
                }
                let mut all = Vec::new();
                if seed % 4 != 0 {
                    all.push(Arc::clone(&first));
                }
                all.extend(messages.iter().cloned());
                let settled = usize::try_from(dice.roll(all.len() as u64 + 1)).unwrap();
                let options = BodyOptions {
                    ttl: if dice.roll(2) == 0 { Ttl::Short } else { Ttl::Long },
                    previous_len: previous,
                    next: if dice.roll(3) == 0 { Next::Step } else { Next::Turn },
                    stream: dice.roll(2) == 0 && dialect != Dialect::Gemini,
                    extra: match dice.roll(4) {
                        heat @ 0..2 if dialect != Dialect::Gemini => {
                            [("temperature".to_owned(), heat.into())].into_iter().collect()
                        }
                        _ => serde_json::Map::new(),
                    },
                    ..BodyOptions::default()
                };
                let prompt = prompt(&all, &tools, settled);
                let kept = renderer.render(&model, &prompt, &options);
                let fresh = body(dialect, &model, &prompt, &options);
                assert!(kept.bytes == fresh.bytes, "{name}, seed {seed}, step {step}");
                if dice.roll(3) > 0 {
                    assert_eq!(kept.sha256(), Hash::of(&kept.bytes));
                }
                let same = common_prefix(&kept.prompt, &fresh.prompt);
                assert!(same.previous.is_none() && same.current.is_none(), "{name}, seed {seed}, step {step}: {same:?}");

                let value: Value = serde_json::from_slice(&kept.bytes).unwrap();
                assert_eq!(foreword_core::json::to_string(&value).as_bytes(), kept.bytes);
                let empty =
                    all.iter().all(|message| message.is_empty()) && !matches!(dialect, Dialect::Anthropic | Dialect::Gemini);
                if let Err(refusal) = validate(dialect, endpoint, &value)
                    && !empty
                {
                    panic!("{name}, seed {seed}, step {step}: {refusal}\n{value:#}");
                }
                if seed % 4 != 0 && !first.content().trim().is_empty() {
                    assert_eq!(system_text(dialect, &value), first.content());
                }
                check_stream(&kept.prompt, &all, &tools);
                let used = sim.request(step * 100, &kept.prompt, &model);
                assert_eq!(used.total(), kept.prompt.tokens());
                // A read never goes beyond what a perfect cache could serve.
                let reusable = earlier.iter().map(|stream| common_prefix(stream, &kept.prompt).tokens).max();
                assert!(used.read <= reusable.unwrap_or_default(), "{name}, seed {seed}, step {step}: {used:?}");
                earlier.push(kept.prompt.clone());
                previous = Some(all.len());
            }
        }
    }
}

fn check(dialect: Dialect, body: &Value, expect: &str) {
    let refusal = validate(dialect, Endpoint::default(), body).unwrap_err();
    assert!(refusal.contains(expect), "{refusal}\nwanted: {expect}");
}

#[test]
fn the_validator_refuses() {
    let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    check(Dialect::OpenAiChat, &json!({"messages": [call]}), "did not have response messages: a");
    check(
        Dialect::OpenAiChat,
        &json!({"messages": [call, {"role": "user", "content": "x"}]}),
        "did not have response messages: a",
    );
    check(
        Dialect::OpenAiChat,
        &json!({"messages": [{"role": "tool", "tool_call_id": "a", "content": ""}]}),
        "must be a response to a preceeding message",
    );
    check(
        Dialect::LlamaCpp,
        &json!({"messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "x"}]}),
        "must be at the beginning",
    );
    check(
        Dialect::OpenAiResponses,
        &json!({"input": [{"type": "function_call", "call_id": "a", "name": "f", "arguments": ""}]}),
        "No tool output found for function call a.",
    );
    check(
        Dialect::OpenAiResponses,
        &json!({"input": [{"type": "function_call_output", "call_id": "a", "output": ""}]}),
        "No tool call found",
    );
    let words = |role: &str, text: &str| json!({"role": role, "content": [{"type": "text", "text": text}]});
    let asks = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]});
    let answer = json!({"type": "tool_result", "tool_use_id": "t"});
    check(Dialect::Anthropic, &json!({"messages": [words("user", "")]}), "must be non-empty");
    check(Dialect::Anthropic, &json!({"messages": [words("assistant", "x")]}), "first message must use");
    check(Dialect::Anthropic, &json!({"messages": [words("user", "x"), words("user", "x")]}), "roles must alternate");
    check(Dialect::Anthropic, &json!({"messages": [words("user", "x"), words("system", "x")]}), "role 'system' is not supported");
    check(
        Dialect::Anthropic,
        &json!({"messages": [words("user", "x"), asks]}),
        "without `tool_result` blocks immediately after: t",
    );
    check(Dialect::Anthropic, &json!({"messages": [words("user", "x"), asks, words("user", "x")]}), "immediately after: t");
    check(
        Dialect::Anthropic,
        &json!({"messages": [words("user", "x"), asks, {"role": "user", "content": [{"type": "text", "text": "x"}, answer]}]}),
        "immediately after",
    );
    check(
        Dialect::Anthropic,
        &json!({"messages": [words("user", "x"), asks, {"role": "user", "content": [answer, answer]}]}),
        "multiple `tool_result` blocks with id: t",
    );
    check(
        Dialect::Anthropic,
        &json!({"messages": [{"role": "user", "content": [answer]}]}),
        "messages.0.content.0: unexpected `tool_use_id`",
    );
    let marked = |ttl: &str| json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": ttl}});
    check(Dialect::Anthropic, &json!({"messages": [{"role": "user", "content": vec![marked("5m"); 5]}]}), "Found 5.");
    check(
        Dialect::Anthropic,
        &json!({"messages": [{"role": "user", "content": [marked("5m"), marked("1h")]}]}),
        "must not come after",
    );
    let thinks = |block: Value| json!({"messages": [words("user", "x"), {"role": "assistant", "content": [block]}]});
    check(Dialect::Anthropic, &thinks(json!({"type": "thinking", "thinking": "x"})), "'signature'");
    let marked = json!({"type": "redacted_thinking", "data": "x", "cache_control": {"type": "ephemeral"}});
    check(Dialect::Anthropic, &thinks(marked), "cache_control");
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    check(Dialect::OpenAiResponses, &json!({"input": [thought]}), "'rs_1' of type 'reasoning' was provided without");
    let part = |role: &str, part: Value| json!({"role": role, "parts": [part]});
    let f = json!({"functionCall": {"name": "f", "args": {}}});
    let r = json!({"functionResponse": {"name": "f", "response": {}}});
    let x = json!({"text": "x"});
    check(Dialect::Gemini, &json!({"contents": [part("assistant", x.clone())]}), "valid role");
    check(
        Dialect::Gemini,
        &json!({"contents": [part("user", x.clone()), part("model", f.clone())]}),
        "number of function response parts",
    );
    check(Dialect::Gemini, &json!({"contents": [part("user", x.clone()), part("user", r)]}), "number of function response parts");
    check(
        Dialect::Gemini,
        &json!({"contents": [part("user", x.clone()), part("model", x), part("model", f)]}),
        "immediately after a user turn",
    );
}

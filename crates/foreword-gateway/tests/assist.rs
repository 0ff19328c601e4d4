//! What conversations cost without the gateway and at `assist`, by the rules of the provider's cache.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use foreword_gateway::{Additions, Conversation, Names, Sessions, plan_additions};
use foreword_mock_provider::prompt_of;
use foreword_prompt_cache::CacheSim;
use foreword_provider::cost::cost;
use foreword_provider::dialect::Dialect;
use foreword_provider::model::Model;
use foreword_provider::table::ModelTable;
use serde_json::{Value, json};

/// Requests, and when each is sent, in seconds.
type Talk = Vec<(u64, Value)>;

fn body(messages: &[Value], more: &Value) -> Value {
    let mut body =
        json!({"model": "claude-sonnet-5", "max_tokens": 100, "system": "You are careful. ".repeat(600), "messages": messages});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn ai(text: &str) -> Value {
    json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
}

/// An agent that calls so many tools in each of its turns.
fn agent(turns: usize, calls: usize, pause_s: u64) -> Talk {
    let (mut talk, mut messages, mut at) = (Vec::new(), Vec::new(), 0);
    let tools =
        json!({"tools": [{"name": "read", "description": "Reads a file. ".repeat(50), "input_schema": {"type": "object"}}]});
    for turn in 0..turns {
        messages.push(user(&format!("Do step {turn} of it.")));
        for call in 0..calls {
            talk.push((at, body(&messages, &tools)));
            at += 5;
            let id = format!("toolu_{turn:04}{call:04}");
            messages.push(json!({"role": "assistant", "content": [{"type": "text", "text": format!("I look at file {call} of step {turn}.")}, {"type": "tool_use", "id": id, "name": "read", "input": {}}]}));
            messages.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": format!("Line {turn} {call}. ").repeat(200)}]}));
        }
        talk.push((at, body(&messages, &tools)));
        messages.push(ai(&format!("That was step {turn}, as far as it goes.")));
        at += pause_s;
    }
    talk
}

/// A client that writes the files anew behind what was said, each turn.
fn rewriting(turns: usize) -> Talk {
    let mut history = vec![user(&"An example of how to edit. ".repeat(100)), ai("Ok, I know how to edit a file now.")];
    let mut talk = Vec::new();
    for turn in 0..turns {
        let mut messages = history.clone();
        messages.push(user(&format!("These are the files as they are now, version {turn}. {}", "fn main() {} ".repeat(300))));
        messages.push(ai("Ok, any changes I propose will be to those files."));
        let words = user(&format!("Change number {turn}, please."));
        messages.push(words.clone());
        talk.push((turn as u64 * 60, body(&messages, &json!({}))));
        history.extend([words, ai(&format!("Here is change number {turn}, as you asked for. {}", "-old +new ".repeat(60)))]);
    }
    talk
}

fn marked(mut talk: Talk) -> Talk {
    for (_, body) in &mut talk {
        let last = body["messages"].as_array().unwrap().len() - 1;
        let content = &mut body["messages"][last]["content"];
        if let Value::String(text) = content {
            *content = json!([{"type": "text", "text": text}]);
        }
        let end = content.as_array().unwrap().len() - 1;
        content[end]["cache_control"] = json!({"type": "ephemeral"});
    }
    talk
}

/// What it costs, and how many requests were added to.
fn costs(model: &Model, talk: &Talk, is_assisted: bool) -> (f64, usize) {
    let (sessions, mut cache, mut sum, mut added) = (Sessions::default(), CacheSim::new(), 0.0, 0);
    for (at_s, body) in talk {
        let (text, at_ms) = (body.to_string(), i64::try_from(at_s * 1000).unwrap());
        let asked = Conversation::read(Dialect::Anthropic, &text).unwrap();
        let found = sessions.recognise(&Names::default(), &asked, at_ms, || "s".to_owned());
        let about = (found.session.as_str(), found.rate, at_ms);
        let additions = plan_additions(Dialect::Anthropic, model, (&text, &asked), &found.before, about).unwrap_or_default();
        let sent = if is_assisted { additions.apply(&text).0 } else { text.clone() };
        added += usize::from(is_assisted && sent != text);
        let used = cache.request(*at_s, &prompt_of(Dialect::Anthropic, &serde_json::from_str(&sent).unwrap(), model), model);
        sum += cost(model, &used);
        sessions.answered(&found, &if is_assisted { additions } else { Additions::default() }, at_ms);
    }
    (sum, added)
}

#[test]
fn assist_costs_no_more_than_no_gateway() {
    let table = ModelTable::builtin().unwrap();
    for name in ["claude-sonnet-5", "claude-opus-4-8", "claude-haiku-5-5"] {
        let model = table.find(name).unwrap();
        let check = |what: &str, talk: &Talk, most: f64, least_added: usize| {
            let ((direct, _), (assisted, added)) = (costs(&model, talk, false), costs(&model, talk, true));
            println!("{name:<18} {what:<34} direct ${direct:.4}, assist ${assisted:.4} ({:.0} %)", assisted / direct * 100.0);
            assert!(assisted <= direct * most + 1e-12, "{name}, {what}: ${assisted:.4}, direct ${direct:.4}");
            assert!(added >= least_added, "{name}, {what}: {added}");
        };
        check("three turns with a tool each", &agent(3, 1, 20), 0.8, 3);
        check("two turns with a tool each", &agent(2, 1, 20), 1.0, 2);
        check("ten turns with three tools each", &agent(10, 3, 30), 0.4, 20);
        check("one turn with 40 tools", &agent(1, 40, 20), 0.3, 30);
        check("a chat of ten turns", &agent(10, 0, 30), 0.8, 5);
        check("aider, eight turns", &rewriting(8), 0.9, 3);
        // Nothing is added where it would not pay.
        for turns in 1..=4 {
            check("a short chat", &agent(turns, 0, 30), 1.0, 0);
            check("a short chat over files", &rewriting(turns), 1.0, 0);
        }
        check("one question with a tool", &agent(1, 1, 0), 1.0, 0);
        check("a chat with long pauses", &agent(6, 0, 900), 1.0, 0);
        check("a client that marks by itself", &marked(agent(4, 2, 20)), 1.0, 0);
        // The first mark is a bet. It is lost where nothing follows the request that has it.
        check("one question with two tools", &agent(1, 2, 0), 1.14, 1);
        check("a chat of five turns", &agent(5, 0, 30), 1.06, 1);
    }
}

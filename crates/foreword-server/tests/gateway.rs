//! The gateway, as clients of OpenAI and Anthropic use it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::format_push_string)]

mod common;

use common::{Reply, Running};
use foreword_server::Limits;
use serde_json::{Value, json};

const SCRIPT: &str = r#"{"replies": [
    {"text": "First answer."},
    {"text": "Second answer."},
    {"text": "Third answer."}
]}"#;

const CALLS: &str = r#"{"replies": [
    {"text": "Let me look.", "calls": [{"id": "c1", "name": "read", "arguments": {"path": "a"}}]},
    {"text": "It says so."}
]}"#;

fn server(script: &str) -> Running {
    Running::with(script, common::loopback(), Limits::default())
}

fn chat(messages: Value) -> Value {
    json!({"model": "foreword", "messages": messages})
}

fn ask(server: &Running, body: &Value) -> Reply {
    let reply = server.call("POST", "/v1/chat/completions", Some(body));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply
}

fn session(reply: &Reply) -> String {
    reply.header("x-foreword-session").unwrap().to_owned()
}

#[test]
fn a_conversation_that_is_sent_whole_each_time_is_one_session() {
    let server = server(SCRIPT);
    let system = json!({"role": "system", "content": "Be brief."});
    let mut messages = vec![system, json!({"role": "user", "content": "One"})];
    let mut body = chat(json!(messages));
    body["temperature"] = json!(0.5);
    let first = ask(&server, &body);
    assert_eq!(first.header("x-foreword-ignored"), Some("temperature"));
    assert_eq!(first.json()["choices"][0]["message"]["content"], "First answer.");
    assert_eq!(first.json()["choices"][0]["finish_reason"], "stop");
    assert!(first.header("x-foreword-tokens").unwrap().parse::<u64>().unwrap() > 0);
    messages.push(json!({"role": "assistant", "content": "First answer."}));
    messages.push(json!({"role": "user", "content": "Two"}));
    let second = ask(&server, &chat(json!(messages)));
    assert_eq!(session(&second), session(&first));
    // The second request continues the first, to the byte.
    let id = session(&first);
    assert_eq!(server.get(&format!("/api/v1/sessions/{id}/requests/1/diff"))["cause"], "continued");
    // Another second message goes another way: a fork, and the first session stays as it is.
    messages[3] = json!({"role": "user", "content": "Two, otherwise"});
    let other = ask(&server, &chat(json!(messages)));
    assert_ne!(session(&other), session(&first));
    let said = server.get(&format!("/api/v1/sessions/{}", session(&other)));
    assert_eq!(said["forked_from"], json!(id));
    // A conversation nobody knows brings its past along.
    let unknown = chat(json!([
        {"role": "user", "content": "Elsewhere"}, {"role": "assistant", "content": "Said there."}, {"role": "user", "content": "And?"},
    ]));
    let begun = ask(&server, &unknown);
    let layers = server.get(&format!("/api/v1/sessions/{}/requests/0/layers", session(&begun))).to_string();
    assert!(layers.contains("Elsewhere") && layers.contains("Said there."));
    // No chat of a client is written into the vault.
    assert!(!server.folder.path().join("vault/Foreword/Chats").exists());
}

#[test]
fn a_named_session_is_gone_on_with() {
    let server = server(SCRIPT);
    let first = ask(&server, &chat(json!([{"role": "user", "content": "One"}])));
    let id = session(&first);
    let body = chat(json!([{"role": "user", "content": "Two"}]));
    let second = server.call_with("POST", "/v1/chat/completions", &[("x-foreword-session", &id)], Some(&body));
    assert_eq!((second.status, session(&second)), (200, id), "{}", second.body);
    let nobody = server.call_with("POST", "/v1/chat/completions", &[("x-foreword-session", "nobody")], Some(&body));
    assert_eq!(nobody.status, 404, "{}", nobody.body);
}

#[test]
fn calls_go_to_the_client_and_results_come_back() {
    let server = server(CALLS);
    let tools =
        json!([{"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}}]);
    let mut body = chat(json!([{"role": "user", "content": "What does it say?"}]));
    body["tools"] = tools;
    let first = ask(&server, &body);
    let choice = &first.json()["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    let call = choice["message"]["tool_calls"][0].clone();
    assert_eq!(call["function"], json!({"name": "read", "arguments": "{\"path\":\"a\"}"}));
    body["messages"] = json!([
        {"role": "user", "content": "What does it say?"}, choice["message"],
        {"role": "tool", "tool_call_id": call["id"], "content": "So."},
    ]);
    let second = ask(&server, &body);
    assert_eq!(second.json()["choices"][0]["message"]["content"], "It says so.");
    assert_eq!(session(&second), session(&first));
    let wire = server.get(&format!("/api/v1/sessions/{}/requests/1/wire", session(&first))).to_string();
    assert!(wire.contains("So.") && wire.contains("\"read\""), "{wire}");
}

#[test]
fn a_client_in_the_middle_of_its_work_is_taken_in_whole() {
    let server = server(SCRIPT);
    let tools = json!([{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]);
    let call = |id: &str, path: &str| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": json!({"path": path}).to_string()}});
    let messages = json!([
        {"role": "user", "content": "Before"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call("a", "first.md"), call("b", "never.md")]},
        {"role": "tool", "tool_call_id": "a", "content": "What stood in the first."},
        {"role": "assistant", "content": "So it is."},
        {"role": "user", "content": "And the second?"},
        {"role": "assistant", "content": null, "tool_calls": [call("c", "second.md")]},
        {"role": "tool", "tool_call_id": "c", "content": "What stands in the second."},
    ]);
    let reply = ask(&server, &json!({"model": "foreword", "messages": messages, "tools": tools}));
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "First answer.");
    let id = session(&reply);
    let wire = server.get(&format!("/api/v1/sessions/{id}/requests/0/wire")).to_string();
    let mut at = 0;
    for words in [
        "Before",
        "first.md",
        "never.md",
        "What stood in the first.",
        "Operation interrupted",
        "So it is.",
        "And the second?",
        "second.md",
        "What stands in the second.",
    ] {
        at += wire[at..].find(words).unwrap_or_else(|| panic!("{words} does not stand behind the others: {wire}"));
    }
    // A person reads the same, and the session goes on from there.
    let said = server.get(&format!("/api/v1/sessions/{id}"));
    assert_eq!(said["title"], "Before", "{said}");
    let mut more = messages.as_array().unwrap().clone();
    more.extend([json!({"role": "assistant", "content": "First answer."}), json!({"role": "user", "content": "Thanks."})]);
    let next = ask(&server, &json!({"model": "foreword", "messages": more, "tools": tools}));
    assert_eq!(session(&next), id);
    assert_eq!(server.get(&format!("/api/v1/sessions/{id}/requests/1/diff"))["cause"], "continued");
    assert!(server.get(&format!("/api/v1/sessions/{id}")).to_string().contains("What stands in the second."));
}

#[test]
fn a_client_that_names_its_session_and_asks_once_more_is_not_told_twice() {
    let server = server(SCRIPT);
    let first = ask(&server, &chat(json!([{"role": "user", "content": "One"}])));
    let id = session(&first);
    let body = chat(json!([
        {"role": "user", "content": "One"}, {"role": "assistant", "content": "First answer."}, {"role": "user", "content": "Two"},
    ]));
    let named = |body: &Value| server.call_with("POST", "/v1/chat/completions", &[("x-foreword-session", &id)], Some(body));
    assert_eq!(session(&named(&body)), id);
    // The same again: it goes another way from where it was asked, and the session stays as it is.
    let again = named(&body);
    assert_eq!(again.status, 200, "{}", again.body);
    assert_ne!(session(&again), id);
    assert_eq!(server.get(&format!("/api/v1/sessions/{}", session(&again)))["forked_from"], json!(id));
}

#[test]
fn streams_in_three_apis() {
    let server = server(SCRIPT);
    let check = |path: &str, body: Value, ends: &str| {
        let reply = server.call("POST", path, Some(&body));
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        assert_eq!(reply.header("content-type"), Some("text/event-stream"), "{path}");
        assert!(reply.body.contains("answer."), "{path}: {}", reply.body);
        assert!(reply.body.trim_end().ends_with(ends), "{path}: {}", reply.body);
        assert!(reply.header("x-foreword-session").is_some(), "{path}");
    };
    check(
        "/v1/chat/completions",
        json!({"model": "foreword", "stream": true, "messages": [{"role": "user", "content": "a"}]}),
        "data: [DONE]",
    );
    check(
        "/v1/messages",
        json!({"model": "foreword", "max_tokens": 50, "stream": true, "messages": [{"role": "user", "content": "b"}]}),
        "data: {\"type\":\"message_stop\"}",
    );
    let body = json!({"model": "foreword", "stream": true, "input": "c"});
    let reply = server.call("POST", "/v1/responses", Some(&body));
    assert!(reply.body.contains("event: response.completed"), "{}", reply.body);
}

#[test]
fn a_response_is_continued_by_its_name() {
    let server = server(SCRIPT);
    let first = server.post("/v1/responses", json!({"model": "foreword", "input": "One"}));
    assert_eq!(first["output"][0]["content"][0]["text"], "First answer.");
    let second = server.post("/v1/responses", json!({"model": "foreword", "input": "Two", "previous_response_id": first["id"]}));
    assert_eq!(second["output"][0]["content"][0]["text"], "Second answer.");
    let sessions = server.get("/api/v1/sessions");
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
    // From the first response on once more: what came after it is not in that conversation.
    let id = first["id"].as_str().unwrap();
    let other = server.post("/v1/responses", json!({"model": "foreword", "input": "Other", "previous_response_id": id}));
    assert_eq!(other["status"], "completed", "{other}");
    let sessions = server.get("/api/v1/sessions");
    assert_eq!(sessions.as_array().unwrap().len(), 2, "{sessions}");
    // It can be looked at again.
    assert_eq!(server.get(&format!("/v1/responses/{id}"))["output"], first["output"]);
    assert_eq!(server.get(&format!("/v1/responses/{id}/input_items"))["data"][0]["content"][0]["text"], "One");
    assert_eq!(server.call("POST", &format!("/v1/responses/{id}/cancel"), None).status, 400);
    assert_eq!(server.call("DELETE", &format!("/v1/responses/{id}"), None).json()["deleted"], true);
    assert_ne!(server.call("GET", &format!("/v1/responses/{id}"), None).status, 200);
}

#[test]
fn what_is_refused_is_refused_in_the_clients_words() {
    let server = server(SCRIPT);
    let check = |path: &str, body: Value, status: u16, pointer: &str| {
        let reply = server.call("POST", path, Some(&body));
        assert_eq!(reply.status, status, "{path} {body}: {}", reply.body);
        assert!(reply.json().pointer(pointer).and_then(Value::as_str).is_some_and(|text| !text.is_empty()), "{}", reply.body);
    };
    check("/v1/chat/completions", json!({"messages": []}), 400, "/error/message");
    check("/v1/chat/completions", json!({"model": "foreword", "messages": []}), 400, "/error/message");
    check(
        "/v1/chat/completions",
        json!({"model": "no-such-model", "messages": [{"role": "user", "content": "a"}]}),
        404,
        "/error/message",
    );
    check(
        "/v1/messages",
        json!({"model": "foreword", "messages": [{"role": "user", "content": [{"type": "image"}]}]}),
        400,
        "/error/message",
    );
    check("/v1/responses", json!({"model": "foreword", "input": [{"type": "computer_call"}]}), 400, "/error/message");
    let models = server.get("/v1/models");
    assert!(models["data"].as_array().unwrap().iter().any(|model| model["id"] == "smollm2-135m-instruct"), "{models}");
}

#[test]
fn garbage_never_hangs_it() {
    let server = server(SCRIPT);
    let bodies = [
        json!(null),
        json!([]),
        json!({"model": 5}),
        json!({"model": "foreword", "messages": {"a": 1}}),
        json!({"model": "foreword", "messages": [null]}),
        json!({"model": "foreword", "messages": [{"role": "user"}], "stream": "yes"}),
        json!({"model": "foreword", "input": [[]]}),
        json!({"model": "foreword", "messages": [{"role": "assistant", "tool_calls": [{}]}]}),
    ];
    for path in ["/v1/chat/completions", "/v1/responses", "/v1/messages"] {
        for body in &bodies {
            let reply = server.call("POST", path, Some(body));
            assert!((400..500).contains(&reply.status), "{path} {body}: {} {}", reply.status, reply.body);
        }
    }
}

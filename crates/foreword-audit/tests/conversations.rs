//! What was said in sessions of other programs.

#![allow(clippy::unwrap_used, clippy::panic)]

use foreword_audit::conversation::{Conversation, of_records};
use foreword_audit::log::Agent;
use serde_json::{Value, json};

/// Records of a log, and what was said: `user: words`, `model: words [tool -> result]`.
fn check(agent: Agent, records: &[Value], expect: &[&str]) -> Conversation {
    let found = of_records(agent, records);
    let shown: Vec<String> = found
        .messages
        .iter()
        .map(|message| {
            let calls: Vec<String> = message
                .calls
                .iter()
                .map(|call| format!(" [{} -> {}]", call.name, call.result.clone().unwrap_or_default()))
                .collect();
            format!("{}: {}{}", if message.user { "user" } else { "model" }, message.text.replace('\n', "|"), calls.concat())
        })
        .collect();
    assert_eq!(shown, expect);
    found
}

#[test]
fn claude_code() {
    let record = |id: &str, parent: &str, kind: &str, message: Value| json!({"type": kind, "uuid": id, "parentUuid": parent, "sessionId": "s", "cwd": "/work/app", "timestamp": "2026-05-01T10:00:00.000Z", "message": message});
    let reply = |content: Value| json!({"id": "m1", "role": "assistant", "model": "claude-opus-4-6", "content": content});
    let records = [
        record("1", "", "user", json!({"role": "user", "content": "why?"})),
        record("2", "1", "assistant", reply(json!([{"type": "text", "text": "Let me look."}]))),
        record("3", "2", "assistant", reply(json!([{"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}}]))),
        record(
            "4",
            "3",
            "user",
            json!({"content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "text of a"}]}]}),
        ),
        // What was tried first and left.
        record("5", "4", "user", json!({"content": "no, stop"})),
        record("6", "4", "user", json!({"content": "go on"})),
        record("7", "6", "assistant", json!({"id": "m2", "content": [{"type": "text", "text": "Done."}]})),
        json!({"type": "assistant", "uuid": "8", "isSidechain": true, "message": {"id": "m3", "content": [{"type": "text", "text": "elsewhere"}]}}),
    ];
    let found = check(
        Agent::ClaudeCode,
        &records,
        &["user: why?", "model: Let me look. [Read -> \"text of a\"]", "user: go on", "model: Done."],
    );
    assert_eq!((found.id.as_str(), found.project.as_str(), found.model.as_str()), ("s", "/work/app", "claude-opus-4-6"));
    assert_eq!(found.messages[1].calls[0].arguments, json!({"path": "a"}));
}

#[test]
fn codex() {
    let item = |payload: Value| json!({"timestamp": "2026-05-01T10:00:00.000Z", "type": "response_item", "payload": payload});
    let said = |role: &str, text: &str| {
        item(json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}))
    };
    let records = [
        json!({"type": "session_meta", "payload": {"id": "s", "cwd": "/work/app"}}),
        said("developer", "rules"),
        said("user", "<environment_context>…"),
        said("user", "why?"),
        item(json!({"type": "function_call", "name": "shell", "call_id": "c", "arguments": "{\"cmd\":\"ls\"}"})),
        item(json!({"type": "function_call_output", "call_id": "c", "output": "a b"})),
        said("assistant", "Because."),
    ];
    let found = check(Agent::Codex, &records, &["user: why?", "model:  [shell -> \"a b\"]", "model: Because."]);
    assert_eq!(found.messages[1].calls[0].arguments, json!({"cmd": "ls"}));
}

#[test]
fn the_others() {
    let pi = [
        json!({"type": "session", "id": "s", "cwd": "/w"}),
        json!({"type": "message", "id": "1", "parentId": null, "message": {"role": "user", "content": [{"type": "text", "text": "why?"}]}}),
        json!({"type": "message", "id": "2", "parentId": "1", "message": {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "read", "arguments": {}}]}}),
        json!({"type": "message", "id": "3", "parentId": "2", "message": {"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": "x"}]}}),
    ];
    check(Agent::Pi, &pi, &["user: why?", "model:  [read -> \"x\"]"]);
    let gemini = [json!({"sessionId": "s", "messages": [{"id": "1", "type": "user", "content": "why?"},
        {"id": "2", "type": "gemini", "content": "So.", "toolCalls": [{"id": "c", "name": "read", "args": {}, "result": ["x"]}]}]})];
    check(Agent::GeminiCli, &gemini, &["user: why?", "model: So. [read -> [\"x\"]]"]);
    let lines = [
        json!({"id": "1", "type": "user", "content": "why?"}),
        json!({"id": "2", "type": "gemini", "content": "wrong"}),
        json!({"$rewindTo": "2"}),
        json!({"id": "3", "type": "gemini", "content": "right"}),
    ];
    check(Agent::GeminiCli, &lines, &["user: why?", "model: right"]);
    let opencode = [
        json!({"info": {"id": "s"}, "messages": [{"info": {"id": "1", "role": "user"}, "parts": [{"type": "text", "text": "why?"}]},
        {"info": {"id": "2", "role": "assistant"}, "parts": [{"type": "text", "text": "So."}, {"type": "tool", "callID": "c", "tool": "read", "state": {"input": {}, "output": "x"}}]}]}),
    ];
    check(Agent::OpenCode, &opencode, &["user: why?", "model: So. [read -> \"x\"]"]);
    let qwen = [
        json!({"type": "user", "uuid": "1", "message": {"parts": [{"text": "why?"}]}}),
        json!({"type": "assistant", "uuid": "2", "parentUuid": "1", "message": {"parts": [{"text": "hm", "thought": true}, {"functionCall": {"id": "c", "name": "read", "args": {}}}]}}),
        json!({"type": "tool_result", "uuid": "3", "parentUuid": "2", "message": {"parts": [{"functionResponse": {"id": "c", "response": {"output": "x"}}}]}}),
    ];
    check(Agent::QwenCode, &qwen, &["user: why?", "model:  [read -> {\"output\":\"x\"}]"]);
}

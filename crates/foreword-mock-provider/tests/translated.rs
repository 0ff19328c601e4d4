//! Requests of clients that were translated for another API: its provider takes them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use foreword_mock_provider::rules::{Endpoint, validate};
use foreword_provider::dialect::Dialect;
use foreword_provider::front::ClientApi;
use foreword_provider::table::ModelTable;
use serde_json::{Value, json};

#[test]
fn providers_take_what_is_written() {
    let function = json!({"name": "read", "description": "Reads.", "parameters": {"type": "object"}});
    let plain = json!({"model": "m", "max_tokens": 99, "tools": [{"type": "function", "function": function}], "reasoning_effort": "low", "messages": [
        {"role": "system", "content": "s"}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": ""}]});
    let claude = json!({"model": "m", "max_tokens": 99, "tools": [{"name": "read", "input_schema": {"type": "object"}}], "messages": [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1"}, {"type": "text", "text": "So?"}]}]});
    for (front, body, name, to) in [
        (ClientApi::Chat, &plain, "claude-opus-5", Dialect::Anthropic),
        (ClientApi::Chat, &plain, "claude-haiku-4-5", Dialect::Anthropic),
        (ClientApi::Messages, &claude, "gpt-5.6-sol", Dialect::OpenAiResponses),
        (ClientApi::Messages, &claude, "gpt-4.1", Dialect::OpenAiChat),
    ] {
        let model = ModelTable::builtin().unwrap().find(name).unwrap();
        let found = front.translate(&body.to_string(), to, &model, name).unwrap();
        let found: Value = serde_json::from_str(&found.body).unwrap();
        assert_eq!(validate(to, Endpoint::of(&model), &found), Ok(()), "{name}: {found}");
    }
}

use serde_json::{Value, json};

use super::*;
use crate::reply::{Form, Reader, Reply, Stop};
use crate::table::ModelTable;

fn model(name: &str) -> Model {
    ModelTable::builtin().unwrap().find(name).unwrap()
}

/// The body for a model, and what was left out.
fn translated(front: ClientApi, body: &Value, name: &str, to: Dialect) -> (Value, Vec<String>) {
    let model = model(name);
    let found = front.translate(&body.to_string(), to, &model, name).unwrap_or_else(|error| panic!("{error}: {body}"));
    (serde_json::from_str(&found.body).unwrap(), found.ignored)
}

fn function() -> Value {
    json!({"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}})
}

const IMAGE: &str = "data:image/png;base64,aGk=";

fn chat() -> Value {
    json!({
        "model": "m", "max_tokens": 99, "temperature": 0.5, "stop": "END", "stream": true, "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function": function()}], "tool_choice": "required", "parallel_tool_calls": false, "user": "u",
        "messages": [
            {"role": "system", "content": "Be brief."}, {"role": "developer", "content": "And kind."},
            {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": IMAGE}}]},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"b\",\"all\":1}"}},
                {"id": "c2", "type": "function", "function": {"name": "read", "arguments": ""}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "one"}, {"role": "tool", "tool_call_id": "c2", "content": "two"},
            {"role": "user", "content": "And?"}, {"role": "system", "content": "Now be quick."},
        ],
    })
}

#[test]
fn a_chat_for_claude() {
    let (body, ignored) = translated(ClientApi::Chat, &chat(), "claude-sonnet-4-6", Dialect::Anthropic);
    let text = |text: &str| json!({"type": "text", "text": text});
    let expect = json!({
        "model": "claude-sonnet-4-6", "max_tokens": 99, "stream": true, "temperature": 0.5, "stop_sequences": ["END"],
        "system": [text("Be brief."), text("And kind.")],
        "tools": [{"name": "read", "description": "Reads.", "input_schema": function()["parameters"]}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
        "messages": [
            {"role": "user", "content": [text("Look"), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}]},
            {"role": "assistant", "content": [text("I look."),
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "b", "all": 1}},
                {"type": "tool_use", "id": "c2", "name": "read", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [text("one")]},
                {"type": "tool_result", "tool_use_id": "c2", "content": [text("two")]},
                text("And?"), text("<system-reminder>\nNow be quick.\n</system-reminder>")]},
        ],
    });
    assert_eq!(body, expect);
    assert_eq!(ignored, ["user"]);
}

#[test]
fn claude_code_for_gpt() {
    let body = json!({
        "model": "gpt-5.4", "max_tokens": 32000, "stream": true, "thinking": {"type": "enabled", "budget_tokens": 10000},
        "system": [{"type": "text", "text": "x-anthropic-billing-header: a"}, {"type": "text", "text": "You code.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}],
        "metadata": {"user_id": "u"}, "context_management": {"edits": []},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "foreword:{\"type\":\"reasoning\",\"id\":\"rs_1\",\"encrypted_content\":\"e\",\"summary\":[]}"},
                {"type": "thinking", "thinking": "Of another model.", "signature": "sig"},
                {"type": "text", "text": "I read."}, {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"b": 1, "a": 2}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [
                {"type": "text", "text": "x"}, {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}]}]},
            {"role": "system", "content": "Be careful."},
        ],
    });
    let (found, ignored) = translated(ClientApi::Messages, &body, "gpt-5.4", Dialect::OpenAiResponses);
    let expect = json!({
        "model": "gpt-5.4", "stream": true, "store": false, "instructions": "You code.", "max_output_tokens": 32000,
        "reasoning": {"effort": "medium", "summary": "auto"}, "include": ["reasoning.encrypted_content"],
        "tools": [{"type": "function", "name": "Read", "description": "Reads.", "parameters": {"type": "object", "properties": {}}, "strict": false}],
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "reasoning", "id": "rs_1", "encrypted_content": "e", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I read."}]},
            {"type": "function_call", "call_id": "toolu_1", "name": "Read", "arguments": "{\"a\":2,\"b\":1}"},
            {"type": "function_call_output", "call_id": "toolu_1", "output": [
                {"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"}]},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be careful."}]},
        ],
    });
    assert_eq!(found, expect);
    assert_eq!(ignored, ["metadata", "context_management"]);
    let (found, _) = translated(ClientApi::Messages, &body, "gpt-4.1", Dialect::OpenAiChat);
    assert_eq!((&found["max_completion_tokens"], &found["stream_options"]), (&json!(32000), &json!({"include_usage": true})));
    let roles: Vec<&str> =
        found["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "user", "system"]);
    assert_eq!(found["messages"][2]["tool_calls"][0]["function"]["arguments"], "{\"a\":2,\"b\":1}");
    assert_eq!(found["messages"][4]["content"][0]["image_url"]["url"], "https://example.com/a.png");
}

#[test]
fn codex_for_claude() {
    let body = json!({
        "model": "claude-opus-5", "instructions": "You code.", "stream": true, "store": false, "parallel_tool_calls": true, "tool_choice": "auto",
        "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "high", "summary": "auto"}, "prompt_cache_key": "k",
        "tools": [
            {"type": "function", "name": "exec", "parameters": {"type": "object"}, "strict": false},
            {"type": "custom", "name": "apply_patch", "description": "Patches.", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
            {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "find", "parameters": {"type": "object"}}]}],
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Read only."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "foreword:{\"type\":\"thinking\",\"thinking\":\"Hm.\",\"signature\":\"s\"}"},
            {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"},
            {"type": "function_call", "call_id": "c2", "namespace": "mcp", "name": "find", "arguments": "{}"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
            {"type": "function_call_output", "call_id": "c2", "output": "none"}],
    });
    let (found, ignored) = translated(ClientApi::Responses, &body, "claude-opus-5", Dialect::Anthropic);
    assert_eq!((&found["thinking"], &found["output_config"]), (&json!({"type": "adaptive"}), &json!({"effort": "high"})));
    assert_eq!(found["max_tokens"], json!(model("claude-opus-5").reply_limit.0));
    let names: Vec<&str> = found["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["exec", "apply_patch", "mcp__find"]);
    assert!(found["tools"][1]["description"].as_str().unwrap().ends_with("start: x"));
    assert_eq!(
        found["messages"][1]["content"],
        json!([
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "tool_use", "id": "c1", "name": "apply_patch", "input": {"input": "*** Begin"}},
            {"type": "tool_use", "id": "c2", "name": "mcp__find", "input": {}},
        ])
    );
    assert_eq!(ignored, ["store", "include", "prompt_cache_key"]);
    // An older model is given a number of tokens.
    let (found, _) = translated(ClientApi::Responses, &body, "claude-sonnet-4-5", Dialect::Anthropic);
    assert_eq!(found["thinking"], json!({"type": "enabled", "budget_tokens": 16384}));
    // A client that lost the thoughts of this loop goes on without new ones.
    let mut lost = body;
    lost["input"].as_array_mut().unwrap().remove(2);
    let (found, ignored) = translated(ClientApi::Responses, &lost, "claude-opus-5", Dialect::Anthropic);
    assert!(found["thinking"].is_null() && ignored.contains(&"reasoning_effort".to_owned()), "{found}");
}

#[test]
fn json_that_a_model_reads_keeps_its_order() {
    let schema = r#"{"type":"object","properties":{"reasoning":{"type":"string"},"answer":{"type":"number"}}}"#;
    let body = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"Hi"}}],"tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}],
            "response_format":{{"type":"json_schema","json_schema":{{"name":"n","strict":true,"schema":{schema}}}}}}}"#
    );
    let found = ClientApi::Chat.translate(&body, Dialect::Anthropic, &model("claude-opus-5"), "m").unwrap().body;
    assert_eq!(found.matches(schema).count(), 2, "{found}");
    let body = format!(
        r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"user","content":"Hi"}}],"tools":[{{"name":"f","input_schema":{schema}}}],
            "output_config":{{"format":{{"type":"json_schema","schema":{schema}}}}}}}"#
    );
    for (to, name) in [(Dialect::OpenAiChat, "gpt-4.1"), (Dialect::OpenAiResponses, "gpt-5.4")] {
        let found = ClientApi::Messages.translate(&body, to, &model(name), "m").unwrap().body;
        assert_eq!(found.matches(schema).count(), 2, "{found}");
    }
}

#[test]
fn what_has_no_equivalent_is_named() {
    let check = |front: ClientApi, field: &str, value: Value, to: Dialect, place: &str| {
        let mut body = match front {
            ClientApi::Responses => json!({"model": "m", "input": "Hi"}),
            _ => json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}),
        };
        body[field] = value;
        let name = if to == Dialect::Anthropic { "claude-opus-5" } else { "gpt-5.4" };
        let error = front.translate(&body.to_string(), to, &model(name), "m").unwrap_err();
        assert_eq!(error.place, place, "{body}: {error}");
    };
    let to = Dialect::Anthropic;
    check(ClientApi::Chat, "n", json!(2), to, "n");
    check(ClientApi::Chat, "logprobs", json!(true), to, "logprobs");
    check(ClientApi::Chat, "temperature", json!(1.5), to, "temperature");
    check(ClientApi::Chat, "response_format", json!({"type": "json_object"}), to, "response_format");
    check(ClientApi::Chat, "frequency_penalty", json!(0.5), to, "frequency_penalty");
    check(ClientApi::Chat, "audio", json!({"voice": "x"}), to, "audio");
    check(ClientApi::Chat, "something_new", json!(1), to, "something_new");
    check(
        ClientApi::Chat,
        "messages",
        json!([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]),
        to,
        "messages[0].content[0].type",
    );
    check(ClientApi::Responses, "tools", json!([{"type": "web_search"}]), to, "tools[0].type");
    check(ClientApi::Responses, "previous_response_id", json!("resp_1"), to, "previous_response_id");
    check(ClientApi::Responses, "background", json!(true), to, "background");
    check(ClientApi::Responses, "input", json!([{"type": "computer_call"}]), to, "input[0].type");
    let to = Dialect::OpenAiResponses;
    check(ClientApi::Messages, "top_k", json!(4), to, "top_k");
    check(ClientApi::Messages, "stop_sequences", json!(["x"]), to, "stop_sequences");
    check(ClientApi::Messages, "tools", json!([{"type": "bash_20250124", "name": "bash"}]), to, "tools[0].type");
    check(ClientApi::Messages, "mcp_servers", json!([{"url": "x"}]), to, "mcp_servers");
}

/// A stream of a provider, told in another API: our own reader of that API reads the same in it.
#[test]
fn answers_are_told_in_the_clients_api() {
    let claude = [
        json!({"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 100, "cache_read_input_tokens": 20, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I read ä."}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{\"b\": 1"}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ", \"a\": 2}"}}),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {}}}),
        json!({"type": "content_block_stop", "index": 3}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ];
    let frame = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    let claude = claude.iter().map(frame).collect::<Vec<_>>().concat();
    for (front, dialect) in [(ClientApi::Chat, Dialect::OpenAiChat), (ClientApi::Responses, Dialect::OpenAiResponses)] {
        let of = front.translate(&request(front), Dialect::Anthropic, &model("claude-opus-5"), "m").unwrap();
        let mut translator = AnswerTranslator::new(front, Dialect::Anthropic, Form::Stream, &of, ("s", "m"), 1);
        let mut told = String::new();
        for piece in claude.as_bytes().chunks(37) {
            told += &translator.push(piece).unwrap();
        }
        // The first call was told as it came.
        assert!(told.contains("toolu_1") && told.contains("I read"), "{front:?}: {told}");
        told += &translator.finish().unwrap();
        let reply = read(dialect, Form::Stream, &told);
        check_reply(&reply, front);
        let mut translator = AnswerTranslator::new(front, Dialect::Anthropic, Form::Stream, &of, ("s", "m"), 1);
        translator.push(claude.as_bytes()).unwrap();
        check_reply(&read(dialect, Form::Whole, &translator.whole().unwrap().to_string()), front);
    }
}

fn request(front: ClientApi) -> String {
    match front {
        ClientApi::Responses => json!({"model": "m", "input": "Hi"}),
        _ => json!({"model": "m", "max_tokens": 9, "stream_options": {"include_usage": true}, "messages": [{"role": "user", "content": "Hi"}]}),
    }
    .to_string()
}

fn check_reply(reply: &Reply, front: ClientApi) {
    use crate::reply::Part;
    assert_eq!(reply.text(), "I read ä.", "{front:?}");
    let thoughts: String =
        reply.parts.iter().filter_map(|part| if let Part::Reasoning(text) = part { Some(text.as_str()) } else { None }).collect();
    assert_eq!(thoughts, "Hm.", "{front:?}");
    let calls: Vec<(Option<&str>, &str)> = reply
        .parts
        .iter()
        .filter_map(
            |part| if let Part::Call { id, arguments, .. } = part { Some((id.as_deref(), arguments.as_str())) } else { None },
        )
        .collect();
    assert_eq!(calls, [(Some("toolu_1"), "{\"b\": 1, \"a\": 2}"), (Some("toolu_2"), "{}")], "{front:?}");
    assert_eq!(reply.stop, Some(Stop::Calls), "{front:?}");
    let usage = reply.usage.unwrap();
    assert_eq!((usage.input.0, usage.cache_read.0, usage.output.0), (120, 20, 7), "{front:?}");
}

fn read(dialect: Dialect, form: Form, bytes: &str) -> Reply {
    let mut reader = Reader::new(dialect, form, 1 << 20);
    reader.push(bytes.as_bytes()).unwrap();
    reader.finish().unwrap();
    std::iter::from_fn(|| reader.next_event()).collect()
}

/// Thoughts of GPT go through a client of Anthropic and back.
#[test]
fn thoughts_come_back_whole() {
    let item = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "e"});
    let answer = json!({"id": "resp_1", "status": "completed", "usage": {"input_tokens": 5, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 2}},
        "output": [item, {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": "{}"}]});
    let of = ClientApi::Messages.translate(&request(ClientApi::Messages), Dialect::OpenAiResponses, &model("gpt-5.4"), "m");
    assert_eq!(of.unwrap_err().place, "stream_options");
    let asked = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    let of = ClientApi::Messages.translate(&asked.to_string(), Dialect::OpenAiResponses, &model("gpt-5.4"), "m").unwrap();
    let mut translator = AnswerTranslator::new(ClientApi::Messages, Dialect::OpenAiResponses, Form::Whole, &of, ("s", "m"), 1);
    translator.push(answer.to_string().as_bytes()).unwrap();
    let message = translator.whole().unwrap();
    assert_eq!((&message["stop_reason"], &message["content"][0]["thinking"]), (&json!("tool_use"), &json!("Hm.")));
    let next = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": message["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}]}]});
    let (found, _) = translated(ClientApi::Messages, &next, "gpt-5.4", Dialect::OpenAiResponses);
    assert_eq!(found["input"][1], item);
}

use foreword_core::message::ToolCall;
use serde_json::{Value, json};

use super::*;
use crate::dialect::Dialect;
use crate::reply::{Form, Reader, Reply, Stop};

fn user(text: &str) -> ClientMessage {
    ClientMessage::User(text.to_owned())
}

fn assistant(text: &str, calls: &[(&str, &str, Value)]) -> ClientMessage {
    let calls = calls.iter().map(|(id, name, arguments)| ClientCall {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        arguments: arguments.clone(),
    });
    ClientMessage::Assistant { text: text.to_owned(), calls: calls.collect() }
}

fn result(id: &str, output: &str, failed: bool) -> ClientMessage {
    ClientMessage::Result { id: id.to_owned(), output: output.to_owned(), failed }
}

#[test]
fn the_same_conversation_in_three_apis() {
    let said = [
        user("Hi"),
        assistant("Let me look.", &[("c1", "read", json!({"path": "a"}))]),
        result("c1", "text", false),
        user("And?"),
    ];
    let check = |front: ClientApi, body: Value| {
        let asked = front.read(body.clone()).unwrap();
        assert_eq!(asked.system, "Be brief.", "{front:?}");
        assert_eq!(asked.said, said, "{front:?}");
        assert_eq!(asked.reply_tokens, Some(99), "{front:?}");
        assert_eq!(asked.tools.len(), 1, "{front:?}");
        assert_eq!((asked.tools[0].name.as_str(), &asked.tools[0].schema), ("read", &json!({"type": "object"})), "{front:?}");
        assert_eq!(asked.extra.keys().collect::<Vec<_>>(), ["temperature"], "{front:?}");
    };
    let function = json!({"name": "read", "description": "Reads.", "parameters": {"type": "object"}});
    check(
        ClientApi::Chat,
        json!({
            "model": "m", "max_tokens": 99, "temperature": 0.5, "tools": [{"type": "function", "function": function}],
            "messages": [
                {"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
                {"role": "assistant", "content": "Let me look.", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\": \"a\"}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "text"}, {"role": "user", "content": "And?"},
            ],
        }),
    );
    check(
        ClientApi::Responses,
        json!({
            "model": "m", "max_output_tokens": 99, "temperature": 0.5, "instructions": "Be brief.",
            "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}],
            "input": [
                {"role": "user", "content": "Hi"}, {"type": "reasoning", "id": "rs", "summary": []},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
                {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{\"path\": \"a\"}"},
                {"type": "function_call_output", "call_id": "c1", "output": "text"}, {"role": "user", "content": [{"type": "input_text", "text": "And?"}]},
            ],
        }),
    );
    check(
        ClientApi::Messages,
        json!({
            "model": "m", "max_tokens": 99, "temperature": 0.5, "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": "read", "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "text"}, {"type": "text", "text": "And?"}]},
            ],
        }),
    );
}

#[test]
fn what_is_not_understood_is_named() {
    let check = |front: ClientApi, body: Value, place: &str| {
        let error = front.read(body.clone()).unwrap_err();
        assert_eq!(error.place, place, "{body}: {error}");
        assert!(!error.what.is_empty());
    };
    check(ClientApi::Chat, json!([]), "body");
    check(ClientApi::Chat, json!({"messages": []}), "model");
    check(ClientApi::Chat, json!({"model": "m", "messages": 1}), "messages");
    check(ClientApi::Chat, json!({"model": "m", "messages": [{"role": "king", "content": "x"}]}), "messages[0].role");
    check(
        ClientApi::Chat,
        json!({"model": "m", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
        "messages[0].content[0]",
    );
    check(ClientApi::Chat, json!({"model": "m", "messages": [{"role": "tool", "content": "x"}]}), "messages[0].tool_call_id");
    check(ClientApi::Chat, json!({"model": "m", "n": 2, "messages": []}), "n");
    check(ClientApi::Chat, json!({"model": "m", "max_tokens": -1, "messages": []}), "max_tokens");
    check(ClientApi::Chat, json!({"model": "m", "tools": [{"type": "web_search"}], "messages": []}), "tools[0]");
    let twice = json!([{"function": {"name": "read"}}, {"function": {"name": "read"}}]);
    check(ClientApi::Chat, json!({"model": "m", "tools": twice, "messages": []}), "tools");
    for (name, value) in [("functions", json!([{}])), ("logprobs", json!(true)), ("modalities", json!(["text", "audio"]))] {
        check(ClientApi::Chat, json!({"model": "m", name: value, "messages": []}), name);
    }
    let old = json!([{"role": "assistant", "content": null, "function_call": {"name": "read"}}]);
    check(ClientApi::Chat, json!({"model": "m", "messages": old}), "messages[0].function_call");
    check(ClientApi::Responses, json!({"model": "m", "input": "x", "background": true}), "background");
    check(ClientApi::Messages, json!({"model": "m", "messages": [], "mcp_servers": [{}]}), "mcp_servers");
    check(ClientApi::Responses, json!({"model": "m".repeat(999), "input": 5}), "model");
    check(ClientApi::Responses, json!({"model": "m", "input": 5}), "input");
    check(ClientApi::Responses, json!({"model": "m", "input": [{"type": "computer_call"}]}), "input[0]");
    check(
        ClientApi::Messages,
        json!({"model": "m", "messages": [{"role": "user", "content": [{"type": "image"}]}]}),
        "messages[0].content[0]",
    );
    check(ClientApi::Messages, json!({"model": "m", "messages": [{"role": "system", "content": "x"}]}), "messages[0].role");
}

#[test]
fn marks_of_the_clients_own() {
    use crate::stream::{ClientMark, Marked, Ttl};
    let mark = json!({"type": "ephemeral"});
    let text = || json!({"type": "text", "text": "x"});
    let marked = |mut block: Value| {
        block["cache_control"] = mark.clone();
        block
    };
    let result = |content: Value| json!({"type": "tool_result", "tool_use_id": "c", "content": content});
    // Where they are in what a session keeps, and whether there are others.
    let check = |field: &str, value: Value, expect: &[Marked], elsewhere: bool| {
        let mut body = json!({"model": "m", "messages": []});
        body[field] = value;
        let asked = ClientApi::Messages.read(body.clone()).unwrap();
        let expect: Vec<_> = expect.iter().map(|at| ClientMark { at: *at, ttl: Ttl::Short }).collect();
        assert_eq!((asked.marks, asked.laid_out), (expect, elsewhere), "{body}");
    };
    let said = |blocks: Value| json!([{"role": "user", "content": blocks}, {"role": "assistant", "content": "y"}, {"role": "user", "content": "z"}]);
    check("system", json!([text(), marked(text())]), &[Marked::System], false);
    check("system", json!([marked(text()), text()]), &[], true);
    check("system", json!([{"type": "text", "text": "x", "cache_control": null}]), &[], false);
    check("tools", json!([{"name": "s"}, {"name": "t", "cache_control": mark}]), &[Marked::Tools], false);
    check("tools", json!([{"name": "s", "cache_control": mark}, {"name": "t"}]), &[], true);
    check("messages", said(json!([marked(text())])), &[Marked::Message(2)], false);
    check("messages", said(json!([marked(text()), text()])), &[], true);
    // Each result is a message, and what is said beside them one more.
    let both = json!([marked(result(json!("r"))), result(json!("s")), marked(text())]);
    check("messages", said(both), &[Marked::Message(4), Marked::Message(2)], false);
    check("messages", said(json!([result(json!([marked(text())]))])), &[], true);
    check("cache_control", mark.clone(), &[Marked::Message(0)], false);
    // What a tool is called with is no mark.
    let call = json!({"type": "tool_use", "id": "c", "name": "t", "input": {"cache_control": mark}});
    check("messages", json!([{"role": "assistant", "content": [call]}]), &[], false);
    check("tools", json!([{"name": "t", "input_schema": {"properties": {"cache_control": mark}}}]), &[], false);
    let long = json!({"model": "m", "messages": [], "cache_control": {"type": "ephemeral", "ttl": "1h"}});
    assert_eq!(ClientApi::Messages.read(long).unwrap().marks, [ClientMark { at: Marked::Message(0), ttl: Ttl::Long }]);
}

#[test]
fn instructions_between_messages_are_laid_out() {
    let check = |front: ClientApi, field: &str, roles: &[&str], expect: bool| {
        let said: Vec<Value> = roles.iter().map(|role| json!({"role": role, "content": "x"})).collect();
        let asked = front.read(json!({"model": "m", field: said})).unwrap();
        assert_eq!(asked.laid_out, expect, "{roles:?}");
    };
    for (front, field) in [(ClientApi::Chat, "messages"), (ClientApi::Responses, "input")] {
        check(front, field, &["system", "developer", "user", "assistant", "user"], false);
        check(front, field, &["system", "user", "system", "user"], true);
        check(front, field, &["user", "developer"], true);
    }
}

#[test]
fn what_only_the_provider_knows_of_a_tool_is_kept() {
    let check = |front: ClientApi, tool: Value, expect: Value| {
        let asked = front.read(json!({"model": "m", "messages": [], "tools": [tool]})).unwrap();
        assert_eq!(serde_json::to_value(&asked.tool_fields).unwrap(), expect, "{tool}");
        assert_eq!(asked.tools[0].name, "t");
    };
    let schema = json!({"type": "object"});
    check(
        ClientApi::Chat,
        json!({"type": "function", "function": {"name": "t", "parameters": schema, "strict": true}}),
        json!({"t": {"strict": true}}),
    );
    check(ClientApi::Chat, json!({"type": "function", "function": {"name": "t", "strict": null}}), json!({}));
    check(
        ClientApi::Responses,
        json!({"type": "function", "name": "t", "parameters": schema, "strict": true}),
        json!({"t": {"strict": true}}),
    );
    check(
        ClientApi::Messages,
        json!({"type": "custom", "name": "t", "input_schema": schema, "cache_control": {"type": "ephemeral"}, "eager_input_streaming": true}),
        json!({"t": {"eager_input_streaming": true}}),
    );
}

/// The text, the parts it comes in, the calls, why it ended, and how a reader names that.
type Case<'a> = (&'a str, &'a [&'a str], &'a [ToolCall], End, Stop);

/// What our own reader of providers' answers makes of what is told, streamed and whole.
#[test]
fn what_is_told_is_read_as_it_was_meant() {
    let calls = [
        ToolCall { id: "c1".to_owned(), name: "read".to_owned(), arguments: json!({"path": "ä"}) },
        ToolCall { id: "c2".to_owned(), name: "list".to_owned(), arguments: json!({}) },
    ];
    let cases: [Case<'_>; 5] = [
        ("Hello there.", &["Hello ", "there."], &[], End::Done, Stop::End),
        ("Hello\n\nthere \u{1f980}", &[], &[], End::Done, Stop::End),
        ("Let me look.", &["Let me look."], &calls, End::Calls, Stop::Calls),
        ("", &[], &calls, End::Calls, Stop::Calls),
        ("Cut", &["Cut"], &[], End::Cut, Stop::Length),
    ];
    let fronts = [
        (ClientApi::Chat, Dialect::OpenAiChat),
        (ClientApi::Responses, Dialect::OpenAiResponses),
        (ClientApi::Messages, Dialect::Anthropic),
    ];
    for (front, dialect) in fronts {
        for (text, parts, calls, end, stop) in &cases {
            let told = FinishedAnswer { text, calls, end: end.clone(), cached: (60, 10), prompt: 100, output: 7, reasoning: 0 };
            let mut teller = ResponseWriter::new(front, "s-1", "model", 1_700_000_000, true);
            let mut stream = teller.begin(100);
            for part in *parts {
                stream += &teller.part(part);
            }
            stream += &teller.end(&told);
            let whole = ResponseWriter::new(front, "s-1", "model", 1_700_000_000, true).whole(&told).to_string();
            for (form, bytes) in [(Form::Stream, stream), (Form::Whole, whole)] {
                let reply = read(dialect, form, &bytes);
                let case = format!("{front:?} {form:?} {text:?}");
                assert_eq!(reply.text(), *text, "{case}");
                let named: Vec<(String, Value)> = reply
                    .parts
                    .iter()
                    .filter_map(|part| match part {
                        crate::reply::Part::Call { name, arguments, .. } => {
                            Some((name.clone(), serde_json::from_str(arguments).unwrap()))
                        }
                        _ => None,
                    })
                    .collect();
                assert_eq!(
                    named,
                    calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect::<Vec<_>>(),
                    "{case}"
                );
                assert_eq!(reply.stop, Some(stop.clone()), "{case}");
                let usage = reply.usage.unwrap_or_else(|| panic!("{case}: no usage"));
                assert_eq!((usage.cache_use().total().0, usage.cache_use().read.0, usage.output.0), (100, 60, 7), "{case}");
            }
        }
    }
}

fn read(dialect: Dialect, form: Form, bytes: &str) -> Reply {
    let mut reader = Reader::new(dialect, form, 1 << 20);
    reader.push(bytes.as_bytes()).unwrap();
    reader.finish().unwrap();
    std::iter::from_fn(|| reader.next_event()).collect()
}

#[test]
fn a_request_brings_a_limited_number_of_tools() {
    let ask = |number: usize| {
        let tools: Vec<_> = (0..number).map(|number| json!({"name": format!("t{number}"), "input_schema": {}})).collect();
        ClientApi::Messages.read(json!({"model": "m", "max_tokens": 9, "messages": [], "tools": tools}))
    };
    assert_eq!(ask(MAX_TOOLS).unwrap().tools.len(), MAX_TOOLS);
    let refused = ask(MAX_TOOLS + 1).unwrap_err();
    assert!(refused.to_string().contains("there are more than 4096"), "{refused}");
}

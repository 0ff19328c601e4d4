//! What each provider sends, and what it comes to.

use foreword_core::tokens::Tokens;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::dialect::Dialect;
use crate::dialect::Dialect::{Anthropic, Gemini, LlamaCpp, OpenAiChat, OpenAiResponses};
use crate::refusal::Fault;

const MAX: usize = 1 << 20;

fn read(dialect: Dialect, form: Form, chunks: &[&[u8]]) -> (Vec<Event>, Result<(), ReadError>) {
    let mut reader = Reader::new(dialect, form, MAX);
    let mut events = Vec::new();
    let mut drain = |reader: &mut Reader| events.extend(std::iter::from_fn(|| reader.next_event()));
    for chunk in chunks {
        let pushed = reader.push(chunk);
        drain(&mut reader);
        if pushed.is_err() {
            return (events, pushed);
        }
    }
    let finished = reader.finish();
    drain(&mut reader);
    (events, finished)
}

fn stream(frames: &[Value]) -> String {
    frames.iter().flat_map(|frame| ["data: ".to_owned(), frame.to_string(), "\n\n".to_owned()]).collect()
}

/// Events in short, one a line.
fn show(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| match event {
        Event::Text(text) => format!("text {text}"),
        Event::Reasoning(text) => format!("reasoning {text}"),
        Event::CallBegin { call, id, name } => format!("call {call} {} {name}", id.as_deref().unwrap_or("-")),
        Event::CallPart { call, arguments } => format!("part {call} {arguments}"),
        Event::Opaque(opaque) => format!("opaque {:?} {}", opaque.place, opaque.json),
        Event::Missed(missed) => format!("missed {} {:?}", missed.reason, missed.tokens),
        Event::Usage(usage) => format!("usage {} {} {}", usage.input, usage.cache_read, usage.output),
        Event::Stop(stop) => format!("stop {stop:?}"),
    };
    events.iter().map(line).collect()
}

fn check(dialect: Dialect, frames: &[Value], expect: &[&str]) {
    let (events, ended) = read(dialect, Form::Stream, &[stream(frames).as_bytes()]);
    assert_eq!(show(&events), expect, "{frames:#?}");
    let stopped = expect.last().is_some_and(|last| last.starts_with("stop"));
    assert_eq!(ended.is_ok(), stopped, "{ended:?}");
}

fn check_whole(dialect: Dialect, value: &Value, expect: &[&str]) {
    let (events, ended) = read(dialect, Form::Whole, &[value.to_string().as_bytes()]);
    assert_eq!(show(&events), expect, "{value:#}");
    assert_eq!(ended, Ok(()));
}

fn delta(delta: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}], "usage": null})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

#[test]
fn chat() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}});
    check(
        OpenAiChat,
        &[delta(&json!({"role": "assistant", "content": ""})), delta(&json!({"content": "Hi"})), finish("stop"), usage.clone()],
        &["text Hi", "usage 9 4 2", "stop End"],
    );
    let call = |index: u64, id: &str, name: &str| {
        delta(
            &json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]}),
        )
    };
    let part = |index: u64, text: &str| delta(&json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]}));
    check(
        OpenAiChat,
        &[call(0, "a", "f"), part(0, "{\"x\""), call(1, "b", "g"), part(1, "{}"), part(0, ":1}"), finish("tool_calls")],
        &["call 0 a f", "part 0 {\"x\"", "call 1 b g", "part 1 {}", "part 0 :1}", "stop Calls"],
    );
    // Cut, without a word.
    check(OpenAiChat, &[delta(&json!({"content": "Hi"}))], &["text Hi"]);
    check(OpenAiChat, &[delta(&json!({"content": "Hi"})), finish("length")], &["text Hi", "stop Length"]);
    check(OpenAiChat, &[delta(&json!({"refusal": "No."})), finish("content_filter")], &["text No.", "stop Refused"]);
    check(OpenAiChat, &[delta(&json!({"refusal": "No."})), finish("stop")], &["text No.", "stop Refused"]);
    check(OpenAiChat, &[finish("odd")], &["stop Other(\"odd\")"]);
}

#[test]
fn chat_as_other_servers_have_it() {
    // One index for all calls, and `stop` although there are some.
    let same = |id: &str| delta(&json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": "f", "arguments": "{}"}}]}));
    check(
        OpenAiChat,
        &[same("a"), same("b"), finish("stop")],
        &["call 0 a f", "part 0 {}", "call 1 b f", "part 1 {}", "stop Calls"],
    );
    // No index, no id, arguments that are an object.
    let bare = delta(&json!({"tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}));
    check(LlamaCpp, &[bare, finish("tool_calls")], &["call 0 - f", "part 0 {\"x\":1}", "stop Calls"]);
    check(
        LlamaCpp,
        &[
            delta(&json!({"reasoning_content": "Hm"})),
            delta(&json!({"content": "Hi"})),
            json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "timings": {"cache_n": 3, "prompt_n": 2, "predicted_n": 1}}),
        ],
        &["reasoning Hm", "text Hi", r#"opaque Message {"reasoning_content":"Hm"}"#, "usage 5 3 1", "stop End"],
    );
    check(
        OpenAiChat,
        &[
            delta(&json!({"reasoning": "H", "reasoning_details": [{"text": "H"}]})),
            delta(&json!({"reasoning": "m", "reasoning_details": [{"text": "m"}]})),
            finish("stop"),
        ],
        &["reasoning H", "reasoning m", r#"opaque Message {"reasoning_details":[{"text":"H"},{"text":"m"}]}"#, "stop End"],
    );
    let signed = json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": "s"}}});
    check(
        OpenAiChat,
        &[delta(&json!({"tool_calls": [signed]})), finish("tool_calls")],
        &["call 0 a f", "part 0 {}", r#"opaque Call(0) {"extra_content":{"google":{"thought_signature":"s"}}}"#, "stop Calls"],
    );
    check(OpenAiChat, &[delta(&json!({"content": [{"type": "text", "text": "Hi"}]})), finish("stop")], &["text Hi", "stop End"]);
}

#[test]
fn responses() {
    let event = |kind: &str, index: u64, text: &str| json!({"type": kind, "output_index": index, "delta": text});
    let thought = json!({"type": "reasoning", "id": "rs", "encrypted_content": "e", "summary": [{"text": "Hm"}]});
    let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"x\":1}"});
    let output = json!([thought, {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}, call]);
    let response = json!({
        "status": "completed", "error": null, "output": output,
        "usage": {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}},
    });
    let last = ["call 0 c f", "part 0 {\"x\":1}", "usage 9 4 2", "stop Calls"];
    let opaque = format!("opaque Here {thought}");
    check(
        OpenAiResponses,
        &[
            json!({"type": "response.created"}),
            event("response.reasoning_summary_text.delta", 0, "Hm"),
            json!({"type": "response.output_item.done", "output_index": 0, "item": thought}),
            event("response.output_text.delta", 1, "H"),
            event("response.output_text.delta", 1, "i"),
            json!({"type": "response.output_item.added", "output_index": 2, "item": call}),
            event("response.function_call_arguments.delta", 2, "{\"x\""),
            event("response.function_call_arguments.delta", 2, ":1}"),
            json!({"type": "response.output_item.done", "output_index": 2, "item": call}),
            json!({"type": "response.completed", "response": response}),
        ],
        &["reasoning Hm", &opaque, "text H", "text i", "call 0 c f", "part 0 {\"x\"", "part 0 :1}", "usage 9 4 2", "stop Calls"],
    );
    let whole = [["reasoning Hm", &*opaque, "text Hi"].as_slice(), &last].concat();
    check_whole(OpenAiResponses, &response, &whole);
    // A server that streams nothing but the end.
    check(OpenAiResponses, &[json!({"type": "response.completed", "response": response})], &whole);
    let incomplete = |reason: &str| json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": {"reason": reason}}});
    check(OpenAiResponses, &[incomplete("max_output_tokens")], &["stop Length"]);
    check(OpenAiResponses, &[incomplete("content_filter")], &["stop Refused"]);
    let diagnosed = |diagnostics: Value| json!({"status": "completed", "output": [], "prompt_cache_diagnostics": diagnostics});
    let miss = json!({"type": "cache_miss", "reason": "tools_changed", "cache_missed_tokens": 7});
    check_whole(OpenAiResponses, &diagnosed(miss), &["missed tools_changed Some(7)", "stop End"]);
    for nothing in ["cache_hit", "unavailable", "comparison_response_not_found"] {
        check_whole(OpenAiResponses, &diagnosed(json!({"type": nothing})), &["stop End"]);
    }
    check(OpenAiResponses, &[event("response.output_text.delta", 0, "Hi")], &["text Hi"]);
}

#[test]
fn anthropic() {
    let start = json!({"type": "message_start", "message": {"usage": {"input_tokens": 1, "cache_read_input_tokens": 4, "output_tokens": 1}}});
    let begin = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let grow = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let end = |index: u64| json!({"type": "content_block_stop", "index": index});
    let stop = |reason: &str| json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}});
    let tool = json!({"type": "tool_use", "id": "t", "name": "f", "input": {}});
    check(
        Anthropic,
        &[
            start.clone(),
            begin(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            grow(0, json!({"type": "thinking_delta", "thinking": "Hm"})),
            grow(0, json!({"type": "thinking_delta", "thinking": "!"})),
            grow(0, json!({"type": "signature_delta", "signature": "s"})),
            end(0),
            json!({"type": "ping"}),
            begin(1, json!({"type": "text", "text": ""})),
            grow(1, json!({"type": "text_delta", "text": "Hi"})),
            end(1),
            begin(2, tool.clone()),
            grow(2, json!({"type": "input_json_delta", "partial_json": ""})),
            grow(2, json!({"type": "input_json_delta", "partial_json": "{}"})),
            end(2),
            begin(3, tool.clone()),
            end(3),
            stop("tool_use"),
            json!({"type": "message_stop"}),
        ],
        &[
            "reasoning Hm",
            "reasoning !",
            r#"opaque Here {"signature":"s","thinking":"Hm!","type":"thinking"}"#,
            "text Hi",
            "call 0 t f",
            "part 0 {}",
            "call 1 t f",
            "part 1 {}",
            "usage 5 4 7",
            "stop Calls",
        ],
    );
    check(
        Anthropic,
        &[
            begin(0, json!({"type": "redacted_thinking", "data": "d"})),
            end(0),
            begin(1, json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
            grow(1, json!({"type": "input_json_delta", "partial_json": "{\"q\":1}"})),
            end(1),
            stop("pause_turn"),
        ],
        &[
            r#"opaque Here {"data":"d","type":"redacted_thinking"}"#,
            r#"opaque Here {"id":"s","input":{"q":1},"name":"web_search","type":"server_tool_use"}"#,
            "usage 0 0 7",
            "stop Paused",
        ],
    );
    check_whole(
        Anthropic,
        &json!({
            "type": "message", "stop_reason": "tool_use", "usage": {"input_tokens": 1, "cache_read_input_tokens": 4, "output_tokens": 7},
            "content": [{"type": "thinking", "thinking": "Hm", "signature": "s"}, {"type": "text", "text": "Hi"},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}}],
        }),
        &[
            "reasoning Hm",
            r#"opaque Here {"signature":"s","thinking":"Hm","type":"thinking"}"#,
            "text Hi",
            "call 0 t f",
            "part 0 {\"x\":1}",
            "usage 5 4 7",
            "stop Calls",
        ],
    );
    // Cut after the prompt was paid for.
    check(Anthropic, &[start], &["usage 5 4 1"]);
    for (reason, word) in
        [("end_turn", "End"), ("max_tokens", "Length"), ("refusal", "Refused"), ("model_context_window_exceeded", "Window")]
    {
        check(Anthropic, &[stop(reason)], &["usage 0 0 7", &format!("stop {word}")]);
    }
}

#[test]
fn gemini() {
    let parts = |parts: Value| json!({"candidates": [{"content": {"role": "model", "parts": parts}}]});
    let end = |reason: &str| json!({"candidates": [{"finishReason": reason}], "usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 2}});
    let call = json!({"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "s"});
    check(
        Gemini,
        &[
            parts(json!([{"text": "Hm", "thought": true}])),
            parts(json!([{"text": "Hi"}, call, {"functionCall": {"id": "b", "name": "g"}}])),
            end("STOP"),
        ],
        &[
            "reasoning Hm",
            "text Hi",
            "call 0 - f",
            "part 0 {\"x\":1}",
            r#"opaque Call(0) {"thoughtSignature":"s"}"#,
            "call 1 b g",
            "part 1 {}",
            "usage 9 4 2",
            "stop Calls",
        ],
    );
    check(
        Gemini,
        &[parts(json!([{"text": "Hi", "thoughtSignature": "s"}])), end("STOP")],
        &["text Hi", r#"opaque Here {"text":"","thoughtSignature":"s"}"#, "usage 9 4 2", "stop End"],
    );
    check(Gemini, &[end("MAX_TOKENS")], &["usage 9 4 2", "stop Length"]);
    check(Gemini, &[end("SAFETY")], &["usage 9 4 2", "stop Refused"]);
    check(Gemini, &[json!({"promptFeedback": {"blockReason": "OTHER"}})], &["stop Refused"]);
    check(Gemini, &[parts(json!([{"text": "Hi"}]))], &["text Hi"]);
}

#[test]
fn errors_within_a_stream_come_after_what_was_said() {
    let check = |dialect, before: Value, error: Value| {
        let (events, ended) = read(dialect, Form::Stream, &[stream(&[before, error.clone()]).as_bytes()]);
        assert_eq!(show(&events), ["text Hi"], "{error}");
        assert!(matches!(&ended, Err(ReadError::Refused(refusal)) if refusal.fault == Fault::Busy), "{error}: {ended:?}");
    };
    check(OpenAiChat, delta(&json!({"content": "Hi"})), json!({"error": {"code": 502, "message": "x"}, "choices": []}));
    let text = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"});
    check(OpenAiResponses, text.clone(), json!({"type": "error", "code": "server_error", "message": "x"}));
    check(
        OpenAiResponses,
        text,
        json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "x"}}}),
    );
    let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}});
    check(Anthropic, block, json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}));
    let parts = json!({"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]});
    check(Gemini, parts, json!({"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}));
}

#[test]
fn what_is_no_answer_is_said() {
    let check = |form, text: &str, expect: &str| {
        let error = read(OpenAiChat, form, &[text.as_bytes()]).1.unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(Form::Stream, "data: <html>\n\n", "is not JSON");
    check(Form::Whole, "<html>", "is not JSON");
    check(Form::Whole, "", "is not JSON");
    check(Form::Whole, "{}", "ended early");
    check(Form::Stream, "", "ended early");
    check(Form::Stream, "data: {\"cho", "ended early");
    check(Form::Stream, &"data: {}\n\n".repeat(MAX / 8), "longer than 1048576 bytes");
    check(Form::Whole, &" ".repeat(MAX + 1), "longer than");
    check(Form::Whole, &"[".repeat(1000), "is not JSON");
}

#[test]
fn nothing_counts_behind_the_end() {
    let text = stream(&[finish("stop")]) + "data: [DONE]\n\ndata: <html>\n\n";
    let (events, ended) = read(OpenAiChat, Form::Stream, &[text.as_bytes()]);
    assert_eq!((show(&events), ended), (vec!["stop End".to_owned()], Ok(())));
}

#[test]
fn a_reply_is_what_its_events_add_up_to() {
    let call = |call, id: &str| Event::CallBegin { call, id: Some(id.to_owned()), name: "f".to_owned() };
    let part = |call, text: &str| Event::CallPart { call, arguments: text.to_owned() };
    let usage = Usage { input: Tokens(1), ..Usage::default() };
    let reply: Reply = [
        Event::Text("a".into()),
        Event::Text("b".into()),
        call(0, "x"),
        call(1, "y"),
        part(0, "{"),
        part(1, "{}"),
        part(0, "}"),
        part(7, "?"),
        Event::Text("c".into()),
        Event::Usage(usage),
        Event::Stop(Stop::Calls),
    ]
    .into_iter()
    .collect();
    let call = |id: &str| Part::Call { id: Some(id.into()), name: "f".into(), arguments: "{}".into() };
    assert_eq!(reply.parts, [Part::Text("ab".into()), call("x"), call("y"), Part::Text("c".into())]);
    assert_eq!((&*reply.text(), reply.usage, reply.stop), ("abc", Some(usage), Some(Stop::Calls)));
}

/// Values with the names and words that the readers look for, in places where they may not belong.
fn value() -> impl Strategy<Value = Value> {
    let names = [
        "choices",
        "delta",
        "message",
        "content",
        "text",
        "tool_calls",
        "function",
        "arguments",
        "name",
        "id",
        "index",
        "usage",
        "error",
        "finish_reason",
        "type",
        "output_index",
        "item",
        "response",
        "output",
        "status",
        "content_block",
        "stop_reason",
        "thinking",
        "candidates",
        "parts",
        "functionCall",
        "args",
        "thoughtSignature",
        "finishReason",
        "input",
        "partial_json",
        "summary",
        "prompt_tokens",
        "input_tokens",
        "cache_read_input_tokens",
        "usageMetadata",
        "promptTokenCount",
        "thoughtsTokenCount",
        "candidatesTokenCount",
    ];
    let words = [
        "",
        "x",
        "{}",
        "stop",
        "tool_use",
        "text",
        "thinking",
        "function_call",
        "reasoning",
        "response.completed",
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "input_json_delta",
        "text_delta",
        "error",
        "completed",
        "STOP",
        "response.output_item.added",
        "response.function_call_arguments.delta",
    ];
    let leaf = prop_oneof![
        prop::sample::select(words.to_vec()).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(names.to_vec()).prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_answer_makes_it_panic_and_where_it_is_cut_changes_nothing(
        dialect in prop::sample::select(Dialect::ALL.to_vec()),
        frames in prop::collection::vec(value(), 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        broken in any::<Option<prop::sample::Index>>(),
    ) {
        let mut text = stream(&frames).into_bytes();
        if let Some(at) = broken {
            text.truncate(at.index(text.len() + 1));
        }
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        at.push(text.len());
        at.sort_unstable();
        let mut chunks = Vec::new();
        let mut from = 0;
        for to in at {
            chunks.push(&text[from..to]);
            from = to;
        }
        prop_assert_eq!(read(dialect, Form::Stream, &chunks), read(dialect, Form::Stream, &[&text]));
        for frame in &frames {
            let _ = read(dialect, Form::Whole, &[frame.to_string().as_bytes()]);
        }
    }
}

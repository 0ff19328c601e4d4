//! A provider for real clients: it speaks Chat Completions, Responses, Messages and Gemini, asks for one tool a turn, and then answers. It
//! keeps every body and every answer, and fails once where it is told to.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, Uri};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The bytes of an answer, which may break off.
pub(crate) struct Pieces(mpsc::Receiver<io::Result<Bytes>>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// What goes wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // a test uses some of it
pub(crate) enum Failure {
    None,
    /// The provider has too much to do.
    Overloaded,
    /// The connection ends in the middle of the answer.
    Cut,
}

#[allow(dead_code)] // a test uses some of it
impl Failure {
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::Overloaded, Self::Cut];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no failure",
            Self::Overloaded => "overloaded",
            Self::Cut => "cut answer",
        }
    }
}

/// A request and its answer, as bytes.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) path: String,
    pub(crate) body: Bytes,
    pub(crate) status: u16,
    pub(crate) answer: Bytes,
}

#[derive(Debug)]
struct Told {
    failure: Failure,
    /// A file that can be read.
    note: String,
    /// Requests of conversations with tools, or of clients that have none.
    main: usize,
    /// Whether the client has tools.
    has_tools: bool,
    seen: Vec<Exchange>,
}

/// A running provider.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) port: u16,
    told: Arc<Mutex<Told>>,
}

impl Provider {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let told = Told { failure: Failure::None, note: String::new(), main: 0, has_tools: false, seen: Vec::new() };
        let provider = Self { port, told: Arc::new(Mutex::new(told)) };
        let router = Router::new().fallback(answer).with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    /// Forgets everything, and fails like this from now on.
    pub(crate) fn begin(&self, failure: Failure, note: &str) {
        *self.told.lock().unwrap() = Told { failure, note: note.to_owned(), main: 0, has_tools: false, seen: Vec::new() };
    }

    pub(crate) fn seen(&self) -> Vec<Exchange> {
        self.told.lock().unwrap().seen.clone()
    }
}

async fn answer(State(provider): State<Provider>, method: Method, uri: Uri, body: Bytes) -> Response {
    if method != Method::POST {
        return (axum::http::StatusCode::NOT_FOUND, "{\"error\":{\"message\":\"not found\"}}").into_response();
    }
    let mut told = provider.told.lock().unwrap();
    let path = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let reply = reply(&mut told, &path, &body);
    let Reply { status, kind, bytes, cut } = reply;
    told.seen.push(Exchange { path, body, status, answer: bytes.clone() });
    drop(told);
    let mut response = Response::builder().status(status).header("content-type", kind);
    if status != 200 {
        response = response.header("retry-after", "1");
    }
    let body = if cut {
        let (sender, receiver) = mpsc::channel(2);
        tokio::spawn(async move {
            let _ = sender.send(Ok(bytes)).await;
            // What was sent is to arrive.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let _ = sender.send(Err(io::Error::other("cut"))).await;
        });
        Body::new(Pieces(receiver))
    } else {
        Body::from(bytes)
    };
    response.body(body).unwrap()
}

struct Reply {
    status: u16,
    kind: &'static str,
    bytes: Bytes,
    cut: bool,
}

fn whole(status: u16, value: &Value) -> Reply {
    Reply { status, kind: "application/json", bytes: value.to_string().into(), cut: false }
}

/// What the model does.
struct Act {
    serial: usize,
    /// A tool and its arguments.
    call: Option<(String, Value)>,
    text: String,
}

fn reply(told: &mut Told, path: &str, body: &[u8]) -> Reply {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    if path.contains("count_tokens") || path.contains(":countTokens") || path.contains("input_tokens") {
        return whole(200, &json!({"input_tokens": 100, "totalTokens": 100}));
    }
    let (api, list) = match path.split('?').next().unwrap_or_default() {
        path if path.ends_with("/chat/completions") => ("chat", "messages"),
        path if path.ends_with("/responses") => ("responses", "input"),
        path if path.ends_with("/messages") => ("messages", "messages"),
        path if path.contains("enerateContent") => ("gemini", "contents"),
        _ => return whole(404, &json!({"error": {"message": "not found", "type": "not_found_error"}})),
    };
    let serial = told.seen.len() + 1;
    let call = tool(&body, list, &told.note);
    let has_tools = call.is_some() || is_result(&body, list);
    told.main += usize::from(has_tools || tools(&body).is_empty());
    told.has_tools |= has_tools;
    // In the middle of the second turn.
    let fails = told.main == if told.has_tools { 4 } else { 2 } && told.failure != Failure::None;
    if fails && told.failure == Failure::Overloaded {
        told.failure = Failure::None;
        let status = if api == "messages" { 529 } else { 503 };
        let error = json!({"message": "Overloaded", "type": "overloaded_error", "code": "overloaded"});
        return whole(status, &json!({"type": "error", "error": error}));
    }
    let act = Act { serial, call, text: format!("This is what the model answers to request number {serial}.") };
    let stream = body["stream"] == true || path.contains("streamGenerateContent");
    let model = body["model"].as_str().unwrap_or("model").to_owned();
    let events = match api {
        "chat" => chat(&act, &model),
        "responses" => responses(&act, &model),
        "messages" => messages(&act, &model),
        _ => gemini(&act),
    };
    let (kind, mut bytes) = if stream { ("text/event-stream", events.0) } else { ("application/json", events.1.to_string()) };
    let cut = fails && told.failure == Failure::Cut;
    if cut {
        told.failure = Failure::None;
        bytes.truncate(bytes.len() / 2);
    }
    Reply { status: 200, kind, bytes: bytes.into(), cut }
}

fn tools(body: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for tool in body["tools"].as_array().into_iter().flatten() {
        for one in tool["functionDeclarations"].as_array().into_iter().flatten().chain([tool]) {
            let one = if one["function"].is_object() { &one["function"] } else { one };
            let schema = ["parameters", "input_schema", "parametersJsonSchema"]
                .iter()
                .map(|name| &one[*name])
                .find(|schema| schema.is_object());
            if let (Some(name), Some(schema)) = (one["name"].as_str(), schema) {
                found.push((name.to_owned(), schema.clone()));
            }
        }
    }
    found
}

fn is_result(body: &Value, list: &str) -> bool {
    let Some(newest) = body[list].as_array().and_then(|all| all.last()) else { return false };
    let content = newest["content"].as_array().or_else(|| newest["parts"].as_array());
    let gives_back = |part: &Value| part["type"] == "tool_result" || part["functionResponse"].is_object();
    newest["role"] == "tool"
        || newest["type"].as_str().is_some_and(|kind| kind.ends_with("_output"))
        || content.is_some_and(|content| content.iter().any(gives_back))
}

/// The tool to call where a person spoke last: one that reads.
fn tool(body: &Value, list: &str, note: &str) -> Option<(String, Value)> {
    const READS: [&str; 11] = [
        "Read",
        "read",
        "read_file",
        "view",
        "exec_command",
        "shell",
        "bash",
        "Bash",
        "run_shell_command",
        "developer__shell",
        "lookup",
    ];
    if is_result(body, list) {
        return None;
    }
    let tools = tools(body);
    let (name, schema) = READS.iter().find_map(|reads| tools.iter().find(|(name, _)| name == reads))?;
    let mut arguments = json!({});
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let kind = &schema["properties"][name]["type"];
        arguments[name] = match (name, kind.as_str().unwrap_or("string")) {
            (name, "string") if name.to_lowercase().contains("path") || name.contains("file") => json!(note),
            ("command" | "cmd", "array") => json!(["cat", note]),
            ("command" | "cmd", _) => json!(format!("cat {note}")),
            (_, "string") => json!("x"),
            (_, "boolean") => json!(false),
            (_, "array") => json!([]),
            (_, "object") => json!({}),
            _ => json!(1),
        };
    }
    Some((name.clone(), arguments))
}

fn frames(events: &[(Option<&str>, Value)]) -> String {
    let frame = |(name, data): &(Option<&str>, Value)| match name {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    };
    events.iter().map(frame).collect()
}

const USED: (u64, u64) = (1200, 40);

fn chat(act: &Act, model: &str) -> (String, Value) {
    let head = |choices: Value| json!({"id": format!("chatcmpl-{}", act.serial), "object": "chat.completion.chunk", "created": 1, "model": model, "choices": choices});
    let usage = json!({"prompt_tokens": USED.0, "completion_tokens": USED.1, "total_tokens": USED.0 + USED.1, "prompt_tokens_details": {"cached_tokens": 0}});
    let (message, reason) = match &act.call {
        Some((name, arguments)) => {
            let call = json!({"index": 0, "id": format!("call_{:08}", act.serial), "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
            (json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
        }
        None => (json!({"role": "assistant", "content": act.text}), "stop"),
    };
    let mut end = head(json!([]));
    end["usage"] = usage.clone();
    let events = [
        (None, head(json!([{"index": 0, "delta": message, "finish_reason": null}]))),
        (None, head(json!([{"index": 0, "delta": {}, "finish_reason": reason}]))),
        (None, end),
    ];
    let mut full = head(json!([{"index": 0, "message": message, "finish_reason": reason}]));
    full["object"] = json!("chat.completion");
    full["usage"] = usage;
    (frames(&events) + "data: [DONE]\n\n", full)
}

fn responses(act: &Act, model: &str) -> (String, Value) {
    let item = match &act.call {
        Some((name, arguments)) => {
            json!({"type": "function_call", "id": format!("fc_{:08}", act.serial), "call_id": format!("call_{:08}", act.serial),
            "name": name, "arguments": arguments.to_string(), "status": "completed"})
        }
        None => json!({"type": "message", "id": format!("msg_{:08}", act.serial), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": act.text, "annotations": []}]}),
    };
    let usage = json!({"input_tokens": USED.0, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": USED.1,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": USED.0 + USED.1});
    let response = |status: &str, output: Value, usage: Value| {
        json!({"id": format!("resp_{:08}", act.serial), "object": "response", "created_at": 1, "status": status,
        "model": model, "output": output, "usage": usage, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "error": null,
        "incomplete_details": null, "instructions": null, "metadata": {}, "temperature": 1.0, "top_p": 1.0})
    };
    let mut events = vec![
        json!({"type": "response.created", "response": response("in_progress", json!([]), Value::Null)}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
    ];
    if act.call.is_none() {
        let of = |mut event: Value| {
            (event["item_id"], event["output_index"], event["content_index"]) = (item["id"].clone(), json!(0), json!(0));
            event
        };
        events.push(of(
            json!({"type": "response.content_part.added", "part": {"type": "output_text", "text": "", "annotations": []}}),
        ));
        events.push(of(json!({"type": "response.output_text.delta", "delta": act.text})));
        events.push(of(json!({"type": "response.output_text.done", "text": act.text})));
    }
    events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
    let done = response("completed", json!([item]), usage);
    events.push(json!({"type": "response.completed", "response": done}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    let events: Vec<(Option<&str>, Value)> = events.iter().map(|event| (event["type"].as_str(), event.clone())).collect();
    (frames(&events), done)
}

fn messages(act: &Act, model: &str) -> (String, Value) {
    let (block, bare, delta, stop) = if let Some((name, arguments)) = &act.call {
        let id = format!("toolu_{:08}", act.serial);
        let block = |input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
        let delta = json!({"type": "input_json_delta", "partial_json": arguments.to_string()});
        (block(arguments.clone()), block(json!({})), delta, "tool_use")
    } else {
        let block = |text: &str| json!({"type": "text", "text": text});
        (block(&act.text), block(""), json!({"type": "text_delta", "text": act.text}), "end_turn")
    };
    let usage =
        json!({"input_tokens": USED.0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": USED.1});
    let message = |content: Value, stop: Value| {
        json!({"id": format!("msg_{:08}", act.serial), "type": "message", "role": "assistant", "model": model,
        "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage})
    };
    let events = [
        json!({"type": "message_start", "message": message(json!([]), Value::Null)}),
        json!({"type": "content_block_start", "index": 0, "content_block": bare}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": USED.1}}),
        json!({"type": "message_stop"}),
    ];
    let events: Vec<(Option<&str>, Value)> = events.iter().map(|event| (event["type"].as_str(), event.clone())).collect();
    (frames(&events), message(json!([block]), json!(stop)))
}

fn gemini(act: &Act) -> (String, Value) {
    let part = match &act.call {
        Some((name, arguments)) => json!({"functionCall": {"name": name, "args": arguments}}),
        None => json!({"text": act.text}),
    };
    let full = json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": USED.0, "candidatesTokenCount": USED.1, "totalTokenCount": USED.0 + USED.1}});
    (frames(&[(None, full.clone())]), full)
}

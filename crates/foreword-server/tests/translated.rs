//! Clients that ask for a model of another API: what its provider gets, and what comes back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::format_collect)]

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use common::{Reply, Running};
use foreword_server::{Level, Limits};
use serde_json::{Value, json};

/// A provider that gives one answer after the other, and keeps what it was asked.
struct Provider {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Provider {
    fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let provider = Self { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let seen = Arc::clone(&provider.seen);
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut head, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line.trim().is_empty() {
                        break;
                    }
                    head.push_str(&line);
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                seen.lock().unwrap().push((head, serde_json::from_slice(&body).unwrap()));
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        provider
    }

    fn gateway(&self, level: Level) -> Running {
        let of = |name: &str| {
            format!("[providers.{name}]\nbase_url = \"http://{}/v1\"\nkey = {{ command = \"printf sk-ours\" }}\n", self.address)
        };
        Running::made(None, &(of("anthropic") + &of("openai")), common::loopback(), Limits::default(), level)
    }

    fn last(&self) -> (String, Value) {
        self.seen.lock().unwrap().last().unwrap().clone()
    }
}

fn answer(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

fn stream(events: &[Value]) -> String {
    let frames: String =
        events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect();
    answer(200, "content-type: text/event-stream\r\n", &frames)
}

fn ask(server: &Running, path: &str, body: &Value) -> Reply {
    server.call("POST", path, Some(body))
}

fn message(text: &str) -> String {
    let body = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 2000, "output_tokens": 7}});
    answer(200, "content-type: application/json\r\nrequest-id: r1\r\n", &body.to_string())
}

#[test]
fn an_openai_client_asks_claude() {
    let provider = Provider::start((0..7).map(|number| message(&format!("This is answer number {number} of them."))).collect());
    let server = provider.gateway(Level::Assist);
    let mut messages = vec![json!({"role": "system", "content": "Be careful. ".repeat(1000)})];
    let mut session = None;
    for turn in 0..6 {
        messages.push(json!({"role": "user", "content": format!("Question {turn}")}));
        let reply = ask(&server, "/v1/chat/completions", &json!({"model": "claude-sonnet-5", "messages": messages, "user": "u"}));
        assert_eq!(reply.status, 200, "{}", reply.body);
        let found = reply.json();
        assert_eq!(found["choices"][0]["message"]["content"], format!("This is answer number {turn} of them."));
        assert_eq!((&found["usage"]["prompt_tokens"], &found["model"]), (&json!(2000), &json!("claude-sonnet-5")));
        assert_eq!(
            (reply.header("x-foreword-translated"), reply.header("x-foreword-ignored")),
            (Some("chat to anthropic"), Some("user"))
        );
        assert_eq!((reply.header("x-foreword-level"), reply.header("request-id")), (Some("assist"), Some("r1")));
        let now = reply.header("x-foreword-session").unwrap().to_owned();
        assert_eq!(session.get_or_insert_with(|| now.clone()), &now);
        // From the fifth turn on the cache is used as it would be for a client of Anthropic.
        assert_eq!(reply.header("x-foreword-added"), (turn >= 4).then_some("cache_control=1"), "{turn}");
        messages.push(found["choices"][0]["message"].clone());
        let (head, body) = provider.last();
        assert!(head.starts_with("POST /v1/messages ") && head.contains("x-api-key: sk-ours"), "{head}");
        assert_eq!(body["messages"].as_array().unwrap().len(), 2 * turn + 1);
    }
    // A key of another provider is not sent there.
    let head = "Authorization: Bearer sk-proj-theirs\r\n";
    let body = json!({"model": "claude-sonnet-5", "messages": [{"role": "user", "content": "Hi"}]}).to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{head}content-length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    );
    assert_eq!(server.raw(request.as_bytes()).status, 401);
}

#[test]
fn refusals_keep_their_status() {
    let refusal = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Too much to do"}}).to_string();
    let provider = Provider::start(vec![answer(529, "retry-after: 3\r\n", &refusal)]);
    let server = provider.gateway(Level::Observe);
    let body = json!({"model": "claude-sonnet-5", "messages": [{"role": "user", "content": "Hi"}]});
    let reply = ask(&server, "/v1/chat/completions", &body);
    assert_eq!((reply.status, reply.header("retry-after")), (529, Some("3")));
    assert_eq!(reply.json()["error"]["message"], "Too much to do");
    // What has no equivalent is refused before anything is sent.
    let mut body = body;
    body["n"] = json!(2);
    let reply = ask(&server, "/v1/chat/completions", &body);
    assert_eq!(reply.status, 400);
    assert!(reply.json()["error"]["message"].as_str().unwrap().starts_with("n: "), "{}", reply.body);
    assert_eq!(provider.seen.lock().unwrap().len(), 1);
}

#[test]
fn claude_code_asks_gpt() {
    let item =
        json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "Read", "arguments": "{\"b\":1,\"a\":2}"});
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"});
    let usage = json!({"input_tokens": 900, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 100}});
    let events = [
        json!({"type": "response.created", "response": {"id": "resp_1"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": thought}),
        json!({"type": "response.output_text.delta", "output_index": 1, "delta": "I read."}),
        json!({"type": "response.output_item.added", "output_index": 2, "item": item}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"b\":1,\"a\":2}"}),
        json!({"type": "response.output_item.done", "output_index": 2, "item": item}),
        json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": [], "usage": usage}}),
    ];
    let provider = Provider::start(vec![stream(&events)]);
    let server = provider.gateway(Level::Assist);
    let body = json!({"model": "gpt-5.6-sol", "max_tokens": 1000, "stream": true, "system": "You code.",
        "tools": [{"name": "Read", "input_schema": {"type": "object"}}], "messages": [{"role": "user", "content": "Hi"}]});
    let reply = ask(&server, "/v1/messages?beta=true", &body);
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")), "{}", reply.body);
    let types: Vec<&str> = reply.body.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!((types[0], *types.last().unwrap()), ("message_start", "message_stop"), "{types:?}");
    for part in [
        "redacted_thinking",
        "\"text\":\"I read.\"",
        "\"id\":\"call_1\"",
        "{\\\"b\\\":1,\\\"a\\\":2}",
        "\"stop_reason\":\"tool_use\"",
        "\"cache_read_input_tokens\":100",
    ] {
        assert!(reply.body.contains(part), "{part}: {}", reply.body);
    }
    let (head, sent) = provider.last();
    assert!(head.starts_with("POST /v1/responses ") && head.to_lowercase().contains("authorization: bearer sk-ours"), "{head}");
    assert_eq!(
        (&sent["instructions"], &sent["max_output_tokens"], &sent["store"]),
        (&json!("You code."), &json!(1000), &json!(false))
    );
    // What a prompt has is counted here.
    let counted = server.post(
        "/v1/messages/count_tokens",
        json!({"model": "gpt-5.6-sol", "messages": [{"role": "user", "content": "word ".repeat(100)}]}),
    );
    assert!((100..200).contains(&counted["input_tokens"].as_u64().unwrap()), "{counted}");
}

/// A stream that breaks off does not look whole.
#[test]
fn a_cut_stream_is_cut() {
    let cut = "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n";
    let event = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Half"}});
    let frame = format!("event: content_block_start\ndata: {event}\n\n");
    let provider = Provider::start(vec![format!("{cut}{:x}\r\n{frame}\r\n", frame.len())]);
    let server = provider.gateway(Level::Assist);
    let body = json!({"model": "claude-sonnet-5", "stream": true, "messages": [{"role": "user", "content": "Hi"}]});
    let reply = ask(&server, "/v1/chat/completions", &body);
    assert!(reply.body.contains("Half") && !reply.body.contains("[DONE]"), "{}", reply.body);
}

//! What the gateway hands to a provider: requests that are passed on to the byte, and fields that go along with a session's own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::format_push_string)]

mod common;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Reply, Running};
use foreword_server::{Level, Limits};
use serde_json::{Value, json};

/// A provider that answers the same to everyone and remembers what it was sent.
struct Stub {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<(String, String)>>>,
    /// It does not answer while this is held.
    gate: Arc<Mutex<()>>,
}

impl Stub {
    fn start(answer: &str) -> Self {
        Self::answering(vec![answer.to_owned()])
    }

    /// One that gives these answers in turn, and the last one from then on.
    fn answering(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let gate = Arc::new(Mutex::new(()));
        let (told, closed) = (Arc::clone(&seen), Arc::clone(&gate));
        std::thread::spawn(move || {
            for (at, stream) in listener.incoming().flatten().enumerate() {
                let answer = answers[at.min(answers.len() - 1)].clone();
                let (told, gate) = (Arc::clone(&told), Arc::clone(&closed));
                std::thread::spawn(move || Self::serve(stream, &told, &gate, &answer));
            }
        });
        Self { address, seen, gate }
    }

    fn serve(mut stream: TcpStream, seen: &Mutex<Vec<(String, String)>>, gate: &Mutex<()>, answer: &str) {
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; 65536]);
        loop {
            let read = stream.read(&mut buffer).unwrap_or(0);
            bytes.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let head = head.to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
                if body.len() >= length.parse::<usize>().unwrap() {
                    seen.lock().unwrap().push((head, body.to_owned()));
                    let _open = gate.lock().unwrap();
                    let _ = stream.write_all(answer.as_bytes());
                    return;
                }
            }
            if read == 0 {
                return;
            }
        }
    }

    fn seen(&self) -> Vec<(String, String)> {
        self.seen.lock().unwrap().clone()
    }

    /// A configuration in which it is every provider.
    fn config(&self) -> String {
        let base = format!("base_url = \"http://{}/v1\"", self.address);
        let key = "key = { command = \"printf sk-ours\" }";
        format!(
            "[providers.anthropic]\n{base}\n{key}\n[providers.openai]\n{base}\n{key}\n\
             [providers.house]\n{base}\n{key}\ndialect = \"openai-chat\"\n\
             [providers.bare]\n{base}\nkey = \"none\"\ndialect = \"openai-chat\"\n"
        )
    }

    fn gateway(&self, mode: Level) -> Running {
        Running::made(None, &self.config(), common::loopback(), Limits::default(), mode)
    }
}

fn answer(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} Whatever\r\n{headers}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn json_answer(body: &str) -> String {
    answer(200, "content-type: application/json; charset=utf-8", body)
}

const MESSAGE: &str = r#"{ "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hello"}],
  "stop_reason": "end_turn", "usage": {"input_tokens": 10, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 5, "output_tokens": 7} }"#;

const CHAT: &str = r#"{"id": "c", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}"#;

fn stream() -> String {
    [
        r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":10,"cache_read_input_tokens":30,"cache_creation_input_tokens":5,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}"#,
        r#"{"type":"message_stop"}"#,
    ]
    .map(|data| {
        let name = serde_json::from_str::<Value>(data).unwrap()["type"].as_str().unwrap().to_owned();
        format!("event: {name}\ndata: {data}\n\n")
    })
    .concat()
}

/// With the token, where the headers hold no other key.
fn post(server: &Running, path: &str, headers: &str, body: &str) -> Reply {
    let known = if headers.contains("authorization:") || headers.contains("x-api-key:") { "" } else { common::AUTHORIZED };
    let head = format!("POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{known}{headers}", server.address);
    server.raw(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())
}

/// The ledger's sum of what was passed on, once that many were answered.
fn forwarded(server: &Running, answered: impl Fn(&Value) -> bool) -> Value {
    let since = Instant::now();
    loop {
        let sum = server.get("/api/v1/ledger")["forwarded"].clone();
        if answered(&sum) || since.elapsed() > Duration::from_secs(10) {
            return sum;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn pass_through_changes_nothing_but_the_key_and_records() {
    let stub = Stub::start(&json_answer(MESSAGE));
    let server = stub.gateway(Level::Observe);
    let body = "{\n \"model\" : \"claude-sonnet-5\",\t\"x_unknown\": [1.0, 1e3], \"messages\": [{\"role\": \"user\", \"content\": \"\\u00e4 ä\"}]}\n";
    let headers = "authorization: Bearer fw-server-test\r\nanthropic-version: 2099-01-01\r\nanthropic-beta: a,b\r\n\
                   cookie: secret\r\nidempotency-key: k1\r\nx-foreword-session: task-1\r\n";
    let reply = post(&server, "/v1/messages", headers, body);
    assert_eq!((reply.status, reply.body.as_str()), (200, MESSAGE), "{}", reply.head);
    assert_eq!(reply.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(reply.header("x-foreword-mode"), Some("forwarded"));
    assert_eq!(reply.header("x-foreword-stored"), Some("yes"));
    assert_eq!(reply.header("x-foreword-session"), Some("task-1"));
    let (head, seen) = stub.seen().remove(0);
    assert_eq!(seen, body);
    assert!(head.starts_with("post /v1/messages http/1.1\r\n"), "{head}");
    for line in ["x-api-key: sk-ours", "anthropic-version: 2099-01-01", "anthropic-beta: a,b", "idempotency-key: k1"] {
        assert!(head.lines().any(|found| found == line), "{line}: {head}");
    }
    for word in ["fw-", "cookie", "foreword-session", "authorization"] {
        assert!(!head.contains(word), "{word}: {head}");
    }
    let sum = forwarded(&server, |sum| sum["output"] == 7);
    assert_eq!((&sum["requests"], &sum["read"], &sum["fresh"]), (&json!(1), &json!(30), &json!(15)), "{sum}");
    assert!(sum["cost"].as_f64().unwrap() > 0.0 && sum["saved"].as_f64().unwrap() > 0.0, "{sum}");
    let all = server.get("/api/v1/ledger");
    assert_eq!((&all["all"]["requests"], &all["days"][0]["requests"]), (&json!(1), &json!(1)));
}

#[test]
fn streams_and_refusals_come_back_as_they_are() {
    let stub = Stub::start(&answer(200, "content-type: text/event-stream", &stream()));
    let server = stub.gateway(Level::Observe);
    let body = r#"{"model":"claude-sonnet-5","stream":true}"#;
    let reply = post(&server, "/v1/messages", "", body);
    assert_eq!((reply.status, reply.body), (200, stream()));
    assert_eq!(forwarded(&server, |sum| sum["output"] == 7)["read"], 30);

    let told = r#"{"error": {"message": "Slow down, sk-ours."}}"#;
    let refusing = Stub::start(&answer(429, "content-type: application/json\r\nretry-after: 7\r\nset-cookie: a=b", told));
    let server = refusing.gateway(Level::Observe);
    let reply = post(&server, "/v1/messages", "", body);
    assert_eq!((reply.status, reply.header("retry-after"), reply.header("set-cookie")), (429, Some("7"), None));
    assert_eq!(reply.body, told.replace("sk-ours", "[key]"));
    assert_eq!(refusing.seen().len(), 1, "it was tried again");

    // What breaks off does not look whole.
    let breaking =
        Stub::start("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\nevent: message_start\n");
    let server = breaking.gateway(Level::Observe);
    let mut client = server.connect();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {}\r\n{}content-length: {}\r\n\r\n{body}",
        server.address,
        common::AUTHORIZED,
        body.len()
    );
    client.write_all(head.as_bytes()).unwrap();
    let mut all = Vec::new();
    let _ = client.read_to_end(&mut all);
    let text = String::from_utf8_lossy(&all);
    assert!(text.contains("event: message_start\n") && !text.ends_with("0\r\n\r\n"), "{text}");
}

#[test]
fn a_clients_own_key_is_used_where_it_brings_one_and_ours_only_with_a_key_of_this_server() {
    for (mode, kept) in [(Level::Observe, "pass-through"), (Level::Manage, "session")] {
        let stub = Stub::start(&json_answer(CHAT));
        let server = stub.gateway(mode);
        let state = server.folder.path().join("state");
        let (_, ours) = foreword_server::Keys::new(&state).create(None).unwrap();
        let check = |headers: &[&str], model: &str, expect: Result<Option<&str>, &str>| {
            let headers: String = headers.iter().flat_map(|line| [line.replace("OURS", &ours), "\r\n".to_owned()]).collect();
            let body = json!({"model": model, "messages": [{"role": "user", "content": "Hi"}]}).to_string();
            let head =
                format!("POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}", server.address);
            let reply = server.raw(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
            match expect {
                Ok(key) => {
                    assert_eq!(reply.status, 200, "{kept} {headers}: {}", reply.body);
                    let head = stub.seen().pop().unwrap().0;
                    let found = head.lines().find_map(|line| line.strip_prefix("authorization: bearer "));
                    assert_eq!(found, key, "{kept} {headers}: {head}");
                    assert!(!head.contains("fw-"), "{head}");
                }
                Err(why) => {
                    let seen = stub.seen().len();
                    assert_eq!(reply.status, 401, "{kept} {headers}: {}", reply.body);
                    let told = reply.json()["error"]["message"].as_str().unwrap().to_owned();
                    assert!(told.contains(why) && told.contains("foreword keys new"), "{kept} {headers}: {told}");
                    assert_eq!(stub.seen().len(), seen, "it was sent on");
                }
            }
        };
        check(&["authorization: Bearer fw-server-test"], "house/m", Ok(Some("sk-ours")));
        check(&["authorization: Bearer OURS"], "house/m", Ok(Some("sk-ours")));
        check(&["x-api-key: OURS"], "house/m", Ok(Some("sk-ours")));
        check(&["x-api-key: OURS", "authorization: Bearer sk-theirs"], "house/m", Ok(Some("sk-theirs")));
        check(&["x-goog-api-key: sk-theirs"], "house/m", Ok(Some("sk-theirs")));
        check(&["authorization: Bearer sk-theirs"], "house/m", Ok(Some("sk-theirs")));
        check(&["authorization: bearer sk-theirs"], "house/m", Ok(Some("sk-theirs")));
        // After a client with a key of its own, ours is used again.
        check(&["authorization: Bearer OURS"], "house/m", Ok(Some("sk-ours")));
        // A provider that wants no key is the operator's own.
        check(&["authorization: Bearer OURS"], "bare/m", Ok(None));
        check(&["authorization: Bearer sk-theirs"], "bare/m", Err("as it is configured here"));
        check(&["authorization: Bearer sk-theirs"], "foreword", Err("runs on this machine"));
        check(
            &["authorization: Bearer sk-theirs", "x-foreword-session: somebodys"],
            "house/m",
            Err("begun with another provider key"),
        );
        check(&["authorization: Bearer fw-wrong"], "house/m", Err("unknown or deleted key"));
        check(&["authorization: Bearer fw-wrong", "x-api-key: sk-theirs"], "house/m", Err("unknown or deleted key"));
        check(&["authorization: Bearer "], "house/m", Err("key is required"));
        check(&[], "house/m", Err("key is required"));
    }
}

#[test]
fn clients_with_keys_of_their_own_share_no_session() {
    let stub = Stub::start(&json_answer(CHAT));
    let server = stub.gateway(Level::Manage);
    let ask = |key: &str, more: &[(&str, &str)], messages: Value| {
        let headers = [&[("authorization", key)], more].concat();
        let body = json!({"model": "house/m", "messages": messages});
        server.call_as_stranger("POST", "/v1/chat/completions", &headers, Some(&body))
    };
    let session = |reply: &Reply| {
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.header("x-foreword-session").unwrap().to_owned()
    };
    let ours = format!("Bearer {}", common::TOKEN);
    let first = json!([{"role": "user", "content": "Hi"}]);
    let second =
        json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Go on"}]);
    let one = session(&ask("Bearer sk-1", &[], first.clone()));
    let known = session(&ask(&ours, &[], first));
    // The same words of others are another conversation.
    let other = session(&ask("Bearer sk-2", &[], second.clone()));
    assert_eq!(session(&ask("Bearer sk-1", &[], second.clone())), one);
    assert_eq!(session(&ask(&ours, &[], second)), known);
    assert!(one != other && one != known && other != known);
    // By name: each only its own; who has a key of this server all.
    let next = json!([{"role": "user", "content": "Next"}]);
    for (key, name, status) in [
        ("Bearer sk-1", &one, 200),
        ("Bearer sk-1", &other, 401),
        ("Bearer sk-2", &one, 401),
        ("Bearer sk-2", &known, 401),
        (&*ours, &one, 200),
    ] {
        let reply = ask(key, &[("x-foreword-session", name)], next.clone());
        assert_eq!(reply.status, status, "{key} {name}: {}", reply.body);
    }
    // No key of a client is kept anywhere.
    for file in ["vault/.foreword", "state"] {
        let found =
            std::process::Command::new("grep").args(["-rlaE", "sk-[12]"]).arg(server.folder.path().join(file)).output().unwrap();
        assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    }
}

#[test]
fn what_is_not_understood_is_passed_on_where_it_can_be() {
    let stub = Stub::start(&json_answer(CHAT));
    let server = stub.gateway(Level::Manage);
    let check = |path: &str, headers: &str, body: Value, status: u16, told: &str| {
        let body = body.to_string();
        let reply = post(&server, path, headers, &body);
        assert_eq!(reply.status, status, "{body}: {}", reply.body);
        if status == 200 {
            assert_eq!((reply.header("x-foreword-mode"), reply.body.as_str()), (Some("forwarded"), CHAT));
            assert_eq!(stub.seen().pop().unwrap().1, body);
        } else {
            let error = reply.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(error.contains(told), "{error}");
        }
    };
    let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}]);
    check("/v1/chat/completions", "", json!({"model": "gpt-4o", "messages": image}), 200, "");
    check("/v1/chat/completions", "", json!({"model": "gpt-4o", "n": 2, "messages": []}), 200, "");
    check("/v1/chat/completions", "", json!({"model": "gpt-4o", "messages": [{"role": "function", "content": "x"}]}), 200, "");
    check("/v1/chat/completions", "", json!({"model": "claude-sonnet-5", "messages": image}), 400, "speaks another API");
    check("/v1/chat/completions", "", json!({"model": "foreword", "messages": image}), 400, "runs in this process");
    check(
        "/v1/chat/completions",
        "x-foreword-mode: session\r\n",
        json!({"model": "gpt-4o", "messages": image}),
        400,
        "image_url",
    );
    check("/v1/chat/completions", "x-foreword-mode: other\r\n", json!({"model": "gpt-4o"}), 400, "x-foreword-mode");
    check("/v1/chat/completions", "", json!({"model": "nobody-knows-it", "messages": image}), 200, "");
    check("/v1/responses", "", json!({"model": "gpt-4o", "input": "a", "tools": [{"type": "web_search"}]}), 200, "");
    check("/v1/responses", "", json!({"model": "gpt-4o", "input": "a", "previous_response_id": "resp_0123abc"}), 200, "");
    check("/v1/responses", "", json!({"model": "gpt-4o", "input": "a", "background": true}), 200, "");
    // Words that the model is to go on with.
    let begun = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    check("/v1/messages", "", json!({"model": "claude-sonnet-5", "max_tokens": 9, "messages": begun}), 200, "");
    // A prompt that was laid out for this provider in a way that a session would change stays as it is.
    let mark = json!({"type": "ephemeral"});
    let said = json!([{"role": "user", "content": "a"}]);
    let marked = json!([{"type": "text", "text": "Be brief.", "cache_control": mark}, {"type": "text", "text": "Now."}]);
    check("/v1/messages", "", json!({"model": "claude-sonnet-5", "system": marked, "messages": said}), 200, "");
    let result =
        json!({"type": "tool_result", "tool_use_id": "x", "content": [{"type": "text", "text": "x", "cache_control": mark}]});
    let inner = json!([{"role": "user", "content": [result]}]);
    check("/v1/messages", "", json!({"model": "claude-sonnet-5", "messages": inner}), 200, "");
    check("/v1/messages", "anthropic-beta: x\r\n", json!({"model": "claude-sonnet-5", "messages": said}), 200, "");
    let reminded = json!([{"role": "user", "content": "a"}, {"role": "system", "content": "Be brief."}]);
    check("/v1/chat/completions", "", json!({"model": "gpt-4o", "messages": reminded}), 200, "");
}

#[test]
fn a_sessions_request_carries_the_clients_fields() {
    let stub = Stub::start(&answer(200, "content-type: text/event-stream", &stream()));
    let server = stub.gateway(Level::Manage);
    let mut body = json!({
        "model": "claude-sonnet-5", "max_tokens": 50, "messages": [{"role": "user", "content": "a"}], "temperature": 0.5,
        "thinking": {"type": "disabled"}, "metadata": {"user_id": "u"}, "store": true,
    });
    let reply = server.call("POST", "/v1/messages", Some(&body));
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.json()["content"][0]["text"], "Hello");
    assert_eq!((reply.header("x-foreword-cached"), reply.header("x-foreword-ignored")), (Some("30"), Some("store")));
    let sent: Value = serde_json::from_str(&stub.seen()[0].1).unwrap();
    for name in ["temperature", "thinking", "metadata"] {
        assert_eq!(sent[name], body[name], "{sent}");
    }
    assert_eq!((&sent["stream"], &sent["store"]), (&Value::Null, &Value::Null));
    // What is on record is what was sent.
    let session = reply.header("x-foreword-session").unwrap();
    assert_eq!(server.get(&format!("/api/v1/sessions/{session}/requests/0/wire")), sent);
    // The next request says something else beside the same prompt.
    body["messages"] =
        json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "b"}]);
    body["temperature"] = json!(1);
    let reply = server.call("POST", "/v1/messages", Some(&body));
    assert_eq!(reply.header("x-foreword-session"), Some(session));
    let next: Value = serde_json::from_str(&stub.seen()[1].1).unwrap();
    assert_eq!(
        (&next["temperature"], &next["messages"][0]["content"][0]["text"]),
        (&json!(1), &sent["messages"][0]["content"][0]["text"])
    );
    // Another API: what every API has.
    let chat = json!({"model": "claude-sonnet-5", "stop": "END", "seed": 7, "messages": [{"role": "user", "content": "d"}]});
    let reply = server.call("POST", "/v1/chat/completions", Some(&chat));
    assert_eq!((reply.status, reply.header("x-foreword-ignored")), (200, Some("seed")), "{}", reply.body);
    let sent: Value = serde_json::from_str(&stub.seen().pop().unwrap().1).unwrap();
    assert_eq!(sent["stop_sequences"], json!(["END"]));
}

#[test]
fn a_clients_own_marks_stay_where_they_are_one_by_one() {
    let stub = Stub::start(&json_answer(MESSAGE));
    let server = stub.gateway(Level::Manage);
    let mark = |ttl: Option<&str>| match ttl {
        None => json!({"type": "ephemeral"}),
        Some(ttl) => json!({"type": "ephemeral", "ttl": ttl}),
    };
    // Which blocks carry a mark on the wire, where the client set these.
    let check = |system: Option<Value>, tool: Option<Value>, words: Option<Value>, expect: &[(&str, &str)]| {
        let with = |mut block: Value, mark: Option<Value>| {
            if let Some(mark) = mark {
                block["cache_control"] = mark;
            }
            block
        };
        let number = stub.seen().len();
        let body = json!({
            "model": "claude-sonnet-5", "max_tokens": 9,
            "system": [with(json!({"type": "text", "text": format!("Be brief. {number}")}), system)],
            "tools": [with(json!({"name": "t", "input_schema": {"type": "object"}, "strict": true}), tool)],
            "messages": [
                {"role": "user", "content": [with(json!({"type": "text", "text": "a"}), words)]},
                {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
            ],
        });
        let reply = server.call("POST", "/v1/messages", Some(&body));
        assert_eq!((reply.status, reply.header("x-foreword-mode")), (200, None), "{}", reply.body);
        assert!(reply.header("x-foreword-session").is_some());
        let sent: Value = serde_json::from_str(&stub.seen().pop().unwrap().1).unwrap();
        assert_eq!(sent["tools"][1]["strict"], json!(true), "{sent}");
        let mut found = Vec::new();
        for place in ["/tools/1", "/system/0", "/messages/0/content/0", "/messages/1/content/0", "/messages/2/content/0"] {
            if let Some(mark) = sent.pointer(place).unwrap().get("cache_control") {
                found.push((place, mark.get("ttl").and_then(Value::as_str).unwrap_or_default()));
            }
        }
        assert_eq!(found, expect, "{sent}");
    };
    // The prompt is too small to be remembered: we would set none.
    check(None, None, None, &[]);
    check(Some(mark(None)), None, None, &[("/system/0", "")]);
    check(None, Some(mark(None)), Some(mark(None)), &[("/tools/1", ""), ("/messages/0/content/0", "")]);
    check(Some(mark(Some("1h"))), None, Some(mark(None)), &[("/system/0", "1h"), ("/messages/0/content/0", "")]);
}

#[test]
fn a_model_reads_on_in_a_long_output_and_the_client_sees_its_answer() {
    let lines: Vec<String> = (0..20_000).map(|line| format!("{} stands in line {line}\n", "x".repeat(line % 7))).collect();
    let long = lines.concat();
    let id = format!("output:{}", foreword_engine::session::Hash::of(&long));
    let call = |name: &str, id: &str, input: Value| {
        let call = json!({"id": "c", "function": {"name": name, "arguments": input.to_string()}, "type": "function"});
        let mut call = call;
        call["id"] = json!(id);
        json!({"id": "x", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls",
            "message": {"role": "assistant", "content": "Let me look.", "tool_calls": [call]}}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 2}})
        .to_string()
    };
    let answers =
        [call("read", "c1", json!({})), call("readOutput", "c2", json!({"id": id, "offset": 100_000})), CHAT.to_owned()];
    let stub = Stub::answering(answers.iter().map(|answer| json_answer(answer)).collect());
    let server = stub.gateway(Level::Manage);
    let tools = json!([{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]);
    let words = json!({"role": "user", "content": "What went wrong?"});
    let ask = |messages: Value| {
        let reply = server.call(
            "POST",
            "/v1/chat/completions",
            Some(&json!({"model": "house/any", "tools": tools, "messages": messages})),
        );
        assert_eq!(reply.status, 200, "{}", reply.body);
        let session = reply.header("x-foreword-session").unwrap().to_owned();
        (session, reply.json())
    };
    let (session, first) = ask(json!([words]));
    let made = first["choices"][0]["message"].clone();
    assert_eq!(made["tool_calls"][0]["function"]["name"], "read");
    let result = json!({"role": "tool", "tool_call_id": made["tool_calls"][0]["id"], "content": long});
    let (again, second) = ask(json!([words, made, result]));
    // One answer, in which nothing is left of what was read on; all that it took is told.
    assert_eq!((second["choices"][0]["message"]["content"].as_str().unwrap(), &again), ("Let me look.\n\nHi", &session));
    assert_eq!((&second["choices"][0]["finish_reason"], &second["usage"]["completion_tokens"]), (&json!("stop"), &json!(4)));
    let seen: Vec<Value> = stub.seen().iter().map(|(_, body)| serde_json::from_str(body).unwrap()).collect();
    assert_eq!(seen.len(), 3);
    let shown = seen[1]["messages"][2]["content"].as_str().unwrap();
    assert!(
        (6000..long.len() / 2).contains(&shown.len()) && shown.contains(&id),
        "{} of {}: {shown:.200}",
        shown.len(),
        long.len()
    );
    let page = seen[2]["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    assert!(page.starts_with("[Bytes 100000 to ") && page.contains("stands in line"), "{page}");
    // It is one session, which goes on from what the client saw.
    let answer = second["choices"][0]["message"].clone();
    let (third, _) = ask(json!([words, made, result, answer, {"role": "user", "content": "Thanks."}]));
    assert_eq!(third, session);
}

#[test]
fn a_session_streams_what_a_provider_streams() {
    let stub = Stub::start(&answer(200, "content-type: text/event-stream", &stream()));
    let server = stub.gateway(Level::Manage);
    let body =
        json!({"model": "claude-sonnet-5", "max_tokens": 50, "stream": true, "messages": [{"role": "user", "content": "Hi"}]});
    let reply = server.call("POST", "/v1/messages", Some(&body));
    assert_eq!((reply.status, reply.header("x-foreword-mode")), (200, None), "{}", reply.body);
    assert!(reply.header("x-foreword-session").is_some() && reply.body.contains("Hello"), "{}", reply.body);
    assert!(reply.body.trim_end().ends_with("data: {\"type\":\"message_stop\"}"), "{}", reply.body);
}

#[test]
fn a_provider_is_asked_for_a_stream_where_the_client_asks_for_one() {
    for stream in [true, false] {
        let stub = Stub::start(&json_answer(CHAT));
        let server = stub.gateway(Level::Manage);
        let body = json!({"model": "gpt-4o", "stream": stream, "messages": [{"role": "user", "content": "Hi"}]});
        let reply = server.call("POST", "/v1/chat/completions", Some(&body));
        assert_eq!(reply.status, 200, "{}", reply.body);
        let sent: Value = serde_json::from_str(&stub.seen()[0].1).unwrap();
        assert_eq!(sent.get("stream").and_then(Value::as_bool).unwrap_or(false), stream, "{sent}");
        // What was sent can be made again from the record, to the byte.
        let session = reply.header("x-foreword-session").unwrap();
        let wire = server.call("GET", &format!("/api/v1/sessions/{session}/requests/0/wire"), None);
        assert_eq!((wire.status, wire.body), (200, stub.seen()[0].1.clone()));
    }
}

#[test]
fn many_at_once_are_passed_on_and_each_is_on_record() {
    let stub = Stub::start(&json_answer(CHAT));
    let server = stub.gateway(Level::Observe);
    let body =
        |at: usize| json!({"model": "gpt-4o", "messages": [{"role": "user", "content": format!("number {at}")}]}).to_string();
    std::thread::scope(|scope| {
        for at in 0..200 {
            let (server, body) = (&server, body(at));
            scope.spawn(move || {
                let reply = post(server, "/v1/chat/completions", "", &body);
                assert_eq!((reply.status, reply.body.as_str()), (200, CHAT), "{}", reply.head);
            });
        }
    });
    let sum = forwarded(&server, |sum| sum["output"] == 400);
    assert_eq!((&sum["requests"], &sum["fresh"], &sum["output"]), (&json!(200), &json!(1800), &json!(400)));
    let mut sent: Vec<String> = stub.seen().into_iter().map(|(_, body)| body).collect();
    sent.sort_unstable();
    let mut expect: Vec<String> = (0..200).map(body).collect();
    expect.sort_unstable();
    assert_eq!(sent, expect);
}

#[test]
fn nothing_else_is_done_to_a_session_while_its_client_is_answered() {
    let stub = Stub::start(&json_answer(CHAT));
    let server = stub.gateway(Level::Manage);
    let body = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}).to_string();
    let rename = |session: &str| {
        let path = format!("/api/v1/sessions/{session}");
        server.call("PATCH", &path, Some(&json!({"title": "Another name"})))
    };
    std::thread::scope(|scope| {
        let closed = stub.gate.lock().unwrap();
        let client = scope.spawn(|| post(&server, "/v1/chat/completions", "", &body));
        let since = Instant::now();
        while stub.seen().is_empty() && since.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let session = server.get("/api/v1/sessions")[0]["id"].as_str().unwrap().to_owned();
        // Its request is on record before there is an answer.
        assert_eq!(server.call("GET", &format!("/api/v1/sessions/{session}/requests/0/wire"), None).status, 200);
        for _ in 0..3 {
            let refused = rename(&session);
            assert_eq!((refused.status, refused.body.contains("is answering")), (409, true), "{}", refused.body);
        }
        drop(closed);
        let reply = client.join().unwrap();
        assert_eq!((reply.status, reply.header("x-foreword-session")), (200, Some(session.as_str())), "{}", reply.body);
        assert_eq!(rename(&session).status, 204);
    });
}

#[test]
fn what_was_passed_on_can_be_looked_at() {
    let stub = Stub::start(&json_answer(MESSAGE));
    let server = stub.gateway(Level::Observe);
    assert_eq!(server.get("/api/v1/forwarded"), json!([]));
    let body = |number: usize| {
        format!(
            "{{ \"model\":\"claude-sonnet-5\",  \"n\": {number}.0, \"messages\": [{{\"role\": \"user\", \"content\": \"ä\"}}]}}\n"
        )
    };
    for number in 0..5 {
        let headers = "authorization: Bearer fw-server-test\r\nx-api-key: sk-theirs\r\nx-foreword-session: task-1\r\n";
        assert_eq!(post(&server, "/v1/messages", headers, &body(number)).status, 200);
    }
    forwarded(&server, |sum| sum["output"] == 35);
    let all = server.get("/api/v1/forwarded");
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 5);
    let newest = &all[0];
    assert_eq!((&newest["front"], &newest["model"]), (&json!("messages"), &json!("claude-sonnet-5")), "{newest}");
    assert_eq!((&newest["session"], &newest["status"]), (&json!("task-1"), &json!(200)), "{newest}");
    let used = ["read", "write", "uncached", "output"].map(|name| newest[name].as_u64().unwrap());
    assert_eq!(used, [30, 5, 10, 7], "{newest}");
    // Each as it was sent, and neither key anywhere.
    for (row, number) in all.iter().zip((0..5).rev()) {
        let shown = server.call("GET", &format!("/api/v1/forwarded/{}", row["number"]), None);
        assert_eq!(shown.json()["body"], body(number), "{}", shown.body);
        assert_eq!(shown.json()["at_ms"], row["at_ms"]);
        assert!(!shown.body.contains("sk-ours") && !shown.body.contains("sk-theirs"), "{}", shown.body);
    }
    // In pages, the last one first.
    let (mut address, mut found) = (Some("/api/v1/forwarded?limit=2".to_owned()), Vec::new());
    while let Some(next) = address {
        let page = server.call("GET", &next, None);
        found.push(page.json().as_array().unwrap().iter().map(|row| row["number"].clone()).collect::<Vec<_>>());
        let link = page.header("link").and_then(|link| link.strip_prefix('<')?.split_once('>'));
        address = link.map(|(next, _)| next.to_owned());
    }
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(found.concat(), all.iter().map(|row| row["number"].clone()).collect::<Vec<_>>());
    for nobody in ["0", "999", "18446744073709551615"] {
        assert_eq!(server.call("GET", &format!("/api/v1/forwarded/{nobody}"), None).status, 404, "{nobody}");
    }
}

//! The levels of the gateway: what reaches a provider at each, what comes back, and which session it belongs to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)]

mod common;

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use common::{Reply, Running};
use foreword_server::{Level, Limits};
use serde_json::{Value, json};

/// A request as a provider sees it.
#[derive(Clone, Debug)]
struct Seen {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// Status, headers and body of an answer.
type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

#[derive(Clone, Default)]
struct Provider {
    seen: Arc<Mutex<Vec<Seen>>>,
    /// What is answered next, each once; then the usual answer.
    next: Arc<Mutex<VecDeque<Answer>>>,
}

impl Provider {
    fn start() -> (Self, SocketAddr) {
        let provider = Self::default();
        let router = Router::new().fallback(answer).with_state(provider.clone());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                axum::serve(listener, router).await.unwrap();
            });
        });
        (provider, told.recv().unwrap())
    }

    fn last(&self) -> Seen {
        self.seen.lock().unwrap().last().unwrap().clone()
    }

    fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    fn answers(&self, answer: Answer) {
        self.next.lock().unwrap().push_back(answer);
    }
}

async fn answer(State(provider): State<Provider>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let path = uri.path_and_query().unwrap().to_string();
    let number = {
        let mut seen = provider.seen.lock().unwrap();
        seen.push(Seen { method, path: path.clone(), headers, body });
        seen.len()
    };
    let next = provider.next.lock().unwrap().pop_front();
    let (status, headers, body) = next.unwrap_or_else(|| (200, Vec::new(), usual(&path, number).into_bytes()));
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(body.into()).unwrap()
}

fn usual(path: &str, number: usize) -> String {
    let text = format!("This is the model's answer number {number}.");
    if path.contains("/messages") {
        return format!(
            "{{ \"id\": \"msg_{number}\", \"type\":\"message\",\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\
             \"stop_reason\":\"end_turn\",\"usage\":{{\"input_tokens\":1000,\"cache_read_input_tokens\":0,\"cache_creation_input_tokens\":0,\"output_tokens\":1000}}}}"
        );
    }
    format!(
        "{{\"id\":\"resp_{number}abc\",\"object\":\"chat.completion\",\"choices\":[{{\"index\":0,\"finish_reason\":\"stop\",\"message\":{{\"role\":\"assistant\",\
         \"content\":\"{text}\"}}}}],\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":2}}}}"
    )
}

fn config(address: SocketAddr, more: &str) -> String {
    let of = |name: &str, version: &str| {
        format!(
            "[providers.{name}]\nbase_url = \"http://{address}/{name}/{version}\"\nkey = {{ command = \"printf sk-ours\" }}\n"
        )
    };
    of("anthropic", "v1") + &of("openai", "v1") + &of("gemini", "v1beta") + more
}

fn gateway(level: Level, more: &str) -> (Provider, Running, String) {
    let (provider, address) = Provider::start();
    let config = config(address, more);
    (provider, Running::made(None, &config, common::loopback(), Limits::default(), level), config)
}

fn call(server: &Running, method: &str, path: &str, headers: &str, body: &[u8]) -> Reply {
    let known = if headers.contains("uthorization:") || headers.contains("x-api-key:") { "" } else { common::AUTHORIZED };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{known}{headers}content-length: {}\r\n\r\n",
        server.address,
        body.len()
    );
    server.raw(&[head.as_bytes(), body].concat())
}

fn header<'a>(seen: &'a Seen, name: &str) -> Option<&'a str> {
    seen.headers.get(name).map(|value| value.to_str().unwrap())
}

#[test]
fn every_path_is_passed_on_as_it_is() {
    let (provider, server, _) = gateway(Level::Assist, "");
    let headers = "Authorization: Bearer sk-ant-oat01-theirs\r\nuser-agent: their-client/1.2\r\nanthropic-beta: new-thing\r\nx-custom: a b\r\n\
                   accept-encoding: br, gzip;q=0.8\r\ncookie: c=d\r\nx-forwarded-for: 10.0.0.1\r\nkeep-alive: 5\r\n";
    let check = |method: &str, path: &str, body: &str, expect: &str| {
        let before = provider.count();
        let reply = call(&server, method, path, headers, body.as_bytes());
        assert_eq!(reply.status, 200, "{method} {path}: {}", reply.body);
        assert_eq!(provider.count(), before + 1, "{method} {path}");
        let seen = provider.last();
        assert_eq!((seen.method.as_str(), seen.path.as_str()), (method, expect));
        assert_eq!(std::str::from_utf8(&seen.body).unwrap(), body, "{path}");
        assert_eq!((header(&seen, "user-agent"), header(&seen, "x-custom")), (Some("their-client/1.2"), Some("a b")));
        assert_eq!((header(&seen, "accept-encoding"), header(&seen, "anthropic-beta")), (Some("gzip"), Some("new-thing")));
        for gone in ["cookie", "x-forwarded-for", "keep-alive"] {
            assert_eq!(header(&seen, gone), None, "{path}");
        }
        if !path.starts_with("/v1beta") {
            // A token stays a token.
            assert_eq!(
                (header(&seen, "authorization"), header(&seen, "x-api-key")),
                (Some("Bearer sk-ant-oat01-theirs"), None),
                "{path}"
            );
        }
        reply
    };
    let body =
        "{ \"model\":\"new-model-9\", \"messages\" : [ {\"role\":\"user\",\"content\":\"\\u0041\"} ],\"z\":1.0,\"a\":1e3}\n";
    check("POST", "/v1/chat/completions", body, "/openai/v1/chat/completions");
    check("POST", "/v1/responses?x=1", body, "/openai/v1/responses?x=1");
    check("GET", "/v1/responses/resp_1", "", "/openai/v1/responses/resp_1");
    check("DELETE", "/v1/responses/resp_1", "", "/openai/v1/responses/resp_1");
    check("GET", "/v1/responses/resp_1/input_items?limit=2", "", "/openai/v1/responses/resp_1/input_items?limit=2");
    check("POST", "/v1/responses/resp_1/cancel", "", "/openai/v1/responses/resp_1/cancel");
    check("POST", "/v1/responses/compact", body, "/openai/v1/responses/compact");
    check("POST", "/v1/messages?beta=true", body, "/anthropic/v1/messages?beta=true");
    check("POST", "/v1/messages/count_tokens?beta=true", body, "/anthropic/v1/messages/count_tokens?beta=true");
    check("POST", "/v1/messages/batches", "{\"requests\":[]}", "/anthropic/v1/messages/batches");
    check("GET", "/v1/messages/batches/b1/results", "", "/anthropic/v1/messages/batches/b1/results");
    check("GET", "/v1/models", "", "/openai/v1/models");
    check("GET", "/v1/models/gpt-99", "", "/openai/v1/models/gpt-99");
    check("POST", "/v1/embeddings", body, "/openai/v1/embeddings");
    check("POST", "/v1/completions", body, "/openai/v1/completions");
    check("POST", "/v1/audio/speech", "not json", "/openai/v1/audio/speech");
    check("PUT", "/v1/files/a%2Fb", "x", "/openai/v1/files/a%2Fb");
    check(
        "POST",
        "/v1beta/models/gemini-9:generateContent",
        "{\"contents\":[]}",
        "/gemini/v1beta/models/gemini-9:generateContent",
    );
    check(
        "POST",
        "/v1beta/models/gemini-9:streamGenerateContent?alt=sse",
        "{}",
        "/gemini/v1beta/models/gemini-9:streamGenerateContent?alt=sse",
    );
    check("POST", "/v1beta/models/gemini-9:countTokens", "{}", "/gemini/v1beta/models/gemini-9:countTokens");
    let reply = check("POST", "/v1/chat/completions", "{\"model\": ", "/openai/v1/chat/completions");
    assert_eq!((reply.header("x-foreword-level"), reply.header("x-foreword-mode")), (Some("assist"), Some("forwarded")));
    // A path that climbs leads nowhere.
    for path in ["/v1/../admin", "/v1/x/%2e%2e/%2E%2e/admin"] {
        let before = provider.count();
        assert!(call(&server, "GET", path, headers, b"").status >= 400);
        assert_eq!(provider.count(), before, "{path}");
    }
    // Google's key in the query becomes a header.
    let path = "/v1beta/models/gemini-9:generateContent?key=AIza123&alt=json";
    let head = format!("POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}", server.address);
    assert_eq!(server.raw(head.as_bytes()).status, 200);
    let seen = provider.last();
    assert_eq!(
        (seen.path.as_str(), header(&seen, "x-goog-api-key")),
        ("/gemini/v1beta/models/gemini-9:generateContent?alt=json", Some("AIza123"))
    );
    // What our key is lent for ends where the provider's account begins.
    assert_eq!(call(&server, "GET", "/v1/organization/costs", "", b"").status, 403);
    assert_eq!(call(&server, "GET", "/v1/files", "", b"").status, 200);
    assert_eq!(header(&provider.last(), "authorization"), Some("Bearer sk-ours"));
}

#[test]
fn answers_and_errors_come_back_as_they_are() {
    let (provider, server, _) = gateway(Level::Assist, "");
    let body = json!({"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}).to_string();
    for status in [200, 302, 400, 401, 404, 413, 429, 500, 529] {
        let told = format!("{{ \"type\": \"error\",  \"error\": {{\"type\": \"x_{status}\", \"details\": [1.0]}} }}");
        let headers = vec![
            ("retry-after", "7".to_owned()),
            ("anthropic-ratelimit-requests-remaining", "0".to_owned()),
            ("x-should-retry", "true".to_owned()),
            ("request-id", "req_1".to_owned()),
            ("location", "http://elsewhere.example/".to_owned()),
            ("set-cookie", "a=b".to_owned()),
        ];
        let before = provider.count();
        provider.answers((status, headers, told.clone().into_bytes()));
        let reply = call(&server, "POST", "/v1/messages", "x-api-key: sk-theirs\r\n", body.as_bytes());
        assert_eq!((reply.status, reply.body.as_str()), (status, told.as_str()));
        let back = ["retry-after", "anthropic-ratelimit-requests-remaining", "x-should-retry", "request-id", "set-cookie"];
        assert_eq!(back.map(|name| reply.header(name)), [Some("7"), Some("0"), Some("true"), Some("req_1"), None]);
        // It is for the client to try again.
        assert_eq!(provider.count(), before + 1);
    }
    // A provider that is not there: in its API's own words.
    let unreachable = "[providers.gone]\nbase_url = \"http://127.0.0.1:9/v1\"\nkey = \"none\"\ndialect = \"anthropic\"\n";
    let (_, server, _) = gateway(Level::Observe, unreachable);
    let reply = call(&server, "POST", "/v1/messages", "", json!({"model": "gone/x", "messages": []}).to_string().as_bytes());
    assert_eq!(
        (reply.status, reply.json()["type"].as_str(), reply.json()["error"]["type"].as_str()),
        (502, Some("error"), Some("api_error"))
    );
}

#[test]
fn large_and_packed_bodies() {
    let (provider, address) = Provider::start();
    let limits = Limits { gateway_body: 100_000, ..Limits::default() };
    let server = Running::made(None, &config(address, ""), common::loopback(), limits, Level::Assist);
    let large = vec![b' '; 300_000];
    for (path, error) in [
        ("/v1/chat/completions", "/error/type"),
        ("/v1/messages", "/error/type"),
        ("/v1beta/models/m:generateContent", "/error/status"),
    ] {
        let reply = call(&server, "POST", path, "", &large);
        assert_eq!(reply.status, 413, "{path}: {}", reply.body);
        assert!(reply.json().pointer(error).unwrap().as_str().unwrap().to_lowercase().starts_with("invalid"), "{}", reply.body);
    }
    assert_eq!(provider.count(), 0);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed
        .write_all(json!({"model": "gpt-5.4", "messages": [{"role": "user", "content": "Hi"}]}).to_string().as_bytes())
        .unwrap();
    let packed = packed.finish().unwrap();
    let reply = call(&server, "POST", "/v1/chat/completions", "content-encoding: gzip\r\n", &packed);
    assert_eq!((reply.status, reply.header("x-foreword-session").is_some()), (200, true), "{}", reply.body);
    let seen = provider.last();
    assert_eq!((header(&seen, "content-encoding"), seen.body.as_ref()), (Some("gzip"), packed.as_slice()));
}

/// What a client that keeps its conversation sends.
struct Talk {
    messages: Vec<Value>,
}

impl Talk {
    fn new() -> Self {
        Self { messages: Vec::new() }
    }

    fn says(&mut self, server: &Running, headers: &str, words: &str) -> Reply {
        self.messages.push(json!({"role": "user", "content": words}));
        let reply = self.again(server, headers);
        if reply.status == 200 {
            self.messages.push(json!({"role": "assistant", "content": reply.json()["content"]}));
        }
        reply
    }

    fn again(&self, server: &Running, headers: &str) -> Reply {
        call(server, "POST", "/v1/messages", headers, self.body().as_bytes())
    }

    fn body(&self) -> String {
        json!({"model": "claude-sonnet-5", "max_tokens": 9, "system": "s".repeat(40_000), "messages": self.messages}).to_string()
    }
}

fn session(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.header("x-foreword-session").unwrap().to_owned()
}

/// The sessions of clients, once `done` says that all is there.
fn clients(server: &Running, done: impl Fn(&Value) -> bool) -> Value {
    let since = Instant::now();
    loop {
        let found = server.get("/api/v1/clients");
        if done(&found) || since.elapsed() > Duration::from_secs(10) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_conversation_is_one_session_and_what_failed_leaves_no_trace() {
    let (provider, server, config) = gateway(Level::Assist, "");
    let mut talk = Talk::new();
    let overloaded = || (529, vec![("retry-after", "1".to_owned())], b"{\"type\":\"error\"}".to_vec());
    // The first request fails, and is sent again as it is.
    provider.answers(overloaded());
    let reply = talk.says(&server, "", "One");
    assert_eq!((reply.status, reply.body.as_str(), reply.header("retry-after")), (529, "{\"type\":\"error\"}", Some("1")));
    let first = talk.again(&server, "");
    let id = session(&first);
    assert_eq!(reply.header("x-foreword-session"), Some(id.as_str()));
    assert!(first.header("x-foreword-reason").unwrap().contains("first request"));
    assert_eq!(provider.last().body, talk.body().as_bytes());
    talk.messages.push(json!({"role": "assistant", "content": first.json()["content"]}));
    for words in ["More", "And more", "Still more"] {
        assert_eq!(talk.says(&server, "", words).header("x-foreword-added"), None, "{words}");
    }
    // In mid-conversation: what goes on is as if it had not been.
    provider.answers(overloaded());
    talk.messages.push(json!({"role": "user", "content": "Two"}));
    assert_eq!(talk.again(&server, "").status, 529);
    let second = talk.again(&server, "");
    assert_eq!((session(&second), second.header("x-foreword-added")), (id.clone(), Some("cache_control=1")));
    let sent = provider.last().body;
    let bare = std::str::from_utf8(&sent).unwrap();
    let bare = bare.replace("[{\"type\":\"text\",\"text\":\"Two\",\"cache_control\":{\"type\":\"ephemeral\"}}]", "\"Two\"");
    assert_eq!(bare, talk.body());
    talk.messages.push(json!({"role": "assistant", "content": second.json()["content"]}));
    assert_eq!(session(&talk.says(&server, "", "Three")), id);
    // The same at observe: nothing is added.
    let reply = talk.says(&server, "x-foreword-level: observe\r\n", "Four");
    assert_eq!(
        (session(&reply), reply.header("x-foreword-added"), reply.header("x-foreword-level")),
        (id.clone(), None, Some("observe"))
    );
    // Another way from the second turn is the same conversation; another beginning is not.
    let mut other = Talk { messages: talk.messages[..2].to_vec() };
    assert_eq!(session(&other.says(&server, "", "Otherwise")), id);
    assert_ne!(session(&Talk::new().says(&server, "", "Something else")), id);
    let found = clients(&server, |found| found.as_array().unwrap().iter().any(|client| client["requests"] == 10));
    let of = found.as_array().unwrap().iter().find(|client| client["id"] == json!(id)).unwrap();
    assert_eq!(
        (&of["title"], &of["requests"], &of["failed"], &of["parent"]),
        (&json!("One"), &json!(10), &json!(2), &Value::Null)
    );
    let requests = server.get(&format!("/api/v1/clients/{id}"));
    let last = &requests[9];
    assert_eq!(
        (&last["broke"]["cause"], &last["broke"]["path"]),
        (&json!("message_changed"), &json!("messages[2].content")),
        "{last}"
    );
    assert_eq!(requests[6]["added"].as_array().unwrap().len(), 2, "{}", requests[6]);
    // After a restart it is still the same conversation.
    let server = server.restarted(&config, Level::Assist);
    assert_eq!(session(&talk.says(&server, "", "Five")), id);
}

#[test]
fn sessions_are_what_clients_call_them() {
    let (_, server, config) = gateway(Level::Observe, "");
    let name = "x-claude-code-session-id: 0f6ac3d2-1111-4222-8333-444455556666\r\n";
    let ask =
        |server: &Running, headers: &str, body: Value| call(server, "POST", "/v1/messages", headers, body.to_string().as_bytes());
    let tools = json!([{"name": "Read"}, {"name": "Bash"}]);
    let main = |words: &str| json!({"model": "claude-sonnet-5", "system": "main", "tools": tools, "messages": [{"role": "user", "content": words}]});
    let one = ask(&server, name, main("Do it"));
    let id = session(&one);
    // A side call with another prompt, which is a session of its own.
    let title =
        json!({"model": "claude-haiku-5-5", "system": "Write a title.", "messages": [{"role": "user", "content": "Do it"}]});
    let side = ask(&server, name, title);
    assert_ne!(session(&side), id);
    assert_eq!(side.header("x-foreword-parent"), Some(id.as_str()));
    // What was compacted begins anew under the same prompt.
    assert_eq!(session(&ask(&server, name, main("Summary: it is half done"))), id);
    // In the body, as Claude Code and opencode have it.
    let mut of_body = main("Do it");
    of_body["metadata"] = json!({"user_id": "{\"session_id\":\"0f6ac3d2-1111-4222-8333-444455556666\"}"});
    assert_eq!(session(&ask(&server, "", of_body)), id);
    let named = ask(&server, "x-foreword-session: my-task\r\n", main("x"));
    assert_eq!(session(&named), "my-task");
    // An answer that is gone on from.
    let responses = |body: Value| call(&server, "POST", "/v1/responses", "", body.to_string().as_bytes());
    let begun = responses(json!({"model": "gpt-5.4", "input": "Begin"}));
    let answer = begun.json()["id"].as_str().unwrap().to_owned();
    let next = responses(json!({"model": "gpt-5.4", "input": "Go on", "previous_response_id": answer}));
    assert_eq!(session(&next), session(&begun));
    // Clients with keys of their own share nothing.
    let own = |key: &str| ask(&server, &format!("x-api-key: {key}\r\n"), main("Do it"));
    let (a, b) = (session(&own("sk-a")), session(&own("sk-b")));
    assert!(a != b && a != id);
    let server = server.restarted(&config, Level::Observe);
    assert_eq!(session(&ask(&server, name, main("Another summary"))), id);
}

#[test]
fn what_may_be_spent_is_limited() {
    let (provider, server, _) = gateway(Level::Observe, "[limits.session]\nwarn = 0.005\nrefuse = 0.015\n");
    let mut talk = Talk::new();
    // About a cent each.
    let first = talk.says(&server, "", "One");
    assert_eq!((first.status, first.header("x-foreword-spending")), (200, None));
    clients(&server, |found| found[0]["cost"].as_f64().is_some_and(|cost| cost > 0.0));
    let second = talk.says(&server, "", "Two");
    assert!(second.header("x-foreword-spending").unwrap().contains("more than $0.01"), "{}", second.head);
    clients(&server, |found| found[0]["cost"].as_f64().is_some_and(|cost| cost > 0.015));
    let before = provider.count();
    let third = talk.says(&server, "", "Three");
    assert_eq!((third.status, third.json()["type"].as_str()), (402, Some("error")), "{}", third.body);
    assert!(third.body.contains("[limits.session]") && provider.count() == before);
}

#[test]
fn levels_are_chosen_by_key_and_provider() {
    let (_, server, _) = gateway(Level::Observe, "[gateway]\nkeys = { ci = \"assist\" }\n");
    let (_, key) = foreword_server::Keys::new(&server.folder.path().join("state")).create(Some("ci")).unwrap();
    let body = json!({"model": "gpt-5.4", "messages": [{"role": "user", "content": "Hi"}]}).to_string();
    let level = |headers: &str| {
        let reply = call(&server, "POST", "/v1/chat/completions", headers, body.as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.header("x-foreword-level").unwrap().to_owned()
    };
    assert_eq!(level(""), "observe");
    assert_eq!(level(&format!("authorization: Bearer {key}\r\n")), "assist");
    assert_eq!(level(&format!("authorization: Bearer {key}\r\nx-foreword-level: manage\r\n")), "manage");
    assert_eq!(level("x-foreword-mode: pass-through\r\n"), "observe");
}

#[test]
fn a_managed_request_that_failed_can_be_sent_again() {
    let (provider, server, _) = gateway(Level::Manage, "");
    let mut talk = Talk::new();
    let id = session(&talk.says(&server, "", "One"));
    for status in [529, 502, 429] {
        let before = provider.count();
        provider.answers((
            status,
            vec![("retry-after", "3".to_owned())],
            b"{\"type\":\"error\",\"error\":{\"type\":\"x\",\"message\":\"Not now\"}}".to_vec(),
        ));
        talk.messages.push(json!({"role": "user", "content": format!("After {status}")}));
        let failed = talk.again(&server, "");
        assert_eq!((failed.status, failed.header("retry-after")), (status, Some("3")), "{}", failed.body);
        assert!(failed.body.contains("Not now"), "{}", failed.body);
        assert_eq!(provider.count(), before + 1, "it was tried again");
        let again = talk.again(&server, "");
        assert_eq!(session(&again), id);
        let sent: Value = serde_json::from_slice(&provider.last().body).unwrap();
        let said = sent["messages"].to_string();
        assert_eq!(said.matches(&format!("After {status}")).count(), 1, "{said}");
        talk.messages.push(json!({"role": "assistant", "content": again.json()["content"]}));
    }
}

/// A generator of random numbers that is the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Whatever a client and a provider say to each other, `observe` changes no byte of it. `FOREWORD_EXCHANGES` makes it more.
#[test]
fn observe_changes_nothing() {
    let (provider, server, _) = gateway(Level::Observe, "");
    let many = std::env::var("FOREWORD_EXCHANGES").ok().and_then(|many| many.parse().ok()).unwrap_or(300);
    let mut random = Random(7);
    let pieces = [
        "{",
        "}",
        "[",
        "\"",
        "\\",
        "\\u00e4",
        "ä",
        "🦀",
        "\"model\":",
        "\"gpt-5.4\"",
        ",",
        "\n",
        "\t",
        "1.0",
        "1e400",
        "null",
        "\"messages\":[]",
        "\"cache_control\":{}",
        "\0",
        "\r\n",
    ];
    let paths =
        ["/v1/chat/completions", "/v1/messages?beta=true", "/v1/responses", "/v1beta/models/m:generateContent", "/v1/x/y?z=%20"];
    for number in 0..many {
        let text = |random: &mut Random, least: usize| -> Vec<u8> {
            let mut text: Vec<u8> =
                (0..least + random.below(40)).flat_map(|_| pieces[random.below(pieces.len())].bytes()).collect();
            if random.below(5) == 0 {
                text.extend((0..random.below(60)).map(|_| u8::try_from(random.below(256)).unwrap()));
            }
            text
        };
        let (body, answer) = (text(&mut random, 1), text(&mut random, 0));
        let status = [200, 201, 400, 418, 500][random.below(5)];
        provider.answers((status, vec![("x-number", number.to_string())], answer.clone()));
        let path = paths[random.below(paths.len())];
        let reply =
            call(&server, "POST", path, "x-api-key: sk-theirs\r\nx-goog-api-key: g\r\nauthorization: Bearer t\r\n", &body);
        let seen = provider.last();
        assert_eq!(seen.body.as_ref(), body.as_slice(), "{path} {number}");
        assert_eq!((reply.status, reply.header("x-number")), (status, Some(number.to_string().as_str())), "{path} {number}");
        assert_eq!(reply.body, String::from_utf8_lossy(&answer), "{path} {number}");
    }
}

//! A server over a small vault, and a client that writes what a test tells it to.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::format_push_string,
    clippy::needless_pass_by_value
)] // each test file uses some of it

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use foreword_engine::settings::SessionSettings;
use foreword_server::{Answers, Config, Level, Limits, Reach, Server, Token};
use foreword_trust::places::Places;
use foreword_vault_tools::embedding::Fetch;
use serde_json::{Value, json};

/// The server's token.
pub(crate) const TOKEN: &str = "fw-server-test";

/// How a client shows it.
pub(crate) const AUTHORIZED: &str = "authorization: Bearer fw-server-test\r\n";

/// Who may come in by default: programs of this machine that have the token.
pub(crate) fn loopback() -> Reach {
    Reach::Loopback { token: Token::of(TOKEN) }
}

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
    end: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) const SCRIPT: &str = r#"{"replies": [{"text": "The starter was **too young**."}, {"text": "Slowly now", "delay_ms": 60}, {"text": "And again."}]}"#;

/// Who answers: a script, or else the providers of a configuration.
#[derive(Clone, Copy)]
struct Answered<'a> {
    script: Option<&'a str>,
    config: &'a str,
    model: Option<&'a str>,
}

impl Running {
    pub(crate) fn start() -> Self {
        Self::with(SCRIPT, loopback(), Limits::default())
    }

    pub(crate) fn with(script: &str, reach: Reach, limits: Limits) -> Self {
        Self::made(Some(script), "", reach, limits, Level::Manage)
    }

    /// Answered by a script, or else by the providers of a configuration.
    pub(crate) fn made(script: Option<&str>, config: &str, reach: Reach, limits: Limits, level: Level) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let vault = folder.path().join("vault");
        fs::create_dir_all(vault.join("Kitchen")).unwrap();
        fs::write(vault.join("Kitchen/Bread.md"), "# Bread\n\nThe starter doubles in four hours. #baking\n").unwrap();
        fs::write(vault.join("Beds.md"), "# Beds\n\nBeans went in. #garden\n").unwrap();
        fs::create_dir_all(vault.join("Foreword/Agents/cook/rules")).unwrap();
        fs::write(vault.join("Foreword/Agents/cook/agent.toml"), "name = \"Cook\"\ndescription = \"Cooks.\"\n").unwrap();
        fs::write(
            vault.join("Foreword/Agents/cook/rules/units.md"),
            "---\npriority: 7\ninclude: always\ndescription: Grams\n---\nUse grams.\n",
        )
        .unwrap();
        fs::write(vault.join("Foreword/Agents/cook/rules/tone.md"), "---\ninclude: manual\n---\nBe brief.\n").unwrap();
        fs::write(folder.path().join("secret.md"), "outside").unwrap();
        Self::serve(folder, Answered { script, config, model: None }, reach, limits, level)
    }

    /// A server over a copy of a vault, whose sessions have this model.
    pub(crate) fn over(vault: &Path, script: &str, model: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(vault, &folder.path().join("vault"));
        let answered = Answered { script: Some(script), config: "", model };
        Self::serve(folder, answered, loopback(), Limits::default(), Level::Manage)
    }

    fn serve(folder: tempfile::TempDir, answered: Answered<'_>, reach: Reach, limits: Limits, level: Level) -> Self {
        let config = config(folder.path(), answered, reach, limits, level);
        let (end, ended) = tokio::sync::oneshot::channel();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || run(config, |address| tell.send(address).unwrap(), async { drop(ended.await) }));
        let address = told.recv().unwrap();
        Self { address, folder, end: Some(end), thread: Some(thread) }
    }

    /// The same folder served anew, as after a restart.
    pub(crate) fn restarted(mut self, config: &str, level: Level) -> Self {
        self.end();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        Self::serve(folder, Answered { script: None, config, model: None }, loopback(), Limits::default(), level)
    }

    /// Allows all that the vault asks for, as a person at the page does.
    pub(crate) fn trust_everything(&self) {
        let claims = self.get("/api/v1/trust")["claims"].as_array().unwrap().clone();
        let decide = |claim: &Value| json!({"id": claim["id"], "sha256": claim["sha256"], "allowed": true});
        let decisions: Vec<Value> = claims.iter().map(decide).collect();
        let after = self.post("/api/v1/trust", json!({"decisions": decisions}));
        assert_eq!(after["restricted"], false, "{after}");
    }

    /// Ends it and waits.
    pub(crate) fn end(&mut self) {
        if let Some(end) = self.end.take() {
            let _ = end.send(());
        }
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// An address that opens the page, once.
    pub(crate) fn page(&self) -> String {
        format!("http://{}/#code={}", self.address, Token::of(TOKEN).code(self.address.port()).unwrap())
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Writes bytes, reads all that comes back.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect();
        // A server that has refused already may not read the rest.
        let _ = stream.write_all(bytes);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        Reply::parse(&all)
    }

    /// A request as a well-behaved client makes it.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        self.call_with(method, path, &[], body)
    }

    /// With more headers; with the token, where they hold no other key.
    pub(crate) fn call_with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Reply {
        let mut headers = headers.to_vec();
        if !headers.iter().any(|(name, _)| ["authorization", "x-api-key", "x-goog-api-key"].contains(name)) {
            headers.push(("x-api-key", TOKEN));
        }
        self.call_as_stranger(method, path, &headers, body)
    }

    /// With these headers and no others, so without the token.
    pub(crate) fn call_as_stranger(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Reply {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        self.raw(format!("{text}\r\n{body}").as_bytes())
    }

    /// A call that must work.
    pub(crate) fn get(&self, path: &str) -> Value {
        let reply = self.call("GET", path, None);
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.json()
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> Value {
        let reply = self.call("POST", path, Some(&body));
        assert!((200..300).contains(&reply.status), "{path}: {} {}", reply.status, reply.body);
        if reply.body.is_empty() { Value::Null } else { reply.json() }
    }

    pub(crate) fn begin(&self) -> String {
        self.post("/api/v1/sessions", json!({"agent": "cook", "mode": "chat"}))["id"].as_str().unwrap().to_owned()
    }

    /// Sends a message and reads its events to the end.
    pub(crate) fn say(&self, session: &str, words: &str, attach: &[&str]) -> Vec<(String, Value)> {
        let begun = self.post(&format!("/api/v1/sessions/{session}/messages"), json!({"words": words, "attach": attach}));
        self.events(session, begun["event"].as_str(), |name| name == "done" || name == "problem")
    }

    /// The events behind one, until one that ends it.
    pub(crate) fn events(&self, session: &str, after: Option<&str>, ends: impl Fn(&str) -> bool) -> Vec<(String, Value)> {
        self.events_with_ids(session, after, ends).into_iter().map(|(_, name, data)| (name, data)).collect()
    }

    pub(crate) fn events_with_ids(
        &self,
        session: &str,
        after: Option<&str>,
        ends: impl Fn(&str) -> bool,
    ) -> Vec<(String, String, Value)> {
        let last = after.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let mut stream = self.connect();
        let head = format!("GET /api/v1/sessions/{session}/events HTTP/1.1\r\nhost: {}\r\n{AUTHORIZED}{last}\r\n", self.address);
        stream.write_all(head.as_bytes()).unwrap();
        let (mut text, mut found, started) = (String::new(), Vec::new(), Instant::now());
        let mut buffer = [0; 4096];
        while started.elapsed() < Duration::from_secs(20) {
            let read = stream.read(&mut buffer).unwrap();
            if read == 0 {
                break;
            }
            text.push_str(&String::from_utf8_lossy(&buffer[..read]));
            while let Some((event, rest)) = text.split_once("\n\n") {
                let field =
                    |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
                let (id, name, data) = (field("id:"), field("event:"), field("data:"));
                text = rest.to_owned();
                if name.is_empty() || name == "open" {
                    continue;
                }
                found.push((id, name.clone(), serde_json::from_str(&data).unwrap()));
                if ends(&name) {
                    return found;
                }
            }
        }
        panic!("the stream did not come to its end: {found:?}")
    }
}

/// A server over a folder, whose sessions have this model, until the process ends.
pub(crate) fn serve_until_killed(folder: &Path, providers: &str, model: &str, told: impl FnOnce(SocketAddr)) {
    let answered = Answered { script: None, config: providers, model: Some(model) };
    let config = config(folder, answered, Reach::Open, Limits::default(), Level::Manage);
    run(config, told, std::future::pending());
}

fn config(folder: &Path, answered: Answered<'_>, reach: Reach, limits: Limits, level: Level) -> Config {
    let vault = folder.join("vault");
    let file = folder.join("script.json");
    let script = answered.script.map(|script| fs::write(&file, script).map(|()| file).unwrap());
    let places = Places { cache: folder.join("cache"), models: folder.join("models"), state: folder.join("state") };
    let config = foreword_engine::config::Config::read(answered.config).unwrap();
    let model = answered.model.map(str::to_owned);
    let answers =
        Answers { config, is_set: |_| false, model, base_url: None, window: None, script, settings: SessionSettings::default() };
    let servers = |_: &_, _: Option<&str>, _| Vec::new();
    Config { vault, places, weights: Fetch::Never, templates: None, answers, servers, reach, limits, level: Some(level) }
}

fn run(config: Config, told: impl FnOnce(SocketAddr), end: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start("127.0.0.1:0".parse().unwrap(), config).unwrap();
        told(server.address().unwrap());
        server.run(end).await;
    });
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A folder with all that people wrote into it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        match entry.file_type().unwrap().is_dir() {
            // What an earlier server kept there.
            true if name == ".foreword" || name == "Chats" => {}
            true => copy(&entry.path(), &to.join(name)),
            false => drop(fs::copy(entry.path(), to.join(name)).unwrap()),
        }
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = if head.to_lowercase().contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
        Self { status, head: head.to_lowercase(), body }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

fn unchunked(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        out.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    out
}

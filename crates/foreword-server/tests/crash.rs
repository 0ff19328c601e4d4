//! Acknowledged means stored: a real server is killed while clients of its API, readers of its page's events and clients of its gateway
//! write to it. Whatever it acknowledged is there afterwards; where the disk is full, the store is removed or a bit changes, it says so.
//!
//! `FOREWORD_CRASHES` says how often it is killed (50 times in CI, `cargo xtask crash` for more).
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Reply, serve_until_killed};
use foreword_engine::session::{STORE, Sqlite, Store as _, transcript, verify};
use serde_json::{Value, json};
use tempfile::TempDir;

const CHILD: &str = "FOREWORD_SERVER_CRASH_CHILD";
const PROVIDERS: &str = "FOREWORD_SERVER_CRASH_PROVIDERS";
const MODEL: &str = "house/any";

/// Numbers that look random and can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// The process that is killed. It is this same program, told by its environment to serve.
#[test]
fn child() {
    if let Some(folder) = std::env::var_os(CHILD) {
        let providers = std::env::var(PROVIDERS).unwrap();
        serve_until_killed(&PathBuf::from(folder), &providers, MODEL, |address| {
            let mut out = std::io::stdout();
            writeln!(out, "\nat {address}").unwrap();
            out.flush().unwrap();
        });
    }
}

/// A provider that answers everyone at its leisure.
fn provider() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    address
}

const PARTS: [&str; 4] = ["This is ", "an answer ", "in some ", "parts."];

fn answer(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let wants_stream = serde_json::from_slice::<Value>(&body).is_ok_and(|body| body["stream"] == true);
    if !wants_stream {
        let message = json!({"role": "assistant", "content": PARTS.concat()});
        let body = json!({"id": "c", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                          "usage": {"prompt_tokens": 9, "completion_tokens": 2}})
        .to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
        let _ = stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
        return;
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let _ = stream.write_all(head.as_bytes());
    for part in PARTS {
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": part}}]});
        let _ = stream.write_all(format!("data: {chunk}\n\n").as_bytes());
        thread::sleep(Duration::from_millis(3));
    }
    let last =
        json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let _ = stream.write_all(format!("data: {last}\n\ndata: [DONE]\n\n").as_bytes());
}

/// A server in a process of its own.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(folder: &Path, provider: SocketAddr) -> Self {
        Self::with(folder, provider, &mut Command::new(std::env::current_exe().unwrap()))
    }

    /// One whose files cannot become larger than so many blocks of 512 bytes: as if the disk was full.
    fn cramped(folder: &Path, provider: SocketAddr, blocks: u32) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"")]);
        shell.arg(std::env::current_exe().unwrap());
        Self::with(folder, provider, &mut shell)
    }

    fn with(folder: &Path, provider: SocketAddr, command: &mut Command) -> Self {
        let vault = folder.join("vault");
        fs::create_dir_all(&vault).unwrap();
        fs::write(vault.join("Bread.md"), "# Bread\n\nThe starter doubles in four hours.\n").unwrap();
        let providers =
            format!("[providers.house]\nbase_url = \"http://{provider}/v1\"\nkey = \"none\"\ndialect = \"openai-chat\"\n");
        let mut child = command
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, folder)
            .env(PROVIDERS, providers)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "the server ended by itself");
            if let Some(address) = line.strip_prefix("at ") {
                break address.trim().parse().unwrap();
            }
        };
        thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        Self { child, address }
    }

    /// Kills it; what it said on standard error.
    fn kill(mut self) -> String {
        self.child.kill().unwrap(); // SIGKILL
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert!(self.child.wait().unwrap().code().is_none(), "the server ended by itself: {errors}");
        errors
    }

    fn client(&self) -> Client {
        Client(self.address)
    }
}

#[derive(Clone, Copy)]
struct Client(SocketAddr);

impl Client {
    /// Sends a request. None where no whole answer came back: the server was killed.
    fn call(self, method: &str, path: &str, headers: &str, body: &Value) -> Option<Reply> {
        let mut stream = self.begin(method, path, headers, body)?;
        let mut all = Vec::new();
        stream.read_to_end(&mut all).ok()?;
        let reply = Reply::parse(&all);
        let whole = reply.header("content-length").is_none_or(|length| length.parse() == Ok(reply.body.len()));
        (whole && reply.status > 0).then_some(reply)
    }

    fn begin(self, method: &str, path: &str, headers: &str, body: &Value) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(self.0).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}", self.0);
        let length = format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{length}{body}").as_bytes()).ok()?;
        Some(stream)
    }

    fn api(self, method: &str, path: &str, body: &Value) -> Option<Reply> {
        self.call(method, &format!("/api/v1/sessions{path}"), "", body)
    }

    fn status(self, path: &str) -> u16 {
        self.call("GET", path, "", &Value::Null).map_or(0, |reply| reply.status)
    }
}

/// What one client was told is stored.
#[derive(Clone, Debug, Default)]
struct Acknowledged {
    /// Sessions, and the texts that stand in them.
    sessions: BTreeMap<String, Vec<String>>,
    /// What was shown of the last answer of a session.
    shown: BTreeMap<String, String>,
    /// The last acknowledged title of a session, and one that was asked for after it.
    titles: BTreeMap<String, (Option<String>, Option<String>)>,
    /// Bodies that were passed on.
    passed: Vec<String>,
    /// Requests that were answered and not stored, as the answer said.
    unstored: u64,
    /// Changes that were refused because they could not be stored.
    refused: u64,
}

impl Acknowledged {
    fn said(&mut self, session: &str, text: &str) {
        self.sessions.entry(session.to_owned()).or_default().push(text.to_owned());
    }

    fn count(&self) -> usize {
        let said: usize = self.sessions.values().map(|said| 1 + said.len()).sum();
        said + self.shown.len() + self.titles.len() + self.passed.len()
    }

    /// Whether a change was accepted; a refusal must say that it could not be stored.
    fn accepted(&mut self, reply: &Reply, expect: u16) -> bool {
        if reply.status != expect {
            assert!(matches!(reply.status, 503 | 507), "{} {}", reply.status, reply.body);
            self.refused += 1;
        }
        reply.status == expect
    }
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

fn words(dice: &mut Dice) -> String {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("question {number} {}", "and more ".repeat(usize::try_from(dice.roll(30)).unwrap()).trim_end())
}

/// A person at the page: sessions, messages, edits, titles, forks; the answer is read as it comes.
fn at_the_page(client: Client, dice: &mut Dice, told: &mut Acknowledged) -> Option<()> {
    let mode = ["chat", "agent"][usize::try_from(dice.roll(2)).unwrap()];
    let begun = client.api("POST", "", &json!({"mode": mode}))?;
    if !told.accepted(&begun, 201) {
        thread::sleep(Duration::from_millis(5));
        return Some(());
    }
    let id = begun.json()["id"].as_str().unwrap().to_owned();
    told.sessions.entry(id.clone()).or_default();
    for turn in 1..4 {
        let new = words(dice);
        told.shown.remove(&id);
        let sent = client.api("POST", &format!("/{id}/messages"), &json!({"words": new, "attach": ["Bread.md"]}))?;
        if !told.accepted(&sent, 202) {
            return Some(());
        }
        told.said(&id, &new);
        read_events(client, &id, sent.json()["event"].as_str().unwrap(), told)?;
        match dice.roll(5) {
            0 => {
                let title = format!("title {}", dice.roll(1 << 30));
                told.titles.entry(id.clone()).or_default().1 = Some(title.clone());
                let renamed = client.api("PATCH", &format!("/{id}"), &json!({ "title": title }))?;
                if told.accepted(&renamed, 204) {
                    told.titles.insert(id.clone(), (Some(title), None));
                }
            }
            1 => {
                let fork = client.api("POST", &format!("/{id}/fork"), &json!({ "turn": turn }))?;
                if told.accepted(&fork, 201) {
                    told.said(fork.json()["id"].as_str().unwrap(), &new);
                }
            }
            2 => {
                // From here on either may be there, until the answer says which.
                told.sessions.get_mut(&id).unwrap().pop();
                told.shown.remove(&id);
                let other = words(dice);
                let edited = client.api("PUT", &format!("/{id}/messages/{turn}"), &json!({ "words": other }))?;
                if told.accepted(&edited, 202) {
                    told.said(&id, &other);
                    read_events(client, &id, edited.json()["event"].as_str().unwrap(), told)?;
                }
            }
            _ => {}
        }
    }
    Some(())
}

/// Reads the events of a turn to its end. What is shown is stored.
fn read_events(client: Client, id: &str, event: &str, told: &mut Acknowledged) -> Option<()> {
    let path = format!("/api/v1/sessions/{id}/events");
    let stream = client.begin("GET", &path, &format!("last-event-id: {event}\r\n"), &Value::Null)?;
    let (mut name, mut shown) = (String::new(), String::new());
    for line in BufReader::new(stream).lines() {
        let line = line.ok()?;
        if let Some(event) = line.strip_prefix("event: ") {
            event.clone_into(&mut name);
        } else if let Some(data) = line.strip_prefix("data: ") {
            match name.as_str() {
                "part" => {
                    let data: Value = serde_json::from_str(data).ok()?;
                    shown.push_str(data["text"].as_str()?);
                    told.shown.insert(id.to_owned(), shown.clone());
                }
                // An agent answers more than once in a turn.
                "request" => shown.clear(),
                "done" | "problem" => return Some(()),
                _ => {}
            }
        }
    }
    None
}

/// A client of the gateway whose conversation is a session.
fn at_the_gateway(client: Client, dice: &mut Dice, told: &mut Acknowledged) -> Option<()> {
    let mut messages = Vec::new();
    for _ in 0..3 {
        let new = words(dice);
        messages.push(json!({"role": "user", "content": new}));
        let streams = dice.roll(2) == 0;
        let body = json!({"model": MODEL, "messages": messages, "stream": streams});
        let reply = client.call("POST", "/v1/chat/completions", "", &body)?;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let session = reply.header("x-foreword-session").unwrap().to_owned();
        match reply.header("x-foreword-stored") {
            Some("yes") => {
                told.said(&session, &new);
                if !streams {
                    told.said(&session, &PARTS.concat());
                }
            }
            Some("no") => told.unstored += 1,
            other => panic!("{other:?}: {}", reply.head),
        }
        messages.push(json!({"role": "assistant", "content": PARTS.concat()}));
    }
    Some(())
}

/// A client of the gateway whose requests are passed on.
fn passing_on(client: Client, dice: &mut Dice, told: &mut Acknowledged) -> Option<()> {
    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": words(dice)}]});
    let reply = client.call("POST", "/v1/chat/completions", "x-foreword-mode: pass-through\r\n", &body)?;
    assert_eq!(reply.status, 200, "{}", reply.body);
    match reply.header("x-foreword-stored") {
        // The provider has its own name for the model.
        Some("yes") => told.passed.push(json!({"model": "any", "messages": body["messages"]}).to_string()),
        Some("no") => told.unstored += 1,
        other => panic!("{other:?}: {}", reply.head),
    }
    Some(())
}

/// Clients of every kind for a while, and then the kill. What they were told is stored.
fn busy(server: Server, dice: &mut Dice, time: Duration) -> (Vec<Acknowledged>, String) {
    let (client, until) = (server.client(), Instant::now() + time);
    let clients: Vec<_> = (0..6)
        .map(|at| {
            let mut dice = Dice(dice.roll(u64::MAX >> 2));
            thread::spawn(move || {
                let mut told = Acknowledged::default();
                // Until the server is gone.
                let limit = until + Duration::from_secs(30);
                while Instant::now() < limit {
                    let went_on = match at {
                        0..=2 => at_the_page(client, &mut dice, &mut told),
                        3 | 4 => at_the_gateway(client, &mut dice, &mut told),
                        _ => passing_on(client, &mut dice, &mut told),
                    };
                    if went_on.is_none() {
                        break;
                    }
                }
                told
            })
        })
        .collect();
    thread::sleep(time);
    let errors = server.kill();
    (clients.into_iter().map(|client| client.join().unwrap()).collect(), errors)
}

/// What was acknowledged and is not there.
fn lost(store: &Sqlite, told: &[Acknowledged]) -> Vec<String> {
    let mut texts: BTreeMap<String, (Option<String>, Vec<String>)> = BTreeMap::new();
    for row in store.sessions().unwrap_or_default() {
        let said = transcript(store, &row).map(|said| said.messages.into_iter().map(|entry| entry.text).collect());
        texts.insert(row.id.clone(), (row.title, said.unwrap_or_default()));
    }
    let numbers = store.forwarded().unwrap_or_default().into_iter().map(|passed| passed.number);
    let passed: Vec<String> = numbers.filter_map(|number| store.forwarded_body(number).ok()).collect();
    let mut lost = Vec::new();
    let none = (None, Vec::new());
    for told in told {
        for (id, said) in &told.sessions {
            let found = texts.get(id);
            if found.is_none() {
                lost.push(format!("session {id}"));
            }
            let (_, there) = found.unwrap_or(&none);
            lost.extend(said.iter().filter(|text| !there.contains(text)).map(|text| format!("{id}: {text}")));
        }
        for (id, shown) in &told.shown {
            let (_, there) = texts.get(id).unwrap_or(&none);
            if !there.iter().any(|text| text.starts_with(shown.trim_end())) {
                lost.push(format!("{id} showed: {shown}"));
            }
        }
        for (id, (acknowledged, asked)) in &told.titles {
            let (title, _) = texts.get(id).unwrap_or(&none);
            if acknowledged.is_some() && title != acknowledged && title != asked {
                lost.push(format!("{id} was called {acknowledged:?}, and is called {title:?}"));
            }
        }
        let missing = told.passed.iter().filter(|body| !passed.iter().any(|there| same(there, body)));
        lost.extend(missing.map(|body| format!("passed on: {body}")));
    }
    lost
}

fn same(one: &str, other: &str) -> bool {
    serde_json::from_str::<Value>(one).ok() == serde_json::from_str::<Value>(other).ok()
}

fn store_of(folder: &Path) -> PathBuf {
    folder.join("vault").join(STORE)
}

fn check(folder: &Path, told: &[Acknowledged]) {
    let store = Sqlite::open(&store_of(folder)).unwrap();
    assert_eq!(lost(&store, told), Vec::<String>::new());
    assert_eq!(verify(&store, &mut |_, _| {}).unwrap().faults, []);
}

fn times(usual: u64) -> u64 {
    let asked: Option<u64> = std::env::var("FOREWORD_CRASHES").ok().and_then(|times| times.parse().ok());
    asked.map_or(usual, |asked| (asked * usual / 50).max(1))
}

fn seed() -> u64 {
    std::env::var("FOREWORD_CRASH_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    if is_child() {
        return;
    }
    let (provider, mut dice, mut all, times) = (provider(), Dice(seed()), 0, times(50));
    let mut folder = TempDir::new().unwrap();
    for time in 0..times {
        if time % 10 == 0 {
            folder = TempDir::new().unwrap(); // so that looking at everything stays quick
        }
        let server = Server::start(folder.path(), provider);
        let (told, _) = busy(server, &mut dice, Duration::from_millis(20 + time % 5 * 50));
        all += told.iter().map(Acknowledged::count).sum::<usize>();
        check(folder.path(), &told);
    }
    assert!(all as u64 > 2 * times, "hardly anything was acknowledged: {all}");
    eprintln!("{times} kills, {all} acknowledgements, none lost");
}

#[test]
fn a_full_disk_is_said_and_nothing_acknowledged_is_lost() {
    if is_child() {
        return;
    }
    let (provider, mut dice) = (provider(), Dice(seed()));
    for time in 0..times(2) {
        let folder = TempDir::new().unwrap();
        let server = Server::cramped(folder.path(), provider, 900 + u32::try_from(time % 7).unwrap() * 100);
        let client = server.client();
        let watching = thread::spawn(move || {
            let since = Instant::now();
            while since.elapsed() < Duration::from_secs(8) {
                if client.status("/readyz") == 503 {
                    return true;
                }
                thread::sleep(Duration::from_millis(20));
            }
            false
        });
        let (told, errors) = busy(server, &mut dice, Duration::from_secs(5));
        let refused: u64 = told.iter().map(|told| told.refused + told.unstored).sum();
        assert!(refused > 0, "it never became full");
        assert!(watching.join().unwrap(), "it was ready all the time");
        assert!(errors.contains("NOTHING IS STORED"), "{errors}");
        check(folder.path(), &told);
    }
}

#[test]
fn a_store_that_is_removed_is_said() {
    if is_child() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path(), provider());
    let client = server.client();
    let mut dice = Dice(seed());
    let mut told = Acknowledged::default();
    at_the_gateway(client, &mut dice, &mut told).unwrap();
    passing_on(client, &mut dice, &mut told).unwrap();
    let begun = client.api("POST", "", &json!({})).unwrap().json();
    let id = begun["id"].as_str().unwrap();
    assert_eq!((told.unstored, client.status("/readyz"), client.status("/healthz")), (0, 200, 200));
    fs::remove_dir_all(store_of(folder.path()).parent().unwrap()).unwrap();
    let before = told.count();
    at_the_gateway(client, &mut dice, &mut told).unwrap();
    passing_on(client, &mut dice, &mut told).unwrap();
    assert_eq!((told.count(), told.unstored), (before, 4));
    for (method, path, body) in [
        ("POST", String::new(), json!({})),
        ("POST", format!("/{id}/messages"), json!({"words": "Hello"})),
        ("PATCH", format!("/{id}"), json!({"title": "Other"})),
        ("POST", format!("/{id}/fork"), json!({"turn": 0})),
        ("POST", format!("/{id}/fold"), json!({})),
        ("PATCH", format!("/{id}/settings"), json!({"mode": "agent"})),
        ("DELETE", format!("/{id}"), Value::Null),
    ] {
        let reply = client.api(method, &path, &body).unwrap();
        assert_eq!(reply.status, 503, "{method} {path}: {}", reply.body);
        assert!(reply.header("content-type").unwrap().contains("problem+json") && reply.body.contains("removed or replaced"));
    }
    assert_eq!((client.status("/readyz"), client.status("/api/v1/ready"), client.status("/healthz")), (503, 503, 200));
    thread::sleep(Duration::from_millis(2500));
    let errors = server.kill();
    assert_eq!(errors.matches("NOTHING IS STORED").count(), 1, "{errors}");
    assert!(!store_of(folder.path()).exists(), "nothing is made in the place of what was removed");
}

#[test]
fn a_changed_bit_loses_nothing_that_is_not_reported() {
    if is_child() {
        return;
    }
    let (provider, mut dice) = (provider(), Dice(seed()));
    let folder = TempDir::new().unwrap();
    let (told, _) = busy(Server::start(folder.path(), provider), &mut dice, Duration::from_millis(300));
    let left = store_of(folder.path()).parent().unwrap().to_owned();
    let files: Vec<PathBuf> = [left.clone(), left.join("journals")]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()))
        .filter(|path| path.is_file() && !path.to_string_lossy().ends_with("-shm") && path.metadata().unwrap().len() > 0)
        .collect();
    let mut reported = 0;
    for _ in 0..times(30) {
        let other = TempDir::new().unwrap();
        let state = store_of(other.path()).parent().unwrap().to_owned();
        fs::create_dir_all(state.join("journals")).unwrap();
        let changed = usize::try_from(dice.roll(files.len() as u64)).unwrap();
        for (at, file) in files.iter().enumerate() {
            let mut bytes = fs::read(file).unwrap();
            if at == changed {
                let filled: Vec<usize> = (0..bytes.len()).filter(|byte| bytes[*byte] != 0).collect();
                if let Some(byte) = filled.get(usize::try_from(dice.roll(filled.len().max(1) as u64)).unwrap()) {
                    bytes[*byte] ^= 1 << dice.roll(8);
                }
            }
            fs::write(state.join(file.strip_prefix(&left).unwrap()), bytes).unwrap();
        }
        let faults = Sqlite::open(&store_of(other.path())).map_err(drop).and_then(|store| {
            let found = verify(&store, &mut |_, _| {}).map_err(drop)?.faults;
            Ok((found, lost(&store, &told)))
        });
        match faults {
            Ok((found, lost)) if found.is_empty() => {
                assert_eq!(lost, Vec::<String>::new(), "a bit of {} changed", files[changed].display());
            }
            // It cannot be opened, or `verify` names what is wrong.
            _ => reported += 1,
        }
    }
    assert!(reported > 0);
}

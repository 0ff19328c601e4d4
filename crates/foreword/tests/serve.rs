//! `foreword serve` through the real binary: it says where it is, and ends when the system asks it to.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A server over an empty vault, whose model takes its time.
struct Served {
    child: Child,
    /// What it says, line by line.
    said: Receiver<String>,
    vault: TempDir,
}

fn command(vault: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreword"));
    command.env("FOREWORD_CACHE", vault.path().join(".cache")).env("FOREWORD_STATE", vault.path().join(".state")).env("XDG_CONFIG_HOME", vault.path().join(".config"));
    command.env_remove("FOREWORD_CONFIG").env_remove("FOREWORD_MODELS").env("TZ", "UTC");
    command.current_dir(vault.path()).stdin(Stdio::null());
    command
}

impl Served {
    fn start(more: &[&str]) -> Self {
        let vault = TempDir::new().unwrap();
        let words: Vec<String> = (0..600).map(|number| format!("word{number}")).collect();
        let script = json!({"replies": [{"text": words.join(" "), "delay_ms": 100}]}).to_string();
        fs::write(vault.path().join("script.json"), script).unwrap();
        let mut serve = command(&vault);
        serve.args(["serve", ".", "--port", "0", "--script", "script.json"]).args(more);
        let mut child = serve.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (tell, said) = mpsc::channel();
        std::thread::spawn(move || errors.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line))));
        Self { child, said, vault }
    }

    /// The next line that holds a text.
    fn line(&self, text: &str) -> String {
        let mut others = Vec::new();
        while let Ok(line) = self.said.recv_timeout(Duration::from_mins(1)) {
            if line.contains(text) {
                return line;
            }
            others.push(line);
        }
        panic!("it never said {text:?}: {others:?}")
    }

    /// Where it says that it is, as `address:port`.
    fn address(&self) -> String {
        let line = self.line("Foreword is at http://");
        let (_, rest) = line.split_once("http://").unwrap();
        rest.split('/').next().unwrap().to_owned()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Waits for its end; the code it ends with.
    fn ended(&mut self) -> Option<i32> {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(since.elapsed() < Duration::from_secs(20), "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = command(&self.vault).args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn call(address: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n");
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn when_the_system_asks_it_ends_and_keeps_what_was_said() {
    for name in ["TERM", "INT"] {
        let mut served = Served::start(&[]);
        let address = served.address();
        let (status, session) = call(&address, "POST", "/api/v1/sessions", "{\"mode\": \"chat\"}");
        assert_eq!(status, 201, "{session}");
        let id = session["id"].as_str().unwrap().to_owned();
        assert_eq!(call(&address, "POST", &format!("/api/v1/sessions/{id}/messages"), "{\"words\": \"Count\"}").0, 202);
        // Somebody listens all along.
        let mut listening = TcpStream::connect(&address).unwrap();
        write!(listening, "GET /api/v1/sessions/{id}/events HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
        std::thread::sleep(Duration::from_millis(800));
        served.signal(name);
        let since = Instant::now();
        assert_eq!(served.ended(), Some(0), "{name}");
        assert!(since.elapsed() < Duration::from_secs(9), "{name}: {:?}", since.elapsed());
        let shown = served.json(&["sessions", "show", &id, "--json"]);
        let text = shown["messages"].to_string();
        assert!(text.contains("Count") && text.contains("word0") && !text.contains("word599"), "{name}: {text}");
        // Nobody holds the session any more, and its records are whole.
        assert!(!served.vault.path().join(".foreword/leases").join(format!("{id}.lock")).exists(), "{name}");
        served.json(&["sessions", "rename", &id, "counted", "--json"]);
        assert_eq!(served.json(&["verify", "--json"])["faults"], json!([]), "{name}");
    }
}

#[test]
fn who_asks_twice_does_not_wait() {
    let mut served = Served::start(&[]);
    let address = served.address();
    // A request whose body never comes is waited for.
    let mut open = TcpStream::connect(&address).unwrap();
    let head = format!("POST /api/v1/sessions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n");
    write!(open, "{head}content-length: 99\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    served.signal("TERM");
    std::thread::sleep(Duration::from_millis(300));
    served.signal("TERM");
    assert_eq!(served.ended(), Some(143));
}

#[test]
fn an_address_that_leads_nowhere_is_not_shown() {
    let mut served = Served::start(&["--listen", "0.0.0.0"]);
    let line = served.line("Foreword is at http://");
    assert!(!line.contains("0.0.0.0") && line.contains("/#token="), "{line}");
    let told = served.line("listens on all addresses");
    let port = told.rsplit(' ').next().unwrap().to_owned();
    assert!(line.contains(&format!(":{port}/#token=")), "{line} {told}");
    assert_eq!(call(&format!("127.0.0.1:{port}"), "GET", "/api/v1/health", "").0, 200);
    served.signal("TERM");
    assert_eq!(served.ended(), Some(0));
}

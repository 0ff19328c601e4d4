//! MCP: the official Python client over both transports, the inspector and raw lines.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::{Ended, FOREWORD, World, installed, python, script, succeeded};

#[test]
fn the_python_client_over_stdio() {
    let world = World::new();
    let mut client = world.of(python());
    client.arg(script("mcp_client.py")).arg("stdio").arg(world.vault()).arg(python()).arg(script("record.py")).arg(world.log());
    let ran = client.arg(FOREWORD).arg("mcp").arg(world.vault()).args(["--write", "--offline"]).output().unwrap();
    succeeded(&ran);
    world.check_messages(&["mcp"]);
}

#[test]
fn the_python_client_over_http_needs_a_key() {
    let world = World::new();
    let key = succeeded(&world.foreword().args(["keys", "new"]).output().unwrap());
    let mut server = world.foreword();
    server.arg("mcp").arg(world.vault()).args(["--offline", "--http", "0"]);
    let mut server = Ended(server.stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect(&line).trim_end_matches(';').to_owned();
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
    let status = |origin: &str, key: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let head = format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\n{origin}Authorization: Bearer {key}\r\n");
        let body = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#;
        let about = format!("Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
        write!(stream, "{head}Accept: application/json, text/event-stream\r\n{about}\r\n{body}").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.split(' ').nth(1).unwrap().to_owned()
    };
    let key = key.lines().last().unwrap().trim();
    assert_eq!(status("", "fw-wrong"), "401");
    assert_eq!(status("Origin: https://elsewhere.example\r\n", key), "403");
    let client =
        world.of(python()).arg(script("mcp_client.py")).arg("http").arg(world.vault()).args([url.as_str(), key]).output();
    succeeded(&client.unwrap());
}

/// A client that writes lines.
struct Lines {
    program: Ended,
    answers: std::sync::mpsc::Receiver<Value>,
}

impl Lines {
    fn start(world: &World, arguments: &[&str]) -> Self {
        let mut command = world.foreword();
        command.arg("mcp").arg(world.vault()).args(["--offline"]).args(arguments);
        let mut program = Ended(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let out = BufReader::new(program.0.stdout.take().unwrap());
        let (sender, answers) = std::sync::mpsc::sync_channel(64);
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { program, answers }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.program.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn next(&self) -> Value {
        self.answers.recv_timeout(Duration::from_secs(30)).expect("no answer")
    }

    fn ask(&mut self, id: u64, method: &str, params: &Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }
}

fn hello(version: &str) -> Value {
    json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})
}

#[test]
fn revisions_are_negotiated() {
    let world = World::new();
    for (asked, agreed) in [("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25"), ("1999-01-01", "2025-11-25")] {
        let mut client = Lines::start(&world, &[]);
        assert_eq!(client.ask(1, "initialize", &hello(asked))["result"]["protocolVersion"], agreed, "{asked}");
    }
}

#[test]
fn a_vault_without_an_index_is_searched_at_once() {
    let world = World::new();
    // The limits are for a debug build on a busy machine; `docs/benchmarks.md` has the figures.
    let begun = Instant::now();
    let mut client = Lines::start(&world, &[]);
    client.ask(1, "initialize", &hello("2025-11-25"));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?} until it was open", begun.elapsed());
    client.send(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
    let found = client.ask(2, "tools/call", &json!({"name": "search_notes", "arguments": {"query": "sourdough starter"}}));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?} until the first answer", begun.elapsed());
    let found = &found["result"]["structuredContent"];
    assert_eq!(found["results"][0]["path"], "Kitchen/Sourdough starter.md", "{found}");
    assert!(found["remarks"].to_string().contains("not ready yet"), "{found}");
}

#[test]
fn without_the_flag_nothing_is_written() {
    let world = World::new();
    let mut client = Lines::start(&world, &[]);
    client.ask(1, "initialize", &hello("2025-11-25"));
    client.send(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
    let arguments = json!({"name": "write_note", "arguments": {"path": "New.md", "content": "x"}});
    let refused = client.ask(2, "tools/call", &arguments);
    assert!(refused["error"]["message"].as_str().unwrap().contains("no tool"), "{refused}");
    assert!(!world.vault().join("New.md").exists());
}

#[test]
fn broken_messages_end_nothing() {
    let world = World::new();
    let mut client = Lines::start(&world, &[]);
    client.ask(1, "initialize", &hello("2025-11-25"));
    client.send(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
    let broken = ["{", "[]", "null", r#"{"jsonrpc": "2.0"}"#, r#"{"jsonrpc": "2.0", "id": 1.5, "method": 7}"#, "\u{0}"];
    for line in broken {
        client.send(line);
    }
    client.send(r#"{"jsonrpc": "2.0", "id": 99, "method": "tools/list"}"#);
    let answered = (0..=broken.len()).any(|_| client.next()["id"] == 99);
    assert!(answered, "it no longer answers");
}

#[test]
fn the_inspector() {
    let world = World::new();
    let node = installed("FOREWORD_NPM", "npm").join("node_modules/@modelcontextprotocol/inspector/cli/build/cli.js");
    let inspect = |arguments: &[&str]| {
        let mut inspector = world.of("node");
        inspector.arg(&node).arg("--cli").arg(python()).arg(script("record.py")).arg(world.log());
        let ran = inspector.arg(FOREWORD).arg("mcp").arg(world.vault()).arg("--offline").args(arguments).output().unwrap();
        serde_json::from_str::<Value>(&succeeded(&ran)).unwrap()
    };
    assert_eq!(inspect(&["--method", "tools/list"])["tools"][0]["name"], "search_notes");
    let call = ["--method", "tools/call", "--tool-name", "read_note", "--tool-arg", "path=Bread", "lines=3"];
    assert!(inspect(&call)["content"][0]["text"].as_str().unwrap().starts_with("Kitchen/Bread.md, lines 1 to 3"));
    assert!(!inspect(&["--method", "resources/list"])["resources"].as_array().unwrap().is_empty());
    assert!(!inspect(&["--method", "prompts/list"])["prompts"].as_array().unwrap().is_empty());
    world.check_messages(&["mcp"]);
}

#[test]
fn claude_code_as_setup_configures_it() {
    let world = World::new();
    let home = world.folder.path();
    let mut setup = world.foreword();
    setup.env("HOME", home).env("XDG_CONFIG_HOME", home.join(".config")).arg("setup").arg("--vault").arg(world.vault());
    succeeded(&setup.args(["--clients", "claude-code", "--yes"]).output().unwrap());
    let claude = installed("FOREWORD_NPM", "npm").join("node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs");
    let mut client = world.of(python());
    client.arg(script("claude_code.py")).arg(claude).arg(home).arg(script("record.py")).arg(world.log());
    succeeded(&client.output().unwrap());
    world.check_messages(&["mcp"]);
}

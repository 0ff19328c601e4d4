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
    command
        .env("FOREWORD_CACHE", vault.path().join(".cache"))
        .env("FOREWORD_STATE", vault.path().join(".state"))
        .env("XDG_CONFIG_HOME", vault.path().join(".config"));
    command.env_remove("FOREWORD_CONFIG").env_remove("FOREWORD_MODELS").env("TZ", "UTC");
    command.current_dir(vault.path()).stdin(Stdio::null());
    command
}

impl Served {
    fn start(more: &[&str]) -> Self {
        Self::over(TempDir::new().unwrap(), more)
    }

    /// Starts it once more, over the same vault.
    fn again(&mut self, more: &[&str]) -> Self {
        Self::over(std::mem::replace(&mut self.vault, TempDir::new().unwrap()), more)
    }

    fn over(vault: TempDir, more: &[&str]) -> Self {
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

    /// The server's token, as our own program reads it.
    fn token(&self) -> String {
        let output = command(&self.vault).args(["keys", "token"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
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

fn call(address: &str, token: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nx-api-key: {token}\r\ncontent-type: application/json\r\n"
    );
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
        let token = served.token();
        let (status, session) = call(&address, &token, "POST", "/api/v1/sessions", "{\"mode\": \"chat\"}");
        assert_eq!(status, 201, "{session}");
        let id = session["id"].as_str().unwrap().to_owned();
        assert_eq!(call(&address, &token, "POST", &format!("/api/v1/sessions/{id}/messages"), "{\"words\": \"Count\"}").0, 202);
        // Somebody listens all along.
        let mut listening = TcpStream::connect(&address).unwrap();
        write!(listening, "GET /api/v1/sessions/{id}/events HTTP/1.1\r\nhost: {address}\r\nx-api-key: {token}\r\n\r\n").unwrap();
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
    let token = served.token();
    let head =
        format!("POST /api/v1/sessions HTTP/1.1\r\nhost: {address}\r\nx-api-key: {token}\r\ncontent-type: application/json\r\n");
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
    assert!(!line.contains("0.0.0.0") && line.contains("/#code="), "{line}");
    let told = served.line("listens on all addresses");
    let port = told.rsplit(' ').next().unwrap().to_owned();
    assert!(line.contains(&format!(":{port}/#code=")), "{line} {told}");
    assert_eq!(call(&format!("127.0.0.1:{port}"), "", "GET", "/api/v1/health", "").0, 200);
    served.signal("TERM");
    assert_eq!(served.ended(), Some(0));
}

/// Runs `foreword keys` with these words; what it prints.
fn keys(served: &Served, words: &[&str]) -> String {
    let output = command(&served.vault).arg("keys").args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn on_this_machine_too_only_who_has_a_key_comes_in() {
    use std::os::unix::fs::PermissionsExt as _;
    let served = Served::start(&[]);
    let line = served.line("Foreword is at http://");
    let (_, page) = line.split_once("http://").unwrap();
    let (address, code) = page.split_once("/#code=").unwrap();
    let address = address.to_owned();
    let login = |code: &str| call(&address, "", "POST", "/api/v1/login", &json!({"code": code}).to_string());
    // Another user of this machine.
    let (status, refused) = call(&address, "", "GET", "/api/v1/sessions", "");
    assert!(status == 401 && refused["detail"].as_str().unwrap().contains("foreword keys url"), "{refused}");
    // The address works once; a new one can be had.
    let (status, opened) = login(code.trim());
    assert_eq!(status, 200, "{opened}");
    assert_eq!(login(code.trim()).0, 401);
    let (_, port) = address.rsplit_once(':').unwrap();
    let url = keys(&served, &["url", "--port", port]);
    assert_eq!(login(url.split_once("#code=").unwrap().1).0, 200);
    let page_key = opened["key"].as_str().unwrap().to_owned();
    assert_eq!(call(&address, &page_key, "GET", "/api/v1/sessions", "").0, 200);
    // A key for the gateway, from then on and until it is deleted.
    let key = keys(&served, &["new", "--name", "laptop"]);
    let ask = json!({"model": "foreword", "messages": [{"role": "user", "content": "Hi"}]}).to_string();
    let (status, models) = call(&address, &key, "GET", "/v1/models", "");
    assert!(status == 200 && key.starts_with("fw-"), "{models}");
    assert_eq!(call(&address, &key, "GET", "/api/v1/sessions", "").0, 401);
    assert!(keys(&served, &["list"]).starts_with("laptop"));
    keys(&served, &["delete", "laptop"]);
    let (status, refused) = call(&address, &key, "POST", "/v1/chat/completions", &ask);
    assert!(status == 401 && refused["error"]["message"].as_str().unwrap().contains("foreword keys new"), "{refused}");
    // All of it is outside of the vault's own folder, and nobody else can read it.
    assert!(!served.vault.path().join(".foreword/server-token").exists());
    let state = served.vault.path().join(".state");
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    for entry in fs::read_dir(&state).unwrap().flatten() {
        let found = entry.metadata().unwrap();
        let expected = if found.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(found.permissions().mode() & 0o777, expected, "{entry:?}");
    }
}

#[test]
fn a_page_stays_open_after_a_restart_until_there_is_a_new_token() {
    let mut served = Served::start(&[]);
    let line = served.line("Foreword is at http://");
    let (address, code) = line.split_once("http://").unwrap().1.split_once("/#code=").unwrap();
    let (_, opened) = call(address, "", "POST", "/api/v1/login", &json!({"code": code.trim()}).to_string());
    let key = opened["key"].as_str().unwrap().to_owned();
    served.signal("TERM");
    served.ended();
    for (more, status) in [(&[][..], 200), (&["--new-token"][..], 401), (&["--no-auth"][..], 200)] {
        served = served.again(more);
        let address = served.address();
        assert_eq!(call(&address, &key, "GET", "/api/v1/sessions", "").0, status, "{more:?}");
        served.signal("TERM");
        served.ended();
    }
}

#[test]
fn no_auth_is_said_and_only_on_this_machine() {
    let served = Served::start(&["--no-auth"]);
    assert!(served.line("--no-auth: every user").contains("read the notes"));
    let address = served.address();
    assert_eq!(call(&address, "", "GET", "/api/v1/sessions", "").0, 200);
    let vault = TempDir::new().unwrap();
    let output = command(&vault).args(["serve", ".", "--no-auth", "--listen", "0.0.0.0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be used with"));
}

/// A vault with an agent and a project.
fn furnished() -> TempDir {
    let vault = TempDir::new().unwrap();
    let files = [
        ("Bread.md", "Flour, water and salt. See [[Starter]]."),
        ("Starter.md", "Feed it every day."),
        ("Foreword/Agents/cook/prompt.md", "You are a cook.\n"),
        ("Foreword/Projects/Bakery.md", "---\ncontext: ['[[Starter]]']\n---\nBe exact about weights."),
    ];
    for (path, text) in files {
        let path = vault.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    vault
}

#[test]
fn a_session_begins_in_the_same_way_in_the_program_and_over_the_api() {
    let served = Served::over(furnished(), &[]);
    let (address, token) = (served.address(), served.token());
    let check = |words: &str, flags: &[&str], first: Value, expect: &[&str]| {
        let mut arguments = vec!["ask", ".", words, "--dry-run", "--json", "--script", "script.json"];
        arguments.extend(flags);
        let program = served.json(&arguments);
        let mut body = first;
        body["words"] = json!(words);
        let (status, api) = call(&address, &token, "POST", "/api/v1/preview", &body.to_string());
        assert_eq!(status, 200, "{api}");
        for field in [
            "model",
            "layout",
            "layers",
            "tokens",
            "budget",
            "combined_sha256",
            "context",
            "left_out",
            "notes",
            "tools",
            "problems",
        ] {
            assert_eq!(program[field], api[field], "{field} of {arguments:?}");
        }
        let all = program.to_string();
        for part in expect {
            assert!(all.contains(part), "{part} in {all}");
        }
    };
    let model = ["--model", "claude-sonnet-5"];
    let with = |more: &[&'static str]| [&model[..], more].concat();
    check("Why?", &model, json!({"session": {"model": "claude-sonnet-5"}}), &["\"layout\":\"log\"", "localSearch"]);
    check("And [[Bread]]? [[[[Bread]]", &model, json!({"session": {"model": "claude-sonnet-5"}}), &["note:Bread.md"]);
    check(
        "Why?",
        &with(&["--attach", "Bread", "--active", "Starter.md"]),
        json!({"attach": ["Bread"], "active_note": "Starter.md", "session": {"model": "claude-sonnet-5"}}),
        &["note:Bread.md", "note:Starter.md"],
    );
    check(
        "Why?",
        &with(&["--agent", "cook", "--project", "Bakery", "--layout", "library"]),
        json!({"session": {"model": "claude-sonnet-5", "agent": "cook", "project": "Bakery", "layout": "library"}}),
        &["\"layout\":\"library\""],
    );
    check(
        "How do I feed it?",
        &with(&["--mode", "qa", "--history", "managed"]),
        json!({"session": {"model": "claude-sonnet-5", "mode": "qa", "history": "managed"}}),
        &["note:Starter.md"],
    );
    check(
        "Bake.",
        &with(&["--mode", "agent", "--set", "budget.prompt_tokens=9000"]),
        json!({"session": {"model": "claude-sonnet-5", "mode": "agent", "settings": {"budget": {"prompt_tokens": 9000}}}}),
        &["task_complete", "9000"],
    );
    check(
        "Why?",
        &with(&["--mode", "plan"]),
        json!({"session": {"model": "claude-sonnet-5", "mode": "plan"}}),
        &["the model is first asked for a plan"],
    );
}

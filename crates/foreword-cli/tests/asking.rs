//! Asking through the real binary: what would be sent, who answers, what is configured, what doctor finds, and the chat's commands.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A vault with some notes, an agent and a script; nothing of the user's own is seen.
struct Place {
    vault: TempDir,
    other: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { vault: TempDir::new().unwrap(), other: TempDir::new().unwrap() };
        place.write("Kitchen/Bread.md", "---\ntags: [baking]\n---\n# Bread\n\nThe starter should double within four hours.\n");
        place.write("Garden.md", "# Garden\n\nPrune in March.\n");
        place.write("Foreword/Agents/cook/prompt.md", "You are a cook.\n");
        place.write("Foreword/Agents/cook/rules/tone.md", "Be kind.\n");
        let replies = json!([{"text": "Because of the **starter**[^1]."}, {"text": "In March."}]);
        fs::write(place.script(), json!({"replies": replies}).to_string()).unwrap();
        place
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.vault.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn script(&self) -> String {
        self.other.path().join("script.json").to_str().unwrap().to_owned()
    }

    fn config(&self, text: &str) {
        let folder = self.other.path().join("config/foreword");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.toml"), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreword"));
        command.args(arguments).current_dir(self.vault.path()).stdin(Stdio::null());
        command
            .env("FOREWORD_CACHE", self.other.path().join("cache"))
            .env("FOREWORD_STATE", self.other.path().join("state"))
            .env("XDG_CONFIG_HOME", self.other.path().join("config"));
        // What is not here is not fetched.
        command.env("PIP_NO_INDEX", "1");
        for variable in ["FOREWORD_MODELS", "FOREWORD_CONFIG", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"] {
            command.env_remove(variable);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn out(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.out(arguments)).unwrap()
    }

    fn error(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        errors
    }

    /// What a chat prints when these lines are typed.
    fn chat(&self, lines: &str, more: &[&str]) -> String {
        let script = self.script();
        let mut command = self.command(&[&["chat", "--script", &script], more].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].map(|part| String::from_utf8(part).unwrap()).concat();
        assert!(output.status.success(), "{text}");
        text
    }

    fn has(&self, name: &str) -> bool {
        self.vault.path().join(name).exists()
    }
}

fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn a_dry_run_shows_the_request_and_leaves_nothing_behind() {
    let place = Place::new();
    let dry = ["ask", ".", "Why was it flat?", "--attach", "Bread", "--model", "claude-sonnet-5", "--dry-run"];
    let text = place.out(&dry);
    holds(
        &text,
        &["not sent: a new session", "claude-sonnet-5 (anthropic), log layout", "note:Kitchen/Bread.md", "manual", "full"],
    );
    holds(&text, &["L1_SYSTEM", "expected from the cache: 0 of", "for the prompt", "wire sha256"]);
    let preview = place.json(&[&dry[..], &["--json"]].concat());
    let items: Vec<&str> = preview["context"].as_array().unwrap().iter().filter_map(|entry| entry["item"].as_str()).collect();
    assert!(items.contains(&"note:Kitchen/Bread.md") && items.contains(&"tool:foreword/localSearch"), "{items:?}");
    assert!(preview["expected"]["cost"].as_f64().unwrap() > 0.0 && preview["usage"].is_null(), "{preview}");
    let wire: Value = serde_json::from_str(&place.out(&[&dry[..], &["--wire"]].concat())).unwrap();
    assert_eq!(wire["model"], "claude-sonnet-5");
    assert!(!place.has(".foreword") && !place.has("Foreword/Chats"));
    // The model that comes with Foreword is not fetched for it.
    holds(&place.out(&["ask", ".", "Why?", "--dry-run"]), &["smollm2-135m-instruct", "chars4"]);
    assert!(!place.other.path().join("cache/models").exists());
}

#[test]
fn a_dry_run_is_what_is_sent_next() {
    let place = Place::new();
    let script = place.script();
    place.out(&["ask", ".", "Why?", "--attach", "Bread", "--model", "claude-sonnet-5", "--agent", "cook", "--script", &script]);
    let before = place.out(&["sessions", "show", "last"]);
    let next = ["ask", ".", "And then? @rule:tone", "--attach", "Garden", "--session", "last"];
    let preview = place.json(&[&next[..], &["--dry-run", "--json"]].concat());
    holds(&place.out(&[&next[..], &["--dry-run"]].concat()), &["not sent: turn 2 of session"]);
    assert_eq!(place.out(&["sessions", "show", "last"]), before);
    place.out(&[&next[..], &["--script", &script]].concat());
    let sent = place.json(&["inspect", "last", "--json"]);
    assert_eq!(sent["wire_sha256"], preview["wire_sha256"]);
    let items: Vec<&str> = sent["context"].as_array().unwrap().iter().map(|entry| entry["item"].as_str().unwrap()).collect();
    assert!(items.contains(&"rule:tone"), "{items:?}");
    holds(&place.out(&["sessions", "show", "last"]), &["And then? @rule:tone\n"]);
}

#[test]
fn where_no_terminal_is_the_answer_is_as_it_was_said() {
    let place = Place::new();
    let output = place.run(&["ask", ".", "Why?", "--mode", "chat", "--script", &place.script()]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "Because of the **starter**[^1].\n");
    let errors = String::from_utf8(output.stderr).unwrap();
    holds(&errors, &["turn 1: ", " of 6,144 tokens, 0 % from the cache", "first token after 0."]);
    let output = place.run(&["ask", ".", "And?", "--session", "last", "--script", &place.script()]);
    holds(&String::from_utf8(output.stderr).unwrap(), &["turn 2: ", " tokens were read from the cache\n"]);
}

/// The head and the body of each request.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// A server that answers every question with one word, and what it was asked.
fn server() -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut socket = stream.unwrap();
            let mut incoming = BufReader::new(socket.try_clone().unwrap());
            let mut start = String::new();
            while incoming.read_line(&mut start).unwrap() > 2 {}
            let length = start.to_lowercase().split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            incoming.read_exact(&mut body).unwrap();
            seen.lock().unwrap().push((start, String::from_utf8(body).unwrap()));
            let chunk = json!({"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}]});
            let answer = format!("data: {chunk}\n\ndata: [DONE]\n\n");
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
            socket.write_all(format!("{head}content-length: {}\r\n\r\n{answer}", answer.len()).as_bytes()).unwrap();
        }
    });
    (address, asked)
}

#[test]
fn a_configured_server_takes_any_name_and_gets_its_key() {
    let place = Place::new();
    let (address, asked) = server();
    place.config(&format!(
        "model = 'box/some-model:7b'\nlayout = 'library'\n[providers.box]\nbase_url = '{address}'\nkey = {{ command = 'echo s3cret' }}\n[models.'box/some-model:7b']\nwindow = 20000\n"
    ));
    let first = place.run(&["ask", ".", "Is it?", "--json"]);
    let errors = String::from_utf8(first.stderr).unwrap();
    let answer: Value = serde_json::from_slice(&first.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    assert_eq!(answer["text"], "Yes.");
    assert!(!errors.contains("model table") && !errors.contains("s3cret"), "{errors}");
    place.out(&["ask", ".", "Really?", "--session", "last"]);
    // A name that nobody knows, and an address on the command line.
    holds(
        &String::from_utf8(place.run(&["ask", ".", "Hm?", "--model", "x-1", "--base-url", &address]).stderr).unwrap(),
        &["x-1 is not in the model table"],
    );
    let asked = asked.lock().unwrap();
    let models: Vec<String> = asked
        .iter()
        .map(|(_, body)| serde_json::from_str::<Value>(body).unwrap()["model"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(models, ["some-model:7b", "some-model:7b", "x-1"]);
    let keys: Vec<bool> = asked.iter().map(|(head, _)| head.to_lowercase().contains("authorization: bearer s3cret")).collect();
    assert_eq!(keys, [true, true, false]);
    let sent = place.json(&["inspect", "last", "--json"]);
    assert_eq!((&sent["model"], &sent["layout"]), (&json!("x-1"), &json!("library")));
    let store = fs::read(place.vault.path().join(".foreword/foreword.db")).unwrap();
    assert!(!store.windows(6).any(|window| window == b"s3cret"));
}

#[test]
fn what_is_wrong_with_the_configuration_is_said_with_its_place() {
    let place = Place::new();
    place.config("model = 'x'\n\nlayot = 'log'\n");
    let error = place.error(&["ask", ".", "Why?"], 2);
    holds(&error, &["config.toml: line 3: unknown key `layot` (did you mean `layout`?)"]);
    let mut command = place.command(&["models"]);
    let output = command.env("FOREWORD_CONFIG", place.other.path().join("none.toml")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    holds(&String::from_utf8(output.stderr).unwrap(), &["Failed to read ", "none.toml"]);
    place.config("");
    holds(&place.error(&["ask", ".", "Why?", "--model", "gpt-5.44"], 2), &["close names: gpt-5.4", "`ollama/gpt-5.44`"]);
}

#[test]
fn models_that_can_be_used_are_listed() {
    let place = Place::new();
    place.config("model = 'ollama/qwen3:8b'\n[providers.ollama]\nmodels = ['qwen3:8b']\n");
    let text = place.out(&["models"]);
    holds(
        &text,
        &["all-MiniLM-L6-v2", "not downloaded", "ollama/qwen3:8b*", "smollm2-135m-instruct", "the last prompt", "--all lists"],
    );
    assert!(!text.contains("claude-opus-5"), "{text}");
    let mut command = place.command(&["models", "--json"]);
    let output = command.env("ANTHROPIC_API_KEY", "s3cret").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {text}"));
    assert_eq!(row("claude-opus-5")["prices"]["input"], 5.0);
    assert_eq!(row("claude-opus-5")["cache"]["regime"], "marks");
    assert_eq!(row("ollama/qwen3:8b")["default"], true);
    assert!(rows.iter().all(|row| row["name"] != "gpt-5.4") && !text.contains("s3cret"));
    holds(
        &place.out(&["models", "--all"]),
        &["gpt-5.4", "2.5 / 15", "every 128 tokens, from 1,024 tokens, 30 min, read 0.25", "at marks, from 512 tokens, 5 min"],
    );
}

fn checks(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn check<'a>(found: &'a [Value], area: &str, name: &str) -> &'a Value {
    let mut fits = found.iter().filter(|check| check["area"] == area && check["name"].as_str().unwrap().contains(name));
    fits.next().unwrap_or_else(|| panic!("{area} {name}: {found:#?}"))
}

#[test]
fn doctor_names_what_is_broken_and_what_to_do() {
    let place = Place::new();
    let healthy = place.run(&["doctor", "--offline", "--json"]);
    let found = checks(&healthy);
    assert_eq!(healthy.status.code(), Some(0), "{found:#?}");
    for (area, verdict) in
        [("config", "ok"), ("cache", "ok"), ("weights", "warn"), ("model", "warn"), ("vault", "ok"), ("store", "ok")]
    {
        assert_eq!(check(&found, area, "")["verdict"], verdict, "{area}");
    }
    let (address, _) = server();
    place.config(&format!(
        "[providers.there]\nbase_url = '{address}'\n[providers.gone]\nbase_url = 'http://127.0.0.1:9/v1'\n[providers.keyless]\nbase_url = '{address}'\nkey = {{ env = 'NOBODY_SETS_THIS' }}\n"
    ));
    place.write(
        "Foreword/Agents/cook/mcp.json",
        r#"{"mcpServers": {"sh": {"command": "sh"}, "none": {"command": "no-such-program-here"}}}"#,
    );
    place.write("Broken.md", "---\na: [1\n---\nx\n");
    place.write(".foreword/foreword.db", "this is no store");
    // The folder did not come from this user, so it is looked at only once the user trusts it.
    assert_eq!(check(&checks(&place.run(&["doctor", "--offline", "--json"])), "store", "foreword.db")["verdict"], "warn");
    place.out(&["trust", ".", "--yes"]);
    let models = place.other.path().join("cache/models/SmolLM2-135M-Instruct");
    fs::create_dir_all(&models).unwrap();
    fs::File::create(models.join("SmolLM2-135M-Instruct.Q4_1.gguf")).unwrap().set_len(98_362_432).unwrap();
    let broken = place.run(&["doctor", "--json"]);
    assert_eq!(broken.status.code(), Some(1));
    let found = checks(&broken);
    for (area, name, verdict) in [
        ("provider", "there", "ok"),
        ("provider", "gone", "fail"),
        ("provider", "keyless", "fail"),
        ("server", "cook/sh", "ok"),
        ("server", "cook/none", "fail"),
        ("vault", "Broken.md", "warn"),
        ("weights", "SmolLM2", "fail"),
        ("store", "foreword.db", "fail"),
    ] {
        let check = check(&found, area, name);
        assert_eq!(check["verdict"], verdict, "{check}");
        assert_eq!(check["advice"].is_null(), verdict == "ok", "{check}");
    }
    let text = String::from_utf8(place.run(&["doctor", "--offline"]).stdout).unwrap();
    holds(&text, &["FAIL server    cook/none: program no-such-program-here not found", "→ install it"]);
    place.config("nonsense");
    assert_eq!(place.run(&["doctor", "--offline"]).status.code(), Some(1));
}

#[test]
fn a_chat_takes_commands() {
    let place = Place::new();
    let lines = "/help\n/context\n/context next Why [[Bread]]?\nWhy [[Bread]]? @rule:tone\n/context\n/cost\n/save My bread\n/nonsense\n/quit\n";
    let text = place.chat(lines, &["--agent", "cook"]);
    holds(&text, &["Context", "/context next WORDS", "nothing was sent yet", "not sent: a new session"]);
    holds(&text, &["model ", "replies are read from ", "Because of the **starter**[^1]."]);
    holds(&text, &["note:Kitchen/Bread.md", "rule:tone", "so far, $", "unknown command /nonsense", "and in Foreword/Chats/"]);
    holds(&place.out(&["sessions"]), &["My bread"]);
    let chats = fs::read_dir(place.vault.path().join("Foreword/Chats")).unwrap();
    let files: Vec<String> = chats.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    assert_eq!(files.len(), 1, "the preview left none");
    holds(&files[0], &["My bread", "Why [[Bread]]?"]);
    assert!(Path::new(&place.vault.path().join(".foreword/history")).is_file());
}

#[test]
fn another_model_answers_from_here_on() {
    let place = Place::new();
    let text = place
        .chat("Why [[Bread]]?\n/model\n/model gpt-5.44\n/model claude-sonnet-5\nAnd then?\n/quit\n", &["--model", "gpt-5.4"]);
    holds(&text, &["model gpt-5.4, ", "close names: gpt-5.4", "model claude-sonnet-5, ", "In March."]);
    let request = |at: &str| place.json(&["inspect", at, "--json"]);
    assert_eq!((&request("last@1")["model"], &request("last@2")["model"]), (&json!("gpt-5.4"), &json!("claude-sonnet-5")));
    assert_eq!(request("last@2")["began"], "model_changed");
    place.out(&["ask", ".", "Sure?", "--session", "last", "--model", "gemini-3.8-flash", "--script", &place.script()]);
    assert_eq!((&request("last")["model"], &request("last")["provider"]), (&json!("gemini-3.8-flash"), &json!("gemini")));
    assert_eq!(place.json(&["verify", "--json"])["faults"], json!([]));
}

/// The log names requests with their figures, in JSON where that is asked for, and holds neither words nor keys.
#[test]
fn the_log_tells_of_requests_and_holds_no_content() {
    let place = Place::new();
    let script = place.script();
    let ask = ["ask", ".", "Say xyzzy", "--attach", "Kitchen/Bread", "--model", "claude-sonnet-5", "--script", &script];
    let quiet = String::from_utf8(place.run(&ask).stderr).unwrap();
    assert!(!quiet.contains("answered"), "{quiet}");
    let mut command = place.command(&[&ask[..], &["-vv", "--log-format", "json"]].concat());
    let output = command.env("ANTHROPIC_API_KEY", "sk-ant-hidden").output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<Value> = errors.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let answered = lines.iter().find(|line| line["fields"]["message"] == "answered").expect(&errors);
    assert_eq!(answered["level"], "INFO");
    assert!(answered["fields"]["session"].is_string() && answered["fields"]["read"].is_u64(), "{answered}");
    for hidden in ["xyzzy", "should double", "sk-ant-hidden"] {
        assert!(!errors.contains(hidden), "{hidden} in {errors}");
    }
}

//! Going on with a session through the real binary: the same server, notes and rules as they are now, plans that rest, forks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../foreword-models/tests/weights/mod.rs"]
mod test_weights;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A vault and a home of its own.
struct World {
    vault: TempDir,
    home: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { vault: TempDir::new().unwrap(), home: TempDir::new().unwrap() };
        world.write("Bread.md", "# Bread\n\nBake for forty minutes.\n");
        world.write("Garden.md", "# Garden\n\nPrune in March.\n");
        world.write("Foreword/Agents/cook/prompt.md", "You are a cook.\n");
        world.write("Foreword/Agents/cook/rules/tone.md", "Answer in French.\n");
        world.write("Foreword/Projects/Baking.md", "---\ncontext: [\"[[Garden]]\"]\n---\nOnly rye flour.\n");
        world
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.vault.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn config(&self, text: &str) {
        let folder = self.home.path().join("config/foreword");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.toml"), text).unwrap();
    }

    /// A file with replies, to be played.
    fn script(&self, replies: &Value) -> String {
        let file = self.home.path().join("script.json");
        fs::write(&file, json!({"replies": replies}).to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreword"));
        command.args(arguments).current_dir(self.vault.path()).stdin(Stdio::null());
        command
            .env("FOREWORD_CACHE", self.home.path().join("cache"))
            .env("FOREWORD_STATE", self.home.path().join("state"))
            .env("XDG_CONFIG_HOME", self.home.path().join("config"))
            .env("OPENAI_API_KEY", "k")
            .env("PIP_NO_INDEX", "1");
        for variable in ["FOREWORD_MODELS", "FOREWORD_CONFIG", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"] {
            command.env_remove(variable);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it prints, on both outputs.
    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = [output.stdout, output.stderr].map(|part| String::from_utf8(part).unwrap()).concat();
        assert!(output.status.success(), "{arguments:?}: {text}");
        text
    }

    #[track_caller]
    fn error(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?}: {text}");
        text
    }

    /// The body of the last request.
    fn wire(&self) -> String {
        String::from_utf8(self.run(&["inspect", "last", "--wire"]).stdout).unwrap()
    }

    /// The lines of a chat, typed one after the other.
    fn chat(&self, lines: &str, more: &[&str]) -> String {
        let mut command = self.command(&[&["chat"], more].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].map(|part| String::from_utf8(part).unwrap()).concat();
        assert!(output.status.success(), "{text}");
        text
    }
}

/// A server that answers every request with a word. It counts them.
fn server() -> (String, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let count = Arc::new(Mutex::new(0));
    let asked = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut socket = stream.unwrap();
            let mut incoming = BufReader::new(socket.try_clone().unwrap());
            let mut start = String::new();
            while incoming.read_line(&mut start).unwrap() > 2 {}
            let length = start.to_lowercase().split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            incoming.read_exact(&mut body).unwrap();
            *asked.lock().unwrap() += 1;
            let chunk = json!({"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}]});
            let answer = format!("data: {chunk}\n\ndata: [DONE]\n\n");
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
            socket.write_all(format!("{head}content-length: {}\r\n\r\n{answer}", answer.len()).as_bytes()).unwrap();
        }
    });
    (address, count)
}

fn take(count: &Mutex<usize>) -> usize {
    std::mem::take(&mut *count.lock().unwrap())
}

#[test]
fn a_session_goes_on_at_the_server_it_began_at() {
    let world = World::new();
    let ((own, at_own), (configured, at_configured)) = (server(), server());
    world.config(&format!("[providers.box]\nbase_url = '{configured}'\n"));
    // A name that only this server knows, and one that the configuration knows elsewhere.
    for model in ["my-local", "box/x:7b"] {
        world.done(&["ask", ".", "one", "--model", model, "--base-url", &own, "--window", "20000", "--mode", "chat"]);
        world.done(&["ask", ".", "two", "--session", "last"]);
        world.done(&["sessions", "fork", "last"]);
        world.done(&["ask", ".", "three", "--session", "last"]);
        world.done(&["sessions", "regenerate", "last"]);
        assert_eq!((take(&at_own), take(&at_configured)), (4, 0), "{model}");
    }
    // Another model does not take it elsewhere in silence.
    let asked = world.error(&["ask", ".", "four", "--session", "last", "--model", "gpt-5.4"]);
    assert!(asked.contains(&format!("went to {own}")) && asked.contains("--base-url"), "{asked}");
    let chat = world.chat("/model gpt-5.4\n", &["--session", "last"]);
    assert!(chat.contains(&format!("went to {own}")), "{chat}");
    // The address that is named now counts.
    world.done(&["ask", ".", "five", "--session", "last", "--base-url", &configured]);
    world.done(&["ask", ".", "six", "--session", "last"]);
    assert_eq!((take(&at_own), take(&at_configured)), (0, 2));
}

#[test]
fn a_session_asks_before_it_follows_a_changed_configuration() {
    let world = World::new();
    let ((old, at_old), (new, at_new)) = (server(), server());
    let configured =
        |address: &str| world.config(&format!("[providers.box]\nbase_url = '{address}'\n[models.'box/x']\nwindow = 20000\n"));
    configured(&old);
    world.done(&["ask", ".", "one", "--model", "box/x", "--mode", "chat"]);
    configured(&new);
    let asked = world.error(&["ask", ".", "two", "--session", "last"]);
    assert!(asked.contains(&format!("went to {old}")) && asked.contains(&format!("configured at {new}")), "{asked}");
    assert_eq!((take(&at_old), take(&at_new)), (1, 0));
    world.done(&["ask", ".", "two", "--session", "last", "--base-url", &new]);
    assert_eq!((take(&at_old), take(&at_new)), (0, 1));
    // A session from elsewhere cannot send this user's words to an address that the user never named.
    let file = world.home.path().join("session.json");
    fs::write(&file, world.run(&["export", "last"]).stdout).unwrap();
    let other = World::new();
    other.done(&["import", file.to_str().unwrap(), "--vault", "."]);
    let asked = other.error(&["ask", ".", "three", "--session", "last"]);
    assert!(asked.contains(&format!("went to {new}")), "{asked}");
}

#[test]
fn notes_that_changed_are_sent_again() {
    for layout in ["log", "library"] {
        let world = World::new();
        let script = world.script(&json!([{"text": "Yes."}]));
        let ask = |words: &str, more: &[&str]| world.done(&[&["ask", ".", words, "--script", &script], more].concat());
        let begin = ["--layout", layout, "--model", "claude-sonnet-5", "--attach", "Bread", "--attach", "Garden"];
        ask("one", &begin);
        ask("two", &["--session", "last"]);
        world.write("Bread.md", "# Bread\n\nBake for fifty minutes.\n");
        let told = ask("three", &["--session", "last", "--frozen"]);
        assert!(!told.contains("changed") && !world.wire().contains("fifty"), "{layout}: {told}");
        let told = ask("four", &["--session", "last"]);
        assert!(told.contains("Bread.md changed since it was sent") && world.wire().contains("fifty"), "{layout}: {told}");
        let told = ask("five", &["--session", "last"]);
        assert!(!told.contains("changed since"), "{layout}: {told}");
        fs::remove_file(world.vault.path().join("Garden.md")).unwrap();
        let told = ask("six", &["--session", "last"]);
        assert!(told.contains("Garden.md is no longer in the vault"), "{layout}: {told}");
        assert!(world.wire().contains("No longer in the vault"), "{layout}");
        let told = ask("seven", &["--session", "last"]);
        assert!(!told.contains("no longer in the vault"), "{layout}: {told}");
        assert!(world.done(&["inspect", "last@6"]).contains("no longer in the vault"), "{layout}");
        assert!(world.done(&["verify"]).contains("no errors"), "{layout}");
    }
}

#[test]
fn rules_and_projects_that_changed_hold_from_the_next_question_on() {
    let world = World::new();
    let script = world.script(&json!([{"text": "Yes."}]));
    let ask = |words: &str, more: &[&str]| world.done(&[&["ask", ".", words, "--script", &script], more].concat());
    ask("one @rule:tone", &["--model", "claude-sonnet-5", "--agent", "cook", "--project", "Baking"]);
    assert!(world.wire().contains("French") && world.wire().contains("Only rye") && world.wire().contains("Prune in March"));
    let told = ask("two", &["--session", "last"]);
    assert!(!told.contains("changed"), "{told}");
    world.write("Foreword/Agents/cook/rules/tone.md", "Answer in German.\n");
    world.write("Garden.md", "# Garden\n\nPrune in April.\n");
    let told = ask("three", &["--session", "last"]);
    assert!(told.contains("rule:tone changed") && told.contains("the project Baking changed"), "{told}");
    assert!(world.wire().contains("German") && world.wire().contains("Prune in April"), "{}", world.wire());
    let told = ask("four", &["--session", "last"]);
    assert!(!told.contains("changed"), "{told}");
    assert!(world.done(&["verify"]).contains("no errors"));
}

#[test]
fn a_plan_rests_outside_of_agent_mode_and_can_be_cancelled() {
    let world = World::new();
    let plan = json!({"calls": [{"id": "p", "name": "plan", "arguments": {"steps": ["Read Bread", "Read Garden"]}}]});
    let words = vec![json!({"text": "Yes."}); 20];
    let script =
        world.script(&json!([&[plan, json!({"text": "Reading."}), json!({"text": "Still reading."})], &words[..]].concat()));
    let ask = |words: &str, more: &[&str]| world.done(&[&["ask", ".", words, "--script", &script], more].concat());
    ask("Work", &["--mode", "agent", "--model", "claude-sonnet-5"]);
    assert!(world.wire().contains("[Step 1/2]"));
    let steps = world.wire().matches("[Step 1/2]").count();
    for mode in ["chat", "qa"] {
        ask("Something else", &["--session", "last", "--mode", mode]);
        assert_eq!(world.wire().matches("[Step 1/2]").count(), steps, "{mode}: {}", world.wire());
    }
    let shown = world.chat("/plan\n/plan cancel\n/plan\n", &["--session", "last", "--script", &script]);
    for part in ["›  1  Read Bread", "step 1 of 2", "the plan is cancelled", "there is no plan at work"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    ask("Go on", &["--session", "last", "--mode", "agent"]);
    assert_eq!(world.wire().matches("[Step 1/2]").count(), steps, "{}", world.wire());
    assert!(world.done(&["verify"]).contains("no errors"));
}

#[test]
fn a_fork_has_the_model_and_the_settings_of_its_last_turn() {
    let world = World::new();
    let script = world.script(&json!([{"text": "Yes."}]));
    let ask = |words: &str, more: &[&str]| world.done(&[&["ask", ".", words, "--script", &script], more].concat());
    ask("one", &["--model", "claude-sonnet-5", "--mode", "chat"]);
    ask("two", &["--session", "last", "--model", "gpt-5.4", "--mode", "qa", "--set", "budget.tool_output_chars=4000"]);
    world.done(&["sessions", "fork", "last@1"]);
    ask("three", &["--session", "last"]);
    let request: Value = serde_json::from_slice(&world.run(&["inspect", "last", "--json"]).stdout).unwrap();
    assert_eq!(request["model"], "claude-sonnet-5", "{request}");
    assert!(world.done(&["verify"]).contains("no errors"));
}

#[test]
fn what_was_set_holds_for_a_turn_that_is_said_again() {
    let world = World::new();
    let script = world.script(&json!([{"text": "Yes."}]));
    world.done(&["ask", ".", "one", "--script", &script, "--model", "claude-sonnet-5", "--mode", "chat"]);
    world.chat("/model gpt-5.4\n/mode qa\n", &["--session", "last", "--script", &script]);
    world.done(&["sessions", "regenerate", "last", "--script", &script]);
    let request: Value = serde_json::from_slice(&world.run(&["inspect", "last", "--json"]).stdout).unwrap();
    assert_eq!(request["model"], "gpt-5.4", "{request}");
    assert!(world.done(&["verify"]).contains("no errors"));
}

/// The embedded model counts with its own tokenizer as soon as its weights are here.
#[test]
fn chats_are_imported_whether_the_weights_are_here_or_not() {
    let Some(models) = test_weights::test_models() else { return };
    let chat = "---\nepoch: 1695513480000\n---\n\n**user**: Why was it flat?\n[Timestamp: 2024/09/23 22:18:00]\n\n**ai**: The starter.\n[Timestamp: 2024/09/23 22:18:01]\n";
    for has_weights in [true, false] {
        let world = World::new();
        world.write("chat.md", chat);
        let mut command = world.command(&["import", "chat.md", "--vault", "."]);
        if has_weights {
            command.env("FOREWORD_MODELS", &models);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Summaries are paid for: what was sent for them is on record, to the byte.
#[test]
fn the_request_of_a_summary_is_kept() {
    let world = World::new();
    let script = world.script(&json!([{"text": "The user asks about the loaf in Bread.md."}]));
    let words = "Tell me about the loaf in Bread.md, and why it was flat, please. ".repeat(20);
    let set = ["--history", "managed", "--set", "history.token_threshold=10", "--layout", "library", "--mode", "chat"];
    world.done(&[&["ask", ".", &words, "--script", &script, "--model", "claude-sonnet-5"][..], &set[..]].concat());
    for _ in 0..2 {
        world.done(&["ask", ".", &words, "--session", "last", "--script", &script]);
    }
    let side = |more: &[&str]| world.run(&[&["inspect", "last", "--side", "1"], more].concat()).stdout;
    let body: Value = serde_json::from_slice(&side(&["--wire"])).unwrap();
    assert_eq!((&body["model"], &body["stream"]), (&json!("claude-sonnet-5"), &json!(true)));
    let conversation: Value = serde_json::from_str(&world.wire()).unwrap();
    assert_eq!(body["tools"], conversation["tools"], "the summary is asked for behind the prompt");
    let shown = String::from_utf8(side(&[])).unwrap();
    assert!(shown.contains("summary, by claude-sonnet-5: ") && shown.contains("wire sha256 "), "{shown}");
    assert!(world.done(&["verify"]).contains("no errors"));
}

#[test]
fn the_best_fold_times_are_priced_by_the_model_that_answers() {
    let world = World::new();
    let script = world.script(&json!([{"text": "Yes."}]));
    let ask =
        |words: &str, more: &[&str]| world.done(&[&["ask", ".", words, "--mode", "chat", "--script", &script], more].concat());
    ask("one", &["--model", "claude-sonnet-5"]);
    ask("two", &["--session", "last"]);
    ask("three", &["--session", "last", "--model", "claude-opus-4-6"]);
    let report: Value = serde_json::from_slice(&world.run(&["simulate", "last", "--vault", ".", "--json"]).stdout).unwrap();
    let totals = |name: &str| report["totals"][name].as_f64().unwrap();
    // Nothing can be saved in three short turns.
    let (cost, best) = (totals("cost"), totals("hindsight_cost"));
    assert!((cost - best).abs() < cost / 100.0, "{cost} and {best}");
}

#[test]
fn help_in_a_chat_lists_each_command_once() {
    let world = World::new();
    let script = world.script(&json!([{"text": "Yes."}]));
    let text = world.chat("/help\n", &["--script", &script, "--model", "claude-sonnet-5"]);
    let mut names: Vec<&str> = text.lines().filter(|line| line.starts_with("  /")).map(|line| line[..30].trim()).collect();
    assert!(names.contains(&"/plan [cancel]") && names.contains(&"/attach WHAT"), "{text}");
    let listed = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), listed, "{text}");
    // A chat in which nothing was said leaves no session.
    assert_eq!(world.done(&["sessions", "--json"]), "");
}

/// The preview of the small model counts what it reads, with its chat template.
#[test]
fn a_preview_of_the_small_model_has_the_size_of_the_request() {
    let Some(models) = test_weights::test_models() else { return };
    let world = World::new();
    let ask = |more: &[&str]| {
        let arguments = [&["ask", ".", "How long does the bread bake?", "--json"], more].concat();
        let output = world.command(&arguments).env("FOREWORD_MODELS", &models).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    for more in [&[][..], &["--session", "last"]] {
        let preview = ask(&[more, &["--dry-run"]].concat());
        let expected = ["read", "write", "uncached"].map(|part| preview["expected"][part].as_u64().unwrap());
        assert_eq!(ask(more)["tokens"], expected.iter().sum::<u64>(), "{preview}");
    }
}

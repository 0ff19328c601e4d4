//! Settings through the real binary: from flags, an agent's file and the user's configuration, in new sessions and in those that are there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A vault with an agent and a script that answers; nothing of the user's own is seen.
struct Place {
    vault: TempDir,
    other: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { vault: TempDir::new().unwrap(), other: TempDir::new().unwrap() };
        place.write("Foreword/Agents/cook/prompt.md", "You are a cook.\n");
        for name in ["Bread", "Beds", "Boiler"] {
            place.write(&format!("{name}.md"), &format!("# {name}\n\n{}\n", format!("A line about {name}. ").repeat(60)));
        }
        let replies: Vec<Value> =
            (0..30).map(|n| json!({"text": format!("Answer {n}. {}", "Words of an answer. ".repeat(20))})).collect();
        fs::write(place.other.path().join("script.json"), json!({"replies": replies}).to_string()).unwrap();
        place
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.vault.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn agent(&self, text: &str) {
        self.write("Foreword/Agents/cook/agent.toml", text);
    }

    fn config(&self, text: &str) {
        fs::write(self.other.path().join("config.toml"), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let other: &Path = self.other.path();
        if !other.join("config.toml").exists() {
            self.config("");
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreword"));
        command.args(arguments).current_dir(self.vault.path()).stdin(Stdio::null()).env("PIP_NO_INDEX", "1");
        command
            .env("FOREWORD_CACHE", other.join("cache"))
            .env("FOREWORD_STATE", other.join("state"))
            .env("FOREWORD_CONFIG", other.join("config.toml"))
            .env_remove("FOREWORD_MODELS");
        command.output().unwrap()
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

    fn error(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Asks, and what was sent then.
    fn ask(&self, words: &str, more: &[&str]) -> Value {
        let script = self.other.path().join("script.json");
        let asked = ["ask", ".", words, "--script", script.to_str().unwrap()];
        self.out(&[&asked[..], more].concat());
        self.json(&["inspect", "last", "--json"])
    }
}

const DRY: [&str; 8] = ["ask", ".", "What now?", "--agent", "cook", "--model", "claude-sonnet-5", "--dry-run"];

/// What a new session would send: its layout and the room it has.
fn sent(place: &Place, more: &[&str]) -> (String, u64) {
    let found = place.json(&[&DRY[..], &["--json"], more].concat());
    (found["layout"].as_str().unwrap().to_owned(), found["budget"].as_u64().unwrap())
}

#[test]
fn flags_come_before_the_agent_and_that_before_the_configuration() {
    let place = Place::new();
    assert_eq!(sent(&place, &[]).0, "log");
    place.config("layout = \"library\"\n[settings.budget]\nprompt_tokens = 9000\n");
    assert_eq!(sent(&place, &[]), ("library".to_owned(), 9000));
    place.agent("[settings]\nlayout = \"log\"\nbudget = { prompt_tokens = 7000 }\n");
    assert_eq!(sent(&place, &[]), ("log".to_owned(), 7000));
    assert_eq!(sent(&place, &["--layout", "library", "--budget", "8000"]), ("library".to_owned(), 8000));
    assert_eq!(sent(&place, &["--set", "budget.prompt_tokens=6000"]), ("log".to_owned(), 6000));
    // A file of the vault cannot take more than the user allows.
    place.agent("[settings.budget]\nprompt_tokens = 50000\n");
    let output = place.run(&[&DRY[..], &["--json"]].concat());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("budget.prompt_tokens = 50000 exceeds 9000, which only you can allow"), "{told}");
    assert_eq!(sent(&place, &[]).1, 9000);
}

#[test]
fn a_key_that_is_not_known_is_an_error_with_file_line_and_the_nearest() {
    let place = Place::new();
    place.agent("name = \"Cook\"\n[settings]\nlayuot = \"log\"\n");
    let error = place.error(&DRY);
    let expect = "Foreword/Agents/cook/agent.toml, line 3: unknown key `layuot` (did you mean `layout`?)";
    assert!(error.contains(expect) && error.contains("docs/settings.md"), "{error}");
    place.agent("naem = \"Cook\"\n");
    assert!(place.error(&DRY).contains("agent.toml, line 1: unknown key `naem` (did you mean `name`?)"));
    place.agent("");
    place.config("\n[search]\npresett = \"normal\"\n");
    assert!(place.error(&DRY).contains("line 3: unknown key `presett` (did you mean `preset`?)"));
    place.config("");
    assert!(place.error(&[&DRY[..], &["--set", "histroy.messages=3"]].concat()).contains("(did you mean `history`?)"));
}

#[test]
fn what_an_agent_says_and_nothing_takes_is_said() {
    let place = Place::new();
    place.agent("model = \"gpt-5.4\"\n[generation]\ntemperature = 0.5\nmax_output_tokens = 700\n");
    let told = String::from_utf8(place.run(&[&DRY[..], &["--wire"]].concat()).stderr).unwrap();
    assert!(told.contains("it prefers the model gpt-5.4, but claude-sonnet-5 is used"), "{told}");
    assert!(told.contains("generation.temperature is not supported"), "{told}");
    assert!(place.out(&[&DRY[..], &["--wire"]].concat()).contains("\"max_tokens\":700"));
}

#[test]
fn history_strategies_and_caps_hold_in_real_sessions() {
    let place = Place::new();
    let flags = ["--model", "claude-sonnet-5", "--history", "window", "--set", "history.messages=4", "--layout", "library"];
    place.ask("Question 0", &flags);
    let mut last = Value::Null;
    for turn in 1..5 {
        last = place.ask(&format!("Question {turn}"), &["--session", "last"]);
    }
    let wire = place.out(&["inspect", "last", "--wire"]);
    assert!(wire.contains("Question 3") && !wire.contains("Question 1\""), "{wire}");
    assert_eq!(last["layout"], "library");
    // The same from an agent's file, and by single tools.
    place.agent("[settings.history]\nstrategy = \"strip\"\nkeep_runs = 1\n[settings.budget]\nprompt_tokens = 4000\n");
    place.ask("First question", &["--agent", "cook", "--model", "claude-sonnet-5", "--layout", "library"]);
    for turn in 0..3 {
        last = place.ask(&format!("Later question {turn}"), &["--session", "last"]);
    }
    assert_eq!(last["budget"], 4000);
    assert!(place.out(&["inspect", "last", "--wire"]).contains("conversation_summary"));
}

#[test]
fn settings_of_a_session_that_is_there_can_be_changed() {
    let place = Place::new();
    let first = place.ask("What about bread?", &["--attach", "Bread", "--model", "claude-sonnet-5"]);
    assert_eq!(first["layout"], "log");
    let then = place.ask("And then?", &["--session", "last", "--layout", "library", "--budget", "4000"]);
    assert_eq!((&then["layout"], &then["budget"], &then["began"]), (&json!("library"), &json!(4000), &json!("layout_changed")));
    // They stay, also where another model goes on.
    let later = place.ask("And later?", &["--session", "last"]);
    assert_eq!((&later["layout"], &later["budget"]), (&json!("library"), &json!(4000)));
    let other = place.ask("And now?", &["--session", "last", "--model", "gpt-5.4"]);
    assert_eq!((&other["layout"], &other["budget"], &other["model"]), (&json!("library"), &json!(4000), &json!("gpt-5.4")));
    assert_eq!(place.run(&["verify", "--vault", "."]).status.code(), Some(0));
}

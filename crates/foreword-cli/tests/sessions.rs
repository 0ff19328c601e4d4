//! The commands over sessions, through the real binary: a scripted model answers, the process is killed in the middle, and all of it can be
//! gone on with, explained and taken elsewhere.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use sha2::Digest as _;
use tempfile::TempDir;

/// A vault with some notes and a script, and a cache that nobody else uses.
struct Place {
    vault: TempDir,
    other: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { vault: TempDir::new().unwrap(), other: TempDir::new().unwrap() };
        place.write("Kitchen/Bread.md", "# Bread\n\nThe starter should double within four hours.\n");
        place.write("Garden.md", "# Garden\n\nPrune in March.\n");
        place.script(&json!({
            "replies": [
                {"text": "Because of the starter."},
                {"text": "Looking.", "calls": [{"id": "a", "name": "readNote", "arguments": {"path": "Garden.md"}}]},
                {"text": "In March."},
            ],
            "tools": {"readNote": "Prune in March."},
        }));
        place
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.vault.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn script(&self, script: &Value) {
        fs::write(self.other.path().join("script.json"), script.to_string()).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreword"));
        command
            .args(arguments)
            .env("FOREWORD_CACHE", self.other.path().join("cache"))
            .env("FOREWORD_STATE", self.other.path().join("state"))
            .env("XDG_CONFIG_HOME", self.other.path().join("config"))
            .env_remove("FOREWORD_CONFIG")
            .env_remove("FOREWORD_MODELS")
            .env("TZ", "UTC");
        command.current_dir(self.vault.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Stdout of a command that succeeds.
    fn out(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.out(arguments)).unwrap()
    }

    fn ask(&self, words: &str, more: &[&str]) -> Value {
        let script = self.other.path().join("script.json");
        self.json(&[&["ask", ".", words, "--json", "--script", script.to_str().unwrap()], more].concat())
    }

    fn error(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn file(&self) -> String {
        let mut files = fs::read_dir(self.vault.path().join("Foreword/Chats")).unwrap();
        let file = files.next().unwrap().unwrap().path();
        assert!(files.next().is_none());
        fs::read_to_string(file).unwrap()
    }

    fn clean(&self) {
        let verified = self.json(&["verify", "--json"]);
        assert_eq!(verified["faults"], json!([]));
    }
}

/// Two turns, the second with a tool.
fn two_turns() -> (Place, String) {
    let place = Place::new();
    let first = place.ask("Why was the loaf flat?", &["--attach", "Bread"]);
    assert_eq!(first["text"], "Because of the starter.");
    let session = first["session"].as_str().unwrap().to_owned();
    let second = place.ask("When do I prune?", &["--session", "last", "--attach", "Garden", "--attach", "Bread"]);
    assert_eq!((&second["session"], &second["turn"], &second["requests"]), (&json!(session), &json!(2), &json!(2)));
    (place, session)
}

#[test]
fn a_session_is_listed_found_shown_and_called_something() {
    let (place, session) = two_turns();
    assert!(place.out(&["sessions"]).starts_with(&session));
    assert_eq!(place.json(&["sessions", "--json"])["title"], "Why was the loaf flat?");
    assert!(place.out(&["sessions", "search", "march"]).contains(&format!("{session}@2")));
    let shown = place.out(&["sessions", "show", &session[..4]]);
    assert!(shown.contains("@2 user") && shown.contains("readNote({\"path\":\"Garden.md\"}) → Prune in March."), "{shown}");
    place.out(&["sessions", "rename", "last", "Bread"]);
    assert!(place.out(&["sessions"]).contains("Bread"));
    let text = place.file();
    assert!(text.contains("[Context: Notes: Garden.md, Kitchen/Bread.md]") && text.contains("**ai**: In March."), "{text}");
    place.clean();
}

#[test]
fn a_request_is_explained_and_printed_to_the_byte() {
    let (place, session) = two_turns();
    let inspection = place.json(&["inspect", &format!("{session}@2"), "--json"]);
    assert_eq!((&inspection["turn"], &inspection["request"], &inspection["verified"]), (&json!(2), &json!(2), &json!(true)));
    let context: Vec<_> = inspection["context"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["item"].as_str().unwrap(), entry["form"].as_str().unwrap()))
        .filter(|(item, _)| item.starts_with("note:"))
        .collect();
    assert_eq!(context, [("note:Garden.md", "full"), ("note:Kitchen/Bread.md", "reference")]);
    let layers: Vec<&str> = inspection["layers"].as_array().unwrap().iter().map(|layer| layer["id"].as_str().unwrap()).collect();
    assert_eq!(layers, ["TOOLS", "L1_SYSTEM", "L2_LIBRARY", "L3_TURN", "L4_HISTORY", "L5_USER"]);
    let wire = place.run(&["inspect", &format!("{session}@2.1"), "--wire"]).stdout;
    let body: Value = serde_json::from_slice(&wire).unwrap();
    assert!(body["messages"].as_array().unwrap().len() == 4, "{body}");
    let verify = place.out(&["inspect", &format!("{session}@2.1"), "--verify"]);
    let digest = sha2::Sha256::digest(&wire);
    let hash = digest.iter().fold(String::new(), |hash, byte| hash + &format!("{byte:02x}"));
    assert!(verify.contains("matches the bytes that were sent") && verify.contains(&hash), "{verify}");
    let text = place.out(&["inspect", "last"]);
    for part in ["L3_TURN", "note:Kitchen/Bread.md", "manual", "reference", "rendered again: identical"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let difference = place.out(&["diff", &format!("{session}@1"), &format!("{session}@2.1")]);
    assert!(difference.contains("the second request continues the first"), "{difference}");
    assert!(place.run(&["diff", "last", "last"]).status.code() == Some(1));
}

#[test]
fn a_changed_note_is_named_as_what_parted_two_requests() {
    let place = Place::new();
    place.ask("a", &["--layout", "library", "--model", "claude-sonnet-5", "--attach", "Bread"]);
    place.ask("b", &["--session", "last", "--attach", "Garden"]);
    place.ask("c", &["--session", "last"]);
    let difference = place.json(&["diff", "last@2", "last@3", "--json"]);
    assert_eq!((&difference["item"], &difference["cause"]), (&json!("note:Garden.md"), &json!("library_grew")), "{difference}");
    assert!(difference["path"].as_str().unwrap().starts_with("system"), "{difference}");
}

#[test]
fn forks_rewinds_edits_and_folds() {
    let (place, session) = two_turns();
    let script = place.other.path().join("script.json");
    let script = script.to_str().unwrap();
    let fork = place.json(&["sessions", "fork", &format!("{session}@1"), "--json"])["session"].as_str().unwrap().to_owned();
    place.ask("Something else?", &["--session", &fork]);
    assert_eq!(place.json(&["sessions", "show", &fork, "--json"])["messages"].as_array().unwrap().len(), 5);
    assert_eq!(place.json(&["sessions", "show", &session, "--json"])["messages"].as_array().unwrap().len(), 5);
    place.out(&["sessions", "edit", &format!("{session}@2"), "And rye?", "--script", script]);
    let shown = place.out(&["sessions", "show", &session]);
    assert!(shown.contains("And rye?") && !shown.contains("When do I prune?"), "{shown}");
    // What was attached to the turn comes along.
    assert!(place.out(&["inspect", &format!("{session}@2.1")]).contains("note:Garden.md"));
    place.out(&["sessions", "regenerate", &session, "--script", script]);
    place.out(&["sessions", "fold", &session]);
    place.ask("And now?", &["--session", &session]);
    assert_eq!(place.json(&["inspect", &format!("{session}@3.1"), "--json"])["began"], "asked");
    place.out(&["sessions", "undo-fold", &session]);
    place.ask("And now?", &["--session", &session]);
    place.out(&["sessions", "rewind", &format!("{session}@1")]);
    place.clean();
    assert!(place.error(&["sessions", "delete", &session], 2).contains("nothing was deleted"));
    place.out(&["sessions", "delete", &session, "--yes"]);
    place.clean();
    assert!(place.error(&["inspect", &session], 2).contains("there is no session"));
    assert_eq!(place.json(&["sessions", "show", &fork, "--json"])["messages"].as_array().unwrap().len(), 5);
}

#[test]
fn a_session_is_taken_elsewhere_and_a_backup_is_a_store() {
    let (place, session) = two_turns();
    let dump = place.out(&["export", &session]);
    let elsewhere = Place::new();
    fs::write(elsewhere.other.path().join("s.json"), &dump).unwrap();
    let file = elsewhere.other.path().join("s.json");
    assert_eq!(elsewhere.json(&["import", file.to_str().unwrap(), "--json"])["session"], session.as_str());
    let taken =
        elsewhere.json(&["import", file.to_str().unwrap(), "--json", "--vault", elsewhere.other.path().to_str().unwrap()]);
    assert_eq!((taken["messages"].as_array().unwrap().len(), &taken["warnings"]), (5, &json!([])));
    assert!(elsewhere.error(&["import", file.to_str().unwrap()], 1).contains("already"));
    elsewhere.clean();
    assert_eq!(elsewhere.json(&["export", &session, "--json"]), place.json(&["export", &session, "--json"]));
    assert_eq!(elsewhere.out(&["inspect", "last", "--wire"]), place.out(&["inspect", "last", "--wire"]));
    elsewhere.ask("More?", &["--session", "last"]);
    elsewhere.clean();
    fs::create_dir_all(elsewhere.other.path().join("v/.foreword")).unwrap();
    let backup = elsewhere.other.path().join("v/.foreword/foreword.db");
    place.out(&["backup", backup.to_str().unwrap()]);
    let vault = elsewhere.other.path().join("v");
    // A store that was put there is used once the user says so.
    place.error(&["verify", "--vault", vault.to_str().unwrap()], 2);
    place.out(&["trust", vault.to_str().unwrap(), "--yes"]);
    assert!(place.out(&["verify", "--vault", vault.to_str().unwrap()]).contains("no errors"));
    assert!(place.error(&["backup", backup.to_str().unwrap()], 2).contains("the file exists"));
}

#[test]
fn chats_of_other_programs_are_taken_in_and_gone_on_with() {
    let place = Place::new();
    let chat = "---\nepoch: \"1695513480000\"\nmodelKey: \"gpt-4o|openai\"\ntopic: \"Bread\"\n\ntags:\n  - copilot-conversation\n---\n\n**user**: Why was it flat?\n[Context: Notes: Bread.md, Gone.md]\n[Timestamp: 2024/09/23 22:18:00]\n\n**ai**: <think>hm</think>The starter.\n---\n# A heading\n[Timestamp: 2024/09/23 22:18:01]\n";
    place.write("copilot/chat.md", chat);
    let taken = place.json(&["import", "copilot", "--vault", ".", "--json"]);
    assert_eq!(taken["topic"], "Bread");
    assert_eq!(
        taken["messages"][0],
        json!({"role": "user", "text": "Why was it flat?", "time": "2024-09-23T22:18:00.000Z", "context": {"notes": ["Kitchen/Bread.md"], "urls": [], "tags": [], "folders": []}})
    );
    assert_eq!(taken["messages"].as_array().unwrap().len(), 2);
    assert!(
        taken["warnings"].as_array().unwrap().iter().any(|warning| warning["text"].as_str().unwrap().contains("Gone.md")),
        "{taken}"
    );
    // Again: the same session.
    assert_eq!(place.json(&["import", "copilot/chat.md", "--json"])["session"], taken["session"]);
    place.write("Kitchen/Bread.md", "# Bread\n\nNow it says something else.\n");
    place.ask("And now?", &["--session", "last"]);
    let wire = place.out(&["inspect", "last", "--wire"]);
    assert!(wire.contains("Why was it flat?") && wire.contains("Now it says something else."), "{wire}");
    let markdown = place.out(&["export", "last", "--markdown"]);
    assert!(
        markdown.contains("**user**: Why was it flat?\n[Context: Notes: Kitchen/Bread.md]\n[Timestamp: 2024/09/23 22:18:00]"),
        "{markdown}"
    );
    assert_eq!(markdown, place.file());
    place.clean();
    place.write("no.md", "just a note");
    assert!(place.error(&["import", "no.md"], 1).contains("no.md"));
}

#[test]
fn where_nothing_can_be_kept_the_answer_comes_all_the_same() {
    let place = Place::new();
    // A file where the folders should be: nobody, not even root, can write there.
    place.write(".foreword", "");
    place.write("Foreword", "");
    fs::write(place.other.path().join("state"), "").unwrap();
    let script = place.other.path().join("script.json");
    let output = place.run(&["ask", ".", "Why?", "--script", script.to_str().unwrap()]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let answer = String::from_utf8(output.stdout).unwrap();
    assert!(answer.ends_with("\nBecause of the starter.\n"), "{answer}");
    assert!(errors.contains("not stored") && errors.contains("cannot save the chat"), "{errors}");
}

#[cfg(unix)]
#[test]
fn killed_in_the_middle_of_a_reply_it_goes_on() {
    let place = Place::new();
    place.script(&json!({"replies": [{"text": "one two three four five six seven eight nine ten", "delay_ms": 100}]}));
    let script = place.other.path().join("script.json");
    let mut child = place
        .command(&["ask", ".", "Count.", "--script", script.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Until some of it has come, but not all.
    let mut out = child.stdout.take().unwrap();
    let mut shown = Vec::new();
    while !shown.ends_with(b"three ") {
        let mut byte = [0];
        out.read_exact(&mut byte).unwrap();
        shown.push(byte[0]);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    place.clean();
    place.script(&json!({"replies": [{"text": "And so on."}]}));
    place.ask("Go on.", &["--session", "last"]);
    let shown = place.out(&["sessions", "show", "last"]);
    assert!(shown.contains("(incomplete)") && shown.contains("one two three") && !shown.contains("nine ten"), "{shown}");
    assert!(place.out(&["inspect", "last", "--verify"]).contains("matches the bytes"));
    place.clean();
}

#[test]
fn what_is_wrong_is_said() {
    let place = Place::new();
    assert!(place.error(&["sessions"], 2).contains("no session was stored here yet"));
    place.ask("hello", &[]);
    let check = |arguments: &[&str], code: i32, expect: &str| {
        let error = place.error(arguments, code);
        assert!(error.contains(expect), "{arguments:?}: {error}");
    };
    check(&["inspect", "nobody"], 2, "there is no session \"nobody\"");
    check(&["inspect", "last@7"], 2, "has no request for turn 7");
    check(&["inspect", "last@x"], 2, "invalid session");
    check(&["sessions", "rewind", "last"], 2, "which turn? use");
    check(&["sessions", "rewind", "last@9"], 2, "turns, not 9");
    check(&["ask", ".", "hello", "--script", "none.json"], 2, "cannot use the script none.json");
    check(
        &["ask", ".", "hello", "--script", place.other.path().join("script.json").to_str().unwrap(), "--agent", "nobody"],
        2,
        "not found in Foreword/Agents",
    );
    check(&["import", "nowhere.md"], 1, "no such file or folder");
    check(&["sessions", "delete", "last@1", "--yes"], 2, "expected a session without a turn");
    check(&["export", "last@1"], 2, "expected a session without a turn");
    check(&["sessions", "rename", "last", " "], 2, "must not be empty");
    let script = place.other.path().join("script.json");
    let script = script.to_str().unwrap();
    check(&["ask", ".", "  ", "--script", script], 2, "missing question");
    check(&["ask", ".", "x", "--attach", "Nowhere at all", "--script", script], 2, "nothing was sent");
    assert_eq!(place.out(&["sessions"]).lines().count(), 1, "no session was begun");
    place.script(&json!({"replies": [{"error": "over\u{1b}[31mloaded"}]}));
    let error = place.error(&["ask", ".", "hello?", "--session", "last", "--script", script], 1);
    assert!(error.contains("the question is saved") && !error.contains('\u{1b}'), "{error}");
    assert!(place.out(&["sessions", "show", "last"]).contains("hello?"));
    place.script(&json!({"replies": [{"text": "Here I am."}]}));
    assert!(place.out(&["ask", ".", "--session", "last", "--resume", "--script", script]).contains("Here I am."));
    place.script(&json!({"replies": [{"calls": [{"id": "a", "name": "x"}]}]}));
    check(&["ask", ".", "loop", "--session", "last", "--script", script], 1, "the turn stopped after");
    place.clean();
    let damaged = rusted(&place.vault.path().join(".foreword/foreword.db"));
    assert!(damaged);
    let output = place.run(&["verify"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("its bytes do not match its hash"));
}

/// Changes a letter of the agent's prompt inside the file, wherever it stands.
fn rusted(file: &Path) -> bool {
    let mut bytes = fs::read(file).unwrap();
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"You help a person wi")).collect();
    for at in &places {
        bytes[*at] = b'y';
    }
    fs::write(file, bytes).unwrap();
    !places.is_empty()
}

#[test]
fn a_plan_is_part_of_what_a_turn_costs() {
    let place = Place::new();
    place.script(&json!({"replies": [{"text": "[]"}, {"text": "Planned."}]}));
    let asked = place.ask("When do I prune?", &["--mode", "plan", "--model", "gpt-5.4"]);
    assert_eq!((&asked["text"], &asked["requests"]), (&json!("Planned."), &json!(1)));
    let request = place.json(&["inspect", "last", "--json"])["usage"]["cost"].as_f64().unwrap();
    assert!(request > 0.0 && asked["cost"].as_f64().unwrap() > request, "{asked} {request}");
}

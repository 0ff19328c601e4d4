//! What reaches a terminal, through the real binary on a pseudo-terminal: nothing that a note or a model says controls it. What goes into a
//! pipe stays as it is.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

/// Each of these would do something to a terminal, or to who reads it.
const ATTACKS: [&str; 12] = [
    "\u{1b}]52;c;ZXZpbA==\u{7}",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http://evil.example\u{1b}\\link\u{1b}]8;;\u{1b}\\",
    "\u{1b}[2J\u{1b}[H",
    "\u{1b}[8mhidden",
    "\u{1b}c",
    "\u{9b}2J",
    "\u{9d}0;title\u{9c}",
    "safe\rEVIL",
    "ab\u{8}\u{8}xy\u{7f}",
    "txt.\u{202e}exe",
    "\u{2066}isolated\u{2069}",
];

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: TempDir::new().unwrap() };
        let vault = place.path("vault");
        fs::create_dir_all(&vault).unwrap();
        fs::write(vault.join("Note.md"), format!("# Note\n\n{}\n", ATTACKS.join("\n\n"))).unwrap();
        fs::write(vault.join("a\u{1b}]0;t\u{7}\u{202e}.md"), "x\n").unwrap();
        let script = json!({"replies": [{"text": ATTACKS.join(" ")}, {"text": ATTACKS.join(" ")}], "tools": {}});
        fs::write(place.path("script.json"), script.to_string()).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("FOREWORD_CACHE", self.path("cache")).env("FOREWORD_STATE", self.path("state"));
        command.env("XDG_CONFIG_HOME", self.path("config")).env_remove("FOREWORD_CONFIG").env_remove("FOREWORD_MODELS");
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR").current_dir(self.path("vault")).stdin(Stdio::null());
        command
    }

    fn piped(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.command(env!("CARGO_BIN_EXE_foreword")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// What a terminal gets; none where there is no program that makes one.
    fn on_terminal(&self, arguments: &[&str]) -> Option<String> {
        let quoted = |word: &&str| format!("'{word}'");
        let words: Vec<String> = [env!("CARGO_BIN_EXE_foreword")].iter().chain(arguments).map(quoted).collect();
        let output = self.command("script").args(["-qec", &words.join(" "), "/dev/null"]).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Without line breaks of the terminal and the colours that the program itself uses.
fn without_colours(text: &str) -> String {
    let mut text = text.replace("\r\n", "\n");
    for code in ["0", "1", "2", "3", "4", "9", "31", "32", "33", "34", "35", "36", "1;36", "1;4", "2;3", "1;3"] {
        text = text.replace(&format!("\u{1b}[{code}m"), "");
    }
    text
}

#[test]
fn nothing_controls_a_terminal_and_a_pipe_gets_everything() {
    let place = Place::new();
    let script = place.path("script.json");
    let ask = ["ask", ".", "Why?", "--script", script.to_str().unwrap()];
    let check = |arguments: &[&str]| {
        let Some(shown) = place.on_terminal(arguments) else { return };
        let plain = without_colours(&shown);
        let bad: Vec<char> = plain
            .chars()
            .filter(|c| {
                (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            })
            .collect();
        assert!(bad.is_empty(), "{arguments:?}: {bad:?} in {shown:?}");
        assert!(plain.contains('\u{fffd}') || arguments[0] == "sessions", "{arguments:?}: nothing was replaced in {shown:?}");
    };
    // The reply is in the store from here on.
    let raw = place.piped(&ask);
    assert!(String::from_utf8(raw).unwrap().contains(ATTACKS[0]), "a pipe gets what the model said");
    check(&ask);
    check(&["export", "last", "--markdown"]);
    check(&["export", "last", "--json"]);
    check(&["export", "last"]);
    check(&["sessions", "show", "last"]);
    check(&["attach", ".", "--show", "Note"]);
    check(&["tree", "."]);
    check(&["tree", "\u{1b}]0;t\u{7}"]);
    check(&["no-such-command\u{1b}[2J\u{202e}"]);
    let transcript = place.piped(&["export", "last", "--markdown"]);
    assert!(String::from_utf8(transcript).unwrap().contains(&ATTACKS.join(" ")), "a pipe gets the transcript as it is");
}

//! `foreword templates` through the real binary, and a managed session that can be looked at afterwards.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn foreword(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreword"));
    command
        .env("FOREWORD_CACHE", home.join("cache"))
        .env("FOREWORD_STATE", home.join("state"))
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env_remove("FOREWORD_CONFIG");
    command.args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn templates_are_listed_shown_begun_and_checked() {
    let place = TempDir::new().unwrap();
    let (home, vault) = (place.path(), place.path().join("vault"));
    std::fs::create_dir_all(&vault).unwrap();
    let vault_arg = vault.to_str().unwrap();
    let run = |arguments: &[&str]| foreword(home, &[&["templates"], arguments, &["--vault", vault_arg]].concat());
    for name in ["coding", "freeform-chat", "goal-oriented", "research-notes"] {
        assert!(said(&run(&["list"])).contains(name));
        assert!(said(&run(&["show", name])).contains("## Context Instructions"));
    }
    assert!(said(&run(&["check"])).contains("no errors"));
    let file = said(&run(&["new", "mine", "--from", "coding"]));
    assert!(file.trim_end().ends_with("Foreword/ContextTemplates/mine.md"), "{file}");
    assert!(said(&run(&["list", "--json"])).contains(r#""name":"mine","origin":"vault""#));
    assert!(!run(&["new", "mine"]).status.success(), "nothing is overwritten");
    assert!(!run(&["new", "../mine"]).status.success());
    std::fs::write(vault.join("Foreword/ContextTemplates/mine.md"), "## A\n@cache soon\nx").unwrap();
    let checked = run(&["check", "mine"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&checked.stdout).contains("line 2: @cache"));
    assert_eq!(run(&["show", "nowhere"]).status.code(), Some(2));
}

#[test]
fn a_managed_session_can_be_looked_at() {
    let place = TempDir::new().unwrap();
    let (home, vault) = (place.path(), place.path().join("vault"));
    std::fs::create_dir_all(vault.join("Foreword/ContextTemplates")).unwrap();
    std::fs::write(
        vault.join("Foreword/ContextTemplates/quick.md"),
        "---\ntoken_threshold: 10\n---\n## State\nWhat is the state of the shed?",
    )
    .unwrap();
    let script = home.join("script.json");
    std::fs::write(&script, r#"{"replies": [{"text": "The shed in plans/shed.md has 25 mm oak."}]}"#).unwrap();
    let (vault, script) = (vault.to_str().unwrap(), script.to_str().unwrap());
    let untrusted = foreword(home, &["ask", vault, "Hi", "--script", script, "--template", "quick"]);
    assert_eq!(untrusted.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&untrusted.stderr).contains("quick.md of this folder is not trusted; review it"));
    said(&foreword(home, &["trust", vault, "--yes"]));
    let ask = |words: &str, more: &[&str]| {
        let arguments = [&["ask", vault, words, "--script", script], more].concat();
        said(&foreword(home, &arguments))
    };
    ask(
        "Tell me all about the shed, please, and about its roof.",
        &["--template", "quick", "--layout", "library", "--model", "claude-sonnet-5", "--mode", "chat"],
    );
    for _ in 0..3 {
        ask("And what else about the shed in the garden behind the house?", &["--session", "last"]);
    }
    let summaries = said(&foreword(home, &["inspect", "last", "--summaries", "--vault", vault]));
    assert!(summaries.contains("The shed in plans/shed.md has 25 mm oak. [m"), "{summaries}");
    assert!(summaries.contains("quick (vault), by claude-sonnet-5"), "{summaries}");
}

//! `foreword audit` through the real binary: the contract of its JSON, its flags and its exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

const SESSION: &str = "11111111-1111-4111-8111-111111111111";

/// A call of Claude Code with the words before it.
fn call(number: u64, minute: u64, read: u64, written: u64) -> String {
    let time =
        |second: u64| format!("2026-05-{:02}T{:02}:{:02}:{second:02}.000Z", 1 + minute / 1440, minute / 60 % 24, minute % 60);
    let envelope = json!({"sessionId": SESSION, "version": "2.1.120", "cwd": "/home/someone/secret-app", "isSidechain": false});
    let with = |mut record: Value| {
        record.as_object_mut().unwrap().extend(envelope.as_object().unwrap().clone());
        record
    };
    let content =
        json!([{"type": "tool_result", "tool_use_id": format!("t{}", number.saturating_sub(1)), "content": "y".repeat(2_000)}]);
    let user = with(
        json!({"type": "user", "uuid": format!("u{number}"), "timestamp": time(0), "message": {"role": "user", "content": content}}),
    );
    let reply = with(
        json!({"type": "assistant", "uuid": format!("a{number}"), "parentUuid": format!("u{number}"), "timestamp": time(5),
        "requestId": format!("r{number}"), "message": {"id": format!("m{number}"), "role": "assistant", "model": "claude-opus-4-6", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": format!("t{number}"), "name": "mcp__private__look", "input": {}}],
        "usage": {"input_tokens": 3, "cache_read_input_tokens": read, "cache_creation_input_tokens": written,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0}, "output_tokens": 100}}}),
    );
    format!("{user}\n{reply}\n")
}

/// A home with one session: five calls, of which the fourth came after two hours.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".claude/projects/-home-someone-secret-app");
    fs::create_dir_all(&folder).unwrap();
    let text = [
        call(0, 600, 0, 20_000),
        call(1, 601, 20_000, 800),
        call(2, 602, 20_800, 800),
        call(3, 722, 0, 22_400),
        call(4, 723, 22_400, 500),
    ];
    fs::write(folder.join(format!("{SESSION}.jsonl")), text.concat()).unwrap();
    home
}

fn audit(home: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreword"));
    command.arg("audit").args(args).current_dir(home).env_clear().env("HOME", home).env("TZ", "UTC");
    command.env("FOREWORD_CACHE", home.join("cache")).env("FOREWORD_STATE", home.join("state")).output().unwrap()
}

fn report(home: &Path, args: &[&str]) -> Value {
    let output = audit(home, &[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_json_is_as_promised() {
    let home = home();
    let found = report(home.path(), &[]);
    assert_eq!(found["calls"], 5);
    let tokens = json!({"input": 15, "cache_read": 63_200, "cache_write_5m": 44_500, "cache_write_1h": 0, "output": 500});
    assert_eq!(found["tokens"], tokens);
    // Claude Opus 4.6: 5, 0.50, 6.25 and 25 for a million.
    let cost = (15.0 * 5.0 + 63_200.0 * 0.5 + 44_500.0 * 6.25 + 500.0 * 25.0) / 1e6;
    assert!((found["cost"].as_f64().unwrap() - cost).abs() < 1e-9);
    let [session] = &found["sessions"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((&session["agent"], &session["id"], &session["calls"]), (&json!("claude-code"), &json!(SESSION), &json!(5)));
    assert!(session["file"].as_str().unwrap().contains(SESSION));
    assert_eq!(session["tokens"], tokens);
    let [one] = &session["breaks"].as_array().unwrap()[..] else { panic!("{session}") };
    assert_eq!(
        (&one["at"], &one["cause"], &one["evidence"]),
        (&json!("2026-05-01T12:02:00.000Z"), &json!("idle"), &json!("measured"))
    );
    assert_eq!(one["tokens"], 21_600);
    assert_eq!(one["lines"], json!([6, 8]));
    assert!((one["cost"].as_f64().unwrap() - 21_600.0 * (6.25 - 0.5) / 1e6).abs() < 1e-9);
    let policies: Vec<&str> = found["what_if"].as_array().unwrap().iter().map(|one| one["policy"].as_str().unwrap()).collect();
    assert_eq!(policies[0], "as logged");
    for policy in ["5m", "1h", "keep-alive", "folds by rent", "long outputs out", "model claude-sonnet-5-5"] {
        assert!(policies.contains(&policy), "{policies:?}");
    }
    assert!(found["findings"].as_array().unwrap().len() <= 5);
}

#[test]
fn a_named_path_and_the_usual_folder_give_the_same() {
    let home = home();
    let usual = report(home.path(), &[]);
    assert_eq!(report(home.path(), &["."])["tokens"], usual["tokens"]);
    // What was kept says the same as what is read.
    assert_eq!(report(home.path(), &[]), usual);
}

#[test]
fn filters_leave_out_calls_and_sessions() {
    let home = home();
    let calls = |args: &[&str]| report(home.path(), args)["calls"].clone();
    assert_eq!(calls(&["--since", "2026-05-01T12:00:00Z"]), 2);
    assert_eq!(calls(&["--project", "secret-app", "--session", "1111"]), 5);
    for args in [["--project", "other"], ["--session", "2222"], ["--since", "2026-05-09"]] {
        assert_eq!(audit(home.path(), &args).status.code(), Some(1), "{args:?}");
    }
    assert_eq!(audit(home.path(), &["--since", "soon"]).status.code(), Some(2));
    assert_eq!(audit(home.path(), &["missing.jsonl"]).status.code(), Some(2));
}

#[test]
fn redacted_reports_name_nobody() {
    let home = home();
    let page = home.path().join("report.html");
    let output = audit(home.path(), &["--redact", "--json", "--html", page.to_str().unwrap()]);
    let (json, html) = (String::from_utf8(output.stdout).unwrap(), fs::read_to_string(&page).unwrap());
    let screen = String::from_utf8(audit(home.path(), &["--redact"]).stdout).unwrap();
    for text in [&json, &html, &screen] {
        for name in ["someone", "secret-app", SESSION, "private"] {
            assert!(!text.contains(name), "{name}");
        }
    }
    // Nothing is fetched from elsewhere.
    for outside in ["http://", "https://", "src=", "@import"] {
        assert!(!html.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
    }
}

#[test]
fn the_screen_shows_what_matters() {
    let home = home();
    let output = audit(home.path(), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["1 session, 5 calls", "idle 1×", "What if", "1h", "Worth doing", "private"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(text.lines().count() <= 50, "{}", text.lines().count());
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

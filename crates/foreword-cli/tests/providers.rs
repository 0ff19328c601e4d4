//! The whole program in front of every kind of provider: a vault, tools, two turns, and a double that refuses what the real ones refuse.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use foreword_mock_provider::{MockServer, Script};
use foreword_provider::dialect::Dialect;
use serde_json::{Value, json};
use tempfile::TempDir;

const MODELS: [(Dialect, &str); 5] = [
    (Dialect::OpenAiChat, "gpt-5.4"),
    (Dialect::OpenAiResponses, "gpt-6.1-sol"),
    (Dialect::Anthropic, "claude-sonnet-5"),
    (Dialect::Gemini, "gemini-3.8-flash"),
    (Dialect::LlamaCpp, "llama.cpp"),
];

/// A double in a thread of its own, until the process ends.
fn double(script: &Value) -> Arc<MockServer> {
    let script = Script::from_json(&script.to_string()).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            send.send(Arc::new(MockServer::start(script).await.unwrap())).unwrap();
            std::future::pending::<()>().await;
        });
    });
    receive.recv().unwrap()
}

fn foreword(vault: &Path, cache: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreword"));
    command.args(arguments).current_dir(vault).stdin(Stdio::null());
    command
        .env("FOREWORD_CACHE", cache)
        .env("FOREWORD_STATE", cache.join("state"))
        .env("XDG_CONFIG_HOME", cache.join("config"))
        .env("PIP_NO_INDEX", "1");
    for key in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"] {
        command.env(key, "test-key");
    }
    let output = command.env_remove("FOREWORD_MODELS").env_remove("FOREWORD_CONFIG").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn every_dialect_answers_with_tools_and_its_cache_is_read() {
    let script = json!({"replies": [
        {"text": "Let me look.", "calls": [
            {"name": "localSearch", "arguments": {"query": "starter"}}, {"name": "readNote", "arguments": {"path": "Bread.md"}}]},
        {"text": "It doubles within four hours."},
        {"calls": [{"name": "readNote", "arguments": {"path": 7}}]},
        {"calls": [{"name": "plan", "arguments": {"steps": ["read", "answer"]}}]},
        {"calls": [{"name": "task_complete", "arguments": {}}]},
        {"text": "Yes.", "calls": [{"name": "task_complete", "arguments": {}}]},
    ]});
    for (dialect, model) in MODELS {
        let (vault, cache) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let bread =
            format!("# Bread\n\nThe starter should double within four hours.\n\n{}", "Fold the dough gently. ".repeat(300));
        fs::write(vault.path().join("Bread.md"), bread).unwrap();
        let double = double(&script);
        let url = double.base_url(dialect);
        let ask = |arguments: &[&str]| {
            let all = [&["ask", "."], arguments, &["--base-url", &url, "--json"]].concat();
            let (code, out, errors) = foreword(vault.path(), cache.path(), &all);
            assert_eq!(code, 0, "{model}: {errors}");
            serde_json::from_str::<Value>(&out).unwrap()
        };
        let first = ask(&["How fast is the starter?", "--attach", "Bread", "--model", model]);
        assert_eq!(
            (first["text"].as_str(), first["requests"].as_u64()),
            (Some("It doubles within four hours."), Some(2)),
            "{model}"
        );
        let second = ask(&["Really?", "--session", "last", "--mode", "agent"]);
        assert_eq!((second["text"].as_str(), second["requests"].as_u64()), (Some("Yes."), Some(4)), "{model}");
        let share = second["cached"].as_f64().unwrap() / second["tokens"].as_f64().unwrap();
        assert!(share > 0.7, "{model}: {second}");
        let (code, out, errors) = foreword(vault.path(), cache.path(), &["verify"]);
        assert_eq!(code, 0, "{model}: {out}{errors}");
        let (_, out, _) = foreword(vault.path(), cache.path(), &["sessions", "show", "last"]);
        assert!(
            out.contains("within four hours") && out.contains("do not fit its schema") && out.contains("Plan accepted"),
            "{out}"
        );
    }
}

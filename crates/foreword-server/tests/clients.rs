//! The official Python packages `openai` and `anthropic` against the gateway. `cargo xtask clients` does the same with agents.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::format_push_string)]

mod common;
#[path = "../examples/clients/provider.rs"]
mod provider;
#[path = "../examples/clients/recorder.rs"]
#[allow(dead_code)]
mod recorder;

use std::path::PathBuf;
use std::process::Command;

use common::Running;
use foreword_server::{Level, Limits};
use provider::{Failure, Provider};
use recorder::Recorder;
use serde_json::Value;

const SCRIPT: &str = r#"{"replies": [
    {"text": "First answer."},
    {"text": "Second answer."},
    {"text": "Let me look.", "calls": [{"id": "c1", "name": "read", "arguments": {"path": "a"}}]},
    {"text": "It says so."}
]}"#;

/// A Python that has the packages: the one that `cargo xtask test` makes.
fn python() -> PathBuf {
    if let Some(python) = std::env::var_os("FOREWORD_TEST_PYTHON") {
        return PathBuf::from(python);
    }
    // This program is in `TARGET/debug/deps`.
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(3).unwrap().join("python/bin/python")
}

#[test]
fn the_official_clients() {
    let server = Running::with(SCRIPT, common::loopback(), Limits::default());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients.py");
    let (_, key) = foreword_server::Keys::new(&server.folder.path().join("state")).create(None).unwrap();
    let ran = Command::new(python()).arg(script).arg(format!("http://{}", server.address)).arg(key).output();
    let ran = ran.expect("there is no Python with the packages openai and anthropic: `cargo xtask test` makes one");
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn the_official_clients_at_observe_and_assist() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("note.txt");
    std::fs::write(&note, "The beds get compost in March.\n").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let provider = runtime.block_on(Provider::start());
    let of = |name: &str| format!("[providers.{name}]\nbase_url = \"http://127.0.0.1:{}/v1\"\n", provider.port);
    let config = of("openai") + &of("anthropic");
    for level in [Level::Observe, Level::Assist] {
        let server = Running::made(None, &config, common::loopback(), Limits::default(), level);
        let recorder = runtime.block_on(Recorder::start(server.address.port()));
        provider.begin(Failure::Overloaded, note.to_str().unwrap());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients_levels.py");
        let ran = Command::new(python()).arg(script).arg(format!("http://127.0.0.1:{}", recorder.port)).arg(&note).output();
        let ran = ran.expect("there is no Python with the packages openai and anthropic: `cargo xtask test` makes one");
        assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        // Three turns with a tool in three APIs, and one request again.
        let (seen, (sent, answers)) = (provider.seen(), recorder.posts());
        assert_eq!((seen.len(), sent.len()), (19, 19));
        let mut added = 0;
        for ((seen, sent), answer) in seen.iter().zip(&sent).zip(&answers) {
            assert_eq!((&seen.path, seen.status), (&sent.path, answer.status));
            assert!(seen.answer.starts_with(&answer.body) && (answer.status != 200 || seen.answer == answer.body));
            if seen.body != sent.body {
                added += 1;
                let text = String::from_utf8(seen.body.to_vec()).unwrap();
                assert!(level == Level::Assist && text.contains("cache_control"), "{text}");
            }
        }
        // From the second turn on, for Claude.
        assert_eq!(added, if level == Level::Assist { 4 } else { 0 });
        let clients = server.get("/api/v1/clients");
        let requests: Vec<&Value> = clients.as_array().unwrap().iter().map(|client| &client["requests"]).collect();
        assert_eq!(requests, [6, 6, 7], "{clients}");
    }
}

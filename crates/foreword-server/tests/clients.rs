//! The official Python packages `openai` and `anthropic` against the gateway.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value, clippy::format_push_string)]

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::Running;
use foreword_server::Limits;

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

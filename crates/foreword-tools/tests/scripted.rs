//! Servers that misbehave, each in one way: `scripted/server.py` plays them.

#![allow(clippy::unwrap_used, clippy::panic)]
#![allow(clippy::needless_pass_by_value)] // a table of cases reads better without ampersands

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use common::scripted as config;
use foreword_core::catalog::Tool;
use foreword_core::item::ItemId;
use foreword_tools::{Asking, MAX_OUTPUT, Output, ServerConfig, SessionPins, Toolbox, Transport, Unattended};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

fn with_env(mut config: ServerConfig, name: &str, value: &str) -> ServerConfig {
    if let Transport::Stdio { env, .. } = &mut config.transport {
        env.insert(name.to_owned(), value.to_owned());
    }
    config
}

fn toolbox(config: ServerConfig) -> Toolbox {
    Toolbox::new(Vec::new(), vec![config], Asking::Never, Box::new(Unattended), Box::<SessionPins>::default())
}

fn running(config: ServerConfig) -> Toolbox {
    let toolbox = toolbox(config);
    assert!(toolbox.problems().is_empty(), "{:?}", toolbox.problems());
    toolbox
}

fn call(toolbox: &mut Toolbox, tool: &str, arguments: Value) -> Output {
    toolbox.call(&ItemId::tool("s", tool), &arguments, &CancellationToken::new())
}

fn names(toolbox: &Toolbox) -> Vec<String> {
    toolbox.tools().into_iter().map(|Tool { name, .. }| name).collect()
}

fn is_alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits for something that comes by itself.
#[track_caller]
fn eventually(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "it did not come about");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn both_revisions_are_spoken() {
    for revision in REVISIONS {
        let mut toolbox = running(config(&[revision]));
        let all = ["crash", "echo", "env", "giant", "grandchild", "hang", "learn", "pid", "probe", "progress"];
        assert_eq!(names(&toolbox), all, "both pages, sorted");
        assert_eq!(call(&mut toolbox, "echo", json!({"value": 7})), Output::done(r#"{"value": 7}"#));
        let refused = call(&mut toolbox, "echo", json!({"value": "seven"}));
        assert!(
            refused.failed && refused.text.ends_with("/value: found the string \"seven\", expected an integer"),
            "{refused:?}"
        );
    }
}

#[test]
fn a_changed_list_is_read_when_it_is_asked_for() {
    for revision in REVISIONS {
        let mut toolbox = running(config(&[revision]));
        assert!(!toolbox.changed());
        call(&mut toolbox, "learn", json!({}));
        eventually(|| toolbox.changed());
        assert!(names(&toolbox).contains(&"learnt".to_owned()));
        assert!(!toolbox.changed());
    }
}

#[test]
fn a_crash_is_told_and_the_server_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let mut toolbox = running(with_env(config(&[REVISIONS[0]]), "STARTS", starts.to_str().unwrap()));
    let crashed = call(&mut toolbox, "crash", json!({}));
    assert_eq!(
        crashed,
        Output::failed(
            "s/crash failed: its server ended (exit status: 3). What it had done by then is not known. It is started again at the next call."
        )
    );
    let [problem] = toolbox.problems().try_into().unwrap();
    assert_eq!(problem.message, "it ended in the middle of a call (exit status: 3)");
    assert_eq!(problem.stderr, "about to crash");
    assert_eq!(names(&toolbox).len(), 10, "the prompt keeps its tools");
    assert_eq!(call(&mut toolbox, "echo", json!({})), Output::done("{}"));
    assert!(toolbox.problems().is_empty());
    assert_eq!(fs::read_to_string(&starts).unwrap().lines().count(), 2);
}

#[test]
fn a_server_that_only_crashes_is_given_longer_and_longer_pauses() {
    let mut toolbox = running(config(&[REVISIONS[0]]));
    let mut outputs = Vec::new();
    for _ in 0..5 {
        outputs.push(call(&mut toolbox, "crash", json!({})));
    }
    assert!(outputs.iter().all(|output| output.failed));
    let last = &outputs.last().unwrap().text;
    assert!(
        last.contains("the server s is not there: it ended in the middle of a call (exit status: 3). It can be tried again in"),
        "{last}"
    );
}

#[test]
fn a_killed_server_is_started_again_unnoticed() {
    let mut toolbox = running(config(&[REVISIONS[1]]));
    let pid = call(&mut toolbox, "pid", json!({})).text;
    std::process::Command::new("kill").args(["-9", &pid]).status().unwrap();
    eventually(|| !is_alive(&pid));
    thread::sleep(Duration::from_millis(100));
    let again = call(&mut toolbox, "pid", json!({}));
    assert!(!again.failed && again.text != pid, "{again:?}");
}

#[test]
fn a_call_that_hangs_ends_and_a_server_that_hangs_is_replaced() {
    let mut config = config(&[REVISIONS[0]]);
    config.timeouts.call = Duration::from_millis(700);
    let mut toolbox = running(config);
    for _ in 0..2 {
        let start = Instant::now();
        let hung = call(&mut toolbox, "hang", json!({}));
        let expect = "s/hang gave no answer within 0.7 s and was cancelled; what it had done by then is not known.";
        assert_eq!(hung, Output::failed(expect));
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    assert_eq!(call(&mut toolbox, "echo", json!({})), Output::done("{}"));
}

#[test]
fn progress_is_worth_waiting_for() {
    for revision in REVISIONS {
        let mut config = config(&[revision]);
        config.timeouts.call = Duration::from_secs(1);
        let mut toolbox = running(config);
        let start = Instant::now();
        assert_eq!(call(&mut toolbox, "progress", json!({})), Output::done("done"));
        assert!(start.elapsed() > Duration::from_secs(1));
    }
}

#[test]
fn a_stop_ends_a_call_at_once() {
    let mut toolbox = running(config(&[REVISIONS[0]]));
    let stop = CancellationToken::new();
    let stopper = stop.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        stopper.cancel();
    });
    let start = Instant::now();
    let output = toolbox.call(&ItemId::tool("s", "hang"), &json!({}), &stop);
    assert_eq!(output, Output::failed("s/hang was stopped by the user; what it had done by then is not known."));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn large_outputs_are_capped_and_giant_ones_end_the_server() {
    let mut toolbox = running(config(&[REVISIONS[0]]));
    let capped = call(&mut toolbox, "giant", json!({"value": MAX_OUTPUT + 1}));
    assert!(!capped.failed && capped.text.len() <= MAX_OUTPUT && capped.text.contains("[Cut here: "));
    let giant = call(&mut toolbox, "giant", json!({"value": 5 * MAX_OUTPUT}));
    assert!(giant.failed && giant.text.contains("it sent a message of more than 16777216 bytes"), "{}", giant.text.len());
    assert_eq!(call(&mut toolbox, "echo", json!({})), Output::done("{}"));
}

#[test]
fn garbage_on_the_output_is_passed_over() {
    for revision in REVISIONS {
        let mut toolbox = running(config(&[revision, "garbage"]));
        assert_eq!(call(&mut toolbox, "echo", json!({"value": 1})), Output::done(r#"{"value": 1}"#));
    }
}

#[test]
fn endless_pages_end() {
    let toolbox = toolbox(config(&[REVISIONS[0], "endless"]));
    assert_eq!(names(&toolbox).len(), 100);
}

#[test]
fn hostile_lists_are_taken_as_far_as_they_can_be() {
    let toolbox = toolbox(config(&[REVISIONS[0], "hostile"]));
    assert_eq!(names(&toolbox), ["ok"]);
    assert_eq!(toolbox.problems().len(), 3);
    assert!(!format!("{:?}", toolbox.problems()).contains('\u{1b}'));
}

#[test]
fn servers_that_do_not_start() {
    #[track_caller]
    fn check(config: ServerConfig, expect: &str) {
        let toolbox = toolbox(config);
        assert!(toolbox.tools().is_empty());
        let [problem] = toolbox.problems().try_into().unwrap();
        assert!(problem.message.contains(expect), "{problem:?}");
        let shown = format!("{problem:?}");
        assert!(!shown.contains("sk-secret") && !shown.contains("\\u{1b}"), "{shown}");
    }
    let dying = || with_env(config(&[REVISIONS[0], "dies-at-start"]), "KEY", "sk-secret");
    check(dying(), "it does not answer like an MCP server");
    let toolbox = toolbox(dying());
    let [problem] = toolbox.problems().try_into().unwrap();
    eventually(|| toolbox.problems()[0].stderr.contains("no configuration, key [hidden]"));
    assert_eq!(problem.server, "s");
    let mut silent = config(&[REVISIONS[0], "silent"]);
    silent.timeouts.start = Duration::from_millis(500);
    check(silent, "it did not start within 0.5 s");
    let mut missing = config(&[]);
    missing.transport =
        Transport::Stdio { command: "/no/such/program".into(), args: Vec::new(), env: BTreeMap::new(), cwd: "/".into() };
    check(missing, "its program `/no/such/program` cannot be started in /: No such file or directory");
    for (command, cwd, relative) in
        [("python3", "/", "python3"), ("/bin/sh", ".", "."), ("./sh", "/bin", "./sh"), ("/bin/sh", "", "")]
    {
        let mut config = config(&[]);
        config.transport = Transport::Stdio { command: command.into(), args: Vec::new(), env: BTreeMap::new(), cwd: cwd.into() };
        check(config, &format!("{relative} is not an absolute path"));
    }
    let mut named = config(&[REVISIONS[0]]);
    named.name = "foreword".to_owned();
    check(named, "rename it");
    let mut named = config(&[REVISIONS[0]]);
    named.name = "a/b".to_owned();
    check(named, "rename it");
}

#[test]
fn a_server_that_dies_of_the_current_revision_is_met_in_the_previous_one() {
    let mut toolbox = running(config(&[REVISIONS[0], "dies-when-discovered"]));
    assert_eq!(call(&mut toolbox, "echo", json!({})), Output::done("{}"));
}

#[test]
fn a_server_gets_few_variables_and_those_that_are_set() {
    let mut toolbox = running(with_env(config(&[REVISIONS[0]]), "FOREWORD_SET", "x"));
    let seen = call(&mut toolbox, "env", json!({})).text;
    let seen: Vec<_> = seen.lines().collect();
    assert!(seen.contains(&"PATH") && seen.contains(&"FOREWORD_SET"), "{seen:?}");
    // Cargo sets this one for every test.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && !seen.contains(&"CARGO_MANIFEST_DIR"), "{seen:?}");
}

/// What a shell may hold that no server must see: keys, and what makes a program load somebody's code.
const HOSTILE: [(&str, &str); 12] = [
    ("OPENAI_API_KEY", "sk-secret"),
    ("ANTHROPIC_API_KEY", "sk-secret"),
    ("AWS_SECRET_ACCESS_KEY", "secret"),
    ("SSH_AUTH_SOCK", "/tmp/agent"),
    ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/tmp/bus"),
    ("DOCKER_HOST", "unix:///tmp/docker"),
    ("PYTHONPATH", "/tmp/evil"),
    ("PYTHONSTARTUP", "/tmp/evil.py"),
    ("NODE_OPTIONS", "--require /tmp/evil.js"),
    ("LD_LIBRARY_PATH", "/tmp/evil"),
    ("BASH_ENV", "/tmp/evil.sh"),
    ("HTTPS_PROXY", "http://evil.example"),
];

/// The test starts itself again in a shell that holds all of it.
#[test]
fn no_key_and_no_loader_of_ours_reaches_a_server() {
    const INSIDE: &str = "FOREWORD_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_none() {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "no_key_and_no_loader_of_ours_reaches_a_server", "--nocapture"]);
        let output = again.env(INSIDE, "1").envs(HOSTILE).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert!(HOSTILE.iter().all(|(name, _)| std::env::var_os(name).is_some()));
    let seen = call(&mut running(config(&[REVISIONS[0]])), "env", json!({})).text;
    let seen: Vec<_> = seen.lines().collect();
    for (name, _) in HOSTILE {
        assert!(seen.contains(&"PATH") && !seen.contains(&name), "{name}: {seen:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_is_left_running() {
    for words in [&[REVISIONS[0]][..], &[REVISIONS[1], "stubborn"]] {
        let mut toolbox = running(config(words));
        let pids = [call(&mut toolbox, "pid", json!({})).text, call(&mut toolbox, "grandchild", json!({})).text];
        assert!(pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
        drop(toolbox);
        // The server itself is gone and reaped at once; what it had started is reaped by whoever takes over orphans.
        assert!(!Path::new("/proc").join(&pids[0]).exists());
        eventually(|| !is_alive(&pids[1]));
    }
}

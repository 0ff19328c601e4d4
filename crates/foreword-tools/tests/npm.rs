//! Real servers, as people run them: `server-everything` over both transports, `server-filesystem` over stdio. `cargo xtask test` installs
//! them.

#![allow(clippy::unwrap_used, clippy::panic)]
#![allow(clippy::needless_pass_by_value)] // a table of cases reads better without ampersands

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use foreword_core::catalog::Permission;
use foreword_core::item::ItemId;
use foreword_tools::{Asking, Output, Sandbox, ServerConfig, SessionPins, Toolbox, Transport, Unattended, program};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A server's script.
fn script(package: &str) -> String {
    let npm =
        env::var_os("FOREWORD_NPM").map(PathBuf::from).or_else(|| Some(env::current_exe().ok()?.ancestors().nth(3)?.join("npm")));
    let script = npm.unwrap().join("node_modules/@modelcontextprotocol").join(package).join("dist/index.js");
    assert!(script.is_file(), "{} is not there; `cargo xtask test` installs it", script.display());
    script.display().to_string()
}

fn node(name: &str, args: &[&str]) -> ServerConfig {
    let args = args.iter().map(ToString::to_string).collect();
    let folders = program::search_folders(&env::var_os("PATH").unwrap(), &[], None);
    let command = program::find("node", Path::new("/"), &folders).unwrap();
    ServerConfig::new(name, Transport::Stdio { command, args, env: BTreeMap::new(), cwd: "/".into() })
}

fn running(configs: Vec<ServerConfig>) -> Toolbox {
    let toolbox = Toolbox::new(Vec::new(), configs, Asking::Never, Box::new(Unattended), Box::<SessionPins>::default());
    assert!(toolbox.problems().is_empty(), "{:?}", toolbox.problems());
    toolbox
}

fn call(toolbox: &mut Toolbox, server: &str, tool: &str, arguments: Value) -> Output {
    toolbox.call(&ItemId::tool(server, tool), &arguments, &CancellationToken::new())
}

/// A process that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `server-everything` over HTTP, and its address.
fn everything_over_http() -> (Ends, ServerConfig) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("node");
    command.args([&script("server-everything"), "streamableHttp"]).env("PORT", port.to_string());
    let mut server = Ends(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let stderr = BufReader::new(server.0.stderr.take().unwrap());
    let mut lines = stderr.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("listening on port")), "it did not start");
    thread::spawn(move || lines.for_each(drop));
    let url = format!("http://127.0.0.1:{port}/mcp");
    (server, ServerConfig::new("everything", Transport::Http { url, headers: BTreeMap::new() }))
}

/// The same over either transport.
fn everything_works(config: ServerConfig) {
    let mut toolbox = running(vec![config]);
    let tools = toolbox.tools();
    let mut sorted: Vec<_> = tools.iter().map(|tool| tool.name.clone()).collect();
    sorted.sort();
    assert_eq!(tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>(), sorted);
    assert!(tools.len() >= 10 && tools.iter().all(|tool| tool.description.is_some()), "{tools:?}");

    let mut check = |tool: &str, arguments: Value, expect: &str, failed: bool| {
        let output = call(&mut toolbox, "everything", tool, arguments);
        assert!(output.text.contains(expect) && output.failed == failed, "{tool}: {output:?}");
    };
    check("echo", json!({"message": "hi\nthere"}), "Echo: hi\nthere", false);
    check("echo", json!({}), "required and missing: \"message\"", true);
    check("get-sum", json!({"a": 2, "b": 3}), "The sum of 2 and 3 is 5.", false);
    check("get-sum", json!({"a": 2, "b": "3"}), "/b: found the string \"3\", expected a number", true);
    check("get-tiny-image", json!({}), "[image: image/png, ", false);
    check("get-structured-content", json!({"location": "New York"}), "\"temperature\":", false);
    check("get-resource-links", json!({"count": 2}), "[link ", false);
    check("get-resource-reference", json!({"resourceType": "Text", "resourceId": 1}), "[resource ", false);
    check("trigger-long-running-operation", json!({"duration": 1, "steps": 4}), "completed", false);
}

#[test]
fn everything_over_stdio() {
    everything_works(node("everything", &[&script("server-everything"), "stdio"]));
}

#[test]
fn everything_over_streamable_http() {
    let (_server, config) = everything_over_http();
    everything_works(config);
}

#[test]
fn progress_extends_the_time_of_a_call_and_a_stop_ends_it() {
    let (_server, mut config) = everything_over_http();
    config.timeouts.call = Duration::from_secs(2);
    let mut toolbox = running(vec![config]);
    let long = call(&mut toolbox, "everything", "trigger-long-running-operation", json!({"duration": 4, "steps": 8}));
    assert!(!long.failed, "{long:?}");

    let stop = CancellationToken::new();
    let setter = stop.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        setter.cancel();
    });
    let start = Instant::now();
    let tool = ItemId::tool("everything", "trigger-long-running-operation");
    let stopped = toolbox.call(&tool, &json!({"duration": 30, "steps": 60}), &stop);
    assert!(stopped.failed && start.elapsed() < Duration::from_secs(10), "{stopped:?} after {:?}", start.elapsed());
    assert!(!call(&mut toolbox, "everything", "echo", json!({"message": "still there"})).failed);
}

#[test]
fn a_server_that_went_away_over_http_is_found_again() {
    let (server, config) = everything_over_http();
    let mut toolbox = running(vec![config]);
    drop(server);
    let gone = call(&mut toolbox, "everything", "echo", json!({"message": "x"}));
    assert!(gone.failed, "{gone:?}");
    let [problem] = toolbox.problems().try_into().unwrap();
    assert_eq!(problem.server, "everything");
}

#[test]
fn files_are_read_and_written_where_the_server_may() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::write(root.join("a.txt"), "one\ntwo\n").unwrap();
    let mut config = node("files", &[&script("server-filesystem"), root.to_str().unwrap()]);
    config.permission = Some(Permission::NotRequired);
    let mut toolbox = Toolbox::new(Vec::new(), vec![config], Asking::Tool, Box::new(Unattended), Box::<SessionPins>::default());
    assert!(toolbox.problems().is_empty(), "{:?}", toolbox.problems());

    let read_only: Vec<_> = toolbox.tools().into_iter().filter(|tool| tool.read_only).map(|tool| tool.name).collect();
    assert!(read_only.contains(&"read_text_file".to_owned()) && !read_only.contains(&"write_file".to_owned()), "{read_only:?}");

    let path = |name: &str| root.join(name).display().to_string();
    let read = call(&mut toolbox, "files", "read_text_file", json!({"path": path("a.txt")}));
    assert!(!read.failed && read.text.starts_with("one\ntwo\n"), "{read:?}");
    let written = call(&mut toolbox, "files", "write_file", json!({"path": path("b.txt"), "content": "three"}));
    assert!(!written.failed && fs::read_to_string(root.join("b.txt")).unwrap() == "three", "{written:?}");
    let outside = call(&mut toolbox, "files", "read_text_file", json!({"path": "/etc/passwd"}));
    assert!(outside.failed && outside.text.contains("denied"), "{outside:?}");

    toolbox.set_asking(Asking::Always);
    let unattended = call(&mut toolbox, "files", "write_file", json!({"path": path("c.txt"), "content": "four"}));
    assert!(unattended.failed && !root.join("c.txt").exists(), "{unattended:?}");
}

/// As a person would allow it: the vault and nothing else.
#[cfg(target_os = "linux")]
#[test]
fn files_in_a_sandbox_are_those_of_the_vault() {
    if let Err(why) = foreword_tools::sandbox::availability() {
        eprintln!("SKIPPED, no sandbox can be tried on this machine: {why}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("vault/.foreword")).unwrap();
    for file in ["vault/a.md", "vault/.foreword/token", "outside.md"] {
        fs::write(root.join(file), "one").unwrap();
    }
    let script = script("server-filesystem");
    // The server itself would let the model read all of it.
    let mut config = node("files", &[&script, root.to_str().unwrap()]);
    let package = Path::new(&script).ancestors().find(|folder| folder.ends_with("node_modules")).unwrap().to_owned();
    let hidden = vec![root.join("vault/.foreword")];
    config.sandbox = Some(Sandbox { folders: vec![root.join("vault"), package], hidden, ..Sandbox::default() });
    let mut toolbox = running(vec![config]);
    let mut reads = |name: &str| !call(&mut toolbox, "files", "read_text_file", json!({"path": root.join(name)})).failed;
    assert_eq!([reads("vault/a.md"), reads("vault/.foreword/token"), reads("outside.md")], [true, false, false]);
    let path = root.join("vault/b.md");
    let written = call(&mut toolbox, "files", "write_file", json!({"path": path, "content": "two"}));
    assert!(!written.failed && fs::read_to_string(path).unwrap() == "two", "{written:?}");
}

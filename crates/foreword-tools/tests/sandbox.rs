//! What the program of a tool server reaches in its sandbox, and what it does not: tried by a real server.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::{env, fs};

use common::scripted;
use foreword_core::item::ItemId;
use foreword_tools::{Asking, Sandbox, ServerConfig, SessionPins, Toolbox, Transport, Unattended, sandbox};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A home folder with a secret, an installed server, a vault and a private folder; all in the real home folder, which the sandbox hides.
struct Home {
    folder: tempfile::TempDir,
    listener: TcpListener,
}

impl Home {
    /// None where there are no sandboxes on this machine, which is printed.
    fn new() -> Option<Self> {
        if let Err(why) = sandbox::availability() {
            eprintln!("SKIPPED, no sandbox can be tried on this machine: {why}");
            return None;
        }
        let home = PathBuf::from(env::var_os("HOME").unwrap()).canonicalize().unwrap();
        let folder = tempfile::Builder::new().prefix("foreword-test-").tempdir_in(home).unwrap();
        let home = Self { folder, listener: TcpListener::bind("127.0.0.1:0").unwrap() };
        for (file, text) in
            [("secret", "x"), ("vault/note.md", "x"), ("vault/.foreword/token", "x"), ("state/token", "x"), ("own/empty", "")]
        {
            fs::create_dir_all(home.at(file).parent().unwrap()).unwrap();
            fs::write(home.at(file), text).unwrap();
        }
        Some(home)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// The scripted server in its private folder, which is all that it has without a grant.
    fn server(&self, granted: Sandbox) -> Toolbox {
        let mut config = scripted(&["2025-11-25"]);
        if let Transport::Stdio { command, args, cwd, .. } = &mut config.transport {
            fs::copy(&args[0], self.at("own/server.py")).unwrap();
            args[0] = self.at("own/server.py").display().to_string();
            *cwd = self.at("own");
            // An interpreter of the system, so that nothing of the home folder is needed.
            if Path::new("/usr/bin/python3").exists() {
                *command = "/usr/bin/python3".into();
            }
        }
        let mut folders = granted.folders;
        folders.push(self.at("own"));
        let hidden = vec![self.at("state"), self.at("vault/.foreword")];
        running(ServerConfig { sandbox: Some(Sandbox { folders, hidden, ..granted }), ..config })
    }

    /// Everything at once: reading and writing here and there, the network, the variables, the processes.
    fn questions(&self) -> Value {
        let path = |name: &str| json!(self.at(name));
        json!({
            "read secret": path("secret"), "read note": path("vault/note.md"), "read store": path("vault/.foreword/token"),
            "read state": path("state/token"), "read system": "/etc/hostname", "read own": path("own/server.py"),
            "read build": env::current_exe().unwrap(),
            "write own": path("own/new"), "write note": path("vault/new.md"), "write home": path("new"), "write system": "/usr/new",
            "connect": self.listener.local_addr().unwrap().port(),
            "variable key": "CARGO_MANIFEST_DIR", "process": std::process::id(),
        })
    }
}

fn probe(toolbox: &mut Toolbox, what: &Value) -> Value {
    let output = toolbox.call(&ItemId::tool("s", "probe"), what, &CancellationToken::new());
    assert!(!output.failed, "{output:?}");
    serde_json::from_str(&output.text).unwrap()
}

fn running(config: ServerConfig) -> Toolbox {
    let toolbox = Toolbox::new(Vec::new(), vec![config], Asking::Never, Box::new(Unattended), Box::<SessionPins>::default());
    assert!(toolbox.problems().is_empty(), "{:?}", toolbox.problems());
    toolbox
}

#[test]
fn each_grant_gives_what_it_says_and_nothing_else() {
    let Some(home) = Home::new() else { return };
    let check = |granted: Sandbox, reached: &[&str]| {
        let questions = home.questions();
        let answers = probe(&mut home.server(granted.clone()), &questions);
        let yes: Vec<&str> = answers
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, answer)| **answer == json!("yes"))
            .map(|(question, _)| question.as_str())
            .collect();
        assert_eq!(yes, reached, "{granted:?}: {answers}");
    };
    // What is written in the hidden home folder goes into an empty one that ends with the program.
    let none = ["read own", "read system", "write home", "write own"];
    check(Sandbox::default(), &none);
    assert!(!home.at("new").exists() && home.at("own/new").exists());
    check(Sandbox { network: true, ..Sandbox::default() }, &["connect", "read own", "read system", "write home", "write own"]);
    assert!(!home.at("new").exists());
    check(
        Sandbox { folders: vec![home.at("vault")], ..Sandbox::default() },
        &["read note", "read own", "read system", "write home", "write note", "write own"],
    );
    assert!(!home.at("new").exists() && home.at("vault/new.md").exists());
    check(
        Sandbox { home: true, ..Sandbox::default() },
        &["read note", "read own", "read secret", "read system", "write home", "write note", "write own"],
    );
    assert!(home.at("new").exists());
}

/// The same server without a sandbox reaches all of it, so the questions above can be answered with yes.
#[test]
fn without_a_sandbox_everything_is_reached() {
    let Some(home) = Home::new() else { return };
    let mut toolbox = home.server(Sandbox { network: true, home: true, ..Sandbox::default() });
    let sandboxed = probe(&mut toolbox, &home.questions());
    drop(toolbox);
    let mut config = scripted(&["2025-11-25"]);
    config.sandbox = None;
    let mut questions = home.questions();
    questions.as_object_mut().unwrap().remove("write system");
    let free = probe(&mut running(config), &questions);
    for question in ["read secret", "read store", "read state", "read build", "write home", "connect", "process"] {
        assert_eq!(free[question], "yes", "{free}");
    }
    for question in ["read store", "read state", "process", "variable key", "write system"] {
        assert_ne!(sandboxed[question], "yes", "{sandboxed}");
    }
}

#[test]
fn a_variable_that_was_set_for_it_is_there() {
    let Some(home) = Home::new() else { return };
    let mut config = scripted(&["2025-11-25"]);
    if let Transport::Stdio { args, env, cwd, .. } = &mut config.transport {
        fs::copy(&args[0], home.at("own/server.py")).unwrap();
        args[0] = home.at("own/server.py").display().to_string();
        *cwd = home.at("own");
        env.extend([("TOKEN".to_owned(), "x".to_owned()), ("LD_BIND_NOW".to_owned(), "1".to_owned())]);
    }
    config.sandbox = Some(Sandbox { folders: vec![home.at("own")], ..Sandbox::default() });
    let mut toolbox = running(config);
    let seen = probe(&mut toolbox, &json!({"variable a": "TOKEN", "variable b": "LD_BIND_NOW", "variable c": "CARGO_PKG_NAME"}));
    assert_eq!(seen, json!({"variable a": "yes", "variable b": "yes", "variable c": "not set"}));
}

#[test]
fn a_program_in_the_home_folder_runs_without_the_home_folder() {
    let Some(home) = Home::new() else { return };
    // As an installer lays it out: a link, an installation elsewhere, and beside them what is nobody's business.
    let mut config = scripted(&["2025-11-25"]);
    let Transport::Stdio { command, args, cwd, .. } = &mut config.transport else { panic!("it is a program") };
    let text = fs::read_to_string(&args[0]).unwrap();
    let tool = home.at("share/tools/weather/bin/weather");
    fs::create_dir_all(tool.parent().unwrap()).unwrap();
    fs::create_dir_all(home.at("local/bin")).unwrap();
    fs::write(&tool, format!("#!/usr/bin/env python3\n{text}")).unwrap();
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(&tool, home.at("local/bin/weather")).unwrap();
    *command = home.at("local/bin/weather");
    args.remove(0);
    *cwd = home.at("own");
    config.sandbox = Some(Sandbox { folders: vec![home.at("own")], ..Sandbox::default() });
    let mut toolbox = running(config);
    let seen = probe(&mut toolbox, &json!({"read secret": home.at("secret"), "read tool": tool, "write tool": tool}));
    assert_eq!(seen["read secret"], "FileNotFoundError");
    assert_eq!((&seen["read tool"], &seen["write tool"]), (&json!("yes"), &json!("OSError")));
}

#[test]
fn what_needs_more_than_it_has_is_told_with_what_to_do() {
    let Some(home) = Home::new() else { return };
    let mut config = scripted(&["2025-11-25"]);
    if let Transport::Stdio { args, .. } = &mut config.transport {
        fs::copy(&args[0], home.at("secret.py")).unwrap();
        args[0] = home.at("secret.py").display().to_string();
    }
    config.sandbox = Some(Sandbox { network: true, ..Sandbox::default() });
    let toolbox = Toolbox::new(Vec::new(), vec![config], Asking::Never, Box::new(Unattended), Box::<SessionPins>::default());
    let [problem] = toolbox.problems().try_into().unwrap();
    assert!(problem.message.contains("it runs in a sandbox without the home folder: if it needs more"), "{problem:?}");
}

#[test]
fn nothing_is_left_running() {
    let Some(home) = Home::new() else { return };
    let marker = home.at("own/server.py").display().to_string();
    let is_running = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let mut lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
        lines.any(|line| String::from_utf8_lossy(&line).contains(&marker))
    };
    let mut toolbox = home.server(Sandbox::default());
    assert!(!toolbox.call(&ItemId::tool("s", "grandchild"), &json!({}), &CancellationToken::new()).failed);
    assert!(is_running());
    drop(toolbox);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while is_running() {
        assert!(std::time::Instant::now() < until, "it still runs");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#![allow(clippy::needless_pass_by_value)] // a table of cases reads better without ampersands

use std::fs;

use foreword_vault::agents::{OnDisk, list, load};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::config::Config;

/// A vault with one tool server, and a machine with a few programs and variables.
struct Machine {
    folder: TempDir,
    rules: ToolRules,
}

impl Machine {
    fn new(config: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let machine = Self { folder, rules: Config::read(config).unwrap().tools };
        for program in ["bin/python3", "vault/bin/python3", "vault/server", "here/python3"] {
            let file = machine.at(program);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            #[cfg(unix)]
            fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    /// The entry as the vault's agent has it.
    fn spec(&self, entry: Value) -> ServerSpec {
        let file = self.at("vault/Foreword/Agents/a/mcp.json");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, json!({"mcpServers": {"weather": entry}}).to_string()).unwrap();
        let files = OnDisk::new(&self.at("vault")).unwrap();
        load(&files, &list(&files)[0]).servers.remove(0)
    }

    fn with<T>(&self, run: impl FnOnce(&Launch<'_>) -> T) -> T {
        let path = std::env::join_paths([self.at("vault/bin"), ".".into(), self.at("here"), self.at("bin")]).unwrap();
        let environment = |name: &str| match name {
            "PATH" => Some(path.to_str().unwrap().to_owned()),
            "HOME" => Some("/home/me".to_owned()),
            "GITHUB_TOKEN" => Some("gh-secret".to_owned()),
            "ANTHROPIC_API_KEY" => Some("sk-secret".to_owned()),
            _ => None,
        };
        let places = Places { cache: self.at("cache"), models: self.at("models"), state: self.at("state") };
        let (root, here) = (self.at("vault"), self.at("here"));
        run(&Launch { root: &root, working_folder: &here, places: &places, rules: &self.rules, environment: &environment })
    }

    fn config(&self, entry: Value, sandbox: Option<Sandbox>) -> Result<ServerConfig, LaunchError> {
        let spec = self.spec(entry);
        self.with(|launch| server_config(&spec, launch, sandbox))
    }
}

#[test]
fn only_variables_that_the_user_named_are_filled_in() {
    #[track_caller]
    fn check(entry: Value, expect: &str) {
        let machine = Machine::new("[tools]\nvariables = ['GITHUB_TOKEN', 'UNSET']");
        match machine.config(entry, None) {
            Ok(config) => {
                let foreword_tools::Transport::Http { url, headers } = config.transport else { panic!("not over HTTP") };
                assert_eq!(format!("{url} {}", headers.get("X").map_or("", String::as_str)), expect);
                assert_eq!(
                    config.secrets.0,
                    if expect.contains("gh-secret") { vec!["gh-secret".to_owned()] } else { Vec::new() }
                );
            }
            Err(error) => assert_eq!(error.to_string(), expect),
        }
    }
    const URL: &str = "https://a.example";
    const REFUSED: &str = "tool server weather requires the environment variable ANTHROPIC_API_KEY, which is not allowed; \
                           to allow it, add it to [tools] variables in config.toml";
    check(json!({"url": URL, "headers": {"X": "Bearer ${GITHUB_TOKEN}"}}), "https://a.example Bearer gh-secret");
    check(json!({"url": URL, "headers": {"X": "${UNSET:-a}"}}), "https://a.example a");
    check(
        json!({"url": URL, "headers": {"X": "${UNSET}"}}),
        "tool server weather requires the environment variable UNSET, which is not set; set it, or add a default: ${UNSET:-…}",
    );
    check(
        json!({"url": URL, "headers": {"X": "$ANTHROPIC_API_KEY ${ANTHROPIC_API_KEY"}}),
        "https://a.example $ANTHROPIC_API_KEY ${ANTHROPIC_API_KEY",
    );
    // Wherever it is wanted, a default or not.
    for entry in [
        json!({"url": URL, "headers": {"X-Locale": "${ANTHROPIC_API_KEY}"}}),
        json!({"url": URL, "headers": {"X": "${ANTHROPIC_API_KEY:-de}"}}),
        json!({"url": "https://a.example/${ANTHROPIC_API_KEY}"}),
        json!({"command": "${ANTHROPIC_API_KEY}"}),
        json!({"command": "python3", "args": ["-c", "x${ANTHROPIC_API_KEY}"]}),
        json!({"command": "python3", "env": {"LANG": "${ANTHROPIC_API_KEY}"}}),
        json!({"command": "python3", "cwd": "/${ANTHROPIC_API_KEY}"}),
    ] {
        check(entry, REFUSED);
    }
    for name in ["PATH", "HOME"] {
        check(json!({"url": format!("https://a.example/${{{name}}}")}), &REFUSED.replace("ANTHROPIC_API_KEY", name));
    }
}

#[test]
fn a_vault_cannot_lower_a_permission() {
    #[track_caller]
    fn check(config: &str, entry: Value, expect: (Option<Permission>, Option<Permission>), note: Option<&str>) {
        let mut entry = entry;
        entry["url"] = json!("https://a.example");
        let made = Machine::new(config).config(entry, None).unwrap();
        assert_eq!((made.permission, made.tools.get("get").and_then(|tool| tool.permission)), expect);
        assert_eq!(made.notes.len(), usize::from(note.is_some()), "{:?}", made.notes);
        assert!(note.is_none_or(|words| made.notes[0].contains(words)), "{:?}", made.notes);
    }
    use Permission::{NotRequired, Required};
    let server = || json!({"permission": "not_required"});
    let tool = || json!({"tools": {"get": {"permission": "not_required"}}});
    check("", server(), (None, None), Some("[tools] unasked = [\"weather/*\"]"));
    check("", json!({"permissionRequired": false}), (None, None), Some("weather/*"));
    check("", json!({"serverToolDefaults": {"permissionRequired": false}}), (None, None), Some("weather/*"));
    check("", tool(), (None, None), Some("[tools] unasked = [\"weather/get\"]"));
    check("", json!({"permission": "required"}), (Some(Required), None), None);
    check("", json!({"tools": {"get": {"permission": "required"}}}), (None, Some(Required)), None);
    check("[tools]\nunasked = ['other/*']", server(), (None, None), Some("weather/*"));
    // The user can.
    check("[tools]\nunasked = ['weather/*']", server(), (Some(NotRequired), None), None);
    check("[tools]\nunasked = ['weather/*']", json!({}), (Some(NotRequired), None), None);
    check("[tools]\nunasked = ['weather/get']", json!({}), (None, Some(NotRequired)), None);
    check("[tools]\nunasked = ['weather/get']", tool(), (None, Some(NotRequired)), None);
    check("[tools]\nunasked = ['weather/get']", server(), (None, Some(NotRequired)), Some("weather/*"));
    // What a vault wants to be asked about is asked about, unless the user names just this tool.
    let raised = || json!({"tools": {"get": {"permission": "required"}}});
    check("[tools]\nunasked = ['weather/*']", raised(), (Some(NotRequired), Some(Required)), None);
    check("[tools]\nunasked = ['weather/get']", raised(), (None, Some(NotRequired)), None);
}

#[cfg(unix)]
#[test]
fn a_program_is_not_taken_from_the_vault_and_does_not_run_in_our_folder() {
    let machine = Machine::new("");
    let started = |entry: Value| match machine.config(entry, None).unwrap().transport {
        foreword_tools::Transport::Stdio { command, cwd, env, .. } => (command, cwd, env),
        foreword_tools::Transport::Http { .. } => panic!("over HTTP"),
    };
    let (command, cwd, env) = started(json!({"command": "python3", "args": ["-m", "mcp_server_time"]}));
    assert_eq!(command, machine.at("bin/python3"), "neither the vault's nor the one of the folder that we run in");
    assert_eq!(env["PATH"], machine.at("bin").to_str().unwrap(), "nor is anything that it starts itself");
    assert!(cwd.starts_with(machine.at("cache")) && fs::read_dir(&cwd).unwrap().next().is_none(), "{}", cwd.display());
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&cwd.metadata().unwrap().permissions()) & 0o777, 0o700);
    let (same, again, _) = started(json!({"command": "python3"}));
    assert_eq!((same, again), (command, cwd));

    // What the entry says is meant, and relative to the vault.
    let (command, cwd, _) = started(json!({"command": "./server"}));
    assert_eq!((command, cwd.starts_with(machine.at("cache"))), (machine.at("vault/./server"), true));
    fs::create_dir_all(machine.at("vault/sub")).unwrap();
    let (_, cwd, env) = started(json!({"command": "python3", "cwd": "sub", "env": {"PATH": "/mine"}}));
    assert_eq!((cwd, env["PATH"].as_str()), (machine.at("vault/sub"), "/mine"));

    let shown = |entry: Value| {
        let spec = machine.spec(entry);
        machine.with(|launch| resolved_program(&spec, launch)).map_err(|error| error.to_string())
    };
    assert_eq!(shown(json!({"command": "python3"})), Ok(Some(machine.at("bin/python3"))));
    assert_eq!(shown(json!({"url": "https://a.example"})), Ok(None));
    let error = shown(json!({"command": "none"})).unwrap_err();
    assert!(error.starts_with("tool server weather requires the program \"none\", which was not found"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_sandbox_hides_what_is_ours() {
    let machine = Machine::new("");
    let granted = Sandbox { folders: vec![machine.at("vault")], ..Sandbox::default() };
    let config = machine.config(json!({"command": "python3"}), Some(granted)).unwrap();
    let sandbox = config.sandbox.unwrap();
    for path in ["cache", "state", "vault/.foreword"] {
        assert!(sandbox.hidden.contains(&machine.at(path)), "{path}: {:?}", sandbox.hidden);
    }
    let foreword_tools::Transport::Stdio { cwd, .. } = config.transport else { panic!("over HTTP") };
    assert_eq!(sandbox.folders, [machine.at("vault"), cwd]);
}

//! Checks everything a session needs and gives advice. Nothing is changed or paid for, and no key is shown.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use foreword_models::weights::{MINILM, SMOLLM2, Weights};
use foreword_provider::client::{Client, ClientConfig, KeySource, Retry, SendError, Timeouts};
use foreword_store::{Sqlite, Store as _};
use foreword_vault::agents::{self, OnDisk, Transport};
use serde::Serialize;

use crate::config::{Config, Provider, Server};
use crate::vault;
use foreword_trust::VaultTrust;
use foreword_trust::places::Places;

/// The time limit for a provider.
const PATIENCE: Duration = Duration::from_secs(5);
/// Stores up to this size are checked completely; for larger ones there is `foreword verify`.
const QUICK_BYTES: u64 = 64 << 20;
/// The number of vault problems to list.
const MOST_PROBLEMS: usize = 5;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No problem.
    Ok,
    /// It works with limitations.
    Warn,
    /// It does not work.
    Fail,
}

/// A check and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked: `model`, `provider`, `store` …
    pub area: &'static str,
    /// Its name.
    pub name: String,
    /// The result.
    pub verdict: Verdict,
    /// Details.
    pub found: String,
    /// What to do.
    pub advice: Option<String>,
}

impl Check {
    /// A check without problems.
    pub fn ok(area: &'static str, name: impl Into<String>, found: impl Into<String>) -> Self {
        Self { area, name: name.into(), verdict: Verdict::Ok, found: found.into(), advice: None }
    }

    /// A check with limitations.
    pub fn warn(area: &'static str, name: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warn, advice: Some(advice.into()), ..Self::ok(area, name, found) }
    }

    /// A failed check.
    pub fn fail(area: &'static str, name: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, ..Self::warn(area, name, found, advice) }
    }
}

/// Whether providers are contacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Yes, with a request for their list of models.
    Asked,
    /// No.
    LeftAlone,
}

/// What to check.
pub struct Patient<'a> {
    /// The user's configuration.
    pub config: &'a Config,
    /// The program's folders.
    pub places: &'a Places,
    /// The vault.
    pub vault: &'a Path,
    /// The folders to search for programs (`PATH`).
    pub path: Option<&'a OsStr>,
    /// Whether an environment variable is set.
    pub is_set: &'a dyn Fn(&str) -> bool,
    /// Whether providers are contacted.
    pub network: Network,
}

impl Patient<'_> {
    /// Runs all checks; `each` receives each result at once.
    pub fn examine(&self, each: &mut dyn FnMut(Check)) {
        each(self.cache());
        for (weights, use_of_it) in [(&MINILM, "semantic search"), (&SMOLLM2, "the embedded small model")] {
            each(self.weights(weights, use_of_it));
        }
        each(self.model());
        for provider in self.config.providers().filter(|provider| self.is_used(provider)) {
            each(self.provider(provider));
        }
        self.vault(each);
        self.servers(each);
        each(self.store());
    }

    fn cache(&self) -> Check {
        let (area, name) = ("cache", self.places.cache.display().to_string());
        let written = std::fs::create_dir_all(&self.places.cache).and_then(|()| tempfile::tempfile_in(&self.places.cache));
        match written {
            Ok(_) => Check::ok(area, name, "writable"),
            Err(error) => {
                let advice = "make it writable, or set FOREWORD_CACHE to another folder; without a cache, vaults are indexed again every time";
                Check::fail(area, name, format!("not writable: {error}"), advice)
            }
        }
    }

    fn weights(&self, weights: &Weights, use_of_it: &str) -> Check {
        let (area, name) = ("weights", weights.name);
        let Some(folder) = weights.present(&self.places.models) else {
            let advice = format!("required for {use_of_it}; download it with `foreword models fetch --all`");
            return Check::warn(area, name, "not downloaded", advice);
        };
        let again = || format!("remove {} and run `foreword models fetch --all`", folder.display());
        match weights.damaged(&folder) {
            Ok(None) => Check::ok(area, name, "downloaded, no errors"),
            Ok(Some(file)) => {
                Check::fail(area, name, format!("{file} is damaged: it does not match the published file"), again())
            }
            Err(error) => Check::fail(area, name, format!("cannot read it: {error}"), again()),
        }
    }

    /// The default model.
    fn model(&self) -> Check {
        let area = "model";
        match self.config.choose(None, Server::default()) {
            Err(error) => {
                let name = self.config.model.clone().unwrap_or_default();
                Check::fail(area, name, error.to_string(), "fix `model` in the configuration")
            }
            Ok(chosen) if chosen.client.is_none() => {
                let here = SMOLLM2.present(&self.places.models).is_some();
                let found = "default model; nothing leaves this machine";
                if here {
                    Check::ok(area, chosen.model.name, found)
                } else {
                    Check::warn(area, chosen.model.name, format!("{found}; not downloaded yet"), "it is downloaded on first use")
                }
            }
            Ok(chosen) if chosen.is_assumed => {
                let found = format!("default model; assuming a context window of {} tokens", chosen.model.window);
                let advice = format!("set it in the configuration: [models.\"{}\"] window = …", chosen.model.name);
                Check::warn(area, chosen.model.name, found, advice)
            }
            Ok(chosen) => Check::ok(area, chosen.model.name, "default model"),
        }
    }

    /// Whether the provider is in use: it is configured, its key is in the environment, or it has the default model.
    fn is_used(&self, provider: &Provider) -> bool {
        let default = self.config.choose(None, Server::default()).ok();
        let is_default = default.is_some_and(|chosen| {
            chosen.client.is_some_and(|client| client.base_url == provider.base_url && client.key == provider.key)
        });
        provider.is_configured || is_default || matches!(&provider.key, KeySource::Env(name) if (self.is_set)(name))
    }

    fn provider(&self, provider: &Provider) -> Check {
        let (area, name) = ("provider", provider.name.as_str());
        let short = Timeouts { connect: PATIENCE, begin: PATIENCE, idle: PATIENCE, total: PATIENCE };
        let retry = Retry { tries: 1, ..Retry::default() };
        let config = ClientConfig { timeouts: short, retry, ..provider.client(provider.dialect) };
        let client = match Client::new(config) {
            Ok(client) => client,
            Err(error) => return Check::fail(area, name, error.to_string(), "fix it in the configuration"),
        };
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return Check::fail(area, name, format!("cannot connect: {error}"), "check the system's limits"),
        };
        let key = match runtime.block_on(client.has_key()) {
            Err(error) => return Check::fail(area, name, error.to_string(), "the provider cannot be used without a key"),
            Ok(true) => "API key found",
            Ok(false) => "no API key required",
        };
        if self.network == Network::LeftAlone {
            return Check::ok(area, name, format!("{key}; not contacted"));
        }
        let asked = runtime.block_on(async { tokio::time::timeout(PATIENCE, client.reach()).await });
        match asked {
            Ok(Ok(())) => Check::ok(area, name, format!("{key}; reachable")),
            Ok(Err(SendError::Refused { refusal, .. })) if matches!(refusal.status, Some(401 | 403)) => {
                Check::fail(area, name, format!("it rejects the API key: {refusal}"), "check the key and its permissions")
            }
            // It is there; not every server has a list of models.
            Ok(Err(SendError::Refused { refusal, .. })) => {
                Check::ok(area, name, format!("{key}; reachable (status {})", refusal.status.unwrap_or_default()))
            }
            Ok(Err(error)) if provider.is_local() => {
                Check::fail(area, name, error.to_string(), "start the server, or fix its `base_url`")
            }
            Ok(Err(error)) => Check::fail(area, name, error.to_string(), "use --offline to skip providers"),
            Err(_) => {
                let found = format!("no answer within {} seconds", PATIENCE.as_secs());
                Check::fail(area, name, found, "check the connection and its `base_url`")
            }
        }
    }

    fn vault(&self, each: &mut dyn FnMut(Check)) {
        let (area, name) = ("vault", self.vault.display().to_string());
        let vault = match vault::open(self.vault, self.places) {
            Ok(vault) => vault,
            Err(error) => return each(Check::fail(area, name, error.to_string(), "give the folder of your notes")),
        };
        each(Check::ok(
            area,
            name,
            match vault.notes().len() {
                1 => "1 note can be read".to_owned(),
                notes => format!("{notes} notes can be read"),
            },
        ));
        let problems = vault.problems();
        for problem in problems.iter().take(MOST_PROBLEMS) {
            each(Check::warn(area, &*problem.path, &*problem.what, "fix the file; the rest of it is used"));
        }
        if problems.len() > MOST_PROBLEMS {
            let more = format!("{} more problems", problems.len() - MOST_PROBLEMS);
            each(Check::warn(area, "notes", more, "list all of them with `foreword index`"));
        }
    }

    /// The programs of the agents' tool servers.
    fn servers(&self, each: &mut dyn FnMut(Check)) {
        let Ok(files) = OnDisk::new(self.vault) else { return };
        for found in agents::list(&files) {
            let loaded = agents::load(&files, &found);
            for problem in &loaded.problems {
                each(Check::warn("agent", &*problem.file, &*problem.what, "fix the file; the rest of it is used"));
            }
            for server in &loaded.servers {
                let name = format!("{}/{}", found.name, server.name);
                each(match &server.transport {
                    Transport::Http { .. } => Check::ok("server", name, "HTTP; not contacted"),
                    Transport::Stdio { command, .. } if self.is_program(command) => {
                        Check::ok("server", name, format!("program {command} found; not started"))
                    }
                    Transport::Stdio { command, .. } => {
                        let advice = "install it, or set its full path in the agent's mcp.json";
                        Check::fail("server", name, format!("program {command} not found"), advice)
                    }
                });
            }
        }
    }

    fn is_program(&self, command: &str) -> bool {
        let command = Path::new(command);
        if command.components().count() > 1 {
            return self.vault.join(command).is_file();
        }
        let folders = self.path.map(std::env::split_paths).into_iter().flatten();
        let endings: &[&str] = if cfg!(windows) { &["", "exe", "cmd", "bat"] } else { &[""] };
        folders
            .flat_map(|folder| endings.iter().map(move |ending| folder.join(command).with_added_extension(ending)))
            .any(|file| file.is_file())
    }

    fn store(&self) -> Check {
        let state = VaultTrust::open_or_restricted(self.places, self.vault).state();
        let file = state.store();
        let (area, name) = ("store", file.display().to_string());
        let Ok(facts) = std::fs::metadata(&file) else {
            if state.outside {
                let found = "used instead of the vault's .foreword folder, which came with the vault (copied, unpacked or created by someone else)";
                return Check::warn(area, name, found, "review it with `foreword trust`");
            }
            return Check::ok(area, name, "not created yet; the first question creates it");
        };
        let store = match Sqlite::open_existing(&file) {
            Ok(store) => store,
            Err(error) => {
                return Check::fail(
                    area,
                    name,
                    error.to_string(),
                    "use `foreword backup` and `foreword import` to move sessions to a new store",
                );
            }
        };
        if store.is_read_only() {
            return Check::fail(area, name, "read-only: new messages are not stored", "make the file and its folder writable");
        }
        let sessions = match store.sessions() {
            Ok(sessions) if sessions.len() == 1 => "1 session".to_owned(),
            Ok(sessions) => format!("{} sessions", sessions.len()),
            Err(error) => return Check::fail(area, name, error.to_string(), "see `foreword verify`"),
        };
        if facts.len() > QUICK_BYTES {
            return Check::ok(area, name, format!("{sessions}; check it with `foreword verify`"));
        }
        match store.check() {
            Ok(faults) if faults.is_empty() => Check::ok(area, name, format!("{sessions}, no errors")),
            Ok(faults) => Check::fail(area, name, format!("{} faults", faults.len()), "see `foreword verify`"),
            Err(error) => Check::fail(area, name, error.to_string(), "see `foreword verify`"),
        }
    }
}

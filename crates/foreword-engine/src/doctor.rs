//! Looks at everything that a session needs and says what is missing and what to do about it. Nothing is changed, nothing is paid for, and
//! no key is shown.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use foreword_models::weights::{MINILM, SMOLLM2, Weights};
use foreword_provider::client::{Client, ClientConfig, KeySource, Retry, SendError, Timeouts};
use foreword_store::{Sqlite, Store as _};
use foreword_vault::agents::{self, OnDisk, Transport};
use serde::Serialize;

use crate::config::{Config, Provider, Server};
use crate::places::Places;
use crate::trust::VaultTrust;
use crate::vault;

/// So long a provider may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(5);
/// A store up to this size is looked at whole; for a larger one there is `foreword verify`.
const QUICK_BYTES: u64 = 64 << 20;
/// So many problems of a vault are told one by one.
const MOST_PROBLEMS: usize = 5;

/// How something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It works, but someone should know.
    Warn,
    /// It does not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What kind of thing: `model`, `provider`, `store` …
    pub area: &'static str,
    /// Which one.
    pub name: String,
    /// How it was found.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub advice: Option<String>,
}

impl Check {
    /// It is as it should be.
    pub fn ok(area: &'static str, name: impl Into<String>, found: impl Into<String>) -> Self {
        Self { area, name: name.into(), verdict: Verdict::Ok, found: found.into(), advice: None }
    }

    /// It works, but someone should know.
    pub fn warn(area: &'static str, name: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warn, advice: Some(advice.into()), ..Self::ok(area, name, found) }
    }

    /// It does not work.
    pub fn fail(area: &'static str, name: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, ..Self::warn(area, name, found, advice) }
    }
}

/// Whether providers are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Yes, for their list of models.
    Asked,
    /// No.
    LeftAlone,
}

/// What is looked at.
pub struct Patient<'a> {
    /// The user's configuration.
    pub config: &'a Config,
    /// The folders of this machine.
    pub places: &'a Places,
    /// A vault.
    pub vault: &'a Path,
    /// The folders that programs are looked for in.
    pub path: Option<&'a OsStr>,
    /// Whether a variable of the environment is set.
    pub is_set: &'a dyn Fn(&str) -> bool,
    /// Whether providers are asked.
    pub network: Network,
}

impl Patient<'_> {
    /// Looks at everything; `each` is told as soon as something is known.
    pub fn examine(&self, each: &mut dyn FnMut(Check)) {
        each(self.cache());
        for (weights, use_of_it) in [(&MINILM, "searching by meaning"), (&SMOLLM2, "the model that comes with Foreword")] {
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
            Ok(_) => Check::ok(area, name, "can be written to"),
            Err(error) => {
                let advice =
                    "make it writable, or name another folder with FOREWORD_CACHE; without it nothing made from a vault is kept";
                Check::fail(area, name, format!("cannot be written to: {error}"), advice)
            }
        }
    }

    fn weights(&self, weights: &Weights, use_of_it: &str) -> Check {
        let (area, name) = ("weights", weights.name);
        let Some(folder) = weights.present(&self.places.models) else {
            let advice = format!("`foreword models fetch --all` fetches it; it is needed for {use_of_it}");
            return Check::warn(area, name, "is not here", advice);
        };
        let again = || format!("remove {} and run `foreword models fetch --all`", folder.display());
        match weights.damaged(&folder) {
            Ok(None) => Check::ok(area, name, "is here and whole"),
            Ok(Some(file)) => {
                Check::fail(area, name, format!("{file} is damaged: its content is not the published one"), again())
            }
            Err(error) => Check::fail(area, name, format!("cannot be read: {error}"), again()),
        }
    }

    /// The model that answers where none is named.
    fn model(&self) -> Check {
        let area = "model";
        match self.config.choose(None, Server::default()) {
            Err(error) => {
                let name = self.config.model.clone().unwrap_or_default();
                Check::fail(area, name, error.to_string(), "correct `model` in the configuration")
            }
            Ok(chosen) if chosen.client.is_none() => {
                let here = SMOLLM2.present(&self.places.models).is_some();
                let found = "answers where no other is named; nothing leaves this machine";
                if here {
                    Check::ok(area, chosen.model.name, found)
                } else {
                    Check::warn(
                        area,
                        chosen.model.name,
                        format!("{found}, but it is not here yet"),
                        "it is fetched when it is first used",
                    )
                }
            }
            Ok(chosen) if chosen.is_assumed => {
                let found =
                    format!("answers where no other is named; its window is assumed to be {} tokens", chosen.model.window);
                let advice = format!("say it in the configuration: [models.\"{}\"] window = …", chosen.model.name);
                Check::warn(area, chosen.model.name, found, advice)
            }
            Ok(chosen) => Check::ok(area, chosen.model.name, "answers where no other is named"),
        }
    }

    /// Whether someone means to use it: it is configured, its key is in the environment, or the default model is there.
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
            Err(error) => return Check::fail(area, name, error.to_string(), "correct it in the configuration"),
        };
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return Check::fail(area, name, format!("cannot be asked: {error}"), "see what the system lacks"),
        };
        let key = match runtime.block_on(client.has_key()) {
            Err(error) => return Check::fail(area, name, error.to_string(), "without a key it cannot be used"),
            Ok(true) => "its key is there",
            Ok(false) => "it needs no key",
        };
        if self.network == Network::LeftAlone {
            return Check::ok(area, name, format!("{key}; it was not asked"));
        }
        let asked = runtime.block_on(async { tokio::time::timeout(PATIENCE, client.reach()).await });
        match asked {
            Ok(Ok(())) => Check::ok(area, name, format!("{key}, and it answers")),
            Ok(Err(SendError::Refused { refusal, .. })) if matches!(refusal.status, Some(401 | 403)) => {
                Check::fail(area, name, format!("it answers, but refuses the key: {refusal}"), "check the key and what it may do")
            }
            // It is there; not every server has a list of models.
            Ok(Err(SendError::Refused { refusal, .. })) => {
                Check::ok(area, name, format!("{key}, and it answers (with {})", refusal.status.unwrap_or_default()))
            }
            Ok(Err(error)) if provider.is_local() => {
                Check::fail(area, name, error.to_string(), "start it, or correct its `base_url`")
            }
            Ok(Err(error)) => Check::fail(area, name, error.to_string(), "or say --offline to leave providers alone"),
            Err(_) => {
                let found = format!("it did not answer within {} seconds", PATIENCE.as_secs());
                Check::fail(area, name, found, "check the connection and its `base_url`")
            }
        }
    }

    fn vault(&self, each: &mut dyn FnMut(Check)) {
        let (area, name) = ("vault", self.vault.display().to_string());
        let vault = match vault::open(self.vault, self.places) {
            Ok(vault) => vault,
            Err(error) => return each(Check::fail(area, name, error.to_string(), "name the folder your notes are in")),
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
            each(Check::warn(area, &*problem.path, &*problem.what, "correct the file; the rest of it is used"));
        }
        if problems.len() > MOST_PROBLEMS {
            let more = format!("{} more problems", problems.len() - MOST_PROBLEMS);
            each(Check::warn(area, "notes", more, "`foreword index` lists all of them"));
        }
    }

    /// The programs of the agents' tool servers.
    fn servers(&self, each: &mut dyn FnMut(Check)) {
        let Ok(files) = OnDisk::new(self.vault) else { return };
        for found in agents::list(&files) {
            let loaded = agents::load(&files, &found);
            for problem in &loaded.problems {
                each(Check::warn("agent", &*problem.file, &*problem.what, "correct the file; the rest of it is used"));
            }
            for server in &loaded.servers {
                let name = format!("{}/{}", found.name, server.name);
                each(match &server.transport {
                    Transport::Http { .. } => Check::ok("server", name, "is reached over HTTP; it was not asked"),
                    Transport::Stdio { command, .. } if self.is_program(command) => {
                        Check::ok("server", name, format!("its program {command} is there; it was not started"))
                    }
                    Transport::Stdio { command, .. } => {
                        let advice = "install it, or give its whole path in the agent's mcp.json";
                        Check::fail("server", name, format!("its program {command} is not there"), advice)
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
                let found = "is used in place of the .foreword folder in the vault, which this user account did not make";
                return Check::warn(area, name, found, "`foreword trust` shows what is in it and asks");
            }
            return Check::ok(area, name, "is not there yet; the first question makes it");
        };
        let store = match Sqlite::open_existing(&file) {
            Ok(store) => store,
            Err(error) => {
                return Check::fail(
                    area,
                    name,
                    error.to_string(),
                    "`foreword backup` and `foreword import` bring sessions into a new one",
                );
            }
        };
        if store.is_read_only() {
            return Check::fail(area, name, "can only be read: nothing new is kept", "make it and its folder writable");
        }
        let sessions = match store.sessions() {
            Ok(sessions) if sessions.len() == 1 => "1 session".to_owned(),
            Ok(sessions) => format!("{} sessions", sessions.len()),
            Err(error) => return Check::fail(area, name, error.to_string(), "`foreword verify` tells more"),
        };
        if facts.len() > QUICK_BYTES {
            return Check::ok(area, name, format!("{sessions}; `foreword verify` looks at all of it"));
        }
        match store.check() {
            Ok(faults) if faults.is_empty() => Check::ok(area, name, format!("{sessions}, nothing broken")),
            Ok(faults) => Check::fail(area, name, format!("{} faults", faults.len()), "`foreword verify` names them"),
            Err(error) => Check::fail(area, name, error.to_string(), "`foreword verify` tells more"),
        }
    }
}

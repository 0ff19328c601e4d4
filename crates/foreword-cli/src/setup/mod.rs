//! `foreword setup`: five questions, then the configuration of Foreword and of the programs that can use it.

mod clients;
mod jsonc;
mod undo;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args as ClapArgs;
use etcetera::BaseStrategy as _;
use foreword_engine::config::{Config, KeySource, Server};
use foreword_engine::diff::unified;
use serde_json::json;

use crate::config;
use crate::paint::{Paint, note, shown, shown_lines};
use crate::places::{config_file, places};
use crate::terminal;
use clients::{Client, Entry, Home, configuration, on_path};
use undo::Written;

pub(crate) const LONG_ABOUT: &str = "\
Set Foreword up: five questions (the folder of notes, the model, where its key is, the editor, the agent programs), then it shows what it would \
change in which file, and writes it when you agree. It adds the MCP server to Claude Code, Codex, opencode, Zed and Cursor, and the ACP agent to Zed.

Everything else in those files stays as it is: comments, order, unknown keys. `foreword setup --undo` takes the last setup back.

Keys are never written anywhere: the configuration names the environment variable that holds the key.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword setup
  foreword setup --vault ~/Notes --clients claude-code,zed --yes
  foreword setup --vault ~/Notes --show zed
  foreword setup --undo
Exit codes: 0 done, or nothing to do; 1 nothing was written; 2 an argument or a file is wrong.";

/// Options of `foreword setup`. Each answers one of the questions.
#[derive(ClapArgs)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub(crate) struct Args {
    /// The folder of notes
    #[arg(long, value_name = "FOLDER")]
    vault: Option<PathBuf>,
    /// The model that answers; `none` leaves the configuration as it is
    #[arg(long)]
    model: Option<String>,
    /// The environment variable that holds the key of the model's provider
    #[arg(long, value_name = "VARIABLE")]
    key_env: Option<String>,
    /// The programs to configure, editors and agents; `none` for none [default: those that are found]
    #[arg(long, value_delimiter = ',', value_name = "CLIENT")]
    clients: Option<Vec<String>>,
    /// Let the programs change notes through the MCP server
    #[arg(long)]
    write: bool,
    /// Ask nothing: use the flags and the defaults, and write
    #[arg(long)]
    yes: bool,
    /// Show what would change, and write nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Print a program's configuration as setup writes it into an empty file, and write nothing
    #[arg(long, value_enum, value_name = "CLIENT", requires = "vault", conflicts_with_all = ["yes", "dry_run"])]
    show: Option<Client>,
    /// Take the last setup back
    #[arg(long, conflicts_with_all = ["vault", "model", "key_env", "clients", "write", "dry_run", "show"])]
    undo: bool,
    /// Print JSON: {"files": [{"file", "diff"}], "written": true or false}
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let state = places()?.state;
    if args.undo {
        return take_back(&state, args.json);
    }
    if let (Some(client), Some(vault)) = (args.show, &args.vault) {
        let entry = Entry { program: "foreword".to_owned(), vault: vault.display().to_string(), write: args.write };
        let text = client.with("", &entry).map_err(anyhow::Error::msg)?;
        write!(terminal::stdout(), "{}", text.trim_start())?;
        return Ok(ExitCode::SUCCESS);
    }
    let changes = changes(args)?;
    let diffs: Vec<(String, String)> = changes.iter().map(shown_change).collect();
    let mut out = terminal::stdout();
    if changes.is_empty() {
        note("everything is set up already");
    }
    if !args.json {
        for (file, diff) in &diffs {
            writeln!(out, "{}\n{}", Paint::stdout().with("1", shown(file)), shown_lines(diff))?;
        }
    }
    let agreed = !args.dry_run && !changes.is_empty() && (args.yes || agreed()?);
    if agreed {
        write_all(&state, &changes)?;
        note("done; `foreword setup --undo` takes it back. Restart the programs to let them read it");
    }
    if args.json {
        let files: Vec<_> = diffs.iter().map(|(file, diff)| json!({"file": file, "diff": diff})).collect();
        writeln!(out, "{}", json!({"files": files, "written": agreed}))?;
    }
    let is_fine = agreed || args.dry_run || changes.is_empty();
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The answers to the questions, and what they change.
fn changes(args: &Args) -> Result<Vec<Written>> {
    let base = etcetera::choose_base_strategy().context("Failed to find your home folder")?;
    let home = Home { home: base.home_dir().to_owned(), config: base.config_dir() };
    let here = std::env::current_dir().context("Failed to find the current folder")?;
    let vault = match &args.vault {
        Some(vault) => vault.clone(),
        None => answer(args, "1/5 Your folder of notes", &here.display().to_string())?.into(),
    };
    anyhow::ensure!(vault.is_dir(), "{} is not a folder; name your folder of notes with --vault", vault.display());
    let vault = vault.canonicalize().with_context(|| format!("Failed to open the folder {}", vault.display()))?;
    let Some(vault) = vault.to_str() else { bail!("the path {} is not Unicode", vault.display()) };

    let (file, _) = config_file()?;
    let own = undo::read(&file).with_context(|| format!("Failed to read {}", file.display()))?;
    let configured = config::load()?;
    let current = configured.model.clone().unwrap_or_else(|| "none".to_owned());
    let model = match &args.model {
        Some(model) => model.clone(),
        None => answer(args, "2/5 The model that answers (`none`: the configured one, or the included small one)", &current)?,
    };
    let model = (model != "none" && configured.model.as_deref() != Some(&model)).then_some(model);
    let chosen = configured.choose(model.as_deref(), Server { base_url: None, window: None })?;
    let variable = match chosen.client.as_ref().map(|client| &client.key) {
        Some(KeySource::Env(usual)) => {
            let variable = match &args.key_env {
                Some(variable) => variable.clone(),
                None => answer(args, "3/5 The environment variable with the key of its provider", usual)?,
            };
            if !config::is_set(&variable) {
                note(format!("{} is not set; set it before you ask this model", shown(&variable)));
            }
            (variable != *usual).then_some(variable)
        }
        _ => None,
    };
    let provider = model.as_deref().or(configured.model.as_deref()).and_then(|name| provider_of(&configured, name));
    if variable.is_some() && provider.is_none() {
        bail!("the provider of this model is not known; set its key in {}", file.display());
    }
    let mut changes = Vec::new();
    let before = own.clone().unwrap_or_default();
    let key = provider.as_deref().zip(variable.as_deref());
    let after = configuration(&before, model.as_deref(), key).map_err(anyhow::Error::msg)?;
    Config::read(&after).context("Failed to write the configuration: it would not be valid")?;
    if after != before {
        changes.push(Written { file, before: own, after });
    }

    let entry = Entry { program: program()?, vault: vault.to_owned(), write: args.write };
    for client in chosen_clients(args, &home)? {
        let file = client.file(&home);
        let before = undo::read(&file).with_context(|| format!("Failed to read {}", file.display()))?;
        let text = before.clone().unwrap_or_default();
        let changed = client.check(&text).and_then(|()| client.with(&text, &entry));
        match changed {
            Ok(after) if after == text => {}
            Ok(after) => changes.push(Written { file, before, after }),
            Err(why) => note(shown(&format!("{} is left as it is: {} cannot be read: {why}", client.name(), file.display()))),
        }
    }
    Ok(changes)
}

/// The provider of a model, for its key.
fn provider_of(config: &Config, model: &str) -> Option<String> {
    let listed = config.models(&|_| true);
    let known = listed.into_iter().find(|listed| listed.model.name == model).and_then(|listed| listed.provider);
    known.or_else(|| model.split_once('/').map(|(provider, _)| provider.to_owned()))
}

/// The programs to configure.
fn chosen_clients(args: &Args, home: &Home) -> Result<Vec<Client>> {
    if let Some(names) = &args.clients {
        return named(names);
    }
    let is_there = |client: &Client| {
        let has_file = client.file(home).exists();
        has_file || client.programs().iter().any(|program| on_path(program).is_some())
    };
    let mut chosen = Vec::new();
    let questions = [("4/5 Your editor", true), ("5/5 Your agent programs", false)];
    for (question, is_editor) in questions {
        let found: Vec<Client> =
            Client::ALL.into_iter().filter(|client| client.is_editor() == is_editor).filter(is_there).collect();
        let names: Vec<String> = found.iter().map(|client| value(*client)).collect();
        let usual = if names.is_empty() { "none".to_owned() } else { names.join(",") };
        let all: Vec<String> = Client::ALL.into_iter().filter(|client| client.is_editor() == is_editor).map(value).collect();
        let answer = answer(args, &format!("{question} ({}, or none)", all.join(", ")), &usual)?;
        let answer: Vec<String> = answer.split(',').map(|name| name.trim().to_owned()).collect();
        chosen.extend(named(&answer)?);
    }
    Ok(chosen)
}

fn value(client: Client) -> String {
    clap::ValueEnum::to_possible_value(&client).map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn named(names: &[String]) -> Result<Vec<Client>> {
    let names = names.iter().map(String::as_str).filter(|name| !matches!(*name, "none" | ""));
    let clients = names.map(|name| {
        let known = <Client as clap::ValueEnum>::from_str(name, true);
        let all = || Client::ALL.map(value).join(", ");
        known.map_err(|_| anyhow::anyhow!("unknown program {name:?}: expected {}, or none", all()))
    });
    clients.collect()
}

/// How the programs start Foreword.
fn program() -> Result<String> {
    let own = std::env::current_exe().context("Failed to find this program")?;
    let same = |found: PathBuf| found.canonicalize().ok() == own.canonicalize().ok();
    if on_path("foreword").is_some_and(same) {
        return Ok("foreword".to_owned());
    }
    own.to_str().map(str::to_owned).context("the path of this program is not Unicode")
}

/// Asks a question; without a terminal, or with `--yes`, the default is the answer.
fn answer(args: &Args, question: &str, usual: &str) -> Result<String> {
    if args.yes || args.dry_run || !io::stdin().is_terminal() {
        return Ok(usual.to_owned());
    }
    eprint!("{question} [{}]: ", shown(usual));
    terminal::stderr().flush()?;
    let mut line = String::new();
    if io::stdin().read_line(&mut line)? == 0 {
        bail!("nothing was written");
    }
    let line = line.trim();
    Ok(if line.is_empty() { usual.to_owned() } else { line.to_owned() })
}

fn agreed() -> Result<bool> {
    if !io::stdin().is_terminal() {
        note("nothing was written; use --yes to write it without a question");
        return Ok(false);
    }
    eprint!("Write this? [y/N] ");
    terminal::stderr().flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// A file and its change as a diff.
fn shown_change(change: &Written) -> (String, String) {
    let file = change.file.display().to_string();
    let before = change.before.as_deref().unwrap_or_default();
    let diff = unified(before, &change.after, &file);
    (file, diff.unwrap_or_else(|| "(too large to be shown)".to_owned()))
}

/// Writes all files, if each is still as it was read.
fn write_all(state: &Path, changes: &[Written]) -> Result<()> {
    undo::remember(state, changes).context("Failed to remember what is changed, so nothing was written")?;
    for Written { file, before, after } in changes {
        let now = undo::read(file).with_context(|| format!("Failed to read {}", file.display()))?;
        if now != *before {
            bail!("{} was changed meanwhile and is left as it is; run `foreword setup` again", file.display());
        }
        undo::replace(file, after).with_context(|| format!("Failed to write {}", file.display()))?;
    }
    Ok(())
}

/// Takes the last setup back.
fn take_back(state: &Path, as_json: bool) -> Result<ExitCode> {
    let written = undo::last(state).context("Failed to read what the last setup wrote")?;
    if written.is_empty() {
        note("there is no setup to take back");
        return Ok(ExitCode::SUCCESS);
    }
    let mut left = Vec::new();
    for one in &written {
        let file = one.file.display().to_string();
        match undo::restore(one) {
            Ok(()) if !as_json => writeln!(terminal::stdout(), "restored {}", shown(&file))?,
            Ok(()) => {}
            Err(why) => {
                note(shown(&format!("{file} is left as it is: {why}")));
                left.push(file);
            }
        }
    }
    if left.is_empty() {
        undo::forget(state).context("Failed to forget the last setup")?;
    }
    if as_json {
        let restored = written.iter().map(|one| one.file.display().to_string()).filter(|file| !left.contains(file));
        writeln!(terminal::stdout(), "{}", json!({"restored": restored.collect::<Vec<_>>(), "left": left}))?;
    }
    Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! `foreword what-if`: a stored session under other settings.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use foreword_engine::config::Server;
use foreword_engine::session::{Point, Store};
use foreword_simulate::stored::{Account, Otherwise, StoredError, WhatIf, what_if};

use crate::kept::Vault;
use crate::paint::{Paint, count, grouped, note, one_line, shown};
use crate::places::places;
use crate::settings::SettingsArgs;
use crate::table::{money, percent};
use crate::terminal;
use crate::{clients, config};

pub(crate) const LONG_ABOUT: &str = "\
Run a stored session again with other settings and compare the cost with the actual cost. Nothing is sent: questions, \
answers and tool outputs come from the store, and the provider's cache is simulated by its published rules.

\"As it was\" is the usage that the provider reported. Side requests (plans, summaries) are in \
neither column. No new summaries are written: a managed history uses the stored ones.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword what-if last --layout library             the other layout
  foreword what-if last --budget 8000 --history strip
  foreword what-if 3f2a --model claude-sonnet-5      another model's prices and cache
  foreword what-if --all --layout library            every session of the vault, one per line
  foreword what-if CLIENT_SESSION                    a gateway client's session at the levels observe and assist
  foreword what-if last --set budget.low_water=0.4 --json
Exit codes: 0 success; 1 a request would not have fitted its budget; 2 an argument or the session is wrong.";

/// Options of `foreword what-if`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The session: its ID, a prefix of it, or `last`
    #[arg(required_unless_present = "all")]
    session: Option<Point>,
    /// All sessions of the vault
    #[arg(long, conflicts_with = "session")]
    all: bool,
    /// The model for the whole session
    #[arg(long)]
    model: Option<String>,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    vault: Vault,
    /// Print one JSON object per session
    #[arg(long)]
    json: bool,
}

/// The settings that the flags change.
pub(crate) fn otherwise(settings: &SettingsArgs, model: Option<&str>) -> Result<Otherwise> {
    let config = config::load()?;
    let model = model.map(|name| config.choose(Some(name), Server::default())).transpose()?;
    Ok(Otherwise { settings: settings.read()?, model: model.map(|chosen| chosen.model) })
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let store = args.vault.store()?;
    let models: PathBuf = places()?.models;
    let otherwise = otherwise(&args.settings, args.model.as_deref())?;
    if let Some(point) = &args.session
        && let Some(client) = clients::meant(&store, point)?
    {
        return clients::what_if(&store, &client, otherwise.model.as_ref(), args.json);
    }
    let sessions = match &args.session {
        Some(point) => vec![point.session(&store)?],
        None => store.sessions()?.into_iter().map(|row| row.id).collect(),
    };
    let mut found = Vec::new();
    for session in &sessions {
        match what_if(&store, session, &otherwise, Some(&models)) {
            Ok(account) => found.push(account),
            // With `--all`, sessions without a request are skipped.
            Err(StoredError::Empty(_)) if args.all => {}
            Err(error) if args.all => note(shown(&format!("session {session} skipped: {error}"))),
            Err(error) => bail!(error),
        }
    }
    let paint = Paint::stdout();
    let mut out = terminal::stdout();
    if args.json {
        for account in &found {
            writeln!(out, "{}", serde_json::to_string(account)?)?;
        }
    } else if args.all {
        list(&mut out, paint, &found)?;
    } else {
        found.iter().try_for_each(|account| one(&mut out, paint, account))?;
    }
    let unsent = found.iter().any(|account| account.would_be.unsent > 0);
    Ok(ExitCode::from(u8::from(unsent)))
}

/// Column widths of the row's name and of the actual figures.
const NAME: usize = 16;
const WAS: usize = 26;

fn one(out: &mut impl Write, paint: Paint, found: &WhatIf) -> io::Result<()> {
    let title = found.title.as_deref().map(|title| one_line(title, 60)).unwrap_or_default();
    writeln!(out, "{}  {title}", paint.with("1", format!("session {}", found.session)))?;
    writeln!(out, "{}", paint.with("2", format!("{:<NAME$}{:<WAS$}what if", "", "as it was")))?;
    let (was, would) = (&found.was, &found.would_be);
    let rows: [(&str, [String; 2], String); 11] = [
        ("layout", [was, would].map(|one| one.layout.clone()), String::new()),
        ("model", [was, would].map(|one| one.model.clone()), String::new()),
        ("history", [was, would].map(|one| one.history.to_owned()), String::new()),
        ("budget", [was, would].map(|one| grouped(one.budget.0)), String::new()),
        ("requests", [was, would].map(|one| one.requests.to_string()), String::new()),
        (
            "prompt tokens",
            [was, would].map(|one| grouped(one.prompt_tokens)),
            change(was.prompt_tokens as f64, would.prompt_tokens as f64),
        ),
        ("from the cache", [was, would].map(|one| percent(one.cached_tokens, one.prompt_tokens)), String::new()),
        ("cost", [was, would].map(|one| money(one.cost)), change(was.cost, would.cost)),
        ("folds", [was, would].map(folds), String::new()),
        ("left out", [was, would].map(|one| one.left_out.len().to_string()), String::new()),
        ("did not fit", [was, would].map(|one| one.unsent.to_string()), String::new()),
    ];
    for (name, [was, would], change) in rows {
        let line = format!("{name:<NAME$}{:<WAS$}{:<18} {change}", shown(&was), shown(&would));
        writeln!(out, "{}", line.trim_end())?;
    }
    for (when, account) in [("as it was", was), ("what if", would)] {
        let items = account.left_out.iter().map(|out| format!("{} (turn {})", one_line(&out.item, 50), out.turn));
        let items: Vec<String> = items.take(MOST_NAMED).collect();
        if !items.is_empty() {
            let more = account.left_out.len().saturating_sub(items.len());
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            writeln!(out, "{}", paint.with("2", format!("left out, {when}: {}{more}", items.join(", "))))?;
        }
    }
    Ok(())
}

/// The largest number of left-out items to list.
const MOST_NAMED: usize = 12;

/// How many, and why: `3 (budget 2, asked 1)`.
fn folds(account: &Account) -> String {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for fold in &account.folds {
        match reasons.iter_mut().find(|(reason, _)| *reason == fold.reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((&fold.reason, 1)),
        }
    }
    let why: Vec<String> = reasons.iter().map(|(reason, count)| format!("{} {count}", reason.replace('_', " "))).collect();
    if why.is_empty() { "0".to_owned() } else { format!("{} ({})", account.folds.len(), why.join(", ")) }
}

/// How much more or less.
fn change(was: f64, would: f64) -> String {
    if was <= 0.0 {
        return String::new();
    }
    match ((would - was) / was * 100.0).round() {
        0.0 => "±0 %".to_owned(),
        percent => format!("{percent:+.0} %"),
    }
}

fn list(out: &mut impl Write, paint: Paint, all: &[WhatIf]) -> io::Result<()> {
    let head = format!(
        "{:<14}{:>9}{:>12}{:>12}{:>8}{:>9}{:>9}{:>14}{:>14}  about",
        "session", "requests", "cost was", "what if", "", "cached", "what if", "folds", "left out"
    );
    writeln!(out, "{}", paint.with("2", head))?;
    let mut sums = [Account::default(), Account::default()];
    for found in all {
        line(out, &found.session, &found.was, &found.would_be, found.title.as_deref().unwrap_or_default())?;
        for (sum, one) in sums.iter_mut().zip([&found.was, &found.would_be]) {
            sum.requests += one.requests;
            sum.prompt_tokens += one.prompt_tokens;
            sum.cached_tokens += one.cached_tokens;
            sum.cost += one.cost;
            sum.folds.extend(one.folds.iter().cloned());
            sum.left_out.extend(one.left_out.iter().cloned());
        }
    }
    let [was, would] = &sums;
    if all.len() == 1 { Ok(()) } else { line(out, "all", was, would, &count(all.len(), "session")) }
}

fn line(out: &mut impl Write, name: &str, was: &Account, would: &Account, about: &str) -> io::Result<()> {
    let both = |was: usize, would: usize| format!("{was} → {would}");
    writeln!(
        out,
        "{:<14}{:>9}{:>12}{:>12}{:>8}{:>9}{:>9}{:>14}{:>14}  {}",
        shown(&name.chars().take(12).collect::<String>()),
        was.requests,
        money(was.cost),
        money(would.cost),
        change(was.cost, would.cost),
        percent(was.cached_tokens, was.prompt_tokens),
        percent(would.cached_tokens, would.prompt_tokens),
        both(was.folds.len(), would.folds.len()),
        both(was.left_out.len(), would.left_out.len()),
        one_line(about, 50),
    )
}

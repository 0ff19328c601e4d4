//! `foreword inspect` and `foreword diff`: what a request contained and why, and where two requests differ.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use foreword_engine::manager::{View, why_none};
use foreword_engine::session::{
    CachedLayer, DiffError, Difference, Hash, Inspection, Point, SideRequest, Store, TurnCost, diff, dollars, inspect, saved,
    turn_cost, wire,
};

use crate::ask::{self, Keep};
use crate::clients;
use crate::kept::{Vault, moment};
use crate::paint::{Paint, count, grouped, note, one_line, shown, shown_lines};
use crate::summary;
use crate::templates;
use crate::terminal;

pub(crate) const LONG_ABOUT: &str = "\
Show what a past request contained: its layers with their hashes, sizes and cached tokens; each item and why it is included; what was \
left out and why. All of it is read from the store, not from the notes as they are now.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword inspect last --vault examples/vault       the last request of the last session
  foreword inspect bcd@2                             the last request of its second turn
  foreword inspect bcd@2.1 --wire | jq .             the exact bytes of that turn's first request
  foreword inspect last --verify                     renders it again and compares hashes
  foreword inspect last@2 --side 1 --wire            what the model was asked beside that turn, for a plan or a summary
Exit codes: 0 fine; 1 --verify found a difference; 2 no such session or request.";

pub(crate) const DIFF_AFTER_HELP: &str = "\
Examples:
  foreword diff last@1 last@2
  foreword diff bcd@3 fgh@3 --json
Exit codes: 0 the requests differ, or one continues the other; 1 they are equal; 2 no such session or request.";

/// Options of `foreword inspect`.
#[derive(ClapArgs)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// The request: SESSION, SESSION@TURN or SESSION@TURN.STEP
    at: Point,
    #[command(flatten)]
    vault: Vault,
    /// Print the exact bytes that were sent
    #[arg(long, conflicts_with_all = ["verify", "json"])]
    wire: bool,
    /// Render the request again and compare the hashes
    #[arg(long)]
    verify: bool,
    /// Show the session's summaries: what each check found, or why there is none
    #[arg(long, conflicts_with_all = ["verify", "wire"])]
    summaries: bool,
    /// Show what the model was asked beside the turn, by its number in the list: for a plan or a summary; with --wire, what was sent
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["verify", "summaries"])]
    side: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the summaries of a session, oldest first.
fn summaries(args: &Args, store: &impl Store) -> Result<ExitCode> {
    let rows = store.summaries(&args.at.session(store)?, usize::MAX)?;
    if rows.is_empty() {
        let kept = ask::go_on(&args.vault, &args.at, Keep::Nothing)?;
        note(shown(&why_none(kept.setup(), &templates::shelf(&args.vault.vault), kept.session())));
    }
    for row in rows {
        if args.json {
            writeln!(terminal::stdout(), "{}", serde_json::to_string(&row)?)?;
            continue;
        }
        println!("{}", Paint::stdout().with("1", format!("before input {}, {}", row.number, moment(row.at_ms))));
        let view = View::of(&row)?;
        view.summary.iter().flat_map(|summary| summary.lines()).for_each(|line| println!("{}", shown(line)));
        summary::show(&view);
        println!();
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let store = args.vault.store()?;
    if args.summaries {
        return summaries(args, &store);
    }
    if let Some(client) = clients::meant(&store, &args.at)? {
        return clients::inspect(&store, &client, &args.at, args.wire, args.json);
    }
    let (session, request) = args.at.request(&store)?;
    let mut out = terminal::stdout();
    let inspection = inspect(&store, &session, request)?;
    let turn = turn_cost(&store, &session, inspection.turn)?;
    if let Some(number) = args.side {
        let Some(side) = number.checked_sub(1).and_then(|at| turn.side_requests.get(at)) else {
            let asked = count(turn.side_requests.len(), "side request");
            bail!("turn {} of {session} has {asked}; there is no number {number}", inspection.turn);
        };
        show_side(&mut out, side, args)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.wire {
        out.write_all(&wire(&store, &session, request)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let at = Point::of_request(&store, &session, request)?;
    if args.json {
        let mut value = serde_json::to_value(&inspection)?;
        value["at"] = at.to_string().into();
        value["turn_cost"] = serde_json::to_value(&turn)?;
        writeln!(out, "{value}")?;
    } else if args.verify {
        let what =
            if inspection.verified { "matches the bytes that were sent" } else { "DOES NOT match the bytes that were sent" };
        writeln!(out, "{at} {what}: sha256 {}", inspection.wire_sha256)?;
    } else {
        show(&mut out, &inspection, &at, &turn)?;
    }
    Ok(ExitCode::from(u8::from(args.verify && !inspection.verified)))
}

fn show_side(out: &mut impl Write, side: &SideRequest, args: &Args) -> Result<()> {
    if args.wire {
        out.write_all(side.body.as_bytes())?;
    } else if args.json {
        let mut value = serde_json::to_value(side)?;
        value["body"] = side.body.as_str().into();
        value["answer"] = side.answer.as_str().into();
        writeln!(out, "{value}")?;
    } else {
        writeln!(out, "{}  {}", Paint::stdout().with("1", side_line(side)), moment(side.at_ms))?;
        writeln!(out, "\n{}\n\n{}", shown_lines(&side.body), shown_lines(&side.answer))?;
        writeln!(out, "\nwire sha256 {}", Hash::of(&side.body))?;
    }
    Ok(())
}

/// What was asked beside a turn, on one line.
fn side_line(side: &SideRequest) -> String {
    let questions = if side.questions > 1 { format!(" ({} questions)", side.questions) } else { String::new() };
    let outcome = side.error.as_ref().map(|error| format!(", no use: {}", one_line(error, 80))).unwrap_or_default();
    format!(
        "{}{questions}, by {}: {} tokens, {} cached, {} in reply, {}{outcome}",
        shown(&side.purpose),
        shown(&side.model),
        grouped(side.tokens),
        grouped(side.cached),
        grouped(side.output),
        dollars(side.cost)
    )
}

/// A request with all that it held, and what its turn took.
pub(crate) fn show(out: &mut impl Write, found: &Inspection, at: &Point, turn: &TurnCost) -> io::Result<()> {
    let paint = Paint::stdout();
    let began = found.began.as_ref().map(|reason| format!(", began by {}", shown(reason))).unwrap_or_default();
    let step = at.step.unwrap_or(1);
    let head = format!("{at}: turn {}, request {step} of {}", found.turn, turn.requests);
    writeln!(out, "{}  {}", paint.with("1", head), moment(found.at_ms))?;
    writeln!(
        out,
        "{} ({}), {} layout, epoch {}{began}",
        shown(&found.model),
        <&str>::from(found.provider),
        shown(&found.layout),
        found.epoch
    )?;
    writeln!(out, "{} of {} tokens, counted before sending", grouped(found.tokens), grouped(found.budget.0))?;
    if let Some(usage) = &found.usage {
        let by_cache = saved(usage.cost_uncached - usage.cost);
        let times = usage.total_ms.map(|ms| format!(", {ms} ms")).unwrap_or_default();
        writeln!(
            out,
            "{} counted by the provider: {} cached, {} written; {} in reply, {}, {by_cache}{times}",
            grouped(usage.read + usage.write + usage.uncached),
            grouped(usage.read),
            grouped(usage.write),
            grouped(usage.output),
            dollars(usage.cost)
        )?;
        if let Some(broke) = &usage.broke {
            let text = |name: &str| broke.get(name).and_then(|value| value.as_str()).unwrap_or("-").to_owned();
            writeln!(
                out,
                "{}",
                paint.with(
                    "33",
                    format!("cache break: {} at {} ({})", shown(&text("cause")), shown(&text("path")), shown(&text("item")))
                )
            )?;
        }
    }
    for (number, side) in (1..).zip(&turn.side_requests) {
        writeln!(out, "side request {number}: {} (`--side {number}` shows it)", side_line(side))?;
    }
    if turn.requests > 1 || !turn.side_requests.is_empty() {
        writeln!(out, "{}", turn_line(turn))?;
    }
    contents(out, found)?;
    let verified = if found.verified { "rendered again: identical" } else { "rendered again: NOT identical" };
    writeln!(out, "\nwire sha256 {} ({verified})", found.wire_sha256)
}

/// What a turn took in all.
fn turn_line(turn: &TurnCost) -> String {
    let requests = count(usize::try_from(turn.requests).unwrap_or(usize::MAX), "request");
    let side = match turn.side_requests.len() {
        0 => String::new(),
        number => format!(" and {}", count(number, "side request")),
    };
    format!("the turn took {requests}{side}: {}", dollars(turn.cost))
}

/// The layers and items of a request, and what was left out.
pub(crate) fn contents(out: &mut impl Write, found: &Inspection) -> io::Result<()> {
    let paint = Paint::stdout();
    writeln!(out, "\n{}", paint.with("2", "layer         tokens  cached  sha256"))?;
    for CachedLayer { id, tokens, cached, sha256, segments } in &found.layers {
        let cached = cached.map_or("-".to_owned(), |cached| cached.to_string());
        writeln!(out, "{id:<12}  {:>6}  {cached:>6}  {}", tokens.0, sha256.short())?;
        let shows = segments.iter().filter(|segment| segment.id != "engine:heading");
        for segment in shows {
            writeln!(
                out,
                "  {}",
                paint.with(
                    "2",
                    format!("{:>10}  {:>6}  {}  {}", segment.tokens.0, "", segment.sha256.short(), one_line(&segment.id, 70))
                )
            )?;
        }
    }
    writeln!(out, "\n{}", paint.with("2", "item                               include  score  layer       form       tokens"))?;
    for entry in &found.context {
        let score = entry.score.map_or("-".to_owned(), |score| format!("{score:.2}"));
        let layer = entry.layer.map_or("TOOLS", |layer| layer.as_str());
        let (include, form) = (entry.include.as_str().to_owned(), format!("{:?}", entry.form).to_lowercase());
        writeln!(
            out,
            "{:<33}  {include:<7}  {score:>5}  {layer:<10}  {form:<9}  {:>6}",
            one_line(&entry.item.to_string(), 33),
            entry.tokens.0
        )?;
    }
    if !found.left_out.is_empty() {
        writeln!(out, "\n{}", paint.with("2", "left out                           score  why"))?;
        for left_out in &found.left_out {
            let score = left_out.score.map_or("-".to_owned(), |score| format!("{score:.2}"));
            let why = serde_json::to_value(left_out.reason).ok().and_then(|reason| Some(reason.as_str()?.replace('_', " ")));
            writeln!(out, "{:<33}  {score:>5}  {}", one_line(&left_out.item.to_string(), 33), why.unwrap_or_default())?;
        }
    }
    for note in &found.notes {
        writeln!(out, "{}", paint.with("2", format!("{}: {}", shown(&note.kind), one_line(&note.text, 120))))?;
    }
    Ok(())
}

/// Options of `foreword diff`.
#[derive(ClapArgs)]
pub(crate) struct DiffArgs {
    /// The earlier request: SESSION@TURN
    before: Point,
    /// The later request: SESSION@TURN
    after: Point,
    #[command(flatten)]
    vault: Vault,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn diff_main(args: &DiffArgs) -> Result<ExitCode> {
    let store = args.vault.store()?;
    if let (Some(before), Some(after)) = (clients::meant(&store, &args.before)?, clients::meant(&store, &args.after)?) {
        return clients::diff(&store, (&before, &args.before), (&after, &args.after), args.json);
    }
    let (before, after) = (args.before.request(&store)?, args.after.request(&store)?);
    let found = match diff(&store, (&before.0, before.1), (&after.0, after.1)) {
        Ok(found) => found,
        Err(error @ DiffError::Same) => {
            if args.json {
                let (before, after) =
                    (Point::of_request(&store, &before.0, before.1)?, Point::of_request(&store, &after.0, after.1)?);
                let same = serde_json::json!({"same": true, "before": before.to_string(), "after": after.to_string()});
                writeln!(terminal::stdout(), "{same}")?;
            } else {
                println!("{error}");
            }
            return Ok(ExitCode::from(1));
        }
        Err(DiffError::Store(error)) => bail!(error),
    };
    let mut out = terminal::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&found)?)?;
    } else {
        show_difference(&mut out, &found)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_difference(out: &mut impl Write, found: &Difference) -> io::Result<()> {
    if found.cause == "shortened" {
        return writeln!(out, "the first request continues the second: {} prompt bytes are equal", grouped(found.at_byte as u64));
    }
    let Some(path) = &found.path else {
        return writeln!(
            out,
            "the second request continues the first: {} prompt bytes are equal, {} tokens are new",
            grouped(found.at_byte as u64),
            grouped(found.tokens_new.0)
        );
    };
    let body = found.body_byte.map(|at| format!(", byte {at} of the body")).unwrap_or_default();
    writeln!(out, "the prompts differ after {} bytes{body}, at {path}", grouped(found.at_byte as u64))?;
    if let Some(item) = &found.item {
        let version = |hash: Option<Hash>| hash.map_or("none".to_owned(), |hash| hash.short());
        writeln!(out, "item       {} (Version {} before, {} after)", shown(item), version(found.before), version(found.after))?;
    }
    writeln!(out, "cause      {}", shown(&found.cause))?;
    writeln!(
        out,
        "lost       {} tokens, {}; new {} tokens",
        grouped(found.tokens_lost.0),
        dollars(found.cost_lost),
        grouped(found.tokens_new.0)
    )?;
    writeln!(out, "before     {}", one_line(&found.texts.0, 100))?;
    writeln!(out, "after      {}", one_line(&found.texts.1, 100))
}

//! `foreword ask`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use foreword_engine::Layout;
use foreword_engine::attach::{Pages, gather};
use foreword_engine::chats::Chats;
use foreword_engine::session::{
    Event, Kept, Outgoing, Point, Question, Script, Setup, Sqlite, TurnInput, library_of, new_session_id,
};
use foreword_engine::vault::{Vault, agent};
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::kept::{Vault as VaultArg, now_ms};
use crate::paint::{Paint, note, shown};
use crate::places::places;
use crate::tree::open;

pub(crate) const LONG_ABOUT: &str = "\
Ask a question about a folder of notes. The question, the request it led to and the answer are kept in the vault's store as they come, and \
the chat is also a markdown file in Foreword/Chats.

For now the answers come from a script (--script): a JSON file like {\"replies\": [{\"text\": \"Hello.\"}, {\"calls\": [{\"id\": \"a\", \"name\": \"read\", \"arguments\": {}}]}], \
\"tools\": {\"read\": \"what it gives back\"}}. A session takes its replies in order and begins again at the end.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword ask examples/vault \"Why was the loaf flat?\" --attach Bread --script examples/script.json
  foreword ask examples/vault \"And the next one?\" --session last --script examples/script.json
  foreword inspect last --vault examples/vault
Exit codes: 0 answered; 1 kept, but not answered; 2 the arguments, the vault or the session are wrong.";

/// Options of `foreword ask`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The folder of notes
    vault: PathBuf,
    /// The question; with --resume it may be left out
    words: Option<String>,
    /// Go on with this session: its name, the start of it, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<Point>,
    /// Answer a question that was kept without an answer
    #[arg(long, requires = "session", conflicts_with_all = ["words", "attach"])]
    resume: bool,
    /// Attach a note, a folder, a tag, lines, a page (see `foreword attach --help`)
    #[arg(long, value_name = "WHAT")]
    attach: Vec<String>,
    /// The model of a new session
    #[arg(long)]
    model: Option<String>,
    /// The layout of a new session
    #[arg(long, default_value = "log", value_parser = ["log", "library"])]
    layout: String,
    /// The agent of a new session: a folder or file in Foreword/Agents
    #[arg(long)]
    agent: Option<String>,
    /// Take the answers from this file
    #[arg(long, value_name = "FILE")]
    script: PathBuf,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let vault = open(&args.vault)?;
    let mut script = Script::read(&args.script)?;
    let place = VaultArg { vault: args.vault.clone() };
    let mut kept = match &args.session {
        Some(point) => go_on(&place, point)?,
        None => begin(args, &place)?,
    };
    let Some(words) = args.words.clone().or(args.resume.then(String::new)) else {
        bail!("a question is missing; or say --resume to answer the last one");
    };
    let mut attached = Vec::new();
    if !args.attach.is_empty() {
        let wanted = args.attach.iter().map(|what| vault.attachment(what)).collect::<Result<Vec<_>, _>>()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let gathered = runtime.block_on(gather(&vault, &wanted, &places()?, &Zoned::now(), Pages::Kept))?;
        gathered.problems.iter().for_each(|problem| note(shown(&problem.to_string())));
        attached = gathered.versions;
    }
    let turn = (!args.resume).then(|| TurnInput { words, attached, ..TurnInput::default() });
    run(&mut kept, turn, &vault, &mut script, args.json)
}

fn chats(root: &Path) -> Option<Chats> {
    match Chats::open(root, TimeZone::system()) {
        Ok(chats) => Some(chats),
        Err(error) => {
            note(format!("the chat is not written as markdown: {error}"));
            None
        }
    }
}

/// Opens a session that is there.
pub(crate) fn go_on(place: &VaultArg, point: &Point) -> Result<Kept> {
    let store = place.store()?;
    let id = point.session(&store)?;
    Ok(Kept::open(Box::new(store), &id, Some(&places()?.models), chats(&place.root()?))?)
}

fn begin(args: &Args, place: &VaultArg) -> Result<Kept> {
    let Some((agent, problems)) = agent(&place.root()?, args.agent.as_deref()) else {
        bail!("there is no agent {:?} in Foreword/Agents of this vault", args.agent.as_deref().unwrap_or_default());
    };
    for problem in &problems {
        note(shown(&problem.to_string()));
    }
    let layout = if args.layout == "library" { Layout::Library } else { Layout::Log };
    let id = new_session_id()?;
    let setup = Setup::new(&id, args.model.as_deref(), layout, agent.tools.len())?;
    let store = match place.make_store() {
        Ok(store) => store,
        Err(error) => {
            note(shown(&format!("{error:#}. The answer comes all the same, but this session is not kept")));
            Sqlite::in_memory()?
        }
    };
    Ok(Kept::begin(Box::new(store), &id, &agent, &setup, Some(&places()?.models), chats(&place.root()?), now_ms())?)
}

/// Carries a turn, or the rest of one, and shows it.
pub(crate) fn run(
    kept: &mut Kept,
    turn: Option<TurnInput>,
    vault: &Vault,
    script: &mut Script,
    as_json: bool,
) -> Result<ExitCode> {
    let answered = usize::try_from(kept.counts().requests).unwrap_or(0);
    script.skip(answered);
    kept.recall_prompt()?;
    if let Some((at_ms, prompt)) = kept.last_prompt() {
        script.remember(at_ms, prompt, &kept.setup().model);
    }
    let mut hands = script.hands();
    let paint = Paint::stderr();
    let mut last: Option<Outgoing> = None;
    let mut each = |event: Event<'_>| match event {
        Event::Request(outgoing) => last = Some(outgoing.clone()),
        Event::Part(part) if !as_json => {
            let safe: String =
                part.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect();
            let mut out = io::stdout().lock();
            // Whoever stopped reading still has everything in the store.
            let _ = out.write_all(safe.as_bytes()).and_then(|()| out.flush());
        }
        Event::Call(call) if !as_json => {
            eprintln!("{}", paint.with("2", format!("\n{}({})", shown(&call.name), shown(&call.arguments.to_string()))));
        }
        _ => {}
    };
    let outcome = match turn {
        Some(turn) => {
            let library = library_of(kept, vault, &Zoned::now())?;
            kept.send(Question { turn, library }, script, &mut hands, &now_ms, &mut each)
        }
        None => kept.go_on(script, &mut hands, &now_ms, &mut each),
    };
    kept.take_failures().iter().for_each(|failure| note(shown(&failure.0)));
    let said = match outcome {
        Ok(said) => said,
        Err(error) => {
            eprintln!("{} {error}", paint.with("31", "error:"));
            note(format!("the question is kept: foreword ask … --session {} --resume", kept.id()));
            return Ok(ExitCode::from(1));
        }
    };
    let usage = kept.store().ledger(kept.id())?;
    let (read, total) = usage.last().map_or((0, 0), |(_, usage)| (usage.read, usage.read + usage.write + usage.uncached));
    if as_json {
        let report = json!({"session": kept.id(), "turn": kept.session().turns(), "requests": said.requests, "text": said.text, "tokens": total, "cached": read, "stored": kept.is_stored()});
        writeln!(io::stdout(), "{report}")?;
    } else if said.requests == 0 {
        note("there was nothing to answer");
    } else {
        println!();
        let epoch = last.map_or(0, |outgoing| outgoing.envelope.epoch);
        let line =
            format!("session {}, turn {}, {total} tokens, {read} cached, epoch {epoch}", kept.id(), kept.session().turns());
        eprintln!("{}", paint.with("2", line));
    }
    Ok(ExitCode::SUCCESS)
}

//! `foreword sessions`: listing, searching and changing what is kept.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args as ClapArgs, Subcommand};
use foreword_engine::session::{
    Fork, Input, Kept, Point, SessionRow, Sqlite, Store, TurnInput, fork, new_session_id, replace_turn, rewind, transcript,
    turn_of, turns,
};
use serde_json::{Value, json};

use crate::answer::{self, Shown};
use crate::ask::{self, Keep, Opened};
use crate::clients;
use crate::equip::ToolArgs;
use crate::kept::{Vault, moment, now_ms};
use crate::model::{ModelArgs, stop};
use crate::paint::{Paint, note, one_line, shown};
use crate::terminal;
use crate::tree::open;

pub(crate) const AFTER_HELP: &str = "\
A session is named by its id, the start of it, or `last`; a turn of it by @ and a number from 1.

Examples:
  foreword sessions --vault examples/vault
  foreword sessions search \"sourdough\"
  foreword sessions show last
  foreword sessions fork last@2 --title \"another way\"
  foreword sessions rewind last@2
  foreword sessions edit last@2 \"What about rye?\" --script examples/script.json
  foreword sessions delete bcd --yes";

/// Options of `foreword sessions`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    vault: Vault,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// All sessions, the last used first (the default)
    List,
    /// Messages that hold all the words, also those that were folded away
    Search {
        /// What to look for
        words: String,
        /// How many at most
        #[arg(long, default_value_t = 20)]
        top: usize,
    },
    /// What was said, turn by turn
    Show {
        /// Which session
        session: Point,
    },
    /// Call a session something else
    Rename {
        /// Which session
        session: Point,
        /// What it is about
        title: String,
    },
    /// Begin a session beside another one that shares its turns up to one of them
    Fork {
        /// Which session, and after which turn: SESSION@TURN; without a turn, after its last
        at: Point,
        /// What it is about
        #[arg(long)]
        title: Option<String>,
    },
    /// Take a session back to the end of a turn; what came after it stays in the store until the session is deleted
    Rewind {
        /// Which session and turn: SESSION@TURN
        at: Point,
    },
    /// Say something else in an earlier turn and answer it anew
    Edit {
        /// Which session and turn: SESSION@TURN
        at: Point,
        /// The new words
        words: String,
        #[command(flatten)]
        model: ModelArgs,
    },
    /// Answer the last turn anew
    Regenerate {
        /// Which session
        session: Point,
        #[command(flatten)]
        model: ModelArgs,
    },
    /// Fold a session with its next turn: old runs become the summary
    Fold {
        /// Which session
        session: Point,
    },
    /// Take the last fold back with its next turn
    UndoFold {
        /// Which session
        session: Point,
    },
    /// Forget a session. Its markdown file stays
    Delete {
        /// Which session
        session: Point,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let mut store = args.vault.store()?;
    match args.command.as_ref().unwrap_or(&Command::List) {
        Command::List => list(&store, args.json)?,
        Command::Search { words, top } => search(&store, words, *top, args.json)?,
        Command::Show { session } => match clients::meant(&store, session)? {
            Some(client) => clients::show(&store, &client, args.json)?,
            None => show(&store, &session.session(&store)?, args.json)?,
        },
        Command::Rename { session, title } => {
            let title = one_line(title, 200);
            if title.is_empty() {
                bail!("a session is not called nothing");
            }
            let mut kept = ask::go_on(&args.vault, session, Keep::Everything)?;
            kept.rename(&title, now_ms());
            for failure in kept.take_failures() {
                note(shown(&failure.0));
            }
            done(args.json, kept.id(), &format!("is now called {title:?}"))?;
        }
        Command::Fork { at, title } => {
            let id = at.name(&store)?;
            let turns = at.turn.unwrap_or(turns(&store, &id)?.0);
            let new = Fork { id: new_session_id()?, title: title.clone(), created_ms: now_ms() };
            fork(&mut store, &id, turns, &new)?;
            done(args.json, &new.id, &format!("shares the first {turns} turns of {id}"))?;
        }
        Command::Rewind { at } => {
            let id = at.name(&store)?;
            let Some(turn) = at.turn else { bail!("say to which turn: {id}@TURN") };
            rewind(&mut store, &id, turn, now_ms())?;
            done(args.json, &id, &format!("goes on after turn {turn}"))?;
        }
        Command::Edit { at, words, model } => {
            let id = at.name(&store)?;
            let Some(turn) = at.turn else { bail!("say which turn: {id}@TURN") };
            let input = TurnInput { words: words.clone(), ..turn_of(&store, &id, turn)? };
            return again(args, store, &id, turn, input, model);
        }
        Command::Regenerate { session, model } => {
            let id = session.session(&store)?;
            let (turn, _) = turns(&store, &id)?;
            let input = turn_of(&store, &id, turn)?;
            return again(args, store, &id, turn, input, model);
        }
        Command::Fold { session } => tell(args, session, Input::Fold, "is folded with its next turn")?,
        Command::UndoFold { session } => tell(args, session, Input::UndoFold, "takes its last fold back with its next turn")?,
        Command::Delete { session, yes }
            if clients::meant(&store, session)?.is_some_and(|client| client.id == session.session) =>
        {
            if !yes {
                bail!("this deletes all records of the client's session {}; say --yes", session.session);
            }
            store.delete(&session.session)?;
            done(args.json, &session.session, "is deleted")?;
        }
        Command::Delete { session, yes } => {
            let id = session.session(&store)?;
            if !yes && !confirmed(&store.session(&id)?)? {
                bail!("nothing was deleted");
            }
            let lease = store.lease(&id)?;
            store.delete(&id)?;
            drop(lease);
            done(args.json, &id, "is deleted")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn done(as_json: bool, id: &str, what: &str) -> io::Result<()> {
    let line = if as_json { json!({"session": id, "done": what}).to_string() } else { format!("{id} {}", shown(what)) };
    writeln!(terminal::stdout(), "{line}")
}

fn confirmed(row: &SessionRow) -> Result<bool> {
    eprint!("delete {} ({})? Its markdown file stays. [y/N] ", row.id, shown(row.title.as_deref().unwrap_or("no title")));
    terminal::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Takes a session back to before a turn and sends it anew.
fn again(args: &Args, mut store: Sqlite, id: &str, turn: u64, input: TurnInput, model: &ModelArgs) -> Result<ExitCode> {
    // Whoever answers is looked for first: what is wrong with that is said before anything changes.
    let (vault, point) = (open(&args.vault.vault)?, id.parse()?);
    let mut kept = ask::go_on(&args.vault, &point, Keep::Everything)?;
    model.speaker(&mut kept, &stop())?;
    drop(kept);
    replace_turn(&mut store, id, turn, input, now_ms())?;
    drop(store);
    let kept = ask::go_on(&args.vault, &point, Keep::Everything)?;
    let find = model.find(Keep::Everything);
    let Opened { mut kept, bench, stop } = ToolArgs::default().equip(&args.vault, &vault, kept, find)?;
    let mut answering = model.answering(&mut kept, bench, &stop)?;
    answer::run(&mut kept, None, &mut answering, if args.json { Shown::Json } else { Shown::Live })
}

fn tell(args: &Args, session: &Point, input: Input, what: &str) -> Result<()> {
    let mut kept: Kept = ask::go_on(&args.vault, session, Keep::Everything)?;
    kept.tell(input, now_ms())?;
    kept.take_failures().iter().for_each(|failure| note(shown(&failure.0)));
    Ok(done(args.json, kept.id(), what)?)
}

fn list(store: &Sqlite, as_json: bool) -> Result<()> {
    let sessions = store.sessions()?;
    let mut out = terminal::stdout();
    if as_json {
        for row in &sessions {
            writeln!(out, "{}", serde_json::to_string(row)?)?;
        }
        return clients::list(store, as_json).map(drop);
    }
    let paint = Paint::stdout();
    for row in &sessions {
        let title = one_line(row.title.as_deref().unwrap_or("(no title)"), 60);
        let from = row.forked_from.as_ref().map(|from| format!(", from {}", shown(from))).unwrap_or_default();
        let about = format!("{} requests{from}", row.counts.requests);
        writeln!(out, "{}  {}  {title}  {}", paint.with("1", &row.id), moment(row.touched_ms), paint.with("2", about))?;
    }
    if !clients::list(store, as_json)? && sessions.is_empty() {
        note("no sessions yet; `foreword ask` begins one");
    }
    Ok(())
}

/// The words around the first of those that were looked for.
fn snippet(text: &str, words: &str) -> String {
    let lower = text.to_lowercase();
    let at = words.split_whitespace().filter_map(|word| lower.find(&word.to_lowercase())).min().unwrap_or(0);
    let before = lower[..at].chars().count();
    one_line(&text.chars().skip(before.saturating_sub(30)).take(160).collect::<String>(), 100)
}

fn search(store: &dyn Store, words: &str, top: usize, as_json: bool) -> Result<()> {
    let mut out = terminal::stdout();
    let found = store.search(words, top)?;
    if found.is_empty() && !as_json {
        note("nothing was found; all the words must be in one message");
    }
    for found in found {
        let body = &found.entry.body;
        let text = match body {
            Value::Array(lines) => {
                let texts = lines.iter().filter_map(|line| line.get("text")?.as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            body => ["words", "text", "output"].iter().find_map(|name| body.get(name)?.as_str()).unwrap_or_default().to_owned(),
        };
        let who = match found.entry.kind.as_str() {
            "turn" => "user",
            "tool_result" => "tool",
            "imported" => "imported",
            _ => "ai",
        };
        let turn = found.entry.run + 1;
        if as_json {
            let row = json!({"session": found.session, "turn": turn, "role": who, "at_ms": found.entry.at_ms, "score": found.score, "text": text});
            writeln!(out, "{row}")?;
        } else {
            writeln!(out, "{}@{turn}  {}  {who}: {}", found.session, moment(found.entry.at_ms), snippet(&text, words))?;
        }
    }
    Ok(())
}

fn show(store: &dyn Store, id: &str, as_json: bool) -> Result<()> {
    let row = store.session(id)?;
    let transcript = transcript(store, &row)?;
    let mut out = terminal::stdout();
    if as_json {
        let messages = foreword_engine::chats::messages(&transcript.messages);
        writeln!(out, "{}", json!({"session": row.id, "title": row.title, "messages": messages}))?;
        return Ok(());
    }
    let paint = Paint::stdout();
    let mut turn = 0;
    for entry in &transcript.messages {
        let is_user = entry.role == foreword_engine::chats::Role::User;
        turn += u64::from(is_user);
        let time = entry.time.map(|time| moment(time.as_millisecond())).unwrap_or_default();
        let who = if is_user { format!("@{turn} user") } else { "   ai".to_owned() };
        let cut = if entry.cut_off { " (cut off)" } else { "" };
        writeln!(out, "{}  {}{cut}", paint.with("1", who), paint.with("2", time))?;
        for line in entry.text.lines() {
            writeln!(out, "    {}", shown(line))?;
        }
        for call in &entry.calls {
            let result = call.result.as_ref().and_then(Value::as_str).map_or("no result".to_owned(), |text| one_line(text, 80));
            writeln!(
                out,
                "    {}",
                paint.with("2", format!("{}({}) → {result}", shown(&call.name), one_line(&call.arguments.to_string(), 60)))
            )?;
        }
    }
    Ok(())
}

//! `foreword sessions`: lists, searches and changes stored sessions.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args as ClapArgs, Subcommand};
use foreword_engine::session::{
    Fork, Input, PaidFor, Point, RecordedSession, SessionRow, Sqlite, Store, TurnInput, dollars, fork, new_session_id, payments,
    replace_turn, rewind, transcript, turn_of, turns, usd,
};
use serde_json::{Value, json};

use crate::answer::{self, Shown};
use crate::ask::{self, Keep, Opened};
use crate::clients;
use crate::equip::ToolArgs;
use crate::kept::{Vault, moment, now_ms};
use crate::model::ModelArgs;
use crate::paint::{Paint, count, note, one_line, shown};
use crate::terminal;
use crate::tree::open;

pub(crate) const AFTER_HELP: &str = "\
A session is named by its ID, a prefix of it, or `last`. Add @N for its Nth turn, counted from 1.

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
    /// List all sessions, the last used first (default)
    List,
    /// Search messages that contain all the words, including messages that left the prompt
    Search {
        /// The words to search for
        words: String,
        /// The largest number of results
        #[arg(long, default_value_t = 20)]
        top: usize,
    },
    /// Print the conversation, turn by turn
    Show {
        /// The session
        session: Point,
    },
    /// Change a session's title
    Rename {
        /// The session
        session: Point,
        /// The new title
        title: String,
    },
    /// Create a new session that shares the turns up to a given one
    Fork {
        /// The session and its last shared turn: SESSION@TURN [default: the last turn]
        at: Point,
        /// The title of the new session
        #[arg(long)]
        title: Option<String>,
    },
    /// Go back to the end of a turn; later turns stay in the store until the session is deleted
    Rewind {
        /// The session and turn: SESSION@TURN
        at: Point,
    },
    /// Replace the question of an earlier turn and answer it again
    Edit {
        /// The session and turn: SESSION@TURN
        at: Point,
        /// The new question
        words: String,
        #[command(flatten)]
        model: ModelArgs,
    },
    /// Answer the last question again
    Regenerate {
        /// The session
        session: Point,
        #[command(flatten)]
        model: ModelArgs,
    },
    /// Compact a session on its next turn: old turns are replaced by a summary
    Fold {
        /// The session
        session: Point,
    },
    /// Undo the last fold (compaction) on the next turn
    UndoFold {
        /// The session
        session: Point,
    },
    /// Delete a session; its markdown file is kept
    Delete {
        /// The session
        session: Point,
        /// Do not ask for confirmation
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
                bail!("the title must not be empty");
            }
            let mut kept = ask::go_on(&args.vault, session, Keep::Everything)?;
            kept.rename(&title, now_ms());
            for failure in kept.take_failures() {
                note(shown(&failure.0));
            }
            done(args.json, kept.id(), &format!("renamed to {title:?}"))?;
        }
        Command::Fork { at, title } => {
            let id = at.name(&store)?;
            let turns = at.turn.unwrap_or(turns(&store, &id)?.0);
            let new = Fork { id: new_session_id()?, title: title.clone(), created_ms: now_ms() };
            fork(&mut store, &id, turns, &new)?;
            done(args.json, &new.id, &format!("forked from {id} after turn {turns}"))?;
        }
        Command::Rewind { at } => {
            let id = at.name(&store)?;
            let Some(turn) = at.turn else { bail!("which turn? use {id}@TURN") };
            rewind(&mut store, &id, turn, now_ms())?;
            done(args.json, &id, &format!("continues after turn {turn}"))?;
        }
        Command::Edit { at, words, model } => {
            let id = at.name(&store)?;
            let Some(turn) = at.turn else { bail!("which turn? use {id}@TURN") };
            let input = TurnInput { words: words.clone(), ..turn_of(&store, &id, turn)? };
            return again(args, store, &id, turn, input, model);
        }
        Command::Regenerate { session, model } => {
            let id = session.session(&store)?;
            let (turn, _) = turns(&store, &id)?;
            let input = turn_of(&store, &id, turn)?;
            return again(args, store, &id, turn, input, model);
        }
        Command::Fold { session } => {
            let mut kept = ask::go_on(&args.vault, session, Keep::Everything)?;
            kept.fold(None, now_ms())?;
            told(args, &mut kept, "is folded with its next turn")?;
        }
        Command::UndoFold { session } => {
            let mut kept = ask::go_on(&args.vault, session, Keep::Everything)?;
            if !kept.session().can_undo_fold() {
                bail!("session {} has no fold to take back", kept.id());
            }
            kept.tell(Input::UndoFold, now_ms())?;
            told(args, &mut kept, "takes its last fold back with its next turn")?;
        }
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
            done(args.json, &id, "deleted")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn done(as_json: bool, id: &str, what: &str) -> io::Result<()> {
    let line = if as_json { json!({"session": id, "done": what}).to_string() } else { format!("{id} {}", shown(what)) };
    writeln!(terminal::stdout(), "{line}")
}

fn confirmed(row: &SessionRow) -> Result<bool> {
    eprint!("Delete {} ({})? Its markdown file is kept. [y/N] ", row.id, shown(row.title.as_deref().unwrap_or("no title")));
    terminal::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Rewinds a session to before a turn and sends that turn again.
fn again(args: &Args, mut store: Sqlite, id: &str, turn: u64, input: TurnInput, model: &ModelArgs) -> Result<ExitCode> {
    // The connection is prepared first, so that an error changes nothing.
    let (vault, point) = (open(&args.vault.vault)?, id.parse()?);
    let mut kept = ask::go_on(&args.vault, &point, Keep::Everything)?;
    model.speaker(&mut kept)?;
    drop(kept);
    replace_turn(&mut store, id, turn, input, now_ms())?;
    drop(store);
    let kept = ask::go_on(&args.vault, &point, Keep::Everything)?;
    let find = model.find(Keep::Everything);
    let Opened { mut kept, bench, stopper } = ToolArgs::default().equip(&args.vault, &vault, kept, find)?;
    let mut answering = model.answering(&mut kept, bench, stopper)?;
    answer::run(&mut kept, None, &mut answering, if args.json { Shown::Json } else { Shown::Live })
}

fn told(args: &Args, kept: &mut RecordedSession, what: &str) -> Result<()> {
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
        let about = format!("{}{from}", count(usize::try_from(row.counts.requests)?, "request"));
        writeln!(out, "{}  {}  {title}  {}", paint.with("1", &row.id), moment(row.touched_ms), paint.with("2", about))?;
    }
    if !clients::list(store, as_json)? && sessions.is_empty() {
        note("no sessions yet; `foreword ask` begins one");
    }
    Ok(())
}

/// The text around the first match.
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
        note("no messages found; one message must contain all the words");
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
    let paid = payments(store, id)?;
    let requests = paid.iter().filter(|payment| matches!(payment.what, PaidFor::Request { .. })).count();
    let side_requests: u64 = paid.iter().map(|payment| payment.what.questions()).sum();
    let cost: f64 = paid.iter().map(|payment| payment.usage.cost).sum();
    let mut out = terminal::stdout();
    if as_json {
        let messages = foreword_vault_tools::chats::messages(&transcript.messages);
        let total = json!({"requests": requests, "side_requests": side_requests, "cost": usd(cost)});
        writeln!(out, "{}", json!({"session": row.id, "title": row.title, "messages": messages, "total": total}))?;
        return Ok(());
    }
    let paint = Paint::stdout();
    let mut turn = 0;
    for entry in &transcript.messages {
        let is_user = entry.role == foreword_vault_tools::chats::Role::User;
        turn += u64::from(is_user);
        let time = entry.time.map(|time| moment(time.as_millisecond())).unwrap_or_default();
        let who = if is_user { format!("@{turn} user") } else { "   ai".to_owned() };
        let cut = if entry.cut_off { " (incomplete)" } else { "" };
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
    let side = if side_requests == 0 {
        String::new()
    } else {
        format!(" and {}", count(usize::try_from(side_requests)?, "side request"))
    };
    writeln!(out, "{}", paint.with("2", format!("{}{side}, {}", count(requests, "request"), dollars(cost))))?;
    Ok(())
}

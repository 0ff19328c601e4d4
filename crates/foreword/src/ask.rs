//! `foreword ask`: one question.

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use foreword_engine::Layout;
use foreword_engine::attach::{Pages, gather};
use foreword_engine::chats::Chats;
use foreword_engine::session::{
    Event, Kept, Point, Question, Setup, Sqlite, TurnError, TurnInput, Version, library_of, new_session_id,
};
use foreword_engine::vault::{Vault, agent};
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::kept::{Vault as VaultArg, now_ms};
use crate::model::{Answering, ModelArgs};
use crate::paint::{Paint, is_unsafe, note, shown};
use crate::places::places;
use crate::tree::open;

pub(crate) const LONG_ABOUT: &str = "\
Ask a question about a folder of notes. The question, the request it led to and the answer are kept in the vault's store as they come, and \
the chat is also a markdown file in Foreword/Chats.

Without --model, the small model that comes with Foreword answers, on this machine. Any other model of the table is spoken to with the key in \
OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY; --base-url names a server of your own (llama.cpp, Ollama, vLLM, LM Studio).

--script takes the answers from a JSON file like {\"replies\": [{\"text\": \"Hello.\"}, {\"calls\": [{\"id\": \"a\", \"name\": \"read\", \"arguments\": {}}]}], \
\"tools\": {\"read\": \"what it gives back\"}}, to try things out. A session takes its replies in order and begins again at the end.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword ask examples/vault \"Why was the loaf flat?\" --attach Bread
  foreword ask examples/vault \"And the next one?\" --session last
  git diff | foreword ask . \"What changed?\" --stdin --model claude-sonnet-5
  foreword inspect last --vault examples/vault
Exit codes: 0 answered; 1 kept, but not answered; 2 the arguments, the vault or the session are wrong.";

/// Options of `foreword ask`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The folder of notes
    vault: PathBuf,
    /// The question; with --resume it is left out
    words: Option<String>,
    #[command(flatten)]
    session: SessionArgs,
    /// Answer a question that was kept without an answer
    #[arg(long, requires = "session", conflicts_with_all = ["words", "attach"])]
    resume: bool,
    /// Take what comes in on stdin as part of the question
    #[arg(long)]
    stdin: bool,
    #[command(flatten)]
    model: ModelArgs,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

/// Options that name a session, or say how a new one begins.
#[derive(ClapArgs)]
pub(crate) struct SessionArgs {
    /// Go on with this session: its name, the start of it, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<Point>,
    /// Attach a note, a folder, a tag, lines, a page (see `foreword attach --help`)
    #[arg(long, value_name = "WHAT")]
    pub(crate) attach: Vec<String>,
    /// The layout of a new session
    #[arg(long, default_value = "log", value_parser = ["log", "library"])]
    layout: String,
    /// The agent of a new session: a folder or file in Foreword/Agents
    #[arg(long)]
    agent: Option<String>,
}

impl SessionArgs {
    /// The session that is meant, opened or begun.
    pub(crate) fn open(&self, place: &VaultArg, model: &ModelArgs) -> Result<Kept> {
        match &self.session {
            Some(point) => go_on(place, point),
            None => self.begin(place, model),
        }
    }

    fn begin(&self, place: &VaultArg, model: &ModelArgs) -> Result<Kept> {
        let Some((agent, problems)) = agent(&place.root()?, self.agent.as_deref()) else {
            bail!("there is no agent {:?} in Foreword/Agents of this vault", self.agent.as_deref().unwrap_or_default());
        };
        for problem in &problems {
            note(shown(&problem.to_string()));
        }
        model.prepare()?;
        let models = places()?.models;
        let layout = if self.layout == "library" { Layout::Library } else { Layout::Log };
        let id = new_session_id()?;
        let setup = Setup::new(&id, model.model.as_deref(), layout, agent.tools.len(), Some(&models))?;
        let store = match place.make_store() {
            Ok(store) => store,
            Err(error) => {
                note(shown(&format!("{error:#}. The answer comes all the same, but this session is not kept")));
                Sqlite::in_memory()?
            }
        };
        Ok(Kept::begin(Box::new(store), &id, &agent, &setup, Some(&models), chats(&place.root()?), now_ms())?)
    }
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let vault = open(&args.vault)?;
    let place = VaultArg { vault: args.vault.clone() };
    let mut words = args.words.clone().unwrap_or_default();
    if args.stdin {
        let mut text = String::new();
        io::stdin().lock().take(MOST_STDIN).read_to_string(&mut text)?;
        words = [words, text].into_iter().filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n\n");
    }
    if words.trim().is_empty() && !args.resume {
        bail!("a question is missing; or say --resume to answer the last one");
    }
    // What is wrong with the arguments is said before a session begins.
    let attached = attached(&vault, &args.session.attach)?;
    let mut kept = args.session.open(&place, &args.model)?;
    let mut answering = args.model.answering(&mut kept)?;
    let turn = (!args.resume).then(|| TurnInput { words, attached, ..TurnInput::default() });
    run(&mut kept, turn, &vault, &mut answering, args.json)
}

/// More than this is no question.
const MOST_STDIN: u64 = 16 << 20;

/// What attachments stand for.
pub(crate) fn attached(vault: &Vault, wanted: &[String]) -> Result<Vec<Version>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let wanted = wanted.iter().map(|what| vault.attachment(what)).collect::<Result<Vec<_>, _>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let gathered = runtime.block_on(gather(vault, &wanted, &places()?, &Zoned::now(), Pages::Kept))?;
    for problem in &gathered.problems {
        note(shown(&problem.to_string()));
    }
    if gathered.empty > 0 {
        bail!("an attachment brought nothing, so nothing was sent; `foreword attach --help` tells what can be attached");
    }
    Ok(gathered.versions)
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
    if store.is_read_only() {
        note("the store can only be read: the answer comes all the same, but it is not kept");
    }
    Ok(Kept::open(Box::new(store), &id, Some(&places()?.models), chats(&place.root()?))?)
}

/// What of a text may reach a terminal.
fn safe(text: &str) -> String {
    text.chars().map(|c| if is_unsafe(c) && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// Carries a turn, or the rest of one, and shows it.
pub(crate) fn run(
    kept: &mut Kept,
    turn: Option<TurnInput>,
    vault: &Vault,
    answering: &mut Answering,
    as_json: bool,
) -> Result<ExitCode> {
    let paint = Paint::stderr();
    let mut shown_any = false;
    let mut each = |event: Event<'_>| match event {
        Event::Part(part) if !as_json => {
            shown_any = true;
            let mut out = io::stdout().lock();
            // Whoever stopped reading still has everything in the store.
            let _ = out.write_all(safe(part).as_bytes()).and_then(|()| out.flush());
        }
        Event::Call(call) if !as_json => {
            eprintln!("{}", paint.with("2", format!("\n{}({})", shown(&call.name), shown(&call.arguments.to_string()))));
        }
        _ => {}
    };
    let (speaker, hands) = (&mut *answering.speaker, &mut *answering.hands);
    let outcome = match turn {
        Some(turn) => {
            let library = library_of(kept, vault, &Zoned::now())?;
            kept.send(Question { turn, library }, speaker, hands, &now_ms, &mut each)
        }
        None => kept.go_on(speaker, hands, &now_ms, &mut each),
    };
    if shown_any {
        println!();
    }
    for failure in kept.take_failures() {
        note(shown(&failure.0));
    }
    let said = match outcome {
        Ok(said) => said,
        Err(error) => {
            eprintln!("{} {}", paint.with("31", "error:"), safe(&error.to_string()));
            match error {
                TurnError::Speak(_) if kept.is_unanswered() && kept.is_stored() => {
                    note(format!("the question is kept: foreword ask … --session {} --resume", kept.id()));
                }
                TurnError::Speak(_) if kept.is_stored() => {
                    note(format!("what was shown is kept: foreword sessions regenerate {} answers anew", kept.id()));
                }
                _ => {}
            }
            return Ok(ExitCode::from(1));
        }
    };
    let status = Status::of(kept)?;
    if as_json {
        let report = json!({
            "session": kept.id(), "turn": kept.session().turns(), "requests": said.requests, "text": said.text,
            "tokens": status.tokens, "cached": status.cached, "stored": kept.is_stored(),
        });
        writeln!(io::stdout(), "{report}")?;
    } else if said.requests == 0 {
        note("there was nothing to answer");
    } else {
        eprintln!("{}", paint.with("2", status.line(kept)));
    }
    if said.out_of_steps {
        note(format!(
            "the model was asked {} times and still wants to go on: foreword ask … --session {} --resume",
            said.requests,
            kept.id()
        ));
    }
    if !kept.is_stored() {
        note("this turn is NOT kept: nothing could be written to the store");
    }
    Ok(ExitCode::from(u8::from(said.out_of_steps || !kept.is_stored())))
}

/// What the last request used, and the session so far.
pub(crate) struct Status {
    pub(crate) tokens: u64,
    pub(crate) cached: u64,
    pub(crate) cost: f64,
    pub(crate) saved: f64,
}

impl Status {
    pub(crate) fn of(kept: &Kept) -> Result<Self> {
        let ledger = kept.store().ledger(kept.id())?;
        let (tokens, cached) = ledger.last().map_or((0, 0), |(_, usage)| (usage.read + usage.write + usage.uncached, usage.read));
        let cost = ledger.iter().map(|(_, usage)| usage.cost).sum();
        let saved = ledger.iter().map(|(_, usage)| usage.cost_uncached - usage.cost).sum();
        Ok(Self { tokens, cached, cost, saved })
    }

    /// One line for people.
    pub(crate) fn line(&self, kept: &Kept) -> String {
        let budget = kept.setup().settings.budget.prompt;
        let share = (self.cached * 100).checked_div(self.tokens).unwrap_or(0);
        let money = if self.cost > 0.0 { format!(", ${:.4}", self.cost) } else { String::new() };
        let (id, turn, tokens) = (kept.id(), kept.session().turns(), self.tokens);
        format!("session {id}, turn {turn}: {tokens} of {budget} tokens, {share} % from the cache{money}")
    }
}

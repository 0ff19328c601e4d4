//! `foreword ask`: one question.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use foreword_engine::Layout;
use foreword_engine::attach::{Pages, gather};
use foreword_engine::chats::Chats;
use foreword_engine::session::{
    Kept, Point, Question, Setup, Sqlite, TurnInput, Version, library_of, new_session_id, without_mentions,
};
use foreword_engine::vault::{Vault, agent};
use jiff::Zoned;
use jiff::tz::TimeZone;

use crate::answer::{self, Shown};
use crate::config;
use crate::kept::{Vault as VaultArg, now_ms};
use crate::model::ModelArgs;
use crate::paint::{note, shown};
use crate::places::places;
use crate::preview;
use crate::tree::open;

pub(crate) const LONG_ABOUT: &str = "\
Ask a question about a folder of notes. The question, the request it led to and the answer are kept in the vault's store as they come, and \
the chat is also a markdown file in Foreword/Chats.

Without --model, the configured model answers, or the small one that comes with Foreword, on this machine. `foreword models --all` lists the \
known ones; they are spoken to with the key in OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY. Servers of your own take any name: `ollama/NAME`, \
`lmstudio/NAME`, `vllm/NAME`, or any name with --base-url.

--dry-run shows the request that would be sent: its layers, its items and why they are in it, what was left out, what the provider's cache is \
expected to serve and what that costs. Nothing is sent and nothing is kept.

--script takes the answers from a JSON file like {\"replies\": [{\"text\": \"Hello.\"}, {\"calls\": [{\"id\": \"a\", \"name\": \"read\", \"arguments\": {}}]}], \
\"tools\": {\"read\": \"what it gives back\"}}, to try things out. A session takes its replies in order and begins again at the end.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword ask examples/vault \"Why was the loaf flat?\" --attach Bread
  foreword ask examples/vault \"And the next one?\" --session last
  foreword ask examples/vault \"Which notes?\" --attach \"#baking\" --model claude-sonnet-5 --dry-run
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
    /// Show what would be sent, and send and keep nothing
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
    /// With --dry-run: print the exact bytes that would be sent
    #[arg(long, requires = "dry_run", conflicts_with = "json")]
    wire: bool,
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
    /// The layout of a new session; else the configured one, else log
    #[arg(long, value_parser = ["log", "library"])]
    layout: Option<String>,
    /// The agent of a new session: a folder or file in Foreword/Agents
    #[arg(long)]
    agent: Option<String>,
}

/// Whether what is said is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    Everything,
    /// It is only looked at.
    Nothing,
}

impl SessionArgs {
    /// The session that is meant, opened or begun.
    pub(crate) fn open(&self, place: &VaultArg, model: &ModelArgs, keep: Keep) -> Result<Kept> {
        match &self.session {
            Some(point) => go_on(place, point, keep),
            None => self.begin(place, model, keep),
        }
    }

    fn begin(&self, place: &VaultArg, model: &ModelArgs, keep: Keep) -> Result<Kept> {
        let Some((agent, problems)) = agent(&place.root()?, self.agent.as_deref()) else {
            bail!("there is no agent {:?} in Foreword/Agents of this vault", self.agent.as_deref().unwrap_or_default());
        };
        for problem in &problems {
            note(shown(&problem.to_string()));
        }
        let config = config::load()?;
        let chosen = model.choose(&config)?;
        let layout = match self.layout.as_deref() {
            Some("library") => Layout::Library,
            Some(_) => Layout::Log,
            None => config.layout.unwrap_or(Layout::Log),
        };
        let store = match keep {
            Keep::Nothing => Sqlite::in_memory()?,
            Keep::Everything => {
                model.prepare(&chosen)?;
                store(place)?
            }
        };
        let models = places()?.models;
        let id = new_session_id()?;
        let setup = Setup::of(&id, chosen.model, layout, agent.tools.len(), Some(&models));
        Ok(Kept::begin(Box::new(store), &id, &agent, &setup, Some(&models), chats(place, keep)?, now_ms())?)
    }
}

/// The store of a vault, or one that is forgotten where there can be none.
fn store(place: &VaultArg) -> Result<Sqlite> {
    place.make_store().or_else(|error| {
        note(shown(&format!("{error:#}. The answer comes all the same, but this session is not kept")));
        Ok(Sqlite::in_memory()?)
    })
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
    let keep = if args.dry_run { Keep::Nothing } else { Keep::Everything };
    let mut kept = args.session.open(&place, &args.model, keep)?;
    let question = if args.resume { None } else { Some(question(&kept, &vault, &words, attached)?) };
    if let (Some(question), true) = (&question, args.dry_run) {
        let form = if args.json { preview::Form::Json } else if args.wire { preview::Form::Wire } else { preview::Form::Table };
        return preview::run(&kept, question.clone(), &mut *args.model.hands()?, form);
    }
    let mut answering = args.model.answering(&mut kept)?;
    answer::run(&mut kept, question, &mut answering, if args.json { Shown::Json } else { Shown::Live })
}

/// What a person asks in a session: items of the agent that the words mention join it.
pub(crate) fn question(kept: &Kept, vault: &Vault, words: &str, attached: Vec<Version>) -> Result<Question> {
    let (words, added) = without_mentions(words, kept.session().agent());
    let library = library_of(kept, vault, &Zoned::now())?;
    Ok(Question { turn: TurnInput { words, attached, ..TurnInput::default() }, library, added })
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

fn chats(place: &VaultArg, keep: Keep) -> Result<Option<Chats>> {
    if keep == Keep::Nothing {
        return Ok(None);
    }
    let chats = Chats::open(&place.root()?, TimeZone::system());
    Ok(chats.inspect_err(|error| note(format!("the chat is not written as markdown: {error}"))).ok())
}

/// Opens a session that is there.
pub(crate) fn go_on(place: &VaultArg, point: &Point, keep: Keep) -> Result<Kept> {
    let store = place.store()?;
    let id = point.session(&store)?;
    if store.is_read_only() && keep == Keep::Everything {
        note("the store can only be read: the answer comes all the same, but it is not kept");
    }
    Ok(Kept::open(Box::new(store), &id, Some(&places()?.models), chats(place, keep)?)?)
}

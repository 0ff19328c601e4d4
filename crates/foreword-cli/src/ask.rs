//! `foreword ask`: one question.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args as ClapArgs;
use foreword_engine::attach::{Attachment, Gathered, Pages, active_note, gather, links};
use foreword_engine::clock;
use foreword_engine::prepare::servers_of;
use foreword_engine::session::{Mode, Point, Question, RecordedSession, Sqlite, Stopper, Store as _, Version, new_session_id};
use foreword_engine::session_builder::{NewSession, SessionBuilder};
use foreword_engine::vault::{Problem, Vault};
use foreword_engine::workbench::Workbench;
use foreword_vault_tools::chats::Chats;
use jiff::tz::TimeZone;

use crate::answer::{self, Shown};
use crate::config;
use crate::equip::{AgentTools, Find, ToolArgs};
use crate::kept::{Vault as VaultArg, now_ms};
use crate::model::{ModelArgs, stopper};
use crate::paint::{note, shown};
use crate::places::places;
use crate::preview;
use crate::settings::SettingsArgs;
use crate::templates;
use crate::tree::open;
use crate::trust;

pub(crate) const LONG_ABOUT: &str = "\
Ask a question about a folder of notes. The question, the request and the answer are stored as they arrive. The conversation is also \
written as a markdown file to Foreword/Chats.

Without --model, the configured model answers, or the embedded small model, on this machine. `foreword models --all` lists the known models. \
API keys are read from OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY. Local servers accept any model name: `ollama/NAME`, \
`lmstudio/NAME`, `vllm/NAME`, or any name with --base-url.

--dry-run shows the request without sending it: its layers, its items and why they are included, what was left out, the expected cache hits \
and the cost. Nothing is stored.

--script reads the replies from a JSON file instead of calling a model: {\"replies\": [{\"text\": \"Hello.\"}, \
{\"calls\": [{\"id\": \"a\", \"name\": \"read\", \"arguments\": {}}]}], \"tools\": {\"read\": \"the tool's output\"}}. A session uses the replies in \
order and starts over at the end.";

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
    /// The question; omit it with --resume
    words: Option<String>,
    #[command(flatten)]
    session: SessionArgs,
    /// Answer the last question, which has no answer yet
    #[arg(long, requires = "session", conflicts_with_all = ["words", "attach", "active"])]
    resume: bool,
    /// Append standard input to the question
    #[arg(long)]
    stdin: bool,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    dry: DryArgs,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

/// Options of `--dry-run`.
#[derive(ClapArgs)]
struct DryArgs {
    /// Show the request, but do not send or store anything
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
    /// With --dry-run: print the exact bytes of the request
    #[arg(long, requires = "dry_run", conflicts_with = "json")]
    wire: bool,
}

/// Options that select a session or configure a new one.
#[derive(ClapArgs)]
pub(crate) struct SessionArgs {
    /// Continue this session: its ID, a prefix of it, or `last`
    #[arg(long, value_name = "SESSION")]
    session: Option<Point>,
    /// Attach a note, folder, tag, line range or web page (see `foreword attach --help`)
    #[arg(long, value_name = "WHAT")]
    pub(crate) attach: Vec<String>,
    /// The note that is open in your editor; its images are sent too
    #[arg(long, value_name = "NOTE")]
    pub(crate) active: Option<String>,
    #[command(flatten)]
    settings: SettingsArgs,
    /// The agent of a new session: a folder or file in Foreword/Agents
    #[arg(long, conflicts_with = "session")]
    agent: Option<String>,
    /// The project of a new session: a note in Foreword/Projects
    #[arg(long, conflicts_with = "session")]
    project: Option<String>,
    /// Leave notes, rules and the project as they were when the session took them in, even if they changed since
    #[arg(long)]
    pub(crate) frozen: bool,
    /// How turns are carried: chat (plain, with tools), qa (search the notes first, cite them), plan (choose tools in one go), agent
    /// (work with tools until done); else as before, else as configured, else chat, or qa with the small model
    #[arg(long)]
    mode: Option<Mode>,
    #[command(flatten)]
    tools: ToolArgs,
}

/// A session and the tools it can use.
pub(crate) struct Opened {
    pub(crate) kept: RecordedSession,
    pub(crate) bench: Workbench,
    pub(crate) stopper: Stopper,
}

impl Opened {
    /// The first Ctrl-C stops its turn.
    fn new(mut kept: RecordedSession, bench: Workbench) -> Self {
        let stopper = stopper();
        kept.set_stopper(stopper.clone());
        Self { kept, bench, stopper }
    }
}

/// Whether the session is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    Everything,
    /// Nothing is stored.
    Nothing,
}

impl SessionArgs {
    /// Opens or begins the session that the flags name.
    pub(crate) fn open(&self, place: &VaultArg, vault: &Vault, model: &ModelArgs, keep: Keep) -> Result<Opened> {
        let mut opened = match &self.session {
            Some(point) => {
                let wanted = self.settings.read()?;
                let mut kept = go_on(place, point, keep)?;
                model.change(&mut kept)?;
                if kept.change_settings(&wanted, &templates::shelf(&place.vault), now_ms())? {
                    note("these settings apply from the next question on");
                }
                if let Some(mode) = self.mode {
                    kept.set_mode(mode, now_ms());
                }
                if !self.frozen {
                    refresh_agent(&mut kept, vault, &place.vault)?;
                }
                self.tools.equip(place, vault, kept, model.find(keep))?
            }
            None => self.begin(place, vault, model, keep)?,
        };
        let manager = templates::manager(opened.kept.setup(), &place.vault);
        opened.kept.set_manager(manager);
        Ok(opened)
    }

    fn begin(&self, place: &VaultArg, vault: &Vault, model: &ModelArgs, keep: Keep) -> Result<Opened> {
        let config = config::load()?;
        let chosen = model.choose(&config)?;
        let (places, id) = (places()?, new_session_id()?);
        let shelf = templates::shelf(&place.vault);
        let new = NewSession {
            id: &id,
            agent: self.agent.as_deref(),
            project: self.project.as_deref(),
            mode: self.mode.or(config.mode),
            chosen: chosen.clone(),
            is_scripted: model.script.is_some(),
            flags: self.settings.read()?,
            config: config.settings.clone(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let builder = SessionBuilder { vault, places: &places, shelf: &shelf };
        let prepared = runtime.block_on(builder.prepare(new, &clock::zoned()))?;
        if keep == Keep::Everything {
            model.remember_address()?;
        }
        for problem in prepared.problems() {
            note(shown(&problem.to_string()));
        }
        let store = match keep {
            Keep::Nothing => Sqlite::in_memory()?,
            Keep::Everything => {
                model.prepare(&chosen)?;
                model.check_key(&chosen)?;
                store(place)?
            }
        };
        let find = model.find(keep).in_mode(prepared.mode());
        let (servers, asking) = (prepared.servers().to_vec(), prepared.asking());
        let wanted = AgentTools { agent: self.agent.as_deref(), servers, asking };
        let bench = self.tools.workbench(vault, place, wanted, find, prepared.setup())?;
        let kept = prepared.begin(&bench, Box::new(store), chats(place, keep)?, &places, now_ms())?;
        Ok(Opened::new(kept, bench))
    }
}

impl ToolArgs {
    /// Attaches notes, search and tools to an existing session.
    pub(crate) fn equip(&self, place: &VaultArg, vault: &Vault, mut kept: RecordedSession, find: Find) -> Result<Opened> {
        let (servers, asking) = servers_of(vault, kept.setup().agent.as_deref()).unwrap_or_else(|error| {
            note(shown(&format!("{error}; tool servers are not available")));
            Default::default()
        });
        let find = find.in_mode(kept.mode());
        let agent = kept.setup().agent.clone();
        let wanted = AgentTools { agent: agent.as_deref(), servers, asking };
        let mut bench = self.workbench(vault, place, wanted, find, kept.setup())?;
        bench.update(&mut kept, now_ms()).context("Failed to update the tools of this session")?;
        Ok(Opened::new(kept, bench))
    }
}

/// The store of a vault, or one in memory if the vault's store cannot be opened.
fn store(place: &VaultArg) -> Result<Sqlite> {
    place.make_store().or_else(|error| {
        note(shown(&format!("{error:#}. This session is answered but not stored")));
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
        bail!("missing question; to answer the last one again, use --resume");
    }
    trust::before_session(&vault)?;
    // Invalid arguments are reported before a session begins.
    let mut warned = Warned::default();
    let attached = attached(&vault, &args.session.attach, &mut warned)?;
    let active = args.session.active.as_deref().map(|name| active(&vault, name, &mut warned)).transpose()?;
    let keep = if args.dry.dry_run { Keep::Nothing } else { Keep::Everything };
    let Opened { mut kept, mut bench, stopper } = args.session.open(&place, &vault, &args.model, keep)?;
    let question = if args.resume {
        None
    } else {
        let mut attached = attached;
        attached.extend(linked(&vault, &words, &mut warned));
        Some(question(&kept, &vault, &words, attached, active, args.session.frozen)?)
    };
    if let (Some(question), true) = (&question, args.dry.dry_run) {
        let form = if args.json {
            preview::Form::Json
        } else if args.dry.wire {
            preview::Form::Wire
        } else {
            preview::Form::Table
        };
        return preview::run(&kept, question.clone(), &mut bench, form);
    }
    let mut answering = args.model.answering(&mut kept, bench, stopper)?;
    answer::run(&mut kept, question, &mut answering, if args.json { Shown::Json } else { Shown::Live })
}

/// Builds the question of a turn.
pub(crate) fn question(
    kept: &RecordedSession,
    vault: &Vault,
    words: &str,
    attached: Vec<Version>,
    active: Option<Version>,
    frozen: bool,
) -> Result<Question> {
    let (places, shelf) = (places()?, templates::shelf(vault.root()));
    let builder = SessionBuilder { vault, places: &places, shelf: &shelf };
    let (question, changed) = builder.question(kept, words.to_owned(), attached, active, frozen, &clock::zoned())?;
    for text in changed {
        note(shown(&text));
    }
    Ok(question)
}

/// Goes on with the files of the session's agent and project as they are now, and says what changed.
pub(crate) fn refresh_agent(kept: &mut RecordedSession, vault: &Vault, folder: &Path) -> Result<()> {
    let (places, shelf) = (places()?, templates::shelf(folder));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let builder = SessionBuilder { vault, places: &places, shelf: &shelf };
    for text in runtime.block_on(builder.refresh_agent(kept, &clock::zoned()))? {
        note(shown(&text));
    }
    Ok(())
}

/// The note that is open in the user's editor.
pub(crate) fn active(vault: &Vault, name: &str, warned: &mut Warned) -> Result<Version> {
    let found = active_note(vault, name, &clock::zoned())?;
    warned.tell(found.problems);
    Ok(found.version)
}

/// The problems that were reported to the user, each of them once.
#[derive(Default)]
pub(crate) struct Warned(BTreeSet<Problem>);

impl Warned {
    fn tell(&mut self, problems: Vec<Problem>) {
        for problem in problems {
            let text = shown(&problem.to_string());
            if self.0.insert(problem) {
                note(text);
            }
        }
    }
}

/// The most that is read from standard input.
const MOST_STDIN: u64 = 16 << 20;

/// Reads the attachments that the user named.
pub(crate) fn attached(vault: &Vault, wanted: &[String], warned: &mut Warned) -> Result<Vec<Version>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let wanted = wanted.iter().map(|what| vault.attachment(what)).collect::<Result<Vec<_>, _>>()?;
    let gathered = brought(vault, &wanted)?;
    warned.tell(gathered.problems);
    if gathered.empty > 0 {
        bail!("an attachment is empty or missing, so nothing was sent; see `foreword attach --help`");
    }
    Ok(gathered.versions)
}

/// What attachments bring.
fn brought(vault: &Vault, wanted: &[Attachment]) -> Result<Gathered> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(gather(vault, wanted, &places()?, &clock::zoned(), Pages::RecordedSession))?)
}

/// The notes that a question links to. A link that leads nowhere stays what it is: words.
pub(crate) fn linked(vault: &Vault, words: &str, warned: &mut Warned) -> Vec<Version> {
    let mut found: Vec<Version> = Vec::new();
    for link in links(words) {
        match vault.attachment(&link).map_err(anyhow::Error::from).and_then(|wanted| brought(vault, &[wanted])) {
            Ok(gathered) => {
                if gathered.empty > 0 {
                    note(shown(&format!("{link} leads to no note, so it attaches nothing")));
                }
                warned.tell(gathered.problems);
                found.extend(gathered.versions);
            }
            Err(error) => note(shown(&format!("{error:#}"))),
        }
    }
    found
}

fn chats(place: &VaultArg, keep: Keep) -> Result<Option<Chats>> {
    if keep == Keep::Nothing {
        return Ok(None);
    }
    let chats = Chats::open(&place.root()?, TimeZone::system());
    Ok(chats.inspect_err(|error| note(format!("the chat is not saved as markdown: {error}"))).ok())
}

/// Opens an existing session.
pub(crate) fn go_on(place: &VaultArg, point: &Point, keep: Keep) -> Result<RecordedSession> {
    let mut store = place.store()?;
    let id = point.session(&store)?;
    if keep == Keep::Nothing {
        // Works on a copy, so that a trial run stores nothing.
        let dump = store.dump(&id)?;
        store = Sqlite::in_memory()?;
        store.load(&dump)?;
    } else if store.is_read_only() {
        note("the store is read-only: the question is answered, but not stored");
    }
    Ok(RecordedSession::open(Box::new(store), &id, Some(&places()?.models), chats(place, keep)?)?)
}

//! `foreword chat`: a conversation in the terminal.

mod complete;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args as ClapArgs;
use foreword_engine::session::{Input, Mode, Permission, Point, RecordedSession, Store, Version, inspect, turn_cost};
use foreword_engine::vault::Vault;
use foreword_trust::memory;
use foreword_trust::{Standing, VaultTrust};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Editor};

use crate::answer::{self, Shown, Status};
use crate::ask::{self, Keep, Opened, SessionArgs, Warned};
use crate::config::{self, is_set};
use crate::equip;
use crate::inspect as request;
use crate::kept::{Vault as VaultArg, note_folder, now_ms};
use crate::markdown::wrapped;
use crate::model::{self, Answering, ModelArgs};
use crate::paint::{Paint, aside, count, note, one_line, shown, width};
use crate::places::places;
use crate::preview;
use crate::summary;
use crate::terminal::{self, Stream};
use crate::tree::open;
use crate::trust;
use complete::Names;

pub(crate) const LONG_ABOUT: &str = "\
Chat about a folder of notes. Type [[ and Tab to attach a note, @rule:NAME or @ref:NAME to include an item of the agent. Lines that begin with / are \
commands; /help lists them. Ctrl-C stops an answer, Ctrl-D ends the chat. The conversation is stored: `foreword chat --session last` continues it.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword chat examples/vault
  foreword chat ~/Notes --session last
  foreword chat ~/Notes --model claude-sonnet-5 --attach \"#project\"
  foreword chat . --model ollama/qwen3:8b
  foreword chat . --model any-name --base-url http://127.0.0.1:8080/v1 --window 16384";

/// A slash command.
struct Command {
    group: &'static str,
    usage: &'static str,
    about: &'static str,
}

const fn command(group: &'static str, usage: &'static str, about: &'static str) -> Command {
    Command { group, usage, about }
}

const INTO: &str = "Context";
const SENT: &str = "Requests";
const SESSION: &str = "Session";

const COMMANDS: &[Command] = &[
    command(INTO, "/attach WHAT", "attach a note, a folder, a #tag, lines or a page to the next question"),
    command(
        INTO,
        "/active [NOTE]",
        "set the note that is open in your editor; its images are sent too; `/active none` clears it",
    ),
    command(INTO, "/add ITEM", "add a rule or reference of the agent to the session"),
    command(INTO, "/remove ITEM", "remove an item from the session"),
    command(INTO, "/tools", "list the tools; `/tools ask always|tool|never` sets when approval is required"),
    command(INTO, "/memory [add TEXT | forget N]", "show or change the memory that every new session of this vault gets"),
    command(SENT, "/context", "show the last request: its layers, items and what was left out"),
    command(SENT, "/context next WORDS", "show the request for this question without sending it"),
    command(SENT, "/cost", "show tokens used and cost so far"),
    command(SESSION, "/mode [MODE]", "show or set the mode: chat, qa, plan or agent"),
    command(SESSION, "/model [NAME [URL]]", "show or switch the model; the URL is for your own server"),
    command(SESSION, "/plan [cancel]", "show the plan that agent mode works on; `cancel` ends it"),
    command(SESSION, "/fold [FOCUS]", "compact the conversation with the next question; shows what would leave the prompt first"),
    command(SESSION, "/undo", "undo the last fold (compaction)"),
    command(SESSION, "/pin WHAT", "keep a message (m12) or an attached note in every fold"),
    command(SESSION, "/summary", "show the summary of older messages, its sources and the result of the check"),
    command(SESSION, "/save [NAME]", "show the chat's file; with a name, rename the chat"),
    command(SESSION, "/help", "show this list"),
    command(SESSION, "/quit", "end the chat (or Ctrl-D)"),
];

/// Options of `foreword chat`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The folder of notes
    #[arg(default_value = ".")]
    vault: PathBuf,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    model: ModelArgs,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let vault = open(&args.vault)?;
    let place = VaultArg { vault: args.vault.clone() };
    trust::before_session(&vault)?;
    let mut warned = Warned::default();
    let waiting = ask::attached(&vault, &args.session.attach, &mut warned)?;
    args.session.active.as_deref().map(|name| ask::active(&vault, name, &mut warned)).transpose()?;
    let Opened { mut kept, bench, stopper } = args.session.open(&place, &vault, &args.model, Keep::Everything)?;
    let answering = args.model.answering(&mut kept, bench, stopper)?;
    greet(&kept, &vault, &answering);
    let models = config::load()?.models(&is_set).into_iter().filter(|listed| listed.has_key);
    let names = Names::of(&vault, &kept, models.map(|listed| listed.model.name).collect());
    let history = place.store_file()?.with_file_name("history");
    let listing = rustyline::Config::builder().completion_type(CompletionType::List).build();
    let mut editor: Editor<Names, FileHistory> = Editor::with_config(listing)?;
    editor.set_helper(Some(names));
    // Without the file there are no earlier lines to recall.
    let _ = editor.load_history(&history);
    let active = args.session.active.clone();
    let (script, frozen) = (args.model.script.clone(), args.session.frozen);
    let mut chat = Chat { kept, answering, vault, waiting, active, warned, script, frozen };
    loop {
        match editor.readline("› ") {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => {
                // A line that cannot be recalled is still sent.
                let _ = editor.add_history_entry(&line);
                // Saved at once, so that a kill loses no line.
                let _ = editor.append_history(&history);
                if chat.line(line.trim())? == Next::End {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => note("press Ctrl-D or type /quit to end the chat"),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let id = chat.kept.id().to_owned();
    let is_empty = chat.kept.counts().inputs == 0 && chat.kept.row().title.is_none();
    drop(chat);
    if is_empty {
        // Nothing was said: the list of sessions would only get longer.
        let mut store = place.store()?;
        let _lease = store.lease(&id)?;
        store.delete(&id)?;
    } else {
        aside(&format!("saved as session {id}; to continue: foreword chat {} --session {id}", args.vault.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Says which model answers, where it runs, and which notes it can see.
fn greet(kept: &RecordedSession, vault: &Vault, answering: &Answering) {
    let (turns, notes) = (kept.session().turns(), count(vault.notes().len(), "note"));
    aside(&format!("model {}, {notes}, {}", shown(&kept.setup().model.name), shown(&answering.place)));
    if kept.setup().is_embedded() && turns == 0 {
        aside("this is the embedded small model: quick to try, often wrong; choose another one with --model");
    }
    let title = kept.row().title.as_deref().map(|title| one_line(title, 60)).unwrap_or_default();
    let about = if turns == 0 { String::new() } else { format!(", {}: {title}", count(turns, "turn")) };
    aside(&format!("session {}{about}; type /help for commands, [[ and Tab to attach a note", kept.id()));
}

#[derive(PartialEq, Eq)]
enum Next {
    Line,
    End,
}

struct Chat {
    kept: RecordedSession,
    answering: Answering,
    vault: Vault,
    /// Attachments for the next question.
    waiting: Vec<Version>,
    /// The path of the note that is open in the user's editor; it is read again for each question.
    active: Option<String>,
    warned: Warned,
    /// The script that replaces every model.
    script: Option<PathBuf>,
    /// Whether notes and rules stay as they were.
    frozen: bool,
}

impl Chat {
    fn line(&mut self, line: &str) -> Result<Next> {
        let (command, rest) = line.split_once(' ').map_or((line, ""), |(command, rest)| (command, rest.trim()));
        match command {
            "/quit" | "/exit" => return Ok(Next::End),
            "/help" => help(),
            "/attach" => self.attach(rest),
            "/active" => self.open_note(rest),
            "/context" => match rest.split_once(' ').unwrap_or((rest, "")) {
                ("", _) => self.context()?,
                ("next", words) if !words.trim().is_empty() => self.next(words.trim())?,
                _ => note("/context shows the last request; `/context next WORDS` shows the next one"),
            },
            "/cost" => {
                let status = Status::of(&self.kept)?;
                println!("{}", status.line(&self.kept));
                println!("{}", status.total());
            }
            "/add" | "/remove" => match rest.parse() {
                Ok(id) => self.tell(if command == "/add" { Input::Add(id) } else { Input::Remove(id) }),
                Err(error) => note(shown(&format!("{error}"))),
            },
            "/mode" => self.mode(rest),
            "/tools" => self.tools(rest),
            "/memory" => self.memory(rest),
            "/fold" => self.fold(rest),
            "/pin" => match self.kept.pin(rest, now_ms()) {
                Ok(pinned) => println!("pinned: {}", one_line(&pinned, 100)),
                Err(error) => note(shown(&error.to_string())),
            },
            "/summary" => self.summary(),
            "/plan" => self.plan(rest),
            "/undo" if !self.kept.session().can_undo_fold() => note("there is no fold to take back"),
            "/undo" => self.tell(Input::UndoFold),
            "/model" => self.model(rest),
            "/save" => self.save(rest),
            command if command.starts_with('/') => note(format!("unknown command {}; type /help for a list", shown(command))),
            _ => self.ask(line)?,
        }
        Ok(Next::Line)
    }

    fn tell(&mut self, input: Input) {
        match self.kept.tell(input, now_ms()) {
            Ok(_) => println!("takes effect with the next question"),
            Err(error) => note(shown(&error.to_string())),
        }
    }

    /// Shows what would leave the prompt, then requests the fold.
    fn fold(&mut self, focus: &str) {
        if self.kept.counts().requests == 0 {
            return note("nothing was sent yet, so there is nothing to fold");
        }
        match self.kept.session().preview_fold() {
            Ok(fold) if fold.after < fold.before => {
                let (messages, items) = (count(fold.messages.len(), "message"), count(fold.items.len(), "item"));
                println!("{messages} and {items} leave the prompt: {} tokens before, {} after", fold.before, fold.after);
                for spoken in fold.messages.iter().take(20) {
                    println!("  [{}] {}", spoken.id, one_line(&spoken.text, 90));
                }
                for left_out in &fold.items {
                    println!("  {}", shown(&left_out.item.to_string()));
                }
            }
            // Whether it is folded all the same is decided next, and why not is said there.
            Ok(_) | Err(_) => {}
        }
        match self.kept.fold(Some(focus), now_ms()) {
            Ok(()) => println!("takes effect with the next question; /undo reverts it"),
            Err(error) => note(shown(&error.to_string())),
        }
    }

    fn summary(&self) {
        match self.kept.session().shown_summary().0 {
            Some(summary) => summary.lines().for_each(|line| println!("{}", shown(line))),
            None => println!("the whole conversation is in the prompt; there is no summary"),
        }
        if let Some(view) = self.kept.view() {
            summary::show(view);
        }
    }

    /// Shows the current plan, or ends it.
    fn plan(&mut self, rest: &str) {
        let Some(plan) = self.kept.session().current_plan().cloned() else {
            return println!("there is no plan at work; a model makes one in agent mode");
        };
        match rest {
            "" => {
                let (at, of) = plan.position();
                for (number, step) in (1..).zip(plan.steps()) {
                    println!("{} {number:>2}  {}", if number == at { "›" } else { " " }, one_line(step, 200));
                }
                let rests = if self.kept.mode() == Mode::Agent { "" } else { "; it rests until a turn in agent mode" };
                println!("step {at} of {of}{rests}; `/plan cancel` ends the plan");
            }
            "cancel" => match self.kept.tell(Input::CancelPlan, now_ms()) {
                Ok(_) => println!("the plan is cancelled"),
                Err(error) => note(shown(&error.to_string())),
            },
            _ => note("/plan shows the current plan, `/plan cancel` ends it"),
        }
    }

    fn mode(&mut self, mode: &str) {
        match mode.parse::<Mode>() {
            Ok(mode) => {
                self.kept.set_mode(mode, now_ms());
                println!("mode {}: {}", mode.as_str(), about(mode));
            }
            Err(_) if mode.is_empty() => {
                for mode in Mode::ALL {
                    let here = if mode == self.kept.mode() { "›" } else { " " };
                    println!("{here} {:<6} {}", mode.as_str(), about(mode));
                }
            }
            Err(error) => note(shown(&error)),
        }
    }

    fn tools(&mut self, rest: &str) {
        if let Some(when) = rest.strip_prefix("ask") {
            match equip::asking(when.trim()) {
                Ok(asking) => {
                    self.answering.hands.toolbox().set_asking(asking);
                    println!("approval: {}", when.trim());
                }
                Err(error) => note(error),
            }
            return;
        }
        let agent = self.kept.session().agent();
        if agent.tools.is_empty() {
            println!("this session has no tools");
        }
        for tool in &agent.tools {
            let asked = if agent.tool_permission(tool) == Permission::Required { "asks" } else { "" };
            let about = one_line(tool.description.as_deref().unwrap_or_default(), 70);
            println!("  {:<28} {asked:<5} {about}", shown(tool.id().name()));
        }
    }

    fn memory(&mut self, rest: &str) {
        let root = self.vault.root();
        // What the user adds decides nothing about what somebody else wrote there before.
        let waits = !rest.is_empty() && self.instructions_wait().unwrap_or(true);
        let done = match rest.split_once(' ').unwrap_or((rest, "")) {
            ("", _) => Ok(()),
            ("add", what) => note_folder(root).and_then(|notes| Ok(memory::remember(&notes, what)?)),
            ("forget", number) => match number.trim().parse() {
                Ok(number) => note_folder(root).and_then(|notes| Ok(memory::forget(&notes, number)?)),
                Err(_) => return note("give its number: /memory forget 2"),
            },
            _ => {
                return note("/memory lists the memory, `/memory add TEXT` adds an entry, `/memory forget N` removes one");
            }
        };
        if let Err(error) = done {
            return note(shown(&error.to_string()));
        }
        if waits {
            note(
                "instructions of this folder wait for your decision, so the memory file is not used until `foreword trust` allows it",
            );
        } else if !rest.is_empty()
            && let Err(error) = self.allow_memory()
        {
            note(shown(&format!("{error:#}; `foreword trust` asks about it before the next session")));
        }
        let things = memory::read(root);
        if things.is_empty() {
            println!("the memory is empty; `/memory add TEXT` adds an entry");
        }
        for (number, thing) in (1..).zip(&things) {
            println!("{number:>3}  {}", one_line(thing, 200));
        }
        if !rest.is_empty() {
            println!("new sessions use the changed memory; this one does not");
        }
    }

    /// Whether the memory file or rule files of the vault say something that the user has not allowed.
    fn instructions_wait(&self) -> Result<bool> {
        let root = self.vault.root();
        let claims = VaultTrust::open(&places()?, root)?.claims(&open(root)?);
        Ok(claims.iter().any(|(claim, standing)| claim.file == memory::FILE && !matches!(standing, Standing::Allowed { .. })))
    }

    /// The user has just written it through this program, so nobody is asked whether it may be used.
    fn allow_memory(&self) -> Result<()> {
        let root = self.vault.root();
        Ok(VaultTrust::open(&places()?, root)?.allow_own_change(&open(root)?, memory::FILE)?)
    }

    fn attach(&mut self, what: &str) {
        match ask::attached(&self.vault, &[what.to_owned()], &mut self.warned) {
            Ok(versions) => {
                for version in versions {
                    println!("{} is attached to the next question", shown(&version.id.to_string()));
                    self.waiting.push(version);
                }
            }
            Err(error) => note(shown(&format!("{error:#}"))),
        }
    }

    fn open_note(&mut self, name: &str) {
        match name {
            "" => match &self.active {
                Some(name) => println!("{} is open; `/active none` closes it", shown(name)),
                None => println!("no note is open; set one with `/active NOTE`"),
            },
            "none" => self.active = None,
            name => match ask::active(&self.vault, name, &mut self.warned) {
                Ok(version) => {
                    println!("{} is open: it is sent with each question, including its images", shown(version.id.name()));
                    self.active = Some(name.to_owned());
                }
                Err(error) => note(shown(&format!("{error:#}"))),
            },
        }
    }

    /// Reads the open note again. If it is gone, the question is sent without it.
    fn active(&mut self) -> Option<Version> {
        let opened = ask::active(&self.vault, self.active.as_deref()?, &mut self.warned);
        opened.inspect_err(|error| note(shown(&format!("{error:#}")))).ok()
    }

    fn context(&self) -> Result<()> {
        let Ok((session, number)) =
            Point { session: self.kept.id().to_owned(), turn: None, step: None }.request(self.kept.store())
        else {
            note("nothing was sent yet; `/context next WORDS` shows the next request");
            return Ok(());
        };
        let mut out = terminal::stdout();
        let (store, found) = (self.kept.store(), inspect(self.kept.store(), &session, number)?);
        let (at, turn) = (Point::of_request(store, &session, number)?, turn_cost(store, &session, found.turn)?);
        request::show(&mut out, &found, &at, &turn)?;
        Ok(out.flush()?)
    }

    /// Shows the next request. Attachments stay queued for the next question.
    fn next(&mut self, words: &str) -> Result<()> {
        let linked = self.linked(words);
        let attached = self.waiting.iter().cloned().chain(linked).collect();
        let active = self.active();
        let question = ask::question(&self.kept, &self.vault, words, attached, active, self.frozen)?;
        preview::run(&self.kept, question, &mut self.answering.hands, preview::Form::Table)?;
        Ok(())
    }

    fn model(&mut self, name: &str) {
        if !name.is_empty()
            && let Err(error) = self.change_model(name)
        {
            return note(shown(&format!("{error:#}")));
        }
        let (name, place) = (&self.kept.setup().model.name, &self.answering.place);
        println!("model {}, {}", shown(name), shown(place));
    }

    /// Switches the model. The connection is prepared first, so that an error changes nothing.
    fn change_model(&mut self, name: &str) -> Result<()> {
        let (name, base_url) = name.split_once(' ').map_or((name, None), |(name, url)| (name, Some(url.trim().to_owned())));
        let wanted = ModelArgs { model: Some(name.to_owned()), base_url, window: None, script: self.script.clone() };
        let config = config::load()?;
        let chosen = wanted.choose(&config)?;
        let reached = match self.script {
            Some(_) => None,
            None => Some(model::reach(chosen.client.clone())?),
        };
        wanted.move_to(&mut self.kept, &config, chosen)?;
        if let Some((speaker, place)) = reached {
            self.answering.speaker = speaker;
            self.answering.place = place;
        }
        self.answering.hands.update(&mut self.kept, now_ms()).context("Failed to update the tools of this session")
    }

    fn save(&mut self, name: &str) {
        let title = one_line(name, 200);
        if !title.is_empty() {
            self.kept.rename(&title, now_ms());
            self.kept.take_failures().iter().for_each(|failure| note(shown(&failure.0)));
        }
        let file =
            self.kept.row().transcript.as_ref().and_then(|saved| saved.get("path")?.as_str()).filter(|path| !path.is_empty());
        match file {
            Some(file) => println!("saved as session {} and in {}", self.kept.id(), shown(file)),
            None => println!("saved as session {}; its file is written with the first question", self.kept.id()),
        }
    }

    /// The notes that a question links to. A broken link stays plain text.
    fn linked(&mut self, words: &str) -> Vec<Version> {
        ask::linked(&self.vault, words, &mut self.warned)
    }

    fn ask(&mut self, words: &str) -> Result<()> {
        self.vault.refresh();
        if !self.frozen {
            let folder = self.vault.root().to_owned();
            ask::refresh_agent(&mut self.kept, &self.vault, &folder)?;
        }
        let linked = self.linked(words);
        let attached = std::mem::take(&mut self.waiting).into_iter().chain(linked).collect();
        let active = self.active();
        let question = ask::question(&self.kept, &self.vault, words, attached, active, self.frozen)?;
        self.answering.stopper.reset();
        answer::run(&mut self.kept, Some(question), &mut self.answering, Shown::Live)?;
        Ok(())
    }
}

fn about(mode: Mode) -> &'static str {
    match mode {
        Mode::Chat => "conversation; the model may use tools",
        Mode::Qa => "search the notes first and cite the sources",
        Mode::Plan => "the model chooses all tools at once, then answers",
        Mode::Agent => "the model works with tools until the task is done",
    }
}

/// The width of the usage column.
const USAGE: usize = 29;

fn help() {
    let (paint, width) = (Paint::stdout(), width(Stream::Stdout));
    let mut group = "";
    for command in COMMANDS {
        if command.group != group {
            group = command.group;
            println!("{}", paint.with("1", group));
        }
        let line = format!("  {:<USAGE$} {}", command.usage, command.about);
        println!("{}", wrapped(&line, width, USAGE + 3));
    }
    let more = "[[a note]] attaches a note; @rule:NAME and @ref:NAME include an item of the agent; Tab completes names";
    println!("{}", wrapped(more, width, 0));
}

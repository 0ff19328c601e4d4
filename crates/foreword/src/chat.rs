//! `foreword chat`: a conversation in the terminal.

mod complete;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Result;
use clap::Args as ClapArgs;
use foreword_engine::memory;
use foreword_engine::session::{Input, Kept, Mode, Permission, Point, Version, inspect, turn_cost};
use foreword_engine::trust::{Standing, VaultTrust};
use foreword_engine::vault::Vault;
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
Chat over a folder of notes. Write [[a note]] to attach it, @rule:NAME or @ref:NAME to bring in an item of the agent; Tab completes names. A line that begins \
with / is a command, and /help lists them. Ctrl-C stops an answer, Ctrl-D ends the chat. Everything said is kept: `foreword chat --session last` goes on.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword chat examples/vault
  foreword chat ~/Notes --session last
  foreword chat ~/Notes --model claude-sonnet-5 --attach \"#project\"
  foreword chat . --model ollama/qwen3:8b
  foreword chat . --model any-name --base-url http://127.0.0.1:8080/v1 --window 16384";

/// What a line that begins with / can say.
struct Command {
    group: &'static str,
    usage: &'static str,
    about: &'static str,
}

const fn command(group: &'static str, usage: &'static str, about: &'static str) -> Command {
    Command { group, usage, about }
}

const INTO: &str = "What goes in";
const SENT: &str = "What is sent";
const SESSION: &str = "The session";

const COMMANDS: &[Command] = &[
    command(INTO, "/attach WHAT", "attach a note, a folder, a #tag, lines or a page to the next question"),
    command(INTO, "/active [NOTE]", "the note that is open in front of you: its images are sent along; `/active none` closes it"),
    command(INTO, "/add ITEM", "bring a rule or reference of the agent into the session"),
    command(INTO, "/remove ITEM", "take an item out: it is not sent again"),
    command(INTO, "/tools", "the tools of this session; `/tools ask always|tool|never` says when you are asked"),
    command(INTO, "/memory [add TEXT | forget N]", "what is remembered for every new session of this vault"),
    command(SENT, "/context", "what the last request held: its layers, its items, what was left out"),
    command(SENT, "/context next WORDS", "what would be sent if you asked this now; nothing is sent"),
    command(SENT, "/cost", "what the session used and cost so far"),
    command(SESSION, "/mode [MODE]", "how turns are carried: chat, qa, plan or agent"),
    command(SESSION, "/model [NAME]", "who answers; with a name, that model answers from here on"),
    command(SESSION, "/fold [FOCUS]", "fold with the next question: old runs become the summary; says first what would leave"),
    command(SESSION, "/undo", "take the last fold back"),
    command(SESSION, "/pin WHAT", "keep a message (m12) or an attached note through every fold"),
    command(
        SESSION,
        "/summary",
        "the summary that stands for older messages, with the messages it came from, and what the check found",
    ),
    command(SESSION, "/save [NAME]", "where the chat's file is; with a name, call the chat that"),
    command(SESSION, "/help", "this list"),
    command(SESSION, "/quit", "end the chat (also Ctrl-D)"),
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
    let Opened { mut kept, bench, stop } = args.session.open(&place, &vault, &args.model, Keep::Everything)?;
    let answering = args.model.answering(&mut kept, bench, &stop)?;
    greet(&kept, &vault, &answering);
    let models = config::load()?.models(&is_set).into_iter().filter(|listed| listed.has_key);
    let names = Names::of(&vault, &kept, models.map(|listed| listed.model.name).collect());
    let history = place.store_file()?.with_file_name("history");
    let listing = rustyline::Config::builder().completion_type(CompletionType::List).build();
    let mut editor: Editor<Names, FileHistory> = Editor::with_config(listing)?;
    editor.set_helper(Some(names));
    let _ = editor.load_history(&history);
    let active = args.session.active.clone();
    let mut chat = Chat { kept, answering, vault, waiting, active, warned, script: args.model.script.clone() };
    loop {
        match editor.readline("› ") {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => {
                let _ = editor.add_history_entry(&line);
                // Kept at once, so that a kill loses no line.
                let _ = editor.append_history(&history);
                if chat.line(line.trim())? == Next::End {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => note("Ctrl-D or /quit ends the chat"),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let id = chat.kept.id();
    if chat.kept.counts().inputs > 0 {
        aside(&format!("kept as session {id}; `foreword chat {} --session {id}` goes on", args.vault.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Says who answers, from where, and over what.
fn greet(kept: &Kept, vault: &Vault, answering: &Answering) {
    let (turns, notes) = (kept.session().turns(), count(vault.notes().len(), "note"));
    aside(&format!("{} answers over {notes}, {}", shown(&kept.setup().model.name), shown(&answering.place)));
    if kept.setup().is_embedded() && turns == 0 {
        aside("it is the small model that comes with Foreword: quick to try, often wrong; --model names another one");
    }
    let title = kept.row().title.as_deref().map(|title| one_line(title, 60)).unwrap_or_default();
    let about = if turns == 0 { String::new() } else { format!(", {} so far: {title}", count(turns, "turn")) };
    aside(&format!("session {}{about}; /help lists the commands, [[ and Tab attach a note", kept.id()));
}

#[derive(PartialEq, Eq)]
enum Next {
    Line,
    End,
}

struct Chat {
    kept: Kept,
    answering: Answering,
    vault: Vault,
    /// For the next question.
    waiting: Vec<Version>,
    /// The note that is open in front of the user, by name: each question takes it as it is then.
    active: Option<String>,
    warned: Warned,
    /// What plays every model.
    script: Option<PathBuf>,
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
                _ => note("/context shows the last request; `/context next WORDS` what would be sent"),
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
                Ok(pinned) => println!("kept through every fold: {}", one_line(&pinned, 100)),
                Err(error) => note(shown(&error.to_string())),
            },
            "/summary" => self.summary(),
            "/undo" if !self.kept.session().can_undo_fold() => note("there is no fold to take back"),
            "/undo" => self.tell(Input::UndoFold),
            "/model" => self.model(rest),
            "/save" => self.save(rest),
            command if command.starts_with('/') => note(format!("there is no command {}; /help lists them", shown(command))),
            _ => self.ask(line)?,
        }
        Ok(Next::Line)
    }

    fn tell(&mut self, input: Input) {
        match self.kept.tell(input, now_ms()) {
            Ok(_) => println!("it takes effect with the next question"),
            Err(error) => note(shown(&error.to_string())),
        }
    }

    /// Says what would leave, then asks for it.
    fn fold(&mut self, focus: &str) {
        if self.kept.counts().requests == 0 {
            return note("nothing was sent yet, so there is nothing to fold");
        }
        match self.kept.session().preview_fold() {
            Ok(fold) if fold.after < fold.before => {
                let (messages, items) = (count(fold.messages.len(), "message"), count(fold.items.len(), "item"));
                println!("{messages} and {items} would leave the prompt: {} tokens now, {} then", fold.before, fold.after);
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
            Ok(()) => println!("it takes effect with the next question; /undo takes it back"),
            Err(error) => note(shown(&error.to_string())),
        }
    }

    fn summary(&self) {
        match self.kept.session().shown_summary().0 {
            Some(summary) => summary.lines().for_each(|line| println!("{}", shown(line))),
            None => println!("everything that was said stands in the prompt; there is no summary"),
        }
        if let Some(view) = self.kept.view() {
            summary::show(view);
        }
    }

    fn mode(&mut self, mode: &str) {
        match mode.parse::<Mode>() {
            Ok(mode) => {
                self.kept.set_mode(mode, now_ms());
                println!("from here on: {}", about(mode));
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
                    println!("you are asked {}", when.trim());
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
                Err(_) => return note("say which one by its number: /memory forget 2"),
            },
            _ => {
                return note(
                    "/memory shows what is remembered, `/memory add TEXT` adds to it, `/memory forget N` removes from it",
                );
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
            println!("nothing is remembered; `/memory add TEXT` adds something");
        }
        for (number, thing) in (1..).zip(&things) {
            println!("{number:>3}  {}", one_line(thing, 200));
        }
        if !rest.is_empty() {
            println!("new sessions begin with it; this one goes on as it began");
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
                    println!("{} comes with the next question", shown(&version.id.to_string()));
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
                None => println!("no note is open; `/active NOTE` opens one"),
            },
            "none" => self.active = None,
            name => match ask::active(&self.vault, name, &mut self.warned) {
                Ok(version) => {
                    println!("{} is open: it comes with each question, and so do its images", shown(version.id.name()));
                    self.active = Some(name.to_owned());
                }
                Err(error) => note(shown(&format!("{error:#}"))),
            },
        }
    }

    /// The note that is open, as it is now. One that is gone does not keep anybody from asking.
    fn active(&mut self) -> Option<Version> {
        let opened = ask::active(&self.vault, self.active.as_deref()?, &mut self.warned);
        opened.inspect_err(|error| note(shown(&format!("{error:#}")))).ok()
    }

    fn context(&self) -> Result<()> {
        let Ok((session, number)) =
            Point { session: self.kept.id().to_owned(), turn: None, step: None }.request(self.kept.store())
        else {
            note("nothing was sent yet; `/context next WORDS` shows what would be");
            return Ok(());
        };
        let mut out = terminal::stdout();
        let (store, found) = (self.kept.store(), inspect(self.kept.store(), &session, number)?);
        let (at, turn) = (Point::of_request(store, &session, number)?, turn_cost(store, &session, found.turn)?);
        request::show(&mut out, &found, &at, &turn)?;
        Ok(out.flush()?)
    }

    /// Shows what would be sent; what waits for the next question goes on waiting.
    fn next(&mut self, words: &str) -> Result<()> {
        let linked = self.linked(words);
        let attached = self.waiting.iter().cloned().chain(linked).collect();
        let active = self.active();
        let question = ask::question(&self.kept, &self.vault, words, attached, active)?;
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
        println!("{} answers, {}", shown(name), shown(place));
    }

    /// Whoever answers is reached for first: what is wrong with that is said before anything changes.
    fn change_model(&mut self, name: &str) -> Result<()> {
        let wanted = ModelArgs { model: Some(name.to_owned()), base_url: None, window: None, script: self.script.clone() };
        let chosen = wanted.choose(&config::load()?)?;
        wanted.prepare(&chosen)?;
        let reached = match self.script {
            Some(_) => None,
            None => Some(model::reach(chosen.client, &self.answering.stop)?),
        };
        model::change(&mut self.kept, chosen.model)?;
        if let Some((speaker, place)) = reached {
            self.answering.speaker = speaker;
            self.answering.place = place;
        }
        equip::update(&mut self.kept, &mut self.answering.hands)
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
            Some(file) => println!("kept as session {}, and in {}", self.kept.id(), shown(file)),
            None => println!("kept as session {}; its file is written with the first question", self.kept.id()),
        }
    }

    /// The notes that a question links to. A link that leads nowhere stays what it is: words.
    fn linked(&mut self, words: &str) -> Vec<Version> {
        ask::linked(&self.vault, words, &mut self.warned)
    }

    fn ask(&mut self, words: &str) -> Result<()> {
        let linked = self.linked(words);
        let attached = std::mem::take(&mut self.waiting).into_iter().chain(linked).collect();
        let active = self.active();
        let question = ask::question(&self.kept, &self.vault, words, attached, active)?;
        self.answering.stop.store(false, Ordering::Relaxed);
        answer::run(&mut self.kept, Some(question), &mut self.answering, Shown::Live)?;
        Ok(())
    }
}

fn about(mode: Mode) -> &'static str {
    match mode {
        Mode::Chat => "plain conversation; the model may use the session's tools",
        Mode::Qa => "the notes are searched first, and the answer cites what was found",
        Mode::Plan => "the model says once which tools to run, then it answers",
        Mode::Agent => "the model works with its tools until it says that the task is done",
    }
}

/// So wide is what a command takes.
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
    let more =
        "[[a note]] in a question attaches it; @rule:NAME and @ref:NAME bring in an item of the agent; Tab completes names";
    println!("{}", wrapped(more, width, 0));
}

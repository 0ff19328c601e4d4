//! `foreword chat`: a conversation in the terminal.

mod complete;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Result;
use clap::Args as ClapArgs;
use foreword_engine::session::{Input, Kept, Point, Version, inspect};
use foreword_engine::vault::Vault;
use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;

use crate::answer::{self, Shown, Status};
use crate::ask::{self, Keep, SessionArgs};
use crate::config::{self, is_set};
use crate::inspect as request;
use crate::kept::{Vault as VaultArg, now_ms};
use crate::model::{Answering, ModelArgs};
use crate::paint::{Paint, count, note, one_line, shown};
use crate::preview;
use crate::tree::open;
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
    command(INTO, "/add ITEM", "bring a rule or reference of the agent into the session"),
    command(INTO, "/remove ITEM", "take an item out: it is not sent again"),
    command(SENT, "/context", "what the last request held: its layers, its items, what was left out"),
    command(SENT, "/context next WORDS", "what would be sent if you asked this now; nothing is sent"),
    command(SENT, "/cost", "what the session used and cost so far"),
    command(SESSION, "/fold", "fold with the next question: old runs become the summary"),
    command(SESSION, "/undo", "take the last fold back"),
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
    let waiting = ask::attached(&vault, &args.session.attach)?;
    let mut kept = args.session.open(&place, &args.model, Keep::Everything)?;
    let answering = args.model.answering(&mut kept)?;
    greet(&kept, &vault, &answering);
    let models = config::load()?.models(&is_set).into_iter().filter(|listed| listed.has_key);
    let names = Names::of(&vault, &kept, models.map(|listed| listed.model.name).collect());
    let history = args.vault.join(".foreword/history");
    let mut editor: Editor<Names, FileHistory> = Editor::new()?;
    editor.set_helper(Some(names));
    let _ = editor.load_history(&history);
    let mut chat = Chat { kept, answering, vault, waiting };
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
        eprintln!(
            "{}",
            Paint::stderr()
                .with("2", format!("kept as session {id}; `foreword chat {} --session {id}` goes on", args.vault.display()))
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Says who answers, from where, and over what.
fn greet(kept: &Kept, vault: &Vault, answering: &Answering) {
    let dim = |text: String| eprintln!("{}", Paint::stderr().with("2", text));
    let (turns, notes) = (kept.session().turns(), count(vault.notes().len(), "note"));
    dim(format!("{} answers over {notes}, {}", shown(&kept.setup().model.name), shown(&answering.place)));
    if kept.setup().is_embedded() && turns == 0 {
        dim("it is the small model that comes with Foreword: quick to try, often wrong; --model names another one".to_owned());
    }
    let title = kept.row().title.as_deref().map(|title| one_line(title, 60)).unwrap_or_default();
    let about = if turns == 0 { String::new() } else { format!(", {} so far: {title}", count(turns, "turn")) };
    dim(format!("session {}{about}; /help lists the commands, [[ and Tab attach a note", kept.id()));
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
}

impl Chat {
    fn line(&mut self, line: &str) -> Result<Next> {
        let (command, rest) = line.split_once(' ').map_or((line, ""), |(command, rest)| (command, rest.trim()));
        match command {
            "/quit" | "/exit" => return Ok(Next::End),
            "/help" => help(),
            "/attach" => self.attach(rest),
            "/context" => match rest.split_once(' ').unwrap_or((rest, "")) {
                ("", _) => self.context()?,
                ("next", words) if !words.trim().is_empty() => self.next(words.trim())?,
                _ => note("/context shows the last request; `/context next WORDS` what would be sent"),
            },
            "/cost" => {
                let status = Status::of(&self.kept)?;
                println!("{}", status.line(&self.kept));
                println!("${:.6} so far, ${:.6} saved by the cache", status.cost, status.saved);
            }
            "/add" | "/remove" => match rest.parse() {
                Ok(id) => self.tell(if command == "/add" { Input::Add(id) } else { Input::Remove(id) }),
                Err(error) => note(shown(&format!("{error}"))),
            },
            "/fold" => self.tell(Input::Fold),
            "/undo" => self.tell(Input::UndoFold),
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

    fn attach(&mut self, what: &str) {
        match ask::attached(&self.vault, &[what.to_owned()]) {
            Ok(versions) => {
                for version in versions {
                    println!("{} comes with the next question", shown(&version.id.to_string()));
                    self.waiting.push(version);
                }
            }
            Err(error) => note(shown(&format!("{error:#}"))),
        }
    }

    fn context(&self) -> Result<()> {
        let Ok((session, number)) =
            Point { session: self.kept.id().to_owned(), turn: None, step: None }.request(self.kept.store())
        else {
            note("nothing was sent yet; `/context next WORDS` shows what would be");
            return Ok(());
        };
        let mut out = io::stdout().lock();
        request::show(&mut out, &inspect(self.kept.store(), &session, number)?)?;
        Ok(out.flush()?)
    }

    /// Shows what would be sent; what waits for the next question goes on waiting.
    fn next(&mut self, words: &str) -> Result<()> {
        let attached = self.waiting.iter().cloned().chain(self.linked(words)).collect();
        let question = ask::question(&self.kept, &self.vault, words, attached)?;
        preview::run(&self.kept, question, &mut *self.answering.hands, preview::Form::Table)?;
        Ok(())
    }

    fn save(&mut self, name: &str) {
        let title = one_line(name, 200);
        if !title.is_empty() {
            self.kept.rename(&title, now_ms());
            self.kept.take_failures().iter().for_each(|failure| note(shown(&failure.0)));
        }
        let file = self.kept.row().transcript.as_ref().and_then(|saved| saved.get("path")?.as_str());
        match file {
            Some(file) => println!("kept as session {}, and in {}", self.kept.id(), shown(file)),
            None => println!("kept as session {}; its file is written with the first question", self.kept.id()),
        }
    }

    /// The notes that a question links to. A link that leads nowhere stays what it is: words.
    fn linked(&self, words: &str) -> Vec<Version> {
        let mut found = Vec::new();
        for link in links(words) {
            match ask::attached(&self.vault, &[link]) {
                Ok(versions) => found.extend(versions),
                Err(error) => note(shown(&format!("{error:#}"))),
            }
        }
        found
    }

    fn ask(&mut self, words: &str) -> Result<()> {
        let linked = self.linked(words);
        let attached = std::mem::take(&mut self.waiting).into_iter().chain(linked).collect();
        let question = ask::question(&self.kept, &self.vault, words, attached)?;
        self.answering.stop.store(false, Ordering::Relaxed);
        answer::run(&mut self.kept, Some(question), &mut self.answering, Shown::Live)?;
        Ok(())
    }
}

fn help() {
    let paint = Paint::stdout();
    let mut group = "";
    for command in COMMANDS {
        if command.group != group {
            group = command.group;
            println!("{}", paint.with("1", group));
        }
        println!("  {:<20} {}", command.usage, command.about);
    }
    println!("[[a note]] in a question attaches it; @rule:NAME and @ref:NAME bring in an item of the agent; Tab completes names");
}

/// The `[[links]]` of a question.
fn links(words: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut rest = words;
    while let Some((_, after)) = rest.split_once("[[") {
        let Some((link, behind)) = after.split_once("]]") else { break };
        if !link.trim().is_empty() && !link.contains('\n') {
            links.push(format!("[[{link}]]"));
        }
        rest = behind;
    }
    links
}

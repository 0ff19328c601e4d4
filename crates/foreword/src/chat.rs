//! `foreword chat`: a conversation in the terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Result;
use clap::Args as ClapArgs;
use foreword_engine::session::{Input, Kept, Point, TurnInput, Version, inspect};
use foreword_engine::vault::Vault;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};

use crate::ask::{self, SessionArgs, Status};
use crate::inspect as request;
use crate::kept::{Vault as VaultArg, now_ms};
use crate::model::{Answering, ModelArgs};
use crate::paint::{Paint, note, shown};
use crate::tree::open;

pub(crate) const LONG_ABOUT: &str = "\
Chat over a folder of notes. Write [[a note]] to attach it; a line that begins with / is a command, and /help lists them. Ctrl-C stops an answer, Ctrl-D \
ends the chat. Everything said is kept: `foreword chat --session last` goes on.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword chat examples/vault
  foreword chat ~/Notes --session last
  foreword chat ~/Notes --model claude-sonnet-5 --attach \"#project\"
  foreword chat . --model llama.cpp --base-url http://127.0.0.1:8080/v1";

const COMMANDS: [(&str, &str); 9] = [
    ("/attach WHAT", "attach a note, a folder, a tag, lines or a page to the next question"),
    ("/context", "what the last request held: its layers, its items, what was left out"),
    ("/cost", "what the session used and cost so far"),
    ("/add ITEM", "bring a rule or reference of the agent into the session"),
    ("/remove ITEM", "take an item out: it is not sent again"),
    ("/fold", "fold with the next question: old runs become the summary"),
    ("/undo", "take the last fold back"),
    ("/help", "this list"),
    ("/quit", "end the chat (also Ctrl-D)"),
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

/// Completes `[[` with the names of notes, and `/` with the commands.
struct Names {
    notes: Vec<String>,
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..at).unwrap_or_default();
        let pair = |shown: &str, put: String| Pair { display: shown.to_owned(), replacement: put };
        if let Some(open) = before.rfind("[[").filter(|open| !before[*open..].contains("]]")) {
            let begun = before[open + 2..].to_lowercase();
            let fits = self.notes.iter().filter(|name| name.to_lowercase().contains(&begun)).take(50);
            return Ok((open, fits.map(|name| pair(name, format!("[[{name}]]"))).collect()));
        }
        if before.starts_with('/') {
            let words = COMMANDS.iter().filter_map(|(usage, _)| usage.split(' ').next());
            let fits = words.filter(|word| word.starts_with(before));
            return Ok((0, fits.map(|word| pair(word, word.to_owned())).collect()));
        }
        Ok((at, Vec::new()))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(Paint::new(io::stdout().is_terminal()).with("1;36", prompt))
    }
}

impl Validator for Names {}
impl Helper for Names {}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let vault = open(&args.vault)?;
    let place = VaultArg { vault: args.vault.clone() };
    let waiting = ask::attached(&vault, &args.session.attach)?;
    let mut kept = args.session.open(&place, &args.model)?;
    let answering = args.model.answering(&mut kept)?;
    greet(&kept);
    let notes = vault.notes().map(|listed| listed.facts.path.trim_end_matches(".md").to_owned()).collect();
    let history = args.vault.join(".foreword/history");
    let mut editor: Editor<Names, FileHistory> = Editor::new()?;
    editor.set_helper(Some(Names { notes }));
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

fn greet(kept: &Kept) {
    let paint = Paint::stderr();
    let turns = kept.session().turns();
    let title = kept.row().title.as_deref().map(shown).unwrap_or_default();
    let about = if turns == 0 { String::new() } else { format!(", {turns} turns so far: {title}") };
    eprintln!(
        "{}",
        paint.with("2", format!("session {}, {}{about}. /help lists the commands", kept.id(), kept.setup().model.name))
    );
    if kept.setup().is_embedded() && turns == 0 {
        note("this is the small model that comes with Foreword: quick to try, often wrong. --model names another one");
    }
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
            "/help" => {
                for (usage, about) in COMMANDS {
                    println!("  {usage:<14} {about}");
                }
            }
            "/attach" => self.attach(rest),
            "/context" => self.context()?,
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
            note("nothing was sent yet");
            return Ok(());
        };
        let mut out = io::stdout().lock();
        request::show(&mut out, &inspect(self.kept.store(), &session, number)?)?;
        Ok(out.flush()?)
    }

    fn ask(&mut self, words: &str) -> Result<()> {
        let linked = links(words);
        if !linked.is_empty() {
            // A link that leads nowhere stays what it is: words.
            for link in linked {
                match ask::attached(&self.vault, &[link]) {
                    Ok(versions) => self.waiting.extend(versions),
                    Err(error) => note(shown(&format!("{error:#}"))),
                }
            }
        }
        let attached = std::mem::take(&mut self.waiting);
        let turn = TurnInput { words: words.to_owned(), attached, ..TurnInput::default() };
        self.answering.stop.store(false, Ordering::Relaxed);
        ask::run(&mut self.kept, Some(turn), &self.vault, &mut self.answering, false)?;
        Ok(())
    }
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

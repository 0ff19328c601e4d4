//! `foreword export` and `foreword import`: sessions and chats as files.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args as ClapArgs;
use foreword_audit::conversation;
use foreword_engine::Layout;
use foreword_engine::chats::{
    Call, ChatReport, Chats, Context as ChatContext, Entry, Imported, Importer, Role, Source, Transcript, files, messages,
};
use foreword_engine::session::{Dump, Point, Setup, Store, export, take_in, transcript};
use foreword_engine::vault::agent;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::kept::Vault;
use crate::paint::{note, one_line, shown};
use crate::places::places;
use crate::terminal;
use crate::tree::open;

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword export last > session.json                everything, to be taken in elsewhere with `foreword import`
  foreword export last --markdown                    the transcript, as obsidian-copilot saves it
  foreword export last --json                        the messages, one JSON object";

pub(crate) const IMPORT_LONG_ABOUT: &str = "\
Take chats in as sessions that can be gone on with: chats that obsidian-copilot saved, AssistantMD's transcripts, files of Foreword's own, and sessions that \
`foreword export` wrote (.json). A folder stands for the .md files in it.

Sessions of coding agents are taken in as well, with what their tools gave back: a log of Claude Code, Codex, Gemini CLI, Qwen Code or Pi, or what `opencode export` wrote.

Notes that a chat names are looked for by path, then by name; those that are gone or not clear are left out with a warning. When the session goes on, it gets \
the notes as they are then.";

pub(crate) const IMPORT_AFTER_HELP: &str = "\
Examples:
  foreword import \"copilot/copilot-conversations\" --vault ~/Notes
  foreword import chat.md session.json --json
  foreword import ~/.claude/projects/-work-app/SESSION.jsonl
Exit codes: 0 all were taken in; 1 some were not; 2 the arguments or the vault are wrong.";

/// Options of `foreword export`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Which session
    session: Point,
    #[command(flatten)]
    vault: Vault,
    /// Print the transcript
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print the messages as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let store = args.vault.store()?;
    let id = args.session.session(&store)?;
    let mut out = terminal::plain_stdout();
    if args.markdown || args.json {
        let row = store.session(&id)?;
        let transcript = transcript(&store, &row)?;
        if args.markdown {
            out.write_all(Chats::open(&args.vault.root()?, TimeZone::system())?.render(&transcript).as_bytes())?;
        } else {
            let report = json!({"session": id, "topic": transcript.title(), "messages": messages(&transcript.messages)});
            writeln!(out, "{report}")?;
        }
    } else {
        serde_json::to_writer(&mut out, &export(&store, &id)?)?;
        writeln!(out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Options of `foreword import`.
#[derive(ClapArgs)]
pub(crate) struct ImportArgs {
    /// Files and folders
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    vault: Vault,
    /// Print one JSON object a file
    #[arg(long)]
    json: bool,
}

/// No exported session is larger.
const MOST_BYTES: u64 = 1 << 30;

pub(crate) fn import_main(args: &ImportArgs) -> Result<ExitCode> {
    let vault = open(&args.vault.vault)?;
    let importer = Importer::new(&vault, TimeZone::system());
    let Some((agent, _)) = agent(vault.root(), None) else { bail!("the vault cannot be read") };
    let (agents, rest): (Vec<PathBuf>, Vec<PathBuf>) =
        args.paths.iter().cloned().partition(|path| conversation::is_session(path));
    let (dumps, chats): (Vec<PathBuf>, Vec<PathBuf>) =
        rest.into_iter().partition(|path| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json")));
    let mut skipped = 0;
    let mut out = terminal::stdout();
    for dump in dumps {
        match load(args, &dump) {
            Ok(session) if args.json => {
                let store = args.vault.store()?;
                let transcript = transcript(&store, &store.session(&session)?)?;
                let (file, topic, said) = (dump.display().to_string(), transcript.title(), messages(&transcript.messages));
                let report = json!({"file": file, "session": session, "topic": topic, "messages": said, "warnings": []});
                writeln!(out, "{report}")?;
            }
            Ok(session) => writeln!(out, "{session}  {}", shown(&dump.display().to_string()))?,
            Err(error) => {
                skipped += 1;
                note(shown(&format!("skipped {}: {error:#}", dump.display())));
            }
        }
    }
    let found = files(&chats, vault.root());
    skipped += found.skipped.len();
    found.skipped.iter().for_each(|skipped| note(shown(&skipped.to_string())));
    let agents = agents.iter().map(|file| agent_session(file).map_err(|error| format!("skipped {error}")));
    let chats = found.files.iter().map(|file| importer.import(file).map_err(|error| error.to_string()));
    for chat in agents.chain(chats) {
        let chat = match chat {
            Ok(chat) => chat,
            Err(error) => {
                skipped += 1;
                note(shown(&error));
                continue;
            }
        };
        let setup = Setup::new("", None, Layout::Log, 0, Some(&places()?.models))?;
        let taken = take_in(Box::new(args.vault.make_store()?), &chat, &agent, setup)?;
        if args.json {
            writeln!(out, "{}", serde_json::to_string(&ChatReport::new(&chat, &taken.session))?)?;
        } else {
            let count = chat.transcript.messages.len();
            let known = if taken.known { ", was here already" } else { "" };
            writeln!(out, "{}  {}  {count} messages{known}", taken.session, one_line(&chat.transcript.title(), 60))?;
        }
        if !args.json {
            chat.warnings.iter().for_each(|warning| note(shown(&format!("{}: {}", chat.file, warning.text))));
        }
    }
    Ok(ExitCode::from(u8::from(skipped > 0)))
}

/// A coding agent's session as a chat.
fn agent_session(file: &Path) -> Result<Imported, conversation::Unread> {
    let found = conversation::read(file)?;
    let messages = found.messages.into_iter().map(|message| {
        let role = if message.user { Role::User } else { Role::Assistant };
        let calls = message.calls.into_iter();
        let calls = calls.map(|call| Call { id: call.id, name: call.name, arguments: call.arguments, result: call.result });
        let time = message.time_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        Entry { time, calls: calls.collect(), context: ChatContext::default(), ..Entry::new(role, message.text) }
    });
    let messages: Vec<Entry> = messages.collect();
    let first = messages.iter().find_map(|entry| entry.time);
    let transcript = Transcript {
        epoch_ms: first.map_or(0, Timestamp::as_millisecond),
        session: Some(found.id).filter(|id| !id.is_empty()),
        model: Some(found.model).filter(|model| !model.is_empty()),
        messages,
        ..Transcript::default()
    };
    Ok(Imported { file: file.display().to_string(), source: Source::Agent, transcript, warnings: Vec::new(), saved: None })
}

fn load(args: &ImportArgs, file: &Path) -> Result<String> {
    let facts = fs::metadata(file)?;
    if !facts.is_file() || facts.len() > MOST_BYTES {
        bail!("it is not a file, or larger than {MOST_BYTES} bytes");
    }
    let dump: Dump = serde_json::from_slice(&fs::read(file)?).context("it is no session that `foreword export` wrote")?;
    args.vault.make_store()?.load(&dump)?;
    Ok(dump.id)
}

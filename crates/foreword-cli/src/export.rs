//! `foreword export` and `foreword import`: sessions and chats as files.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args as ClapArgs;
use foreword_audit::conversation;
use foreword_engine::Layout;
use foreword_engine::clock;
use foreword_engine::session::{Dump, Point, Setup, Store, export, not_brought_back, take_in, transcript};
use foreword_engine::vault::agent;
use foreword_vault_tools::chats::{
    Call, ChatReport, Chats, Context as ChatContext, Entry, Imported, Importer, Role, Source, Transcript, files, messages,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::kept::Vault;
use crate::paint::{count, note, one_line, shown};
use crate::places::places;
use crate::terminal;
use crate::tree::open;

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword export last > session.json                the whole session, for `foreword import`
  foreword export last --markdown                    the transcript, in the format of obsidian-copilot
  foreword export last --json                        the messages, as one JSON object";

pub(crate) const IMPORT_LONG_ABOUT: &str = "\
Import chats as sessions that you can continue: chats saved by obsidian-copilot, transcripts of AssistantMD, Foreword's own markdown files, and sessions \
from `foreword export` (.json). For a folder, all .md files in it are imported.

Sessions of coding agents are imported too, with the results of their tools: a log of Claude Code, Codex, Gemini CLI, Qwen Code or Pi, or the \
output of `opencode export`.

Notes that a chat mentions are looked up by path, then by name; missing and ambiguous ones are skipped with a warning. A continued session uses \
the notes as they are then.";

pub(crate) const IMPORT_AFTER_HELP: &str = "\
Examples:
  foreword import \"copilot/copilot-conversations\" --vault ~/Notes
  foreword import chat.md session.json --json
  foreword import ~/.claude/projects/-work-app/SESSION.jsonl
Exit codes: 0 all files were imported; 1 some were skipped; 2 an argument or the vault is wrong.";

/// Options of `foreword export`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The session
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
        writeln!(out, "{}", serde_json::to_string(&export(&store, &id)?)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Options of `foreword import`.
#[derive(ClapArgs)]
pub(crate) struct ImportArgs {
    /// Files and folders to import
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    vault: Vault,
    /// Print one JSON object per file
    #[arg(long)]
    json: bool,
}

/// The largest exported session that is read.
const MOST_BYTES: u64 = 1 << 30;

pub(crate) fn import_main(args: &ImportArgs) -> Result<ExitCode> {
    let vault = open(&args.vault.vault)?;
    let importer = Importer::new(&vault, TimeZone::system());
    let Some((agent, _)) = agent(vault.root(), None) else { bail!("Failed to read the vault") };
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
        let mut chat = match chat {
            Ok(chat) => chat,
            Err(error) => {
                skipped += 1;
                note(shown(&error));
                continue;
            }
        };
        chat.warnings.extend(not_brought_back(&chat, &vault, &clock::zoned()));
        let setup = Setup::new("", None, Layout::Log, 0, Some(&places()?.models))?;
        let taken = take_in(Box::new(args.vault.make_store()?), &chat, &agent, setup, Some(&places()?.models))?;
        if args.json {
            writeln!(out, "{}", serde_json::to_string(&ChatReport::new(&chat, &taken.session))?)?;
        } else {
            let said = count(chat.transcript.messages.len(), "message");
            let known = if taken.known { ", was here already" } else { "" };
            writeln!(out, "{}  {}  {said}{known}", taken.session, one_line(&chat.transcript.title(), 60))?;
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
    Ok(Imported::of(file.display().to_string(), Source::Agent, transcript))
}

fn load(args: &ImportArgs, file: &Path) -> Result<String> {
    let facts = fs::metadata(file)?;
    if !facts.is_file() || facts.len() > MOST_BYTES {
        bail!("not a file, or larger than {MOST_BYTES} bytes");
    }
    let dump: Dump = serde_json::from_slice(&fs::read(file)?).context("not a session from `foreword export`")?;
    args.vault.make_store()?.load(&dump)?;
    Ok(dump.id)
}

//! `foreword export` and `foreword import`: sessions and chats as files.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args as ClapArgs;
use foreword_engine::Layout;
use foreword_engine::chats::{ChatReport, Chats, Importer, files, messages};
use foreword_engine::clock;
use foreword_engine::session::{Dump, Point, Setup, Store, export, not_brought_back, take_in, transcript};
use foreword_engine::vault::agent;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::kept::Vault;
use crate::paint::{count, note, one_line, shown};
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

Notes that a chat names are looked for by path, then by name; those that are gone or not clear are left out with a warning. When the session goes on, it gets \
the notes as they are then.";

pub(crate) const IMPORT_AFTER_HELP: &str = "\
Examples:
  foreword import \"copilot/copilot-conversations\" --vault ~/Notes
  foreword import chat.md session.json --json
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
        writeln!(out, "{}", serde_json::to_string(&export(&store, &id)?)?)?;
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
    let (dumps, chats): (Vec<PathBuf>, Vec<PathBuf>) =
        args.paths.iter().cloned().partition(|path| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json")));
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
    for file in &found.files {
        let mut chat = match importer.import(file) {
            Ok(chat) => chat,
            Err(error) => {
                skipped += 1;
                note(shown(&error.to_string()));
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

fn load(args: &ImportArgs, file: &Path) -> Result<String> {
    let facts = fs::metadata(file)?;
    if !facts.is_file() || facts.len() > MOST_BYTES {
        bail!("it is not a file, or larger than {MOST_BYTES} bytes");
    }
    let dump: Dump = serde_json::from_slice(&fs::read(file)?).context("it is no session that `foreword export` wrote")?;
    args.vault.make_store()?.load(&dump)?;
    Ok(dump.id)
}

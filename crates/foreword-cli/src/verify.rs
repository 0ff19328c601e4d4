//! `foreword verify` and `foreword backup`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args as ClapArgs;
use foreword_engine::session::{Sqlite, Store, StoreError, verify};
use serde_json::json;

use crate::kept::Vault;
use crate::paint::{count, shown};
use crate::progress::Bar;
use crate::terminal;

pub(crate) const LONG_ABOUT: &str = "\
Check the store: every hash, every reference, and every tool call and its result. Render every request again and compare it with the bytes that \
were sent. Report acknowledged writes that are missing, files that were set aside, and rows that someone else added to the database.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword verify --vault examples/vault
Exit codes: 0 no errors; 1 errors were found; 2 there is no store.";

/// Options of `foreword verify`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    vault: Vault,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let store = match Sqlite::open_existing(&args.vault.store_file()?) {
        Err(error @ StoreError::Damaged(_)) => {
            println!("broken: {}", shown(&error.to_string()));
            return Ok(ExitCode::from(1));
        }
        opened => opened?,
    };
    let mut bar = Bar::of_things("verifying");
    let looked = verify(&store, &mut |done, of| bar.at(done, of));
    drop(bar);
    let mut out = terminal::stdout();
    let verified = match looked {
        Ok(verified) => verified,
        // The store is too damaged to check all of it.
        Err(error) => {
            let what = json!({"faults": [{"session": null, "place": "database", "what": error.to_string()}]});
            if args.json {
                writeln!(out, "{what}")?;
            } else {
                writeln!(out, "broken: {}", shown(&error.to_string()))?;
            }
            return Ok(ExitCode::from(1));
        }
    };
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&verified)?)?;
    } else {
        for fault in &verified.faults {
            let session = fault.session.as_ref().map(|session| format!("session {}: ", shown(session))).unwrap_or_default();
            writeln!(out, "broken: {session}{}: {}", shown(&fault.place), shown(&fault.what))?;
        }
        let word = if verified.faults.is_empty() { "no errors".to_owned() } else { count(verified.faults.len(), "fault") };
        writeln!(
            out,
            "{}, {}, {} rendered again: {word}",
            count(verified.sessions, "session"),
            count(usize::try_from(verified.inputs)?, "input"),
            count(usize::try_from(verified.requests)?, "request")
        )?;
    }
    Ok(ExitCode::from(u8::from(!verified.faults.is_empty())))
}

pub(crate) const BACKUP_AFTER_HELP: &str = "\
You can make a backup while sessions are in use. To restore it, replace .foreword/foreword.db with the copy.

Examples:
  foreword backup sessions-2026-11-15.db --vault examples/vault";

/// Options of `foreword backup`.
#[derive(ClapArgs)]
pub(crate) struct BackupArgs {
    /// The file to write; it must not exist
    file: PathBuf,
    #[command(flatten)]
    vault: Vault,
}

pub(crate) fn backup_main(args: &BackupArgs) -> Result<ExitCode> {
    let store = args.vault.store()?;
    store.backup(&args.file)?;
    let size = std::fs::metadata(&args.file).map_or(0, |facts| facts.len());
    println!("{}, {} kB", count(store.sessions()?.len(), "session"), size.div_ceil(1024));
    Ok(ExitCode::SUCCESS)
}

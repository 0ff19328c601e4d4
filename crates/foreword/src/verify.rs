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
Look at everything that is kept: every hash, every pointer, every pair of a tool call and its result; and render every request again to see that it is \
still what was sent. What was acknowledged is compared with what is stored: losses and files that were set aside are named, and so is whatever someone planted in the \
database. What is broken is named.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword verify --vault examples/vault
Exit codes: 0 all is well; 1 something is broken; 2 there is no store.";

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
        // So broken that not all of it could be looked at.
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
        let word = if verified.faults.is_empty() { "all is well".to_owned() } else { count(verified.faults.len(), "fault") };
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
It can be done while sessions are in use. The copy is a store like any other: put it in the place of .foreword/foreword.db to use it.

Examples:
  foreword backup sessions-2026-11-15.db --vault examples/vault";

/// Options of `foreword backup`.
#[derive(ClapArgs)]
pub(crate) struct BackupArgs {
    /// The file to write; it must not be there yet
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

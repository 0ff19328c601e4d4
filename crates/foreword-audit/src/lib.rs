//! What the prompts of coding agents cost, why, and what would be cheaper, told from the logs that these programs keep.
//!
//! [`find`] says where logs lie and whose they are, [`agents`] has a reader for each program, [`scan`] reads many at once and keeps what it
//! read. [`sessions`] counts copies once and puts the calls of each chain in order; [`breaks`], [`parts`], [`what_if`] and [`findings`] look
//! at them by the prices in [`price`]. [`report`] is all of it as plain values, [`screen`] and [`page`] draw it.
//!
//! It never looks at the environment or the home folder, writes nowhere but into the folder that [`scan::scan`] is given, and keeps no text
//! of a conversation.

pub mod agents;
pub mod breaks;
pub mod conversation;
mod database;
pub mod find;
pub mod findings;
mod lenient;
mod lines;
pub mod log;
pub mod page;
pub mod parts;
pub mod price;
pub mod redact;
pub mod report;
pub mod scan;
pub mod screen;
pub mod sessions;
pub mod what_if;

use std::path::{Path, PathBuf};

use foreword_provider::table::{ModelTable, TableError};
use foreword_store::{Store, StoreError};
use jiff::tz::TimeZone;

use crate::report::Report;
use crate::sessions::{Filter, Sessions};

/// The report on the sessions in a store of Foreword's own.
pub fn audit_store(store: &impl Store, tz: &TimeZone) -> Result<Report, AuditError> {
    let logs = agents::foreword::read(store, "")?;
    Ok(report::report(&Sessions::join(logs, &Filter::default()), &ModelTable::builtin()?, tz))
}

/// A report that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There are no prices.
    #[error(transparent)]
    Prices(#[from] TableError),
}

/// Reads the logs at and below `paths` and says what they cost, at the prices of the built-in table.
pub fn audit(
    paths: &[PathBuf],
    filter: &Filter,
    kept: Option<&Path>,
    tz: &TimeZone,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Report, TableError> {
    let table = ModelTable::builtin()?;
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let scan = scan::scan(&find::logs(paths), kept, threads, progress);
    let (lines, files, unread) = (scan.lines, scan.files, redact::unread(&scan.unread));
    let sessions = Sessions::join(scan.logs, filter);
    Ok(Report { files, lines, unread, ..report::report(&sessions, &table, tz) })
}

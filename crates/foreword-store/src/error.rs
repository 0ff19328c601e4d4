//! Errors of the store.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be opened or created.
    #[error("the store {path} cannot be opened: {why}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's message.
        why: String,
    },
    /// The store was written by a newer version of Foreword.
    #[error(
        "the store {path} was written by a newer version of Foreword (format {found}, this version supports {known}). Nothing was changed; use a newer version or another store"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that this version supports.
        known: u32,
    },
    /// The file is another program's database.
    #[error("{0} is not a Foreword database; nothing was changed")]
    NotOurs(PathBuf),
    /// The disk is full.
    #[error("cannot {doing}: the disk is full. Stored data is safe; free some space and try again")]
    Full {
        /// The operation that failed.
        doing: &'static str,
    },
    /// The store is read-only.
    #[error(
        "cannot {doing}: the store is read-only (the file, its folder or the disk; `foreword verify` may show another reason)"
    )]
    ReadOnly {
        /// The operation that failed.
        doing: &'static str,
    },
    /// An input/output error.
    #[error("cannot {doing}: disk error ({why})")]
    Disk {
        /// The operation that failed.
        doing: &'static str,
        /// The system's message.
        why: String,
    },
    /// A file of the store was removed or replaced while in use.
    #[error(
        "{path} was removed or replaced while the store was in use. Nothing is written any more; restore the file, or restart the program to use the current files"
    )]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// The database has triggers, views or tables that Foreword did not create.
    #[error(
        "the store {path} contains objects that Foreword did not create: {what}. It is not written to; save its sessions with `foreword export`"
    )]
    Planted {
        /// The file.
        path: PathBuf,
        /// The triggers, views or tables.
        what: String,
    },
    /// Another process has locked the store for too long.
    #[error("cannot {doing}: another program has been writing to the store for more than {seconds} s; try again")]
    Busy {
        /// The operation that failed.
        doing: &'static str,
        /// How long it waited.
        seconds: u64,
    },
    /// Another error of SQLite.
    #[error("cannot {doing}: {why}")]
    Sql {
        /// The operation that failed.
        doing: &'static str,
        /// SQLite's message.
        why: String,
    },
    /// There is no such session.
    #[error("there is no session {0:?}; list them with `foreword sessions`")]
    NoSession(String),
    /// There is no such request.
    #[error("session {session} has no request {request}")]
    NoRequest {
        /// The session.
        session: String,
        /// The request.
        request: u64,
    },
    /// There is no such turn.
    #[error("session {session} has no request for turn {}{}; list its turns with `foreword sessions show {session}`", .turn.map_or("(any)".to_owned(), |turn| turn.to_string()), .step.map_or(String::new(), |step| format!(", step {step}")))]
    NoTurn {
        /// The session.
        session: String,
        /// The turn, from 1.
        turn: Option<u64>,
        /// The step, from 1.
        step: Option<u64>,
    },
    /// A session with this ID exists.
    #[error("session {0:?} already exists")]
    Exists(String),
    /// Another process writes to the session.
    #[error("session {0} is in use by another program; close it there, or fork it")]
    Leased(String),
    /// The session cannot be locked.
    #[error("cannot lock session {session}: {why}")]
    Lock {
        /// The session.
        session: String,
        /// The system's message.
        why: String,
    },
    /// The session was deleted, but its data is still in the file, because another program reads the store.
    #[error(
        "session {0} is deleted, but its text is still on disk because another program is reading the store; it is erased by the next write after that program ends"
    )]
    StillThere(String),
    /// The prefix fits several sessions.
    #[error("{0:?} is ambiguous; it fits the sessions {1}")]
    Ambiguous(String, String),
    /// The operation is not possible for this session.
    #[error("{0}")]
    Refused(String),
    /// The stored data is damaged.
    #[error("the store is damaged: {0}; run `foreword verify` for details, and restore a backup")]
    Damaged(String),
    /// A session file cannot be imported.
    #[error(transparent)]
    Dump(#[from] crate::DumpError),
    /// The backup cannot be written.
    #[error("the backup {path} cannot be written: {why}")]
    Backup {
        /// The file.
        path: PathBuf,
        /// The system's message.
        why: String,
    },
    /// The system has no random numbers.
    #[error("cannot create a session ID: no random numbers from the system ({0})")]
    NoRandomness(String),
}

impl StoreError {
    /// Whether a retry may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Full { .. }
                | Self::ReadOnly { .. }
                | Self::Disk { .. }
                | Self::Gone { .. }
                | Self::Busy { .. }
                | Self::Sql { .. }
        )
    }
}

/// How long a write waits for another process.
pub(crate) const PATIENCE_S: u64 = 10;

/// Converts an error of SQLite; `doing` says which operation failed.
pub(crate) fn doing(doing: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { doing },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { doing },
        Some(ErrorCode::SystemIoFailure) => StoreError::Disk { doing, why: error.to_string() },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { doing, seconds: PATIENCE_S },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation) => {
            StoreError::Damaged(error.to_string())
        }
        _ => StoreError::Sql { doing, why: error.to_string() },
    }
}

pub(crate) fn cannot_open(path: &Path, why: impl std::fmt::Display) -> StoreError {
    StoreError::Open { path: path.to_owned(), why: why.to_string() }
}

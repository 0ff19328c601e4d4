//! What can go wrong with a store, and what to do about it.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be opened or made.
    #[error("the store {path} cannot be opened: {why}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// A later Foreword has been here.
    #[error(
        "the store {path} was written by a newer Foreword (format {found}, this one knows {known}). It was left as it is; use a newer Foreword, or another store"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest one known here.
        known: u32,
    },
    /// Another program's database.
    #[error("{0} is a database, but not one of Foreword's; it was left as it is")]
    NotOurs(PathBuf),
    /// No room.
    #[error("cannot {doing}: the disk is full. Nothing that was stored before is lost; make room and try again")]
    Full {
        /// What was going on.
        doing: &'static str,
    },
    /// No right to write.
    #[error(
        "cannot {doing}: the store may not be written to here (read-only file, folder or disk, or `foreword verify` names another reason)"
    )]
    ReadOnly {
        /// What was going on.
        doing: &'static str,
    },
    /// The disk, or the system before it.
    #[error("cannot {doing}: the system reports an error of the disk ({why})")]
    Disk {
        /// What was going on.
        doing: &'static str,
        /// What the system said.
        why: String,
    },
    /// One of its files was removed or replaced while it was in use.
    #[error(
        "{path} was removed or replaced while the store was in use. Nothing more is stored; put it back, or start the program again to use what is there now"
    )]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// It holds what Foreword never puts there: it would run with every write.
    #[error(
        "the store {path} holds what Foreword did not put there: {what}. It was left as it is and is not written to; `foreword export` takes its sessions out"
    )]
    Planted {
        /// The file.
        path: PathBuf,
        /// Triggers, views, tables.
        what: String,
    },
    /// Another process holds it for too long.
    #[error("cannot {doing}: another program has been writing to the store for more than {seconds} s; try again")]
    Busy {
        /// What was going on.
        doing: &'static str,
        /// How long it waited.
        seconds: u64,
    },
    /// Anything else that SQLite says.
    #[error("cannot {doing}: {why}")]
    Sql {
        /// What was going on.
        doing: &'static str,
        /// What SQLite said.
        why: String,
    },
    /// Nobody knows it.
    #[error("there is no session {0:?}; `foreword sessions` lists them")]
    NoSession(String),
    /// A request that never was.
    #[error("session {session} has no request {request}")]
    NoRequest {
        /// The session.
        session: String,
        /// The request.
        request: u64,
    },
    /// A turn that never was.
    #[error("session {session} has no request for turn {}{}; `foreword sessions show {session}` lists its turns", .turn.map_or("(any)".to_owned(), |turn| turn.to_string()), .step.map_or(String::new(), |step| format!(", step {step}")))]
    NoTurn {
        /// The session.
        session: String,
        /// The turn, from 1.
        turn: Option<u64>,
        /// The step, from 1.
        step: Option<u64>,
    },
    /// It is there already.
    #[error("there is a session {0:?} already")]
    Exists(String),
    /// Someone else is writing to it.
    #[error("session {0} is open in another program; close it there, or fork it")]
    Leased(String),
    /// The lock of a session cannot be taken.
    #[error("cannot lock session {session}: {why}")]
    Lock {
        /// The session.
        session: String,
        /// What the system said.
        why: String,
    },
    /// Another program keeps the old pages alive.
    #[error(
        "session {0} is deleted, but another program is reading the store, so that its text is still on the disk; it goes when that program ends and something is deleted or written again"
    )]
    StillThere(String),
    /// Several sessions begin like that.
    #[error("{0:?} is the start of several sessions: {1}")]
    Ambiguous(String, String),
    /// It cannot be done to this session.
    #[error("{0}")]
    Refused(String),
    /// Something points to nothing, or is not what it should be.
    #[error("the store is damaged: {0}; `foreword verify` says what is broken, and a backup helps")]
    Damaged(String),
    /// A dump that cannot be taken in.
    #[error(transparent)]
    Dump(#[from] crate::DumpError),
    /// The file of a backup.
    #[error("the backup {path} cannot be written: {why}")]
    Backup {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The system gives no random numbers.
    #[error("cannot name a session: the system gives no random numbers ({0})")]
    NoRandomness(String),
}

impl StoreError {
    /// Whether the same may succeed another time.
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

/// Turns what SQLite says into what happened.
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

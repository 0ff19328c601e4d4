//! One writer per session: a lock on a file, which the system takes back when its holder ends, however it ends.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use crate::{Result, StoreError};

/// The right to write to a session. It is given back when this value goes, or the process does.
#[derive(Debug)]
pub struct Lease {
    _file: Option<File>,
}

impl Lease {
    /// Where nobody else can write.
    pub(crate) fn of_nobody() -> Self {
        Self { _file: None }
    }

    pub(crate) fn take(folder: &Path, session: &str) -> Result<Self> {
        let failed = |error: std::io::Error| StoreError::Lock { session: session.to_owned(), why: error.to_string() };
        fs::create_dir_all(folder).map_err(failed)?;
        let path = folder.join(format!("{session}.lock"));
        // The file stays: taking it away while another process waits for it would leave two holders.
        let file = File::options().create(true).write(true).truncate(false).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Leased(session.to_owned())),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

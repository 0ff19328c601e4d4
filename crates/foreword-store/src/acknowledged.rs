//! Detects lost writes: a database that was truncated, damaged or replaced by an older copy may be valid and still lack
//! acknowledged writes.
//!
//! The database counts its commits. After each commit the count is written to a small file beside it, before the write is
//! acknowledged. If a database has fewer commits than the file when it is opened, the loss is recorded.

use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use foreword_core::hash::Hash;

use crate::files::{self, beside};

/// The size of the count and its checksum.
const LEN: usize = 16;

/// The largest number of recorded losses.
const MAX_LOSSES: usize = 1000;

/// The file beside a database.
#[derive(Debug)]
pub(crate) struct Acknowledged(File);

/// The content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcknowledgedCount {
    /// No commits, or written by another version.
    Nothing,
    /// The number of commits.
    Commits(u64),
    /// The file is damaged.
    Damaged,
}

impl Acknowledged {
    pub(crate) fn open(database: &Path) -> io::Result<Self> {
        files::open_or_create(&beside(database, "-acknowledged")).map(Self)
    }

    /// Writes the number of commits.
    pub(crate) fn note(&mut self, commits: u64) {
        // Another program may have made a later one. What cannot be remembered is stored all the same.
        let known = matches!(self.read(), Ok(AcknowledgedCount::Commits(known)) if known >= commits);
        if !known {
            // The next write stores the count again.
            let _ = self.set(commits);
        }
    }

    fn set(&mut self, commits: u64) -> io::Result<()> {
        self.0.seek(SeekFrom::Start(0))?;
        self.0.write_all(&line(commits))
    }

    fn read(&mut self) -> io::Result<AcknowledgedCount> {
        let mut bytes = Vec::with_capacity(LEN);
        self.0.seek(SeekFrom::Start(0))?;
        Read::by_ref(&mut self.0).take(LEN as u64).read_to_end(&mut bytes)?;
        Ok(match bytes.first_chunk::<LEN>() {
            None if bytes.is_empty() => AcknowledgedCount::Nothing,
            Some(found) => {
                let mut commits = [0; 8];
                commits.copy_from_slice(&found[..8]);
                let commits = u64::from_le_bytes(commits);
                if line(commits) == *found { AcknowledgedCount::Commits(commits) } else { AcknowledgedCount::Damaged }
            }
            None => AcknowledgedCount::Damaged,
        })
    }
}

fn line(commits: u64) -> [u8; LEN] {
    let mut line = [0; LEN];
    line[..8].copy_from_slice(&commits.to_le_bytes());
    line[8..].copy_from_slice(&Hash::of(commits.to_le_bytes()).bytes()[..8]);
    line
}

/// Compares the file with the database's own count and records a loss once.
pub(crate) fn compare<E>(database: &Path, commits: impl FnOnce() -> Result<u64, E>) -> Result<(), E> {
    let Ok(mut file) = files::open(&beside(database, "-acknowledged")).map(Acknowledged) else { return Ok(()) };
    // The file first: what is committed meanwhile is acknowledged later.
    let said = file.read().unwrap_or(AcknowledgedCount::Nothing);
    let stored = commits()?;
    let lost = match said {
        AcknowledgedCount::Commits(commits) if commits > stored => {
            let lost = commits - stored;
            format!(
                "{lost} acknowledged writes are missing: {commits} were acknowledged, but the database ends at write {stored}. It was damaged or \
                 replaced by an older copy, or the machine crashed before they reached the disk"
            )
        }
        AcknowledgedCount::Damaged => {
            "the file with the number of acknowledged writes is damaged, so earlier losses cannot be detected".to_owned()
        }
        _ => return Ok(()),
    };
    if record(database, &lost).is_ok() {
        let _ = file.set(stored); // else it is found again
    }
    Ok(())
}

fn losses(database: &Path) -> PathBuf {
    beside(database, "-losses.txt")
}

/// Records a loss for `check`.
pub(crate) fn record(database: &Path, what: &str) -> io::Result<()> {
    if read_losses(database).len() >= MAX_LOSSES {
        return Ok(());
    }
    let mut file = files::open_or_create(&losses(database))?;
    file.seek(SeekFrom::End(0))?;
    file.write_all(format!("{}\n", what.replace('\n', " ")).as_bytes())?;
    file.sync_all()
}

/// The recorded losses and their file.
pub(crate) fn found(database: &Path) -> (PathBuf, Vec<String>) {
    (losses(database), read_losses(database))
}

fn read_losses(database: &Path) -> Vec<String> {
    let path = losses(database);
    // A link or a pipe is none of ours.
    if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
        return Vec::new();
    }
    let text = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    text.lines().take(MAX_LOSSES).map(str::to_owned).collect()
}

//! Saves the sessions of a vault as markdown files, and imports saved chats of other programs.
//!
//! A file is replaced atomically after every message. It belongs to the user, who may move, rename and edit it. Before each write
//! the file is found again and compared with what was written last. Edits are merged; if that is not possible, the file stays
//! unchanged and the session continues in a new file.
//!
//! Of the last version only a hash and some metadata are stored: the messages are in the session, and a second copy would double
//! the cost of every turn.

mod disk;
mod find;
mod import;
mod report;

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use foreword_core::hash::Hash;
use foreword_vault::folder::{Folder, OpenError, ReadError};
use foreword_vault::transcript::{self, Extra, Merge};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

pub use foreword_vault::transcript::{Call, Context, Entry, Role, Source, Transcript, Warning};
pub use import::{Files, Imported, Importer, Skipped, files};
pub use report::{ChatReport, ContextReport, MessageReport, messages};

use disk::Replaced;
use find::Found;

/// The folder of chats in a vault.
pub const FOLDER: &str = "Foreword/Chats";

/// The largest number of files with the same name.
const MOST_NUMBERS: usize = 1_000;

/// How often to retry if the file keeps changing.
const MOST_ATTEMPTS: usize = 5;

/// The state of a file after it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Where it was, in the vault. Empty where a chat of another program was taken in, whose file is left alone.
    pub path: String,
    /// The hash of its bytes.
    pub hash: Hash,
    /// Its number of messages.
    pub messages: usize,
    /// Its model.
    pub model: Option<String>,
    /// Its topic.
    pub topic: Option<String>,
    /// Its `lastAccessedAt`.
    pub last_accessed: Option<i64>,
    /// Its other frontmatter.
    pub extra: Extra,
}

impl Saved {
    fn new(path: String, written: &Transcript, hash: Hash) -> Self {
        Self {
            path,
            hash,
            messages: written.messages.len(),
            model: written.model.clone(),
            topic: written.topic.clone(),
            last_accessed: written.last_accessed,
            extra: written.extra.clone(),
        }
    }

    /// The text of the file as written, if the session still has those messages.
    fn text(&self, ours: &Transcript, tz: &TimeZone) -> Option<String> {
        let messages = ours.messages.get(..self.messages)?.to_vec();
        let text = transcript::write(&Transcript { messages, ..self.head(ours) }, tz);
        (Hash::of(&text) == self.hash).then_some(text)
    }

    /// The frontmatter as written.
    fn head(&self, ours: &Transcript) -> Transcript {
        Transcript {
            epoch_ms: ours.epoch_ms,
            session: ours.session.clone(),
            model: self.model.clone(),
            topic: self.topic.clone(),
            last_accessed: self.last_accessed,
            extra: self.extra.clone(),
            messages: Vec::new(),
        }
    }
}

/// The result of a save.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Outcome {
    /// The new state, for the next save of the same session.
    pub saved: Saved,
    /// The user's changes to the file.
    pub edit: Edit,
}

/// How the user changed a file since it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// No relevant changes.
    None,
    /// The changes were merged and written. The session must apply them too, because the next save writes its messages.
    Merged(Transcript),
    /// The changes could not be merged. The file at this path is unchanged; the session has a new file.
    KeptBeside(String),
}

/// Why a chat was not saved. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// A symbolic link leads out of the vault.
    #[error("cannot save the chat to {path:?}: a symbolic link leads out of the vault; replace it with a folder or file")]
    Leaves {
        /// In the vault.
        path: String,
    },
    /// The disk is full.
    #[error(
        "cannot save the chat to {path:?}: the disk is full ({error}); free some space, and the next message saves the whole chat"
    )]
    Full {
        /// In the vault.
        path: String,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// Writing is not allowed.
    #[error("cannot save the chat to {path:?}: {error}; allow writing there, and the next message saves the whole chat")]
    Denied {
        /// In the vault.
        path: String,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// Another error of the system.
    #[error("cannot save the chat to {path:?}: {error}")]
    Io {
        /// In the vault.
        path: String,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The existing file cannot be read, so it is not overwritten.
    #[error("cannot save the chat, because its file cannot be compared with the last version: {0}")]
    Read(#[from] ReadError),
    /// Another program keeps changing the file.
    #[error(
        "cannot save the chat to {path:?}: another program changed the file {MOST_ATTEMPTS} times; the next message saves the whole chat"
    )]
    Busy {
        /// In the vault.
        path: String,
    },
    /// All names are taken.
    #[error("cannot save the chat: {MOST_NUMBERS} files in {FOLDER} already have its name; move some to another folder")]
    NoName,
}

impl ChatError {
    fn new(path: &str, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path, error },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied { path, error },
            _ => Self::Io { path, error },
        }
    }
}

/// The folder of a vault's chats.
#[derive(Clone, Debug)]
pub struct Chats {
    vault: Folder,
    tz: TimeZone,
}

impl Chats {
    /// Opens the chats of the vault at `root`, with times in the time zone `tz`. Removes temporary files that a crash left behind.
    pub fn open(root: &Path, tz: TimeZone) -> Result<Self, OpenError> {
        let vault = Folder::open(root)?;
        disk::sweep(vault.root(), FOLDER);
        Ok(Self { vault, tz })
    }

    /// The file's content for `ours`.
    pub fn render(&self, ours: &Transcript) -> String {
        transcript::write(ours, &self.tz)
    }

    /// Writes a chat to its file, found by its last state even if it was moved, or to a new file. Call it after each message.
    pub fn save(&self, ours: &Transcript, known: Option<&Saved>) -> Result<Outcome, ChatError> {
        let Some(known) = known.filter(|known| !known.path.is_empty()) else { return self.create(ours, None) };
        for _ in 0..MOST_ATTEMPTS {
            let Some(found) = find::find(&self.vault, ours, known)? else { return self.create(ours, None) };
            let merge = self.compare(ours, Some(known), &found);
            if merge == Merge::Conflict {
                return self.create(ours, Some(found.path));
            }
            if let Some(outcome) = self.replace(ours, merge, found)? {
                return Ok(outcome);
            }
        }
        Err(ChatError::Busy { path: known.path.clone() })
    }

    /// Compares a file with what was written last.
    fn compare(&self, ours: &Transcript, known: Option<&Saved>, found: &Found) -> Merge {
        if known.is_some_and(|known| known.hash == found.hash) {
            return Merge::Unchanged;
        }
        let (text, fault) = transcript::decode(found.bytes.clone());
        if fault.is_some() {
            return Merge::Conflict;
        }
        if let Some(written) = known.and_then(|known| known.text(ours, &self.tz)) {
            return transcript::merge(ours, &written, &text, &self.tz);
        }
        // Nobody knows what was written last. A file whose messages are all ours was written by us.
        match transcript::read(&text, &self.tz) {
            Ok(disk) if ours.messages.starts_with(&disk.transcript.messages) => {
                let head = known.map_or_else(|| Transcript { messages: Vec::new(), ..ours.clone() }, |known| known.head(ours));
                transcript::merge_heads(ours, &head, &disk.transcript)
            }
            _ => Merge::Conflict,
        }
    }

    /// Replaces a file; `None` if it changed after it was read.
    fn replace(&self, ours: &Transcript, merge: Merge, found: Found) -> Result<Option<Outcome>, ChatError> {
        let merged = if let Merge::Edited(merged) = merge { Some(merged) } else { None };
        let written = merged.as_ref().unwrap_or(ours);
        let text = self.render(written);
        let saved = Saved::new(found.path, written, Hash::of(&text));
        if saved.hash != found.hash {
            let failed = |error| ChatError::new(&saved.path, error);
            if found.place.replace(&text).map_err(failed)? == Replaced::Changed {
                return Ok(None);
            }
        }
        Ok(Some(Outcome { saved, edit: merged.map_or(Edit::None, Edit::Merged) }))
    }

    /// Writes a chat to a new file in [`FOLDER`]. `beside` is an existing file of the session that must not be changed.
    fn create(&self, ours: &Transcript, mut beside: Option<String>) -> Result<Outcome, ChatError> {
        let folder = disk::make_folder(self.vault.root(), FOLDER)?;
        let text = self.render(ours);
        let mut name = transcript::file_name(&ours.title(), ours.epoch_ms, &self.tz);
        let fallback = transcript::fallback_name(ours.epoch_ms);
        let mut number = 1;
        while number <= MOST_NUMBERS {
            let file = if number == 1 { name.clone() } else { transcript::numbered_name(&name, number) };
            let path = format!("{FOLDER}/{file}");
            match disk::create(&folder, &file, &text) {
                Ok(()) => {
                    let edit = beside.map_or(Edit::None, Edit::KeptBeside);
                    return Ok(Outcome { saved: Saved::new(path, ours, Hash::of(&text)), edit });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidFilename && name != fallback => {
                    (name, number) = (fallback.clone(), 1);
                    continue;
                }
                Err(error) => return Err(ChatError::new(&path, error)),
            }
            // A program that was killed before it could remember its file has left one that is this Session's already.
            if let Some(found) = find::look(&self.vault, &path).ok().flatten().filter(|found| found.is_of(ours)) {
                match self.compare(ours, None, &found) {
                    Merge::Conflict => beside = beside.or(Some(path)),
                    Merge::Edited(_) if beside.is_some() => {}
                    merge => {
                        let Outcome { saved, edit } = self.replace(ours, merge, found)?.ok_or(ChatError::Busy { path })?;
                        return Ok(Outcome { saved, edit: beside.map_or(edit, Edit::KeptBeside) });
                    }
                }
            }
            number += 1;
        }
        Err(ChatError::NoName)
    }
}

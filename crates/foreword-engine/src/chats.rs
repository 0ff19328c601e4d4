//! The Sessions of a vault as markdown files in a visible folder, and saved chats of other programs taken in.
//!
//! A file is rewritten whole after every message, in one step: whoever looks sees the old file or the new one. It belongs to the person
//! whose vault it is. They may move, rename and edit it, so before it is written it is found again, and compared with what was
//! written last. An edit is taken over; one that cannot be is left where it is, and the Session goes on in a file beside it.
//!
//! Of what was written last, only a hash is kept, with the little that is needed to write it again: the messages are the
//! Session's own, and keeping a second copy of them would double the cost of every turn.

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

/// The folder of the Sessions in a vault.
pub const FOLDER: &str = "Foreword/Chats";

/// So many files of one name are told apart.
const MOST_NUMBERS: usize = 1_000;

/// A file that changes each time before it can be written is not waited for longer.
const MOST_ATTEMPTS: usize = 5;

/// What is remembered of a file that was written, between one save and the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Where it was, in the vault.
    pub path: String,
    /// Of its bytes.
    pub hash: Hash,
    /// How many messages it had.
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

    /// The file as it was written, where the Session still has the messages that it had then.
    fn text(&self, ours: &Transcript, tz: &TimeZone) -> Option<String> {
        let messages = ours.messages.get(..self.messages)?.to_vec();
        let text = transcript::write(&Transcript { messages, ..self.head(ours) }, tz);
        (Hash::of(&text) == self.hash).then_some(text)
    }

    /// The frontmatter that was written last.
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

/// What became of a save.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Outcome {
    /// To be given to the next save of the same Session.
    pub saved: Saved,
    /// What a person had done to the file.
    pub edit: Edit,
}

/// What a person had done to a file since it was written last.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Nothing that matters.
    None,
    /// It is taken over: this was written. The Session must take it over too, since the next save writes what the Session says.
    Merged(Transcript),
    /// It could not be taken over. Their file is left as it is at this path; the Session has a new one.
    KeptBeside(String),
}

/// Why a Session was not saved. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// A symbolic link leads out of the vault.
    #[error("refused to save the chat to {path:?}: a symbolic link there leaves the vault; replace it by a folder or a file")]
    Leaves {
        /// In the vault.
        path: String,
    },
    /// There is no room.
    #[error("cannot save the chat to {path:?}: the disk is full ({error}); make room, and the next message saves all of it")]
    Full {
        /// In the vault.
        path: String,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// Nothing may be written there.
    #[error("cannot save the chat to {path:?}: {error}; allow writing there, and the next message saves all of it")]
    Denied {
        /// In the vault.
        path: String,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// The system refused for another reason.
    #[error("cannot save the chat to {path:?}: {error}")]
    Io {
        /// In the vault.
        path: String,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// The file that is there cannot be read, so nobody knows what would be lost.
    #[error("did not save the chat, because its file cannot be compared with what was written last: {0}")]
    Read(#[from] ReadError),
    /// Someone keeps writing to it.
    #[error(
        "did not save the chat to {path:?}: the file changed {MOST_ATTEMPTS} times meanwhile; the next message saves all of it"
    )]
    Busy {
        /// In the vault.
        path: String,
    },
    /// All names are taken.
    #[error("cannot save the chat: {MOST_NUMBERS} files in {FOLDER} have its name already; move some to another folder")]
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

/// The folder of the Sessions of one vault.
#[derive(Clone, Debug)]
pub struct Chats {
    vault: Folder,
    tz: TimeZone,
}

impl Chats {
    /// The Sessions of the vault at `root`, whose files show times as they are in `tz`. Leftovers of a program that was killed while it
    /// wrote are cleared away.
    pub fn open(root: &Path, tz: TimeZone) -> Result<Self, OpenError> {
        let vault = Folder::open(root)?;
        disk::sweep(vault.root(), FOLDER);
        Ok(Self { vault, tz })
    }

    /// The file of `ours`, as it would be written.
    pub fn render(&self, ours: &Transcript) -> String {
        transcript::write(ours, &self.tz)
    }

    /// Writes `ours` to its file: the one that `known` remembers, wherever in the vault it is now, else a new one. To be called once
    /// the Session has a message, and after each one.
    pub fn save(&self, ours: &Transcript, known: Option<&Saved>) -> Result<Outcome, ChatError> {
        let Some(known) = known else { return self.create(ours, None) };
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

    /// What a person did to a file of this Session.
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

    /// Writes over a file; none where it was changed since it was read.
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

    /// Writes `ours` to a file of its own in [`FOLDER`]. A file of this Session that must be left alone is `beside`.
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

//! Why a note was not written.

use std::io;

use super::MAX_NOTE;
use super::path::NotePath;

/// Why a note was not written. The words are for the model that asked, and name paths as it wrote them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The path is not one of a note.
    #[error("cannot write {path:?}: {why}. Give a path inside the vault like \"Folder/Note.md\"")]
    Path {
        /// As it was given.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A link would lead elsewhere.
    #[error("cannot write {path:?}: {link:?} is a symbolic link, and notes are written into real folders only")]
    Link {
        /// The note.
        path: String,
        /// What is a link.
        link: String,
    },
    /// It is there already.
    #[error("cannot create {path:?}: there is {existing:?} already; change that note, or choose another name")]
    Exists {
        /// The note.
        path: String,
        /// What is there.
        existing: String,
    },
    /// It is not there.
    #[error("cannot change {path:?}: there is no such note; check the path, or create it")]
    Missing {
        /// The note.
        path: String,
    },
    /// It is not a text file that we may change.
    #[error("cannot change {path:?}: {why}")]
    NotANote {
        /// The note.
        path: String,
        /// What it is.
        why: &'static str,
    },
    /// The passage is not there exactly once.
    #[error("cannot change {path:?}: the passage to replace is there {times} times, and must be there once; {advice}")]
    Passage {
        /// The note.
        path: String,
        /// How often it was found.
        times: usize,
        /// How to find it.
        advice: &'static str,
    },
    /// The text is no note's.
    #[error("cannot write {path:?}: {why}")]
    Text {
        /// The note.
        path: String,
        /// What is wrong with the text.
        why: &'static str,
    },
    /// It would become too large.
    #[error("cannot write {path:?}: it would have {bytes} bytes, and {MAX_NOTE} are the most")]
    TooLarge {
        /// The note.
        path: String,
        /// Its size.
        bytes: usize,
    },
    /// The change cannot be shown to a person as a whole.
    #[error(
        "cannot write {path:?}: the change is too large to be shown to the user as a whole; make it in several smaller changes"
    )]
    TooLargeToShow {
        /// The note.
        path: String,
    },
    /// It already holds what it would.
    #[error("{path:?} already is what the change would make of it; nothing was written")]
    Same {
        /// The note.
        path: String,
    },
    /// Somebody else changed it.
    #[error("{path:?} was changed by somebody else in the meantime; read it again, then decide anew. Nothing was written")]
    Changed {
        /// The note.
        path: String,
    },
    /// There is nothing to undo.
    #[error("there is no change of {path:?} that could be undone")]
    NothingToUndo {
        /// The note.
        path: String,
    },
    /// The system said no.
    #[error("cannot {doing} {path:?}: {reason}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: String,
        /// The system's words.
        reason: String,
    },
}

impl WriteError {
    pub(super) fn io(doing: &'static str, path: &NotePath, error: &io::Error) -> Self {
        Self::Io { doing, path: path.to_string(), reason: error.to_string() }
    }
}

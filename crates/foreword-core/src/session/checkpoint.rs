//! Serializes a session, so that a long one can be opened without replaying all of its inputs.
//!
//! A checkpoint is only a shortcut: it can be deleted at any time, and one of another version is ignored.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Session;
use crate::tokens::{Chars, Tokenizer};

/// Raise it when anything in a [`Session`] changes its shape or its meaning.
const FORMAT: u32 = 4;

/// An unusable checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotACheckpoint {
    /// It is damaged or from another version.
    #[error("cannot read the checkpoint: {0}")]
    Unreadable(String),
    /// It was counted with another tokenizer.
    #[error("the checkpoint uses the tokenizer {0:?}, not {1:?}")]
    Tokenizer(String, String),
}

pub(super) fn no_tokenizer() -> Arc<dyn Tokenizer> {
    Arc::new(Chars::FOUR)
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), NotACheckpoint> {
    postcard::take_from_bytes(bytes).map_err(|error| NotACheckpoint::Unreadable(error.to_string()))
}

impl Session {
    /// Serializes the session's state.
    pub fn checkpoint(&self) -> Vec<u8> {
        // Writing to memory cannot fail: every length is known and no map has keys that are not strings.
        postcard::to_allocvec(&(FORMAT, self.tokenizer.name(), self)).unwrap_or_default()
    }

    /// Restores a session from a checkpoint.
    pub fn restore(checkpoint: &[u8], tokenizer: Arc<dyn Tokenizer>) -> Result<Self, NotACheckpoint> {
        let ((format, name), rest) = read::<(u32, String)>(checkpoint)?;
        if format != FORMAT {
            return Err(NotACheckpoint::Unreadable(format!("format {format}, expected {FORMAT}")));
        }
        if name != tokenizer.name() {
            return Err(NotACheckpoint::Tokenizer(name, tokenizer.name().to_owned()));
        }
        let (mut session, rest) = read::<Self>(rest)?;
        if !rest.is_empty() {
            return Err(NotACheckpoint::Unreadable(format!("{} extra bytes at the end", rest.len())));
        }
        session.tokenizer = tokenizer;
        Ok(session)
    }
}

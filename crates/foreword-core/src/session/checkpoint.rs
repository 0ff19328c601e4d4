//! A session as bytes, so that going on with a long one does not need all of it told again.
//!
//! A checkpoint is a shortcut and never the record: it can be thrown away at any time, and one that another version wrote is.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Session;
use crate::tokens::{Chars, Tokenizer};

/// Raise it when anything in a [`Session`] changes its shape or its meaning.
const FORMAT: u32 = 3;

/// Bytes that hold no session that can go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotACheckpoint {
    /// Damage, or another version's.
    #[error("cannot read the checkpoint: {0}")]
    Unreadable(String),
    /// Sizes in it were counted otherwise.
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
    /// All of its state.
    pub fn checkpoint(&self) -> Vec<u8> {
        // Writing to memory cannot fail: every length is known and no map has keys that are not strings.
        postcard::to_allocvec(&(FORMAT, self.tokenizer.name(), self)).unwrap_or_default()
    }

    /// The session of a checkpoint. It goes on as if it had never stopped.
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

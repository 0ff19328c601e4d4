//! Finds where a request stopped continuing the previous one, which broke the cache.

use foreword_core::message::Origin;
use foreword_core::tokens::Tokens;

use crate::stream::{Path, PromptStream, common_prefix};

/// The first difference from the previous prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// The number of prompt bytes before it.
    pub at_byte: usize,
    /// Its path in the current body, or in the previous one if the current prompt ends there.
    pub path: Path,
    /// The origin of the previous text.
    pub origin: Origin,
    /// The origin of the current text; `None` if the current prompt ends there.
    pub current_origin: Option<Origin>,
    /// Tokens of the previous prompt that cannot be read from the cache.
    pub tokens_lost: Tokens,
}

/// The first break between two requests; `None` if the previous prompt is a prefix of the current one.
pub fn first_break(previous: &PromptStream, current: &PromptStream) -> Option<Break> {
    let prefix = common_prefix(previous, current);
    let before = prefix.previous?;
    let now = prefix.current;
    Some(Break {
        at_byte: prefix.bytes,
        path: now.as_ref().map_or(before.path, |now| now.path),
        origin: before.origin,
        current_origin: now.map(|now| now.origin),
        tokens_lost: previous.tokens() - prefix.tokens,
    })
}

//! Where a request stopped being a continuation of the one before it: the place that cost the cache.

use foreword_core::message::Origin;
use foreword_core::tokens::Tokens;

use crate::stream::{Path, PromptStream, common_prefix};

/// The first place where the previous prompt is not continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// Bytes of prompt in front of it.
    pub at_byte: usize,
    /// Where it is in the current body; in the previous one where the current one ends there.
    pub path: Path,
    /// What stood there before.
    pub origin: Origin,
    /// What stands there now; none where the current prompt ends there.
    pub current_origin: Option<Origin>,
    /// Tokens of the previous prompt that can not be read again.
    pub tokens_lost: Tokens,
}

/// The first break between two requests; none where the previous prompt is a prefix of the current one.
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

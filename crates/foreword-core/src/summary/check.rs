//! Checks that a summary contains the required facts.

use serde::{Deserialize, Serialize};

use crate::history::MessageId;
use foreword_text::facts::{Fact, Saying};

/// A fact that a summary has to keep, and the message it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retained {
    /// The message.
    pub from: MessageId,
    /// The fact.
    #[serde(flatten)]
    pub fact: Fact,
}

/// What became of the facts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// In the summary, unchanged.
    pub survived: Vec<Retained>,
    /// Not in it: these stand below it word for word, as far as there is room, and can be recalled.
    pub missing: Vec<Retained>,
}

/// Compares a summary with what it had to keep.
pub fn check(summary: &str, required: Vec<Retained>) -> Checked {
    let saying = Saying::of(summary);
    let (survived, missing) = required.into_iter().partition(|kept| saying.has(&kept.fact));
    Checked { survived, missing }
}

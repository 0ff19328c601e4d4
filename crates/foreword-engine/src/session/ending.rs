//! Why an answer ended early, or why a question has no answer.

use serde::{Deserialize, Serialize};

/// The cause of an early end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", content = "detail", rename_all = "snake_case")]
pub enum Ending {
    /// The reply reached its token limit, or the context window is full.
    Length,
    /// The model repeated itself, so its answer was ended.
    Repeating,
    /// The user stopped it.
    Stopped,
    /// The model or its provider refused to continue.
    Refused,
    /// The process ended during the answer.
    Interrupted,
    /// The request failed or the answer was interrupted: the error message.
    Failed(String),
}

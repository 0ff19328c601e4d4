//! Why an answer ended before the model had said all, or why a question has none.

use serde::{Deserialize, Serialize};

/// What ended an answer early. One that ended as the model wanted has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", content = "detail", rename_all = "snake_case")]
pub enum Ending {
    /// The room for the reply, or the model's window, was used up.
    Length,
    /// The model repeated itself, so its answer was ended.
    Repeating,
    /// The user stopped it.
    Stopped,
    /// The model or its provider refused to go on.
    Refused,
    /// The process ended while the answer came.
    Interrupted,
    /// The model could not be asked, or its answer broke off: the error message.
    Failed(String),
}

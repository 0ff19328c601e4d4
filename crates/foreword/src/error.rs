//! Why something was refused. Nothing that is refused changes a session.

use foreword_core::budget::OverBudget;
use foreword_core::catalog::AgentError;
use foreword_core::session::InputError;
use foreword_provider::reply::ReadError;
use foreword_provider::table::{TableError, UnknownModel};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such model.
    #[error(transparent)]
    UnknownModel(#[from] UnknownModel),
    /// The model table is invalid.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Two items have the same name, or one has none.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The session cannot take this input now.
    #[error(transparent)]
    Input(#[from] InputError),
    /// What must be sent does not fit the budget. The turn is still pending: remove something, or give it more room.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// A setting is unknown or has an invalid value.
    #[error("setting {path}: {what}")]
    Setting {
        /// Its path, like `budget.prompt`.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// No request is due: there was no turn, or the last reply is complete.
    #[error("no request is due: begin a turn, or give the results of the open tool calls")]
    NothingDue,
    /// The provider's answer is an error, or cannot be read.
    #[error(transparent)]
    Reply(#[from] ReadError),
    /// These bytes are not a saved session.
    #[error("this is not a saved session: {0}")]
    NotASession(String),
    /// The session counts tokens with a vocabulary that is not built in.
    #[error("the session counts with the tokenizer {0:?}, which is not built in; load it with that tokenizer")]
    Tokenizer(String),
    /// There is no such turn.
    #[error("there is no turn {turn}; the session has {turns}")]
    NoTurn {
        /// The number that was asked for, from 0.
        turn: usize,
        /// The number of turns.
        turns: usize,
    },
    /// An attachment is invalid.
    #[error("attachment: {0}")]
    Attachment(String),
    /// A conversation cannot be managed as it stands.
    #[error("message {at}: {what}")]
    Message {
        /// The number of the message, from 0.
        at: usize,
        /// What is wrong with it.
        what: String,
    },
    /// The client cannot be set up.
    #[cfg(feature = "client")]
    #[error(transparent)]
    Client(#[from] foreword_provider::client::SetupError),
    /// The provider cannot be reached, or refuses the request.
    #[cfg(feature = "client")]
    #[error(transparent)]
    Send(#[from] foreword_provider::client::SendError),
}

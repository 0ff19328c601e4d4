//! What a session is told.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::catalog::Agent;
use crate::history::MessageId;
use crate::item::ItemId;
use crate::message::{Opaque, ToolCall};
use crate::pairing::CallOutput;
use crate::passage::Passage;
use crate::tokens::Tokens;
use crate::version::Version;

/// A tool's output that comes with a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnResult {
    /// The tool.
    pub tool: String,
    /// Attributes of its block, in order.
    pub attributes: Vec<(String, String)>,
    /// What it gave back.
    pub output: String,
    /// The notes that it found, where it is a search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Passage>,
}

/// What the user sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnInput {
    /// The user's words.
    pub words: String,
    /// What is attached.
    pub attached: Vec<Version>,
    /// The note that is open in front of the user.
    pub active_note: Option<ItemId>,
    /// Outputs of tools that ran before.
    pub results: Vec<TurnResult>,
    /// What the search gave to `agent`-mode items, by chunk.
    pub scores: BTreeMap<ItemId, Vec<f64>>,
}

/// A message of a conversation that was had elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// By the user.
    User(String),
    /// By the model.
    Assistant(String),
    /// By the model, which called tools; each with what it gave back, where that is known.
    Called {
        /// Its words.
        text: String,
        /// Its calls.
        calls: Vec<(ToolCall, Option<CallOutput>)>,
    },
}

/// Something that happens in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The user sends a message.
    Turn(TurnInput),
    /// The model answers.
    Assistant {
        /// Its words.
        text: String,
        /// Its calls.
        calls: Vec<ToolCall>,
        /// What its provider wants back with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        opaque: Vec<Opaque>,
    },
    /// A tool answers a call.
    ToolResult {
        /// The call.
        id: String,
        /// What it gave back.
        output: String,
        /// Whether it failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
        /// The notes that it found, where it is a search.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        found: Vec<Passage>,
    },
    /// The user adds an item.
    Add(ItemId),
    /// The user removes an item.
    Remove(ItemId),
    /// The agent is another from here on.
    Agent(Box<Agent>),
    /// The model handed over a plan in the open call before it.
    Plan {
        /// Its steps.
        steps: Vec<String>,
        /// Whether a result for that call will come from outside; the engine answers it where none does.
        answered: bool,
    },
    /// The call before it completes the current step.
    TaskComplete {
        /// Whether a result for that call will come from outside.
        answered: bool,
    },
    /// The model answered with words where it should act: it is told once.
    ActionPrompt,
    /// A summary from outside for the `managed` history.
    Summary(Option<String>),
    /// A summary of the units before one, for the `managed` history: they are not shown any more, and no others are left out for it.
    /// An empty one leaves it to the engine's own lines.
    Managed {
        /// The summary.
        summary: String,
        /// The first unit it does not stand for.
        covers: usize,
    },
    /// The user wants something to be kept.
    Pin(Pin),
    /// The user lets go of what was to be kept.
    Unpin(Unpin),
    /// Seconds pass.
    Idle(u64),
    /// The user stops the run.
    Interrupt,
    /// The user asks for a fold.
    Fold,
    /// The user takes the last fold back.
    UndoFold,
    /// What was said elsewhere before this session; only before its first turn. Where tools have the last word, the last turn is still
    /// running: a request is due.
    Past(Vec<Said>),
    /// The current texts of what was attached there, to stand in L2 from the first request on; only before the first turn.
    Library(Vec<Version>),
    /// From here on the session goes its own way, away from the one it was forked from.
    Forked {
        /// The epoch that begins.
        epoch: usize,
    },
}

/// What folds have to keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pin {
    /// An item that stands in the prompt.
    Item(ItemId),
    /// A text that was said, word for word.
    Text {
        /// The message it is from.
        from: MessageId,
        /// The words.
        text: String,
    },
}

/// What folds need not keep any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unpin {
    /// An item.
    Item(ItemId),
    /// All that was pinned of a message.
    Message(MessageId),
}

/// Whether a request is due after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Yes.
    Request,
    /// Not yet.
    Nothing,
}

impl Input {
    /// The inputs up to the end of a turn, counted from 0; none where there was no such turn.
    pub fn until_turn(inputs: &[Self], turn: usize) -> Option<&[Self]> {
        let begins = |input: &Self| match input {
            Self::Turn(_) => 1,
            Self::Past(said) => said.iter().filter(|said| matches!(said, Said::User(_))).count(),
            _ => 0,
        };
        let mut turns = 0;
        for (at, input) in inputs.iter().enumerate() {
            if begins(input) > 0 && turns > turn {
                return Some(&inputs[..at]);
            }
            turns += begins(input);
        }
        (turns > turn).then_some(inputs)
    }
}

/// An input that refers to something that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// An item nobody knows.
    #[error("{0} is neither in the agent nor in the session")]
    UnknownItem(ItemId),
    /// It is not pinned.
    #[error("{0} is not pinned")]
    NotPinned(String),
    /// Too much is pinned.
    #[error("the pins would take {0} tokens of each prompt; the limit is {1}. Pin a shorter passage")]
    PinTooLarge(Tokens, Tokens),
    /// History from elsewhere after a turn of its own.
    #[error("a conversation can be imported only before the first turn")]
    TooLate,
    /// The agent contradicts itself.
    #[error(transparent)]
    Agent(#[from] crate::catalog::AgentError),
}

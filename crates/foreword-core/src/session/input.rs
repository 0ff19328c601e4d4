//! What a session is told.

use std::collections::BTreeMap;

use crate::catalog::Agent;
use crate::item::ItemId;
use crate::message::ToolCall;
use crate::version::Version;

/// A tool's output that comes with a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnResult {
    /// The tool.
    pub tool: String,
    /// Attributes of its block, in order.
    pub attributes: Vec<(String, String)>,
    /// What it gave back.
    pub output: String,
}

/// What the user sends.
#[derive(Clone, Debug, Default, PartialEq)]
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

/// Something that happens in a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The user sends a message.
    Turn(TurnInput),
    /// The model answers.
    Assistant {
        /// Its words.
        text: String,
        /// Its calls.
        calls: Vec<ToolCall>,
    },
    /// A tool answers a call.
    ToolResult {
        /// The call.
        id: String,
        /// What it gave back.
        output: String,
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
    /// Seconds pass.
    Idle(u64),
    /// The user stops the run.
    Interrupt,
    /// The user asks for a fold.
    Fold,
    /// The user takes the last fold back.
    UndoFold,
}

/// Whether a request is due after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Yes.
    Request,
    /// Not yet.
    Nothing,
}

/// An input that refers to something that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// An item nobody knows.
    #[error("{0} is neither in the agent nor in the session")]
    UnknownItem(ItemId),
    /// A fork at a turn that never was.
    #[error("there is no turn {0} to fork at; the session has {1}")]
    NoSuchTurn(usize, usize),
    /// The agent contradicts itself.
    #[error(transparent)]
    Agent(#[from] crate::catalog::AgentError),
}

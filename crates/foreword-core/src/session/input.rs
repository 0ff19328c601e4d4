//! The inputs of a session.

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

/// The output of a tool that ran before the turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnResult {
    /// The tool's name.
    pub tool: String,
    /// Attributes of the output's block, in order.
    pub attributes: Vec<(String, String)>,
    /// The tool's output.
    pub output: String,
    /// The passages that the tool found, if it is a search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Passage>,
    /// Remarks of the tool for the user, for example that a search went by words alone. They become notes of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A user message with its attachments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnInput {
    /// The user's text.
    pub words: String,
    /// The attached items.
    pub attached: Vec<Version>,
    /// The note that is open in the user's editor.
    pub active_note: Option<ItemId>,
    /// Outputs of tools that ran before the turn.
    pub results: Vec<TurnResult>,
    /// The search scores of `agent`-mode items, one per chunk.
    pub scores: BTreeMap<ItemId, Vec<f64>>,
    /// Current versions of notes that the prompt holds in an older one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refreshed: Vec<Version>,
    /// Notes that the prompt holds and the vault no longer does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<ItemId>,
    /// Whether this turn leaves the current plan alone: its step is not part of the request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plan_suspended: bool,
}

/// A message of an imported conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PastMessage {
    /// A user message.
    User(String),
    /// A model reply.
    Assistant(String),
    /// A model reply with tool calls and, where known, their results.
    Called {
        /// The reply's text.
        text: String,
        /// The calls and their results.
        calls: Vec<(ToolCall, Option<CallOutput>)>,
    },
}

/// An event in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The user sends a message.
    Turn(TurnInput),
    /// The model answers.
    Assistant {
        /// The reply's text.
        text: String,
        /// The reply's tool calls.
        calls: Vec<ToolCall>,
        /// Provider-specific blocks to send back with the reply.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        opaque: Vec<Opaque>,
    },
    /// A tool answers a call.
    ToolResult {
        /// The ID of the call.
        id: String,
        /// The tool's output.
        output: String,
        /// Whether the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
        /// The passages that the tool found, if it is a search.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        found: Vec<Passage>,
    },
    /// The user adds an item.
    Add(ItemId),
    /// The user removes an item.
    Remove(ItemId),
    /// The agent changed.
    Agent(Box<Agent>),
    /// The model submitted a plan in the open call.
    Plan {
        /// The plan's steps.
        steps: Vec<String>,
        /// Whether the caller provides the result of that call; otherwise the engine does.
        answered: bool,
    },
    /// The open call completes the current step.
    TaskComplete {
        /// Whether the caller provides the result of that call; otherwise the engine does.
        answered: bool,
    },
    /// The model replied with text where a tool call was expected; the engine reminds it once.
    ActionPrompt,
    /// A summary from the caller, for the `managed` history.
    Summary(Option<String>),
    /// A summary of all units before `covers`, for the `managed` history. Those units are no longer shown. If the summary is empty,
    /// the engine writes its own.
    Managed {
        /// The summary's text.
        summary: String,
        /// The first unit that the summary does not include.
        covers: usize,
    },
    /// The user pins a message or an item.
    Pin(Pin),
    /// The user removes a pin.
    Unpin(Unpin),
    /// The given number of seconds pass.
    Idle(u64),
    /// The user stops the run.
    Interrupt,
    /// The user ends the current plan.
    CancelPlan,
    /// The user asks for a fold.
    Fold,
    /// The user undoes the last fold.
    UndoFold,
    /// An imported conversation; valid only before the first turn. If it ends with tool results, its last turn is still running and
    /// a request is due.
    Past(Vec<PastMessage>),
    /// The current texts of the imported attachments, placed in L2 from the first request; valid only before the first turn.
    Library(Vec<Version>),
    /// The session was forked here.
    Forked {
        /// The new epoch.
        epoch: usize,
    },
}

/// Something that every fold keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pin {
    /// An item in the prompt.
    Item(ItemId),
    /// A quoted text.
    Text {
        /// The message that contains the text.
        from: MessageId,
        /// The text.
        text: String,
    },
}

/// A pin to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unpin {
    /// An item.
    Item(ItemId),
    /// All pins of a message.
    Message(MessageId),
}

/// Whether a request is due after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A request is due.
    Request,
    /// No request is due.
    Nothing,
}

impl Input {
    /// The inputs up to the end of a turn, counted from 0, or `None` if there is no such turn.
    pub fn until_turn(inputs: &[Self], turn: usize) -> Option<&[Self]> {
        let begins = |input: &Self| match input {
            Self::Turn(_) => 1,
            Self::Past(said) => said.iter().filter(|said| matches!(said, PastMessage::User(_))).count(),
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

/// An invalid input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// There is no such item.
    #[error("{0} is neither in the agent nor in the session")]
    UnknownItem(ItemId),
    /// There is no such pin.
    #[error("{0} is not pinned")]
    NotPinned(String),
    /// The pins are too large.
    #[error("the pins would take {0} tokens of each prompt; the limit is {1}. Pin a shorter passage")]
    PinTooLarge(Tokens, Tokens),
    /// A conversation can be imported only before the first turn.
    #[error("a conversation can be imported only before the first turn")]
    TooLate,
    /// The agent is invalid.
    #[error(transparent)]
    Agent(#[from] crate::catalog::AgentError),
}

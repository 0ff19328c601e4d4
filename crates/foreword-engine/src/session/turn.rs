//! What a turn is: its mode, its message, its progress and its result. `machine` says how it goes.

use std::str::FromStr;

use foreword_core::budget::OverBudget;
use foreword_core::envelope::Envelope;
use foreword_core::message::ToolCall;
use foreword_core::select::Reason;
use foreword_core::session::{Input, InputError, Session, TurnInput};
use foreword_core::version::Version;
use foreword_store::{Health, StoreError, Usage};
use foreword_tools::Output;
use serde::{Deserialize, Serialize};

use super::cold::{ColdCache, lifetime_s};
use super::ending::Ending;
use super::found::{FoundNote, sent_once};
use super::log_entry::LogEntry;
use super::recorded::RecordedSession;
use super::request::Outgoing;
use super::speak::SpeakError;

/// The largest number of calls of one reply that are run. Further calls get an error result, because providers require a result for
/// every call.
pub(super) const MAX_CALLS_PER_REPLY: usize = 128;

/// The result of a call beyond [`MAX_CALLS_PER_REPLY`].
pub(super) fn surplus(call: &ToolCall) -> Output {
    Output::failed(format!(
        "{} was not run: one reply may make {MAX_CALLS_PER_REPLY} calls, and this reply made more. Make fewer calls in one reply.",
        call.name.chars().filter(|c| !c.is_control()).take(80).collect::<String>()
    ))
}

/// The mode of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Conversation; the model may call tools.
    #[default]
    Chat,
    /// The notes are searched first, and the answer cites its sources.
    Qa,
    /// The model chooses all tools at once; then it answers.
    Plan,
    /// The model works with tools until the task is done.
    Agent,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Chat, Self::Qa, Self::Plan, Self::Agent];

    /// The name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Qa => "qa",
            Self::Plan => "plan",
            Self::Agent => "agent",
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        found.ok_or_else(|| format!("unknown mode {text:?}: expected chat, qa, plan or agent"))
    }
}

/// A message of the user.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The text and the attachments.
    pub turn: TurnInput,
    /// The current texts of an imported conversation's attachments, for the first turn.
    pub library: Vec<Version>,
}

/// Progress of a turn.
#[derive(Debug)]
pub enum Event<'a> {
    /// The provider's cache has expired: what the request that comes costs for that.
    ColdCache(&'a ColdCache),
    /// The user's words are stored: the end of the process does not lose them any more. Where they cannot be, it is not told.
    Stored,
    /// A request is stored and is being sent.
    Request(&'a Outgoing),
    /// A part of the reply's text.
    Part(&'a str),
    /// A tool call.
    Call(&'a ToolCall),
    /// A tool result.
    Result(&'a ToolCall, &'a Output),
    /// The passages that the search found, the best first.
    Found(&'a [FoundNote]),
}

/// The result of a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnOutcome {
    /// The text of the last reply; for a client, of all replies of the turn.
    pub text: String,
    /// The number of requests.
    pub requests: usize,
    /// Whether the turn ended at its limit of requests.
    pub out_of_steps: bool,
    /// Calls that the client runs.
    pub calls: Vec<ToolCall>,
    /// Whether the last reply is incomplete.
    pub cut_off: bool,
    /// Why the last reply ended early, if known.
    pub ending: Option<Ending>,
    /// What all requests of the turn used.
    pub usage: Usage,
}

/// Why a turn has no answer. Messages so far are kept.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// An input is invalid.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The request does not fit the budget.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The user's message could not be stored, so it was not sent. It is not part of the session.
    #[error("storing the message failed, so it was not sent: {}", .0.why())]
    NotStored(Health),
    /// The copy of the session for a preview cannot be made.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model failed.
    #[error(transparent)]
    Speak(#[from] SpeakError),
    /// The session was closed while the turn ran.
    #[error("the session was closed before the answer arrived")]
    Closed,
    /// The driver of the turn gave a result that does not belong to the last step.
    #[error("a step of the turn ended with the result of another step")]
    UnexpectedResult,
}

impl RecordedSession {
    /// Whether a turn leaves the current plan alone: only a turn in `agent` mode works on it.
    pub(super) fn suspends_plan(&self) -> bool {
        self.mode != Mode::Agent && self.session.current_plan().is_some()
    }

    /// Refuses words that no request has room for, before they are put on record.
    pub(super) fn check_fits(&self, turn: &TurnInput) -> Result<(), TurnError> {
        let mut session = self.session.clone();
        session.check(&Input::Turn(turn.clone()))?;
        session.apply(Input::Turn(turn.clone()))?;
        session.request()?;
        Ok(())
    }

    /// Records why a turn has no complete answer, so that it can be shown later.
    pub(super) fn record_ending(&mut self, ending: Ending, at_ms: i64) {
        let is_end = ending == Ending::Stopped && self.ends.is_cancelled();
        let ending = if is_end { Ending::Interrupted } else { ending };
        self.record_entry(&LogEntry::Ending(ending), at_ms, false, Vec::new());
    }

    /// Records idle time if the provider's cache has expired since the last request.
    pub(super) fn record_idle(&mut self, now_ms: i64) -> Result<(), InputError> {
        if let Some(idle_s) = self.forgotten_after(now_ms) {
            self.record(Input::Idle(idle_s), now_ms)?;
        }
        Ok(())
    }

    /// The idle time in seconds, if the provider's cache has expired.
    pub(super) fn forgotten_after(&self, now_ms: i64) -> Option<u64> {
        let sent = self.sent.as_ref()?;
        // Lifetimes count from the end of the last answer; where the session was just opened, that is not known.
        let last_ms = self.answered_ms.unwrap_or(sent.at_ms);
        let idle_s = u64::try_from(now_ms.saturating_sub(last_ms) / 1000).unwrap_or(0);
        lifetime_s(&self.model, sent.ttl).filter(|lifetime| idle_s >= *lifetime).map(|_| idle_s)
    }
}

/// The warning for a model that does not support images.
pub(super) fn images_not_taken(model: &str, envelope: &Envelope) -> Option<String> {
    let left_out = envelope.left_out.iter().filter(|left_out| left_out.reason == Reason::ImagesNotTaken);
    let names: Vec<&str> = left_out.map(|left_out| left_out.item.name()).collect();
    let names = names.join(", ");
    (!names.is_empty()).then(|| {
        format!("the model {model} does not support images, so these were not sent: {names}. Choose another model to send them")
    })
}

/// Removes passages that the prompt already contains.
pub(super) fn once(session: &Session, turn: &mut TurnInput) {
    let TurnInput { attached, results, .. } = turn;
    for result in results {
        let found = std::mem::take(&mut result.found);
        (result.output, result.found) = sent_once(session, attached, &result.output, found);
    }
}

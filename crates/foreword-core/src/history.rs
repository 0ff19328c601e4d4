//! The history: past messages in units that are kept or removed as a whole.
//!
//! The raw history is never rewritten. A request shows the part after a cut, with tool outputs before another point replaced by
//! stubs. Both positions only move forward, and only if the layout allows it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::message::Message;
use crate::pairing::OpenCalls;
use crate::plan::Plan;
use crate::tokens::{Tokenizer, Tokens};
use foreword_text::output::cap;

/// The stable ID of a message: the number of its input, from 0. `m12`, or `m0.3` for line 3 of an imported conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The number of the input.
    pub input: u64,
    /// The message within the input.
    pub line: u32,
}

impl MessageId {
    /// The ID of the message that an input adds.
    pub fn of_input(input: u64) -> Self {
        Self { input, line: 0 }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "m{}", self.input),
            line => write!(f, "m{}.{line}", self.input),
        }
    }
}

/// A text that is not a message ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a message: expected one like m12")]
pub struct NotAMessageId(String);

impl FromStr for MessageId {
    type Err = NotAMessageId;

    fn from_str(text: &str) -> Result<Self, NotAMessageId> {
        let not = || NotAMessageId(text.chars().filter(|c| !c.is_control()).take(40).collect());
        let numbers = text.strip_prefix('m').ok_or_else(not)?;
        let (input, line) = numbers.split_once('.').unwrap_or((numbers, "0"));
        Ok(Self { input: input.parse().map_err(|_| not())?, line: line.parse().map_err(|_| not())? })
    }
}

impl Serialize for MessageId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A tool output in both forms.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Output {
    /// The full form, reduced and capped.
    pub full: Arc<Message>,
    /// The stub: one line that says how to read the output.
    pub stub: Arc<Message>,
    /// Its number among all outputs of the session.
    pub sequence: usize,
    /// Whether the last fold left it whole: what a stub would save is less than what rewriting all behind it costs.
    pub spared: bool,
}

impl Output {
    /// The form to send if outputs before `stubs_before` are stubs. A stub that saves nothing is not used.
    pub fn message(&self, stubs_before: usize) -> &Arc<Message> {
        let is_stub = self.sequence < stubs_before && !self.spared && self.saving() > Tokens::ZERO;
        if is_stub { &self.stub } else { &self.full }
    }

    /// The number of tokens that the stub saves.
    pub fn saving(&self) -> Tokens {
        self.full.tokens() - self.stub.tokens()
    }
}

/// A part of the history that is kept or removed as a whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A user message, without its attached context.
    User(Arc<Message>),
    /// A model reply.
    PastMessage(Arc<Message>),
    /// Tool calls with their results.
    Calls(Arc<Message>, Vec<Output>),
    /// An engine message after results, which is useless once the turn is over.
    Engine(Arc<Message>),
}

impl Unit {
    /// The messages of the unit.
    pub fn messages(&self, stubs_before: usize) -> Vec<Arc<Message>> {
        match self {
            Self::User(message) | Self::PastMessage(message) | Self::Engine(message) => vec![Arc::clone(message)],
            Self::Calls(assistant, outputs) => {
                let outputs = outputs.iter().map(|output| Arc::clone(output.message(stubs_before)));
                std::iter::once(Arc::clone(assistant)).chain(outputs).collect()
            }
        }
    }

    /// Its size in tokens.
    pub fn tokens(&self, stubs_before: usize) -> Tokens {
        self.messages(stubs_before).iter().map(|message| message.tokens()).sum()
    }
}

/// The raw history and the state of the running turn.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct History {
    /// All units, oldest first.
    pub units: Vec<Unit>,
    /// The ID of each unit's first message.
    pub ids: Vec<MessageId>,
    /// The user message of the running turn.
    pub current_user: Option<usize>,
    /// Open calls, with the assistant message that made them.
    pub open: Option<(Arc<Message>, OpenCalls)>,
    /// The ID of that message.
    pub open_id: MessageId,
    /// All call IDs so far.
    pub used_ids: BTreeSet<String>,
    /// The number of tool outputs so far.
    pub outputs: usize,
    /// The engine's directive to send after the next results.
    pub directive: Option<String>,
    /// The current plan, and the unit of the call that submitted it.
    pub plan: Option<(Plan, usize)>,
    /// Whether a reply now would answer the last request as it was sent.
    pub answerable: bool,
    /// Units before this one have no opaque blocks.
    pub bare: usize,
}

/// The part of the history that a request shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The first shown unit.
    pub cut: usize,
    /// Outputs before this one are stubs.
    pub stubs_before: usize,
    /// Whether there was no room even for a summary.
    pub no_summary: bool,
}

impl History {
    /// All outputs.
    pub fn all_outputs(&self) -> impl Iterator<Item = &Output> {
        self.units.iter().filter_map(|unit| if let Unit::Calls(_, outputs) = unit { Some(outputs) } else { None }).flatten()
    }

    /// All outputs, to be changed.
    pub fn all_outputs_mut(&mut self) -> impl Iterator<Item = &mut Output> {
        self.units.iter_mut().filter_map(|unit| if let Unit::Calls(_, outputs) = unit { Some(outputs) } else { None }).flatten()
    }

    /// Where the run that is `back` runs before the end begins, not counting a running turn.
    pub fn runs_back(&self, back: usize) -> usize {
        let end = self.current_user.unwrap_or(self.units.len());
        let mut starts = (0..end).rev().filter(|at| matches!(self.units[*at], Unit::User(_)));
        if back == 0 { end } else { starts.nth(back - 1).unwrap_or(0) }
    }

    /// The first unit of the newest ones that fit a window. The newest calls of the running turn are always included.
    pub fn window_cut(&self, messages: usize, chars: usize, message_chars: usize) -> usize {
        let newest = self.units.len().saturating_sub(1);
        let size = |unit: &Unit| {
            let messages = unit.messages(0);
            let chars: usize = messages.iter().map(|message| window_chars(message).min(message_chars)).sum();
            (messages.len(), chars)
        };
        // The user's message of the running turn, the summary of what is cut, and the plan at work.
        let pinned = self.plan.as_ref().map_or(0, |(_, unit)| self.units.get(*unit).map_or(0, |unit| unit.messages(0).len()));
        let mut used = (1 + usize::from(window_has_summary(messages)) + pinned, 0);
        let mut cut = self.units.len();
        for (at, unit) in self.units.iter().enumerate().rev() {
            if Some(at) == self.current_user {
                cut = at;
                continue;
            }
            let (more_messages, more_chars) = size(unit);
            // Nothing is cut once the first unit is reached, so its place need not be shared with a summary.
            let spare = usize::from(at == 0 && window_has_summary(messages));
            let fits = used.0 + more_messages <= messages + spare && used.1 + more_chars <= chars;
            if !fits && at != newest {
                return cut;
            }
            used = (used.0 + more_messages, used.1 + more_chars);
            cut = at;
        }
        cut
    }

    /// The messages of a past unit, each cut to a size.
    pub fn past_messages(
        &self,
        at: usize,
        stubs_before: usize,
        message_chars: Option<usize>,
        tokenizer: &dyn Tokenizer,
    ) -> Vec<Arc<Message>> {
        let unit = &self.units[at];
        if matches!(unit, Unit::Engine(_)) {
            return Vec::new();
        }
        let messages = unit.messages(stubs_before);
        match message_chars {
            None => messages,
            Some(limit) => messages.into_iter().map(|message| held_to(message, limit, tokenizer)).collect(),
        }
    }
}

/// Whether the window has room for a summary message.
fn window_has_summary(messages: usize) -> bool {
    messages > 3
}

/// The size of a message in a window, in characters.
pub(crate) fn window_chars(message: &Message) -> usize {
    let calls: usize = message.calls.iter().map(|call| crate::json::to_string(&call.arguments).len() + call.name.len()).sum();
    message.content().chars().count() + calls
}

fn held_to(message: Arc<Message>, limit: usize, tokenizer: &dyn Tokenizer) -> Arc<Message> {
    let Some(capped) = cap(&message.content(), limit, "this message in the session's record") else { return message };
    let mut shorter = Message::clone(&message);
    if let Some(first) = shorter.pieces.first_mut() {
        first.text = Arc::from(capped.text.as_str());
        first.tokens = tokenizer.count(&capped.text);
    }
    shorter.pieces.truncate(1);
    Arc::new(shorter)
}

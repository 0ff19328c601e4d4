//! History: what was said, in units that are kept or left whole.
//!
//! The raw history is never rewritten. What a request shows of it is a cut (the unit it begins with) and a line before which
//! tool outputs are stubs; both move only forward, and only where a layout allows.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::message::Message;
use crate::pairing::OpenCalls;
use crate::plan::Plan;
use crate::text::output::cap;
use crate::tokens::{Tokenizer, Tokens};

/// The lasting name of a message: which input brought it, from 0. `m12`, or `m0.3` for a line of a conversation that was had elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The input.
    pub input: u64,
    /// Which of its messages.
    pub line: u32,
}

impl MessageId {
    /// The message of an input that brings one.
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

/// A text that names no message.
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

/// A tool's output in the two forms it can be sent in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Output {
    /// As it came, reduced and capped.
    pub full: Arc<Message>,
    /// One line that says where to find it.
    pub stub: Arc<Message>,
    /// Its place among all outputs of the session.
    pub sequence: usize,
    /// Whether the last fold left it whole: what a stub would save is less than what rewriting all behind it costs.
    pub spared: bool,
}

impl Output {
    /// The form to send when outputs before `stubs_before` are stubs. A stub that saves nothing is not used.
    pub fn message(&self, stubs_before: usize) -> &Arc<Message> {
        let is_stub = self.sequence < stubs_before && !self.spared && self.saving() > Tokens::ZERO;
        if is_stub { &self.stub } else { &self.full }
    }

    /// What a stub saves.
    pub fn saving(&self) -> Tokens {
        self.full.tokens() - self.stub.tokens()
    }
}

/// A part of the history that is kept or left as a whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// What the user typed, without the context that was attached.
    User(Arc<Message>),
    /// What the model said.
    Said(Arc<Message>),
    /// Calls with their results.
    Calls(Arc<Message>, Vec<Output>),
    /// What the engine told the model after results; it is of no use once the run is over.
    Engine(Arc<Message>),
}

impl Unit {
    /// Its messages.
    pub fn messages(&self, stubs_before: usize) -> Vec<Arc<Message>> {
        match self {
            Self::User(message) | Self::Said(message) | Self::Engine(message) => vec![Arc::clone(message)],
            Self::Calls(assistant, outputs) => {
                let outputs = outputs.iter().map(|output| Arc::clone(output.message(stubs_before)));
                std::iter::once(Arc::clone(assistant)).chain(outputs).collect()
            }
        }
    }

    /// Its size.
    pub fn tokens(&self, stubs_before: usize) -> Tokens {
        self.messages(stubs_before).iter().map(|message| message.tokens()).sum()
    }
}

/// The raw history and what is open in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct History {
    /// All units, oldest first.
    pub units: Vec<Unit>,
    /// The message each unit begins with.
    pub ids: Vec<MessageId>,
    /// The user unit of the running turn.
    pub current_user: Option<usize>,
    /// Calls that wait for results, with the assistant message that made them.
    pub open: Option<(Arc<Message>, OpenCalls)>,
    /// The message that made them.
    pub open_id: MessageId,
    /// All call ids so far.
    pub used_ids: BTreeSet<String>,
    /// How many tool outputs there were.
    pub outputs: usize,
    /// What the engine says after the next results.
    pub directive: Option<String>,
    /// The plan at work, and the unit whose call brought it.
    pub plan: Option<(Plan, usize)>,
    /// Whether a reply now would answer the last request as it was sent.
    pub answerable: bool,
    /// Units before this one have no opaque blocks.
    pub bare: usize,
}

/// The part of the history a request shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The first unit.
    pub cut: usize,
    /// Outputs before this one are stubs.
    pub stubs_before: usize,
    /// Whether there was no room even for a summary of what is not shown.
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

    /// The first unit of the newest ones that fit a window; the running turn's newest calls always do.
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

    /// The messages of a past unit, held to a size each.
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

/// A window of very few messages has none to spare for a summary.
fn window_has_summary(messages: usize) -> bool {
    messages > 3
}

/// What a message counts for in a window.
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

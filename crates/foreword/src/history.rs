//! Managed histories for programs that keep their own messages: an agent framework, or a plain list of messages.
//!
//! A [`History`] is given the whole conversation before each request and returns the messages to send: as few as the settings ask for,
//! with every tool call next to its result. As long as the conversation only grows, so do the messages, and the provider's cache holds.

use std::collections::BTreeSet;

use foreword_core::layer::LayerId;
use foreword_core::message::{Message, Origin, Role, ToolCall};
use foreword_core::pairing::CallOutput;
use foreword_core::session::{Input, PastMessage, TurnInput};
use foreword_core::settings::HistoryPolicy;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::session::Setup;
use crate::{Error, Explanation, Session, SessionBuilder};

/// A message of a program's own conversation, without the system prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HistoryMessage {
    /// What the user said.
    User {
        /// The text.
        text: String,
    },
    /// What the model said.
    Assistant {
        /// The text.
        #[serde(default)]
        text: String,
        /// The tool calls.
        #[serde(default)]
        calls: Vec<HistoryCall>,
    },
    /// What a tool returned.
    Tool {
        /// The ID of the call.
        id: String,
        /// The output.
        text: String,
        /// Whether the call failed.
        #[serde(default)]
        failed: bool,
    },
}

/// A tool call in a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryCall {
    /// Its ID.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments.
    #[serde(default)]
    pub arguments: Value,
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ManagedMessage {
    /// `system` for a summary, else `user`, `assistant` or `tool`.
    pub role: &'static str,
    /// The number of the message that it stands for, from 0; `None` for a summary.
    pub source: Option<usize>,
    /// The new text, if it is not the message's own: a summary, or what is left of a tool output.
    pub text: Option<String>,
}

/// The messages to send, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Managed {
    /// The messages in order.
    pub messages: Vec<ManagedMessage>,
    /// The explanation of the request that they form.
    pub explanation: Explanation,
}

/// A summary that should be written before the next turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SummaryRequest {
    /// What to ask a model: the template with the conversation. Its answer is the summary.
    pub prompt: String,
    covers: usize,
}

/// The longest part of a conversation in a [`SummaryRequest`], in characters.
const MAX_PROMPT_CHARS: usize = 60_000;
/// The longest part of one message in it.
const MAX_MESSAGE_CHARS: usize = 4_000;

/// What a model is asked for.
const TASK: &str = "\
Write a record of the conversation below. It takes the place of older messages, so whatever is not in it is forgotten. Tell only what \
was said or done. Do not answer the user, and write nothing but the record.";

/// Manages the messages of a conversation that a program keeps itself.
///
/// ```
/// use foreword::{History, HistoryMessage, Session};
/// # fn main() -> Result<(), foreword::Error> {
/// let mut history = History::new(Session::builder("claude-sonnet-5").system("You are a baker."))?;
/// let messages = [HistoryMessage::User { text: "Why is my loaf flat?".into() }];
/// let managed = history.manage(&messages)?;
/// assert_eq!(managed.messages[0].source, Some(0));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct History {
    start: Session,
    session: Session,
    seen: Vec<HistoryMessage>,
}

impl History {
    /// A history with the settings of a session. Tool outputs are shown to the byte as long as they fit.
    pub fn new(builder: SessionBuilder) -> Result<Self, Error> {
        let start = builder.adjust(|settings| settings.verbatim_outputs = true).build()?;
        let session = start.fork()?;
        Ok(Self { start, session, seen: Vec::new() })
    }

    /// The messages to send for a conversation, which ends with a user message or tool results.
    pub fn manage(&mut self, messages: &[HistoryMessage]) -> Result<Managed, Error> {
        check(messages)?;
        self.follow(messages)?;
        let request = self.session.request()?;
        let explanation = request.explanation().clone();
        Ok(Managed { messages: sent(self.session.core.messages(), messages), explanation })
    }

    /// The summary that a managed history needs before the conversation's last message, if there is one to write.
    pub fn summary_due(&mut self, messages: &[HistoryMessage], template: &str) -> Result<Option<SummaryRequest>, Error> {
        check(messages)?;
        let Some((HistoryMessage::User { text }, before)) = messages.split_last() else { return Ok(None) };
        let HistoryPolicy::Managed { token_threshold, .. } = self.session.settings().history else { return Ok(None) };
        self.follow(before)?;
        let core = &self.session.core;
        let (earlier, covered) = core.written().unwrap_or_default();
        let cut = core.managed_cut();
        let new = core.history_tokens() - core.units_tokens(0..covered);
        if cut <= covered || new < token_threshold {
            return Ok(None);
        }
        let said = core.said(covered..cut).into_iter();
        let said: Vec<String> =
            said.map(|said| format!("{}: {}", said.role.as_str(), first(&said.text, MAX_MESSAGE_CHARS))).collect();
        let mut parts = vec![TASK.to_owned()];
        if !template.trim().is_empty() {
            parts.push(format!("## What to write\n\n{template}"));
        }
        if !earlier.is_empty() {
            parts.push(format!("## The record so far\n\n{earlier}"));
        }
        parts.push(format!("## Conversation\n\n{}", first(&said.join("\n"), MAX_PROMPT_CHARS)));
        parts.push(format!("## What the user says next\n\n{}", first(text, MAX_MESSAGE_CHARS)));
        Ok(Some(SummaryRequest { prompt: parts.join("\n\n"), covers: cut }))
    }

    /// Takes the summary that a model wrote. The next [`History::manage`] sends it in place of the messages that it covers.
    pub fn summarised(&mut self, request: &SummaryRequest, summary: &str) -> Result<(), Error> {
        if summary.trim().is_empty() {
            return Ok(());
        }
        self.session.apply(Input::Managed { summary: summary.to_owned(), covers: request.covers }).map(drop)
    }

    /// The whole text of tool outputs that are sent in part, by their IDs, since the last call.
    pub fn take_outputs(&mut self) -> Vec<(String, std::sync::Arc<str>)> {
        self.session.take_outputs()
    }

    /// Tells the session what is new; where the conversation is another one, it begins again.
    fn follow(&mut self, messages: &[HistoryMessage]) -> Result<(), Error> {
        let continues = messages.len() >= self.seen.len() && messages.iter().zip(&self.seen).all(|(now, seen)| now == seen);
        if continues && self.tell(self.seen.len(), messages) {
            self.seen.extend(messages.iter().skip(self.seen.len()).cloned());
            return Ok(());
        }
        let setup = Setup::clone(&self.start.setup);
        let mut session = Session::begin(setup, std::sync::Arc::clone(self.start.core.tokenizer()))?;
        let (past, turn) = match messages.split_last() {
            Some((HistoryMessage::User { text }, past)) => (past, Some(text.clone())),
            _ => (messages, None),
        };
        if !past.is_empty() {
            session.apply(Input::Past(past_of(past)))?;
        }
        if let Some(words) = turn {
            session.apply(Input::Turn(TurnInput { words, ..TurnInput::default() }))?;
        }
        self.session = session;
        self.seen = messages.to_vec();
        Ok(())
    }

    /// Applies the messages from `known` on. False where that is not possible, and the session has to begin again.
    fn tell(&mut self, known: usize, messages: &[HistoryMessage]) -> bool {
        let Some(new) = messages.get(known..) else { return false };
        let is_user = |message: &&HistoryMessage| matches!(message, HistoryMessage::User { .. });
        // One turn at a time: a conversation that comes whole is a past.
        let is_late = known == 0 && messages.len() > 1;
        let is_closed = match new.first() {
            Some(HistoryMessage::User { .. }) => !self.session.is_due() && !self.is_waiting(known),
            _ => true,
        };
        if is_late || !is_closed || new.iter().filter(is_user).count() > 1 {
            return false;
        }
        let last = new.len().saturating_sub(1);
        new.iter().enumerate().all(|(at, message)| {
            let applied = self.session.apply(input(message));
            // A request that the program made without asking here was made all the same: what follows it stands behind it.
            applied.is_ok_and(|is_due| at == last || !is_due || self.session.request().is_ok())
        })
    }

    /// Whether the last request has no reply yet.
    fn is_waiting(&self, known: usize) -> bool {
        known > 0 && !matches!(self.seen.last(), Some(HistoryMessage::Assistant { .. }))
    }
}

fn first(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

fn check(messages: &[HistoryMessage]) -> Result<(), Error> {
    let wrong = |at: usize, what: &str| Err(Error::Message { at, what: what.to_owned() });
    let last = messages.len().saturating_sub(1);
    match messages.last() {
        None => return wrong(0, "a conversation needs a message"),
        Some(HistoryMessage::Assistant { .. }) => {
            return wrong(last, "the model said it; a request follows a user message or tool results");
        }
        Some(_) => {}
    }
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        match message {
            HistoryMessage::User { .. } => {}
            HistoryMessage::Assistant { calls, .. } => open = calls.iter().map(|call| call.id.as_str()).collect(),
            HistoryMessage::Tool { id, .. } => {
                if !open.remove(id.as_str()) {
                    return wrong(at, "the result of a call that no message before it has made, or that has a result already");
                }
            }
        }
    }
    if matches!(messages.last(), Some(HistoryMessage::Tool { .. })) && !open.is_empty() {
        return wrong(last, "other calls of the same message have no results yet");
    }
    Ok(())
}

fn input(message: &HistoryMessage) -> Input {
    match message {
        HistoryMessage::User { text } => Input::Turn(TurnInput { words: text.clone(), ..TurnInput::default() }),
        HistoryMessage::Assistant { text, calls } => {
            Input::Assistant { text: text.clone(), calls: calls.iter().map(call).collect(), opaque: Vec::new() }
        }
        HistoryMessage::Tool { id, text, failed } => {
            Input::ToolResult { id: id.clone(), output: text.clone(), failed: *failed, found: Vec::new() }
        }
    }
}

fn call(call: &HistoryCall) -> ToolCall {
    ToolCall { id: call.id.clone(), name: call.name.clone(), arguments: call.arguments.clone() }
}

/// A conversation as a past: each call has its result with it.
fn past_of(messages: &[HistoryMessage]) -> Vec<PastMessage> {
    let mut past: Vec<PastMessage> = Vec::new();
    for message in messages {
        match message {
            HistoryMessage::User { text } => past.push(PastMessage::User(text.clone())),
            HistoryMessage::Assistant { text, calls } if calls.is_empty() => past.push(PastMessage::Assistant(text.clone())),
            HistoryMessage::Assistant { text, calls } => {
                let calls = calls.iter().map(|made| (call(made), None)).collect();
                past.push(PastMessage::Called { text: text.clone(), calls });
            }
            HistoryMessage::Tool { id, text, failed } => {
                let calls = past.iter_mut().rev().find_map(|past| match past {
                    PastMessage::Called { calls, .. } => Some(calls),
                    _ => None,
                });
                let waiting = calls.into_iter().flatten().find(|(call, output)| call.id == *id && output.is_none());
                if let Some((_, output)) = waiting {
                    *output = Some(CallOutput { text: text.clone(), failed: *failed });
                }
            }
        }
    }
    past
}

/// The messages of a request, each with the message that it stands for. Both are in the same order, so they are matched from the end.
fn sent(messages: &[std::sync::Arc<Message>], given: &[HistoryMessage]) -> Vec<ManagedMessage> {
    let mut end = given.len();
    let mut managed: Vec<ManagedMessage> = Vec::new();
    for message in messages.iter().rev() {
        let is_engine = matches!(message.pieces.first().map(|piece| &piece.origin), Some(Origin::Engine(_)));
        let layer = message.pieces.first().map(|piece| piece.layer);
        if message.role == Role::System && matches!(layer, Some(LayerId::L1 | LayerId::L2)) {
            continue;
        }
        let text = message.content();
        let source = if is_engine && message.role != Role::Tool {
            None
        } else {
            given[..end].iter().rposition(|given| match (given, message.role) {
                (HistoryMessage::User { text: said }, Role::User) => text.ends_with(said.as_str()),
                (HistoryMessage::Assistant { text: said, calls }, Role::Assistant) => {
                    *said == *text && calls.len() == message.calls.len()
                }
                (HistoryMessage::Tool { id, .. }, Role::Tool) => {
                    message.answers.as_deref().is_some_and(|answers| answers == id || answers.starts_with(id.as_str()))
                }
                _ => false,
            })
        };
        let own = source.and_then(|source| given.get(source)).map(|given| match given {
            HistoryMessage::User { text } | HistoryMessage::Assistant { text, .. } | HistoryMessage::Tool { text, .. } => text,
        });
        let changed = own.is_none_or(|own| *own != *text);
        managed.push(ManagedMessage { role: message.role.as_str(), source, text: changed.then(|| text.into_owned()) });
        end = source.unwrap_or(end);
    }
    managed.reverse();
    managed
}

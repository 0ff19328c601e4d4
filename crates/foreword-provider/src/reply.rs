//! Provider-neutral replies: a series of [`Event`]s, streamed or whole, and the [`Reply`] that they form.
//!
//! Parsing is pure: the same bytes give the same events, however they are split.

mod anthropic;
mod chat;
mod gemini;
mod kept;
mod read;
mod responses;

use serde::Serialize;
use serde_json::Value;

use crate::usage::Usage;

pub use kept::ReplyMessage;
pub use read::{Form, ReadError, Reader};

/// An event of a reply, in order. [`Event::Stop`] is the last one.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Text for the user.
    Text(String),
    /// Reasoning text, if the provider shows it.
    Reasoning(String),
    /// A tool call begins.
    CallBegin {
        /// The index of the call in the reply, from 0.
        call: usize,
        /// The provider's ID; if `None`, the caller assigns one.
        id: Option<String>,
        /// The tool's name in the request.
        name: String,
    },
    /// More of a call's arguments. The parts of several calls may be interleaved.
    CallPart {
        /// The index of the call.
        call: usize,
        /// A fragment of JSON text.
        arguments: String,
    },
    /// A block that only the provider can read and wants back unchanged.
    Opaque(Opaque),
    /// Why the cache was missed; at most once, after the text.
    Missed(CacheMiss),
    /// The usage; at most once, just before the end.
    Usage(Usage),
    /// The reply ends.
    Stop(Stop),
}

/// An opaque block: a signed thought, a reasoning item, a signature. It is sent back whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Opaque {
    /// Its place when it is sent back.
    pub place: Place,
    /// The provider's own JSON.
    pub json: Value,
}

/// The place of an opaque block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A block of its own, between its neighbours.
    Here,
    /// Fields in the object of this call.
    Call(usize),
    /// Fields in the object of the message.
    Message,
}

/// Why a provider could not read the whole prompt from its cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CacheMiss {
    /// The provider's reason: `tools_changed`, `input_changed` …
    pub reason: String,
    /// The number of missed tokens.
    pub tokens: Option<u64>,
}

/// Why a reply ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model finished.
    End,
    /// The model wrote one of the client's stop sequences: which one, where the provider says so.
    Sequence(Option<String>),
    /// The model waits for the results of its calls.
    Calls,
    /// The reply reached its token limit.
    Length,
    /// The context window is full.
    Window,
    /// The provider or the model refused to continue.
    Refused,
    /// The provider wants the reply sent back in order to continue.
    Paused,
    /// Another reason, as the provider gave it.
    Other(String),
}

/// A part of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text for the user.
    Text(String),
    /// Reasoning text.
    Reasoning(String),
    /// A tool call.
    Call {
        /// The provider's ID, if any.
        id: Option<String>,
        /// The tool's name in the request.
        name: String,
        /// The arguments as the model wrote them; not always valid JSON.
        arguments: String,
    },
    /// An opaque block.
    Opaque(Opaque),
}

/// A complete reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// Its parts in order; adjacent parts of one kind are joined.
    pub parts: Vec<Part>,
    /// Why the cache was missed, if the provider said so.
    pub missed: Option<CacheMiss>,
    /// The usage, if the provider sent it.
    pub usage: Option<Usage>,
    /// Why it ended; `None` before the end.
    pub stop: Option<Stop>,
    /// The indexes of the calls among the parts.
    calls: Vec<usize>,
}

impl Reply {
    /// Adds an event.
    pub fn add(&mut self, event: Event) {
        match event {
            Event::Text(more) => match self.parts.last_mut() {
                Some(Part::Text(text)) => text.push_str(&more),
                _ => self.parts.push(Part::Text(more)),
            },
            Event::Reasoning(more) => match self.parts.last_mut() {
                Some(Part::Reasoning(text)) => text.push_str(&more),
                _ => self.parts.push(Part::Reasoning(more)),
            },
            Event::CallBegin { call: _, id, name } => {
                self.calls.push(self.parts.len());
                self.parts.push(Part::Call { id, name, arguments: String::new() });
            }
            Event::CallPart { call, arguments: more } => {
                let at = self.calls.get(call).copied();
                if let Some(Part::Call { arguments, .. }) = at.and_then(|at| self.parts.get_mut(at)) {
                    arguments.push_str(&more);
                }
            }
            Event::Opaque(opaque) => self.parts.push(Part::Opaque(opaque)),
            Event::Missed(missed) => self.missed = Some(missed),
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Stop(stop) => self.stop = Some(stop),
        }
    }

    /// The text for the user.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None }).collect()
    }
}

impl FromIterator<Event> for Reply {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Self {
        let mut reply = Self::default();
        for event in events {
            reply.add(event);
        }
        reply
    }
}

#[cfg(test)]
mod tests;

//! What a model answers, in no provider's words: a row of [`Event`]s, whether it came as a stream or whole, and the [`Reply`] they add
//! up to.
//!
//! Reading is pure: bytes in pieces of any size become the same events.

mod anthropic;
mod chat;
mod gemini;
mod kept;
mod read;
mod responses;

use serde::Serialize;
use serde_json::Value;

use crate::usage::Usage;

pub use read::{Form, ReadError, Reader};

/// Something that happened in a reply, in the order the model brought it forth. [`Event::Stop`] is the last one.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Words for the user.
    Text(String),
    /// Words of the model to itself, where the provider shows them.
    Reasoning(String),
    /// A call begins.
    CallBegin {
        /// Its place among the reply's calls, from 0.
        call: usize,
        /// The provider's id; none where it gives none, and then the caller has to name the call.
        id: Option<String>,
        /// The tool, by its name on the wire.
        name: String,
    },
    /// More of a call's arguments. The parts of several calls may come mixed.
    CallPart {
        /// Which call.
        call: usize,
        /// JSON text, cut anywhere.
        arguments: String,
    },
    /// What only the provider can read, and wants back as it was.
    Opaque(Opaque),
    /// Why the cache was missed; at most once, behind what was said.
    Missed(CacheMiss),
    /// What it cost; at most once, just before the end.
    Usage(Usage),
    /// The end.
    Stop(Stop),
}

/// A block that is kept for the provider: a signed thought, a reasoning item, a signature. It is sent back whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Opaque {
    /// Where it belongs when it is sent back.
    pub place: Place,
    /// The provider's own JSON.
    pub json: Value,
}

/// Where an opaque block belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Between its neighbours, as a block of its own.
    Here,
    /// Its fields belong to the object of this call.
    Call(usize),
    /// Its fields belong to the object of the message.
    Message,
}

/// Why a provider could not read all of a prompt from its cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CacheMiss {
    /// In the provider's word: `tools_changed`, `input_changed` …
    pub reason: String,
    /// How much of the prompt that was.
    pub tokens: Option<u64>,
}

/// Why a reply ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model had said all it wanted.
    End,
    /// It waits for the results of its calls.
    Calls,
    /// The room for the reply was used up.
    Length,
    /// The window was.
    Window,
    /// The provider or the model refused to go on.
    Refused,
    /// The provider wants the reply sent back to go on with it.
    Paused,
    /// A reason that is not known here, in the provider's word.
    Other(String),
}

/// A part of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Words for the user.
    Text(String),
    /// Words of the model to itself.
    Reasoning(String),
    /// A call.
    Call {
        /// The provider's id, where it gave one.
        id: Option<String>,
        /// The tool, by its name on the wire.
        name: String,
        /// JSON text, as the model wrote it: not always JSON.
        arguments: String,
    },
    /// For the provider.
    Opaque(Opaque),
}

/// A whole reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// What it says, in order; neighbours of one kind are one part.
    pub parts: Vec<Part>,
    /// Why the cache was missed, where it was and the provider said so.
    pub missed: Option<CacheMiss>,
    /// What it cost, where the provider said so.
    pub usage: Option<Usage>,
    /// Why it ended; none while it has not.
    pub stop: Option<Stop>,
    /// Where the calls are among the parts.
    calls: Vec<usize>,
}

impl Reply {
    /// Takes in the next event.
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

    /// Its words for the user.
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

//! Pairing: every tool call is directly followed by its result.
//!
//! A group of calls is held back until each call has its result, so requests are always complete. Unknown and duplicate results are
//! reported and never sent.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::message::{Message, Role, ToolCall};

/// The result of a call that was interrupted.
pub const INTERRUPTED: &str = "Operation interrupted by user";

/// A call without a result.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Waiting {
    call: ToolCall,
    /// The ID as the model gave it; several calls may share it.
    given: String,
    output: Option<CallOutput>,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallOutput {
    /// The output.
    pub text: String,
    /// Whether the call failed.
    pub failed: bool,
}

impl CallOutput {
    /// The result of a successful call.
    pub fn done(text: impl Into<String>) -> Self {
        Self { text: text.into(), failed: false }
    }

    /// The result of a failed call.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), failed: true }
    }
}

/// The calls of one assistant message, until all have results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenCalls {
    waiting: Vec<Waiting>,
}

/// The outcome of adding a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Added; other results are missing.
    Taken,
    /// Added; all calls have results.
    Complete,
    /// There is no open call with this ID.
    Unasked,
}

impl OpenCalls {
    /// Opens a group of calls. Duplicate IDs are made unique; `used` contains all IDs.
    pub fn new(calls: &[ToolCall], used: &mut BTreeSet<String>) -> Self {
        let waiting = calls.iter().map(|call| {
            let mut call = call.clone();
            let given = call.id.clone();
            let mut copy = 2;
            while !used.insert(call.id.clone()) {
                call.id = format!("{given}-{copy}");
                copy += 1;
            }
            Waiting { call, given, output: None }
        });
        Self { waiting: waiting.collect() }
    }

    /// The calls, with unique IDs.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.waiting.iter().map(|waiting| &waiting.call)
    }

    /// Adds a result to the first open call with this ID.
    pub fn answer(&mut self, id: &str, output: CallOutput) -> Answer {
        match self.waiting.iter_mut().find(|waiting| waiting.given == id && waiting.output.is_none()) {
            None => Answer::Unasked,
            Some(waiting) => {
                waiting.output = Some(output);
                if self.is_complete() { Answer::Complete } else { Answer::Taken }
            }
        }
    }

    /// The ID, as given, of an open call of the tool `name`.
    pub fn open_call(&self, name: &str) -> Option<&str> {
        let mut open = self.waiting.iter().filter(|waiting| waiting.output.is_none());
        open.find(|waiting| waiting.call.name == name).map(|waiting| waiting.given.as_str())
    }

    /// The ID, as given, of the last open call.
    pub fn last_open(&self) -> Option<&str> {
        self.waiting.iter().rev().find(|waiting| waiting.output.is_none()).map(|waiting| waiting.given.as_str())
    }

    /// Whether every call has its result.
    pub fn is_complete(&self) -> bool {
        self.waiting.iter().all(|waiting| waiting.output.is_some())
    }

    /// The calls with their results, in order, with a placeholder for missing ones.
    pub fn close(self) -> Vec<(ToolCall, CallOutput)> {
        let output = |waiting: Waiting| (waiting.call, waiting.output.unwrap_or_else(|| CallOutput::failed(INTERRUPTED)));
        self.waiting.into_iter().map(output).collect()
    }
}

/// A violation of the pairing rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unpaired {
    /// A call without a result directly after it.
    #[error("message {0}: call {1:?} is not answered directly behind it")]
    Dangling(usize, String),
    /// A result without a call.
    #[error("message {0}: a result for {1:?}, which was not asked for or is answered already")]
    Orphan(usize, String),
    /// An ID that is used by two calls.
    #[error("message {0}: call id {1:?} is used twice")]
    Reused(usize, String),
}

/// Checks the pairing of a whole request.
pub fn check(messages: &[Arc<Message>]) -> Result<(), Unpaired> {
    let mut used = BTreeSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if let (Role::Tool, Some(id)) = (message.role, &message.answers) {
            let Some(position) = open.iter().position(|open| open == id) else {
                return Err(Unpaired::Orphan(at, id.clone()));
            };
            open.remove(position);
            continue;
        }
        if let Some(id) = open.first() {
            return Err(Unpaired::Dangling(at, (*id).to_owned()));
        }
        for call in &message.calls {
            if !used.insert(&call.id) {
                return Err(Unpaired::Reused(at, call.id.clone()));
            }
            open.push(&call.id);
        }
    }
    open.first().map_or(Ok(()), |id| Err(Unpaired::Dangling(messages.len(), (*id).to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(ids: &[&str]) -> Vec<ToolCall> {
        ids.iter().map(|id| ToolCall { id: (*id).to_owned(), name: "t".to_owned(), arguments: serde_json::json!({}) }).collect()
    }

    fn done(text: &str) -> CallOutput {
        CallOutput::done(text)
    }

    #[test]
    fn results_close_a_group_in_the_order_of_its_calls() {
        let mut open = OpenCalls::new(&calls(&["a", "b"]), &mut BTreeSet::new());
        assert_eq!(open.answer("x", done("")), Answer::Unasked);
        assert_eq!(open.answer("b", done("2")), Answer::Taken);
        assert_eq!(open.answer("b", CallOutput::failed("again")), Answer::Unasked);
        assert_eq!(open.answer("a", done("1")), Answer::Complete);
        let closed: Vec<_> = open.close().into_iter().map(|(call, output)| (call.id, output.text)).collect();
        assert_eq!(closed, [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
    }

    #[test]
    fn ids_that_come_again_are_made_unique_and_still_find_their_results() {
        let mut used = BTreeSet::new();
        OpenCalls::new(&calls(&["a"]), &mut used);
        let mut open = OpenCalls::new(&calls(&["a", "a"]), &mut used);
        assert_eq!(open.calls().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["a-2", "a-3"]);
        assert_eq!(open.answer("a", done("1")), Answer::Taken);
        assert_eq!(open.answer("a", done("2")), Answer::Complete);
    }

    #[test]
    fn an_interrupt_answers_what_is_open() {
        let mut open = OpenCalls::new(&calls(&["a", "b"]), &mut BTreeSet::new());
        open.answer("a", done("1"));
        assert_eq!(open.close()[1].1, CallOutput::failed(INTERRUPTED));
    }
}

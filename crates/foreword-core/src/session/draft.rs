//! Helpers that build messages: pieces, joins and tool outputs.

use std::borrow::Cow;
use std::sync::Arc;

use crate::hash::Hash;
use crate::history::Output;
use crate::item::ItemId;
use crate::json;
use crate::layer::LayerId;
use crate::message::{Message, Origin, Piece, Role, ToolCall};
use crate::pairing::CallOutput;
use crate::prompt::USE_TOOL;
use crate::tokens::{Tokenizer, Tokens};
use foreword_text::normalise::replace_controls;
use foreword_text::output::{cap, is_overwritten, reduce};

use super::Session;

/// The tool with which a model reads an output again.
const READ_OUTPUT: &str = "readOutput";

/// The separator between two parts of a message.
pub(super) const JOIN: &str = "\n\n";

/// The text of a call for counting and hashing.
pub(super) fn call_text(call: &ToolCall) -> String {
    format!("{}({})", call.name, json::to_string(&call.arguments))
}

/// The ID of the output that a [`READ_OUTPUT`] call reads.
fn read_again(call: &ToolCall) -> Option<&str> {
    let (name, arguments) = match call.name.as_str() {
        USE_TOOL => (call.arguments.get("name")?.as_str()?, call.arguments.get("arguments")?),
        name => (name, &call.arguments),
    };
    let id = arguments.get("id")?.as_str()?.trim();
    (name.ends_with(READ_OUTPUT) && id.starts_with("output:")).then_some(id)
}

/// The pieces of a message under construction.
pub(super) struct Draft<'a> {
    tokenizer: &'a dyn Tokenizer,
    pub(super) pieces: Vec<Piece>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(tokenizer: &'a dyn Tokenizer) -> Self {
        Self { tokenizer, pieces: Vec::new() }
    }

    pub(super) fn push(&mut self, layer: LayerId, origin: Origin, text: impl Into<Arc<str>>) {
        let text = text.into();
        let tokens = self.tokenizer.count(&text);
        self.pieces.push(Piece { layer, origin, text, tokens });
    }

    /// Adds a part after a blank line; the blank line belongs to the part.
    pub(super) fn part(&mut self, layer: LayerId, origin: Origin, text: impl Into<Arc<str>>) {
        if !self.pieces.is_empty() {
            self.push(layer, origin.clone(), JOIN);
        }
        self.push(layer, origin, text);
    }
}

impl Session {
    /// A message with a single piece.
    pub(super) fn plain(&self, role: Role, origin: Origin, text: impl Into<Arc<str>>) -> Arc<Message> {
        let mut draft = Draft::new(&*self.tokenizer);
        draft.push(LayerId::L4, origin, text);
        Arc::new(Message::text(role, draft.pieces))
    }

    /// A tool output as the prompt shows it: reduced to what a screen would show, and cut to its limit after escaping. The full
    /// output is in the outbox.
    ///
    /// An output of `readOutput` is an excerpt of the output `read`, so it is unchanged and refers to that output.
    pub(super) fn settle_output(&mut self, tool: &str, output: &str, read: Option<&str>) -> (ItemId, String) {
        let id = ItemId::output(Hash::of(output));
        let pointer = read.map_or_else(|| id.to_string(), str::to_owned);
        let limit = self.settings.budget.output_cap(tool);
        if self.settings.verbatim_outputs && output.chars().count() <= limit {
            return (id, output.to_owned());
        }
        let reduced = match read {
            Some(_) => replace_controls(output).map_or(Cow::Borrowed(output), Cow::Owned),
            None => reduce(output),
        };
        let reduced = if read.is_none() && is_overwritten(output) {
            Cow::Owned(format!("{reduced}\n[Text that a terminal would have overwritten is left out; whole text: {pointer}]"))
        } else {
            reduced
        };
        let mut settled = reduced.to_string();
        let mut left_out = 0;
        // Escaping can lengthen a text; what it adds is taken from the room of the next try.
        let mut room = limit;
        let mut tried = false;
        loop {
            let over = self.fence.escape(&settled).chars().count().saturating_sub(limit);
            if over == 0 {
                break;
            }
            if tried {
                room = room.saturating_sub(over);
            }
            tried = true;
            if let Some(capped) = cap(&reduced, room, &pointer) {
                (settled, left_out) = (capped.text, capped.left_out_chars);
            }
            if room == 0 {
                settled.clear();
                break;
            }
        }
        if left_out > 0 {
            self.note(
                "capped",
                Some(id.clone()),
                format!("{left_out} characters of the output of {tool} were left out; the whole is {pointer}"),
            );
        } else if *reduced != *output {
            let text = format!(
                "the output of {tool} is shown as a screen would show it, with a count in place of identical lines; the original is {pointer}"
            );
            self.note("reduced", Some(id.clone()), text);
        }
        if left_out > 0 || *reduced != *output {
            self.keep_whole(&id, output);
        }
        (id, settled)
    }

    /// Adds the full output to the outbox, once.
    pub(super) fn keep_whole(&mut self, id: &ItemId, output: &str) {
        if self.outbox.last().is_none_or(|(last, _)| last != id) {
            self.outbox.push((id.clone(), Arc::from(output)));
        }
    }

    /// A tool message and its stub. The full output is stored in case the stub is used.
    pub(super) fn output_of(&mut self, call: &ToolCall, output: &CallOutput) -> Output {
        let CallOutput { text: output, failed } = output;
        let read = read_again(call);
        let (id, text) = self.settle_output(&call.name, output, read);
        let is_verbatim = self.settings.verbatim_outputs && text == *output;
        let text = if is_verbatim { text } else { self.fence.escape(&text).into_owned() };
        let name: String = call.name.chars().filter(|c| !c.is_control()).take(64).collect();
        let chars = output.chars().count();
        let stub = format!(
            "[Output of {name} left out: {chars} characters. Read it again with {READ_OUTPUT}(\"{}\").]",
            read.map_or_else(|| id.to_string(), str::to_owned)
        );
        let answer = |text: &str| {
            let message = self.plain(Role::Tool, Origin::Item(id.clone()), text);
            Arc::new(Message { answers: Some(call.id.clone()), failed: *failed, ..Message::clone(&message) })
        };
        let (full, stub) = (answer(&text), answer(&stub));
        let made = Output { full, stub, sequence: self.history.outputs, spared: false };
        if made.saving() > Tokens::ZERO {
            self.keep_whole(&id, output);
        }
        self.history.outputs += 1;
        made
    }
}

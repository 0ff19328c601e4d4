//! Opaque blocks, which a provider wants back unchanged. They may depend on the messages before them, so they are dropped whenever
//! the prompt is laid out again.

use std::sync::Arc;

use super::Session;
use super::draft::call_text;
use crate::history::Unit;
use crate::json;
use crate::message::{Message, Opaque};
use crate::tokens::{Chars, Tokenizer as _, Tokens};

/// The text of an opaque block for counting and hashing.
pub(super) fn opaque_text(opaque: &Opaque) -> String {
    json::to_string(&opaque.json)
}

impl Session {
    /// Keeps the opaque blocks of a reply only if it answers the current prompt.
    pub(super) fn take_opaque(&mut self, opaque: Vec<Opaque>) -> Vec<Opaque> {
        if std::mem::take(&mut self.history.answerable) { opaque } else { Vec::new() }
    }

    /// The size of a message's calls and opaque blocks. Blocks may be encrypted; they have about as many tokens as plain text of
    /// the same length, which a tokenizer would overestimate.
    pub(super) fn wordless_tokens(&self, message: &Message) -> Tokens {
        let calls: Tokens = message.calls.iter().map(|call| self.count(&call_text(call))).sum();
        calls + message.opaque.iter().map(|opaque| Chars::FOUR.count(&opaque_text(opaque))).sum()
    }

    /// Drops all opaque blocks from the history and from a pending reply. They stay in the log.
    pub(super) fn forget_opaque(&mut self) {
        self.history.answerable = false;
        let mut units = std::mem::take(&mut self.history.units);
        for unit in units.iter_mut().skip(self.history.bare) {
            if let Unit::PastMessage(message) | Unit::Calls(message, _) = unit {
                self.strip(message);
            }
        }
        self.history.bare = units.len();
        self.history.units = units;
        if let Some((mut message, open)) = self.history.open.take() {
            self.strip(&mut message);
            self.history.open = Some((message, open));
        }
    }

    /// A message without its opaque blocks.
    pub(super) fn strip(&self, message: &mut Arc<Message>) {
        if !message.opaque.is_empty() {
            let mut bare = Message { opaque: Vec::new(), ..Message::clone(message) };
            bare.extra_tokens = self.wordless_tokens(&bare);
            *message = Arc::new(bare);
        }
    }
}

//! What a provider gave to be sent back. It may be bound to the very messages in front of it, so it stays only as long as nothing there
//! changes: whenever the prompt is laid out anew, all of it goes.

use std::sync::Arc;

use super::Session;
use super::draft::call_text;
use crate::history::Unit;
use crate::json;
use crate::message::{Message, Opaque};
use crate::tokens::{Chars, Tokenizer as _, Tokens};

/// An opaque block as it counts and hashes.
pub(super) fn opaque_text(opaque: &Opaque) -> String {
    json::to_string(&opaque.json)
}

impl Session {
    /// The opaque blocks of a reply, where what it answers is what stands in front of it.
    pub(super) fn take_opaque(&mut self, opaque: Vec<Opaque>) -> Vec<Opaque> {
        if std::mem::take(&mut self.history.answerable) { opaque } else { Vec::new() }
    }

    /// Size of a message's calls and opaque blocks. What is in a block, only the provider knows: encrypted text has about as many tokens as
    /// plain text of its length, and a tokenizer would find more in it.
    pub(super) fn wordless_tokens(&self, message: &Message) -> Tokens {
        let calls: Tokens = message.calls.iter().map(|call| self.count(&call_text(call))).sum();
        calls + message.opaque.iter().map(|opaque| Chars::FOUR.count(&opaque_text(opaque))).sum()
    }

    /// Lets the history go without opaque blocks from here on, and the reply that may be on its way. They stay on the log.
    pub(super) fn forget_opaque(&mut self) {
        self.history.answerable = false;
        let mut units = std::mem::take(&mut self.history.units);
        for unit in units.iter_mut().skip(self.history.bare) {
            if let Unit::Said(message) | Unit::Calls(message, _) = unit {
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

//! What a server's chat template adds to a prompt, and to the part of it that is in a slot. Texts alone would be some percent short.

use foreword_core::message::Role;
use foreword_core::tokens::Tokens;

use crate::model::Template;
use crate::stream::{Block, BlockKind, Prefix, PromptStream};

impl Template {
    /// What it writes around all messages, and where the model is to go on.
    pub(super) fn around(self, stream: &PromptStream) -> Tokens {
        if self == Self::default() {
            return Tokens::ZERO;
        }
        let messages = stream.blocks().filter(|block| opens(block)).map(|block| self.before(block) + self.close);
        Tokens(messages.sum::<u64>() + self.reply)
    }

    /// What it writes within `prefix`, with which both `previous` and `current` begin.
    pub(super) fn within(self, prefix: &Prefix, previous: &PromptStream, current: &PromptStream) -> Tokens {
        if self == Self::default() {
            return Tokens::ZERO;
        }
        let mut tokens = 0;
        let mut before = 0;
        for block in current.blocks().take(prefix.blocks).filter(|block| opens(block)) {
            tokens += before + self.before(block);
            before = self.close;
        }
        // A prompt ends where a reply begins.
        let ends = |stream: &PromptStream| match stream.blocks().nth(prefix.blocks) {
            Some(block) if opens(block) => (before, self.before(block), Some(block.role())),
            Some(_) => (0, 0, None),
            None => (before, self.reply, Some(Role::Assistant)),
        };
        let (previous, current) = (ends(previous), ends(current));
        tokens += previous.0.min(current.0);
        if previous.2 == current.2 {
            tokens += previous.1.min(current.1);
        }
        Tokens(tokens)
    }

    fn before(self, block: &Block) -> u64 {
        if block.role() == Role::Assistant { self.reply } else { self.open }
    }
}

fn opens(block: &Block) -> bool {
    block.tag.opens && block.kind() != BlockKind::Tool
}

//! What a server's chat template adds to a prompt, and to the part of it that is in a slot. Texts alone would be some percent short.

use foreword_core::message::Role;
use foreword_core::tokens::Tokens;

use foreword_provider::model::Template;
use foreword_provider::stream::{Block, BlockKind, Prefix, PromptStream};

/// What it writes around all messages, and where the model is to go on.
pub(super) fn around(template: Template, stream: &PromptStream) -> Tokens {
    if template == Template::default() {
        return Tokens::ZERO;
    }
    let messages = stream.blocks().filter(|block| opens(block)).map(|block| before(template, block) + template.close);
    Tokens(messages.sum::<u64>() + template.reply)
}

/// What it writes within `prefix`, with which both `previous` and `current` begin.
pub(super) fn within(template: Template, prefix: &Prefix, previous: &PromptStream, current: &PromptStream) -> Tokens {
    if template == Template::default() {
        return Tokens::ZERO;
    }
    let mut tokens = 0;
    let mut due = 0;
    for block in current.blocks().take(prefix.blocks).filter(|block| opens(block)) {
        tokens += due + before(template, block);
        due = template.close;
    }
    // A prompt ends where a reply begins.
    let ends = |stream: &PromptStream| match stream.blocks().nth(prefix.blocks) {
        Some(block) if opens(block) => (due, before(template, block), Some(block.role())),
        Some(_) => (0, 0, None),
        None => (due, template.reply, Some(Role::Assistant)),
    };
    let (previous, current) = (ends(previous), ends(current));
    tokens += previous.0.min(current.0);
    if previous.2 == current.2 {
        tokens += previous.1.min(current.1);
    }
    Tokens(tokens)
}

fn before(template: Template, block: &Block) -> u64 {
    if block.role() == Role::Assistant { template.reply } else { template.open }
}

fn opens(block: &Block) -> bool {
    block.opens() && block.kind() != BlockKind::Tool
}

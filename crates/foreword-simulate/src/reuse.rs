//! What a perfect prefix cache could have served.

use foreword_core::tokens::Tokens;
use foreword_provider::stream::{PromptStream, common_prefix};

/// All prompts so far.
#[derive(Default)]
pub(super) struct Earlier {
    prompts: Vec<PromptStream>,
}

impl Earlier {
    /// The longest prefix that any earlier prompt has in common with this one.
    pub(super) fn reusable(&self, prompt: &PromptStream) -> Tokens {
        let shared = self.prompts.iter().rev().map(|earlier| common_prefix(earlier, prompt).tokens);
        shared.max().unwrap_or(Tokens::ZERO)
    }

    /// The prompt before.
    pub(super) fn last(&self) -> Option<&PromptStream> {
        self.prompts.last()
    }

    /// Remembers a prompt.
    pub(super) fn push(&mut self, prompt: PromptStream) {
        self.prompts.push(prompt);
    }
}

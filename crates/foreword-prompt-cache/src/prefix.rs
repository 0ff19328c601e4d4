//! Caches that compare token by token: whatever an earlier prompt has in common with this one can be used again.

use std::collections::VecDeque;

use foreword_core::tokens::Tokens;

use crate::template;
use foreword_provider::model::{Model, Template};
use foreword_provider::stream::{PromptStream, common_prefix};

/// Prompts kept for comparison, of all models together. A prompt that continues another one takes its place, so this many
/// separate lines of conversation are told apart.
const MAX_PROMPTS: usize = 32;

#[derive(Clone, Debug)]
struct Remembered {
    model: String,
    used_s: u64,
    stream: PromptStream,
}

/// Earlier prompts, the latest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Prompts {
    known: VecDeque<Remembered>,
}

impl Prompts {
    /// The longest prefix that `stream` has in common with a prompt used less than `lifetime_s` ago.
    pub(super) fn longest(&mut self, now_s: u64, lifetime_s: u64, stream: &PromptStream, model: &Model) -> Tokens {
        self.known.retain(|known| known.model != model.name || now_s < known.used_s.saturating_add(lifetime_s));
        self.known
            .iter()
            .filter(|known| known.model == model.name)
            .map(|known| common_prefix(&known.stream, stream).tokens)
            .max()
            .unwrap_or_default()
    }

    /// Remembers a prompt in place of those that it continues.
    pub(super) fn remember(&mut self, now_s: u64, stream: &PromptStream, model: &Model) {
        self.known.retain(|known| known.model != model.name || common_prefix(&known.stream, stream).previous.is_some());
        self.push(now_s, stream, model);
    }

    fn push(&mut self, now_s: u64, stream: &PromptStream, model: &Model) {
        if self.known.len() >= MAX_PROMPTS {
            self.known.pop_front();
        }
        self.known.push_back(Remembered { model: model.name.clone(), used_s: now_s, stream: stream.clone() });
    }

    /// Puts a prompt into the slot that fits it best, and says what it has in common with the prompt that was there.
    pub(super) fn slot(
        &mut self,
        now_s: u64,
        slots: usize,
        similarity: f64,
        template: Template,
        stream: &PromptStream,
        model: &Model,
    ) -> Tokens {
        let total = (stream.tokens() + template::around(template, stream)).0.max(1) as f64;
        let common = |known: &PromptStream| {
            let prefix = common_prefix(known, stream);
            prefix.tokens + template::within(template, &prefix, known, stream)
        };
        let ours: Vec<(usize, Tokens)> = self
            .known
            .iter()
            .enumerate()
            .filter(|(_, known)| known.model == model.name)
            .map(|(index, known)| (index, common(&known.stream)))
            .collect();
        let similar = ours.iter().filter(|(_, common)| common.0 as f64 / total > similarity).max_by_key(|(_, common)| *common);
        let chosen = match similar {
            Some(best) => Some(*best),
            // No slot is like it: a free one, else the one that was not used for longest.
            None if ours.len() < slots => None,
            None => ours.first().copied(),
        };
        if let Some((index, _)) = chosen {
            self.known.remove(index);
        }
        self.push(now_s, stream, model);
        chosen.map_or(Tokens::ZERO, |(_, common)| common)
    }
}

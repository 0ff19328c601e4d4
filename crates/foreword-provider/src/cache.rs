//! What a provider's prompt cache would make of a request: simulators that follow each provider's published rules.
//!
//! They answer "what would this have cost", and they are what the cache marks and folds are tested against.

mod breakpoints;
mod entries;
mod marks;
mod prefix;
mod template;

use foreword_core::tokens::Tokens;

use crate::model::{CacheRules, Model};
use crate::stream::PromptStream;
use entries::Entries;
use prefix::Prompts;

/// How a cache treated the tokens of one prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Read from it.
    pub read: Tokens,
    /// Written to it, for whatever lifetime; none where writing is not charged.
    pub write: Tokens,
    /// The part of `write` that was written for the long lifetime.
    pub write_long: Tokens,
    /// Neither.
    pub uncached: Tokens,
}

impl CacheUse {
    /// All tokens of the prompt.
    pub fn total(&self) -> Tokens {
        self.read + self.write + self.uncached
    }

    fn reading(total: Tokens, read: Tokens) -> Self {
        Self { read, uncached: total - read, ..Self::default() }
    }
}

/// The caches of all providers, as one account sees them. Another model is another cache.
#[derive(Clone, Debug, Default)]
pub struct CacheSim {
    entries: Entries,
    prompts: Prompts,
}

impl CacheSim {
    /// Cold caches.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends a request at `now_s`, a clock that never goes back.
    pub fn request(&mut self, now_s: u64, stream: &PromptStream, model: &Model) -> CacheUse {
        let total = stream.tokens();
        if stream.explicit() > 0 {
            // Hits of the implicit cache behind an explicit one are not reported.
            let cached = stream.blocks().take(stream.explicit());
            return CacheUse::reading(total, cached.map(|block| block.tokens).sum());
        }
        match model.cache {
            CacheRules::None {} => CacheUse::reading(total, Tokens::ZERO),
            CacheRules::Breakpoints { .. } => breakpoints::request(&mut self.entries, now_s, stream, model),
            CacheRules::Marks { .. } => marks::request(&mut self.entries, now_s, stream, model),
            CacheRules::Interval { minimum, interval, report, lifetime_s } => {
                let common = self.prompts.longest(now_s, lifetime_s, stream, model);
                self.prompts.remember(now_s, stream, model);
                let reached = common.0 / interval.max(1) * interval.max(1);
                let read = if reached < minimum { 0 } else { reached / report.max(1) * report.max(1) };
                CacheUse::reading(total, Tokens(read))
            }
            CacheRules::Blocks { block } => {
                let common = self.prompts.longest(now_s, u64::MAX, stream, model);
                self.prompts.remember(now_s, stream, model);
                // One token is always evaluated: the reply starts from it.
                let full = common.0.min(total.0.saturating_sub(1)) / block.max(1) * block.max(1);
                CacheUse::reading(total, Tokens(full))
            }
            CacheRules::Slots { slots, similarity, template } => {
                let total = total + template.around(stream);
                let common = self.prompts.slot(now_s, slots, similarity, template, stream, model);
                let read = common.0.min(total.0.saturating_sub(1));
                CacheUse::reading(total, Tokens(read))
            }
        }
    }
}

//! What a provider's prompt cache would make of a request: simulators that follow each provider's published rules.
//!
//! They answer "what would this have cost", and they are what the cache marks and folds are tested against.

pub mod body_prompt;
mod breakpoints;
mod entries;
pub mod lifetime;
mod marks;
mod prefix;
mod template;

use foreword_core::tokens::Tokens;

use entries::Entries;
use foreword_provider::model::{CacheRules, Model};
use foreword_provider::stream::PromptStream;
use foreword_provider::usage::CacheUse;
use prefix::Prompts;

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
                let total = total + template::around(template, stream);
                let common = self.prompts.slot(now_s, slots, similarity, template, stream, model);
                let read = common.0.min(total.0.saturating_sub(1));
                CacheUse::reading(total, Tokens(read))
            }
        }
    }
}

//! Where cache marks go: at ends that the next request will still have, and only where the provider would keep the prefix.

use foreword_core::tokens::Tokens;

use super::{BodyOptions, Next, takes_marks};
use crate::dialect::system::System;
use crate::dialect::wire::Wire;
use crate::dialect::{Dialect, anthropic};
use crate::model::{CacheRules, Capability, Model};
use crate::stream::{Mark, Ttl};

/// What the places are chosen from.
pub(super) struct Input<'a> {
    pub(super) system: &'a System,
    pub(super) wire: &'a Wire,
    pub(super) tools: Tokens,
    pub(super) tool_count: usize,
    /// Messages beside the system message.
    pub(super) messages: usize,
    /// How many messages stand in front of those.
    pub(super) lead: usize,
}

impl Input<'_> {
    /// The last block of the system up to `end`, and the prompt's size up to there.
    fn system(&self, end: Option<(usize, Tokens)>) -> Option<(usize, Tokens)> {
        end.map(|(block, tokens)| (self.tool_count + block, self.tools + tokens))
    }

    /// The last block of the first `count` messages of the prompt, and the prompt's size up to there.
    fn message(&self, count: usize) -> Option<(usize, Tokens)> {
        let count = count.checked_sub(self.lead)?.min(self.messages);
        let state = self.wire.after(count);
        let last = state.blocks.checked_sub(1)?;
        let head = self.system.l2.or(self.system.l1);
        let before = self.tools + head.map_or(Tokens::ZERO, |(_, tokens)| tokens);
        Some((self.tool_count + self.system.len() + last, before + state.tokens))
    }
}

/// The marks of one request, in order.
pub(super) fn plan(input: &Input<'_>, dialect: Dialect, model: &Model, settled: usize, options: &BodyOptions) -> Vec<Mark> {
    if !takes_marks(dialect, model) {
        return Vec::new();
    }
    let system_ttl = if model.has(Capability::LongTtl) { options.ttl } else { Ttl::Short };
    let mut places = vec![(input.system(input.system.l1), system_ttl)];
    if dialect == Dialect::Anthropic {
        places.push((input.system(input.system.l2), system_ttl));
        places.push((input.message(settled), Ttl::Short));
        places.push(match options.next {
            Next::Turn => (options.previous_len.and_then(|len| input.message(len)), Ttl::Short),
            // Walking back from the end finds where the previous step ended.
            Next::Step => (input.message(input.lead + input.messages), Ttl::Short),
        });
    }
    let mut marks: Vec<Mark> = places
        .into_iter()
        .filter_map(|(place, ttl)| {
            let (block, tokens) = place?;
            (tokens.0 >= model.cache.minimum()).then_some(Mark { block, ttl })
        })
        .collect();
    marks.sort_by_key(|mark| (mark.block, std::cmp::Reverse(mark.ttl)));
    marks.dedup_by_key(|mark| mark.block);
    marks.truncate(match model.cache {
        CacheRules::Marks { marks, .. } => marks,
        CacheRules::Breakpoints { writes, .. } => writes,
        _ => 0,
    });
    marks
}

/// The bytes to put in for the marks on a run of blocks that starts at `first`, by where they go.
pub(super) fn inserts(
    marks: &[Mark],
    first: usize,
    dialect: Dialect,
    start: impl Fn(usize) -> Option<usize>,
) -> Vec<(usize, &'static [u8])> {
    marks
        .iter()
        .filter_map(|mark| {
            let at = start(mark.block.checked_sub(first)?)?;
            let bytes = match dialect {
                Dialect::Anthropic => anthropic::mark(mark.ttl),
                _ => br#""prompt_cache_breakpoint":{"mode":"explicit"},"#,
            };
            Some((at, bytes))
        })
        .collect()
}

//! Anthropic: a mark writes one entry; a read walks back from each mark over a limited number of positions.

use foreword_core::tokens::Tokens;

use super::CacheUse;
use super::entries::{Entries, Upto, prefixes};
use foreword_provider::model::{CacheRules, Model};
use foreword_provider::stream::{Positions, PromptStream, Ttl};

pub(super) fn request(entries: &mut Entries, now_s: u64, stream: &PromptStream, model: &Model) -> CacheUse {
    let total = stream.tokens();
    let CacheRules::Marks { minimum, lifetime_s, long_lifetime_s, lookback, .. } = model.cache else {
        return CacheUse::reading(total, Tokens::ZERO);
    };
    entries.expire(now_s);
    let prefixes = prefixes(stream, model);
    let marked: Vec<(usize, Ttl)> = stream
        .marks()
        .iter()
        .filter(|mark| prefixes.get(mark.block).is_some_and(|upto| upto.tokens.0 >= minimum))
        .map(|mark| (mark.block, mark.ttl))
        .collect();
    let hit = marked.iter().filter_map(|(block, _)| walk_back(entries, &prefixes, *block, lookback)).max();
    let read = hit.map_or(Tokens::ZERO, |block| prefixes[block].tokens);
    let upto = |wanted: &dyn Fn(Ttl) -> bool| {
        marked
            .iter()
            .filter(|(_, ttl)| wanted(*ttl))
            .map(|(block, _)| prefixes[*block].tokens)
            .max()
            .unwrap_or_default()
            .max(read)
    };
    let end = upto(&|_| true);
    let long_end = upto(&|ttl| ttl == Ttl::Long);
    if let Some(block) = hit {
        entries.refresh(now_s, prefixes[block].digest);
    }
    for (block, ttl) in &marked {
        let lifetime_s = match ttl {
            Ttl::Short => lifetime_s,
            Ttl::Long => long_lifetime_s,
        };
        entries.write(now_s, prefixes[*block].digest, lifetime_s);
    }
    CacheUse { read, write: end - read, write_long: long_end - read, uncached: total - end }
}

/// The last block at or before `from`, within reach, at which an entry ends.
fn walk_back(entries: &Entries, prefixes: &[Upto<'_>], from: usize, lookback: usize) -> Option<usize> {
    let mut positions = Positions::default();
    let within = (0..=from).rev().take_while(|block| positions.step(prefixes[*block].block.kind()) <= lookback);
    within.into_iter().find(|block| entries.has(prefixes[*block].digest))
}

//! OpenAI from GPT-5.6 on: entries end exactly at message ends and at explicit breakpoints.

use std::collections::BTreeSet;

use foreword_core::message::Role;
use foreword_core::tokens::Tokens;

use super::CacheUse;
use super::entries::{Entries, Upto, prefixes};
use foreword_provider::model::{CacheRules, Model};
use foreword_provider::stream::{BlockKind, PromptStream};

pub(super) fn request(entries: &mut Entries, now_s: u64, stream: &PromptStream, model: &Model) -> CacheUse {
    let total = stream.tokens();
    let CacheRules::Breakpoints { minimum, lifetime_s, writes, first_explicit, latest_explicit, earlier_ends } = model.cache
    else {
        return CacheUse::reading(total, Tokens::ZERO);
    };
    entries.expire(now_s);
    let prefixes = prefixes(stream, model);
    let ends = message_ends(&prefixes);
    let explicit: Vec<usize> = stream.marks().iter().map(|mark| mark.block).filter(|block| *block < prefixes.len()).collect();

    let mut looked_up: BTreeSet<usize> = BTreeSet::new();
    looked_up.extend(explicit.iter().take(first_explicit));
    looked_up.extend(explicit.iter().rev().take(latest_explicit));
    looked_up.extend(ends.all.iter().rev().take(1 + earlier_ends));
    looked_up.extend(ends.initial);
    let hit = looked_up.into_iter().rev().find(|block| entries.has(prefixes[*block].digest));

    let implicit = ends.all.last().into_iter();
    let written: Vec<usize> = implicit
        .chain(explicit.iter().rev().take(writes.saturating_sub(1)))
        .copied()
        .filter(|block| prefixes[*block].tokens.0 >= minimum)
        .collect();
    let read = hit.map_or(Tokens::ZERO, |block| prefixes[block].tokens);
    let end = written.iter().map(|block| prefixes[*block].tokens).max().unwrap_or_default().max(read);
    if let Some(block) = hit {
        entries.refresh(now_s, prefixes[block].digest);
    }
    for block in written {
        entries.write(now_s, prefixes[block].digest, lifetime_s);
    }
    CacheUse { read, write: end - read, write_long: Tokens::ZERO, uncached: total - end }
}

struct Ends {
    /// Blocks at which an eligible message ends, in order.
    all: Vec<usize>,
    /// The end of the system messages at the start.
    initial: Option<usize>,
}

/// Eligible are the ends of user messages, of a group of tool results, and of the system messages at the start; later system
/// messages are not.
fn message_ends(prefixes: &[Upto<'_>]) -> Ends {
    let mut ends = Ends { all: Vec::new(), initial: None };
    let mut at_start = true;
    for (index, upto) in prefixes.iter().enumerate() {
        let block = upto.block;
        if block.kind() == BlockKind::Tool {
            continue;
        }
        let next = prefixes.get(index + 1).map(|next| next.block.role());
        at_start &= block.role() == Role::System;
        let eligible = match block.role() {
            Role::User => true,
            Role::Tool => next != Some(Role::Tool),
            Role::System => at_start && next != Some(Role::System),
            Role::Assistant => false,
        };
        if block.ends && eligible {
            ends.all.push(index);
            if at_start {
                ends.initial = Some(index);
            }
        }
    }
    ends
}

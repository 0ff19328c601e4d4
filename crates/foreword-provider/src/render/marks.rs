//! Where cache marks go. Four places matter: where the next request will still be the same (its end, or what of it is settled), where the
//! next fold will begin, what this request has in common with the one before it, and the ends of L1 and L2, which other sessions and the next
//! epoch begin with. A mark is set only where the provider would keep the prefix.

use foreword_core::message::Role;
use foreword_core::tokens::Tokens;

use super::{BodyOptions, Next, takes_marks};
use crate::dialect::system::System;
use crate::dialect::wire::Wire;
use crate::dialect::{Dialect, anthropic};
use crate::model::{CacheRules, Capability, Model};
use crate::stream::{Block, BlockKind, ClientMark, Mark, Marked, Positions, Ttl};

/// How many messages are looked at for one that can carry a mark.
const MOST_LOOKED_BACK: usize = 64;

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

    /// The end of every segment of L2, and the prompt's size up to there.
    fn library(&self) -> Vec<(usize, Tokens)> {
        let from = self.system.l1.map_or(0, |(block, _)| block + 1);
        let mut size = Tokens::ZERO;
        let ends = self.system.blocks.blocks().iter().enumerate().map(|(block, text)| {
            size += text.tokens;
            (self.tool_count + block, self.tools + size)
        });
        ends.skip(from).collect()
    }

    /// The last block in the first `count` messages that OpenAI lets a breakpoint stand on, and the prompt's size up to there.
    fn breakpoint(&self, count: usize) -> Option<(usize, Tokens)> {
        let newest = (1..=count).rev().take(MOST_LOOKED_BACK).filter_map(|count| self.message(count));
        newest.into_iter().find(|(block, _)| {
            let block = self.wire.blocks.get(*block - self.tool_count - self.system.len());
            block.is_some_and(|block| block.len > 0 && takes_breakpoint(block))
        })
    }

    /// The last block in the first `count` messages that Anthropic lets a mark stand on, and the prompt's size up to there.
    fn markable(&self, count: usize) -> Option<(usize, Tokens)> {
        let newest = (1..=count).rev().take(MOST_LOOKED_BACK).filter_map(|count| self.message(count));
        newest.into_iter().find(|(block, _)| self.kind(*block) != Some(BlockKind::Opaque))
    }

    /// What a block of the prompt is.
    fn kind(&self, block: usize) -> Option<BlockKind> {
        match block.checked_sub(self.tool_count + self.system.len()) {
            Some(at) => self.wire.blocks.get(at).map(Block::kind),
            None if block < self.tool_count => Some(BlockKind::Tool),
            None => Some(BlockKind::System),
        }
    }

    /// Whether a lookup that begins at `from` and goes over so many positions comes to `to`.
    fn reaches(&self, from: usize, to: usize, lookback: usize) -> bool {
        if to > from {
            return false;
        }
        let mut positions = Positions::default();
        (to..=from).rev().all(|block| self.kind(block).is_some_and(|kind| positions.step(kind) <= lookback))
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
    let most = if let CacheRules::Marks { marks, .. } = model.cache { marks } else { 0 };
    let of_client = client_marks(input, model, &options.marks);
    if dialect == Dialect::Anthropic && !of_client.is_empty() {
        return joined(of_client, own(input, dialect, model, settled, options), most);
    }
    own(input, dialect, model, settled, options)
}

/// A client's own marks, where they can stand.
fn client_marks(input: &Input<'_>, model: &Model, marks: &[ClientMark]) -> Vec<Mark> {
    let place = |mark: &ClientMark| {
        let block = match mark.at {
            Marked::Tools => input.tool_count.checked_sub(1)?,
            Marked::System => input.system(input.system.l2.or(input.system.l1))?.0,
            Marked::Message(behind) => input.message((input.lead + input.messages).checked_sub(behind)?)?.0,
        };
        let ttl = if model.has(Capability::LongTtl) { mark.ttl } else { Ttl::Short };
        Some(Mark { block, ttl })
    };
    marks.iter().filter_map(place).collect()
}

/// A client's marks, and ours as far as there is room. Marks for long must stand before those for short, so where a client sets one of
/// those, there are no others.
fn joined(mut marks: Vec<Mark>, own: Vec<Mark>, most: usize) -> Vec<Mark> {
    if marks.iter().all(|mark| mark.ttl == Ttl::Short) {
        // The end of the prompt is what the next request begins with.
        for mark in own.into_iter().rev() {
            if marks.len() < most && !marks.iter().any(|known| known.block == mark.block) {
                marks.push(Mark { ttl: Ttl::Short, ..mark });
            }
        }
    }
    marks.sort_by_key(|mark| (mark.block, std::cmp::Reverse(mark.ttl)));
    marks.dedup_by_key(|mark| mark.block);
    marks.truncate(most);
    marks
}

/// A place that is worth a mark.
struct Wanted {
    place: Option<(usize, Tokens)>,
    ttl: Ttl,
}

/// Where we would set them.
fn own(input: &Input<'_>, dialect: Dialect, model: &Model, settled: usize, options: &BodyOptions) -> Vec<Mark> {
    let long = model.has(Capability::LongTtl);
    let of_messages = if long { options.message_ttl } else { Ttl::Short };
    // Marks for long must stand before those for short.
    let of_system = if long { options.ttl.max(of_messages) } else { Ttl::Short };
    let system = |place| Wanted { place, ttl: of_system };
    let message = |place| Wanted { place, ttl: of_messages };
    let (l1, l2) = (input.system(input.system.l1), input.system(input.system.l2));
    let kept = |(block, tokens): (usize, Tokens)| (tokens.0 >= model.cache.minimum()).then_some(block);
    let mut marks: Vec<Mark> = Vec::new();
    let mut add = |wanted: Wanted, most: usize| {
        let Some(block) = wanted.place.and_then(kept) else { return };
        if marks.len() < most && marks.iter().all(|mark| mark.block != block) {
            marks.push(Mark { block, ttl: wanted.ttl });
        }
    };
    match model.cache {
        CacheRules::Marks { marks: most, lookback, .. } if dialect == Dialect::Anthropic => {
            let all = input.lead + input.messages;
            let end = input.markable(if options.next == Next::Step { all } else { settled });
            let fold = options.fold_len.and_then(|len| input.markable(len));
            let common = options.previous_len.and_then(|len| input.markable(len));
            let found = |to: usize| {
                let ends = [end, fold].into_iter().flatten();
                ends.into_iter().any(|(from, _)| input.reaches(from, to, lookback))
            };
            // The most important come first: there may not be room for all.
            add(message(end), most);
            add(message(common.filter(|(block, _)| !found(*block))), most);
            add(message(fold), most);
            add(system(l2), most);
            add(system(l1), most);
            add(message(input.markable(settled)), most);
        }
        CacheRules::Breakpoints { latest_explicit, .. } => {
            add(system(l1), usize::MAX);
            // An entry is found again only at a mark: every end that L2 has had is marked, and only the newest are written.
            for place in input.library() {
                add(system(Some(place)), usize::MAX);
            }
            if dialect == Dialect::OpenAiResponses {
                let all = input.lead + input.messages;
                let ends = [options.fold_len, options.previous_len, (settled < all).then_some(settled)];
                for len in ends.into_iter().flatten() {
                    add(message(input.breakpoint(len)), usize::MAX);
                }
            }
            marks.sort_by_key(|mark| mark.block);
            // The first one is the end of L1; beyond it only the newest are looked up.
            let excess = marks.len().saturating_sub(latest_explicit);
            marks.drain(1.min(marks.len())..(1 + excess).min(marks.len()));
        }
        _ => {}
    }
    marks.sort_by_key(|mark| mark.block);
    marks
}

/// Whether OpenAI lets a breakpoint stand on a block: on what users and tools say, not on what the model says.
fn takes_breakpoint(block: &Block) -> bool {
    block.role() == Role::User && block.kind() == BlockKind::Text
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

//! Where cache marks go: at ends that the next request will still have, and only where the provider would keep the prefix.

use foreword_core::message::Role;
use foreword_core::tokens::Tokens;

use super::{BodyOptions, Next, takes_marks};
use crate::dialect::system::System;
use crate::dialect::wire::Wire;
use crate::dialect::{Dialect, anthropic};
use crate::model::{CacheRules, Capability, Model};
use crate::stream::{BlockKind, ClientMark, Mark, Marked, Ttl};

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

    /// The last text of the user's in the first `count` messages, and the prompt's size up to there.
    fn user_text(&self, count: usize) -> Option<(usize, Tokens)> {
        let newest = (1..=count).rev().take(MOST_LOOKED_BACK).filter_map(|count| self.message(count));
        newest.into_iter().find(|(block, _)| {
            let block = self.wire.blocks.get(*block - self.tool_count - self.system.len());
            block.is_some_and(|block| block.role() == Role::User && block.kind() == BlockKind::Text && block.len > 0)
        })
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

/// Where we would set them.
fn own(input: &Input<'_>, dialect: Dialect, model: &Model, settled: usize, options: &BodyOptions) -> Vec<Mark> {
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
    if matches!(model.cache, CacheRules::Breakpoints { .. }) {
        // An entry is found again only at a mark: every end that L2 has had is marked, and only the newest are written.
        places.extend(input.library().into_iter().map(|place| (Some(place), system_ttl)));
        if dialect == Dialect::OpenAiResponses && settled < input.lead + input.messages {
            places.push((input.user_text(settled), Ttl::Short));
        }
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
    match model.cache {
        CacheRules::Marks { marks: most, .. } => marks.truncate(most),
        CacheRules::Breakpoints { latest_explicit, .. } => {
            // The first one is the end of L1; beyond it only the newest are looked up.
            let excess = marks.len().saturating_sub(latest_explicit);
            marks.drain(1.min(marks.len())..(1 + excess).min(marks.len()));
        }
        _ => marks.clear(),
    }
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

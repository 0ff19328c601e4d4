//! Caches that remember exact prefixes: a prefix is there or it is not.

use std::collections::BTreeMap;

use foreword_core::tokens::Tokens;

use foreword_provider::model::Model;
use foreword_provider::stream::{Block, Digest, PromptStream};

/// More prefixes than any session of a simulation keeps alive; the ones that would go first make room.
const MAX_ENTRIES: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Entry {
    used_s: u64,
    lifetime_s: u64,
}

impl Entry {
    fn until(self) -> u64 {
        self.used_s.saturating_add(self.lifetime_s)
    }
}

/// Remembered prefixes, by their digest.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    live: BTreeMap<Digest, Entry>,
}

impl Entries {
    /// Drops what is too old to be read.
    pub(super) fn expire(&mut self, now_s: u64) {
        self.live.retain(|_, entry| now_s < entry.until());
    }

    pub(super) fn has(&self, prefix: Digest) -> bool {
        self.live.contains_key(&prefix)
    }

    /// A read: its lifetime starts again.
    pub(super) fn refresh(&mut self, now_s: u64, prefix: Digest) {
        if let Some(entry) = self.live.get_mut(&prefix) {
            entry.used_s = now_s;
        }
    }

    /// A write; a longer lifetime that it had before stays.
    pub(super) fn write(&mut self, now_s: u64, prefix: Digest, lifetime_s: u64) {
        let entry = self.live.entry(prefix).or_insert(Entry { used_s: now_s, lifetime_s });
        entry.used_s = now_s;
        entry.lifetime_s = entry.lifetime_s.max(lifetime_s);
        if self.live.len() > MAX_ENTRIES {
            let first = self.live.iter().min_by_key(|(_, entry)| entry.until()).map(|(digest, _)| *digest);
            if let Some(first) = first {
                self.live.remove(&first);
            }
        }
    }
}

/// The prompt up to and including one block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upto<'a> {
    pub(super) block: &'a Block,
    pub(super) tokens: Tokens,
    pub(super) digest: Digest,
}

/// Every prefix of a prompt that ends with a block. Each model has its own.
pub(super) fn prefixes<'a>(stream: &'a PromptStream, model: &Model) -> Vec<Upto<'a>> {
    let mut tokens = Tokens::ZERO;
    let mut digest = Digest::of(&model.name);
    stream
        .blocks()
        .map(|block| {
            tokens += block.tokens;
            digest = digest.then(block.digest());
            Upto { block, tokens, digest }
        })
        .collect()
}

//! What two prompts begin with in common: what a perfect cache could reuse.

use std::sync::Arc;

use foreword_core::message::Origin;
use foreword_core::tokens::Tokens;

use super::{Block, Chunk, Path, PromptStream};

/// Where in a stream something happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The block's path in the body.
    pub path: Path,
    /// Where the byte at this place came from.
    pub origin: Origin,
}

/// What two streams begin with in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Its length in bytes.
    pub bytes: usize,
    /// Its size in tokens; of a block that is equal in part, the equal part's share, rounded down.
    pub tokens: Tokens,
    /// Number of blocks that are equal as a whole.
    pub blocks: usize,
    /// What follows it in the earlier stream; none where that ends here.
    pub previous: Option<Place>,
    /// What follows it in the later stream; none where that ends here.
    pub current: Option<Place>,
}

struct Cursor<'a> {
    chunks: &'a [Arc<Chunk>],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn settle(&mut self) -> Option<&'a Block> {
        while let Some((chunk, rest)) = self.chunks.split_first() {
            if let Some(block) = chunk.blocks.get(self.at) {
                return Some(block);
            }
            self.chunks = rest;
            self.at = 0;
        }
        None
    }

    fn whole(&self) -> Option<&'a Arc<Chunk>> {
        if self.at == 0 { self.chunks.first() } else { None }
    }

    fn skip_chunk(&mut self) {
        self.chunks = self.chunks.get(1..).unwrap_or_default();
        self.at = 0;
    }

    /// What stands `byte` bytes into the current block, or at the start of the next one where the block ends there.
    fn place(&mut self, byte: usize) -> Option<Place> {
        let mut byte = byte;
        if let Some(block) = self.settle()
            && byte > 0
            && byte >= block.len
        {
            self.at += 1;
            byte = 0;
        }
        self.settle().map(|block| Place { path: block.path, origin: block.origin_at(byte) })
    }
}

/// What `previous` and `current` begin with in common, exact to the byte. Cache marks are not compared.
pub fn common_prefix(previous: &PromptStream, current: &PromptStream) -> Prefix {
    let mut a = Cursor { chunks: &previous.chunks, at: 0 };
    let mut b = Cursor { chunks: &current.chunks, at: 0 };
    let mut prefix = Prefix { bytes: 0, tokens: Tokens::ZERO, blocks: 0, previous: None, current: None };
    let mut inside = 0;
    while let (Some(x), Some(y)) = (a.settle(), b.settle()) {
        if let (Some(shared), Some(other)) = (a.whole(), b.whole())
            && Arc::ptr_eq(shared, other)
        {
            prefix.bytes += shared.bytes;
            prefix.tokens += shared.tokens;
            prefix.blocks += shared.blocks.len();
            a.skip_chunk();
            b.skip_chunk();
            continue;
        }
        if x.digest == y.digest && x.len == y.len {
            prefix.bytes += y.len;
            prefix.tokens += y.tokens;
            prefix.blocks += 1;
            a.at += 1;
            b.at += 1;
            continue;
        }
        if x.tag == y.tag && x.answers() == y.answers() {
            inside = x.common_bytes(y);
            prefix.bytes += inside;
            prefix.tokens += y.tokens_of(inside);
        }
        break;
    }
    prefix.previous = a.place(inside);
    prefix.current = b.place(inside);
    prefix
}

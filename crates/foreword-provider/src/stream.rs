//! A prompt in the order of a provider's cache: tools, system message, messages. This is not the order of the JSON keys.
//!
//! Comparing two streams shows what a cache can reuse, and where and why it cannot. The streams of one session share their common
//! part, so keeping one per request is cheap.

mod prefix;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use foreword_core::message::{Message, Origin, Role};
use foreword_core::tokens::Tokens;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use prefix::{Place, Prefix, common_prefix};

/// The number of blocks per shared chunk.
const CHUNK: usize = 128;

/// The position of a block in the body, for example `messages[3].content[0].text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    form: &'static str,
    at: [usize; 2],
}

impl Path {
    /// A path whose `#` are replaced by the indexes, in order.
    pub(crate) fn new(form: &'static str, first: usize, second: usize) -> Self {
        Self { form, at: [first, second] }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut places = self.at.iter();
        for (index, part) in self.form.split('#').enumerate() {
            if index > 0
                && let Some(place) = places.next()
            {
                write!(f, "{place}")?;
            }
            f.write_str(part)?;
        }
        Ok(())
    }
}

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// A tool definition.
    Tool,
    /// Text of the system message.
    System,
    /// Text of a message.
    Text,
    /// An image.
    Image,
    /// A tool call.
    Call,
    /// A tool result.
    Result,
    /// An opaque block.
    Opaque,
}

/// Counts the positions that a lookup at Anthropic's goes over, block by block, from the end: a run of calls is one, and so is a run of
/// results.
#[derive(Debug, Default)]
pub struct Positions {
    count: usize,
    run: Option<BlockKind>,
}

impl Positions {
    /// Goes over one more block, and says how many positions that makes.
    pub fn step(&mut self, kind: BlockKind) -> usize {
        let in_run = matches!(kind, BlockKind::Call | BlockKind::Result) && self.run == Some(kind);
        self.count += usize::from(!in_run);
        self.run = Some(kind);
        self.count
    }
}

/// How long a cache mark asks to be remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ttl {
    /// The provider's default lifetime; `5m` at Anthropic.
    #[default]
    Short,
    /// The long lifetime; `1h` at Anthropic.
    Long,
}

/// A cache mark: the prompt up to and including a block should be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The index of the block.
    pub block: usize,
    /// The lifetime.
    pub ttl: Ttl,
}

/// A cache mark set by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientMark {
    /// Its position.
    pub at: Marked,
    /// Its lifetime.
    pub ttl: Ttl,
}

/// The position of a client's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Marked {
    /// After the tools.
    Tools,
    /// After the system prompt.
    System,
    /// After the message that this many others follow.
    Message(usize),
}

/// A hash that identifies a block's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest(u128);

impl Digest {
    /// The hash of `self` followed by `next`.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        // Inputs are cryptographic digests already; an odd multiplier per step is enough to make order count.
        const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        Self((self.0.rotate_left(41) ^ next.0).wrapping_mul(ODD))
    }

    /// The hash of a name.
    pub fn of(text: &str) -> Self {
        finish(Sha256::new_with_prefix(text))
    }
}

/// The location of a block's bytes.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Pieces of a message.
    Pieces(Arc<Message>, Range<usize>),
    /// An image of a message.
    Image(Arc<Message>, usize),
    /// The block itself.
    Own(Arc<str>, Origin),
}

/// Properties that distinguish blocks with equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) kind: BlockKind,
    pub(crate) role: Role,
    /// Whether it is the first of its message.
    pub(crate) opens: bool,
}

impl Tag {
    /// A hasher that includes the tag.
    pub(crate) fn hasher(self, answers: Option<&str>) -> Sha256 {
        let mut hasher = Sha256::new_with_prefix([self.kind as u8, self.role as u8, u8::from(self.opens)]);
        hasher.update(answers.unwrap_or_default());
        hasher.update([0]);
        hasher
    }
}

pub(crate) fn finish(hasher: Sha256) -> Digest {
    let mut half = [0; 16];
    half.copy_from_slice(&hasher.finalize()[..16]);
    Digest(u128::from_be_bytes(half))
}

/// A part of the prompt that a provider treats as one unit: text, image, call, result or tool.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its position in the body.
    pub path: Path,
    /// Its size in tokens.
    pub tokens: Tokens,
    /// Its length in bytes, before JSON escaping.
    pub len: usize,
    /// Whether it is the last block of a message.
    pub ends: bool,
    pub(crate) tag: Tag,
    pub(crate) digest: Digest,
    pub(crate) source: Source,
}

impl Block {
    pub(crate) fn new(tag: Tag, path: Path, source: Source, tokens: Tokens, ends: bool) -> Self {
        let mut block = Self { path, tokens, len: 0, ends, tag, digest: Digest(0), source };
        let mut hasher = tag.hasher(block.answers());
        let mut len = 0;
        for (text, _) in block.pieces() {
            hasher.update(text);
            len += text.len();
        }
        block.len = len;
        block.digest = finish(hasher);
        block
    }

    /// A block of a request that was read back from its JSON, so its pieces and their origins are not known.
    pub fn of_request(kind: BlockKind, role: Role, opens: bool, ends: bool, text: &str, tokens: Tokens) -> Self {
        let source = Source::Own(Arc::from(text), Origin::Engine("request"));
        Self::new(Tag { kind, role, opens }, Path::new("request", 0, 0), source, tokens, ends)
    }

    /// The hash that identifies its content.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Whether it is the first of its message.
    pub fn opens(&self) -> bool {
        self.tag.opens
    }

    /// The kind of block.
    pub fn kind(&self) -> BlockKind {
        self.tag.kind
    }

    /// The role of its message.
    pub fn role(&self) -> Role {
        self.tag.role
    }

    fn answers(&self) -> Option<&str> {
        match (&self.source, self.tag.kind) {
            (Source::Pieces(message, _), BlockKind::Result) => message.answers.as_deref(),
            _ => None,
        }
    }

    fn piece(&self, index: usize) -> Option<(&str, &Origin)> {
        match &self.source {
            Source::Pieces(message, range) => {
                message.pieces.get(range.clone())?.get(index).map(|piece| (&*piece.text, &piece.origin))
            }
            Source::Image(message, image) if index == 0 => {
                message.images.get(*image).map(|image| (&*image.data, &Origin::Engine("image")))
            }
            Source::Own(text, origin) if index == 0 => Some((text, origin)),
            _ => None,
        }
    }

    /// Its bytes in pieces, with their origins.
    pub fn pieces(&self) -> impl Iterator<Item = (&str, &Origin)> {
        (0..).map_while(|index| self.piece(index))
    }

    /// The origin of each part, by its first byte.
    pub fn origins(&self) -> Vec<(usize, Origin)> {
        let mut at = 0;
        self.pieces()
            .map(|(text, origin)| {
                let start = at;
                at += text.len();
                (start, self.named(origin))
            })
            .collect()
    }

    /// The origin; for images with their ID.
    fn named(&self, origin: &Origin) -> Origin {
        match &self.source {
            Source::Image(message, index) => {
                message.images.get(*index).map_or_else(|| origin.clone(), |image| Origin::Item(image.id.clone()))
            }
            _ => origin.clone(),
        }
    }

    fn origin_at(&self, byte: usize) -> Origin {
        let mut end = 0;
        let mut last = None;
        for (text, origin) in self.pieces() {
            end += text.len();
            last = Some(origin);
            if byte < end {
                break;
            }
        }
        last.map_or(Origin::Engine("empty"), |origin| self.named(origin))
    }

    /// The tokens of its first `bytes` bytes: a partial piece counts proportionally.
    fn tokens_of(&self, bytes: usize) -> Tokens {
        let share = |tokens: Tokens, part: usize, whole: usize| {
            let exact = u128::from(tokens.0) * part as u128 / (whole.max(1)) as u128;
            Tokens(u64::try_from(exact).unwrap_or(tokens.0))
        };
        let Source::Pieces(message, range) = &self.source else {
            return share(self.tokens, bytes, self.len);
        };
        let mut left = bytes;
        let mut sum = Tokens::ZERO;
        for piece in message.pieces.get(range.clone()).unwrap_or_default() {
            let part = left.min(piece.text.len());
            sum += share(piece.tokens, part, piece.text.len());
            left -= part;
            if left == 0 {
                break;
            }
        }
        sum
    }

    /// The length of the common prefix with another block, in bytes.
    fn common_bytes(&self, other: &Self) -> usize {
        let (mut left, mut right) = (self.pieces(), other.pieces());
        let (mut a, mut b) = ("".as_bytes(), "".as_bytes());
        let mut same = 0;
        loop {
            while a.is_empty() {
                let Some((text, _)) = left.next() else {
                    return same;
                };
                a = text.as_bytes();
            }
            while b.is_empty() {
                let Some((text, _)) = right.next() else {
                    return same;
                };
                b = text.as_bytes();
            }
            let len = a.len().min(b.len());
            if !std::ptr::eq(a.as_ptr(), b.as_ptr()) && a[..len] != b[..len] {
                return same + common(&a[..len], &b[..len]);
            }
            same += len;
            (a, b) = (&a[len..], &b[len..]);
        }
    }
}

fn common(a: &[u8], b: &[u8]) -> usize {
    // Long stretches first: a changed note can be megabytes.
    let words = a.chunks_exact(64).zip(b.chunks_exact(64)).take_while(|(x, y)| x == y).count() * 64;
    words + a[words..].iter().zip(&b[words..]).take_while(|(x, y)| x == y).count()
}

/// Blocks shared by several streams.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    blocks: Vec<Block>,
    bytes: usize,
    tokens: Tokens,
}

impl From<Vec<Block>> for Chunk {
    fn from(blocks: Vec<Block>) -> Self {
        Self { bytes: blocks.iter().map(|block| block.len).sum(), tokens: blocks.iter().map(|block| block.tokens).sum(), blocks }
    }
}

impl Chunk {
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }
}

/// A list of blocks under construction. Full chunks are shared with the streams made from it.
#[derive(Debug, Default)]
pub(crate) struct BlockList {
    full: Vec<Arc<Chunk>>,
    open: Vec<Block>,
}

impl BlockList {
    pub(crate) fn push(&mut self, block: Block) {
        self.open.push(block);
        if self.open.len() == CHUNK {
            self.full.push(Arc::new(std::mem::take(&mut self.open).into()));
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Block> {
        match self.full.get(at / CHUNK) {
            Some(chunk) => chunk.blocks.get(at % CHUNK),
            None => self.open.get(at - self.full.len() * CHUNK),
        }
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        let full = len / CHUNK;
        if let Some(cut) = self.full.get(full) {
            self.open = cut.blocks[..len % CHUNK].to_vec();
            self.full.truncate(full);
        } else {
            self.open.truncate(len - full * CHUNK);
        }
    }
}

/// A request as the cache sees it.
#[derive(Clone, Debug, Default)]
pub struct PromptStream {
    chunks: Vec<Arc<Chunk>>,
    marks: Vec<Mark>,
    explicit: usize,
}

impl PromptStream {
    pub(crate) fn new(tools: Arc<Chunk>, system: Arc<Chunk>, messages: &BlockList) -> Self {
        let mut chunks = Vec::with_capacity(messages.full.len() + 3);
        chunks.push(tools);
        chunks.push(system);
        chunks.extend(messages.full.iter().cloned());
        chunks.push(Arc::new(messages.open.clone().into()));
        Self { chunks, marks: Vec::new(), explicit: 0 }
    }

    /// A prompt of these blocks.
    pub fn of(blocks: Vec<Block>) -> Self {
        Self { chunks: vec![Arc::new(blocks.into())], marks: Vec::new(), explicit: 0 }
    }

    /// The same prompt with other cache marks.
    #[must_use]
    pub fn with_marks(mut self, marks: Vec<Mark>) -> Self {
        self.marks = marks;
        self
    }

    /// Marks the first `blocks` blocks as part of an explicit cache.
    #[must_use]
    pub fn with_explicit(mut self, blocks: usize) -> Self {
        self.explicit = blocks;
        self
    }

    /// All blocks, in order.
    pub fn blocks(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.chunks.iter().flat_map(|chunk| chunk.blocks.iter())
    }

    /// The cache marks, in order.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// The number of blocks in an explicit cache.
    pub fn explicit(&self) -> usize {
        self.explicit
    }

    /// The size in tokens.
    pub fn tokens(&self) -> Tokens {
        self.chunks.iter().map(|chunk| chunk.tokens).sum()
    }

    /// The length in bytes.
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes).sum()
    }
}

//! The system message. It is the longest part of a prompt and it grows at its end, so its bytes are kept piece by piece.

use std::sync::Arc;

use foreword_core::json;
use foreword_core::layer::LayerId;
use foreword_core::message::{Message, Origin, Piece, Role};
use foreword_core::tokens::Tokens;
use sha2::{Digest as _, Sha256};

use crate::stream::{Block, BlockKind, Chunk, Digest, Path, Source, Tag, finish};

/// How the text is divided into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Not at all.
    Whole,
    /// L1, and every segment of L2: no block ever grows.
    Segments,
}

/// A dialect's words around the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) before: &'static str,
    pub(crate) open: &'static str,
    pub(crate) close: &'static str,
    pub(crate) after: &'static str,
    pub(crate) split: Split,
    pub(crate) path: &'static str,
}

#[derive(Clone, Debug)]
struct Step {
    text: Arc<str>,
    starts: bool,
    end: usize,
}

#[derive(Clone, Debug)]
struct Part {
    /// First piece.
    from: usize,
    /// After its brace.
    at: usize,
    len: usize,
    digest: Digest,
}

/// The encoded system message.
#[derive(Debug, Default)]
pub(crate) struct System {
    frame: Option<Frame>,
    message: Option<Arc<Message>>,
    steps: Vec<Step>,
    parts: Vec<Part>,
    running: Option<Sha256>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) blocks: Arc<Chunk>,
    /// Block and size of the prompt up to the end of L1.
    pub(crate) l1: Option<(usize, Tokens)>,
    /// The same for L2, where there is one.
    pub(crate) l2: Option<(usize, Tokens)>,
    /// Changes whenever the bytes do.
    pub(crate) generation: u64,
}

impl System {
    /// Where a mark on a block is put in.
    pub(crate) fn start(&self, block: usize) -> Option<usize> {
        self.parts.get(block).map(|part| part.at)
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Encodes `message`, reusing what it shares with the last one.
    pub(crate) fn set(&mut self, frame: Frame, message: Option<&Arc<Message>>) {
        let same = match (&self.message, message) {
            (Some(ours), Some(new)) => Arc::ptr_eq(ours, new),
            (None, None) => true,
            _ => false,
        };
        if same && self.frame == Some(frame) {
            return;
        }
        self.generation += 1;
        if self.frame != Some(frame) {
            self.truncate(0, frame);
        }
        self.frame = Some(frame);
        self.message = message.map(Arc::clone);
        let Some(message) = message else {
            self.empty(frame);
            return;
        };
        let (starts, border) = plan(&message.pieces, frame.split);
        if starts.is_empty() {
            self.empty(frame);
            return;
        }
        self.encode(frame, message, &starts);
        self.collect(frame, message, border);
    }

    fn empty(&mut self, frame: Frame) {
        self.truncate(0, frame);
        self.bytes.clear();
        self.blocks = Arc::default();
        (self.l1, self.l2) = (None, None);
    }

    fn truncate(&mut self, keep: usize, frame: Frame) {
        if keep < self.steps.len() {
            self.running = None;
        }
        self.steps.truncate(keep);
        if let Some(last) = self.steps.last() {
            self.bytes.truncate(last.end);
        } else {
            self.bytes.clear();
            self.bytes.extend_from_slice(frame.before.as_bytes());
        }
        self.parts.retain(|part| part.from < keep);
    }

    fn encode(&mut self, frame: Frame, message: &Arc<Message>, starts: &[usize]) {
        let pieces = &message.pieces;
        let begins = |index: usize| starts.binary_search(&index).is_ok();
        let keep = self
            .steps
            .iter()
            .zip(pieces)
            .enumerate()
            .take_while(|(index, (step, piece))| {
                (Arc::ptr_eq(&step.text, &piece.text) || step.text == piece.text) && step.starts == begins(*index)
            })
            .count();
        // The old end carries what closes the message; cut back to the last kept piece first.
        self.truncate(keep, frame);
        if keep > 0 && self.running.is_none() {
            self.rehash(pieces, keep);
        }
        for (index, piece) in pieces.iter().enumerate().skip(keep) {
            let starts = begins(index);
            if starts {
                self.begin(frame, index);
            }
            json::write_escaped(&mut self.bytes, &piece.text);
            if let Some(running) = &mut self.running {
                running.update(&*piece.text);
            }
            if let Some(part) = self.parts.last_mut() {
                part.len += piece.text.len();
            }
            self.steps.push(Step { text: Arc::clone(&piece.text), starts, end: self.bytes.len() });
        }
        self.seal();
        self.bytes.extend_from_slice(frame.close.as_bytes());
        self.bytes.extend_from_slice(frame.after.as_bytes());
    }

    fn begin(&mut self, frame: Frame, from: usize) {
        self.seal();
        if !self.parts.is_empty() {
            self.bytes.extend_from_slice(frame.close.as_bytes());
            self.bytes.push(b',');
        }
        let at = self.bytes.len() + 1;
        self.bytes.extend_from_slice(frame.open.as_bytes());
        let running = tag(self.parts.len()).hasher(None);
        self.parts.push(Part { from, at, len: 0, digest: finish(running.clone()) });
        self.running = Some(running);
    }

    fn seal(&mut self) {
        if let (Some(part), Some(running)) = (self.parts.last_mut(), &self.running) {
            part.digest = finish(running.clone());
        }
    }

    /// Brings the running hash to the end of the kept pieces after some were dropped.
    fn rehash(&mut self, pieces: &[Piece], keep: usize) {
        let index = self.parts.len().saturating_sub(1);
        if let Some(part) = self.parts.last_mut() {
            let mut running = tag(index).hasher(None);
            part.len = 0;
            for piece in &pieces[part.from..keep] {
                running.update(&*piece.text);
                part.len += piece.text.len();
            }
            self.running = Some(running);
        }
    }

    fn collect(&mut self, frame: Frame, message: &Arc<Message>, border: usize) {
        let ends = self.parts.iter().skip(1).map(|part| part.from).chain([message.pieces.len()]);
        let last = self.parts.len() - 1;
        let mut sum = Tokens::ZERO;
        (self.l1, self.l2) = (None, None);
        let mut blocks = Vec::with_capacity(self.parts.len());
        for (index, (part, end)) in self.parts.iter().zip(ends).enumerate() {
            let pieces = &message.pieces[part.from..end];
            let mut tokens: Tokens = pieces.iter().map(|piece| piece.tokens).sum();
            if index == last {
                tokens += message.extra_tokens;
            }
            sum += tokens;
            if end <= border {
                self.l1 = Some((index, sum));
            } else {
                self.l2 = Some((index, sum));
            }
            blocks.push(Block {
                path: Path::new(frame.path, index, 0),
                tokens,
                len: part.len,
                ends: index == last,
                tag: tag(index),
                digest: part.digest,
                source: Source::Pieces(Arc::clone(message), part.from..end),
            });
        }
        self.blocks = Arc::new(blocks.into());
    }
}

fn tag(index: usize) -> Tag {
    Tag { kind: BlockKind::System, role: Role::System, opens: index == 0 }
}

/// The pieces that begin a block, and the piece at which L1 ends. No block is blank; none at all where the text is.
fn plan(pieces: &[Piece], split: Split) -> (Vec<usize>, usize) {
    let border = border(pieces);
    let mut starts = vec![0];
    if split != Split::Whole && border > 0 && border < pieces.len() {
        starts.push(border);
    }
    if split == Split::Segments {
        segments(pieces, border, &mut starts);
    }
    let blank = |from: usize, to: usize| pieces[from..to].iter().all(|piece| piece.text.trim_start().is_empty());
    let mut kept: Vec<usize> = Vec::with_capacity(starts.len());
    let mut pending = None;
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(pieces.len());
        let from = pending.take().unwrap_or(start);
        if !blank(start, end) {
            kept.push(from);
        } else if kept.is_empty() {
            // Blank text in front joins what follows it; blank text further back joins what stands before it.
            pending = Some(from);
        }
    }
    (kept, border)
}

/// Where L2 begins. What only joins the two layers counts to L2: L1 must not change when L2 begins to exist.
fn border(pieces: &[Piece]) -> usize {
    let first = pieces.iter().position(|piece| piece.layer != LayerId::L1).unwrap_or(pieces.len());
    if first == pieces.len() {
        return first;
    }
    let joins =
        pieces[..first].iter().rev().take_while(|piece| matches!(piece.origin, Origin::Engine("join" | "heading"))).count();
    first - joins
}

/// A segment begins with the words that join it to the one before it.
fn segments(pieces: &[Piece], border: usize, starts: &mut Vec<usize>) {
    let words = |piece: &Piece| matches!(piece.origin, Origin::Engine(_));
    let last = pieces.iter().rposition(|piece| !words(piece)).unwrap_or(border);
    let mut full = false;
    for index in border..=last.min(pieces.len().saturating_sub(1)) {
        let piece = &pieces[index];
        let begins = if words(piece) { full } else { full && pieces[index - 1].origin != piece.origin };
        if begins {
            starts.push(index);
        }
        full = !words(piece);
    }
}

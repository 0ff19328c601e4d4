//! The messages of a body, written once and kept: a next request costs what is new, not what was sent before.
//!
//! The bytes carry no cache marks. A mark is a field that sorts first in its object, so it can be put in while copying.

use std::sync::Arc;

use foreword_core::message::{Message, Role};
use foreword_core::tokens::Tokens;

use super::parts::Part;
use crate::stream::{Block, BlockKind, BlockList, Path, Source, Tag};

/// Who speaks in the message that is still open on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Open {
    /// None is open.
    #[default]
    Closed,
    /// The user.
    User,
    /// Tools, where a provider keeps their results apart from the user's words.
    Results,
    /// The model.
    Assistant,
    /// The system, between other messages.
    System,
}

/// Everything that the next message's bytes depend on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// Bytes written.
    pub(crate) bytes: usize,
    /// Blocks written.
    pub(crate) blocks: usize,
    /// Their tokens.
    pub(crate) tokens: Tokens,
    /// Messages opened on the wire.
    pub(crate) index: usize,
    /// Parts written into the open one.
    pub(crate) part: usize,
    /// The open one.
    pub(crate) open: Open,
    /// The last message with calls.
    pub(crate) calls: Option<usize>,
}

/// The messages part of a body.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    pub(crate) bytes: Vec<u8>,
    pub(crate) blocks: BlockList,
    /// Where each block's object begins, after its brace.
    pub(crate) starts: Vec<usize>,
    pub(crate) now: State,
    /// Index on the wire of the first message.
    pub(crate) base: usize,
    messages: Vec<Arc<Message>>,
    after: Vec<State>,
}

impl Wire {
    /// How many of its messages `others` begins with.
    pub(crate) fn shared(&self, others: &[Arc<Message>]) -> usize {
        self.messages.iter().zip(others).take_while(|(ours, other)| Arc::ptr_eq(ours, other)).count()
    }

    /// The state after the first `count` messages.
    pub(crate) fn after(&self, count: usize) -> State {
        match count.checked_sub(1) {
            Some(last) => self.after.get(last).copied().unwrap_or(self.now),
            None => State::default(),
        }
    }

    /// Forgets all but the first `count` messages.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.now = self.after(count);
        self.messages.truncate(count);
        self.after.truncate(count);
        self.bytes.truncate(self.now.bytes);
        self.starts.truncate(self.now.blocks);
        self.blocks.truncate(self.now.blocks);
    }

    /// Takes note that a message is written.
    pub(crate) fn done(&mut self, message: &Arc<Message>) {
        if !message.calls.is_empty() {
            self.now.calls = Some(self.messages.len());
        }
        self.now.bytes = self.bytes.len();
        self.messages.push(Arc::clone(message));
        self.after.push(self.now);
    }

    /// The last message with calls.
    pub(crate) fn caller(&self) -> Option<&Arc<Message>> {
        self.messages.get(self.now.calls?)
    }

    /// Place in the body of the message that was opened last.
    pub(crate) fn place(&self) -> usize {
        self.base + self.now.index - 1
    }

    pub(crate) fn raw(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Begins the next message: a comma where one is due.
    pub(crate) fn next_message(&mut self, open: Open) {
        if self.now.index > 0 {
            self.bytes.push(b',');
        }
        self.now.index += 1;
        self.now.part = 0;
        self.now.open = open;
    }

    /// Begins the next part of the open message and says where it begins.
    pub(crate) fn next_part(&mut self) -> usize {
        if self.now.part > 0 {
            self.bytes.push(b',');
        }
        self.now.part += 1;
        self.bytes.len()
    }

    /// Takes down one block; `start` is where its bytes begin.
    pub(crate) fn block(&mut self, block: Block, start: usize) {
        self.now.blocks += 1;
        self.now.tokens += block.tokens;
        self.starts.push(start + 1);
        self.blocks.push(block);
    }

    /// Takes down a part of `message` whose bytes begin at `start` and end here.
    pub(crate) fn part(&mut self, message: &Arc<Message>, part: &Part<'_>, at: Position, start: usize) {
        let source = part.source(message, &self.bytes[start..]);
        let tag = Tag { kind: part.kind(), role: at.role, opens: at.opens };
        let block = Block::new(tag, at.path, source, part.tokens, at.ends);
        self.block(block, start);
    }

    /// Takes down words of the engine's own.
    pub(crate) fn engine(&mut self, word: &'static str, text: &'static str, at: Position, start: usize) {
        let tag = Tag { kind: BlockKind::Text, role: at.role, opens: at.opens };
        let source = Source::Own(Arc::from(text), foreword_core::message::Origin::Engine(word));
        // A dialect's fillers are a few characters; they count nothing, so that sizes on the record are those the budget planned.
        self.block(Block::new(tag, at.path, source, Tokens::ZERO, at.ends), start);
    }
}

/// Where a part stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub(crate) role: Role,
    pub(crate) path: Path,
    pub(crate) opens: bool,
    pub(crate) ends: bool,
}

//! What a message is made of once it is sent: text, images, calls, a result, what the provider alone can read; or nothing at all.

use std::sync::Arc;

use foreword_core::json;
use foreword_core::message::{Image, Message, Opaque, Origin, Role, Slot, ToolCall};
use foreword_core::tokens::Tokens;
use serde_json::Value;

use crate::stream::{BlockKind, Source};

/// Stands in front of a conversation that the model opens, where a provider wants the user to speak first.
pub(crate) const FIRST_WORD: &str = "(The conversation begins with the assistant.)";
/// Stands for a user message without words, where a provider refuses it.
pub(crate) const NO_WORDS: &str = "(no text)";

/// What a provider takes for no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blank {
    /// Empty text is sent as it is.
    Sent,
    /// Empty text is refused.
    Empty,
    /// So is text of spaces alone.
    Spaces,
}

impl Blank {
    fn refuses(self, message: &Message) -> bool {
        let mut pieces = message.pieces.iter().map(|piece| &*piece.text);
        match self {
            Self::Sent | Self::Empty => pieces.all(str::is_empty),
            Self::Spaces => pieces.all(|text| text.trim_start().is_empty()),
        }
    }
}

/// One part of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What<'a> {
    /// All of its text.
    Text,
    /// Words of the engine in place of it.
    Filler(&'static str),
    /// An image and its place among them.
    Image(&'a Image, usize),
    /// A call, and its fields that only the provider can read.
    Call(&'a ToolCall, Option<&'a Value>),
    /// A block that only the provider can read.
    Opaque(&'a Value),
    /// Fields of the message that only the provider can read.
    Fields(&'a Value),
    /// The answer to a call: all of its text.
    Result,
}

/// One part of a message, and its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) what: What<'a>,
    pub(crate) tokens: Tokens,
}

impl Part<'_> {
    pub(crate) fn kind(&self) -> BlockKind {
        match self.what {
            What::Text | What::Filler(_) => BlockKind::Text,
            What::Image(..) => BlockKind::Image,
            What::Call(..) => BlockKind::Call,
            What::Opaque(_) | What::Fields(_) => BlockKind::Opaque,
            What::Result => BlockKind::Result,
        }
    }

    /// Where its bytes are; those of a call or an opaque block are `json`, the bytes that were written for it.
    pub(crate) fn source(&self, message: &Arc<Message>, json: &[u8]) -> Source {
        match self.what {
            What::Text | What::Result => Source::Pieces(Arc::clone(message), 0..message.pieces.len()),
            What::Filler(text) => Source::Own(Arc::from(text), Origin::Engine("placeholder")),
            What::Image(_, index) => Source::Image(Arc::clone(message), index),
            What::Call(..) | What::Opaque(_) | What::Fields(_) => {
                Source::Own(Arc::from(String::from_utf8_lossy(json)), Origin::Model)
            }
        }
    }

    /// Appends its text, escaped; nothing where it has none.
    pub(crate) fn escape(&self, out: &mut Vec<u8>, message: &Message) {
        match self.what {
            What::Text | What::Result => {
                for piece in &message.pieces {
                    json::write_escaped(out, &piece.text);
                }
            }
            What::Filler(text) => json::write_escaped(out, text),
            What::Image(..) | What::Call(..) | What::Opaque(_) | What::Fields(_) => {}
        }
    }
}

/// Whether a message leaves anything to send.
pub(crate) fn is_sent(message: &Message, blank: Blank) -> bool {
    match message.role {
        Role::Tool | Role::User => true,
        Role::System => !blank.refuses(message),
        Role::Assistant => !message.calls.is_empty() || !blank.refuses(message),
    }
}

/// The parts of a message that [`is_sent`]: text first, then images or calls; opaque blocks where they belong, if `author` made them.
pub(crate) fn parts<'a>(message: &'a Message, blank: Blank, author: &str) -> Vec<Part<'a>> {
    let text: Tokens = message.pieces.iter().map(|piece| piece.tokens).sum();
    let part = |what| Part { what, tokens: Tokens::ZERO };
    let opaque: &[Opaque] = if message.opaque.iter().all(|opaque| opaque.from == author) { &message.opaque } else { &[] };
    let at = |slot: Slot| opaque.iter().filter(move |opaque| opaque.at == slot).map(|opaque| &opaque.json);
    let mut list = Vec::with_capacity(1 + message.images.len() + message.calls.len() + opaque.len());
    list.extend(at(Slot::OfMessage).map(|json| part(What::Fields(json))));
    list.extend(at(Slot::BeforeText).map(|json| part(What::Opaque(json))));
    let words = list.len();
    if message.role == Role::Tool {
        list.push(part(What::Result));
    } else if !blank.refuses(message) {
        list.push(part(What::Text));
    } else if message.role == Role::User && message.images.is_empty() {
        list.push(part(match blank {
            Blank::Sent => What::Text,
            Blank::Empty | Blank::Spaces => What::Filler(NO_WORDS),
        }));
    }
    let images = message.images.iter().enumerate();
    list.extend(images.map(|(index, image)| part(What::Image(image, index))));
    for (index, call) in message.calls.iter().enumerate() {
        list.extend(at(Slot::BeforeCall(index)).map(|json| part(What::Opaque(json))));
        list.push(part(What::Call(call, at(Slot::OfCall(index)).next())));
    }
    list.extend(at(Slot::End).map(|json| part(What::Opaque(json))));
    let sizes: Vec<usize> = list.iter().filter_map(|part| size(part.what)).collect();
    let wordless = list.iter_mut().filter(|part| size(part.what).is_some());
    for (part, tokens) in wordless.zip(shares(message.extra_tokens, &sizes)) {
        part.tokens = tokens;
    }
    let end = list.len().saturating_sub(1);
    if let Some(said) = list.get_mut(words.min(end)) {
        said.tokens += text;
    }
    if sizes.is_empty()
        && let Some(last) = list.last_mut()
    {
        last.tokens += message.extra_tokens;
    }
    list
}

/// The length of a part that is no text.
fn size(what: What<'_>) -> Option<usize> {
    match what {
        What::Image(image, _) => Some(image.data.len()),
        What::Call(call, fields) => {
            let fields = fields.map_or(0, |fields| json::to_string(fields).len());
            Some(call.name.len() + json::to_string(&call.arguments).len() + fields)
        }
        What::Opaque(json) | What::Fields(json) => Some(json::to_string(json).len()),
        What::Text | What::Filler(_) | What::Result => None,
    }
}

/// `total` shared out by length, without losing a token.
pub(crate) fn shares(total: Tokens, lens: &[usize]) -> Vec<Tokens> {
    let whole: u128 = lens.iter().map(|len| *len as u128 + 1).sum();
    let mut before = 0;
    let mut given = 0;
    lens.iter()
        .map(|len| {
            before += *len as u128 + 1;
            let upto = u128::from(total.0) * before / whole;
            let share = upto - given;
            given = upto;
            Tokens(u64::try_from(share).unwrap_or(total.0))
        })
        .collect()
}

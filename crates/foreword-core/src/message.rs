//! Messages in no provider's dialect. Every byte of one belongs to a [`Piece`] that says where it came from.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::item::ItemId;
use crate::layer::LayerId;
use crate::tokens::Tokens;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The agent's maker.
    System,
    /// The user, and the engine where it speaks to the model.
    User,
    /// The model.
    Assistant,
    /// A tool, answering one call.
    Tool,
}

impl Role {
    /// The word on the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// Where a piece of text came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// An item's rendered text, or a line that refers to it.
    Item(ItemId),
    /// Written by the engine; the word says what it is: `heading`, `join`, `directive`, `notice`, `summary`, `placeholder` …
    Engine(&'static str),
    /// Typed by the user.
    User,
    /// Answered by the model.
    Model,
}

/// A stretch of a message's text with one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The layer it counts to.
    pub layer: LayerId,
    /// Where it came from.
    pub origin: Origin,
    /// Its bytes.
    pub text: Arc<str>,
    /// Its size.
    pub tokens: Tokens,
}

/// A call of a tool by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Unique in the conversation.
    pub id: String,
    /// The name the model used.
    pub name: String,
    /// A JSON value, an object unless the model erred.
    pub arguments: Value,
}

/// An image that goes with a user message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// `image:` and its path.
    pub id: ItemId,
    /// For example `image/png`.
    pub media_type: String,
    /// Base64.
    pub data: Arc<str>,
}

/// One message. It never changes once made; requests share it.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// Its text, in order.
    pub pieces: Vec<Piece>,
    /// Images, of a user message.
    pub images: Vec<Image>,
    /// Calls, of an assistant message.
    pub calls: Vec<ToolCall>,
    /// The call it answers, of a tool message.
    pub answers: Option<String>,
    /// Size of what is not in `pieces`: calls and images.
    pub extra_tokens: Tokens,
}

impl Message {
    /// A message of text alone.
    pub fn text(role: Role, pieces: Vec<Piece>) -> Self {
        Self { role, pieces, images: Vec::new(), calls: Vec::new(), answers: None, extra_tokens: Tokens::ZERO }
    }

    /// Its text in one string.
    pub fn content(&self) -> Cow<'_, str> {
        match self.pieces.as_slice() {
            [] => Cow::Borrowed(""),
            [one] => Cow::Borrowed(&one.text),
            many => Cow::Owned(many.iter().map(|piece| &*piece.text).collect()),
        }
    }

    /// Whether it goes out as the same bytes as another, whatever the layers were.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let words = |message: &Self| (message.role, message.answers.clone(), message.content().into_owned());
        std::ptr::eq(self, other) || (words(self) == words(other) && self.calls == other.calls && self.images == other.images)
    }

    /// Its whole size.
    pub fn tokens(&self) -> Tokens {
        self.pieces.iter().map(|piece| piece.tokens).sum::<Tokens>() + self.extra_tokens
    }

    /// Length of its text in bytes.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.text.len()).sum()
    }

    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.images.is_empty() && self.calls.is_empty()
    }
}

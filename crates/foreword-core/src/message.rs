//! Messages in no provider's dialect. Every byte of one belongs to a [`Piece`] that says where it came from.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::item::ItemId;
use crate::layer::LayerId;
use crate::tokens::Tokens;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

/// The words of [`Origin::Engine`].
const ENGINE_WORDS: [&str; 11] = [
    "action_prompt",
    "directive",
    "empty",
    "heading",
    "image",
    "notice",
    "placeholder",
    "search",
    "summary",
    "system_prompt",
    "other", // a word of another version
];

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Item(id) => write!(f, "item:{id}"),
            Self::Engine(word) => write!(f, "engine:{word}"),
            Self::User => f.write_str("user"),
            Self::Model => f.write_str("model"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.split_once(':') {
            Some(("item", id)) => id.parse().map(Self::Item).map_err(de::Error::custom),
            Some(("engine", word)) => {
                let known = ENGINE_WORDS.iter().find(|known| **known == word);
                Ok(Self::Engine(known.copied().unwrap_or("other")))
            }
            None if text == "user" => Ok(Self::User),
            None if text == "model" => Ok(Self::Model),
            _ => Err(de::Error::custom(format!("{text:?} is not where a text can come from"))),
        }
    }
}

/// A stretch of a message's text with one origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique in the conversation.
    pub id: String,
    /// The name the model used.
    pub name: String,
    /// A JSON value, an object unless the model erred.
    #[serde(with = "crate::json::value")]
    pub arguments: Value,
}

/// An image that goes with a user message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// `image:` and its path.
    pub id: ItemId,
    /// For example `image/png`.
    pub media_type: String,
    /// Base64.
    pub data: Arc<str>,
    /// Width and height, where they are known: providers charge by them.
    #[serde(default)]
    pub pixels: Option<(u32, u32)>,
}

/// What only the model's provider can read of a reply, and wants back as it was: a signed thought, a reasoning item, a signature. All of a
/// message's are sent back, or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opaque {
    /// Who made it: the dialect and the model. Nobody else is sent it.
    pub from: String,
    /// Where it belongs.
    pub at: Slot,
    /// The provider's own JSON.
    #[serde(with = "crate::json::value")]
    pub json: Value,
}

/// Where in its message an opaque block belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// A block of its own, in front of everything.
    BeforeText,
    /// A block of its own, in front of a call.
    BeforeCall(usize),
    /// A block of its own, behind everything.
    End,
    /// Fields of a call.
    OfCall(usize),
    /// Fields of the message.
    OfMessage,
}

/// One message. It never changes once made; requests share it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
    /// Size of what is not in `pieces`: calls, images and opaque blocks.
    pub extra_tokens: Tokens,
    /// For the provider alone, of an assistant message.
    #[serde(default)]
    pub opaque: Vec<Opaque>,
    /// Whether the call failed, of a tool message.
    #[serde(default)]
    pub failed: bool,
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // On record what is not there is left out, so that the records of old messages keep their hashes. A checkpoint names no fields:
        // there each has its place.
        let all = !serializer.is_human_readable();
        let (opaque, failed) = (all || !self.opaque.is_empty(), all || self.failed);
        let mut fields = serializer.serialize_struct("Message", 6 + usize::from(opaque) + usize::from(failed))?;
        fields.serialize_field("role", &self.role)?;
        fields.serialize_field("pieces", &self.pieces)?;
        fields.serialize_field("images", &self.images)?;
        fields.serialize_field("calls", &self.calls)?;
        fields.serialize_field("answers", &self.answers)?;
        fields.serialize_field("extra_tokens", &self.extra_tokens)?;
        if opaque {
            fields.serialize_field("opaque", &self.opaque)?;
        }
        if failed {
            fields.serialize_field("failed", &self.failed)?;
        }
        fields.end()
    }
}

impl Message {
    /// A message of text alone.
    pub fn text(role: Role, pieces: Vec<Piece>) -> Self {
        Self {
            role,
            pieces,
            images: Vec::new(),
            calls: Vec::new(),
            answers: None,
            extra_tokens: Tokens::ZERO,
            opaque: Vec::new(),
            failed: false,
        }
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
        let words = |message: &Self| (message.role, message.failed, message.answers.clone(), message.content().into_owned());
        let same = |other: &Self| self.calls == other.calls && self.images == other.images && self.opaque == other.opaque;
        std::ptr::eq(self, other) || (words(self) == words(other) && same(other))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_of_old_messages_read_back_and_stay_the_same() {
        let old = json!({"role": "tool", "pieces": [], "images": [], "calls": [], "answers": "a", "extra_tokens": 0});
        let message: Message = serde_json::from_value(old.clone()).unwrap();
        assert_eq!(serde_json::to_value(&message).unwrap(), old);
        let opaque = Opaque { from: "x/y".to_owned(), at: Slot::BeforeCall(1), json: json!({"a": [1, {"b": null}]}) };
        let new = Message { failed: true, opaque: vec![opaque], ..message };
        assert_eq!(serde_json::from_value::<Message>(serde_json::to_value(&new).unwrap()).unwrap(), new);
        assert_eq!(postcard::from_bytes::<Message>(&postcard::to_allocvec(&new).unwrap()).unwrap(), new);
    }
}

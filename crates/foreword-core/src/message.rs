//! Provider-neutral messages. Every byte belongs to a [`Piece`] that names its origin.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::item::ItemId;
use crate::layer::LayerId;
use crate::tokens::Tokens;

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The system prompt.
    System,
    /// The user, or the engine speaking to the model.
    User,
    /// The model.
    Assistant,
    /// A tool result.
    Tool,
}

impl Role {
    /// The name in stored data.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// The origin of a piece of text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// An item's text, or a line that refers to it.
    Item(ItemId),
    /// Text of the engine, by kind: `heading`, `join`, `directive`, `notice`, `summary`, `placeholder` …
    Engine(&'static str),
    /// Text of the user.
    User,
    /// Text of the model.
    Model,
}

/// The kinds of [`Origin::Engine`].
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

/// A part of a message's text with a single origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The layer that it counts toward.
    pub layer: LayerId,
    /// Its origin.
    pub origin: Origin,
    /// Its text.
    pub text: Arc<str>,
    /// Its size in tokens.
    pub tokens: Tokens,
}

/// A tool call of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Its ID, unique in the conversation.
    pub id: String,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// The arguments: a JSON object, unless the model made an error.
    #[serde(with = "crate::json::value")]
    pub arguments: Value,
}

/// An image in a user message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// `image:` and its path.
    pub id: ItemId,
    /// Its media type, for example `image/png`.
    pub media_type: String,
    /// Its data in base64.
    pub data: Arc<str>,
    /// Its width and height if known; providers charge by them.
    #[serde(default)]
    pub pixels: Option<(u32, u32)>,
}

/// A block that only the provider can read and wants back unchanged: a signed thought, a reasoning item, a signature. Either all
/// blocks of a message are sent back, or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opaque {
    /// Its author: the dialect and the model. It is sent to no other model.
    pub from: String,
    /// Its position in the message.
    pub at: Slot,
    /// The provider's own JSON.
    #[serde(with = "crate::json::value")]
    pub json: Value,
}

/// The position of an opaque block in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// Before all other blocks.
    BeforeText,
    /// Before a call.
    BeforeCall(usize),
    /// After all other blocks.
    End,
    /// Fields of a call.
    OfCall(usize),
    /// Fields of the message.
    OfMessage,
}

/// A message. Messages are immutable and shared between requests.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text, in order.
    pub pieces: Vec<Piece>,
    /// The images of a user message.
    pub images: Vec<Image>,
    /// The tool calls of an assistant message.
    pub calls: Vec<ToolCall>,
    /// The ID of the call that a tool message answers.
    pub answers: Option<String>,
    /// The size of calls, images and opaque blocks, in tokens.
    pub extra_tokens: Tokens,
    /// The opaque blocks of an assistant message.
    #[serde(default)]
    pub opaque: Vec<Opaque>,
    /// Whether the call of a tool message failed.
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
    /// A message with text only.
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

    /// The whole text.
    pub fn content(&self) -> Cow<'_, str> {
        match self.pieces.as_slice() {
            [] => Cow::Borrowed(""),
            [one] => Cow::Borrowed(&one.text),
            many => Cow::Owned(many.iter().map(|piece| &*piece.text).collect()),
        }
    }

    /// Whether it has the same bytes as another message in a request.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let words = |message: &Self| (message.role, message.failed, message.answers.clone(), message.content().into_owned());
        let same = |other: &Self| self.calls == other.calls && self.images == other.images && self.opaque == other.opaque;
        std::ptr::eq(self, other) || (words(self) == words(other) && same(other))
    }

    /// Its size in tokens.
    pub fn tokens(&self) -> Tokens {
        self.pieces.iter().map(|piece| piece.tokens).sum::<Tokens>() + self.extra_tokens
    }

    /// The length of its text in bytes.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.text.len()).sum()
    }

    /// Whether it is empty.
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

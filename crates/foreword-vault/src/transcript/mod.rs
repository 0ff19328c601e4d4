//! Transcripts: sessions as markdown files that people can read and edit, and that obsidian-copilot can open.
//!
//! Text in, text out: [`write()`] creates the file; [`read()`] parses our own files, obsidian-copilot chats of all versions and
//! `AssistantMD` transcripts; [`import()`] does so for a vault and finds the notes that a chat names; [`merge()`] applies edits of
//! the user; [`file_name()`] names the file and [`identify()`] finds its session.
//!
//! The visible format is that of obsidian-copilot. Other data is in one HTML comment between the frontmatter and the first message:
//! obsidian-copilot skips everything before the first `**user**: `, Obsidian hides HTML comments, and unlike a comment in the
//! frontmatter it survives when Obsidian rewrites the properties. The comment is used only where it matches the visible text: the
//! user's edits take precedence.

mod align;
mod format;
mod head;
mod hidden;
mod identity;
mod import;
mod merge;
mod name;
mod parse;
mod read;
mod resolve;
mod write;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

pub use head::Extra;
pub use identity::{Identity, identify};
pub use import::{decode, import};
pub use merge::{Merge, merge, merge_heads};
pub use name::{fallback_name, file_name, numbered_name, title, topic};
pub use read::{Read, Source, read};
pub use resolve::{Notes, resolve_context};
pub use write::write;

/// A Session as its file tells it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Transcript {
    /// When it began, in milliseconds since 1970; obsidian-copilot knows a chat by this number.
    pub epoch_ms: i64,
    /// The Session's own name, where the file has one.
    pub session: Option<String>,
    /// The model, in obsidian-copilot's form `name|provider`. Never empty.
    pub model: Option<String>,
    /// What it is about. Never empty.
    pub topic: Option<String>,
    /// When it was last opened, in milliseconds since 1970.
    pub last_accessed: Option<i64>,
    /// Other frontmatter, kept as it is.
    pub extra: Extra,
    /// What was said, in order.
    pub messages: Vec<Entry>,
}

impl Transcript {
    /// What it is about: its topic, else the first words of the user.
    pub fn title(&self) -> String {
        let first = || self.messages.iter().find(|entry| entry.role == Role::User).map_or("", |entry| &entry.text);
        self.topic.clone().unwrap_or_else(|| topic(first()))
    }
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Who speaks.
    pub role: Role,
    /// The words.
    pub text: String,
    /// When, to the millisecond.
    pub time: Option<Timestamp>,
    /// What was attached, by reference.
    pub context: Context,
    /// Tools the model called; only the hidden comment carries them.
    pub calls: Vec<Call>,
    /// Whether the message was interrupted and is not whole.
    pub cut_off: bool,
}

impl Entry {
    /// A message of words alone.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: text.into(), time: None, context: Context::default(), calls: Vec::new(), cut_off: false }
    }
}

/// A call of a tool, with its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// Unique in the Session.
    pub id: String,
    /// The name the model used.
    pub name: String,
    /// What the model passed.
    pub arguments: Value,
    /// What came back; none where nothing ever did.
    pub result: Option<Value>,
}

/// What was attached to a message, by reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// Notes: vault paths; in old chats bare names.
    pub notes: Vec<String>,
    /// Pages.
    pub urls: Vec<String>,
    /// Pages open in the user's browser.
    pub web_tabs: Vec<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// Folders.
    pub folders: Vec<String>,
}

impl Context {
    /// Whether nothing is attached.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Something about a file that its reader should know; nothing of it stops the reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// What it is about.
    pub kind: Kind,
    /// A sentence for people.
    pub text: String,
}

impl Warning {
    fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

/// What a [`Warning`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The bytes are not all text.
    Encoding,
    /// The `epoch` is missing or no number.
    Epoch,
    /// The topic is a model's thinking.
    Topic,
    /// A timestamp could not be read.
    Time,
    /// An answer is an error message that was saved as one.
    ErrorAnswer,
    /// Another program's tool or reasoning comment was taken out of an answer.
    ToolComment,
    /// Text outside all messages, or below the time of one, was put into the nearest.
    Stray,
    /// The file was changed by hand; the hidden comment was not used where it no longer fits.
    Edited,
    /// The hidden comment could not be read.
    Hidden,
    /// A note is not in the vault.
    NoteMissing,
    /// A note's name fits several notes.
    NoteAmbiguous,
    /// A tag, a folder or a page that was attached is not attached again.
    NotBroughtBack,
}

/// The text is no saved chat.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "reading a saved chat: found no line that starts with `**user**: `, `**ai**: `, `**User:**` or `**Assistant:**`, and no \
     frontmatter of a chat; the text begins with {begins:?}. Check that this is the file of a chat"
)]
pub struct NotATranscript {
    /// The start of the text.
    pub begins: String,
}

//! A note as it was read: everything in it that can be addressed. Plain values, so that they can be kept on disk.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the file system tells about a file of the vault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Path in the vault: `/` between folders, NFC, as the file is named.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Last change, in milliseconds since 1970.
    pub modified: i64,
    /// Creation, in milliseconds since 1970; the last change where the file system does not say.
    pub created: i64,
}

/// A note, read. Ranges are byte ranges of its text (line ends normalised to `\n`, no byte order mark).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Its frontmatter.
    pub frontmatter: Frontmatter,
    /// Other names, from the frontmatter.
    pub aliases: Vec<String>,
    /// Tags in order of appearance, frontmatter first; without `#`, as written, each once (case aside).
    pub tags: Vec<String>,
    /// Headings in order.
    pub headings: Vec<Heading>,
    /// Blocks with an id, in order.
    pub blocks: Vec<Block>,
    /// Links and embeds in order, those of the frontmatter first.
    pub links: Vec<Link>,
    /// Inline fields (`key:: value`) of the page, in order; those inside a list item belong to the item.
    pub fields: Vec<Field>,
    /// List items and tasks, in order.
    pub items: Vec<ListItem>,
    /// Query blocks, in order.
    pub queries: Vec<QueryBlock>,
}

/// The block between the first two `---` lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Frontmatter {
    /// Where it stands, `---` lines included; empty where there is none.
    pub range: Range<usize>,
    /// Its keys and values in order. Of broken YAML, what could be saved line by line.
    #[serde(with = "json_text")]
    pub fields: Vec<(String, Value)>,
    /// What is wrong with it.
    pub fault: Option<String>,
}

impl Frontmatter {
    /// The value under `key`, which is compared without case.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value)
    }
}

/// A heading and the section under it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    /// 1 to 6.
    pub level: u8,
    /// Its text, without marks and link brackets.
    pub text: String,
    /// From the heading to the next one of its level or above.
    pub section: Range<usize>,
    /// Where its line is, from 1.
    pub line: u32,
}

/// A block that carries `^id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Its id, without `^`.
    pub id: String,
    /// The block, its id left out where it stands at the end.
    pub range: Range<usize>,
}

/// How a link is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkForm {
    /// `[[target]]`
    Wiki,
    /// `[text](target)`
    Markdown,
}

/// A link or an embed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// How it is written.
    pub form: LinkForm,
    /// Whether it is an embed (`![[…]]`, `![…](…)`).
    pub embed: bool,
    /// Where it leads, without the part after `#`, percent signs decoded: a path, a name, an address, a data URI; empty for the note
    /// itself.
    pub target: String,
    /// What follows the `#`.
    pub part: Option<Part>,
    /// The text shown, where one is given.
    pub text: Option<String>,
    /// Where it stands in the note.
    pub range: Range<usize>,
}

/// A part of a note that a link names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// `#heading`, or a chain `#outer#inner`.
    Heading(Vec<String>),
    /// `#^block`
    Block(String),
}

/// `key:: value`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// Its key as written, marks aside.
    pub key: String,
    /// Its value as written.
    pub value: String,
    /// Where its line is, from 1.
    pub line: u32,
}

/// A list item, a task where it has a status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListItem {
    /// Its own text, without bullet, box and nested items.
    pub text: String,
    /// What stands in the box of a task.
    pub status: Option<char>,
    /// Where its line is, from 1.
    pub line: u32,
    /// The item it is nested in, by its place in [`Note::items`].
    pub parent: Option<u32>,
    /// The heading above it, by its place in [`Note::headings`].
    pub heading: Option<u32>,
    /// Tags in its text, without `#`.
    pub tags: Vec<String>,
    /// Its inline fields.
    pub fields: Vec<Field>,
    /// Its block id.
    pub block: Option<String>,
}

/// What a query is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueryLanguage {
    /// `dataview`: the query language.
    Dataview,
    /// `dataviewjs`: a program, which is never run.
    JavaScript,
}

/// A fenced block that asks a question of the vault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryBlock {
    /// What it is written in.
    pub language: QueryLanguage,
    /// The query, without the fence.
    pub text: String,
    /// The block, fence included.
    pub range: Range<usize>,
}

/// JSON values inside a format that does not describe itself.
mod json_text {
    use serde::{Deserialize, Deserializer, Serializer, de, ser};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(fields: &[(String, Value)], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&serde_json::to_string(fields).map_err(ser::Error::custom)?)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Value)>, D::Error> {
        serde_json::from_str(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

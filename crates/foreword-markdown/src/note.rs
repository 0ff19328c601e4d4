//! A parsed note: everything in it that can be addressed. Plain values that can be stored.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The metadata of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Its path in the vault, with `/` between folders, in NFC.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its modification time in milliseconds since 1970.
    pub modified: i64,
    /// Its creation time in milliseconds since 1970, or the modification time if unknown.
    pub created: i64,
}

/// A parsed note. Ranges are byte ranges of its text (with `
/// ` line ends and without a byte order mark).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Its frontmatter.
    pub frontmatter: Frontmatter,
    /// Aliases from the frontmatter.
    pub aliases: Vec<String>,
    /// Tags in order, those of the frontmatter first; without `#` and without duplicates (ignoring case).
    pub tags: Vec<String>,
    /// Headings in order.
    pub headings: Vec<Heading>,
    /// Blocks with an ID, in order.
    pub blocks: Vec<Block>,
    /// Links and embeds in order, those of the frontmatter first.
    pub links: Vec<Link>,
    /// Inline fields (`key:: value`) of the page, in order; fields in a list item belong to the item.
    pub fields: Vec<Field>,
    /// List items and tasks, in order.
    pub items: Vec<ListItem>,
    /// Query blocks, in order.
    pub queries: Vec<QueryBlock>,
}

/// The frontmatter: the block between the first two `---` lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Frontmatter {
    /// Its range, including the `---` lines; empty if there is none.
    pub range: Range<usize>,
    /// Its keys and values in order. For invalid YAML, those that could be read line by line.
    #[serde(with = "json_text")]
    pub fields: Vec<(String, Value)>,
    /// The error, if the YAML is invalid.
    pub fault: Option<String>,
}

impl Frontmatter {
    /// The value of `key`, ignoring case.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value)
    }
}

/// A heading and the section under it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    /// 1 to 6.
    pub level: u8,
    /// Its text, without formatting and link brackets.
    pub text: String,
    /// The section up to the next heading of the same or a higher level.
    pub section: Range<usize>,
    /// Its line, from 1.
    pub line: u32,
}

/// A block with an ID (`^id`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Its ID, without `^`.
    pub id: String,
    /// The block, without its ID.
    pub range: Range<usize>,
}

/// The syntax of a link.
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
    /// Its syntax.
    pub form: LinkForm,
    /// Whether it is an embed (`![[…]]`, `![…](…)`).
    pub embed: bool,
    /// Its target without the part after `#`, percent-decoded: a path, a name, a URL or a data URI; empty for the note itself.
    pub target: String,
    /// The part after `#`.
    pub part: Option<Part>,
    /// The displayed text, if any.
    pub text: Option<String>,
    /// Its range in the note.
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
    /// The key as written, without formatting.
    pub key: String,
    /// The value as written.
    pub value: String,
    /// Its line, from 1.
    pub line: u32,
}

/// A list item or task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListItem {
    /// Its text, without bullet, checkbox and nested items.
    pub text: String,
    /// The character in a task's checkbox.
    pub status: Option<char>,
    /// Its line, from 1.
    pub line: u32,
    /// The parent item, as an index into [`Note::items`].
    pub parent: Option<u32>,
    /// The heading above it, as an index into [`Note::headings`].
    pub heading: Option<u32>,
    /// Tags in its text, without `#`.
    pub tags: Vec<String>,
    /// Its inline fields.
    pub fields: Vec<Field>,
    /// Its block ID.
    pub block: Option<String>,
}

/// The language of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueryLanguage {
    /// `dataview`: the Dataview query language.
    Dataview,
    /// `dataviewjs`: JavaScript, which is never run.
    JavaScript,
}

/// A fenced query block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryBlock {
    /// Its language.
    pub language: QueryLanguage,
    /// The query, without the fence.
    pub text: String,
    /// The block, including the fence.
    pub range: Range<usize>,
}

/// JSON values in a format that is not self-describing.
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

//! Items: pieces of context that can be in a prompt, with their stable IDs.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hash::Hash;

/// The kind of an item: the part of its [`ItemId`] before the colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A rule of the agent.
    Rule,
    /// A reference text of the agent.
    Reference,
    /// A tool of a server.
    Tool,
    /// A note of the vault.
    Note,
    /// A range of lines in a note.
    Selection,
    /// A fetched web page.
    Url,
    /// A query block of a note with its result.
    Query,
    /// An image in a note.
    Image,
    /// The user's memory.
    Memory,
    /// A project's prompt or context.
    Project,
    /// The output of a tool.
    Output,
}

const KINDS: [(Kind, &str); 11] = [
    (Kind::Rule, "rule"),
    (Kind::Reference, "reference"),
    (Kind::Tool, "tool"),
    (Kind::Note, "note"),
    (Kind::Selection, "selection"),
    (Kind::Url, "url"),
    (Kind::Query, "query"),
    (Kind::Image, "image"),
    (Kind::Memory, "memory"),
    (Kind::Project, "project"),
    (Kind::Output, "output"),
];

impl Kind {
    /// The kind's name in an [`ItemId`].
    pub fn as_str(self) -> &'static str {
        KINDS[self as usize].1
    }
}

/// The stable ID of an item: its kind and a path, URL or name. Never a time or a counter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId {
    kind: Kind,
    name: Arc<str>,
}

impl ItemId {
    /// Creates an ID from a kind and a name.
    pub fn new(kind: Kind, name: impl AsRef<str>) -> Self {
        Self { kind, name: Arc::from(name.as_ref()) }
    }

    /// `note:path`
    pub fn note(path: &str) -> Self {
        Self::new(Kind::Note, path)
    }

    /// `url:address`
    pub fn url(url: &str) -> Self {
        Self::new(Kind::Url, url)
    }

    /// `selection:path#L10-L24`
    pub fn selection(path: &str, first: u32, last: u32) -> Self {
        Self::new(Kind::Selection, format!("{path}#L{first}-L{last}"))
    }

    /// `query:path#<hash8>`, with the hash of the query's text.
    pub fn query(path: &str, query: &str) -> Self {
        Self::new(Kind::Query, format!("{path}#{}", Hash::of(query).short()))
    }

    /// `tool:server/name`
    pub fn tool(server: &str, name: &str) -> Self {
        Self::new(Kind::Tool, format!("{server}/{name}"))
    }

    /// `output:<hash>`
    pub fn output(hash: Hash) -> Self {
        Self::new(Kind::Output, hash.to_string())
    }

    /// The item's kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The item's path, URL or name. Prompts refer to the item by this name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.as_str(), self.name)
    }
}

impl fmt::Debug for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A text that is not a valid [`ItemId`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an item id: expected `kind:name` with kind one of rule, reference, tool, note, selection, url, query, image, memory, project, output"
)]
pub struct NotAnItemId(String);

impl FromStr for ItemId {
    type Err = NotAnItemId;

    fn from_str(text: &str) -> Result<Self, NotAnItemId> {
        let not = || NotAnItemId(text.to_owned());
        let (word, name) = text.split_once(':').ok_or_else(not)?;
        let (kind, _) = KINDS.iter().find(|(_, known)| *known == word).ok_or_else(not)?;
        if name.is_empty() {
            return Err(not());
        }
        Ok(Self::new(*kind, name))
    }
}

impl Serialize for ItemId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ItemId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back() {
        for text in ["note:Piano Lessons/Lesson 4.md", "url:https://a.example/x", "tool:fs/read_file", "rule:a"] {
            assert_eq!(text.parse::<ItemId>().unwrap().to_string(), text);
        }
        assert_eq!(ItemId::selection("a.md", 10, 24).to_string(), "selection:a.md#L10-L24");
        assert!("rule:".parse::<ItemId>().is_err());
        assert!("colour:blue".parse::<ItemId>().is_err());
        for (index, (kind, word)) in KINDS.iter().enumerate() {
            assert_eq!((*kind as usize, kind.as_str()), (index, *word));
        }
    }
}

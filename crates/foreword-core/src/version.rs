//! Versions: items at one content hash, and the blocks they are rendered as. One function for each thing that is put in a prompt.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use serde_json::Value;

use crate::catalog::{CatalogBody, Catalogued};
use crate::hash::Hash;
use crate::item::{ItemId, Kind};
use crate::json;
use crate::message::Image;
use crate::text::fence::{Fence, attribute, one_line};
use crate::text::images::has_images;
use crate::text::normalise::normalise;

/// An Item at one content hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// Its name.
    pub id: ItemId,
    /// Hash of its content.
    pub hash: Hash,
    /// Its text, normalised.
    pub content: Arc<str>,
    /// Its images, of a note.
    pub images: Vec<Image>,
    /// What else its block tells.
    pub detail: Detail,
}

/// How a Version is shown where it stands now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dress {
    /// It is the note in front of the user.
    pub active: bool,
    /// Another Version of it stands above.
    pub supersedes: bool,
}

impl Dress {
    /// As any item.
    pub const PLAIN: Self = Self { active: false, supersedes: false };

    /// As an item of which another Version may stand above.
    pub fn superseding(supersedes: bool) -> Self {
        Self { supersedes, ..Self::PLAIN }
    }

    /// Says that the Version above is not the current one.
    fn mark(self) -> &'static str {
        if self.supersedes { "<supersedes>an earlier version of this above is out of date</supersedes>\n" } else { "" }
    }
}

/// What a block tells beside the content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// A note.
    Note {
        /// Path in the vault.
        path: String,
        /// Its title.
        title: String,
    },
    /// A page.
    Url {
        /// Its address.
        url: String,
        /// Its title, where known.
        title: Option<String>,
    },
    /// Lines of a note.
    Selection {
        /// Path in the vault.
        path: String,
        /// First line, from 1.
        first: u32,
        /// Last line.
        last: u32,
    },
    /// A query with its result as content.
    Query {
        /// The note it stands in.
        path: String,
        /// The query.
        query: String,
    },
    /// A rule.
    Rule,
    /// A reference.
    Reference,
    /// A tool; the content is its description and schema.
    Tool,
}

/// The file name without folder and ending, as a title.
fn stem(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.strip_suffix(".md").unwrap_or(name).to_owned()
}

impl Version {
    fn new(id: ItemId, content: &str, detail: Detail) -> Self {
        let content = normalise(content);
        Self { id, hash: Hash::of(content.as_bytes()), content: Arc::from(content.as_ref()), images: Vec::new(), detail }
    }

    /// A note; its title is its file name where none is given.
    pub fn note(path: &str, title: Option<&str>, content: &str, images: Vec<Image>) -> Self {
        let title = title.map_or_else(|| stem(path), str::to_owned);
        let version = Self::new(ItemId::note(path), content, Detail::Note { path: path.to_owned(), title });
        Self { images, ..version }
    }

    /// A page.
    pub fn url(url: &str, title: Option<&str>, content: &str) -> Self {
        Self::new(ItemId::url(url), content, Detail::Url { url: url.to_owned(), title: title.map(str::to_owned) })
    }

    /// Lines of a note.
    pub fn selection(path: &str, first: u32, last: u32, content: &str) -> Self {
        Self::new(ItemId::selection(path, first, last), content, Detail::Selection { path: path.to_owned(), first, last })
    }

    /// A query block with its result.
    pub fn query(path: &str, query: &str, result: &str) -> Self {
        Self::new(ItemId::query(path, query), result, Detail::Query { path: path.to_owned(), query: query.to_owned() })
    }

    /// A rule, a reference or a tool of the agent.
    pub fn catalogued(item: &Catalogued<'_>) -> Self {
        let (text, detail) = match item.body {
            CatalogBody::Rule(entry) => (entry.text.clone(), Detail::Rule),
            CatalogBody::Reference(entry) => (entry.text.clone(), Detail::Reference),
            CatalogBody::Tool(tool) => (tool_text(tool.description.as_deref(), &tool.schema()), Detail::Tool),
        };
        Self::new(item.id.clone(), &text, detail)
    }

    /// Whether it is an image file, attached as such.
    pub fn is_image(&self) -> bool {
        self.id.kind() == Kind::Note && self.images.iter().any(|image| image.id.name() == self.id.name())
    }

    /// Whether it carries images, which keeps it out of the library.
    pub fn has_images(&self) -> bool {
        !self.images.is_empty() || (self.id.kind() == Kind::Note && has_images(&self.content))
    }

    /// Its block. `content` stands for the version's own, which may have been cut.
    pub fn block(&self, fence: &mut Fence, content: &str, dress: Dress) -> String {
        let content = fence.escape(content);
        let line = |tag: &str, value: &str| format!("<{tag}>{}</{tag}>\n", one_line(value));
        let (tag, head) = match &self.detail {
            Detail::Note { path, title } => {
                let tag = if dress.active { "active_note" } else { "note_context" };
                (tag, format!("{}{}", line("title", title), line("path", path)))
            }
            Detail::Url { url, title } => {
                let title = title.as_deref().map(|title| line("title", title)).unwrap_or_default();
                ("url_content", format!("{title}{}", line("url", url)))
            }
            Detail::Selection { path, first, last } => {
                let lines = format!("<start_line>{first}</start_line>\n<end_line>{last}</end_line>\n");
                ("selected_text", format!("{}{}{lines}", line("title", &stem(path)), line("path", path)))
            }
            Detail::Query { path, query } => {
                let query = fence.escape(query).into_owned();
                // Later references name it by its id.
                let head = format!("{}{}", line("path", path), line("id", self.id.name()));
                ("dataview_block", format!("{head}<query>\n{query}\n</query>\n"))
            }
            Detail::Rule => return named("rule", self.id.name(), dress, &content),
            Detail::Reference => return named("reference", self.id.name(), dress, &content),
            Detail::Tool => return named("tool", self.id.name(), dress, &content),
        };
        format!("<{tag}>\n{head}{}<content>\n{content}\n</content>\n</{tag}>", dress.mark())
    }
}

fn named(tag: &str, name: &str, dress: Dress, content: &str) -> String {
    format!("<{tag} name=\"{}\">\n{}{content}\n</{tag}>", attribute(name), dress.mark())
}

fn tool_text(description: Option<&str>, schema: &Value) -> String {
    let schema = json::to_string(schema);
    description.map_or_else(|| schema.clone(), |description| format!("{description}\n{schema}"))
}

/// A block of L1: user memory, project prompt, project context.
pub fn plain_block(fence: &mut Fence, tag: &str, content: &str) -> String {
    format!("<{tag}>\n{}\n</{tag}>", fence.escape(&normalise(content)))
}

/// A tool's output in the user message, wrapped by the tool's name.
pub fn tool_result_block(fence: &mut Fence, tool: &str, attributes: &[(String, String)], output: &str) -> String {
    let tag = fence.tool_tag(tool);
    let attributes: Vec<(&str, &str)> = attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    format!("{}\n{}\n{}", tag.open(&attributes), fence.escape(output), tag.close())
}

//! Versions: items with a particular content, and the blocks that represent them in a prompt.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use serde_json::Value;

use crate::catalog::{CatalogBody, Catalogued};
use crate::hash::Hash;
use crate::item::{ItemId, Kind};
use crate::json;
use crate::message::Image;
use foreword_text::fence::{Fence, attribute, one_line};
use foreword_text::images::has_images;
use foreword_text::normalise::normalise;

/// An item with one particular content, identified by its hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// The item's ID.
    pub id: ItemId,
    /// The hash of the content.
    pub hash: Hash,
    /// The normalized text.
    pub content: Arc<str>,
    /// The images of a note.
    pub images: Vec<Image>,
    /// Metadata shown in its block.
    pub detail: Detail,
}

/// How a Version is rendered at its current place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderOptions {
    /// It is the active note (open in the user's editor).
    pub active: bool,
    /// An earlier Version of it is above.
    pub supersedes: bool,
}

impl RenderOptions {
    /// The options for most items.
    pub const PLAIN: Self = Self { active: false, supersedes: false };

    /// The options for an item that may have an earlier Version above.
    pub fn superseding(supersedes: bool) -> Self {
        Self { supersedes, ..Self::PLAIN }
    }

    /// The line that marks the Version above as outdated.
    fn mark(self) -> &'static str {
        if self.supersedes { "<supersedes>an earlier version of this above is out of date</supersedes>\n" } else { "" }
    }
}

/// Metadata of a block, by kind of item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// A note.
    Note {
        /// Its path in the vault.
        path: String,
        /// Its title.
        title: String,
    },
    /// A web page.
    Url {
        /// Its URL.
        url: String,
        /// Its title, if known.
        title: Option<String>,
    },
    /// Lines of a note.
    Selection {
        /// Its path in the vault.
        path: String,
        /// First line, from 1.
        first: u32,
        /// Last line.
        last: u32,
    },
    /// A query; its result is the content.
    Query {
        /// The path of the note with the query.
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

/// The file name without folder and extension, used as a title.
fn stem(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.strip_suffix(".md").unwrap_or(name).to_owned()
}

impl Version {
    fn new(id: ItemId, content: &str, detail: Detail) -> Self {
        let content = normalise(content);
        Self { id, hash: Hash::of(content.as_bytes()), content: Arc::from(content.as_ref()), images: Vec::new(), detail }
    }

    /// A note. Without a title, its file name is used.
    pub fn note(path: &str, title: Option<&str>, content: &str, images: Vec<Image>) -> Self {
        let title = title.map_or_else(|| stem(path), str::to_owned);
        let version = Self::new(ItemId::note(path), content, Detail::Note { path: path.to_owned(), title });
        Self { images, ..version }
    }

    /// A web page.
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

    /// A rule, reference or tool of the agent.
    pub fn catalogued(item: &Catalogued<'_>) -> Self {
        let (text, detail) = match item.body {
            CatalogBody::Rule(entry) => (entry.text.clone(), Detail::Rule),
            CatalogBody::Reference(entry) => (entry.text.clone(), Detail::Reference),
            CatalogBody::Tool(tool) => (tool_text(tool.description.as_deref(), &tool.schema()), Detail::Tool),
        };
        Self::new(item.id.clone(), &text, detail)
    }

    /// Whether the item is an attached image file.
    pub fn is_image(&self) -> bool {
        self.id.kind() == Kind::Note && self.images.iter().any(|image| image.id.name() == self.id.name())
    }

    /// Whether it has images, which keeps it out of the library.
    pub fn has_images(&self) -> bool {
        !self.images.is_empty() || (self.id.kind() == Kind::Note && has_images(&self.content))
    }

    /// The block in the prompt. `content` is the Version's content, which may have been cut.
    pub fn block(&self, fence: &mut Fence, content: &str, dress: RenderOptions) -> String {
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

fn named(tag: &str, name: &str, dress: RenderOptions, content: &str) -> String {
    format!("<{tag} name=\"{}\">\n{}{content}\n</{tag}>", attribute(name), dress.mark())
}

fn tool_text(description: Option<&str>, schema: &Value) -> String {
    let schema = json::to_string(schema);
    description.map_or_else(|| schema.clone(), |description| format!("{description}\n{schema}"))
}

/// A block of L1: memory, project prompt or project context.
pub fn plain_block(fence: &mut Fence, tag: &str, content: &str) -> String {
    format!("<{tag}>\n{}\n</{tag}>", fence.escape(&normalise(content)))
}

/// A tool output in the user message, in a block with the tool's name.
pub fn tool_result_block(fence: &mut Fence, tool: &str, attributes: &[(String, String)], output: &str) -> String {
    let tag = fence.tool_tag(tool);
    let attributes: Vec<(&str, &str)> = attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    format!("{}\n{}\n{}", tag.open(&attributes), fence.escape(output), tag.close())
}

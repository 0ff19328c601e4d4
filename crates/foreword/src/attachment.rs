//! What a turn brings along: notes, pages, selections, query results.

use std::sync::Arc;

use foreword_core::item::{ItemId, Kind};
use foreword_core::message::Image;
use foreword_core::version::{Detail, Version};
use serde::Deserialize;

use crate::Error;

/// A note, a web page, some lines of a note, or the result of a query. Attach it to a turn.
///
/// The same attachment in a later turn costs a line, not its text. If its text has changed, the model gets the change.
///
/// ```
/// use foreword::Attachment;
/// let note = Attachment::note("Bread.md", "A flat loaf proved too long.");
/// let page = Attachment::page("https://example.org/bread", "Bread needs time.").titled("Bread");
/// let lines = Attachment::selection("Bread.md", 3, 4, "proved too long");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Attachment(pub(crate) Version);

impl Attachment {
    /// A note. Its path identifies it; its title is the file name.
    pub fn note(path: &str, text: &str) -> Self {
        Self(Version::note(path, None, text, Vec::new()))
    }

    /// A web page.
    pub fn page(url: &str, text: &str) -> Self {
        Self(Version::url(url, None, text))
    }

    /// Lines of a note, from 1.
    pub fn selection(path: &str, first: u32, last: u32, text: &str) -> Self {
        Self(Version::selection(path, first, last, text))
    }

    /// The result of a query in a note.
    pub fn query(path: &str, query: &str, result: &str) -> Self {
        Self(Version::query(path, query, result))
    }

    /// Sets the title of a note or a page.
    #[must_use]
    pub fn titled(mut self, title: &str) -> Self {
        match &mut self.0.detail {
            Detail::Note { title: old, .. } => title.clone_into(old),
            Detail::Url { title: old, .. } => *old = Some(title.to_owned()),
            _ => {}
        }
        self
    }

    /// Adds an image of a note: its path, its media type, its data in base64, and its size in pixels if it is known.
    #[must_use]
    pub fn image(mut self, path: &str, media_type: &str, base64: &str, pixels: Option<(u32, u32)>) -> Self {
        let id = ItemId::new(Kind::Image, path);
        self.0.images.push(Image { id, media_type: media_type.to_owned(), data: Arc::from(base64), pixels });
        self
    }

    /// Reads an attachment from JSON: `{"kind": "note", "path": …, "content": …}`, also of the kinds `url` (`url`, `content`),
    /// `selection` (`path`, `lines`, `content`) and `query` (`path`, `query`, `content`). Notes and pages may have a `title`, notes
    /// also `images` (`name`, `media_type`, `data`, `pixels`).
    pub fn from_json(json: serde_json::Value) -> Result<Self, Error> {
        let given: Given = serde_json::from_value(json).map_err(|error| Error::Attachment(error.to_string()))?;
        Ok(match given {
            Given::Note { path, content, title, images } => {
                let note = Self(Version::note(&path, title.as_deref(), &content, Vec::new()));
                images.iter().fold(note, |note, image| note.image(&image.name, &image.media_type, &image.data, image.pixels))
            }
            Given::Url { url, content, title } => Self(Version::url(&url, title.as_deref(), &content)),
            Given::Selection { path, lines: (first, last), content } => Self::selection(&path, first, last, &content),
            Given::Query { path, query, content } => Self::query(&path, &query, &content),
        })
    }

    /// Its ID, for example `note:Bread.md`.
    pub fn id(&self) -> String {
        self.0.id.to_string()
    }
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Given {
    Note {
        path: String,
        content: String,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        images: Vec<GivenImage>,
    },
    Url {
        url: String,
        content: String,
        #[serde(default)]
        title: Option<String>,
    },
    Selection {
        path: String,
        lines: (u32, u32),
        content: String,
    },
    Query {
        path: String,
        query: String,
        content: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenImage {
    name: String,
    media_type: String,
    data: String,
    #[serde(default)]
    pixels: Option<(u32, u32)>,
}

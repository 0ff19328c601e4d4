//! Search over notes: the attachments that fit a question.

use std::collections::BTreeMap;

use foreword_core::item::ItemId;
use foreword_search::chunk::{Source, item_chunks};
use foreword_search::index::{Document, Index, Query};
use foreword_search::{EmbedError, Embedder};

use crate::Attachment;

/// Texts that are embedded at once.
const BATCH: usize = 32;

/// Notes that can be searched by words and, with an embedding model, by meaning.
///
/// ```
/// use foreword::{Attachment, Notes};
/// let mut notes = Notes::new();
/// notes.add(Attachment::note("Bread.md", "A flat loaf proved too long."));
/// notes.add(Attachment::note("Garden.md", "Sow carrots in March."));
/// let found = notes.search("Why is my loaf flat?", None, 1);
/// assert_eq!(found[0].attachment.id(), "note:Bread.md");
/// ```
#[derive(Default)]
pub struct Notes {
    index: Index,
    notes: BTreeMap<ItemId, Attachment>,
}

impl std::fmt::Debug for Notes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notes").field("notes", &self.notes.len()).finish_non_exhaustive()
    }
}

/// A note that fits a question.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Match {
    /// The note.
    pub attachment: Attachment,
    /// How well it fits, from 0 to 1: below 0.2 it is most likely unrelated.
    pub score: f64,
}

impl Notes {
    /// No notes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of notes.
    pub fn len(&self) -> usize {
        self.notes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Adds a note, or replaces the one with its ID.
    pub fn add(&mut self, note: Attachment) {
        let version = &note.0;
        let source = Source {
            kind: version.id.kind(),
            name: version.id.name(),
            description: "",
            text: &version.content,
            parameters: None,
        };
        self.index.put(Document { id: version.id.clone(), date: None, chunks: item_chunks(&source) });
        self.notes.insert(version.id.clone(), note);
    }

    /// Removes a note by its ID, for example `note:Bread.md`. Returns whether it was there.
    pub fn remove(&mut self, id: &str) -> bool {
        id.parse::<ItemId>().is_ok_and(|id| self.index.remove(&id) && self.notes.remove(&id).is_some())
    }

    /// Embeds what is new, so that it is found by meaning too.
    pub fn embed(&mut self, model: &dyn Embedder) -> Result<(), EmbedError> {
        loop {
            let texts: Vec<String> = self.index.pending(BATCH).into_iter().map(str::to_owned).collect();
            if texts.is_empty() {
                return Ok(());
            }
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let vectors = model.embed(&texts)?;
            for (text, vector) in texts.iter().zip(&vectors) {
                self.index.set_vector(text, vector);
            }
        }
    }

    /// The best matches for a question, at most `limit`. With `model` it is searched by words and meaning, without by words.
    pub fn search(&self, question: &str, model: Option<&dyn Embedder>, limit: usize) -> Vec<Match> {
        let query = Query { embedder: model, ..Query::new(question) };
        let scores = self.index.scores(&query).into_iter();
        let found = scores.filter_map(|(id, scores)| {
            let score = scores.into_iter().reduce(f64::max)?;
            Some(Match { attachment: self.notes.get(&id)?.clone(), score })
        });
        let mut found: Vec<Match> = found.collect();
        found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.attachment.id().cmp(&b.attachment.id())));
        found.truncate(limit);
        found
    }
}

//! Passages: parts of notes that a search found, with their positions in the search output.

use serde::{Deserialize, Serialize};

use crate::item::ItemId;

/// A part of a note that a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// The note, or another item that was searched.
    pub item: ItemId,
    /// The number that an answer cites it by, from 1.
    pub number: usize,
    /// The note's title.
    pub title: String,
    /// The headings above the passage, joined by ` > `; empty at the top of a note.
    pub heading: String,
    /// How well it fits the question, from 0 to 1.
    pub score: f64,
    /// The start of its block in the search output, in bytes.
    pub start: usize,
    /// Where its block ends.
    pub end: usize,
    /// Whether the prompt holds the note anyway: its block only says so.
    #[serde(default)]
    pub stands: bool,
}

impl Passage {
    /// Its block in the search output.
    pub fn block<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

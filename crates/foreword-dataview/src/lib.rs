//! Answers Dataview query blocks, so that a model reads the same results as a user of Obsidian.
//!
//! `parse` and `expression` (with `cursor`) parse a [`Query`]; `source` finds its notes; `run` executes its commands; `evaluate`
//! and `functions` compute values (`value`, `span`) from notes (`notes`, `items`); `render` writes markdown. `cache` stores
//! answers.
//!
//! Queries and notes are untrusted: nesting, rows, texts, work and time are limited, and unsupported features give a clear error.

mod cache;
mod cursor;
mod evaluate;
mod expression;
mod functions;
mod items;
mod notes;
mod operators;
mod parse;
mod pattern;
mod render;
mod run;
mod source;
mod span;
mod syntax;
#[cfg(test)]
mod tests;
mod value;

use std::time::Duration;

pub use cache::{Cache, Fingerprint};
pub use parse::{ParseError, parse};
pub use syntax::{Clock, Needs, Query};

use foreword_markdown::note::{FileFacts, Note};

/// The notes that a query can ask about.
pub trait Pages {
    /// The paths of all notes, sorted.
    fn paths(&self) -> Vec<&str>;
    /// The note at a path.
    fn page(&self, path: &str) -> Option<PageRef<'_>>;
    /// The path of the note that a link in the note `from` leads to.
    fn resolve(&self, target: &str, from: &str) -> Option<String>;
    /// The paths of notes that link to this one, sorted.
    fn incoming(&self, path: &str) -> Vec<String>;
    /// The paths of notes that this one links to, sorted.
    fn outgoing(&self, path: &str) -> Vec<String>;
}

/// A note and its file.
#[derive(Clone, Copy, Debug)]
pub struct PageRef<'p> {
    /// What the file system says.
    pub facts: &'p FileFacts,
    /// What is in it.
    pub note: &'p Note,
}

/// How much an answer may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit {
    /// How long it may take.
    pub time: Duration,
    /// How many steps it may take, which bounds its memory too.
    pub steps: u64,
    /// How many rows there may be at any point.
    pub rows: usize,
    /// How long the markdown may get; rows that do not fit are left out, and that is said.
    pub bytes: usize,
}

impl Default for Limit {
    fn default() -> Self {
        Self { time: Duration::from_secs(5), steps: 20_000_000, rows: 100_000, bytes: 256 * 1024 }
    }
}

/// The answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What stands in the place of the query block.
    pub markdown: String,
    /// The paths of the notes that were read for it, sorted.
    pub read: Vec<String>,
}

/// Why there is no answer. The text is a sentence without its full stop, to stand beside the query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The query may be fine in Dataview, but is not supported here.
    #[error("{what} is not supported")]
    Unsupported {
        /// What is not.
        what: String,
    },
    /// The query is wrong, or costs too much.
    #[error("{why}")]
    Failed {
        /// Why.
        why: String,
    },
    /// It took longer than it may; another time it may not.
    #[error("it took longer than {} ms; ask for fewer notes with FROM or LIMIT", time.as_millis())]
    TimedOut {
        /// How long it may take.
        time: Duration,
    },
}

impl From<ParseError> for Unanswered {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Unsupported { what } => Self::Unsupported { what },
            malformed @ ParseError::Malformed { .. } => Self::Failed { why: malformed.to_string() },
        }
    }
}

/// Answers the query that stands in the note at `this`.
pub fn answer(query: &str, this: &str, pages: &dyn Pages, now: &jiff::Zoned, limit: Limit) -> Result<Answer, Unanswered> {
    run::run(&parse(query)?, this, pages, now, limit)
}

//! Facts: the exact things in a text that a summary must not lose, such as file paths.
//!
//! They are recognized by their form in one pass, so the result does not depend on context: file paths, URLs, numbers with units,
//! identifiers and dates; and, by key phrases, sentences with a goal, a decision or an open question.

mod shape;
mod statement;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use statement::{Statement, closing_question, statements};

/// What a fact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    /// A pinned text.
    Pinned,
    /// What the user is after.
    Goal,
    /// An open question.
    Question,
    /// What was decided.
    Decision,
    /// A file or a folder.
    Path,
    /// An address.
    Url,
    /// A number with its unit, or a long one.
    Number,
    /// A day or a time.
    Date,
    /// A name that a program would understand: a function, a version, an issue, a hash.
    Identifier,
}

impl FactKind {
    /// The word on the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Goal => "goal",
            Self::Question => "question",
            Self::Decision => "decision",
            Self::Path => "path",
            Self::Url => "url",
            Self::Number => "number",
            Self::Date => "date",
            Self::Identifier => "identifier",
        }
    }

    /// Whether it is a sentence rather than a word.
    pub fn is_sentence(self) -> bool {
        matches!(self, Self::Pinned | Self::Goal | Self::Question | Self::Decision)
    }
}

/// Something that must not be lost or changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fact {
    /// What it is.
    pub kind: FactKind,
    /// The fact as written in the text.
    pub text: String,
}

/// Longer ones are no facts but data.
const MAX_CHARS: usize = 160;

/// The largest number of facts in one text; longer lists are data.
const MOST: usize = 256;

/// The exact things in a text, in order, each once.
pub fn facts(text: &str) -> Vec<Fact> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    shape::scan(text, &mut |kind, text: String| {
        let fits = text.chars().nth(MAX_CHARS).is_none();
        if fits && seen.insert(key(kind, &text)) {
            found.push(Fact { kind, text });
        }
        found.len() < MOST
    });
    found
}

/// What two spellings of one fact have in common: `1,200 kg` and `1200kg`.
pub fn key(kind: FactKind, text: &str) -> String {
    match kind {
        FactKind::Number => {
            let bytes = text.as_bytes();
            let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
            let grouping = |at: usize, c: char| matches!(c, ',' | '\'' | '_') && digit(at.checked_sub(1)) && digit(Some(at + 1));
            text.char_indices().filter(|(at, c)| !c.is_whitespace() && !grouping(*at, *c)).map(|(_, c)| c).collect()
        }
        FactKind::Date => {
            words(text).filter(|word| !word.is_empty()).map(|word| word.trim_matches([',', '.'])).collect::<Vec<_>>().join(" ")
        }
        kind if kind.is_sentence() => words(text).collect::<Vec<_>>().join(" ").to_lowercase(),
        _ => text.to_owned(),
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// What a text says, for asking whether a fact is in it.
#[derive(Clone, Debug, Default)]
pub struct Saying {
    keys: BTreeSet<String>,
    /// On one line, in lower case: for sentences.
    line: String,
    /// On one line.
    exact: String,
}

impl Saying {
    /// Of a text.
    pub fn of(text: &str) -> Self {
        let mut saying = Self::default();
        saying.add(text);
        saying
    }

    /// And of one more.
    pub fn add(&mut self, text: &str) {
        self.keys.extend(facts(text).into_iter().map(|fact| key(fact.kind, &fact.text)));
        let line = words(text).collect::<Vec<_>>().join(" ");
        self.line.push_str(&line.to_lowercase());
        self.line.push('\n');
        self.exact.push_str(&line);
        self.exact.push('\n');
    }

    /// Whether a fact is in it, unchanged.
    pub fn has(&self, fact: &Fact) -> bool {
        let key = key(fact.kind, &fact.text);
        if fact.kind.is_sentence() {
            return self.line.contains(&key);
        }
        self.keys.contains(&key)
            || (fact.text.contains(' ') && whole(&self.exact, &words(&fact.text).collect::<Vec<_>>().join(" ")))
    }
}

/// Whether `part` occurs in `text` as a whole word.
fn whole(text: &str, part: &str) -> bool {
    text.match_indices(part).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        let after = text[at + part.len()..].chars().next().is_some_and(char::is_alphanumeric);
        !before && !after
    })
}

#[cfg(test)]
mod tests;

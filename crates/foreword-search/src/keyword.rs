//! Keyword search: an inverted index in memory, scored by BM25 over weighted fields.
//!
//! Postings are unordered, because scores are collected in an array over all rows. So adding or removing a chunk costs only its own
//! words, and an index after many edits gives the same scores as a new one.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::words::{Stems, each_word, is_stop_word};

/// Where in a chunk a word stands; a word in a name says more than one in a parameter's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Names and headings, which stand in the body too and so count twice.
    Name,
    /// The text itself.
    Body,
    /// What only explains: a tool's parameters.
    Detail,
}

/// Whether numbers are words to be found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// They are: a note may be about a year or an invoice.
    Count,
    /// They are not: in a request for a tool they are arguments, whatever the tool's own numbers are.
    Skip,
}

impl Field {
    /// In halves, so that counts stay whole and sums exact.
    fn weight(self) -> u16 {
        match self {
            Self::Name | Self::Body => 2,
            Self::Detail => 1,
        }
    }
}

/// How soon further occurrences stop to count, and how much a long text is held against it. Low, as is usual for short texts.
const K1: f32 = 0.9;
const B: f32 = 0.4;

/// Words of a query beyond this many, the commonest first, are not looked up.
const MAX_QUERY_WORDS: usize = 128;

/// What identifies the stored form; another one is not read but rebuilt.
const FORMAT: u32 = 2;

#[derive(Clone, Copy, Debug)]
struct Posting {
    row: u32,
    count: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    /// Word numbers and their weighted counts, in half units. Empty where the row is free.
    words: Vec<(u32, u16)>,
}

impl Row {
    fn length(&self) -> u64 {
        self.words.iter().map(|(_, count)| u64::from(*count)).sum()
    }
}

/// An inverted index over rows of words.
#[derive(Clone, Debug, Default)]
pub struct KeywordIndex {
    stems: HashMap<Box<str>, u32>,
    /// Words as written, so that a word is stemmed once.
    written: HashMap<Box<str>, u32>,
    postings: Vec<Vec<Posting>>,
    rows: Vec<Row>,
    lengths: Vec<u32>,
    live: usize,
    length: u64,
}

/// The scores of one query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeywordScores {
    /// One per row, 0 where no word is found.
    pub rows: Vec<f32>,
    /// The highest of them.
    pub best: f32,
    /// What a chunk would get that consists of the query's words: the measure for how much of a query is found.
    pub ideal: f32,
    /// Whether the query has no word that says what it is about.
    pub says_nothing: bool,
}

/// Why a stored index cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Not our bytes, or cut off.
    #[error("cannot read the keyword index: {0}; rebuild the index")]
    Malformed(String),
    /// Written by another version.
    #[error("cannot read the keyword index: format {found}, expected {FORMAT}; rebuild the index")]
    Format {
        /// The number found.
        found: u32,
    },
    /// Decodes, but says what cannot be.
    #[error("cannot read the keyword index: row {row} refers to word {word} of {words}; rebuild the index")]
    UnknownWord {
        /// The row.
        row: usize,
        /// What it names.
        word: u32,
        /// How many words there are.
        words: usize,
    },
}

#[derive(Serialize)]
struct Saving<'a> {
    format: u32,
    words: Vec<&'a str>,
    rows: &'a [Row],
}

#[derive(Deserialize)]
struct Saved {
    format: u32,
    words: Vec<Box<str>>,
    rows: Vec<Row>,
}

impl KeywordIndex {
    /// An index of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many rows there are, free ones included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Puts the words of `fields` into `row`, in place of what was there.
    pub fn set(&mut self, row: u32, fields: &[(Field, &str)], numbers: Numbers) {
        self.clear(row);
        let mut words: Vec<(u32, u16)> = Vec::new();
        for (field, text) in fields {
            each_word(text, |word| {
                if numbers == Numbers::Count || !is_number(word) {
                    words.push((self.number(word), field.weight()));
                }
            });
        }
        words.sort_unstable();
        words.dedup_by(|(word, count), (kept, sum)| {
            let same = word == kept;
            if same {
                *sum = sum.saturating_add(*count);
            }
            same
        });
        words.shrink_to_fit();
        let index = row as usize;
        if self.rows.len() <= index {
            self.rows.resize_with(index + 1, Row::default);
            self.lengths.resize(index + 1, 0);
        }
        self.rows[index] = Row { words };
        self.enter(index);
        for (word, count) in &self.rows[index].words {
            if let Some(postings) = self.postings.get_mut(*word as usize) {
                postings.push(Posting { row, count: *count });
            }
        }
    }

    /// Empties `row`.
    pub fn clear(&mut self, row: u32) {
        let Some(old) = self.rows.get_mut(row as usize) else { return };
        let old = std::mem::take(old);
        if old.words.is_empty() {
            return;
        }
        for (word, _) in &old.words {
            let Some(postings) = self.postings.get_mut(*word as usize) else { continue };
            if let Some(at) = postings.iter().rposition(|posting| posting.row == row) {
                postings.swap_remove(at);
            }
        }
        self.live -= 1;
        self.length -= old.length();
        self.lengths[row as usize] = 0;
    }

    /// The scores of all rows for `query`.
    pub fn scores(&self, query: &str) -> KeywordScores {
        let stems = Stems::default();
        let mut asked: Vec<(String, bool)> = Vec::new();
        let mut seen = HashSet::new();
        each_word(query, |word| {
            let stem = stems.stem(word).into_owned();
            if seen.insert(stem.clone()) {
                asked.push((stem, is_stop_word(word)));
            }
        });
        // "To be or not to be" has nothing else to go by.
        let says_nothing = asked.iter().all(|(_, stop)| *stop);
        if !says_nothing {
            asked.retain(|(_, stop)| !stop);
        }
        let mut terms: Vec<(f32, &[Posting])> = asked
            .iter()
            .map(|(stem, _)| {
                let postings = self.stems.get(stem.as_str()).and_then(|word| self.postings.get(*word as usize));
                let postings = postings.map_or(&[][..], Vec::as_slice);
                (stem, postings)
            })
            // A number that stands nowhere is an argument, not a word that is missed.
            .filter(|(stem, postings)| !postings.is_empty() || !is_number(stem))
            .map(|(_, postings)| (self.rarity(postings.len()), postings))
            .collect();
        terms.sort_by(|a, b| b.0.total_cmp(&a.0));
        terms.truncate(MAX_QUERY_WORDS);

        let mut scores = KeywordScores { rows: vec![0.0; self.rows.len()], best: 0.0, ideal: 0.0, says_nothing };
        let mean = (self.length as f32 / self.live.max(1) as f32).max(1.0);
        for (rarity, postings) in terms {
            scores.ideal += rarity * (K1 + 1.0);
            for posting in postings {
                let row = posting.row as usize;
                let count = f32::from(posting.count) / 2.0;
                let length = self.lengths[row] as f32 / mean;
                scores.rows[row] += rarity * (K1 + 1.0) * count / (count + K1 * (1.0 - B + B * length));
            }
        }
        scores.best = scores.rows.iter().copied().fold(0.0, f32::max);
        scores
    }

    /// The compact form: words, and for each row their numbers and counts.
    pub fn save(&self) -> Vec<u8> {
        let mut words = vec![""; self.postings.len()];
        for (stem, word) in &self.stems {
            if let Some(place) = words.get_mut(*word as usize) {
                *place = stem;
            }
        }
        let saving = Saving { format: FORMAT, words, rows: &self.rows };
        postcard::to_stdvec(&saving).unwrap_or_default()
    }

    /// Reads [`KeywordIndex::save`]'s bytes, believing nothing.
    pub fn load(bytes: &[u8]) -> Result<Self, LoadError> {
        let malformed = |error: postcard::Error| LoadError::Malformed(error.to_string());
        let (found, _) = postcard::take_from_bytes::<u32>(bytes).map_err(malformed)?;
        if found != FORMAT {
            return Err(LoadError::Format { found });
        }
        let saved: Saved = postcard::from_bytes(bytes).map_err(malformed)?;
        debug_assert_eq!(saved.format, FORMAT);
        let words = saved.words.len();
        let mut counts = vec![0_usize; words];
        for (row, Row { words: entries }) in saved.rows.iter().enumerate() {
            for (at, (word, _)) in entries.iter().enumerate() {
                let repeated = at > 0 && entries[at - 1].0 >= *word;
                match counts.get_mut(*word as usize) {
                    Some(count) if !repeated => *count += 1,
                    _ => return Err(LoadError::UnknownWord { row, word: *word, words }),
                }
            }
        }
        let mut index = Self { postings: counts.into_iter().map(Vec::with_capacity).collect(), ..Self::default() };
        index.lengths = vec![0; saved.rows.len()];
        index.rows = saved.rows;
        index.stems = saved.words.into_iter().zip(0..).collect();
        for at in 0..index.rows.len() {
            index.enter(at);
            let row = u32::try_from(at).unwrap_or(u32::MAX);
            for (word, count) in &index.rows[at].words {
                index.postings[*word as usize].push(Posting { row, count: *count });
            }
        }
        Ok(index)
    }

    /// Counts a filled row in.
    fn enter(&mut self, index: usize) {
        let length = self.rows[index].length();
        if !self.rows[index].words.is_empty() {
            self.live += 1;
        }
        self.length += length;
        self.lengths[index] = u32::try_from(length).unwrap_or(u32::MAX);
    }

    fn number(&mut self, word: &str) -> u32 {
        if let Some(number) = self.written.get(word) {
            return *number;
        }
        let stem = Stems::default().stem(word).into_owned();
        let number = if let Some(number) = self.stems.get(stem.as_str()) {
            *number
        } else {
            let number = u32::try_from(self.postings.len()).unwrap_or(u32::MAX);
            self.postings.push(Vec::new());
            self.stems.insert(stem.into(), number);
            number
        };
        self.written.insert(word.into(), number);
        number
    }

    /// The weight of a word that stands in so many rows.
    fn rarity(&self, rows: usize) -> f32 {
        let (live, rows) = (self.live as f32, rows as f32);
        (1.0 + (live - rows + 0.5) / (rows + 0.5)).ln()
    }
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(texts: &[&str]) -> KeywordIndex {
        let mut index = KeywordIndex::new();
        for (row, text) in (0..).zip(texts) {
            index.set(row, &[(Field::Body, *text)], Numbers::Count);
        }
        index
    }

    fn check(texts: &[&str], query: &str, expect: &[usize]) {
        let scores = index(texts).scores(query).rows;
        let mut found: Vec<usize> = (0..scores.len()).filter(|row| scores[*row] > 0.0).collect();
        found.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        assert_eq!(found, expect, "{query}: {scores:?}");
    }

    #[test]
    fn found_in_order() {
        check(&["the cat", "the dog", "a bird"], "dogs", &[1]);
        check(&["the cat", "the dog", "the bird"], "the dog", &[1]);
        check(&["be here", "the dog"], "to be", &[0]);
        check(&["black cat", "black dog", "black bird"], "black dogs", &[1, 0, 2]);
        check(&["readFile", "write"], "read a file", &[0]);
        check(&["東京都", "京都"], "京都", &[1, 0]);
        check(&["a"], "nothing here", &[]);
        check(&[], "x", &[]);
    }

    #[test]
    fn a_name_counts_more_than_a_detail() {
        let mut index = KeywordIndex::new();
        index.set(0, &[(Field::Name, "weather"), (Field::Body, "forecast")], Numbers::Count);
        index.set(1, &[(Field::Name, "forecast"), (Field::Detail, "weather")], Numbers::Count);
        let scores = index.scores("weather");
        assert!(scores.rows[0] > scores.rows[1]);
        assert!(scores.best < scores.ideal);
    }

    #[test]
    fn numbers_find_notes_but_not_tools() {
        let mut index = index(&["invoice 4711", "nothing"]);
        index.set(2, &[(Field::Body, "pay 4711")], Numbers::Skip);
        let scores = index.scores("4711");
        assert!(scores.rows[0] > 0.0 && scores.rows[2] == 0.0);
        assert_eq!(index.scores("invoice 9999"), index.scores("invoice"));
    }

    #[test]
    fn edits_leave_no_trace() {
        let mut edited = index(&["one two", "three", "four five five"]);
        edited.set(1, &[(Field::Body, "two six")], Numbers::Count);
        edited.clear(0);
        edited.set(0, &[(Field::Body, "seven")], Numbers::Count);
        edited.clear(9);
        let fresh = index(&["seven", "two six", "four five five"]);
        for query in ["two", "three", "five seven", "six one"] {
            assert_eq!(edited.scores(query), fresh.scores(query), "{query}");
        }
    }

    #[test]
    fn stored_and_read() {
        let index = index(&["one two", "", "four five five"]);
        let bytes = index.save();
        let read = KeywordIndex::load(&bytes).unwrap();
        assert_eq!(read.scores("five one"), index.scores("five one"));
        for cut in 0..bytes.len() {
            assert!(KeywordIndex::load(&bytes[..cut]).is_err());
        }
        assert_eq!(KeywordIndex::load(&[9, 0, 0]).unwrap_err(), LoadError::Format { found: 9 });
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            let _ = KeywordIndex::load(&damaged).map(|index| index.scores("five one"));
        }
        let words = postcard::to_stdvec(&(FORMAT, ["a"], [[(7_u32, 1_u16)].as_slice()].as_slice())).unwrap();
        assert!(KeywordIndex::load(&words).is_err());
    }
}

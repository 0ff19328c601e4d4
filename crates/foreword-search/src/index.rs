//! An index of searchable documents that can be added, removed and renamed at any time.
//!
//! A document is an item split into chunks. Each chunk is in the keyword index at once, and has an embedding as soon as it is
//! computed ([`Index::pending`], [`Index::set_vector`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use foreword_core::hash::Hash;
use foreword_core::item::{ItemId, Kind};
use jiff::civil::Date;

use crate::Vector;
use crate::chunk::Chunk;
use crate::keyword::{Field, KeywordIndex, Numbers};
use crate::vectors::Vectors;

mod saved;
mod search;
mod series;

pub use search::{Answer, Hit, KeywordOnly, LeftOut, Query, Strategy};

use series::Series;

/// The largest number of embedded chunks per document: about four megabytes of text. The rest of a longer document is found only by
/// keyword.
pub const MAX_EMBEDDED_CHUNKS: usize = 8192;

/// A searchable item.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its ID.
    pub id: ItemId,
    /// Its date, for time ranges.
    pub date: Option<Date>,
    /// Its chunks.
    pub chunks: Vec<Chunk>,
}

#[derive(Clone, Debug)]
struct Row {
    chunk: Chunk,
    hash: Hash,
    vector: Option<u32>,
    owner: ItemId,
    /// The row of its other view; views know the row they belong to, and that row its view.
    pair: Option<u32>,
}

#[derive(Clone, Debug)]
struct Entry {
    date: Option<Date>,
    rows: Vec<u32>,
}

/// Documents with their keyword index and embeddings.
#[derive(Clone, Default)]
pub struct Index {
    documents: BTreeMap<ItemId, Entry>,
    rows: Vec<Option<Row>>,
    free: Vec<u32>,
    keyword: KeywordIndex,
    vectors: Vectors,
    /// The row of each vector.
    row_by_vector: Vec<u32>,
    waiting: BTreeSet<(Reverse<u64>, u32)>,
    waiting_by_text: HashMap<Hash, Vec<u32>>,
    changed_by_row: HashMap<u32, u64>,
    series: Series,
    changes: u64,
    /// Documents with more chunks than are embedded, and their number of chunks.
    long: BTreeMap<ItemId, usize>,
}

impl Index {
    /// Creates an empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of documents.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// The number of chunks to embed, and of those that are embedded.
    pub fn chunks(&self) -> (usize, usize) {
        let without: usize = self.long.values().map(|chunks| chunks - MAX_EMBEDDED_CHUNKS).sum();
        let total = self.rows.len() - self.free.len() - without;
        (total, total - self.waiting.len())
    }

    /// Documents that are too long to be embedded completely, and their number of chunks.
    pub fn long(&self) -> &BTreeMap<ItemId, usize> {
        &self.long
    }

    fn note_length(&mut self, id: &ItemId, chunks: usize) {
        if chunks > MAX_EMBEDDED_CHUNKS {
            self.long.insert(id.clone(), chunks);
        } else {
            self.long.remove(id);
        }
    }

    /// Adds or replaces a document. Unchanged chunks keep their embeddings.
    pub fn put(&mut self, document: Document) {
        let mut kept: HashMap<Hash, u32> = HashMap::new();
        if let Some(old) = self.documents.remove(&document.id) {
            self.series.remove(&document.id);
            for row in old.rows {
                if let Some((hash, vector)) = self.take_row(row)
                    && let Some(spare) = kept.insert(hash, vector)
                {
                    self.vectors.remove(spare);
                }
            }
        }
        self.changes += 1;
        let changed = self.changes;
        let mut rows = Vec::with_capacity(document.chunks.len());
        self.note_length(&document.id, document.chunks.len());
        for (place, chunk) in document.chunks.into_iter().enumerate() {
            let hash = Hash::of(&chunk.text);
            let row = self.free.pop().unwrap_or_else(|| {
                self.rows.push(None);
                u32::try_from(self.rows.len() - 1).unwrap_or(u32::MAX)
            });
            if !chunk.view {
                let fields = [(Field::Name, &*chunk.context), (Field::Body, &chunk.text), (Field::Detail, &chunk.detail)];
                self.keyword.set(row, &fields, if document.id.kind() == Kind::Tool { Numbers::Skip } else { Numbers::Count });
            }
            let gets_vector = place < MAX_EMBEDDED_CHUNKS;
            let vector = if gets_vector { kept.remove(&hash) } else { None };
            if let Some(vector) = vector {
                self.give(vector, row);
            } else if gets_vector {
                self.waiting.insert((Reverse(changed), row));
                self.waiting_by_text.entry(hash).or_default().push(row);
                self.changed_by_row.insert(row, changed);
            }
            self.rows[row as usize] = Some(Row { chunk, hash, vector, owner: document.id.clone(), pair: None });
            rows.push(row);
        }
        self.pair(&rows);
        for spare in kept.into_values() {
            self.vectors.remove(spare);
        }
        self.series.add(&document.id);
        self.documents.insert(document.id, Entry { date: document.date, rows });
    }

    /// Removes a document. Returns whether it existed.
    pub fn remove(&mut self, id: &ItemId) -> bool {
        let Some(entry) = self.documents.remove(id) else { return false };
        self.series.remove(id);
        self.long.remove(id);
        for row in entry.rows {
            if let Some((_, vector)) = self.take_row(row) {
                self.vectors.remove(vector);
            }
        }
        true
    }

    /// Up to `limit` distinct texts without an embedding, the most recently changed documents first.
    pub fn pending(&self, limit: usize) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let rows = self.waiting.iter().filter_map(|(_, row)| self.row(*row));
        rows.filter(|row| seen.insert(row.hash)).map(|row| row.chunk.text.as_str()).take(limit).collect()
    }

    /// Sets the embedding of all chunks with this text.
    pub fn set_vector(&mut self, text: &str, vector: &Vector) {
        for row in self.waiting_by_text.remove(&Hash::of(text)).unwrap_or_default() {
            if let Some(changed) = self.changed_by_row.remove(&row) {
                self.waiting.remove(&(Reverse(changed), row));
            }
            if let Some(Some(found)) = self.rows.get_mut(row as usize) {
                let vector = self.vectors.push(vector);
                found.vector = Some(vector);
                self.give(vector, row);
            }
        }
    }

    /// Notes whose a vector is.
    fn give(&mut self, vector: u32, row: u32) {
        let at = vector as usize;
        if self.row_by_vector.len() <= at {
            self.row_by_vector.resize(at + 1, u32::MAX);
        }
        self.row_by_vector[at] = row;
    }

    /// Ties the views among a document's rows to the rows before them.
    fn pair(&mut self, rows: &[u32]) {
        for pair in rows.windows(2) {
            let [row, view] = *pair else { continue };
            let is_view = |row: u32| self.row(row).is_some_and(|row| row.chunk.view);
            if is_view(row) || !is_view(view) {
                continue;
            }
            for (one, other) in [(row, view), (view, row)] {
                if let Some(Some(row)) = self.rows.get_mut(one as usize) {
                    row.pair = Some(other);
                }
            }
        }
    }

    fn row(&self, row: u32) -> Option<&Row> {
        self.rows.get(row as usize).and_then(Option::as_ref)
    }

    /// Frees a row; its text's hash and its vector, which the caller now owns.
    fn take_row(&mut self, row: u32) -> Option<(Hash, u32)> {
        let taken = self.rows.get_mut(row as usize).and_then(Option::take)?;
        self.keyword.clear(row);
        self.free.push(row);
        if let Some(changed) = self.changed_by_row.remove(&row) {
            self.waiting.remove(&(Reverse(changed), row));
            if let Some(rows) = self.waiting_by_text.get_mut(&taken.hash) {
                rows.retain(|waiting| *waiting != row);
                if rows.is_empty() {
                    self.waiting_by_text.remove(&taken.hash);
                }
            }
        }
        taken.vector.map(|vector| (taken.hash, vector))
    }
}

#[cfg(test)]
mod tests;

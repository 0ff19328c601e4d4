//! The index as bytes: documents, chunks and words. Vectors are not among them, they are kept by text in the embedding cache.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use foreword_core::hash::Hash;
use foreword_core::item::ItemId;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::{Entry, Index, MAX_EMBEDDED_CHUNKS, Row};
use crate::chunk::Chunk;
use crate::keyword::{KeywordIndex, LoadError};

#[derive(Serialize)]
struct Saving<'a> {
    documents: Vec<(&'a ItemId, Option<Date>, &'a [u32])>,
    chunks: Vec<Option<&'a Chunk>>,
    keyword: Vec<u8>,
}

#[derive(Deserialize)]
struct Saved {
    documents: Vec<(ItemId, Option<Date>, Vec<u32>)>,
    chunks: Vec<Option<Chunk>>,
    keyword: Vec<u8>,
}

impl Index {
    /// Everything but the vectors.
    pub fn save(&self) -> Vec<u8> {
        let documents = self.documents.iter().map(|(id, entry)| (id, entry.date, entry.rows.as_slice())).collect();
        let chunks = self.rows.iter().map(|row| row.as_ref().map(|row| &row.chunk)).collect();
        postcard::to_stdvec(&Saving { documents, chunks, keyword: self.keyword.save() }).unwrap_or_default()
    }

    /// Reads [`Index::save`]'s bytes, believing nothing. Every chunk that gets a vector waits for it.
    pub fn load(bytes: &[u8]) -> Result<Self, LoadError> {
        let saved: Saved = postcard::from_bytes(bytes).map_err(|error| LoadError::Malformed(error.to_string()))?;
        let mut index = Self { keyword: KeywordIndex::load(&saved.keyword)?, changes: 1, ..Self::default() };
        let nobody = ItemId::note("");
        let row = |chunk: Chunk| Row { hash: Hash::of(&chunk.text), chunk, vector: None, owner: nobody.clone(), pair: None };
        index.rows = saved.chunks.into_iter().map(|chunk| chunk.map(row)).collect();
        let (mut owned, mut by_words) = (BTreeSet::new(), BTreeSet::new());
        for (id, date, rows) in saved.documents {
            if let Some(lost) = rows.iter().find(|row| index.row(**row).is_none() || !owned.insert(**row)) {
                return Err(LoadError::Malformed(format!("{id} refers to chunk {lost} of another document")));
            }
            for row in &rows {
                if let Some(Some(row)) = index.rows.get_mut(*row as usize) {
                    row.owner = id.clone();
                }
            }
            by_words.extend(rows.iter().skip(MAX_EMBEDDED_CHUNKS).copied());
            index.note_length(&id, rows.len());
            index.pair(&rows);
            index.series.add(&id);
            index.documents.insert(id, Entry { date, rows });
        }
        for (at, row) in (0..).zip(&index.rows) {
            match row {
                Some(_) if by_words.contains(&at) => {}
                Some(row) if owned.contains(&at) => {
                    index.waiting.insert((Reverse(index.changes), at));
                    index.waiting_by_text.entry(row.hash).or_default().push(at);
                    index.changed_by_row.insert(at, index.changes);
                }
                Some(_) => return Err(LoadError::Malformed(format!("chunk {at} belongs to no document"))),
                None => index.free.push(at),
            }
        }
        if index.keyword.len() > index.rows.len() {
            return Err(LoadError::Malformed("the keyword index refers to missing chunks".to_owned()));
        }
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Document, Query};

    fn index() -> Index {
        let mut index = Index::new();
        for (name, text) in [("a", "the red fox"), ("b", "the slow tortoise"), ("c", "gone again"), ("d", "a fox and a hare")] {
            let chunk = Chunk { text: text.to_owned(), range: 0..text.len(), ..Chunk::default() };
            index.put(Document { id: ItemId::note(name), date: "2026-11-15".parse().ok(), chunks: vec![chunk] });
        }
        index.remove(&ItemId::note("c"));
        index
    }

    #[test]
    fn what_was_saved_answers_the_same() {
        let index = index();
        let mut loaded = Index::load(&index.save()).unwrap();
        assert_eq!(loaded.save(), index.save());
        for words in ["fox", "tortoise", "gone", "hare and fox"] {
            assert_eq!(loaded.search(&Query::new(words)), index.search(&Query::new(words)), "{words}");
        }
        loaded.remove(&ItemId::note("d"));
        assert_eq!(loaded.search(&Query::new("hare")).hits, []);
    }

    #[test]
    fn broken_bytes_are_refused_or_harmless() {
        let bytes = index().save();
        for at in 0..bytes.len() {
            let _ = Index::load(&bytes[..at]);
            for bit in [1, 0x80] {
                let mut broken = bytes.clone();
                broken[at] ^= bit;
                if let Ok(mut loaded) = Index::load(&broken) {
                    let _ = loaded.search(&Query::new("red fox hare"));
                    loaded.remove(&ItemId::note("a"));
                    let _ = loaded.search(&Query::new("red fox hare"));
                }
            }
        }
    }
}

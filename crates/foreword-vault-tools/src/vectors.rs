//! Computes missing embeddings: from the cache if possible, otherwise with the model in small batches.

use std::ops::ControlFlow;
use std::path::Path;

use foreword_search::embeddings::{EmbeddingCache, Key};
use foreword_search::index::Index;
use foreword_search::{EmbedError, Embedder, Vector};

/// Texts per batch: enough to use the CPU well, few enough to stop quickly.
const BATCH: usize = 64;

/// The largest size of the cache, about 2.7 million vectors; the oldest are deleted first.
const MOST_BYTES: u64 = 4 << 30;

/// The result of computing embeddings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Embedding {
    /// Chunks without embeddings.
    pub left: usize,
    /// Why the model failed.
    pub failed: Option<EmbedError>,
    /// Why embeddings could not be saved or read.
    pub not_kept: Option<String>,
}

/// Computes embeddings for the chunks of `index`.
pub fn embed(
    index: &mut Index,
    folder: &Path,
    model: &dyn Embedder,
    watch: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Embedding {
    let mut outcome = Embedding::default();
    let mut cache = EmbeddingCache::open(folder, MOST_BYTES).map_err(|error| outcome.not_kept = Some(error.to_string())).ok();
    if let Some(cache) = &mut cache {
        from_cache(index, cache, model);
    }
    loop {
        let (total, done) = index.chunks();
        let texts: Vec<String> = index.pending(BATCH).into_iter().map(str::to_owned).collect();
        if texts.is_empty() || watch(done, total).is_break() {
            break;
        }
        let made = match model.embed(&texts.iter().map(String::as_str).collect::<Vec<_>>()) {
            Ok(made) => made,
            Err(failed) => {
                outcome.failed = Some(failed);
                break;
            }
        };
        for (text, vector) in texts.iter().zip(&made) {
            index.set_vector(text, vector);
        }
        if let Some(kept) = &mut cache {
            let entries: Vec<(Key, Vector)> = texts.iter().zip(made).map(|(text, vector)| (key(model, text), vector)).collect();
            if let Err(error) = kept.put_many(&entries) {
                outcome.not_kept = Some(error.to_string());
                cache = None;
            }
        }
    }
    let (total, done) = index.chunks();
    outcome.left = total - done;
    outcome
}

fn from_cache(index: &mut Index, cache: &mut EmbeddingCache, model: &dyn Embedder) {
    let texts: Vec<String> = index.pending(usize::MAX).into_iter().map(str::to_owned).collect();
    let keys: Vec<Key> = texts.iter().map(|text| key(model, text)).collect();
    for (text, vector) in texts.iter().zip(cache.get_many(&keys)) {
        if let Some(vector) = vector {
            index.set_vector(text, &vector);
        }
    }
}

/// The cache key depends on the text only, so equal chunks share their embedding.
fn key(model: &dyn Embedder, text: &str) -> Key {
    Key::of(model.id(), "", text)
}

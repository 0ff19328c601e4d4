//! Making vectors for what has none: from the cache where they were made before, else by the model, a little at a time.

use std::ops::ControlFlow;
use std::path::Path;

use foreword_search::embeddings::{EmbeddingCache, Key};
use foreword_search::index::Index;
use foreword_search::{EmbedError, Embedder, Vector};

/// So many texts go to the model at once: enough to keep it busy, few enough that stopping is quick.
const BATCH: usize = 64;

/// So much is kept on disk, about 2.7 million vectors; the oldest leave first.
const MOST_BYTES: u64 = 4 << 30;

/// How making vectors ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Embedding {
    /// Chunks that still have none.
    pub left: usize,
    /// Why the model stopped.
    pub failed: Option<EmbedError>,
    /// Why vectors are not kept, or those that were cannot be used.
    pub not_kept: Option<String>,
}

/// Gives the chunks of `index` their vectors.
pub(crate) fn embed(
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

/// The chunker's work is in the text itself, so two chunkers that cut the same text share its vector.
fn key(model: &dyn Embedder, text: &str) -> Key {
    Key::of(model.id(), "", text)
}

//! Sentence embeddings with all-MiniLM-L6-v2: texts with similar meaning get similar vectors.
//!
//! The model is small enough for its own implementation: six layers of matrix products, attention and normalization. It is fast
//! because it avoids padding, copies between layers, and locks between threads with separate texts.

mod encoder;
mod team;
mod tensors;
#[cfg(test)]
mod tests;
mod weights;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use pulp::Arch;
use serde_json::{Map, Value};

use crate::compute::team::on_threads;
use crate::wordpiece::{WordPiece, WordPieceError};
use encoder::Crew;
use team::Team;
use weights::{HEADS, HIDDEN, INNER, LAYERS, POSITIONS, SHARDS, WORDS, Weights};

/// Tokens that go through the layers at once: more would not stay in a core's own cache, fewer would read the weights more often.
const GROUP_TOKENS: usize = 256;

/// The longest `config.json` and `tokenizer.json` that are read.
const FILE_LIMIT: u64 = 8 << 20;

/// Why the model cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file cannot be read.
    #[error("cannot read the model file {path}: {source}; download the model again")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The table of tensors is damaged.
    #[error("the model file {path} has an invalid table of tensors ({found}); download the model again")]
    Table {
        /// The file.
        path: PathBuf,
        /// The error.
        found: String,
    },
    /// A tensor is not there, or not as it should be.
    #[error("the model file {path}: tensor `{name}` has {found}; download the model again")]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// What was found.
        found: String,
    },
    /// The configuration is not that of this model.
    #[error("the model's configuration {path}: `{field}` is {found}, expected {expected}; only all-MiniLM-L6-v2 is supported")]
    Config {
        /// The file.
        path: PathBuf,
        /// The field.
        field: &'static str,
        /// The value found.
        found: String,
        /// What should.
        expected: String,
    },
    /// The tokenizer cannot be used.
    #[error("cannot use the tokenizer {path}: {source}; download the model again")]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// The error.
        source: WordPieceError,
    },
}

/// The embedding model, ready to use. Opening it takes some tens of milliseconds and 90 MB.
pub struct MiniLm {
    arch: Arch,
    threads: NonZeroUsize,
    words: WordPiece,
    weights: Weights,
}

impl MiniLm {
    /// The model's name, which also changes when a text's vector would.
    pub const ID: &str = "all-MiniLM-L6-v2";
    /// The length of a vector.
    pub const DIMENSIONS: usize = HIDDEN;

    /// Opens the model in `folder`: `config.json`, `tokenizer.json`, `model.safetensors`. It works on as many threads as the
    /// machine has.
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        Self::open_on(folder, Arch::new())
    }

    /// Opens the model for these instructions of the processor.
    fn open_on(folder: &Path, arch: Arch) -> Result<Self, ModelError> {
        check_config(&folder.join("config.json"))?;
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let (words, weights) = std::thread::scope(|scope| {
            let words = scope.spawn(|| tokenizer(&folder.join("tokenizer.json")));
            let weights = Weights::open(&folder.join("model.safetensors"), arch, threads.get());
            (words.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), weights)
        });
        let (words, weights) = (words?, weights?);
        Ok(Self { arch, threads, words, weights })
    }

    /// The same model on `threads` threads.
    #[must_use]
    pub fn with_threads(self, threads: NonZeroUsize) -> Self {
        Self { threads, ..self }
    }

    /// The vector of each text, of length one. A text's vector is the same to the bit whatever texts come with it and however
    /// many threads there are. Of a long text the first 254 word pieces count.
    pub fn embed(&self, texts: &[&str]) -> Vec<[f32; HIDDEN]> {
        let tokens: Vec<Vec<u32>> = texts.iter().map(|text| self.words.encode(text)).collect();
        let mut vectors = vec![[0.0; HIDDEN]; texts.len()];
        let groups = groups(&tokens, self.threads.get());
        let embedded = match groups.as_slice() {
            [] => Vec::new(),
            [group] => vec![(group, self.together(&members(&tokens, group)))],
            groups => self.apart(&tokens, groups),
        };
        for (group, embedded) in embedded {
            for (text, vector) in group.iter().zip(embedded) {
                vectors[*text] = vector;
            }
        }
        vectors
    }

    /// Each thread takes one group after the other.
    fn apart<'a>(&self, tokens: &[Vec<u32>], groups: &'a [Vec<usize>]) -> Vec<(&'a Vec<usize>, Vec<[f32; HIDDEN]>)> {
        let next = AtomicUsize::new(0);
        let work = |_| {
            let mut done = Vec::new();
            while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((group, encoder::encode(&self.weights, self.arch, &members(tokens, group), Crew::Alone)));
            }
            done
        };
        on_threads(self.threads.get().min(groups.len()), work).into_iter().flatten().collect()
    }

    /// All threads work on the one group.
    fn together(&self, texts: &[&[u32]]) -> Vec<[f32; HIDDEN]> {
        let each = SHARDS.div_ceil(self.threads.get());
        let shards: Vec<usize> = (0..SHARDS).collect();
        let parts: Vec<&[usize]> = shards.chunks(each).collect();
        if parts.len() == 1 {
            return encoder::encode(&self.weights, self.arch, texts, Crew::Alone);
        }
        let team = Team::new(parts.len(), texts.iter().map(|text| text.len()).sum());
        let work = |thread: usize| {
            let _guard = team.guard();
            encoder::encode(&self.weights, self.arch, texts, Crew::Member(&team, parts[thread]))
        };
        on_threads(parts.len(), work).swap_remove(0)
    }
}

fn members<'a>(tokens: &'a [Vec<u32>], group: &[usize]) -> Vec<&'a [u32]> {
    group.iter().map(|text| tokens[*text].as_slice()).collect()
}

/// Which texts go through the layers together. Longest first, so that no thread starts on a large group when the others are done.
fn groups(tokens: &[Vec<u32>], threads: usize) -> Vec<Vec<usize>> {
    let total: usize = tokens.iter().map(Vec::len).sum();
    let limit = if total <= GROUP_TOKENS { GROUP_TOKENS } else { total.div_ceil(threads).min(GROUP_TOKENS) };
    let mut order: Vec<usize> = (0..tokens.len()).collect();
    order.sort_by_key(|text| std::cmp::Reverse(tokens[*text].len()));

    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut size = limit;
    for text in order {
        let length = tokens[text].len();
        if size + length > limit {
            groups.push(Vec::new());
            size = 0;
        }
        if let Some(group) = groups.last_mut() {
            group.push(text);
        }
        size += length;
    }
    groups
}

fn read(path: &Path) -> Result<Vec<u8>, ModelError> {
    let read = |source| ModelError::Read { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(read)?.len();
    if size > FILE_LIMIT {
        return Err(read(std::io::Error::other(format!("it has {size} bytes; the limit is {FILE_LIMIT}"))));
    }
    std::fs::read(path).map_err(read)
}

fn tokenizer(path: &Path) -> Result<WordPiece, ModelError> {
    let fault = |source| ModelError::Tokenizer { path: path.to_owned(), source };
    let words = WordPiece::new(&read(path)?).map_err(fault)?;
    if words.size() > WORDS {
        return Err(fault(WordPieceError::Size { found: words.size(), most: WORDS }));
    }
    Ok(words)
}

/// Other sizes would be another model, for which the code here is not written.
fn check_config(path: &Path) -> Result<(), ModelError> {
    let fault = |field, found: String, expected: &Value| ModelError::Config {
        path: path.to_owned(),
        field,
        found,
        expected: expected.to_string(),
    };
    let config = read(path)?;
    let config: Map<String, Value> =
        serde_json::from_slice(&config).map_err(|error| fault("(the file)", error.to_string(), &Value::from("a JSON object")))?;
    let expected: [(&str, Value); 9] = [
        ("model_type", "bert".into()),
        ("hidden_act", "gelu".into()),
        ("hidden_size", HIDDEN.into()),
        ("intermediate_size", INNER.into()),
        ("num_attention_heads", HEADS.into()),
        ("num_hidden_layers", LAYERS.into()),
        ("max_position_embeddings", POSITIONS.into()),
        ("vocab_size", WORDS.into()),
        ("layer_norm_eps", 1e-12.into()),
    ];
    for (field, expected) in expected {
        let found = config.get(field).unwrap_or(&Value::Null);
        if *found != expected {
            return Err(fault(field, found.to_string(), &expected));
        }
    }
    Ok(())
}

//! Search on the user's own machine: chunks, keywords, embeddings, and their combination.
//!
//! `chunk` splits items and notes; `words` and `keyword` are keyword search; `vectors` is semantic search; `fuse` combines both;
//! `index` combines everything for documents that change; `embeddings` caches embeddings by content; `period` parses time ranges.
//! The embedding model is behind [`Embedder`].

pub mod chunk;
pub mod embeddings;
pub mod fuse;
pub mod index;
pub mod keyword;
pub mod period;
pub mod vectors;
pub mod words;

/// The number of dimensions of a vector.
pub const DIMENSIONS: usize = 384;

/// An embedding: a vector of length 1.
pub type Vector = [f32; DIMENSIONS];

/// An embedding model.
pub trait Embedder {
    /// The ID of the model and its version. Embeddings of different models are never compared.
    fn id(&self) -> &str;

    /// Embeds texts; one vector per text, in order.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vector>, EmbedError>;
}

/// Why embedding failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EmbedError(pub String);

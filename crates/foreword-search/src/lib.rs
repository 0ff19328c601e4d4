//! The right items, found on the user's own machine: chunks, keywords, vectors, and how they are put together.
//!
//! `chunk` cuts items and notes; `words` and `keyword` find by words; `vectors` finds by meaning; `fuse` joins the two; `index` is
//! all of it over documents that come and go; `embeddings` keeps vectors by content so that nothing is embedded twice; `period`
//! reads time ranges. The model that makes vectors is behind [`Embedder`].

pub mod chunk;
pub mod embeddings;
pub mod fuse;
pub mod index;
pub mod keyword;
pub mod period;
pub mod vectors;
pub mod words;

/// How many numbers a vector has.
pub const DIMENSIONS: usize = 384;

/// A text's meaning, of length 1.
pub type Vector = [f32; DIMENSIONS];

/// What turns texts into vectors.
pub trait Embedder {
    /// Names the model and its version; vectors of different models are never compared.
    fn id(&self) -> &str;

    /// One vector a text, in order.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vector>, EmbedError>;
}

/// Why there are no vectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EmbedError(pub String);

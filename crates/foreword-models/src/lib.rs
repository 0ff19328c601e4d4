//! Models that run in this process, without a network once their weights are there.
//!
//! [`weights`] fetches the weights by name. [`minilm`] turns texts into vectors, with [`wordpiece`] as its tokenizer. [`chat_model`] is
//! the embedded chat model; [`gguf`] reads its file and [`bpe`] is its tokenizer, which [`open`] gives alone, for exact budgets.
//!
//! A model file comes from outside. Reading one allocates no more than its own size and stated limits, and any fault in it is
//! a typed error.

pub mod bpe;
pub mod chat_model;
mod compute;
pub mod gguf;
pub mod minilm;
mod split;
pub mod weights;
pub mod wordpiece;

use std::fs::File;
use std::path::{Path, PathBuf};

use bpe::{Bpe, VocabularyError};
use gguf::{GgufError, Metadata};

/// Why a model's tokenizer cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened.
    #[error("cannot open the model file {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is not a GGUF file that can be read.
    #[error("cannot read the model file {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: GgufError,
    },
    /// The file's tokenizer is not one that can be used.
    #[error("cannot use the tokenizer of the model file {path}: {source}")]
    Vocabulary {
        /// The file.
        path: PathBuf,
        /// The error.
        source: VocabularyError,
    },
}

/// The tokenizer of the GGUF file at `path`.
pub fn open(path: &Path) -> Result<Bpe, OpenError> {
    let file = File::open(path).map_err(|source| OpenError::Open { path: path.to_owned(), source })?;
    let metadata = Metadata::read(file).map_err(|source| OpenError::Read { path: path.to_owned(), source })?;
    Bpe::new(&metadata).map_err(|source| OpenError::Vocabulary { path: path.to_owned(), source })
}

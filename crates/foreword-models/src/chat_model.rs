//! The embedded chat model: SmolLM2-135M-Instruct from a GGUF file, run in this process on the CPU.
//!
//! It lets everything work without an account or a server. Any file with the same architecture, encodings and template can be used.
//! It is fast because weights keep the few bits of the file, and because a [`Chat`] evaluates only the new part of a prompt.

mod cache;
mod chat;
mod endings;
mod layers;
mod pace;
mod packed;
mod sampling;
mod shape;
mod stream;
mod template;
#[cfg(test)]
mod tests;
mod weights;

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use foreword_core::message::Role;
use foreword_core::tokens::Tokens;
use pulp::Arch;

use crate::bpe::{Bpe, VocabularyError};
use crate::gguf::{self, GgufError};
pub use chat::{Answer, Chat, End};
pub use sampling::Sampling;
use shape::Shape;
use template::Template;
use weights::Weights;

/// Why a model file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the model file {path}: {fault}; download the model again")]
pub struct ChatModelError {
    /// The file.
    pub path: PathBuf,
    /// The error.
    #[source]
    pub fault: Fault,
}

/// An error in a model file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Its start is not that of a GGUF file.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// Its tokenizer cannot be used.
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
    /// A setting is not one that can be computed with.
    #[error("`{key}` is {found}, expected {expected}")]
    Setting {
        /// The setting.
        key: String,
        /// The value found.
        found: String,
        /// What should.
        expected: String,
    },
    /// A tensor is not there, or not as it should be.
    #[error("tensor `{name}` has {found}")]
    Tensor {
        /// The tensor.
        name: String,
        /// What was found.
        found: String,
    },
    /// There are others than those of this architecture.
    #[error("{found} tensors, expected {expected}")]
    Tensors {
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// Its template is not known.
    #[error("its chat template is not that of SmolLM2, the only supported one")]
    Template,
    /// A token that the template writes is not there.
    #[error("the special token `{0}` is missing")]
    Token(String),
}

/// A chat model, ready to use. Opening it takes some tenths of a second and 100 MB.
pub struct ChatModel {
    arch: Arch,
    threads: NonZeroUsize,
    shape: Shape,
    bpe: Bpe,
    template: Template,
    weights: Weights,
}

/// Messages as the tokens that the model reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt(Vec<u32>);

impl Prompt {
    /// How many tokens there are.
    pub fn tokens(&self) -> Tokens {
        Tokens(self.0.len() as u64)
    }

    /// The tokens.
    pub fn ids(&self) -> &[u32] {
        &self.0
    }
}

impl ChatModel {
    /// Opens the model file at `path`. It works on as many threads as the machine has.
    pub fn open(path: &Path) -> Result<Self, ChatModelError> {
        Self::open_on(path, Arch::new()).map_err(|fault| ChatModelError { path: path.to_owned(), fault })
    }

    /// Opens the model for these instructions of the processor.
    fn open_on(path: &Path, arch: Arch) -> Result<Self, Fault> {
        let gguf::Tensors { metadata, table } = gguf::Tensors::read(File::open(path)?)?;
        let shape = Shape::new(&metadata)?;
        let template = Template::new(&metadata)?;
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let bpe = Bpe::new(&metadata)?;
        let weights = Weights::open(path, &table, &shape, arch, threads.get())?;
        Ok(Self { arch, threads, shape, bpe, template, weights })
    }

    /// The same model on `threads` threads.
    #[must_use]
    pub fn with_threads(self, threads: NonZeroUsize) -> Self {
        Self { threads, ..self }
    }

    /// How many tokens a prompt and its reply can have together.
    pub fn context(&self) -> Tokens {
        Tokens(self.shape.context as u64)
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Bpe {
        &self.bpe
    }

    /// `messages` as the model's own template writes them, up to where it speaks. Special tokens that are written out in a message are text.
    pub fn prompt(&self, messages: &[(Role, &str)]) -> Prompt {
        Prompt(self.template.write(&self.bpe, messages))
    }
}

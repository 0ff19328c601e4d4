//! What the tools of a session work with.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foreword_core::budget::Budget;
use foreword_core::select::Select;
use foreword_tools::write::{NoteFolder, Undone};
use jiff::Zoned;

use super::find::{Found, NOTES, Query, find};
use crate::corpus::Corpus;
use crate::embedding::EmbeddingModel;
use foreword_trust::places::Places;
use foreword_trust::{TrustError, VaultTrust};

/// So long a search may read new files and make vectors before it answers with what there is.
const PREPARING: Duration = Duration::from_secs(2);

/// However little room there is, an output says something.
const LEAST_PAGE: usize = 800;

/// However much room there is, an output is no book.
const MOST_PAGE: usize = 26_000;

/// The vault of a session with what finds things in it, shared by all that use it.
#[derive(Clone)]
pub struct VaultTools {
    corpus: Arc<Mutex<Corpus>>,
    meaning: Arc<EmbeddingModel>,
    places: Places,
    clock: Arc<dyn Fn() -> Zoned + Send + Sync>,
    page: usize,
    select: Select,
    searched: Arc<Mutex<Searched>>,
}

/// Warnings about searches, each reported once.
#[derive(Default)]
struct Searched {
    told: bool,
    warning: Option<String>,
}

impl VaultTools {
    /// A desk over `corpus`. A search by meaning loads the model of `meaning`; where that may take a fetch that somebody should see, it is
    /// loaded before. `clock` is asked for the time of each call.
    pub fn new(
        corpus: Arc<Mutex<Corpus>>,
        meaning: Arc<EmbeddingModel>,
        places: Places,
        clock: impl Fn() -> Zoned + Send + Sync + 'static,
    ) -> Self {
        let desk = Self { corpus, meaning, places, clock: Arc::new(clock), page: 0, select: NOTES, searched: Arc::default() };
        desk.with_output_chars(Budget::default().output_chars)
    }

    /// Limits outputs to this number of characters, up to 32 KiB: the session's limit for tool outputs. Longer outputs would be cut
    /// in the prompt, even when read again.
    #[must_use]
    pub fn with_output_chars(self, chars: usize) -> Self {
        // A fifth is for what is said about a text, and for what the fence may add to it.
        Self { page: (chars - chars / 5).clamp(LEAST_PAGE, MOST_PAGE), ..self }
    }

    /// With notes chosen in this way.
    #[must_use]
    pub fn with_select(self, select: Select) -> Self {
        Self { select, ..self }
    }

    /// A desk for one session, with its settings for outputs and notes, and its own warnings.
    #[must_use]
    pub fn for_session(&self, output_chars: usize, select: Select) -> Self {
        let own = Self { searched: Arc::default(), ..self.clone() };
        own.with_output_chars(output_chars).with_select(select)
    }

    /// How notes are chosen.
    pub fn select(&self) -> Select {
        self.select
    }

    /// The vault, locked. It stays usable after a panic.
    pub fn corpus(&self) -> MutexGuard<'_, Corpus> {
        self.corpus.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What time it is.
    pub fn now(&self) -> Zoned {
        (self.clock)()
    }

    /// How many bytes of a text one output shows.
    pub(super) fn page(&self) -> usize {
        self.page
    }

    /// The program's folders.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The notes of the vault, to be changed.
    pub(super) fn note_folder(&self, root: &Path) -> Result<NoteFolder, TrustError> {
        VaultTrust::open_or_restricted(&self.places, root).note_folder()
    }

    /// Takes back the last change that `writeNote` made to a note.
    pub fn undo(&self, path: &str) -> Result<Undone, String> {
        let mut corpus = self.corpus();
        let notes = self.note_folder(corpus.vault().root()).map_err(|error| error.to_string())?;
        let undone = notes.undo(path).map_err(|error| error.to_string())?;
        corpus.refresh_paths(&[path.to_owned()]);
        Ok(undone)
    }

    /// The same, for who keeps it.
    pub fn meaning_shared(&self) -> Arc<EmbeddingModel> {
        Arc::clone(&self.meaning)
    }

    /// The embedding model.
    pub fn meaning(&self) -> &EmbeddingModel {
        &self.meaning
    }

    fn warn(&self, warning: &str) {
        let mut searched = self.searched.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut searched.told, true) {
            searched.warning = Some(warning.to_owned());
        }
    }

    /// New warnings about searches.
    pub fn take_warning(&self) -> Option<String> {
        self.searched.lock().unwrap_or_else(PoisonError::into_inner).warning.take()
    }

    /// Finds sources in the vault as it is now. Without the embedding model it goes by words and says so.
    pub fn find(&self, query: &Query<'_>) -> Found {
        let mut corpus = self.corpus();
        let started = Instant::now();
        corpus.refresh();
        // Notes come first: at least half of the time is theirs.
        corpus.read_files(Some(started + PREPARING / 2), &mut |_, _| {});
        let loaded = self.meaning.load(&mut |_| ControlFlow::Continue(()));
        if let Err(why) = &loaded {
            self.warn(&format!("the notes are searched by words alone: {why}"));
        }
        let model = loaded.ok();
        let extent = corpus.extent();
        if let Some(model) = model
            && extent.embedded < extent.chunks
        {
            let mut in_time =
                |_, _| if started.elapsed() < PREPARING { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
            corpus.embed(model, &mut in_time);
        }
        find(&corpus, model, query)
    }
}

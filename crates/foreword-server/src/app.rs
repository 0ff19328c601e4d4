//! What all requests share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use foreword_engine::corpus::Corpus;
use foreword_engine::meaning::{Fetch, Meaning};
use foreword_engine::session::{Client, ClientConfig, Embedded, STORE, Script, Shared, Sqlite};
use foreword_engine::templates::Shelf;
use foreword_engine::tools::Desk as Notes;
use foreword_engine::vault::{Vault, open};
use jiff::Zoned;
use jiff::tz::TimeZone;
use tokio::sync::watch;

use crate::config::Config;
use crate::gateway::Gateway;
use crate::hub::Hub;
use crate::listen::ServeError;
use crate::problem::{INTERNAL, Problem, UNAVAILABLE};
use crate::rate::Rate;

/// How old the list of notes may be.
const FRESH: Duration = Duration::from_secs(2);

/// A running server.
pub(crate) struct App {
    pub(crate) config: Arc<Config>,
    pub(crate) common: Arc<Common>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) gateway: Gateway,
    pub(crate) rate: Option<Rate>,
    /// True when the server ends.
    pub(crate) end: watch::Sender<bool>,
}

impl App {
    pub(crate) fn new(config: Config) -> Result<Self, ServeError> {
        let config = Arc::new(config);
        if let Some(file) = &config.answers.script {
            Script::read(file)?;
        }
        let vault = open(&config.vault, &config.places)?;
        let root = vault.root().to_owned();
        // Made where it is not there yet, so that every later opening finds it.
        let store = Sqlite::open(&root.join(STORE))?;
        let common = Arc::new(Common {
            config: Arc::clone(&config),
            root,
            vault: Mutex::new((Arc::new(vault), Instant::now())),
            store: Shared::new(store)?,
            notes: Mutex::default(),
            embedded: Mutex::default(),
            clients: Mutex::default(),
            runtime: tokio::runtime::Handle::current(),
        });
        let hub = Hub::new(Arc::clone(&common), config.limits.sessions)?;
        let gateway = Gateway::new(&common.store);
        let rate = config.limits.requests_per_s.map(Rate::new);
        Ok(Self { config, common, hub, gateway, rate, end: watch::Sender::new(false) })
    }
}

/// What sessions and requests need of the world.
pub(crate) struct Common {
    pub(crate) config: Arc<Config>,
    /// The vault's folder.
    pub(crate) root: PathBuf,
    vault: Mutex<(Arc<Vault>, Instant)>,
    store: Shared,
    /// The notes and what finds them, once a session needed them.
    notes: Mutex<Option<Notes>>,
    /// The model that comes with Foreword, once it was needed: its weights are read once.
    pub(crate) embedded: Mutex<Option<Embedded>>,
    /// Providers that were spoken to, each with its connections.
    clients: Mutex<Vec<(ClientConfig, Arc<Client>)>>,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl Common {
    /// The vault, looked at again where that was some time ago and nobody is reading it.
    pub(crate) fn vault(&self) -> Arc<Vault> {
        let mut held = self.vault.lock().unwrap_or_else(PoisonError::into_inner);
        let (vault, looked) = &mut *held;
        if looked.elapsed() > FRESH
            && let Some(vault) = Arc::get_mut(vault)
        {
            vault.refresh();
            *looked = Instant::now();
        }
        Arc::clone(vault)
    }

    /// Where templates are looked for.
    pub(crate) fn shelf(&self) -> Shelf {
        Shelf::new(Some(&self.root), self.config.templates.as_deref())
    }

    /// The notes and what finds them, shared by all sessions.
    pub(crate) fn notes(&self) -> Result<Notes, Problem> {
        let mut held = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notes) = &*held {
            return Ok(notes.clone());
        }
        let places = self.config.places.clone();
        let corpus = Corpus::open(&self.root, &places, TimeZone::system()).map_err(|error| Problem::new(INTERNAL, error))?;
        let meaning = Meaning::new(&places.models, Fetch::Never);
        let notes = Notes::new(Arc::new(Mutex::new(corpus)), Arc::new(meaning), places, Zoned::now);
        *held = Some(notes.clone());
        Ok(notes)
    }

    /// The store, to open a session with: what sessions write at the same time reaches the disk together.
    pub(crate) fn store(&self) -> Shared {
        self.store.clone()
    }

    /// Who speaks to a provider, for all sessions.
    pub(crate) fn client(&self, config: ClientConfig) -> Result<Arc<Client>, Problem> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == config) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(Client::new(config.clone()).map_err(|error| Problem::new(UNAVAILABLE, error))?);
        clients.push((config, Arc::clone(&client)));
        Ok(client)
    }

    /// Does something with a store, on a thread that may wait.
    pub(crate) async fn with_store<T, F>(&self, work: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&mut Shared) -> Result<T, Problem> + Send + 'static,
    {
        let mut store = self.store();
        blocking(move || work(&mut store)).await
    }
}

/// Runs what may wait for a disk on a thread made for it.
pub(crate) async fn blocking<T, F>(work: F) -> Result<T, Problem>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Problem> + Send + 'static,
{
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Problem::new(INTERNAL, format!("it was not finished: {error}"))))
}

/// Waits for the end of the server.
pub(crate) async fn ended(end: &mut watch::Receiver<bool>) {
    // A sender that is gone is an end too.
    let _ = end.wait_for(|end| *end).await;
}

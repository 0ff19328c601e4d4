//! What all requests share.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use foreword_engine::clock;
use foreword_engine::session::{CancellationToken, Client, ClientConfig, Embedded, Health, Script, Shared, Sqlite};
use foreword_engine::vault::{Vault, open};
use foreword_templates::Shelf;
use foreword_trust::VaultTrust;
use foreword_trust::audit::Audit;
use foreword_vault_tools::corpus::Corpus;
use foreword_vault_tools::embedding::EmbeddingModel;
use foreword_vault_tools::{NoteFolder, VaultTools as Notes};
use jiff::tz::TimeZone;
use tokio::sync::watch;

use crate::config::Config;
use crate::gateway::Gateway;
use crate::hub::Hub;
use crate::keys::Keys;
use crate::listen::ServeError;
use crate::problem::{INTERNAL, Problem, UNAVAILABLE};
use crate::rate::Rates;

/// How old the list of notes may be.
const FRESH: Duration = Duration::from_secs(2);

/// A running server.
pub(crate) struct App {
    pub(crate) config: Arc<Config>,
    pub(crate) common: Arc<Common>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) gateway: Gateway,
    pub(crate) rates: Rates,
    /// Keys for the gateway.
    pub(crate) keys: Keys,
    /// Requests so far: each one has a number in the log.
    pub(crate) requests: AtomicU64,
    /// The port it listens on.
    pub(crate) port: u16,
    /// True when the server ends.
    pub(crate) end: watch::Sender<bool>,
}

impl App {
    pub(crate) fn new(config: Config, port: u16) -> Result<Self, ServeError> {
        let config = Arc::new(config);
        if let Some(file) = &config.answers.script {
            Script::read(file)?;
        }
        let vault = open(&config.vault, &config.places)?;
        let root = vault.root().to_owned();
        // Made where it is not there yet, so that every later opening finds it.
        let trust = VaultTrust::open(&config.places, &root)?;
        let state = trust.make_state()?;
        if let Err(error) = VaultTrust::open(&config.places, &root)?.bring_in_sessions() {
            eprintln!("{error}");
        }
        let store = Sqlite::open(&state.store())?;
        let common = Arc::new(Common {
            config: Arc::clone(&config),
            root,
            audit: Audit::new(&config.places.state),
            store_file: state.store(),
            note_folder: trust.note_folder()?,
            vault: Mutex::new((Arc::new(vault), Instant::now())),
            store: Shared::new(store)?,
            notes: Mutex::default(),
            embedded: Mutex::default(),
            clients: Mutex::default(),
            runtime: tokio::runtime::Handle::current(),
            ends: CancellationToken::new(),
        });
        watch_store(&common)?;
        let hub = Hub::new(Arc::clone(&common), config.limits.sessions, config.limits.rest)?;
        let gateway = Gateway::new(&common.store);
        let rates = Rates::new(&config.limits);
        let keys = Keys::new(&config.places.state);
        let requests = AtomicU64::new(1);
        Ok(Self { config, common, hub, gateway, rates, keys, requests, port, end: watch::Sender::new(false) })
    }
}

/// How often it is looked whether the store takes what it is given.
const LOOK: Duration = Duration::from_secs(1);

/// Reports on standard error when the store stops accepting writes, and when it accepts them again.
fn watch_store(common: &Arc<Common>) -> std::io::Result<()> {
    let (weak, mut was) = (Arc::downgrade(common), Health::Well);
    let look = move || {
        while let Some(common) = weak.upgrade() {
            let health = common.store.health();
            drop(common);
            if health.is_well() != was.is_well() {
                eprintln!("{}", told(&health));
                was = health;
            }
            thread::sleep(LOOK);
        }
    };
    thread::Builder::new().name("store health".to_owned()).spawn(look).map(drop)
}

fn told(health: &Health) -> String {
    match health {
        Health::Well => "the store accepts writes again".to_owned(),
        Health::Failing { why, .. } => format!(
            "NOTHING IS STORED: {why}. Clients of the gateway still get answers (x-foreword-stored: no); all other changes are refused until \
             this is fixed"
        ),
    }
}

/// What sessions and requests need of the world.
pub(crate) struct Common {
    pub(crate) config: Arc<Config>,
    /// The vault's folder.
    pub(crate) root: PathBuf,
    pub(crate) audit: Audit,
    /// The database of the vault's sessions.
    pub(crate) store_file: PathBuf,
    /// The notes of the vault, to be changed.
    pub(crate) note_folder: NoteFolder,
    vault: Mutex<(Arc<Vault>, Instant)>,
    store: Shared,
    /// The notes and what finds them, once a session needed them.
    notes: Mutex<Option<Notes>>,
    /// The model that comes with Foreword, once it was needed: its weights are read once.
    pub(crate) embedded: Mutex<Option<Embedded>>,
    /// Providers that were spoken to, each with its connections.
    clients: Mutex<Vec<(ClientConfig, Arc<Client>)>>,
    pub(crate) runtime: tokio::runtime::Handle,
    /// Cancelled when the server is about to end, before the turns that run are stopped.
    pub(crate) ends: CancellationToken,
}

impl Common {
    /// The vault. Its list of notes is read again once it is too old.
    pub(crate) fn vault(&self) -> Arc<Vault> {
        self.vault_once(|_, looked| looked.elapsed() > FRESH)
    }

    /// The same, read again also if one of these notes is not in it: a note can be newer than the list.
    pub(crate) fn vault_with(&self, wanted: &[&str]) -> Arc<Vault> {
        self.vault_once(|vault, looked| looked.elapsed() > FRESH || wanted.iter().any(|wanted| vault.attachment(wanted).is_err()))
    }

    /// The same, read again now.
    pub(crate) fn vault_now(&self) -> Arc<Vault> {
        self.vault_once(|_, _| true)
    }

    fn vault_once(&self, is_stale: impl FnOnce(&Vault, Instant) -> bool) -> Arc<Vault> {
        let mut held = self.vault.lock().unwrap_or_else(PoisonError::into_inner);
        let (vault, looked) = &mut *held;
        if is_stale(vault, *looked) {
            if let Some(vault) = Arc::get_mut(vault) {
                vault.refresh();
                *looked = Instant::now();
            } else if let Ok(opened) = open(&self.root, &self.config.places) {
                // Others still read the old list; they keep it.
                *vault = Arc::new(opened);
                *looked = Instant::now();
            }
        }
        Arc::clone(vault)
    }

    /// Where templates are looked for.
    pub(crate) fn shelf(&self) -> Shelf {
        Shelf::new(Some(&self.root), self.trust().templates(), self.config.templates.as_deref())
    }

    /// The user's decisions about the vault, as they are now.
    pub(crate) fn trust(&self) -> VaultTrust {
        VaultTrust::open_or_restricted(&self.config.places, &self.root)
    }

    /// The notes and what finds them, shared by all sessions.
    pub(crate) fn notes(&self) -> Result<Notes, Problem> {
        let mut held = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notes) = &*held {
            return Ok(notes.clone());
        }
        let places = self.config.places.clone();
        let corpus = Corpus::open(&self.root, &places, TimeZone::system()).map_err(|error| Problem::new(INTERNAL, error))?;
        let meaning = EmbeddingModel::new(&places.models, self.config.weights.clone());
        let notes = Notes::new(Arc::new(Mutex::new(corpus)), Arc::new(meaning), places, clock::zoned);
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
        // A log that cannot be written does not keep people from their model.
        self.audit.url(config.address(), "model");
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
        .unwrap_or_else(|error| Err(Problem::new(INTERNAL, format!("the operation failed: {error}"))))
}

/// Waits for the end of the server.
pub(crate) async fn ended(end: &mut watch::Receiver<bool>) {
    // A sender that is gone is an end too.
    let _ = end.wait_for(|end| *end).await;
}

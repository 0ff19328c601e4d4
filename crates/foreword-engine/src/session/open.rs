//! Creates and opens sessions.

use std::path::Path;
use std::sync::Arc;

use foreword_core::catalog::Agent;
use foreword_core::envelope::Envelope;
use foreword_core::message::Message;
use foreword_core::session::{Due, Input, InputError, Session, TurnInput};
use foreword_prompt_cache::lifetime::{Asked, Lifetimes, Terms};
use foreword_provider::render::Renderer;
use foreword_provider::stream::Ttl;
use foreword_store::{Counts, Document, Health, Lease, NewSession, SessionRow, Sqlite, Store, StoreError};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::checkpoint;
use super::chronicle::saved;
use super::ending::Ending;
use super::inspect;
use super::log_entry::{ENDED, History, LogEntry};
use super::recorded::RecordedSession;
use super::request::{Pending, Sent};
use super::setup::{Setup, SetupError};
use super::stop::Stopper;
use super::turn::Mode;
use foreword_vault_tools::chats::Chats;

/// Why a session cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenSessionError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The setup is invalid.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A stored input is invalid.
    #[error("cannot replay session {0}: {1}")]
    Input(String, InputError),
    /// A log entry cannot be read.
    #[error("cannot read entry {1} of session {0}: {2}; a newer version of Foreword may have written it")]
    Entry(String, u64, String),
}

impl RecordedSession {
    /// Creates a session. Fails if the store does not accept writes.
    pub fn begin(
        store: Box<dyn Store>,
        id: &str,
        agent: &Agent,
        setup: &Setup,
        models: Option<&Path>,
        chats: Option<Chats>,
        now_ms: i64,
    ) -> Result<Self, OpenSessionError> {
        Self::begin_if(store, id, agent, setup, models, chats, now_ms, |_| false)
    }

    /// Creates a session even if the store does not accept writes: it is held in memory until a write succeeds.
    pub fn begin_held(
        store: Box<dyn Store>,
        id: &str,
        agent: &Agent,
        setup: &Setup,
        models: Option<&Path>,
        now_ms: i64,
    ) -> Result<Self, OpenSessionError> {
        Self::begin_if(store, id, agent, setup, models, None, now_ms, |error| Health::of(error).is_some())
    }

    #[allow(clippy::too_many_arguments)] // each of them is another thing
    fn begin_if(
        mut store: Box<dyn Store>,
        id: &str,
        agent: &Agent,
        setup: &Setup,
        models: Option<&Path>,
        chats: Option<Chats>,
        now_ms: i64,
        is_held: impl Fn(&StoreError) -> bool,
    ) -> Result<Self, OpenSessionError> {
        let wrong = |error: serde_json::Error| OpenSessionError::Entry(id.to_owned(), 0, error.to_string());
        let new = NewSession {
            id: id.to_owned(),
            title: None,
            created_ms: now_ms,
            agent: Document::of(agent).map_err(wrong)?,
            setup: Document::of(setup).map_err(wrong)?,
        };
        let session = Session::new(agent.clone(), setup.settings.clone(), setup.open_tokenizer(models)?);
        let session = session.map_err(|error| OpenSessionError::Input(id.to_owned(), error))?;
        let (agent, stored) = (new.agent.hash(), serde_json::to_value(setup).map_err(wrong)?);
        let (lease, unbegun, failing) = match store.begin(&new) {
            Ok(lease) => (lease, None, Health::Well),
            Err(error) if is_held(&error) => (Lease::default(), Some(new), Health::of(&error).unwrap_or(Health::Well)),
            Err(error) => return Err(error.into()),
        };
        let row = SessionRow {
            id: id.to_owned(),
            title: None,
            created_ms: now_ms,
            touched_ms: now_ms,
            agent,
            setup: stored,
            forked_from: None,
            transcript: None,
            counts: Counts::default(),
            taken: Counts::default(),
        };
        let mut kept = Self::after(Past::new(session, setup.clone(), Counts::default()), store, lease, row, chats)?;
        (kept.unbegun, kept.failing) = (unbegun, failing);
        Ok(kept)
    }

    /// Opens a session by replaying its log from the last checkpoint. An unfinished reply becomes a message that is marked as
    /// incomplete.
    pub fn open(store: Box<dyn Store>, id: &str, models: Option<&Path>, chats: Option<Chats>) -> Result<Self, OpenSessionError> {
        let row = store.session(id)?;
        let lease = store.lease(id)?;
        // Another process may have written until it let go of it.
        let row = SessionRow { counts: store.session(id)?.counts, ..row };
        let setup: Setup = serde_json::from_value(row.setup.clone())
            .map_err(|error| OpenSessionError::Entry(id.to_owned(), 0, format!("its settings: {error}")))?;
        let restored = store.checkpoint(id)?.and_then(|checkpoint| {
            let (setup, session) = checkpoint::restore(&checkpoint.body, models)?;
            Some((setup, session, checkpoint.counts))
        });
        let (setup, session, from) = if let Some(restored) = restored {
            restored
        } else {
            let tokenizer = setup.open_tokenizer(models)?;
            let agent: Agent = serde_json::from_value(store.agent(row.agent)?)
                .map_err(|error| OpenSessionError::Entry(id.to_owned(), 0, format!("its agent: {error}")))?;
            let session = Session::new(agent, setup.settings.clone(), tokenizer);
            (setup, session.map_err(|error| OpenSessionError::Input(id.to_owned(), error))?, Counts::default())
        };
        let mut past = Past::new(session, setup, from);
        past.replay(&*store, &row, models)?;
        let mut kept = Self::after(past, store, lease, row, chats)?;
        kept.finish_reply()?;
        Ok(kept)
    }

    /// The session after its log was replayed.
    fn after(
        mut past: Past,
        store: Box<dyn Store>,
        lease: Lease,
        row: SessionRow,
        chats: Option<Chats>,
    ) -> Result<Self, StoreError> {
        let setup = past.setup.clone();
        let checkpoint_turns = past.checkpoint_turns;
        let stored = row.counts.requests.checked_sub(1).filter(|_| past.requests <= row.counts.requests);
        let pending = past.last.take().map(|envelope| Pending { envelope, stored });
        let (sent, lifetimes) = past.sent(&*store, &row)?.map_or((None, None), |(sent, lifetimes)| (Some(sent), lifetimes));
        Ok(Self {
            lease,
            model: Arc::new(setup.model.clone()),
            renderer: Renderer::new(setup.dialect),
            sent,
            before_last: None,
            last_answer: None,
            answered_ms: None,
            lifetimes: lifetimes.unwrap_or_default(),
            session: past.session,
            saved: saved(&row),
            counts: row.counts,
            chats,
            entries: None,
            due: false,
            pending,
            mode: past.mode,
            asked: past.asked,
            backlog: Vec::new(),
            checkpoint_turns,
            failures: Vec::new(),
            unbegun: None,
            must_store: false,
            failing: Health::Well,
            stopper: Stopper::default(),
            ends: CancellationToken::new(),
            manager: None,
            view: None,
            row,
            setup,
            store,
        })
    }

    /// A copy for a preview. It has no history manager and stores nothing.
    pub(super) fn copy(&self) -> Result<Self, StoreError> {
        let past = Past { mode: self.mode, ..Past::new(self.session.clone(), self.setup.clone(), Counts::default()) };
        let row = SessionRow { counts: Counts::default(), transcript: None, ..self.row.clone() };
        let mut copy = Self::after(past, Box::new(Sqlite::in_memory()?), Lease::default(), row, None)?;
        copy.sent.clone_from(&self.sent);
        if let Some(sent) = &mut copy.sent {
            sent.context = Some(self.items_of(self.sent.as_ref()));
        }
        copy.last_answer.clone_from(&self.last_answer);
        (copy.counts, copy.answered_ms, copy.lifetimes) = (self.counts, self.answered_ms, self.lifetimes);
        Ok(copy)
    }

    /// Turns an unfinished reply into a message.
    fn finish_reply(&mut self) -> Result<(), OpenSessionError> {
        let parts = self.store.parts(&self.row.id)?;
        if parts.is_empty() {
            return Ok(());
        }
        let at_ms = self.row.touched_ms;
        self.pending = None;
        let reply = Input::Assistant { text: parts.concat(), calls: Vec::new(), opaque: Vec::new() };
        self.replied(reply, at_ms, true, None).map_err(|error| OpenSessionError::Input(self.row.id.clone(), error))?;
        self.store_told(&LogEntry::Ending(Ending::Interrupted), at_ms, false, Vec::new());
        self.checkpoint(at_ms);
        self.save_transcript(at_ms);
        Ok(())
    }

    /// Restores the prompt of the last request by rendering it again.
    pub fn recall_prompt(&mut self) -> Result<(), StoreError> {
        let Some(sent) = self.sent.as_mut().filter(|sent| sent.prompt.is_none()) else { return Ok(()) };
        sent.prompt = Some(inspect::body(&*self.store, &self.row.id, sent.number)?.prompt);
        Ok(())
    }
}

/// A session while its log is replayed.
struct Past {
    session: Session,
    setup: Setup,
    from: Counts,
    requests: u64,
    /// The envelope of the last request, if no input follows it.
    last: Option<Envelope>,
    /// The messages of the last stored request. Later inputs may lay them out again.
    messages: Vec<Arc<Message>>,
    checkpoint_turns: usize,
    mode: Mode,
    /// The words of an unfinished turn.
    asked: Option<TurnInput>,
}

impl Past {
    fn new(session: Session, setup: Setup, from: Counts) -> Self {
        let checkpoint_turns = if from == Counts::default() { 0 } else { session.turns() };
        Self {
            requests: from.requests,
            session,
            setup,
            from,
            last: None,
            messages: Vec::new(),
            checkpoint_turns,
            mode: Mode::default(),
            asked: None,
        }
    }

    fn replay(&mut self, store: &dyn Store, row: &SessionRow, models: Option<&Path>) -> Result<(), OpenSessionError> {
        self.look(row);
        let mut entries = store.log(&row.id, self.from.inputs)?.into_iter().peekable();
        while let Some(entry) = entries.next() {
            // Nothing was asked where a turn ended.
            let ended = entries.peek().is_some_and(|next| next.kind == ENDED);
            let told = LogEntry::read(&entry.kind, entry.body)
                .map_err(|error| OpenSessionError::Entry(row.id.clone(), entry.number, error.to_string()))?;
            match &told {
                LogEntry::Asked(turn) => self.asked = Some(TurnInput::clone(turn)),
                LogEntry::Mode(mode) => self.mode = *mode,
                LogEntry::History(History { policy, template }) => {
                    self.session.change_history(policy.clone());
                    self.setup.settings.history = policy.clone();
                    self.setup.template.clone_from(template);
                }
                LogEntry::Settings(setup) => {
                    self.session.change_settings(&setup.settings);
                    self.setup = Setup { settings: self.session.settings().clone(), ..Setup::clone(setup) };
                }
                _ => {}
            }
            let built = match told {
                LogEntry::Model(setup) => self.change_model(*setup, models)?,
                told => {
                    let Some(input) = told.input() else { continue };
                    // A summary comes between the words and the turn.
                    if !matches!(input, Input::Managed { .. }) {
                        self.asked = None;
                    }
                    let wrong = |error| OpenSessionError::Input(row.id.clone(), error);
                    if ended {
                        self.session.apply(input).map_err(wrong)?;
                        None
                    } else {
                        self.session.repeat(input).map_err(wrong)?
                    }
                }
            };
            self.last = None;
            if let Some(envelope) = built {
                self.requests += 1;
                self.last = Some(envelope);
                self.look(row);
            }
        }
        self.session.take_outbox();
        Ok(())
    }

    fn change_model(&mut self, setup: Setup, models: Option<&Path>) -> Result<Option<Envelope>, SetupError> {
        let due = self.session.change_model(&setup.settings, setup.open_tokenizer(models)?);
        self.setup = Setup { settings: self.session.settings().clone(), ..setup };
        Ok(if due == Due::Request { self.session.request().ok() } else { None })
    }

    fn look(&mut self, row: &SessionRow) {
        if self.requests == row.counts.requests {
            self.messages = self.session.messages().to_vec();
        }
    }

    /// The last request that is stored, with its messages where they are in this session's own branch.
    fn sent(&self, store: &dyn Store, row: &SessionRow) -> Result<Option<(Sent, Option<Lifetimes>)>, StoreError> {
        let Some(number) = row.counts.requests.checked_sub(1) else { return Ok(None) };
        let request = store.request(&row.id, number)?;
        let own = number >= row.taken.requests;
        let cut = request.record.get("cut").and_then(Value::as_u64).and_then(|cut| usize::try_from(cut).ok()).unwrap_or(0);
        let count = request.messages.filter(|_| own).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        // A checkpoint may have been taken after the reply, which stands behind them.
        let messages = self.messages.get(..count).map(<[_]>::to_vec).unwrap_or_default();
        let same = unchanged(store, row, number, &messages)?;
        let messages = if same { messages } else { Vec::new() };
        let context = (!own).then(Vec::new);
        let ttl = request.record.pointer("/options/message_ttl").and_then(|ttl| Ttl::deserialize(ttl).ok()).unwrap_or_default();
        let chosen_by = request.record.get("lifetimes").and_then(|value| <(Lifetimes, Asked)>::deserialize(value).ok());
        let asked = chosen_by.map(|(_, asked)| asked).unwrap_or_default();
        let lifetimes = chosen_by.zip(Terms::of(&self.setup.model)).map(|((mut lifetimes, asked), terms)| {
            lifetimes.foretold(&terms, &asked, ttl);
            lifetimes
        });
        let sent = Sent { number, at_ms: request.at_ms, messages, cut, epoch: request.epoch, prompt: None, context, asked, ttl };
        Ok(Some((sent, lifetimes)))
    }
}

/// Whether the messages match the stored ones. Another version may render some differently; then all are stored again.
fn unchanged(store: &dyn Store, row: &SessionRow, number: u64, messages: &[Arc<Message>]) -> Result<bool, StoreError> {
    let hashes = store.message_hashes(&row.id, number)?;
    // Hashing all of them would cost more than it is worth: the newest ones tell.
    let newest = messages.iter().zip(&hashes).rev().take(4).chain(messages.iter().zip(&hashes).take(1));
    let mut same = messages.len() == hashes.len();
    for (message, hash) in newest {
        same &= Document::of(&**message).is_ok_and(|document| document.hash() == *hash);
    }
    Ok(same)
}

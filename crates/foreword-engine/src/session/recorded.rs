//! A recorded session: every input is stored before it is applied, and every request before it is sent.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use foreword_core::catalog::{Agent, Include};
use foreword_core::item::Kind;
use foreword_core::session::{Due, Input, InputError, Session, TurnInput};
use foreword_core::tokens::Tokens;
use foreword_prompt_cache::lifetime::{Lifetimes, Terms};
use foreword_provider::cost::{cost, output_cost, uncached_cost};
use foreword_provider::model::Model;
use foreword_provider::render::Renderer;
use foreword_provider::stream::PromptStream;
use foreword_store::{Checkpoint, Counts, Entry, Health, Lease, NewSession, SessionRow, Store, StoreError, Usage, Write};
use foreword_vault::transcript;
use tokio_util::sync::CancellationToken;

use super::breaks::{Before, diagnose, on_record};
use super::checkpoint;
use super::chronicle;
use super::log_entry::LogEntry;
use super::request::{Outgoing, Pending, Sent};
use super::setup::{Setup, SetupError};
use super::speak::{Reply, Spent};
use super::stop::Stopper;
use super::turn::Mode;
use crate::manager::{Manager, View};
use foreword_vault_tools::chats::{Chats, Edit, Saved};

/// The smallest number of turns between checkpoints; also at least an eighth of all turns.
const CHECKPOINT_TURNS: usize = 64;

/// So many requests in a row without anything from the cache are no accident.
const DEAD_CACHE: usize = 3;

/// Whether the cache served nothing of a prompt that was large enough and began with the one before it.
fn is_unserved(usage: &Usage, model: &Model) -> bool {
    usage.read == 0 && usage.broke.is_none() && usage.model == model.name && usage.uncached + usage.write >= model.cache.minimum()
}

/// Something could not be stored. The turn goes on, and what is missing is tried again with the next write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

/// A session with its store.
#[derive(Debug)]
pub struct RecordedSession {
    pub(super) store: Box<dyn Store>,
    pub(super) lease: Lease,
    pub(super) row: SessionRow,
    pub(super) setup: Setup,
    pub(super) model: Arc<Model>,
    pub(super) session: Session,
    pub(super) renderer: Renderer,
    pub(super) chats: Option<Chats>,
    pub(super) saved: Option<Saved>,
    /// The messages of the transcript, once they were needed.
    pub(super) entries: Option<Vec<transcript::Entry>>,
    pub(super) sent: Option<Sent>,
    /// The time, history start and prompt of the request before the last one.
    pub(super) before_last: Option<(i64, usize, Option<PromptStream>)>,
    /// The provider's ID of the last answer.
    pub(super) last_answer: Option<String>,
    /// When it was complete.
    pub(super) answered_ms: Option<i64>,
    /// What decides for how long cache marks are remembered.
    pub(super) lifetimes: Lifetimes,
    /// Whether a request is due and not yet built.
    pub(super) due: bool,
    /// A request without an answer: the session was closed, or the model failed.
    pub(super) pending: Option<Pending>,
    pub(super) mode: Mode,
    /// Words that are stored but not yet part of a turn.
    pub(super) asked: Option<TurnInput>,
    pub(super) counts: Counts,
    /// Unsaved writes: they failed, or wait for the next write.
    pub(super) backlog: Vec<Write>,
    pub(super) checkpoint_turns: usize,
    pub(super) failures: Vec<Failure>,
    /// The session's first record, if the store could not save it yet. The next write tries again.
    pub(super) unbegun: Option<NewSession>,
    /// Whether a message is rejected if it cannot be stored.
    pub(super) must_store: bool,
    /// Why the last write failed.
    pub(super) failing: Health,
    /// Stops the turn that runs.
    pub(super) stopper: Stopper,
    /// Cancelled when the process is about to end.
    pub(super) ends: CancellationToken,
    /// Writes the summaries of a managed history.
    pub(super) manager: Option<Manager>,
    pub(super) view: Option<View>,
}

impl Drop for RecordedSession {
    fn drop(&mut self) {
        // Before the lease goes: whoever has it next must find everything.
        if !self.settle() {
            self.store.hold(&self.row.id, std::mem::take(&mut self.lease));
        }
    }
}

impl RecordedSession {
    /// The session's ID.
    pub fn id(&self) -> &str {
        &self.row.id
    }

    /// The session's row in the store.
    pub fn row(&self) -> &SessionRow {
        &self.row
    }

    /// The session's state.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The session's setup.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The session's store.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Continues with another handle on the same store.
    pub fn set_store(&mut self, store: Box<dyn Store>) {
        self.store = store;
    }

    /// Retries failed writes. Returns whether everything is stored and visible to other processes.
    pub fn settle(&mut self) -> bool {
        self.write([]);
        self.is_stored() && self.store.settle(Some(&self.row.id)).is_ok()
    }

    /// The number of stored inputs and requests.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The write failures since the last call.
    pub fn take_failures(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.failures)
    }

    /// Whether every input is stored.
    pub fn is_stored(&self) -> bool {
        self.backlog.is_empty() && self.unbegun.is_none()
    }

    /// Whether every input would survive the end of the process, or why not.
    pub fn health(&self) -> Health {
        match (&self.failing, self.is_stored()) {
            (_, true) => Health::Well,
            (Health::Well, false) => Health::Failing { full: false, why: "not written yet".to_owned() },
            (failing, false) => failing.clone(),
        }
    }

    /// From now on, a message that cannot be stored is rejected: its turn ends with [`super::TurnError::NotStored`].
    pub fn must_store(&mut self) {
        self.must_store = true;
    }

    /// Sets what stops the turns of this session.
    pub fn set_stopper(&mut self, stopper: Stopper) {
        self.stopper = stopper;
    }

    /// Sets the token for the end of the process. An answer that is stopped after that was not stopped by the user.
    pub fn heed_end(&mut self, ends: CancellationToken) {
        self.ends = ends;
    }

    /// Discards unsaved writes. The session must be opened again.
    pub fn discard_unstored(mut self) {
        self.backlog.clear();
    }

    /// The prompt of the last request, if it is known.
    pub fn last_prompt(&self) -> Option<(i64, &PromptStream)> {
        self.sent.as_ref().and_then(|sent| Some((sent.at_ms, sent.prompt.as_ref()?)))
    }

    /// The time of the last request.
    pub fn last_request_ms(&self) -> Option<i64> {
        self.sent.as_ref().map(|sent| sent.at_ms)
    }

    /// Applies an input and stores it.
    pub fn tell(&mut self, input: Input, at_ms: i64) -> Result<Due, InputError> {
        let due = self.record(input, at_ms);
        self.write([]);
        due
    }

    /// Applies an input that is stored with the next write.
    pub(super) fn record(&mut self, input: Input, at_ms: i64) -> Result<Due, InputError> {
        self.session.check(&input)?;
        self.record_entry(&LogEntry::Input(input.clone()), at_ms, false, Vec::new());
        let due = self.session.apply(input)?;
        self.keep_outputs();
        Ok(due)
    }

    /// Changes the agent. Tools with the include mode `always` join the session.
    pub fn change_agent(&mut self, agent: Agent, at_ms: i64) -> Result<(), InputError> {
        self.tell(Input::Agent(Box::new(agent)), at_ms)?;
        let tools = self.session.agent().items().into_iter().filter(|item| item.id.kind() == Kind::Tool);
        let always = tools.filter(|item| item.include == Include::Always).map(|item| item.id);
        let members: BTreeSet<_> = self.session.members().collect();
        let joining: Vec<_> = always.filter(|id| !members.contains(id)).collect();
        for id in joining {
            self.tell(Input::Add(id), at_ms)?;
        }
        Ok(())
    }

    /// The session's mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Changes the mode.
    pub fn set_mode(&mut self, mode: Mode, at_ms: i64) {
        if self.mode != mode {
            self.mode = mode;
            self.store_told(&LogEntry::Mode(mode), at_ms, false, Vec::new());
        }
    }

    /// Changes the title, also in the session's file.
    pub fn rename(&mut self, title: &str, at_ms: i64) {
        self.row.title = Some(title.to_owned());
        self.write([Write::Title(title.to_owned())]);
        self.save_transcript(at_ms);
    }

    /// Changes the model; its tokenizer may need a file from `models`. A request without an answer is built again.
    pub fn change_model(&mut self, setup: Setup, models: Option<&Path>, at_ms: i64) -> Result<(), SetupError> {
        let tokenizer = setup.open_tokenizer(models)?;
        self.store_told(&LogEntry::Model(Box::new(setup.clone())), at_ms, false, Vec::new());
        let due = self.session.change_model(&setup.settings, tokenizer);
        self.model = Arc::new(setup.model.clone());
        self.renderer = Renderer::new(setup.dialect);
        self.setup = Setup { settings: self.session.settings().clone(), ..setup };
        self.pending = None;
        self.last_answer = None;
        // Another model is another cache.
        self.lifetimes = Lifetimes::default();
        if due == Due::Request
            && let Ok(outgoing) = self.request(at_ms)
        {
            self.pending = Some(Pending { envelope: outgoing.envelope, stored: Some(outgoing.number) });
        }
        Ok(())
    }

    /// Whether a request has no answer yet.
    pub fn is_unanswered(&self) -> bool {
        self.pending.is_some() || self.asked.is_some()
    }

    /// Imports a conversation. A request is due if it ends with tool results.
    pub fn import(&mut self, lines: Vec<chronicle::Line>, at_ms: i64) -> Result<(), InputError> {
        let told = LogEntry::Imported(lines);
        if let Some(input) = told.clone().input() {
            self.session.check(&input)?;
            self.store_told(&told, at_ms, false, Vec::new());
            self.due = self.session.apply(input)? == Due::Request;
            self.keep_outputs();
        }
        Ok(())
    }

    /// Applies a reply and stores it with its usage.
    pub(super) fn replied(&mut self, input: Input, at_ms: i64, cut_off: bool, used: Option<Usage>) -> Result<Due, InputError> {
        let usage = used.zip(self.sent.as_ref().map(|sent| sent.number)).map(|(used, number)| Write::Usage(number, used));
        self.session.check(&input)?;
        // The reply holds its parts.
        self.backlog.retain(|write| !matches!(write, Write::Part(_)));
        self.record_entry(&LogEntry::Input(input.clone()), at_ms, cut_off, usage.into_iter().collect());
        let due = self.session.apply(input)?;
        self.keep_outputs();
        Ok(due)
    }

    /// Records a part of a reply. Returns whether everything before it is stored.
    pub(super) fn record_part(&mut self, text: &str) -> bool {
        let is_stored = self.backlog.is_empty();
        match self.backlog.last_mut() {
            Some(Write::Part(parts)) => parts.push_str(text),
            _ => self.backlog.push(Write::Part(text.to_owned())),
        }
        is_stored
    }

    /// Stores a log entry.
    pub(super) fn store_told(&mut self, told: &LogEntry, at_ms: i64, cut_off: bool, more: Vec<Write>) {
        self.record_entry(told, at_ms, cut_off, more);
        self.write([]);
    }

    /// Records a log entry that is stored with the next write.
    pub(super) fn record_entry(&mut self, told: &LogEntry, at_ms: i64, cut_off: bool, more: Vec<Write>) {
        let is_turn = matches!(told, LogEntry::Input(Input::Turn(_)));
        let turns = self.session.turns();
        let run = if is_turn { turns } else { turns.saturating_sub(1) } as u64;
        let (kind, body) = match told.parts() {
            Ok(parts) => parts,
            Err(error) => return self.fail(format!("an input cannot be stored: {error}")),
        };
        let words = match told {
            LogEntry::Input(Input::Turn(turn)) => Some(&turn.words),
            // A client's conversation that begins here in its middle is called after its beginning.
            LogEntry::Imported(lines) => lines.iter().find(|line| line.goes_on).map(|line| &line.text),
            _ => None,
        };
        if let (None, Some(words)) = (&self.row.title, words) {
            let title = transcript::title(words);
            self.row.title = Some(title.clone());
            self.backlog.push(Write::Title(title));
        }
        if let Some(entries) = &mut self.entries {
            chronicle::add(entries, told, at_ms, cut_off);
        }
        self.backlog.extend(std::iter::once(Write::Input(Entry { kind, run, at_ms, cut_off, body })).chain(more));
    }

    pub(super) fn keep_outputs(&mut self) {
        let outputs: Vec<Write> =
            self.session.take_outbox().into_iter().map(|(_, text)| Write::Output(text.to_string())).collect();
        self.backlog.extend(outputs);
    }

    /// Stores new writes and those that failed before.
    pub(super) fn write(&mut self, writes: impl IntoIterator<Item = Write>) {
        self.backlog.extend(writes);
        if self.is_stored() {
            return;
        }
        let written = self.begin_again().and_then(|()| self.store.note(&self.row.id, self.counts, &mut self.backlog));
        match written {
            Ok(counts) => self.counts = counts,
            Err(error) => {
                self.failing = Health::of(&error).unwrap_or_else(|| Health::Failing { full: false, why: error.to_string() });
                self.fail(format!("{error}. The conversation continues; the next message retries the write"));
            }
        }
    }

    /// Stores the session's first record if that failed before.
    fn begin_again(&mut self) -> Result<(), StoreError> {
        if let Some(new) = &self.unbegun {
            self.lease = self.store.begin(new)?;
            self.unbegun = None;
        }
        Ok(())
    }

    pub(super) fn fail(&mut self, what: String) {
        let failure = Failure(what);
        if !self.failures.contains(&failure) {
            self.failures.push(failure);
        }
    }

    /// The usage of a request, for the ledger.
    pub(super) fn usage(&mut self, outgoing: &Outgoing, reply: &Reply, first_ms: Option<u64>, total_ms: u64) -> Usage {
        self.last_answer.clone_from(&reply.id);
        self.answered_ms = Some(outgoing.at_ms.saturating_add(i64::try_from(total_ms).unwrap_or(0)));
        if let (Some(terms), Some(sent), Some(spent)) = (Terms::of(&self.model), &self.sent, reply.spent) {
            self.lifetimes.sent(&terms, &sent.asked, sent.ttl, &spent.prompt);
        }
        let read = reply.spent.unwrap_or_default().prompt.read;
        let model = &self.model;
        let broke = self.before_last.as_ref().and_then(|(at_ms, cut, prompt)| {
            let idle_s = u64::try_from(outgoing.at_ms.saturating_sub(*at_ms) / 1000).unwrap_or(0);
            let cold = model.cache.lifetime_s().is_some_and(|lifetime| idle_s >= lifetime);
            let before = Before { prompt: prompt.as_ref()?, cut: *cut, cold };
            let head = self.sent.as_ref().and_then(|sent| sent.messages.first()).map(|message| &**message);
            diagnose(&before, &outgoing.envelope, head, &outgoing.body.prompt, model, read)
        });
        let broke = on_record(broke.as_ref(), reply.missed.as_ref());
        let usage = Usage { broke, ..self.priced(outgoing, reply.spent, first_ms, total_ms) };
        tracing::info!(
            session = self.id(),
            request = outgoing.number,
            read = usage.read,
            write = usage.write,
            uncached = usage.uncached,
            output = usage.output,
            cost = usage.cost,
            cache_break = usage.broke.is_some(),
            ms = total_ms,
            "answered"
        );
        if reply.spent.is_some() {
            self.warn_of_dead_cache(&usage);
        }
        usage
    }

    /// Tells the user, once in a session, that the provider's cache serves nothing although each prompt begins with the one before it.
    fn warn_of_dead_cache(&mut self, last: &Usage) {
        let prices = self.model.cache_prices();
        let is_cheaper = prices.read < prices.input;
        if !is_cheaper || !is_unserved(last, &self.model) {
            return;
        }
        let Ok(ledger) = self.store.ledger(&self.row.id) else { return };
        // The first request of a session has nothing before it.
        let unserved = ledger.iter().skip(1).map(|(_, usage)| is_unserved(usage, &self.model)).chain([true]);
        let unserved: Vec<bool> = unserved.collect();
        let is_row = |row: &[bool]| row.iter().all(|unserved| *unserved);
        let rows = unserved.windows(DEAD_CACHE).filter(|row| is_row(row)).count();
        if ledger.is_empty() || rows != 1 || !unserved.windows(DEAD_CACHE).last().is_some_and(is_row) {
            return;
        }
        let (name, total) = (&self.model.name, last.uncached + last.write);
        self.fail(format!(
            "{name} reported 0 tokens from its cache for {DEAD_CACHE} requests in a row, the last of {total} tokens, although each of them began \
             with the whole prompt before it. You pay the full price each time: ask the provider, or the operator of the server in between, why"
        ));
    }

    /// The usage of a request with the model's prices.
    pub(super) fn priced(&self, outgoing: &Outgoing, spent: Option<Spent>, first_ms: Option<u64>, total_ms: u64) -> Usage {
        let used = spent.unwrap_or_default();
        let model = &self.model;
        let total = if spent.is_some() { used.prompt.total() } else { outgoing.body.prompt.tokens() };
        Usage {
            model: model.name.clone(),
            read: used.prompt.read.0,
            write: used.prompt.write.0,
            uncached: if spent.is_some() { used.prompt.uncached.0 } else { total.0 },
            output: used.output,
            cost: cost(model, &used.prompt) + output_cost(model, total, Tokens(used.output)),
            cost_uncached: uncached_cost(model, total) + output_cost(model, total, Tokens(used.output)),
            broke: None,
            first_token_ms: first_ms,
            total_ms: Some(total_ms),
        }
    }

    /// Stores a checkpoint from time to time.
    pub(super) fn checkpoint(&mut self, at_ms: i64) {
        let turns = self.session.turns();
        if turns < self.checkpoint_turns + CHECKPOINT_TURNS.max(turns / 8) || !self.backlog.is_empty() {
            return;
        }
        self.checkpoint_turns = turns;
        let body = checkpoint::body(&self.setup, &self.session);
        self.write([Write::Checkpoint(Checkpoint { counts: self.counts, body })]);
        if self.mode != Mode::default() {
            // What stands before a checkpoint is not read again.
            self.store_told(&LogEntry::Mode(self.mode), at_ms, false, Vec::new());
        }
    }

    /// Updates the session's file in the vault.
    pub fn save_transcript(&mut self, at_ms: i64) {
        let Some(chats) = self.chats.clone() else { return };
        if self.entries.is_none() {
            match chronicle::entries(&*self.store, &self.row.id) {
                Ok(entries) => self.entries = Some(entries),
                Err(error) => return self.fail(error.to_string()),
            }
        }
        let messages = self.entries.take().unwrap_or_default();
        let dialect = <&str>::from(self.setup.dialect);
        let answered = (self.counts.requests > 0).then(|| chronicle::model_key(&self.setup.model.name, dialect));
        let ours = chronicle::head(&self.row, self.saved.as_ref(), answered, messages);
        if ours.messages.is_empty() {
            self.entries = Some(ours.messages);
            return;
        }
        match chats.save(&ours, self.saved.as_ref()) {
            Err(error) => {
                self.entries = Some(ours.messages);
                self.fail(error.to_string());
            }
            Ok(outcome) => {
                match outcome.edit {
                    Edit::None => self.entries = Some(ours.messages),
                    Edit::Merged(merged) => self.take_over(ours.messages, merged, at_ms),
                    Edit::KeptBeside(path) => {
                        self.entries = Some(ours.messages);
                        self.fail(format!("{path} was edited in a way that cannot be imported; the file is unchanged, and the session now writes to a new file"));
                    }
                }
                if let Ok(saved) = serde_json::to_value(&outcome.saved)
                    && self.saved.as_ref() != Some(&outcome.saved)
                {
                    self.row.transcript = Some(saved.clone());
                    self.saved = Some(outcome.saved);
                    self.write([Write::Transcript(saved)]);
                }
            }
        }
    }

    /// Applies the user's edits of the file to the transcript.
    fn take_over(&mut self, ours: Vec<transcript::Entry>, merged: transcript::Transcript, at_ms: i64) {
        if merged.topic != self.row.title
            && let Some(topic) = merged.topic
        {
            self.row.title = Some(topic.clone());
            self.backlog.push(Write::Title(topic));
        }
        if ours == merged.messages {
            self.entries = Some(ours);
            return;
        }
        let lines = merged.messages.into_iter().map(chronicle::Line::from).collect();
        self.entries = Some(Vec::new());
        self.store_told(&LogEntry::Edited(lines), at_ms, false, Vec::new());
    }
}

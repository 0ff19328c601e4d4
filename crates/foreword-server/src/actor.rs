//! Executes operations on a session, one after the other. The session's lease is held while there are operations.

mod relay;

pub(crate) use relay::Locked;

use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use foreword_engine::attach::{Pages, active_note, gather, links};
use foreword_engine::clock;
use foreword_engine::config::Chosen;
use foreword_engine::manager::Manager;
use foreword_engine::prepare::servers_of;
use foreword_engine::session::{
    Event, Input, Mode, Preview, Question, RecordedSession, Sqlite, Stopper, Store, StoreError, TurnInput, Version, replace_turn,
    rewind, turn_of,
};
use foreword_engine::session_builder::{NewSession, SessionBuilder};
use foreword_engine::settings::SessionSettings;
use foreword_vault_tools::Asking;
use foreword_vault_tools::chats::Chats;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::answer::{AnswerModel, Tools, asking_of, voice, workbench};
use crate::api::counted;
use crate::app::Common;
use crate::clock::now_ms;
use crate::hub::{Running, SessionHandle};
use crate::problem::{BAD_REQUEST, INTERNAL, Problem};

/// Something for a session's thread to do.
pub(crate) type Job = Box<dyn FnOnce(&mut OpenSession) + Send>;

/// How long a session is held that nothing is done to; then another program may go on with it.
const HELD: Duration = Duration::from_secs(5);

/// How long an idle local model, and tools with approvals for the session, are kept ready.
pub(crate) const READY: Duration = Duration::from_mins(10);

/// A tool's output in an event; all of it is in the record.
const SHOWN: usize = 2000;

/// The state for operations on a session.
pub(crate) struct OpenSession {
    id: String,
    line: SessionHandle,
    pub(crate) common: Arc<Common>,
    kept: Option<RecordedSession>,
    pub(crate) voice: Option<AnswerModel>,
    pub(crate) hands: Option<Tools>,
    /// When tools require approval, if the user set it.
    pub(crate) asking: Option<Asking>,
    /// What the summary of the fold that was asked for is to look at above all.
    focus: Option<String>,
    /// When something was last done to it.
    done: Instant,
    /// Whether a request is pending that no operation waits for.
    relaying: bool,
}

/// Does what comes until the queue is gone.
pub(crate) fn work(desk: &Mutex<OpenSession>, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        let mut desk = at(desk);
        job(&mut desk);
        desk.done = Instant::now();
    }
}

/// Locks the desk.
pub(crate) fn at(desk: &Mutex<OpenSession>) -> MutexGuard<'_, OpenSession> {
    desk.lock().unwrap_or_else(|poisoned| cleared(desk, poisoned))
}

/// The desk, if it is not locked.
pub(crate) fn try_at(desk: &Mutex<OpenSession>) -> Option<MutexGuard<'_, OpenSession>> {
    match desk.try_lock() {
        Ok(desk) => Some(desk),
        Err(TryLockError::Poisoned(poisoned)) => Some(cleared(desk, poisoned)),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// After a panic the session may be inconsistent, so it is opened again from the store.
fn cleared<'a>(desk: &'a Mutex<OpenSession>, poisoned: PoisonError<MutexGuard<'a, OpenSession>>) -> MutexGuard<'a, OpenSession> {
    desk.clear_poison();
    let mut desk = poisoned.into_inner();
    (desk.kept, desk.voice, desk.hands) = (None, None, None);
    desk
}

/// How a session begins.
pub(crate) struct Begin {
    /// Its agent, by name.
    pub(crate) agent: Option<String>,
    /// Its project, by name.
    pub(crate) project: Option<String>,
    /// How its turns are carried.
    pub(crate) mode: Option<Mode>,
    /// Its model.
    pub(crate) chosen: Chosen,
    /// Its settings, as far as they are asked for.
    pub(crate) settings: SessionSettings,
    /// When tools require approval; `None` for the agent's setting.
    pub(crate) asking: Option<Asking>,
}

/// What becomes of the tool servers of a session that begins.
#[derive(Clone, Copy)]
enum Servers {
    Started,
    LeftOut,
}

/// What a person sends.
pub(crate) struct Message {
    pub(crate) words: String,
    /// What is attached, by name.
    pub(crate) attach: Vec<String>,
    /// The note that is open in front of the user.
    pub(crate) active: Option<String>,
    /// Whether notes, rules and the project stay as the session took them in.
    pub(crate) frozen: bool,
    /// Texts and images that are not of the vault.
    pub(crate) given: Vec<Version>,
}

/// What a turn is about.
pub(crate) enum Turn {
    /// A new one.
    New(Message),
    /// The one that has no answer yet.
    GoOn,
    /// An earlier one again, counted from 1, with other words.
    Edit(u64, String),
    /// The last one again.
    Regenerate,
}

/// A turn that can begin.
struct Ready {
    /// Its question, where it is new.
    question: Option<Question>,
    /// Its number, from 1.
    number: u64,
    /// Why links in its words were not followed.
    missing: Vec<String>,
}

impl OpenSession {
    pub(crate) fn new(id: String, line: SessionHandle, common: Arc<Common>) -> Self {
        Self {
            id,
            line,
            common,
            kept: None,
            voice: None,
            hands: None,
            asking: None,
            focus: None,
            done: Instant::now(),
            relaying: false,
        }
    }

    /// Its name.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether a turn runs.
    pub(crate) fn is_running(&self) -> bool {
        self.line.running.load(Ordering::Acquire)
    }

    /// Whether a gateway client is being answered.
    pub(crate) fn is_relaying(&self) -> bool {
        // One that broke off has left the first behind, not the second.
        self.relaying && self.is_running()
    }

    /// Releases unused resources and returns those that take time to stop, such as tool servers. `tools` and `model` are the idle
    /// times for tools and for a local model.
    pub(crate) fn rest(&mut self, tools: Duration, model: Duration) -> (Option<AnswerModel>, Option<Tools>) {
        if self.is_running() {
            return (None, None);
        }
        let idle = self.done.elapsed();
        // What could not be stored is held until it can be.
        if idle > HELD.min(tools) && self.kept.as_mut().is_some_and(RecordedSession::settle) {
            self.kept = None;
        }
        let model = if matches!(self.voice, Some(AnswerModel::Here(_))) { model } else { tools };
        let voice = if idle > model { self.voice.take() } else { None };
        // What the user allowed for the session is remembered by its tools.
        let tools = if self.line.approvals.is_any_lasting() { READY } else { tools };
        let hands = if idle > tools { self.hands.take() } else { None };
        (voice, hands)
    }

    /// Whether nothing of the session is open here: the next thing that is done to it reads it from the store.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.kept.is_none() && self.hands.is_none() && !self.is_running()
    }

    /// Does something that is to be stored. Where it cannot be, the session is as it was before.
    pub(crate) fn change<T>(&mut self, job: impl FnOnce(&mut Self) -> Result<T, Problem>) -> Result<T, Problem> {
        self.writable()?;
        let done = job(self);
        self.stored().and(done)
    }

    /// Checks that the store accepts writes, as far as is known.
    fn writable(&mut self) -> Result<(), Problem> {
        let health = self.common.store().health();
        if !health.is_well() {
            return Err(Problem::not_stored(&health));
        }
        let Some(kept) = self.kept.as_mut() else { return Ok(()) };
        // What a client said while nothing could be stored comes first.
        if kept.is_stored() || kept.settle() { Ok(()) } else { Err(Problem::not_stored(&kept.health())) }
    }

    /// Checks that all inputs are stored. If not, they are discarded and the session is opened again from the store.
    fn stored(&mut self) -> Result<(), Problem> {
        match self.kept.take_if(|kept| !kept.is_stored()) {
            None => Ok(()),
            Some(kept) => {
                let problem = Problem::not_stored(&kept.health());
                kept.discard_unstored();
                Err(problem)
            }
        }
    }

    fn chats(&self) -> Option<Chats> {
        Chats::open(&self.common.root, TimeZone::system()).ok()
    }

    /// Begins the session: its agent and project are read, its tools made ready.
    pub(crate) fn begin(&mut self, new: Begin) -> Result<(), Problem> {
        let store = Box::new(self.common.store());
        let chats = self.chats();
        self.begin_in(store, chats, Servers::Started, new).map(drop)
    }

    /// Begins the session only for a preview: nothing is stored and no tool server is started. Returns the names of the tool
    /// servers.
    pub(crate) fn sketch(&mut self, new: Begin) -> Result<Vec<String>, Problem> {
        self.begin_in(Box::new(Sqlite::in_memory()?), None, Servers::LeftOut, new)
    }

    /// The names of the tool servers that were left out.
    fn begin_in(
        &mut self,
        store: Box<dyn Store>,
        chats: Option<Chats>,
        servers: Servers,
        new: Begin,
    ) -> Result<Vec<String>, Problem> {
        let Begin { agent, project, mode, chosen, settings, asking } = new;
        let config = Arc::clone(&self.common.config);
        let new = NewSession {
            id: &self.id,
            agent: agent.as_deref(),
            project: project.as_deref(),
            mode: mode.or(config.answers.config.mode),
            chosen,
            is_scripted: config.answers.script.is_some(),
            flags: settings.over(config.answers.settings.clone()),
            config: config.answers.config.settings.clone(),
        };
        let (vault, shelf) = (self.common.vault(), self.common.shelf());
        let builder = SessionBuilder { vault: &vault, places: &config.places, shelf: &shelf };
        let prepared = self.common.runtime.block_on(builder.prepare(new, &clock::zoned()))?;
        self.asking = asking;
        let asking = asking.unwrap_or_else(|| asking_of(prepared.asking()));
        let servers_of_agent = prepared.servers().to_vec();
        let (servers, left_out) = match servers {
            Servers::Started => (servers_of_agent, Vec::new()),
            Servers::LeftOut => (Vec::new(), servers_of_agent.into_iter().map(|server| server.name).collect()),
        };
        let hands = workbench(&self.common, &self.line, (servers, asking), prepared.setup())?;
        let problems = prepared.problems().to_vec();
        let mut kept = prepared.begin(&hands.bench, store, chats, &config.places, now_ms())?;
        self.attach(&mut kept);
        self.manage(&mut kept);
        (self.kept, self.hands) = (Some(kept), Some(hands));
        for problem in problems {
            self.line.feed.tell("note", &json!({"text": problem.to_string()}));
        }
        Ok(left_out)
    }

    /// Stops the turn that runs.
    pub(crate) fn stopper(&self) -> &Stopper {
        &self.line.stopper
    }

    /// Connects the session with what stops its turns.
    fn attach(&self, kept: &mut RecordedSession) {
        kept.heed_end(self.common.ends.clone());
        kept.set_stopper(self.line.stopper.clone());
    }

    /// The session, opened.
    pub(crate) fn kept(&mut self) -> Result<&mut RecordedSession, Problem> {
        if self.kept.is_none() {
            let models = self.common.config.places.models.clone();
            let store = Box::new(self.common.store());
            // A session that was begun without a file in the vault, for a client of the gateway, stays without one.
            let row = store.session(&self.id)?;
            let chats = if row.counts.requests > 0 && row.transcript.is_none() { None } else { self.chats() };
            let mut kept = RecordedSession::open(store, &self.id, Some(&models), chats)?;
            self.attach(&mut kept);
            self.manage(&mut kept);
            self.kept = Some(kept);
        }
        self.kept.as_mut().ok_or_else(|| Problem::new(INTERNAL, "the session is not open"))
    }

    /// Sees to it that the session's history is managed, where it is to be.
    fn manage(&self, kept: &mut RecordedSession) {
        let root = Some(&*self.common.root);
        let mut manager = Manager::of(kept.setup(), &self.common.shelf(), root, TimeZone::system());
        if let Some(manager) = &mut manager {
            manager.focus.clone_from(&self.focus);
        }
        kept.set_manager(manager);
    }

    /// Whether the session is open and all its inputs would survive a crash.
    pub(crate) fn is_stored(&self) -> bool {
        self.kept.as_ref().is_some_and(RecordedSession::is_stored)
    }

    /// Whether the session is open here.
    pub(crate) fn is_open(&self) -> bool {
        self.kept.is_some()
    }

    /// Lets go of the session, so that its past can be changed or it can be deleted.
    pub(crate) fn close(&mut self) {
        self.kept = None;
    }

    /// Takes it back to the end of a turn.
    pub(crate) fn rewind(&mut self, turn: u64) -> Result<(), Problem> {
        self.close();
        rewind(&mut self.common.store(), &self.id, turn, now_ms())?;
        self.changed();
        Ok(())
    }

    /// Forgets it.
    pub(crate) fn delete(&mut self) -> Result<(), Problem> {
        self.close();
        let mut store = self.common.store();
        let lease = store.lease(&self.id)?;
        let deleted = store.delete(&self.id);
        drop(lease);
        match deleted {
            // It is gone; what is left of it on the disk is no concern of whoever asked.
            Ok(()) | Err(StoreError::StillThere(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Requests a fold with the next turn. `focus` is the focus of the summary.
    pub(crate) fn fold(&mut self, focus: Option<String>) -> Result<(), Problem> {
        self.kept()?.fold(focus.as_deref(), now_ms())?;
        self.focus = focus;
        self.changed();
        Ok(())
    }

    /// Applies an input outside of a turn.
    pub(crate) fn tell(&mut self, input: Input) -> Result<(), Problem> {
        self.kept()?.tell(input, now_ms())?;
        self.changed();
        Ok(())
    }

    /// Calls it something else.
    pub(crate) fn rename(&mut self, title: &str) -> Result<(), Problem> {
        self.kept()?.rename(title, now_ms());
        self.changed();
        Ok(())
    }

    /// Notifies clients that the session changed.
    pub(crate) fn changed(&mut self) {
        self.failures();
        self.line.feed.tell("changed", &json!({}));
    }

    fn failures(&mut self) {
        for failure in self.kept.as_mut().map(RecordedSession::take_failures).unwrap_or_default() {
            self.line.feed.tell("note", &json!({"text": failure.0}));
        }
    }

    /// Resolves attachments. Named ones must exist, linked ones may not; returns why links were not followed.
    fn attached(&self, words: &str, named: &[String]) -> Result<(Vec<Version>, Vec<String>), Problem> {
        let links: Vec<String> = links(words).collect();
        let vault = self.common.vault_with(&named.iter().chain(&links).map(String::as_str).collect::<Vec<_>>());
        let named = named.iter().map(|what| vault.attachment(what)).collect::<Result<Vec<_>, _>>();
        let mut wanted = named.map_err(|error| Problem::new(BAD_REQUEST, error))?;
        let must = wanted.len();
        let mut missing = Vec::new();
        for link in &links {
            match vault.attachment(link) {
                Ok(linked) => wanted.push(linked),
                Err(error) => missing.push(format!("{link} attaches nothing: {error}")),
            }
        }
        if wanted.is_empty() {
            return Ok((Vec::new(), missing));
        }
        let places = &self.common.config.places;
        let gather =
            |wanted| self.common.runtime.block_on(gather(&vault, wanted, places, &clock::zoned(), Pages::RecordedSession));
        let found = gather(&wanted[..must])?;
        if found.empty > 0 {
            let why: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
            return Err(Problem::new(
                BAD_REQUEST,
                format!("an attachment is empty or missing, so nothing was sent. {}", why.join("; ")),
            ));
        }
        let mut versions = found.versions;
        let linked = gather(&wanted[must..])?;
        missing.extend(linked.problems.iter().map(|problem| format!("[[{}]] attaches nothing: {}", problem.path, problem.what)));
        for version in linked.versions {
            if !versions.iter().any(|known| known.id == version.id) {
                versions.push(version);
            }
        }
        Ok((versions, missing))
    }

    /// What would be sent, as a question, and why links in it were not followed.
    fn question(&mut self, message: Message) -> Result<(Question, Vec<String>), Problem> {
        let Message { words, attach: named, active, frozen, given } = message;
        let (mut attached, mut missing) = self.attached(&words, &named)?;
        attached.extend(given);
        let vault = self.common.vault_now();
        let active = active.map(|name| active_note(&vault, &name, &clock::zoned())).transpose();
        let active = active.map_err(|error| Problem::new(BAD_REQUEST, error))?;
        for problem in active.iter().flat_map(|active| &active.problems) {
            self.line.feed.tell("note", &json!({"text": problem.to_string()}));
        }
        let active = active.map(|active| active.version);
        let common = Arc::clone(&self.common);
        let kept = self.kept()?;
        let shelf = common.shelf();
        let builder = SessionBuilder { vault: &vault, places: &common.config.places, shelf: &shelf };
        let (question, changed) = builder.question(kept, words, attached, active, frozen, &clock::zoned())?;
        missing.extend(changed);
        Ok((question, missing))
    }

    /// Goes on with the files of the session's agent and project as they are now; what changed, in words.
    fn refresh_agent(&mut self) -> Result<Vec<String>, Problem> {
        let common = Arc::clone(&self.common);
        let kept = self.kept()?;
        let (vault, shelf) = (common.vault_now(), common.shelf());
        let builder = SessionBuilder { vault: &vault, places: &common.config.places, shelf: &shelf };
        Ok(common.runtime.block_on(builder.refresh_agent(kept, &clock::zoned()))?)
    }

    /// What would be sent; nothing is sent or kept.
    pub(crate) fn preview(&mut self, message: Message) -> Result<Preview, Problem> {
        let (question, missing) = self.question(message)?;
        self.answering()?;
        self.previewed(question, missing)
    }

    /// The same of a session that has not begun. Nobody has to be there who would answer.
    pub(crate) fn preview_first(&mut self, new: Begin, message: Message) -> Result<Preview, Problem> {
        let servers = self.sketch(new)?;
        let (question, missing) = self.question(message)?;
        let mut preview = self.previewed(question, missing)?;
        if !servers.is_empty() {
            let servers = servers.join(", ");
            preview.problems.push(format!("the tools of {servers} are not included: tool servers start with the session"));
        }
        Ok(preview)
    }

    fn previewed(&mut self, question: Question, missing: Vec<String>) -> Result<Preview, Problem> {
        let (Some(kept), Some(hands)) = (self.kept.as_ref(), self.hands.as_mut()) else {
            return Err(Problem::new(INTERNAL, "the session is not open"));
        };
        let mut preview = kept.preview(question, &mut hands.bench, now_ms())?;
        counted(&mut preview.request);
        preview.problems.splice(0..0, missing);
        Ok(preview)
    }

    /// Runs a turn. `accepted` is called once the message is stored and only the model can fail; later events go to the feed.
    pub(crate) fn turn(&mut self, turn: Turn, running: Running, accepted: oneshot::Sender<Result<u64, Problem>>) {
        self.line.stopper.reset();
        let ready = self.writable().and_then(|()| self.ready(turn));
        let Ready { question, number, missing } = match ready.and_then(|ready| self.stored().map(|()| ready)) {
            Ok(ready) => ready,
            Err(problem) => {
                drop(running);
                // The client may have left.
                let _ = accepted.send(Err(problem));
                return;
            }
        };
        let words = question.as_ref().map(|question| question.turn.words.clone());
        let line = self.line.clone();
        let mut accepted = Some(accepted);
        let mut begin = || {
            if let Some(accepted) = accepted.take() {
                let after = line.feed.tell("turn", &json!({"turn": number, "words": words}));
                line.began.store(after, Ordering::Release);
                // The client may have left.
                let _ = accepted.send(Ok(after));
                for text in &missing {
                    line.feed.tell("note", &json!({"text": text}));
                }
            }
        };
        let ended = self.run(question, number, &mut begin);
        self.failures();
        // The fold that it was for has come.
        self.focus = None;
        if let Some(accepted) = accepted {
            // It did not begin.
            let _ = self.stored();
            drop(running);
            // The client may have left.
            let _ = accepted.send(Err(ended.err().unwrap_or_else(crate::hub::ended)));
            return;
        }
        // Whoever hears of the end may begin the next turn at once.
        drop(running);
        match ended {
            Ok(done) => self.line.feed.tell("done", &done),
            Err(problem) => self.line.feed.tell("problem", &problem),
        };
    }

    /// Gets everything ready that can be wrong before a turn begins.
    fn ready(&mut self, turn: Turn) -> Result<Ready, Problem> {
        let mut missing = Vec::new();
        let (number, words) = match turn {
            Turn::New(message) => {
                let changed = if message.frozen { Vec::new() } else { self.refresh_agent()? };
                let (question, mut missing) = self.question(message)?;
                missing.splice(0..0, changed);
                self.answering()?;
                return Ok(Ready { question: Some(question), number: self.turns()? + 1, missing });
            }
            Turn::GoOn => {
                self.answering()?;
                return Ok(Ready { question: None, number: self.turns()?, missing });
            }
            Turn::Edit(number, words) => (number, Some(words)),
            Turn::Regenerate => (self.turns()?, None),
        };
        // Whoever answers is looked for first: what is wrong with that is said before anything changes.
        self.answering()?;
        let mut store = self.common.store();
        let before = turn_of(&store, &self.id, number)?;
        let input = match words {
            None => before,
            Some(words) => {
                let mut attached = before.attached;
                let (linked, unlinked) = self.attached(&words, &[])?;
                missing = unlinked;
                for version in linked {
                    if !attached.iter().any(|known| known.id == version.id) {
                        attached.push(version);
                    }
                }
                TurnInput { words, attached, active_note: before.active_note, ..TurnInput::default() }
            }
        };
        self.close();
        replace_turn(&mut store, &self.id, number, input, now_ms())?;
        self.answering()?;
        Ok(Ready { question: None, number, missing })
    }

    fn turns(&mut self) -> Result<u64, Problem> {
        Ok(self.kept()?.session().turns() as u64)
    }

    /// Prepares the model and the tools.
    fn answering(&mut self) -> Result<(), Problem> {
        self.voice()?;
        let (kept, hands) = self.equipped()?;
        hands.update(kept)
    }

    /// The session, and what runs its tools.
    pub(crate) fn equipped(&mut self) -> Result<(&mut RecordedSession, &mut Tools), Problem> {
        let (asking, common, line) = (self.asking, Arc::clone(&self.common), self.line.clone());
        let kept = self.kept()?;
        let setup = kept.setup().clone();
        if self.hands.is_none() {
            // An agent that is gone leaves its session without its tool servers.
            let (servers, usual) = servers_of(&common.vault(), setup.agent.as_deref()).unwrap_or_default();
            let asking = asking.unwrap_or_else(|| asking_of(usual));
            self.hands = Some(workbench(&common, &line, (servers, asking), &setup)?);
        }
        let open = self.kept.as_mut().zip(self.hands.as_mut());
        open.ok_or_else(|| Problem::new(INTERNAL, "the session is not open"))
    }

    fn voice(&mut self) -> Result<(), Problem> {
        self.kept()?;
        let Some(kept) = self.kept.as_mut() else { return Ok(()) };
        self.voice = Some(voice(self.voice.take(), &self.common, kept)?);
        Ok(())
    }

    /// Runs the turn to its end and returns its final event. `begin` is called once the message is stored.
    fn run(&mut self, question: Option<Question>, number: u64, begin: &mut dyn FnMut()) -> Result<Value, Problem> {
        let model = AnswerModel::take(&mut self.voice, &self.common);
        let (Some(kept), Some(mut model), Some(hands)) = (self.kept.as_mut(), model, self.hands.as_mut()) else {
            return Err(Problem::new(INTERNAL, "the session is not open"));
        };
        let feed = Arc::clone(&self.line.feed);
        let mut each = |event: Event<'_>| match event {
            Event::Stored => begin(),
            Event::ColdCache(cold) => {
                feed.tell(
                    "cache_cold",
                    &json!({"turn": number, "expired_s": cold.expired_s, "cost": cold.cost,
                    "warm_cost": cold.warm_cost, "folded_cost": cold.folded_cost, "folds": cold.folds, "text": cold.to_string()}),
                );
            }
            Event::Request(outgoing) => {
                let model = &outgoing.model.name;
                let tokens = outgoing.envelope.tokens;
                feed.tell("request", &json!({"turn": number, "request": outgoing.number, "model": model, "tokens": tokens}));
            }
            Event::Part(text) => {
                feed.tell("part", &json!({"text": text}));
            }
            Event::Found(found) => {
                feed.tell("sources", &json!({"sources": found}));
            }
            Event::Call(call) => {
                feed.tell("call", &json!({"id": call.id, "name": call.name, "arguments": call.arguments}));
            }
            Event::Result(call, output) => {
                let text: String = output.text.chars().take(SHOWN).collect();
                feed.tell("result", &json!({"id": call.id, "name": call.name, "failed": output.failed, "text": text}));
            }
        };
        kept.must_store();
        let said = match question {
            Some(question) => kept.send(question, &mut *model, &mut hands.bench, &now_ms, &mut each),
            None => kept.go_on(&mut *model, &mut hands.bench, &now_ms, &mut each),
        };
        AnswerModel::put_back(&mut self.voice, model);
        let said = said?;
        let usage = kept.store().ledger(kept.id()).ok().and_then(|ledger| ledger.into_iter().last()).map(|(_, usage)| usage);
        Ok(json!({
            "turn": number, "requests": said.requests, "out_of_steps": said.out_of_steps,
            "kept": kept.is_stored(), "usage": usage,
        }))
    }
}

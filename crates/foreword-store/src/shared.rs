//! One store for many threads. Concurrent writes become one transaction and reach the disk together (group commit), so that a hundred
//! sessions wait about as long as one. Reads run in parallel.
//!
//! The first writer executes all queued jobs on its own thread; the others wait, and then the next of them writes for everyone who came
//! meanwhile. Writes that need not wait for the disk do not wait for the database either: they are in [`PendingWrites`] and are written to
//! the database a moment later, or before the next read or write there.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use foreword_core::hash::Hash;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::files::InUse;
use crate::health::{Outcomes, Way};
use crate::lease::Holder;
use crate::row::{
    Answered, Checkpoint, Counts, Dump, Fault, Fork, Forwarded, Found, Logged, NewForwarded, NewSession, Own, Request,
    SessionRow, Summary, Usage, Write,
};
use crate::underway::PendingWrites;
use crate::{Health, Lease, Result, Sqlite, Store, StoreError};

/// The largest number of writes in one transaction.
const MOST_TOGETHER: usize = 256;

/// The number of idle read connections to keep open.
const SPARE: usize = 8;

/// How long journal entries are collected before they are written to the database.
const GATHER: Duration = Duration::from_millis(100);

/// The longest pause of the thread that empties the journal, and the backlog factor at which it does not pause.
const LONGEST_REST: Duration = Duration::from_millis(5);
const MANY: usize = 100;

/// The delay before a retry if the database does not accept writes.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The idle time before the WAL is checkpointed and new messages are indexed for search.
const REST: Duration = Duration::from_secs(1);

/// The longest delay of that work under constant load.
const LONGEST_UNTIDY: Duration = Duration::from_secs(30);

/// The WAL size in pages at which a writer checkpoints it itself.
const LONGEST_LOG: u32 = 16_000;

/// The number of inputs to index at once; writers wait that long.
const INDEXED_AT_ONCE: usize = 64;

/// A write operation that another thread or process can execute.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Create a session.
    Begin(NewSession),
    /// Write entries to a session.
    Commit(String, Vec<Write>),
    /// The same, with the expected counts of the session.
    Note(String, Counts, Vec<Write>),
    /// Continue a session from an earlier point.
    Branch(String, Counts, Option<Fork>, Vec<Write>),
    /// Record a forwarded request and its number.
    Sent(u64, NewForwarded),
    /// Record its outcome.
    Answered(u64, Answered),
    /// Index inputs for search.
    Index(usize),
    // The journal of an older version is read by the order of these: new ones come last.
    /// What is passed on, its number, and what else is known of it.
    SentAbout(u64, NewForwarded, String),
    /// What came of it, and what else is known of that.
    AnsweredAbout(u64, Answered, String),
}

/// The result of a write.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// The session's counts.
    pub(crate) counts: Counts,
    /// The number of indexed inputs.
    pub(crate) indexed: usize,
}

struct Waiting {
    job: Job,
    /// The waiting thread, which can also write for others.
    who: SyncSender<Turn>,
}

/// A message to a waiting thread.
enum Turn {
    /// Its job is done.
    Done(Result<Written>),
    /// It should write next.
    Write,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Whether a thread is writing, or was told to.
    busy: bool,
}

/// A handle on a store that is shared by threads. Clones are handles on the same store.
#[derive(Clone)]
pub struct Shared {
    all: Arc<All>,
    synced: bool,
}

/// The data that all handles share.
struct All {
    queue: Mutex<Queue>,
    underway: PendingWrites,
    writer: Mutex<Sqlite>,
    readers: Mutex<Vec<Sqlite>>,
    path: Box<Path>,
    /// The database files as they were when opened.
    in_use: [InUse; 2],
    /// The results of the last writes.
    outcomes: Outcomes,
    /// Identifies this process as the holder of leases.
    holder: Option<Arc<Holder>>,
    /// Wakes the thread that empties the journal.
    come: SyncSender<()>,
    /// Wakes the thread that checkpoints and indexes.
    grown: SyncSender<()>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("path", &self.all.path).field("synced", &self.synced).finish_non_exhaustive()
    }
}

impl Shared {
    /// Shares a store file. Its helper threads end with the last handle.
    pub fn new(store: Sqlite) -> Result<Self> {
        store.set_longest_log(LONGEST_LOG)?;
        let path: Box<Path> = store.path().into();
        let tidier = Sqlite::connect(&path)?;
        let (come, coming) = sync_channel(1);
        let (grown, growth) = sync_channel(1);
        // Before the holder, so that the system lets go of it first where the process ends: whoever gets a lease then finds what was
        // on its way. Where it cannot be made now, it may be later.
        let underway = PendingWrites::new(&path);
        let (in_use, outcomes) = (store.in_use(), Outcomes::default());
        let (queue, readers, writer) = (Mutex::default(), Mutex::default(), Mutex::new(store));
        let holder = Holder::new(&path);
        let all = Arc::new(All { queue, underway, writer, readers, path, in_use, outcomes, holder, come, grown });
        let no_thread = |error: std::io::Error| StoreError::Refused(format!("cannot start a thread for the store: {error}"));
        let weak = Arc::downgrade(&all);
        thread::Builder::new().name("store".to_owned()).spawn(move || gather(&weak, &coming)).map_err(no_thread)?;
        let weak = Arc::downgrade(&all);
        thread::Builder::new().name("store log".to_owned()).spawn(move || tidy(&weak, &tidier, &growth)).map_err(no_thread)?;
        Ok(Self { all, synced: true })
    }

    /// A handle for writes that need not wait for the disk. They survive a process crash; the last seconds, or up to 30 seconds
    /// under constant load, may be lost in a power failure.
    #[must_use]
    pub fn unsynced(&self) -> Self {
        Self { synced: false, ..self.clone() }
    }

    /// Whether the store accepts writes. After a failure it is tried again at most once a second.
    pub fn health(&self) -> Health {
        let all = &self.all;
        if let Err(error) = all.check().and_then(|()| all.underway.check())
            && let Some(gone) = Health::of(&error)
        {
            // Where all of it is in the database, the journal can be made anew.
            let _ = all.check().and_then(|()| all.underway.probe());
            return gone;
        }
        if all.outcomes.is_due() {
            all.outcomes.note(Way::Journal, &all.underway.probe());
            let probed = lock(&all.writer).probe();
            all.outcomes.note(Way::Database, &probed);
        }
        all.outcomes.health()
    }

    /// Simulates a full disk.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, most: Option<u32>) {
        lock(&self.all.writer).limit_pages(most);
    }

    fn write(&self, job: Job) -> Result<Written> {
        self.all.take_in()?;
        self.all.write(job)
    }

    /// Runs `work` with exclusive use of a connection.
    fn alone<T>(&self, work: impl FnOnce(&mut Sqlite) -> Result<T>) -> Result<T> {
        // Where the disk is full, what is there can still be read.
        let _ = self.all.take_in();
        let spare = lock(&self.all.readers).pop();
        let connect = || self.all.check().and_then(|()| Sqlite::connect(&self.all.path));
        let mut store = spare.map_or_else(connect, Ok)?;
        let done = work(&mut store);
        let mut readers = lock(&self.all.readers);
        if readers.len() < SPARE {
            readers.push(store);
        }
        done
    }
}

/// Locks a mutex, even after a panic: an unfinished transaction is rolled back.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl All {
    /// Checks that the database files are still in place.
    fn check(&self) -> Result<()> {
        self.in_use.iter().try_for_each(InUse::check)
    }

    /// Writes to the journal and wakes the thread that empties it.
    fn post(&self, job: Job) -> std::result::Result<(), Box<(Job, StoreError)>> {
        let posted = match self.check() {
            Ok(()) => self.underway.post(job),
            Err(gone) => Err(Box::new((job, gone))),
        };
        match posted {
            Ok(first) => {
                self.outcomes.note(Way::Journal, &Ok(()));
                if first {
                    // Where that is known already, it need not be told again.
                    let _ = self.come.try_send(());
                }
                Ok(())
            }
            Err(unposted) => {
                let (job, error) = *unposted;
                let failed: Result<()> = Err(error);
                self.outcomes.note(Way::Journal, &failed);
                failed.map_err(|error| Box::new((job, error)))
            }
        }
    }

    /// Writes the journal's entries to the database.
    fn take_in(&self) -> Result<()> {
        if self.underway.is_empty() {
            return Ok(());
        }
        let taken = self.check().and_then(|()| self.underway.take_in(&self.writer, &|| self.grew()));
        self.outcomes.note(Way::Database, &taken);
        taken
    }

    /// Wakes the thread that checkpoints and indexes.
    fn grew(&self) {
        let _ = self.grown.try_send(());
    }

    /// Empties the journal.
    fn clear(&self) -> Result<()> {
        self.underway.clear(&self.writer, &|| self.grew())
    }

    /// Queues a job. Returns whether the caller should write.
    fn wait(&self, waiting: Waiting) -> bool {
        let mut queue = lock(&self.queue);
        queue.waiting.push_back(waiting);
        !std::mem::replace(&mut queue.busy, true)
    }

    fn write(&self, job: Job) -> Result<Written> {
        let (who, turns) = sync_channel(2);
        if self.wait(Waiting { job, who }) {
            self.write_all();
        }
        loop {
            match turns.recv() {
                Ok(Turn::Done(written)) => return written,
                Ok(Turn::Write) => self.write_all(),
                Err(_) => return Err(StoreError::Refused("the store was closed before the write was done".to_owned())),
            }
        }
    }

    /// Writes queued jobs if no other thread is writing.
    fn write_rest(&self) {
        let mut queue = lock(&self.queue);
        let is_left = !queue.waiting.is_empty() && !std::mem::replace(&mut queue.busy, true);
        drop(queue);
        if is_left {
            self.write_all();
        }
    }

    /// Writes all queued jobs at once, then hands over to the next writer.
    fn write_all(&self) {
        let _next = Next(self);
        let mut queue = lock(&self.queue);
        let most = queue.waiting.len().min(MOST_TOGETHER);
        let (jobs, whom): (Vec<_>, Vec<_>) = queue.waiting.drain(..most).map(|waiting| (waiting.job, waiting.who)).unzip();
        drop(queue);
        let grows = jobs.iter().any(|job| !matches!(job, Job::Index(_)));
        let began = std::time::Instant::now();
        let done = match self.check() {
            Ok(()) => lock(&self.writer).together(&jobs),
            Err(_) => jobs.iter().map(|_| self.check().map(|()| Written::default())).collect(),
        };
        if let Some(last) = done.last() {
            self.outcomes.note(Way::Database, last);
        }
        tracing::trace!(writes = done.len(), us = began.elapsed().as_micros(), "stored");
        for (written, who) in done.into_iter().zip(whom) {
            // Whoever asked may be gone; it is stored.
            let _ = who.send(Turn::Done(written));
        }
        if grows {
            self.grew();
        }
    }
}

impl Job {
    pub(crate) fn session(&self) -> Option<&str> {
        match self {
            Self::Begin(new) => Some(&new.id),
            Self::Commit(session, ..) | Self::Note(session, ..) | Self::Branch(session, ..) => Some(session),
            Self::Sent(..) | Self::SentAbout(..) | Self::Answered(..) | Self::AnsweredAbout(..) | Self::Index(_) => None,
        }
    }
}

/// Hands over to the next writer, even after a panic.
struct Next<'a>(&'a All);

impl Drop for Next<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0.queue);
        // A thread that panics may be one of them.
        queue.busy = !thread::panicking() && queue.waiting.iter().any(|waiting| waiting.who.try_send(Turn::Write).is_ok());
        if !queue.busy && !queue.waiting.is_empty() {
            let _ = self.0.come.try_send(());
        }
    }
}

/// Empties the journal, a few entries at a time, with pauses, because threads that answer clients need the CPU.
fn gather(all: &Weak<All>, coming: &Receiver<()>) {
    let mut wait = GATHER;
    while coming.recv().is_ok() {
        thread::sleep(wait);
        let Some(all) = all.upgrade() else { return };
        let begun = Instant::now();
        // A panic is told of where it happens; what it was about stands in the journal.
        let left = catch_unwind(AssertUnwindSafe(|| {
            all.write_rest();
            let left = all.check().and_then(|()| all.underway.take_a_few(&all.writer, &|| all.grew()));
            all.outcomes.note(Way::Database, &left);
            left
        }));
        wait = match left {
            Ok(Ok(0)) => GATHER,
            Ok(Ok(left)) if left > MANY => Duration::ZERO,
            Ok(Ok(_)) => begun.elapsed().min(LONGEST_REST),
            Ok(Err(_)) | Err(_) => TRY_AGAIN,
        };
        if !all.underway.is_empty() {
            let _ = all.come.try_send(());
        }
    }
}

impl Drop for All {
    fn drop(&mut self) {
        // What cannot be taken in now is by whoever opens the store next.
        if self.take_in().is_ok() {
            self.underway.end(&self.writer);
        }
    }
}

/// Checkpoints the WAL and indexes new messages, once there were no writes for a while or after the longest delay, because writers
/// wait for the disk meanwhile.
fn tidy(all: &Weak<All>, store: &Sqlite, growth: &Receiver<()>) {
    let mut grown = growth.recv().is_ok();
    while grown {
        let since = Instant::now();
        while growth.recv_timeout(REST).is_ok() && since.elapsed() < LONGEST_UNTIDY {
            thread::sleep(REST);
        }
        // What cannot be done now is done the next time, or by whoever opens the store or searches it.
        let _ = store.tidy();
        if let Some(all) = all.upgrade() {
            // What another program deletes is not to live on here.
            let _ = all.clear();
        }
        grown = loop {
            match growth.try_recv() {
                Ok(()) => break true,
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) if index(all) => {}
                Err(TryRecvError::Empty) => break growth.recv().is_ok(),
            }
        };
    }
}

/// Indexes some new messages. Returns whether there may be more.
fn index(all: &Weak<All>) -> bool {
    let Some(all) = all.upgrade() else { return false };
    all.write(Job::Index(INDEXED_AT_ONCE)).is_ok_and(|written| written.indexed == INDEXED_AT_ONCE)
}

impl Store for Shared {
    fn begin(&mut self, new: &NewSession) -> Result<Lease> {
        if self.synced {
            self.write(Job::Begin(new.clone()))?;
            return self.lease(&new.id);
        }
        self.all.check()?;
        let lease = Lease::take(&self.all.path, &new.id, self.all.holder.as_ref())?;
        self.all.post(Job::Begin(new.clone())).map_err(|unposted| unposted.1)?;
        Ok(lease)
    }

    fn sessions(&self) -> Result<Vec<SessionRow>> {
        self.alone(|store| store.sessions())
    }

    fn session(&self, id: &str) -> Result<SessionRow> {
        self.alone(|store| store.session(id))
    }

    fn commit(&mut self, session: &str, writes: &[Write]) -> Result<Counts> {
        self.write(Job::Commit(session.to_owned(), writes.to_vec())).map(|written| written.counts)
    }

    fn note(&mut self, session: &str, at: Counts, writes: &mut Vec<Write>) -> Result<Counts> {
        if self.synced {
            let counts = self.commit(session, writes)?;
            writes.clear();
            return Ok(counts);
        }
        if let Some(why) = self.all.underway.lost(session) {
            return Err(why);
        }
        let mut counts = at;
        for write in &*writes {
            counts.inputs += u64::from(matches!(write, Write::Input(_)));
            counts.requests += u64::from(matches!(write, Write::Request(_)));
        }
        let posted = self.all.post(Job::Note(session.to_owned(), at, std::mem::take(writes)));
        posted.map(|()| counts).map_err(|unposted| {
            let (job, why) = *unposted;
            if let Job::Note(.., back) = job {
                *writes = back;
            }
            why
        })
    }

    fn settle(&mut self, session: Option<&str>) -> Result<()> {
        match session {
            Some(session) if !self.all.underway.has(session) => Ok(()),
            _ => self.all.take_in(),
        }
    }

    fn hold(&mut self, session: &str, lease: Lease) {
        self.all.underway.hold(session, lease);
    }

    fn log(&self, session: &str, from: u64) -> Result<Vec<Logged>> {
        self.alone(|store| store.log(session, from))
    }

    fn log_packed(&self, session: &str, from: u64) -> Result<Vec<Logged>> {
        self.alone(|store| store.log_packed(session, from))
    }

    fn unpack(&self, packed: Value) -> Result<Value> {
        self.alone(|store| store.unpack(packed))
    }

    fn parts(&self, session: &str) -> Result<Vec<String>> {
        self.alone(|store| store.parts(session))
    }

    fn requests(&self, session: &str) -> Result<Vec<Request>> {
        self.alone(|store| store.requests(session))
    }

    fn request(&self, session: &str, number: u64) -> Result<Request> {
        self.alone(|store| store.request(session, number))
    }

    fn messages(&self, session: &str, request: u64) -> Result<Vec<Value>> {
        self.alone(|store| store.messages(session, request))
    }

    fn message_hashes(&self, session: &str, request: u64) -> Result<Vec<Hash>> {
        self.alone(|store| store.message_hashes(session, request))
    }

    fn context(&self, session: &str, request: u64) -> Result<Vec<Value>> {
        self.alone(|store| store.context(session, request))
    }

    fn ledger(&self, session: &str) -> Result<Vec<(u64, Usage)>> {
        self.alone(|store| store.ledger(session))
    }

    fn own(&self, session: Option<&str>, kind: &str) -> Result<BTreeMap<String, Own>> {
        self.alone(|store| store.own(session, kind))
    }

    fn summaries(&self, session: &str, most: usize) -> Result<Vec<Summary>> {
        self.alone(|store| store.summaries(session, most))
    }

    fn text(&self, hash: Hash) -> Result<String> {
        self.alone(|store| store.text(hash))
    }

    fn agent(&self, hash: Hash) -> Result<Value> {
        self.alone(|store| store.agent(hash))
    }

    fn checkpoint(&self, session: &str) -> Result<Option<Checkpoint>> {
        self.alone(|store| store.checkpoint(session))
    }

    fn branch(&mut self, session: &str, at: Counts, fork: Option<&Fork>, writes: &[Write]) -> Result<()> {
        self.write(Job::Branch(session.to_owned(), at, fork.cloned(), writes.to_vec())).map(drop)
    }

    fn delete(&mut self, session: &str) -> Result<()> {
        self.all.check()?;
        let deleted = self.alone(|store| store.delete(session));
        let cleared = self.all.clear();
        deleted?;
        cleared.map_err(|_| StoreError::StillThere(session.to_owned()))
    }

    fn search(&self, words: &str, limit: usize) -> Result<Vec<Found>> {
        // What is new is made findable in the queue of those who write, so that it keeps nobody from writing for long. What cannot be
        // now is found the next time.
        while self.write(Job::Index(INDEXED_AT_ONCE)).is_ok_and(|written| written.indexed == INDEXED_AT_ONCE) {}
        self.alone(|store| store.search(words, limit))
    }

    fn check(&self) -> Result<Vec<Fault>> {
        self.alone(|store| store.check())
    }

    fn backup(&self, file: &Path) -> Result<()> {
        self.alone(|store| store.backup(file))
    }

    fn dump(&self, session: &str) -> Result<Dump> {
        self.alone(|store| store.dump(session))
    }

    fn load(&mut self, dump: &Dump) -> Result<()> {
        self.all.check()?;
        self.alone(|store| store.load(dump))
    }

    fn sent(&mut self, new: NewForwarded) -> Result<u64> {
        let number = self.all.underway.number(&self.all.writer)?;
        let mut new = new;
        let job = match new.about.take() {
            Some(about) => Job::SentAbout(number, new, about),
            None => Job::Sent(number, new),
        };
        self.all.post(job).map_err(|unposted| unposted.1)?;
        Ok(number)
    }

    fn answered(&mut self, number: u64, answered: &Answered) -> Result<()> {
        let mut answered = answered.clone();
        let job = match answered.about.take() {
            Some(about) => Job::AnsweredAbout(number, answered, about),
            None => Job::Answered(number, answered),
        };
        self.all.post(job).map_err(|unposted| unposted.1)
    }

    fn forwarded(&self) -> Result<Vec<Forwarded>> {
        self.alone(|store| store.forwarded())
    }

    fn forwarded_before(&self, before: Option<u64>, most: usize) -> Result<Vec<Forwarded>> {
        self.alone(|store| store.forwarded_before(before, most))
    }

    fn forwarded_of(&self, session: &str) -> Result<Vec<Forwarded>> {
        self.alone(|store| store.forwarded_of(session))
    }

    fn forwarded_body(&self, number: u64) -> Result<String> {
        self.alone(|store| store.forwarded_body(number))
    }

    fn lease(&self, session: &str) -> Result<Lease> {
        self.all.check()?;
        self.alone(|store| store.lease_by(session, self.all.holder.as_ref()))
    }
}

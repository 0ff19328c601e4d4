//! One store for many threads. What they write at the same time becomes one transaction and reaches the disk together, so that a
//! hundred sessions wait about as long as one; what they read, each reads alone.
//!
//! Whoever comes first writes, on its own thread, what has gathered until then; those behind it wait, and when it is done the next of
//! them writes for all who came meanwhile. Whoever does not wait for the disk does not wait for the database either: what it writes
//! is [`Underway`] and is taken into the database a moment later, or before anyone reads or writes there.

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
use crate::underway::Underway;
use crate::{Health, Lease, Result, Sqlite, Store, StoreError};

/// Writes that go into one transaction at most: nobody waits for an endless one.
const MOST_TOGETHER: usize = 256;

/// Connections for readers that are kept open.
const SPARE: usize = 8;

/// How long what stands in the journal gathers before it is taken into the database.
const GATHER: Duration = Duration::from_millis(100);

/// How long whoever takes it in rests at most, and how many times a few must be left that it does not.
const LONGEST_REST: Duration = Duration::from_millis(5);
const MANY: usize = 100;

/// How long to wait where the database cannot take anything.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How long nothing must come before the log of the database is brought into its file and new words are made findable.
const REST: Duration = Duration::from_secs(1);

/// How long it is put off where something always comes: about as long as the system itself leaves what was written in memory.
const LONGEST_UNTIDY: Duration = Duration::from_secs(30);

/// Pages in the log of the database with which whoever writes does that itself: where tidying up is too slow.
const LONGEST_LOG: u32 = 16_000;

/// Inputs that are made findable at once: whoever wants to write meanwhile waits for so many.
const INDEXED_AT_ONCE: usize = 64;

/// Something to write, in words of its own: another thread may do it, or another process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// A session that begins.
    Begin(NewSession),
    /// What a session is told.
    Commit(String, Vec<Write>),
    /// The same, where its records go so far.
    Note(String, Counts, Vec<Write>),
    /// A session that goes on from an earlier point.
    Branch(String, Counts, Option<Fork>, Vec<Write>),
    /// What is passed on, and its number.
    Sent(u64, NewForwarded),
    /// What came of it.
    Answered(u64, Answered),
    /// So many inputs are to be made findable.
    Index(usize),
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// How far a session's records go.
    pub(crate) counts: Counts,
    /// How many inputs were made findable.
    pub(crate) indexed: usize,
}

struct Waiting {
    job: Job,
    /// Who waits for it, and can write for others.
    who: SyncSender<Turn>,
}

/// What a thread that waits is told.
enum Turn {
    /// Its job is done.
    Done(Result<Written>),
    /// It is the next to write.
    Write,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Whether someone writes, or was told to.
    busy: bool,
}

/// A handle on a store that threads share. Clones are the same store.
#[derive(Clone)]
pub struct Shared {
    all: Arc<All>,
    synced: bool,
}

/// What the handles have in common.
struct All {
    queue: Mutex<Queue>,
    underway: Underway,
    writer: Mutex<Sqlite>,
    readers: Mutex<Vec<Sqlite>>,
    path: Box<Path>,
    /// The files of the database as they were when it was opened.
    in_use: [InUse; 2],
    /// What came of the last writes.
    outcomes: Outcomes,
    /// What the leases of its sessions are names of.
    holder: Option<Arc<Holder>>,
    /// To the thread that takes in what is under way.
    come: SyncSender<()>,
    /// To the thread that tidies up.
    grown: SyncSender<()>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("path", &self.all.path).field("synced", &self.synced).finish_non_exhaustive()
    }
}

impl Shared {
    /// Shares a store that is in a file. The threads that help end with the last handle.
    pub fn new(store: Sqlite) -> Result<Self> {
        store.set_longest_log(LONGEST_LOG)?;
        let path: Box<Path> = store.path().into();
        let tidier = Sqlite::connect(&path)?;
        let (come, coming) = sync_channel(1);
        let (grown, growth) = sync_channel(1);
        // Before the holder, so that the system lets go of it first where the process ends: whoever gets a lease then finds what was
        // on its way. Where it cannot be made now, it may be later.
        let underway = Underway::new(&path);
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

    /// The same store for what need not wait for the disk: it survives the end of the process, however that ends; what was written in
    /// the last seconds, half a minute under steady load, may be lost with the machine.
    #[must_use]
    pub fn unsynced(&self) -> Self {
        Self { synced: false, ..self.clone() }
    }

    /// Whether it takes what it is given. One that failed is tried again, at most once a second.
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

    /// As if the disk had no more room.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, most: Option<u32>) {
        lock(&self.all.writer).limit_pages(most);
    }

    fn write(&self, job: Job) -> Result<Written> {
        self.all.take_in()?;
        self.all.write(job)
    }

    /// Does something with a connection that nobody else uses meanwhile.
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

/// Locks; what a panic left behind is whole: a transaction that did not end is taken back.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl All {
    /// Whether the files of the database are where whoever opens it next looks for them.
    fn check(&self) -> Result<()> {
        self.in_use.iter().try_for_each(InUse::check)
    }

    /// Writes to the journal, and has it taken into the database a moment later.
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

    /// Takes what stands in the journal into the database.
    fn take_in(&self) -> Result<()> {
        if self.underway.is_empty() {
            return Ok(());
        }
        let taken = self.check().and_then(|()| self.underway.take_in(&self.writer, &|| self.grew()));
        self.outcomes.note(Way::Database, &taken);
        taken
    }

    /// Tells whoever tidies up that there is something to do, unless that is known already.
    fn grew(&self) {
        let _ = self.grown.try_send(());
    }

    /// Leaves nothing in the journal.
    fn clear(&self) -> Result<()> {
        self.underway.clear(&self.writer, &|| self.grew())
    }

    /// Puts a job into the queue; whether whoever brought it is the one to write.
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

    /// Writes where something waits and nobody writes.
    fn write_rest(&self) {
        let mut queue = lock(&self.queue);
        let is_left = !queue.waiting.is_empty() && !std::mem::replace(&mut queue.busy, true);
        drop(queue);
        if is_left {
            self.write_all();
        }
    }

    /// Writes whatever waits, all of it at once, and lets the next one write.
    fn write_all(&self) {
        let _next = Next(self);
        let mut queue = lock(&self.queue);
        let most = queue.waiting.len().min(MOST_TOGETHER);
        let (jobs, whom): (Vec<_>, Vec<_>) = queue.waiting.drain(..most).map(|waiting| (waiting.job, waiting.who)).unzip();
        drop(queue);
        let grows = jobs.iter().any(|job| !matches!(job, Job::Index(_)));
        let done = match self.check() {
            Ok(()) => lock(&self.writer).together(&jobs),
            Err(_) => jobs.iter().map(|_| self.check().map(|()| Written::default())).collect(),
        };
        if let Some(last) = done.last() {
            self.outcomes.note(Way::Database, last);
        }
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
            Self::Sent(..) | Self::Answered(..) | Self::Index(_) => None,
        }
    }
}

/// Lets the next one write, also where whoever wrote panicked.
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

/// Takes in what is under way, a few at a time. Nobody waits for it, so it rests in between: those who answer clients are not to be kept
/// from the processors.
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

/// Brings the log of the database into its file beside whoever writes, and makes new words findable. Who writes waits while the disk is
/// told to write, so both are done when nothing has come for a while, or not for too long.
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

/// Makes some new messages findable; whether there may be more.
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
        self.all.post(Job::Sent(number, new)).map_err(|unposted| unposted.1)?;
        Ok(number)
    }

    fn answered(&mut self, number: u64, answered: &Answered) -> Result<()> {
        self.all.post(Job::Answered(number, answered.clone())).map_err(|unposted| unposted.1)
    }

    fn forwarded(&self) -> Result<Vec<Forwarded>> {
        self.alone(|store| store.forwarded())
    }

    fn forwarded_before(&self, before: Option<u64>, most: usize) -> Result<Vec<Forwarded>> {
        self.alone(|store| store.forwarded_before(before, most))
    }

    fn forwarded_body(&self, number: u64) -> Result<String> {
        self.alone(|store| store.forwarded_body(number))
    }

    fn lease(&self, session: &str) -> Result<Lease> {
        self.all.check()?;
        self.alone(|store| store.lease_by(session, self.all.holder.as_ref()))
    }
}

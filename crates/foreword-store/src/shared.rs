//! One store for many threads. What they write at the same time becomes one transaction and reaches the disk together, so that a
//! hundred sessions wait about as long as one; what they read, each reads alone.
//!
//! Whoever comes first writes, on its own thread, what has gathered until then; those behind it wait, and when it is done the next of
//! them writes for all who came meanwhile.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use foreword_core::hash::Hash;
use serde_json::Value;

use crate::row::{
    Checkpoint, Counts, Dump, Fault, Fork, Forward, Forwarded, Found, Logged, NewSession, Request, SessionRow, Summary, Usage,
    Write,
};
use crate::{Lease, Result, Sqlite, Store, StoreError};

/// Writes that go into one transaction at most: nobody waits for an endless one.
const MOST_TOGETHER: usize = 256;

/// Connections for readers that are kept open.
const SPARE: usize = 8;

/// How long nothing must come before the log of the database is brought into its file and new words are made findable.
const REST: Duration = Duration::from_secs(1);

/// How long it is put off where something always comes: about as long as the system itself leaves what was written in memory.
const LONGEST_UNTIDY: Duration = Duration::from_secs(30);

/// Pages in the log of the database with which whoever writes does that itself: where tidying up is too slow.
const LONGEST_LOG: u32 = 16_000;

/// Inputs that are made findable at once: whoever wants to write meanwhile waits for so many.
const INDEXED_AT_ONCE: usize = 64;

/// Something to write, in words of its own: another thread may do it.
#[derive(Debug)]
pub(crate) enum Job {
    /// A session that begins.
    Begin(NewSession),
    /// What a session is told.
    Commit(String, Vec<Write>),
    /// A session that goes on from an earlier point.
    Branch(String, Counts, Option<Fork>, Vec<Write>),
    /// What was passed on.
    Forward(Vec<Forward>),
    /// So many inputs are to be made findable.
    Index(usize),
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// How far a session's records go.
    pub(crate) counts: Counts,
    /// The numbers of what was passed on.
    pub(crate) numbers: Vec<u64>,
    /// How many inputs were made findable.
    pub(crate) indexed: usize,
}

struct Waiting {
    job: Job,
    /// Whether whoever waits for it waits for the disk.
    synced: bool,
    who: Who,
}

/// Who is told what came of a job.
enum Who {
    /// A thread that waits, and can write for others.
    Thread(SyncSender<Turn>),
    /// Someone who goes on meanwhile.
    Caller(Box<dyn FnOnce(Result<Written>) + Send>),
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
    writer: Mutex<Sqlite>,
    readers: Mutex<Vec<Sqlite>>,
    path: Box<Path>,
    /// To the thread that writes where no other waits.
    idle: Sender<()>,
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
        let tidier = Sqlite::open_existing(&path)?;
        let (idle, asked) = channel();
        let (grown, growth) = sync_channel(1);
        let (queue, writer, readers) = (Mutex::default(), Mutex::new(store), Mutex::default());
        let all = Arc::new(All { queue, writer, readers, path, idle, grown });
        let no_thread = |error: std::io::Error| StoreError::Refused(format!("no thread for the store: {error}"));
        let weak = Arc::downgrade(&all);
        thread::Builder::new().name("store".to_owned()).spawn(move || help(&weak, &asked)).map_err(no_thread)?;
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

    /// Records what is passed on, without waiting: `done` is told on the thread that writes, and has to be quick.
    pub fn record(&self, writes: Vec<Forward>, done: impl FnOnce(Result<Vec<u64>>) + Send + 'static) {
        let done = Box::new(|written: Result<Written>| done(written.map(|written| written.numbers)));
        let waiting = Waiting { job: Job::Forward(writes), synced: self.synced, who: Who::Caller(done) };
        if self.all.wait(waiting) && self.all.idle.send(()).is_err() {
            self.all.write_all();
        }
    }

    fn write(&self, job: Job) -> Result<Written> {
        self.all.write(job, self.synced)
    }

    /// Does something with a connection that nobody else uses meanwhile.
    fn alone<T>(&self, work: impl FnOnce(&mut Sqlite) -> Result<T>) -> Result<T> {
        let spare = lock(&self.all.readers).pop();
        let mut store = spare.map_or_else(|| Sqlite::open_existing(&self.all.path), Ok)?;
        let done = work(&mut store);
        let mut readers = lock(&self.all.readers);
        if readers.len() < SPARE {
            readers.push(store);
        }
        done
    }
}

/// Locks; what a panic left behind is whole: a transaction that did not end is taken back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl All {
    /// Puts a job into the queue; whether whoever brought it has to see to it that someone writes.
    fn wait(&self, waiting: Waiting) -> bool {
        let mut queue = lock(&self.queue);
        queue.waiting.push_back(waiting);
        !std::mem::replace(&mut queue.busy, true)
    }

    fn write(&self, job: Job, synced: bool) -> Result<Written> {
        let (turn, turns) = sync_channel(2);
        if self.wait(Waiting { job, synced, who: Who::Thread(turn) }) {
            self.write_all();
        }
        loop {
            match turns.recv() {
                Ok(Turn::Done(written)) => return written,
                Ok(Turn::Write) => self.write_all(),
                Err(_) => return Err(StoreError::Refused("the store ended before it was done".to_owned())),
            }
        }
    }

    /// Writes whatever waits, all of it at once, and lets the next one write.
    fn write_all(&self) {
        let _next = Next(self);
        let (mut jobs, mut whom, mut synced) = (Vec::new(), Vec::new(), false);
        let mut queue = lock(&self.queue);
        let most = queue.waiting.len().min(MOST_TOGETHER);
        for waiting in queue.waiting.drain(..most) {
            jobs.push(waiting.job);
            whom.push(waiting.who);
            synced |= waiting.synced;
        }
        drop(queue);
        let grows = jobs.iter().any(|job| !matches!(job, Job::Index(_)));
        let done = lock(&self.writer).together(&jobs, synced);
        for (written, who) in done.into_iter().zip(whom) {
            match who {
                // Whoever asked may be gone; it is stored.
                Who::Thread(turn) => drop(turn.send(Turn::Done(written))),
                Who::Caller(done) => done(written),
            }
        }
        if grows {
            // Where that is known already, it need not be told again.
            let _ = self.grown.try_send(());
        }
    }
}

/// Lets the next one write, also where whoever wrote panicked.
struct Next<'a>(&'a All);

impl Drop for Next<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0.queue);
        let threads =
            queue.waiting.iter().filter_map(|waiting| if let Who::Thread(turn) = &waiting.who { Some(turn) } else { None });
        // A thread that panics may be one of them.
        let told = !thread::panicking() && threads.map(|turn| turn.try_send(Turn::Write)).any(|told| told.is_ok());
        queue.busy = told || (!queue.waiting.is_empty() && self.0.idle.send(()).is_ok());
    }
}

/// Writes where no other thread waits for what it wants written.
fn help(all: &Weak<All>, asked: &Receiver<()>) {
    while asked.recv().is_ok() {
        let Some(all) = all.upgrade() else { return };
        // A panic is told of where it happens; the others are still to be written for.
        let _ = catch_unwind(AssertUnwindSafe(|| all.write_all()));
    }
}

impl Drop for All {
    fn drop(&mut self) {
        // Those who did not wait.
        while !lock(&self.queue).waiting.is_empty() {
            self.write_all();
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
    all.write(Job::Index(INDEXED_AT_ONCE), false).is_ok_and(|written| written.indexed == INDEXED_AT_ONCE)
}

impl Store for Shared {
    fn begin(&mut self, new: &NewSession) -> Result<()> {
        self.write(Job::Begin(new.clone())).map(drop)
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
        self.alone(|store| store.delete(session))
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
        self.alone(|store| store.load(dump))
    }

    fn forward(&mut self, writes: &[Forward]) -> Result<Vec<u64>> {
        self.write(Job::Forward(writes.to_vec())).map(|written| written.numbers)
    }

    fn forwarded(&self) -> Result<Vec<Forwarded>> {
        self.alone(|store| store.forwarded())
    }

    fn forwarded_body(&self, number: u64) -> Result<String> {
        self.alone(|store| store.forwarded_body(number))
    }

    fn lease(&self, session: &str) -> Result<Lease> {
        self.alone(|store| store.lease(session))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Entry;

    fn new(id: &str) -> NewSession {
        NewSession { id: id.to_owned(), title: None, created_ms: 1, agent: json!({}), setup: json!({}) }
    }

    fn turn(words: &str) -> Write {
        Write::Input(Entry { kind: "turn".to_owned(), run: 1, at_ms: 2, cut_off: false, body: json!({"words": words}) })
    }

    #[test]
    fn what_many_threads_write_at_once_is_all_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.sqlite");
        let shared = Shared::new(Sqlite::open(&path).unwrap()).unwrap();
        thread::scope(|scope| {
            for thread in 0..16 {
                let mut store = shared.clone();
                scope.spawn(move || {
                    let id = format!("s{thread}");
                    store.begin(&new(&id)).unwrap();
                    for number in 0..20 {
                        let counts =
                            store.commit(&id, &[Write::Part("p".to_owned()), turn(&format!("{thread} {number}"))]).unwrap();
                        assert_eq!(counts.inputs, number + 1);
                        // Whoever has written can read it.
                        assert_eq!(store.log(&id, number).unwrap().len(), 1);
                    }
                });
            }
        });
        let store = Sqlite::open(&path).unwrap();
        for thread in 0..16 {
            let log = store.log(&format!("s{thread}"), 0).unwrap();
            let words: Vec<_> = log.iter().map(|logged| logged.body["words"].clone()).collect();
            assert_eq!(words, (0..20).map(|number| json!(format!("{thread} {number}"))).collect::<Vec<_>>());
        }
        assert_eq!(store.check().unwrap(), []);
    }

    #[test]
    fn those_who_wait_and_those_who_do_not_are_all_told() {
        let folder = tempfile::tempdir().unwrap();
        let shared = Shared::new(Sqlite::open(&folder.path().join("store.sqlite")).unwrap()).unwrap();
        let (told, heard) = channel();
        thread::scope(|scope| {
            for thread in 0..8 {
                let (mut store, told) = (shared.clone(), told.clone());
                scope.spawn(move || {
                    let id = format!("s{thread}");
                    store.begin(&new(&id)).unwrap();
                    let quick = store.unsynced();
                    for number in 0..50 {
                        let told = told.clone();
                        quick.record(vec![passed(number)], move |done| told.send(done.unwrap().len()).unwrap());
                        if number % 5 == 0 {
                            store.commit(&id, &[turn("slow")]).unwrap();
                        } else {
                            quick.clone().commit(&id, &[turn("quick")]).unwrap();
                        }
                    }
                });
            }
        });
        drop(told);
        // The last of them may still be on their way.
        assert_eq!(heard.iter().sum::<usize>(), 400);
        assert_eq!(shared.forwarded().unwrap().len(), 400);
        assert!(shared.sessions().unwrap().iter().all(|row| row.counts.inputs == 50));
    }

    fn passed(at_ms: i64) -> Forward {
        let (front, model, body) = ("chat".to_owned(), "m".to_owned(), "{}".to_owned());
        Forward::Sent(crate::NewForwarded { at_ms, front, model, session: None, body })
    }

    #[test]
    fn one_that_fails_takes_nobody_along() {
        let mut store = Sqlite::in_memory().unwrap();
        let jobs = [
            Job::Begin(new("a")),
            Job::Commit("a".to_owned(), vec![turn("one")]),
            Job::Commit("nobody".to_owned(), vec![turn("lost")]),
            Job::Begin(new("a")),
            // The first of its writes would be fine; it goes with the second.
            Job::Commit("a".to_owned(), vec![turn("half"), Write::Usage(7, Usage::default())]),
            Job::Commit("a".to_owned(), vec![turn("two")]),
        ];
        let done: Vec<_> = store.together(&jobs, true).into_iter().map(|done| done.map(|done| done.counts.inputs)).collect();
        assert!(
            matches!(
                &done[..],
                [
                    Ok(0),
                    Ok(1),
                    Err(StoreError::NoSession(_)),
                    Err(StoreError::Exists(_)),
                    Err(StoreError::NoRequest { .. }),
                    Ok(2)
                ]
            ),
            "{done:?}"
        );
        let words: Vec<_> = store.log("a", 0).unwrap().into_iter().map(|logged| logged.body["words"].clone()).collect();
        assert_eq!(words, ["one", "two"]);
        assert_eq!(store.check().unwrap(), []);
    }
}

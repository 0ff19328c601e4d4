//! One store for many threads. What they write at the same time becomes one transaction and reaches the disk together, so that a
//! hundred sessions wait about as long as one; what they read, each reads alone.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

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

/// Something to write, in words of its own: whoever wants it is another thread.
#[derive(Debug)]
pub(crate) enum Job {
    /// A session that begins.
    Begin(NewSession),
    /// What a session is told.
    Commit(String, Vec<Write>),
    /// A session that goes on from an earlier point.
    Branch(String, Counts, Option<Fork>, Vec<Write>),
}

struct Waiting {
    job: Job,
    done: SyncSender<Result<Counts>>,
}

/// A handle on a store that threads share. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Shared {
    writer: Sender<Waiting>,
    readers: Arc<Mutex<Vec<Sqlite>>>,
    path: Arc<Path>,
}

impl Shared {
    /// Shares a store that is in a file. The thread that writes ends with the last handle.
    pub fn new(mut store: Sqlite) -> Result<Self> {
        let path: Arc<Path> = store.path().into();
        let (writer, jobs) = channel();
        let spawned = thread::Builder::new().name("store".to_owned()).spawn(move || work(&mut store, &jobs));
        spawned.map_err(|error| StoreError::Refused(format!("no thread for the store: {error}")))?;
        Ok(Self { writer, readers: Arc::default(), path })
    }

    fn write(&self, job: Job) -> Result<Counts> {
        let gone = || StoreError::Refused("the thread of the store ended before it was done".to_owned());
        let (done, answer) = sync_channel(1);
        self.writer.send(Waiting { job, done }).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }

    /// Does something with a connection that nobody else uses meanwhile.
    fn alone<T>(&self, work: impl FnOnce(&mut Sqlite) -> Result<T>) -> Result<T> {
        let spare = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut store = spare.map_or_else(|| Sqlite::open_existing(&self.path), Ok)?;
        let done = work(&mut store);
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < SPARE {
            readers.push(store);
        }
        done
    }
}

/// Writes whatever waits, all of it at once.
fn work(store: &mut Sqlite, jobs: &Receiver<Waiting>) {
    while let Ok(first) = jobs.recv() {
        let (together, done): (Vec<_>, Vec<_>) =
            std::iter::once(first).chain(jobs.try_iter().take(MOST_TOGETHER - 1)).map(|waiting| (waiting.job, waiting.done)).unzip();
        for (result, done) in store.together(&together).into_iter().zip(done) {
            // Whoever asked may be gone; it is stored.
            let _ = done.send(result);
        }
    }
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
        self.write(Job::Commit(session.to_owned(), writes.to_vec()))
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
        self.alone(|store| store.forward(writes))
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
                        let counts = store.commit(&id, &[Write::Part("p".to_owned()), turn(&format!("{thread} {number}"))]).unwrap();
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
        let done: Vec<_> = store.together(&jobs).into_iter().map(|done| done.map(|counts| counts.inputs)).collect();
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

//! Puts on record what is passed on. The store takes whatever waits and writes it at once, so that a hundred requests that come together
//! wait once.

use std::sync::{Arc, Mutex, PoisonError};

use foreword_store::{Answered, Forward, NewForwarded, Shared, StoreError};
use tokio::sync::oneshot;

/// Answers that could not be recorded and are tried again with the next write; more are lost.
const KEPT: usize = 4096;

/// Why something is not on record, in words.
type Why = String;

/// The way into the store.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    store: Shared,
    /// Answers that could not be recorded.
    left: Arc<Mutex<Vec<Forward>>>,
}

impl Recorder {
    /// Over a store that others share. What it records survives the end of the process; nobody waits for the disk.
    pub(super) fn new(store: &Shared) -> Self {
        Self { store: store.unsynced(), left: Arc::default() }
    }

    /// Records a request; done when it is stored. Its number, or why it is not on record.
    pub(super) async fn sent(&self, new: NewForwarded) -> Result<u64, Why> {
        let (told, number) = oneshot::channel();
        // Whoever asked may be gone.
        self.write(Some(Forward::Sent(new)), |numbers| drop(told.send(numbers)));
        let numbers = number.await.map_err(|_| "the thread that records has ended".to_owned())?;
        let number = numbers.map_err(|error| error.to_string())?.pop();
        number.ok_or_else(|| "the store gave it no number".to_owned())
    }

    /// Records what came of one; does not wait for it to be stored.
    pub(super) fn answered(&self, number: u64, answered: Answered) {
        self.write(Some(Forward::Answered(number, answered)), |_| {});
    }

    /// Waits until everything that was told before is stored.
    pub(super) async fn flush(&self) {
        let (told, done) = oneshot::channel();
        self.write(None, |_| told.send(()).unwrap_or_default());
        let _ = done.await;
    }

    fn write(&self, new: Option<Forward>, done: impl FnOnce(Result<Vec<u64>, StoreError>) + Send + 'static) {
        let kept = || self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut writes = std::mem::take(&mut *kept());
        writes.extend(new);
        let answers: Vec<_> = writes.iter().filter(|write| matches!(write, Forward::Answered(..))).cloned().collect();
        let left = Arc::clone(&self.left);
        self.store.record(writes, move |written| {
            if written.is_err() {
                let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
                left.extend(answers);
                left.truncate(KEPT);
            }
            done(written);
        });
    }
}

#[cfg(test)]
mod tests {
    use foreword_store::{Sqlite, Store as _, Usage};

    use super::*;

    fn new(at_ms: i64) -> NewForwarded {
        NewForwarded { at_ms, front: "chat".to_owned(), model: "m".to_owned(), session: None, body: format!("{at_ms}") }
    }

    #[test]
    fn many_at_once_are_recorded_each_under_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        let recorder = Recorder::new(&Shared::new(Sqlite::open(&file).unwrap()).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for at in 0..500_i64 {
                let recorder = recorder.clone();
                tasks.spawn(async move {
                    let number = recorder.sent(new(at)).await.unwrap();
                    let usage = Usage { output: at.unsigned_abs(), ..Usage::default() };
                    recorder.answered(number, Answered { status: Some(200), usage });
                });
            }
            while tasks.join_next().await.is_some() {}
            recorder.flush().await;
        });
        let store = Sqlite::open(&file).unwrap();
        let all = store.forwarded().unwrap();
        assert_eq!(all.len(), 500);
        for one in all {
            assert_eq!((one.usage.output, one.status), (one.at_ms.unsigned_abs(), Some(200)));
            assert_eq!(store.forwarded_body(one.number).unwrap(), one.at_ms.to_string());
        }
    }
}

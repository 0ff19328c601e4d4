//! Puts on record what is passed on.

use std::sync::{Arc, Mutex, PoisonError};

use foreword_store::{Answered, NewForwarded, Result, Shared, Store as _};

/// Answers that could not be recorded and are tried again with the next one; more are lost.
const KEPT: usize = 4096;

/// The way into the store.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    store: Shared,
    /// Answers that could not be recorded.
    left: Arc<Mutex<Vec<(u64, Answered)>>>,
}

impl Recorder {
    /// Over a store that others share. What it records survives the end of the process; nobody waits for the disk.
    pub(super) fn new(store: &Shared) -> Self {
        Self { store: store.unsynced(), left: Arc::default() }
    }

    /// Records a request; its number.
    pub(super) fn sent(&self, new: NewForwarded) -> Result<u64> {
        self.store.clone().sent(new)
    }

    /// Records what came of one, and of those before that could not be recorded.
    pub(super) fn answered(&self, number: u64, answered: Answered) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.push((number, answered));
        let mut store = self.store.clone();
        let done = left.iter().take_while(|(number, answered)| store.answered(*number, answered).is_ok()).count();
        left.drain(..done);
        left.truncate(KEPT);
    }

    /// Waits until the database has all of it.
    pub(super) fn settle(&self) {
        // What it cannot take now, it does when it is opened.
        let _ = self.store.clone().settle(None);
    }
}

#[cfg(test)]
mod tests {
    use foreword_store::{Sqlite, Store as _, Usage};

    use super::*;

    fn new(at_ms: i64) -> NewForwarded {
        NewForwarded {
            at_ms,
            front: "chat".to_owned(),
            model: "m".to_owned(),
            session: None,
            body: format!("{at_ms}"),
            about: None,
        }
    }

    #[test]
    fn many_at_once_are_recorded_each_under_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        let recorder = Recorder::new(&Shared::new(Sqlite::open(&file).unwrap()).unwrap());
        std::thread::scope(|scope| {
            for thread in 0..10 {
                let recorder = &recorder;
                scope.spawn(move || {
                    for at in thread * 150..(thread + 1) * 150 {
                        let number = recorder.sent(new(at)).unwrap();
                        let usage = Usage { output: at.unsigned_abs(), ..Usage::default() };
                        recorder.answered(number, Answered { status: Some(200), usage, about: None });
                    }
                });
            }
        });
        recorder.settle();
        let store = Sqlite::open(&file).unwrap();
        let all = store.forwarded().unwrap();
        assert_eq!(all.len(), 1500);
        for one in all {
            assert_eq!((one.usage.output, one.status), (one.at_ms.unsigned_abs(), Some(200)));
            assert_eq!(store.forwarded_body(one.number).unwrap(), one.at_ms.to_string());
        }
    }
}

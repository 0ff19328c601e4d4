//! Puts on record what is passed on: one thread, one connection. It takes whatever waits and commits it at once, so that a hundred
//! requests that come together wait for the disk once.

use std::io;
use std::thread;

use foreword_store::{Answered, Forward, NewForwarded, Store};
use tokio::sync::{mpsc, oneshot};

/// What may wait before whoever brings more has to wait too.
const WAITING: usize = 1024;

/// The most that one commit takes.
const AT_ONCE: usize = 256;

/// Answers that could not be recorded and are tried again with the next commit; more are lost.
const KEPT: usize = 4096;

/// Why something is not on record, in words.
type Why = String;

enum Job {
    Sent(NewForwarded, oneshot::Sender<Result<u64, Why>>),
    Answered(u64, Answered),
    Flush(oneshot::Sender<()>),
}

/// The way to the thread that records. It ends when this is dropped, once everything is written.
#[derive(Clone, Debug)]
pub struct Recorder {
    jobs: mpsc::Sender<Job>,
}

impl Recorder {
    /// Starts it on a store of its own.
    pub fn start(store: impl Store + 'static) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::channel(WAITING);
        thread::Builder::new().name("recorder".to_owned()).spawn(move || record(store, waiting))?;
        Ok(Self { jobs })
    }

    /// Records a request; done when it is stored. Its number, or why it is not on record.
    pub async fn sent(&self, new: NewForwarded) -> Result<u64, Why> {
        let gone = || "the thread that records has ended".to_owned();
        let (told, number) = oneshot::channel();
        self.jobs.send(Job::Sent(new, told)).await.map_err(|_| gone())?;
        number.await.map_err(|_| gone())?
    }

    /// Records what came of one; does not wait for it to be stored.
    pub async fn answered(&self, number: u64, answered: Answered) {
        // Without the thread there is nothing to record with.
        let _ = self.jobs.send(Job::Answered(number, answered)).await;
    }

    /// Waits until everything that was told before is stored.
    pub async fn flush(&self) {
        let (told, done) = oneshot::channel();
        if self.jobs.send(Job::Flush(told)).await.is_ok() {
            let _ = done.await;
        }
    }
}

fn record(mut store: impl Store, mut waiting: mpsc::Receiver<Job>) {
    let mut jobs = Vec::with_capacity(AT_ONCE);
    let mut writes = Vec::new();
    while waiting.blocking_recv_many(&mut jobs, AT_ONCE) > 0 {
        let (mut asked, mut flushed) = (Vec::new(), Vec::new());
        for job in jobs.drain(..) {
            match job {
                Job::Sent(new, told) => {
                    writes.push(Forward::Sent(new));
                    asked.push(told);
                }
                Job::Answered(number, answered) => writes.push(Forward::Answered(number, answered)),
                Job::Flush(told) => flushed.push(told),
            }
        }
        let stored = if writes.is_empty() { Ok(Vec::new()) } else { store.forward(&writes) };
        match stored {
            Ok(numbers) => {
                writes.clear();
                for (told, number) in asked.into_iter().zip(numbers) {
                    // Whoever asked may be gone.
                    let _ = told.send(Ok(number));
                }
            }
            Err(error) => {
                for told in asked {
                    let _ = told.send(Err(error.to_string()));
                }
                writes.retain(|write| matches!(write, Forward::Answered(..)));
                writes.truncate(KEPT);
            }
        }
        for told in flushed {
            let _ = told.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use foreword_store::{Sqlite, Usage};

    use super::*;

    fn new(at_ms: i64) -> NewForwarded {
        NewForwarded { at_ms, front: "chat".to_owned(), model: "m".to_owned(), session: None, body: format!("{at_ms}") }
    }

    #[test]
    fn many_at_once_are_recorded_each_under_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        let recorder = Recorder::start(Sqlite::open(&file).unwrap()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for at in 0..500_i64 {
                let recorder = recorder.clone();
                tasks.spawn(async move {
                    let number = recorder.sent(new(at)).await.unwrap();
                    let usage = Usage { output: at.unsigned_abs(), ..Usage::default() };
                    recorder.answered(number, Answered { status: Some(200), usage }).await;
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

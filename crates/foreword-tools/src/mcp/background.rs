//! The thread on which all servers of a toolbox are spoken to. Callers are not async, and may themselves stand on a runtime that must not
//! be blocked from within, so the two meet through channels only.

use std::future::Future;
use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// How long the end of the last servers is waited for.
const FAREWELL: Duration = Duration::from_secs(3);

/// What a task holds that must end before the thread does.
pub(super) type Guest = tokio::sync::mpsc::Sender<()>;

pub(crate) struct Background {
    handle: Handle,
    guest: Option<Guest>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let (guest, mut gone) = tokio::sync::mpsc::channel(1);
        let thread = thread::Builder::new().name("tool servers".to_owned()).spawn(move || {
            runtime.block_on(async move {
                // The sender is dropped or sends: both mean the end.
                let _ = ended.await;
                let _ = tokio::time::timeout(FAREWELL, gone.recv()).await;
            });
        })?;
        Ok(Self { handle, guest: Some(guest), end: Some(end), thread: Some(thread) })
    }

    /// For a task that the end must wait for.
    pub(super) fn guest(&self) -> Option<Guest> {
        self.guest.clone()
    }

    /// Starts something, and gives what it will be waited for by.
    pub(super) fn begin<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Pending<T> {
        let (done, result) = mpsc::channel();
        self.handle.spawn(async move {
            // It fails if the caller stopped waiting.
            let _ = done.send(work.await);
        });
        Pending(result)
    }

    /// The same until `stop` is cancelled. The work goes on then, but nobody waits for it.
    pub(super) fn begin_unless<T: Send + 'static>(
        &self,
        stop: CancellationToken,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Pending<Waited<T>> {
        let running = self.handle.spawn(work);
        self.begin(async move {
            tokio::select! {
                done = running => Waited::Done(done.ok()),
                () = stop.cancelled() => Waited::Stopped,
            }
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.guest = None;
        if let Some(end) = self.end.take() {
            // It fails if the thread has ended already.
            let _ = end.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// Something that goes on in the background.
pub(super) struct Pending<T>(mpsc::Receiver<T>);

/// What waiting came to.
pub(super) enum Waited<T> {
    /// It is done; without a result where it ended in an unforeseen way.
    Done(Option<T>),
    /// It goes on, but is not to be waited for any more.
    Stopped,
}

impl<T> Pending<T> {
    /// Waits for it; nothing where it ended without a result.
    pub(super) fn wait(&self) -> Option<T> {
        self.0.recv().ok()
    }
}

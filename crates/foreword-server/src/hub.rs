//! The sessions that are open here, each with its desk and its feed. What may wait is done by a thread of the session, which is there once
//! it is needed.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use foreword_engine::session::{Stopper, new_session_id};
use serde_json::json;
use tokio::sync::oneshot;

use crate::actor::{Job, OpenSession, READY, Turn, try_at, work};
use crate::app::Common;
use crate::approve::Approvals;
use crate::config::Rest;
use crate::feed::Feed;
use crate::problem::{CONFLICT, INTERNAL, Problem, TOO_MANY, UNAVAILABLE};

/// Jobs that may wait for a session.
const WAITING: usize = 16;

/// The handle of an open session, outside of its thread.
#[derive(Clone, Debug)]
pub(crate) struct SessionHandle {
    /// Stops the turn that runs.
    pub(crate) stopper: Stopper,
    /// What happens.
    pub(crate) feed: Arc<Feed>,
    /// Whether a turn runs.
    pub(crate) running: Arc<AtomicBool>,
    /// What it asks before it does it.
    pub(crate) approvals: Arc<Approvals>,
    /// The event with which the turn that runs began; 0 before there is one.
    pub(crate) began: Arc<AtomicU64>,
}

impl SessionHandle {
    pub(crate) fn new(feed: Arc<Feed>) -> Self {
        Self { stopper: Stopper::default(), feed, running: Arc::default(), approvals: Arc::default(), began: Arc::default() }
    }

    /// Begins a turn, unless one runs already.
    pub(crate) fn begin(&self) -> Option<Running> {
        let begun = !self.running.swap(true, Ordering::AcqRel);
        if begun {
            self.began.store(0, Ordering::Release);
        }
        begun.then(|| Running(Arc::clone(&self.running)))
    }

    /// Stops the turn that runs. Nothing that it asks is waited for.
    pub(crate) fn stop(&self) {
        self.stopper.stop();
        self.approvals.refuse_all();
    }

    /// The event after which the running turn's events follow.
    pub(crate) fn turn_event(&self) -> Option<String> {
        let began = self.began.load(Ordering::Acquire);
        (began > 0 && self.running.load(Ordering::Acquire)).then(|| self.feed.id(began))
    }
}

/// While this is held a turn runs.
pub(crate) struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

pub(crate) fn answering(session: &str) -> Problem {
    Problem::new(CONFLICT, format!("session {session} is answering; stop it, or wait until it is finished"))
}

pub(crate) fn ended() -> Problem {
    Problem::new(INTERNAL, "the session's thread ended unexpectedly")
}

struct Open {
    line: SessionHandle,
    desk: Arc<Mutex<OpenSession>>,
    /// Its thread and the way to it, once there was something to do that may wait.
    worker: Option<(SyncSender<Job>, JoinHandle<()>)>,
    used: Instant,
}

/// How often it is looked for sessions that can be let go of.
const LOOK: Duration = Duration::from_secs(1);

/// Where more sessions than these are open, what they need is let go of sooner.
const MANY: usize = 32;

impl Open {
    /// The way to its thread.
    fn jobs(&mut self, session: &str) -> Result<&SyncSender<Job>, Problem> {
        let worker = if let Some(worker) = self.worker.take() {
            worker
        } else {
            let (jobs, waiting) = sync_channel(WAITING);
            let desk = Arc::clone(&self.desk);
            let builder = thread::Builder::new().name(format!("session {session}"));
            let thread = builder.spawn(move || work(&desk, &waiting));
            let no_thread = |error| Problem::new(UNAVAILABLE, format!("cannot start a thread for session {session}: {error}"));
            (jobs, thread.map_err(no_thread)?)
        };
        Ok(&self.worker.insert(worker).0)
    }
}

/// All open sessions.
pub(crate) struct Hub {
    common: Arc<Common>,
    most: usize,
    rest: Rest,
    open: Mutex<HashMap<String, Open>>,
}

impl Hub {
    pub(crate) fn new(common: Arc<Common>, most: usize, rest: Rest) -> std::io::Result<Arc<Self>> {
        let hub = Arc::new(Self { common, most, rest, open: Mutex::default() });
        let weak = Arc::downgrade(&hub);
        thread::Builder::new().name("sessions".to_owned()).spawn(move || {
            while let Some(hub) = weak.upgrade() {
                // A panic is told of where it happens; the others are to be let go of all the same.
                let _ = catch_unwind(AssertUnwindSafe(|| hub.rest()));
                drop(hub);
                thread::sleep(LOOK);
            }
        })?;
        Ok(hub)
    }

    /// Lets go of what was not needed for some time.
    fn rest(&self) {
        let idle = |open: &Open| !open.line.running.load(Ordering::Acquire);
        let (many, desks) = {
            let open = self.open();
            let idle = open.iter().filter(|(_, open)| idle(open));
            (open.len() > MANY, idle.map(|(id, open)| (id.clone(), Arc::clone(&open.desk))).collect::<Vec<_>>())
        };
        let (tools, model) = if many { (self.rest.soon, self.rest.soon) } else { (self.rest.after, READY) };
        for (id, desk) in desks {
            // Whoever has it is about to do something.
            let Some((ends, is_at_rest)) = try_at(&desk).map(|mut desk| (desk.rest(tools, model), desk.is_at_rest())) else {
                continue;
            };
            // Tool servers take a moment to end; nobody waits for the desk meanwhile.
            drop(ends);
            if is_at_rest {
                self.end_thread(&id);
            }
        }
    }

    /// Ends the thread of a session that is at rest. Jobs that were posted meanwhile are still done by it.
    fn end_thread(&self, session: &str) {
        let mut open = self.open();
        let Some(open) = open.get_mut(session) else { return };
        if open.worker.take().is_some() {
            open.line.feed.trim();
        }
    }

    /// The desk of an open session.
    pub(crate) fn desk(&self, session: &str) -> Option<Arc<Mutex<OpenSession>>> {
        self.open().get(session).map(|open| Arc::clone(&open.desk))
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line to a session, which is opened where it was not.
    pub(crate) fn line(&self, session: &str) -> Result<SessionHandle, Problem> {
        let mut open = self.open();
        if let Some(known) = open.get_mut(session) {
            known.used = Instant::now();
            return Ok(known.line.clone());
        }
        if open.len() >= self.most {
            let idle = |open: &Open| !open.line.running.load(Ordering::Relaxed) && !open.line.feed.is_heard();
            let mut idle: Vec<_> = open.iter().filter(|(_, open)| idle(open)).map(|(id, open)| (open.used, id)).collect();
            // Some at once, so that not every new one looks through all of them; everyone waits meanwhile.
            let some = (self.most / 16).max(1).min(idle.len());
            let Some(last) = some.checked_sub(1) else {
                let many = format!("{} sessions are in use; close one of them", open.len());
                return Err(Problem::new(TOO_MANY, many));
            };
            idle.select_nth_unstable(last);
            let oldest: Vec<_> = idle[..some].iter().map(|(_, id)| (*id).clone()).collect();
            let oldest: Vec<_> = oldest.iter().filter_map(|oldest| open.remove(oldest)).collect();
            // What they still have to store may take a moment.
            self.common.runtime.spawn_blocking(move || drop(oldest));
        }
        let name = new_session_id()?;
        let line = SessionHandle::new(Arc::new(Feed::new(name)));
        let desk = OpenSession::new(session.to_owned(), line.clone(), Arc::clone(&self.common));
        let desk = Arc::new(Mutex::new(desk));
        open.insert(session.to_owned(), Open { line: line.clone(), desk, worker: None, used: Instant::now() });
        Ok(line)
    }

    /// Whether a session is answering.
    pub(crate) fn is_running(&self, session: &str) -> bool {
        self.open().get(session).is_some_and(|open| open.line.running.load(Ordering::Acquire))
    }

    /// Notifies clients that a session changed.
    pub(crate) fn changed(&self, session: &str) {
        let feed = self.open().get(session).map(|open| Arc::clone(&open.line.feed));
        if let Some(feed) = feed.filter(|feed| feed.is_heard()) {
            feed.tell("changed", &json!({}));
        }
    }

    /// The line to a session that is open.
    pub(crate) fn known(&self, session: &str) -> Option<SessionHandle> {
        self.open().get(session).map(|open| open.line.clone())
    }

    /// Runs a turn. Returns the event after which its events follow, once only the model can fail.
    pub(crate) async fn turn(&self, session: &str, turn: Turn) -> Result<(SessionHandle, u64), Problem> {
        let line = self.line(session)?;
        let running = line.begin().ok_or_else(|| answering(session))?;
        let (accepted, answered) = oneshot::channel();
        self.post(session, Box::new(move |desk| desk.turn(turn, running, accepted)))?;
        let after = answered.await.unwrap_or_else(|_| Err(ended()))?;
        Ok((line, after))
    }

    /// Puts a job into a session's queue.
    pub(crate) fn post(&self, session: &str, mut job: Job) -> Result<(), Problem> {
        let mut open = self.open();
        let Some(known) = open.get_mut(session) else {
            return Err(Problem::new(CONFLICT, format!("session {session} was just closed; try again")));
        };
        for _ in 0..2 {
            let jobs = known.jobs(session)?;
            job = match jobs.try_send(job) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(_)) => {
                    return Err(Problem::new(
                        TOO_MANY,
                        format!("too many requests are waiting for session {session}; try again in a moment"),
                    ));
                }
                // Its thread ended, which is a bug: the next one goes on at its desk, so that nobody listens in vain.
                Err(TrySendError::Disconnected(job)) => {
                    known.worker = None;
                    job
                }
            };
        }
        Err(Problem::new(INTERNAL, format!("session {session} does not accept requests")))
    }

    /// Has something done by a session's thread and waits for what comes of it.
    pub(crate) async fn ask<T, F>(&self, session: &str, job: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&mut OpenSession) -> Result<T, Problem> + Send + 'static,
    {
        // While a turn runs there is nothing else to be done to a session.
        if self.line(session)?.running.load(Ordering::Acquire) {
            return Err(answering(session));
        }
        let (answer, answered) = oneshot::channel();
        self.post(
            session,
            Box::new(move |desk| {
                // A client may have been faster.
                let done = if desk.is_relaying() { Err(answering(desk.id())) } else { job(desk) };
                // Whoever asked may be gone.
                let _ = answer.send(done);
            }),
        )?;
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    /// The same for what changes a session: where it cannot be stored, nothing is changed, and that is the answer.
    pub(crate) async fn change<T, F>(&self, session: &str, job: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&mut OpenSession) -> Result<T, Problem> + Send + 'static,
    {
        self.ask(session, move |desk| desk.change(job)).await
    }

    /// Lets go of a session that is no more.
    pub(crate) fn forget(&self, session: &str) {
        self.open().remove(session);
    }

    /// Ends all turns that run.
    pub(crate) fn stop_all(&self) {
        self.common.ends.cancel();
        for open in self.open().values() {
            open.line.stop();
        }
    }

    /// Closes all sessions; waits for them, but not for ever.
    pub(crate) fn close(&self, most: Duration) {
        let until = Instant::now() + most;
        let wait = |is_done: &dyn Fn() -> bool| {
            while !is_done() && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
        };
        let all = std::mem::take(&mut *self.open());
        // Dropping the queues ends the threads.
        let all: Vec<_> = all.into_values().map(|open| (open.line, open.worker.map(|(_, thread)| thread))).collect();
        for (line, thread) in all {
            // Also an answer whose client is gone.
            wait(&|| !line.running.load(Ordering::Acquire));
            wait(&|| thread.as_ref().is_none_or(JoinHandle::is_finished));
        }
    }
}

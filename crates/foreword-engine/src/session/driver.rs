//! The drivers of a turn: they carry out the steps of [`Turn`]. One blocks its thread, the other is async.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use foreword_core::catalog::Agent;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::machine::{Clock, ModelRequest, Step, StepResult, ToolRequest, Turn};
use super::recorded::RecordedSession;
use super::speak::{ChatModel, NoHands, Reply, ReplyPart, ReplyStream, SpeakError, ToolHost};
use super::turn::{Event, Question, TurnError, TurnOutcome};

/// Tools that an async turn runs on threads of their own.
pub type SharedTools = Arc<Mutex<dyn ToolHost + Send>>;

/// Receives the progress of an async turn. The turn waits for it.
pub trait Progress: Send {
    /// Receives an event.
    fn event<'a>(&'a mut self, event: Event<'a>) -> BoxFuture<'a, ()>;
}

/// Access to a session while a turn runs. The session is not borrowed while the turn waits.
pub trait SessionAccess: Send {
    /// Uses the session; fails if it was closed.
    fn with<T>(&mut self, work: impl FnOnce(&mut RecordedSession) -> T) -> Result<T, TurnError>;
}

impl SessionAccess for &mut RecordedSession {
    fn with<T>(&mut self, work: impl FnOnce(&mut RecordedSession) -> T) -> Result<T, TurnError> {
        Ok(work(self))
    }
}

impl RecordedSession {
    /// Runs a turn from the user's message to the last reply. `now` returns the time in milliseconds since 1970.
    pub fn send(
        &mut self,
        question: Question,
        model: &mut dyn ChatModel,
        tools: &mut dyn ToolHost,
        now: &dyn Fn() -> i64,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<TurnOutcome, TurnError> {
        self.run(Turn::question(question), model, tools, now, each)
    }

    /// Continues a turn without an answer, after a crash or a failed request.
    pub fn go_on(
        &mut self,
        model: &mut dyn ChatModel,
        tools: &mut dyn ToolHost,
        now: &dyn Fn() -> i64,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<TurnOutcome, TurnError> {
        self.run(Turn::resume(), model, tools, now, each)
    }

    /// Runs a turn and blocks this thread until it is over. It can also be called inside an async runtime, whose thread is then blocked.
    pub fn run(
        &mut self,
        mut turn: Turn,
        model: &mut dyn ChatModel,
        tools: &mut dyn ToolHost,
        now: &dyn Fn() -> i64,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<TurnOutcome, TurnError> {
        let stop = self.stopper.token();
        turn.set_cache_lifetime(model.cache_lifetime());
        let (mut reply, mut result) = (PendingStream::default(), StepResult::Done);
        loop {
            let clock = Clock { now, instant: Instant::now(), stopped: stop.is_cancelled() };
            let step = match turn.next(self, result, &clock) {
                Ok(step) => step,
                Err(error) => {
                    self.write([]);
                    return Err(error);
                }
            };
            result = match step {
                Step::Done(outcome) => return Ok(*outcome),
                Step::Show(notice) => {
                    each(notice.event());
                    StepResult::Done
                }
                Step::Tools(request) => request.run(tools, self.session.agent(), self.session.settings(), &stop),
                Step::Cache(request) => StepResult::Cached(wait(pin!(model.cache(*request)), None).flatten()),
                Step::Send(request) => {
                    reply = PendingStream::new(model, request, &stop);
                    reply.wait()
                }
                Step::Receive { show, store } => {
                    if store {
                        self.write([]);
                    }
                    if !show.is_empty() {
                        each(Event::Part(&show));
                    }
                    reply.wait()
                }
                step @ (Step::Store | Step::Checkpoint | Step::Transcript) => {
                    self.store_step(&step, now());
                    StepResult::Done
                }
            };
        }
    }

    fn store_step(&mut self, step: &Step, now_ms: i64) {
        match step {
            Step::Transcript => self.save_transcript(now_ms),
            step => {
                self.write([]);
                if matches!(step, Step::Checkpoint) {
                    self.checkpoint(now_ms);
                }
            }
        }
    }
}

/// Runs a turn without blocking the thread, inside a tokio runtime. Without `tools`, no tool can be used.
pub async fn run_turn(
    session: &mut impl SessionAccess,
    mut turn: Turn,
    model: &mut dyn ChatModel,
    tools: Option<SharedTools>,
    now: fn() -> i64,
    progress: &mut dyn Progress,
) -> Result<TurnOutcome, TurnError> {
    let stop = session.with(|session| session.stopper.token())?;
    turn.set_cache_lifetime(model.cache_lifetime());
    let (mut reply, mut result) = (PendingStream::default(), StepResult::Done);
    loop {
        let stopped = stop.is_cancelled();
        let step = session.with(|session| {
            let clock = Clock { now: &now, instant: Instant::now(), stopped };
            turn.next(session, result, &clock).inspect_err(|_| session.write([]))
        })??;
        result = match step {
            Step::Done(outcome) => return Ok(*outcome),
            Step::Show(notice) => {
                progress.event(notice.event()).await;
                StepResult::Done
            }
            Step::Tools(request) => run_tools(session, tools.clone(), request, stop.clone()).await?,
            Step::Cache(request) => StepResult::Cached(model.cache(*request).await),
            Step::Send(request) => {
                reply = PendingStream::new(model, request, &stop);
                reply.next().await
            }
            Step::Receive { show, store } => {
                if store {
                    session.with(|session| session.write([]))?;
                }
                if !show.is_empty() {
                    progress.event(Event::Part(&show)).await;
                }
                reply.next().await
            }
            step @ (Step::Store | Step::Checkpoint | Step::Transcript) => {
                session.with(|session| session.store_step(&step, now()))?;
                StepResult::Done
            }
        };
    }
}

/// Has tools do something on a thread of their own.
async fn run_tools(
    session: &mut impl SessionAccess,
    tools: Option<SharedTools>,
    request: ToolRequest,
    stop: CancellationToken,
) -> Result<StepResult, TurnError> {
    let (agent, settings) = session.with(|session| {
        // Only scores need the agent's items.
        let is_scores = matches!(request, ToolRequest::Scores(_));
        let agent = if is_scores { session.session.agent().clone() } else { Agent::default() };
        (agent, session.session.settings().clone())
    })?;
    let Some(tools) = tools else { return Ok(request.run(&mut NoHands, &agent, &settings, &stop)) };
    let (done, result) = oneshot::channel();
    let work = move || {
        let mut tools = tools.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = done.send(request.run(&mut *tools, &agent, &settings, &stop)); // the turn may be dropped already
    };
    if thread::Builder::new().name("tools".to_owned()).spawn(work).is_err() {
        return Err(TurnError::UnexpectedResult);
    }
    result.await.map_err(|_| TurnError::UnexpectedResult)
}

/// A reply that is being received.
#[derive(Default)]
struct PendingStream {
    parts: Option<ReplyStream>,
    /// Ends this reply alone.
    stop: CancellationToken,
    deadline: Option<Instant>,
    timed_out: bool,
}

impl PendingStream {
    fn new(model: &mut dyn ChatModel, request: ModelRequest, stop: &CancellationToken) -> Self {
        let ModelRequest { request, patience, .. } = request;
        let stop = stop.child_token();
        let parts = Some(model.answer(request, stop.clone()));
        Self { parts, stop, deadline: patience.map(|patience| Instant::now() + patience), timed_out: false }
    }

    /// Waits for the next part, without a runtime.
    fn wait(&mut self) -> StepResult {
        loop {
            let Some(parts) = &mut self.parts else { return self.result(None) };
            let (next, deadline) = (parts.next(), self.deadline);
            match wait(pin!(next), deadline) {
                Some(part) => return self.result(part),
                None => self.give_up(),
            }
        }
    }

    /// Waits for the next part.
    async fn next(&mut self) -> StepResult {
        loop {
            let Some(parts) = &mut self.parts else { return self.result(None) };
            let Some(deadline) = self.deadline else {
                let part = parts.next().await;
                return self.result(part);
            };
            match tokio::time::timeout_at(deadline.into(), parts.next()).await {
                Ok(part) => return self.result(part),
                Err(_) => self.give_up(),
            }
        }
    }

    /// It takes too long: it is ended, and what is there is taken.
    fn give_up(&mut self) {
        self.timed_out = true;
        self.deadline = None;
        self.stop.cancel();
    }

    fn result(&self, part: Option<ReplyPart>) -> StepResult {
        match part {
            Some(ReplyPart::Text(text)) => StepResult::Part(text),
            Some(ReplyPart::End(reply)) => StepResult::Reply(reply, self.timed_out),
            None => StepResult::Reply(Err(SpeakError::new("the model ended without an answer")), self.timed_out),
        }
    }
}

/// Receives a whole reply and blocks this thread until it is there.
pub fn receive(mut parts: ReplyStream, each: &mut dyn FnMut(&str)) -> Result<Reply, SpeakError> {
    loop {
        match wait(pin!(parts.next()), None).flatten() {
            Some(ReplyPart::Text(text)) => each(&text),
            Some(ReplyPart::End(reply)) => return reply,
            None => return Err(SpeakError::new("the model ended without an answer")),
        }
    }
}

/// Blocks this thread until a future is ready; `None` after the deadline. It needs no runtime and may be called inside of one.
fn wait<F: Future>(mut future: Pin<&mut F>, deadline: Option<Instant>) -> Option<F::Output> {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
            None => thread::park(),
            Some(left) if left.is_zero() => return None,
            Some(left) => thread::park_timeout(left),
        }
    }
}

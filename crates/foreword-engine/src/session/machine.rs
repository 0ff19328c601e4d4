//! A turn as a state machine. It does no IO: [`Turn::next`] takes the result of the last step and returns the next one. A driver
//! (`driver`) carries the steps out: it stores, sends requests, runs tools and shows progress. Turns of the user, turns of gateway
//! clients, previews and side requests all go through this machine.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreword_core::catalog::Agent;
use foreword_core::message::ToolCall;
use foreword_core::session::{Due, Input};
use foreword_core::settings::Settings;
use foreword_core::tokens::Tokens;
use foreword_provider::dialect::gemini::GeminiCacheRequest;
use foreword_store::{Health, Usage};
use foreword_tools::Output;
use tokio_util::sync::CancellationToken;

use super::called::{Called, called};
use super::cite::{Citable, cited, source_list};
use super::client::{self, ClientOptions, GAP, PART_EVERY};
use super::cold::ColdCache;
use super::ending::Ending;
use super::found::{FoundNote, found_notes, sent_once};
use super::log_entry::LogEntry;
use super::manage::Summarizing;
use super::own::{Done, Own};
use super::planner::Planning;
use super::recorded::RecordedSession;
use super::request::{Draft, LaidOut, Outgoing, Pending};
use super::speak::{Call, Reply, Scores, Size, Sources, SpeakError, ToolHost};
use super::turn::{Event, MAX_CALLS_PER_REPLY, Mode, Question, TurnError, TurnOutcome, images_not_taken, once, surplus};

/// The largest number of requests in one turn.
const MAX_REQUESTS: usize = 20;

/// What the driver of a turn does next.
#[derive(Debug)]
pub enum Step {
    /// Store everything that was recorded.
    Store,
    /// The same, and a checkpoint if one is due.
    Checkpoint,
    /// Update the session's file in the vault.
    Transcript,
    /// Show progress to the user.
    Show(Notice),
    /// Search, or run a tool. The tool host may ask the user first.
    Tools(ToolRequest),
    /// Create or renew a cache resource at the provider.
    Cache(Box<GeminiCacheRequest>),
    /// Send a request and wait for the first part of its reply.
    Send(ModelRequest),
    /// Store if `store` is set, show the text, then wait for the next part of the reply.
    Receive {
        /// The text to show.
        show: String,
        /// Whether the text is stored before it is shown.
        store: bool,
    },
    /// The turn is over.
    Done(Box<TurnOutcome>),
}

/// The result of a step.
#[derive(Debug)]
pub enum StepResult {
    /// The step is carried out.
    Done,
    /// The tool host's result, and its warnings for the user.
    Tools(ToolResult, Vec<String>),
    /// The name of a cache resource at the provider.
    Cached(Option<String>),
    /// A part of the reply.
    Part(String),
    /// The end of the reply, and whether it took longer than [`ModelRequest::patience`].
    Reply(Result<Reply, SpeakError>, bool),
    /// The request is not sent, because this is a preview.
    NotSent,
}

/// A request to a model.
#[derive(Debug)]
pub struct ModelRequest {
    /// The request.
    pub request: Arc<Outgoing>,
    /// Whether it is a question beside the conversation.
    pub is_side: bool,
    /// The time limit for the reply.
    pub patience: Option<Duration>,
}

/// What the tool host is asked to do.
#[derive(Debug)]
pub enum ToolRequest {
    /// Score the agent's items for a question.
    Scores(String),
    /// Search the notes for a question.
    Sources(String, Size, Tokens),
    /// Check the arguments of calls.
    Check(Vec<Called>),
    /// Run a call.
    Run(ToolCall, Result<Called, String>),
}

/// The tool host's answer to a [`ToolRequest`].
#[derive(Debug)]
pub enum ToolResult {
    /// The scores, or why there are none.
    Scores(Result<Scores, String>),
    /// The search results, or why there are none.
    Sources(Result<Sources, String>),
    /// For each call, what is wrong with its arguments.
    Checked(Vec<Result<(), String>>),
    /// The call's output.
    Output(Output),
}

impl ToolRequest {
    /// Carries out the request.
    pub fn run(self, tools: &mut dyn ToolHost, agent: &Agent, settings: &Settings, stop: &CancellationToken) -> StepResult {
        let result = match self {
            Self::Scores(words) => ToolResult::Scores(tools.scores(&words, agent, settings)),
            Self::Sources(words, size, room) => ToolResult::Sources(tools.sources(&words, size, room)),
            Self::Check(calls) => ToolResult::Checked(calls.iter().map(|called| tools.check(called)).collect()),
            Self::Run(call, tool) => ToolResult::Output(tools.run(&Call { call: &call, tool }, stop)),
        };
        StepResult::Tools(result, tools.take_warnings())
    }
}

/// Progress of a turn.
#[derive(Debug)]
pub enum Notice {
    /// See [`Event::ColdCache`].
    ColdCache(ColdCache),
    /// See [`Event::Stored`].
    Stored,
    /// See [`Event::Request`].
    Request(Arc<Outgoing>),
    /// See [`Event::Part`].
    Part(String),
    /// See [`Event::Call`].
    Call(ToolCall),
    /// See [`Event::Result`].
    Result(ToolCall, Output),
    /// See [`Event::Found`].
    Found(Vec<FoundNote>),
}

impl Notice {
    /// The same as an event.
    pub fn event(&self) -> Event<'_> {
        match self {
            Self::ColdCache(cold) => Event::ColdCache(cold),
            Self::Stored => Event::Stored,
            Self::Request(outgoing) => Event::Request(outgoing),
            Self::Part(text) => Event::Part(text),
            Self::Call(call) => Event::Call(call),
            Self::Result(call, output) => Event::Result(call, output),
            Self::Found(found) => Event::Found(found),
        }
    }
}

/// The time, and whether the user has stopped the turn.
#[derive(Clone, Copy)]
pub struct Clock<'a> {
    /// Returns the time in milliseconds since 1970.
    pub now: &'a dyn Fn() -> i64,
    /// The time for measuring durations.
    pub instant: Instant,
    /// Whether the user has stopped the turn.
    pub stopped: bool,
}

impl Clock<'_> {
    /// The time in milliseconds since 1970.
    pub(super) fn now_ms(&self) -> i64 {
        (self.now)()
    }
}

/// A turn.
#[derive(Debug)]
pub struct Turn {
    phase: Phase,
    /// Steps to carry out before the phase goes on.
    pub(super) steps: VecDeque<Step>,
    pub(super) question: Question,
    /// Set for a turn of a client that runs its own tools.
    client: Option<ClientOptions>,
    /// The lifetime of cache resources that may be created at the provider.
    cache_lifetime: Option<Duration>,
    citable: Vec<Citable>,
    pub(super) outcome: TurnOutcome,
    /// Whether the user was notified that the message is stored.
    is_notified: bool,
    /// Whether the turn is part of the session, so that its failure is recorded.
    is_recorded: bool,
}

/// What the turn is about to do, or what it waits for.
#[derive(Debug, Default)]
pub(super) enum Phase {
    Begin,
    BeginClient(Vec<Input>),
    Resume,
    /// The message is stored because something is asked before it becomes a turn.
    Asked,
    Select,
    Scores,
    Search,
    Sources,
    Planning(Box<Planning>),
    /// All searches are done.
    Gathered,
    Summarize,
    Summarizing(Box<Summarizing>),
    Record,
    Recorded(Due),
    Request,
    Caching(Box<Draft>),
    Send(Arc<Outgoing>),
    Replying(Arc<Outgoing>, PendingReply),
    Calls(Box<Calls>),
    Running(Box<Calls>, ToolCall),
    Finish,
    Failed(TurnError),
    #[default]
    Over,
}

/// The calls of a reply.
#[derive(Debug)]
pub(super) struct Calls {
    outgoing: Arc<Outgoing>,
    reply: Reply,
    /// The number of calls that have a result.
    done: usize,
    due: Due,
    /// Whether the task is done.
    finished: bool,
    /// The result of the task, if it is not part of the reply's text.
    handed_over: Option<String>,
}

/// A reply that is still arriving.
#[derive(Debug)]
pub(super) struct PendingReply {
    start: Instant,
    first_ms: Option<u64>,
    shown: String,
    /// How often parts are stored; zero stores each part before it is shown.
    every: Duration,
    stored: Instant,
}

impl PendingReply {
    pub(super) fn new(clock: &Clock<'_>, every: Duration) -> Self {
        Self { start: clock.instant, first_ms: None, shown: String::new(), every, stored: clock.instant }
    }

    pub(super) fn elapsed_ms(&self, clock: &Clock<'_>) -> u64 {
        u64::try_from(clock.instant.saturating_duration_since(self.start).as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes that a part arrived. Returns the time to the first part.
    pub(super) fn first_ms(&mut self, clock: &Clock<'_>) -> u64 {
        let now = self.elapsed_ms(clock);
        *self.first_ms.get_or_insert(now)
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.first_ms
    }
}

impl Turn {
    fn new(phase: Phase, question: Question, client: Option<ClientOptions>) -> Self {
        Self {
            phase,
            steps: VecDeque::new(),
            question,
            client,
            cache_lifetime: None,
            citable: Vec::new(),
            outcome: TurnOutcome::default(),
            is_notified: false,
            is_recorded: false,
        }
    }

    /// A turn for a message of the user.
    pub fn question(question: Question) -> Self {
        Self::new(Phase::Begin, question, None)
    }

    /// The turn without an answer, after a crash or a failed request.
    pub fn resume() -> Self {
        Self::new(Phase::Resume, Question::default(), None)
    }

    /// A turn of a client that runs its own tools. Without inputs, a request that has no answer is sent again.
    pub fn of_client(inputs: Vec<Input>, options: ClientOptions) -> Self {
        Self::new(Phase::BeginClient(inputs), Question::default(), Some(options))
    }

    /// Allows cache resources at the provider with this lifetime.
    pub fn set_cache_lifetime(&mut self, lifetime: Option<Duration>) {
        self.cache_lifetime = lifetime;
    }

    /// Takes the result of the last step and returns the next one. Before the first step, the result is [`StepResult::Done`]. After an
    /// error the turn is over; what was recorded must still be stored.
    pub fn next(&mut self, session: &mut RecordedSession, result: StepResult, clock: &Clock<'_>) -> Result<Step, TurnError> {
        let step = self.step(session, result, clock);
        if let (Err(error), true) = (&step, self.is_recorded) {
            session.record_ending(Ending::Failed(error.to_string()), clock.now_ms());
        }
        step
    }

    fn step(&mut self, session: &mut RecordedSession, result: StepResult, clock: &Clock<'_>) -> Result<Step, TurnError> {
        self.take(session, result, clock)?;
        loop {
            if let Some(step) = self.steps.pop_front() {
                return Ok(step);
            }
            let phase = std::mem::take(&mut self.phase);
            self.phase = self.advance(phase, session, clock)?;
        }
    }

    /// Takes the result that the phase waits for.
    fn take(&mut self, session: &mut RecordedSession, result: StepResult, clock: &Clock<'_>) -> Result<(), TurnError> {
        let (result, warnings) = match result {
            StepResult::Tools(result, warnings) => (StepResult::Tools(result, Vec::new()), warnings),
            result => (result, Vec::new()),
        };
        self.phase = match (std::mem::take(&mut self.phase), result) {
            (phase, StepResult::Done) => phase,
            (Phase::Scores, StepResult::Tools(ToolResult::Scores(scores), _)) => {
                match scores {
                    Ok(scores) => self.question.turn.scores = scores,
                    Err(why) => session.fail(format!("no items of the agent were selected: {why}")),
                }
                Phase::Search
            }
            (Phase::Sources, StepResult::Tools(ToolResult::Sources(sources), _)) => {
                match sources {
                    Ok(Sources { result, citable }) => {
                        self.citable = citable;
                        self.show(Notice::Found(found_notes(&result.output, &result.found)));
                        self.question.turn.results.push(result);
                    }
                    Err(why) => session.fail(format!("the notes were not searched: {why}")),
                }
                Phase::Gathered
            }
            (Phase::Planning(planning), result) => self.go_on_planning(*planning, result, session, clock),
            (Phase::Summarizing(summarizing), result) => self.go_on_summarizing(*summarizing, result, session, clock),
            (Phase::Caching(draft), StepResult::Cached(name)) => self.finish_request(*draft, name, session),
            (Phase::Replying(outgoing, pending), StepResult::Part(text)) => {
                self.take_part(outgoing, pending, text, session, clock)
            }
            (Phase::Replying(outgoing, pending), StepResult::Reply(reply, _)) => {
                self.take_reply(&outgoing, pending, reply, session, clock)?
            }
            (Phase::Running(calls, call), StepResult::Tools(ToolResult::Output(output), _)) => {
                self.take_output(*calls, &call, Done { output, finished: None }, session, clock)?
            }
            _ => return Err(TurnError::UnexpectedResult),
        };
        for warning in warnings {
            session.fail(warning);
        }
        Ok(())
    }

    /// Goes on to the next phase. Steps that it needs are queued.
    fn advance(&mut self, phase: Phase, session: &mut RecordedSession, clock: &Clock<'_>) -> Result<Phase, TurnError> {
        Ok(match phase {
            Phase::Begin => self.begin(session, clock)?,
            Phase::BeginClient(inputs) => client::begin(inputs, session, clock)?,
            Phase::Resume => {
                if let Some(turn) = session.asked.take() {
                    self.question.turn = turn;
                    return Ok(Phase::Begin);
                }
                self.notify_stored(session)?;
                self.is_recorded = true;
                if session.pending.is_some() { Phase::Request } else { Phase::Finish }
            }
            Phase::Asked => {
                self.notify_stored(session)?;
                Phase::Select
            }
            Phase::Select if self.question.turn.scores.is_empty() => {
                self.steps.push_back(Step::Tools(ToolRequest::Scores(self.question.turn.words.clone())));
                Phase::Scores
            }
            Phase::Select => Phase::Search,
            Phase::Search => match session.mode {
                Mode::Chat | Mode::Agent => Phase::Gathered,
                Mode::Qa => {
                    let (turn, size) = (&self.question.turn, session.setup().size());
                    let room = session.session.room_for_chosen(turn);
                    self.steps.push_back(Step::Tools(ToolRequest::Sources(turn.words.clone(), size, room)));
                    Phase::Sources
                }
                Mode::Plan => self.begin_planning(session, clock),
            },
            Phase::Gathered => {
                once(session.session(), &mut self.question.turn);
                self.begin_summary(session, clock)
            }
            Phase::Summarize => {
                self.notify_stored(session)?;
                self.summarize(session, clock)
            }
            Phase::Record => {
                let due = session.record(Input::Turn(self.question.turn.clone()), clock.now_ms())?;
                session.asked = None;
                self.steps.push_back(Step::Store);
                Phase::Recorded(due)
            }
            Phase::Recorded(due) => {
                self.notify_stored(session)?;
                self.is_recorded = true;
                self.steps.push_back(Step::Transcript);
                if due == Due::Request { Phase::Request } else { Phase::Finish }
            }
            Phase::Request => self.request(session, clock)?,
            Phase::Send(outgoing) => self.send(outgoing, session, clock),
            Phase::Calls(calls) => self.next_call(*calls, session, clock)?,
            Phase::Finish => {
                self.finish(session, clock);
                Phase::Over
            }
            Phase::Failed(error) => return Err(error),
            // These wait for a result that did not come.
            Phase::Scores
            | Phase::Sources
            | Phase::Planning(_)
            | Phase::Summarizing(_)
            | Phase::Caching(_)
            | Phase::Replying(..)
            | Phase::Running(..)
            | Phase::Over => return Err(TurnError::UnexpectedResult),
        })
    }

    pub(super) fn show(&mut self, notice: Notice) {
        self.steps.push_back(Step::Show(notice));
    }

    /// Checks the message before it becomes a turn.
    fn begin(&mut self, session: &mut RecordedSession, clock: &Clock<'_>) -> Result<Phase, TurnError> {
        session.pending = None; // its words stay in the history; this turn follows them
        let library = std::mem::take(&mut self.question.library);
        if !library.is_empty() {
            session.record(Input::Library(library), clock.now_ms())?;
        }
        if session.mode == Mode::Agent {
            session.join_own_tools(clock.now_ms())?;
        }
        if let Some(cold) = session.cold_cache(clock.now_ms()) {
            self.show(Notice::ColdCache(cold));
        }
        session.record_idle(clock.now_ms())?;
        self.question.turn.plan_suspended = session.suspends_plan();
        session.check_fits(&self.question.turn)?;
        if !matches!(session.mode, Mode::Qa | Mode::Plan) {
            return Ok(Phase::Select);
        }
        self.record_asked(session, clock);
        Ok(Phase::Asked)
    }

    /// Stores the message before something is asked for it.
    pub(super) fn record_asked(&mut self, session: &mut RecordedSession, clock: &Clock<'_>) {
        let asked = LogEntry::Asked(Box::new(self.question.turn.clone()));
        session.record_entry(&asked, clock.now_ms(), false, Vec::new());
        self.steps.push_back(Step::Store);
    }

    /// Notifies the user once that the message is stored, or rejects it if it must be stored and cannot be.
    fn notify_stored(&mut self, session: &RecordedSession) -> Result<(), TurnError> {
        match session.health() {
            _ if self.is_notified => {}
            Health::Well => {
                self.is_notified = true;
                self.show(Notice::Stored);
            }
            failing @ Health::Failing { .. } if session.must_store && self.client.is_none() => {
                return Err(TurnError::NotStored(failing));
            }
            Health::Failing { .. } => {}
        }
        Ok(())
    }

    fn request(&mut self, session: &mut RecordedSession, clock: &Clock<'_>) -> Result<Phase, TurnError> {
        let draft = match session.lay_out(clock.now_ms())? {
            LaidOut::Again(outgoing) => {
                self.steps.push_back(Step::Store);
                return Ok(Phase::Send(Arc::new(*outgoing)));
            }
            LaidOut::New(draft) => draft,
        };
        if let Some(request) = self.cache_lifetime.and_then(|lifetime| session.cache_request(&draft, lifetime)) {
            self.steps.push_back(Step::Cache(Box::new(request)));
            return Ok(Phase::Caching(draft));
        }
        Ok(self.finish_request(*draft, None, session))
    }

    /// Records the request, so that it is stored before it is sent.
    fn finish_request(&mut self, draft: Draft, cached: Option<String>, session: &mut RecordedSession) -> Phase {
        let outgoing = session.finish_request(draft, self.client.as_ref(), cached);
        self.steps.push_back(Step::Store);
        Phase::Send(Arc::new(outgoing))
    }

    fn send(&mut self, outgoing: Arc<Outgoing>, session: &mut RecordedSession, clock: &Clock<'_>) -> Phase {
        self.outcome.requests += 1;
        if self.client.is_some() && !self.is_notified && session.is_stored() {
            self.is_notified = true;
            self.show(Notice::Stored);
        }
        self.show(Notice::Request(Arc::clone(&outgoing)));
        if self.client.is_none()
            && let Some(why) = images_not_taken(&outgoing.model.name, &outgoing.envelope)
        {
            session.fail(why);
        }
        let every = if self.client.is_some() { PART_EVERY } else { Duration::ZERO };
        let request = ModelRequest { request: Arc::clone(&outgoing), is_side: false, patience: None };
        self.steps.push_back(Step::Send(request));
        Phase::Replying(outgoing, PendingReply::new(clock, every))
    }

    fn take_part(
        &mut self,
        outgoing: Arc<Outgoing>,
        mut pending: PendingReply,
        text: String,
        session: &mut RecordedSession,
        clock: &Clock<'_>,
    ) -> Phase {
        pending.first_ms(clock);
        let is_first = pending.shown.is_empty();
        pending.shown.push_str(&text);
        // Where the store does not take anything just now, it is not asked for every part.
        let asks = session.record_part(&text) || pending.every > Duration::ZERO;
        let store = asks && clock.instant.saturating_duration_since(pending.stored) >= pending.every;
        if store {
            pending.stored = clock.instant;
        }
        let show = if is_first { format!("{}{text}", self.gap()) } else { text };
        self.steps.push_back(Step::Receive { show, store });
        Phase::Replying(outgoing, pending)
    }

    /// What a client gets between two replies of one turn.
    fn gap(&self) -> &'static str {
        if self.client.is_none() || self.outcome.text.is_empty() { "" } else { GAP }
    }

    /// Records the reply, which may be incomplete.
    fn take_reply(
        &mut self,
        outgoing: &Arc<Outgoing>,
        pending: PendingReply,
        answer: Result<Reply, SpeakError>,
        session: &mut RecordedSession,
        clock: &Clock<'_>,
    ) -> Result<Phase, TurnError> {
        let total_ms = pending.elapsed_ms(clock);
        let PendingReply { first_ms, shown, .. } = pending;
        let (reply, cut_off, error) = match answer {
            Ok(reply) => {
                let cut_off = reply.cut_off;
                (reply, cut_off, None)
            }
            // What was shown stays, marked as cut off.
            Err(error) => (Reply { text: shown, ..Reply::default() }, true, Some(error)),
        };
        let usage = session.usage(outgoing, &reply, first_ms, total_ms);
        if error.is_some() && reply.text.is_empty() {
            session.pending = Some(Pending { envelope: outgoing.envelope.clone(), stored: Some(outgoing.number) });
        } else {
            let Reply { text, calls, opaque, .. } = reply.clone();
            let input = Input::Assistant { text, calls, opaque };
            session.replied(input, clock.now_ms(), cut_off, Some(usage.clone()))?;
            let is_empty = reply.text.trim().is_empty() && reply.calls.is_empty() && !cut_off;
            let empty = is_empty.then(|| Ending::Failed("the model gave an empty answer".to_owned()));
            if let Some(ending) = reply.ending.clone().or(empty) {
                session.record_ending(ending, clock.now_ms());
            }
            self.steps.extend([Step::Checkpoint, Step::Transcript]);
        }
        if let Some(error) = error {
            return Ok(Phase::Failed(error.into()));
        }
        self.outcome.usage = sum(&self.outcome.usage, usage);
        (self.outcome.cut_off, self.outcome.ending) = (reply.cut_off, reply.ending.clone());
        if self.client.is_some() {
            if !reply.text.is_empty() {
                let gap = self.gap();
                self.outcome.text.push_str(gap);
                self.outcome.text.push_str(&reply.text);
            }
        } else if !reply.text.is_empty() {
            self.outcome.text.clone_from(&reply.text);
        }
        let outgoing = Arc::clone(outgoing);
        Ok(Phase::Calls(Box::new(Calls { outgoing, reply, done: 0, due: Due::Nothing, finished: false, handed_over: None })))
    }

    /// Runs the next call of the reply.
    fn next_call(&mut self, calls: Calls, session: &mut RecordedSession, clock: &Clock<'_>) -> Result<Phase, TurnError> {
        if self.client.is_some() {
            return self.client_calls(&calls.outgoing, calls.reply, session, clock);
        }
        let Some(call) = calls.reply.calls.get(calls.done).cloned() else { return self.end_calls(calls, session, clock) };
        if calls.done >= MAX_CALLS_PER_REPLY {
            let output = surplus(&call);
            return self.record_output(calls, &call, output, session, clock);
        }
        self.show(Notice::Call(call.clone()));
        let tool = called(session.session().agent(), session.setup().dialect, &calls.outgoing.envelope.tools, &call);
        let own = tool.as_ref().ok().and_then(|called| Some((Own::of(&called.tool)?, called.arguments.clone())));
        let Some((own, arguments)) = own else {
            self.steps.push_back(Step::Tools(ToolRequest::Run(call.clone(), tool)));
            return Ok(Phase::Running(Box::new(calls), call));
        };
        let done = session.own_tool(own, &arguments, clock.now_ms())?;
        self.take_output(calls, &call, done, session, clock)
    }

    fn take_output(
        &mut self,
        mut calls: Calls,
        call: &ToolCall,
        done: Done,
        session: &mut RecordedSession,
        clock: &Clock<'_>,
    ) -> Result<Phase, TurnError> {
        let Done { output, finished } = done;
        self.show_output(call, &output);
        if let Some(result) = finished {
            calls.finished = true;
            let text = &calls.reply.text;
            calls.handed_over = Some(result).filter(|result| !result.trim().is_empty() && !text.contains(result.trim()));
        }
        self.record_output(calls, call, output, session, clock)
    }

    pub(super) fn show_output(&mut self, call: &ToolCall, output: &Output) {
        self.show(Notice::Result(call.clone(), output.clone()));
        if !output.found.is_empty() {
            self.show(Notice::Found(found_notes(&output.text, &output.found)));
        }
    }

    fn record_output(
        &mut self,
        mut calls: Calls,
        call: &ToolCall,
        output: Output,
        session: &mut RecordedSession,
        clock: &Clock<'_>,
    ) -> Result<Phase, TurnError> {
        let Output { text: output, failed, found } = output;
        let (output, found) = sent_once(session.session(), &[], &output, found);
        let result = Input::ToolResult { id: call.id.clone(), output, failed, found };
        calls.due = session.record(result, clock.now_ms())?;
        calls.done += 1;
        self.steps.push_back(Step::Store);
        Ok(Phase::Calls(Box::new(calls)))
    }

    /// Decides whether the model is asked again.
    fn end_calls(&mut self, calls: Calls, session: &mut RecordedSession, clock: &Clock<'_>) -> Result<Phase, TurnError> {
        let Calls { reply, mut due, finished, handed_over, .. } = calls;
        if let Some(result) = handed_over {
            self.answer_with(result, &reply.text, session, clock);
        }
        let words_alone = reply.calls.is_empty() && !reply.text.is_empty() && !reply.cut_off;
        if session.mode == Mode::Agent && words_alone && !finished {
            due = session.record(Input::ActionPrompt, clock.now_ms())?;
        }
        // A task that is done needs no more words than were said.
        let enough = clock.stopped || (finished && !self.outcome.text.is_empty());
        if enough && due == Due::Request {
            session.record_entry(&LogEntry::Ended, clock.now_ms(), false, Vec::new());
            due = Due::Nothing;
            if clock.stopped && !finished {
                session.record_ending(Ending::Stopped, clock.now_ms());
            }
        }
        self.steps.push_back(Step::Store);
        self.outcome.out_of_steps = due == Due::Request && self.outcome.requests >= MAX_REQUESTS;
        Ok(if due == Due::Request && !self.outcome.out_of_steps { Phase::Request } else { Phase::Finish })
    }

    /// Puts the result of a task under the last words as the answer: the model hands it over in a call, which no user reads.
    fn answer_with(&mut self, result: String, words: &str, session: &mut RecordedSession, clock: &Clock<'_>) {
        let answer = if words.is_empty() { result } else { format!("\n\n{result}") };
        self.show(Notice::Part(answer.clone()));
        self.outcome.text = format!("{words}{answer}");
        session.record_entry(&LogEntry::Cited(answer), clock.now_ms(), false, Vec::new());
    }

    /// Adds the list of sources to an answer that cites them.
    fn finish(&mut self, session: &mut RecordedSession, clock: &Clock<'_>) {
        let unknown = cited(&self.outcome.text, &self.citable).unknown;
        if let Some(number) = unknown.first().filter(|_| !self.citable.is_empty()) {
            session.fail(format!("the answer cites [^{number}], but it has only {} sources", self.citable.len()));
        }
        if let Some(list) = source_list(&self.outcome.text, &self.citable) {
            self.show(Notice::Part(list.clone()));
            self.outcome.text.push_str(&list);
            session.record_entry(&LogEntry::Cited(list), clock.now_ms(), false, Vec::new());
        }
        self.steps.push_back(Step::Store);
        if !self.outcome.text.is_empty() || self.outcome.requests > 1 {
            self.steps.push_back(Step::Transcript);
        }
        self.steps.push_back(Step::Done(Box::new(std::mem::take(&mut self.outcome))));
    }
}

/// The combined usage of two requests.
fn sum(before: &Usage, last: Usage) -> Usage {
    Usage {
        read: before.read + last.read,
        write: before.write + last.write,
        uncached: before.uncached + last.uncached,
        output: before.output + last.output,
        cost: before.cost + last.cost,
        cost_uncached: before.cost_uncached + last.cost_uncached,
        ..last
    }
}

//! One turn: the user's message is stored, the request is built and stored, the reply is stored as it arrives, tools run, and the
//! transcript is updated after every message.

use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::time::Instant;

use foreword_core::budget::OverBudget;
use foreword_core::envelope::Envelope;
use foreword_core::message::ToolCall;
use foreword_core::select::Reason;
use foreword_core::session::{Due, Input, InputError, Session, TurnInput};
use foreword_core::version::Version;
use foreword_store::{Health, Usage};
use foreword_tools::Output;
use serde::{Deserialize, Serialize};

use super::called::called;
use super::cite::{Citable, cited, source_list};
use super::cold::{ColdCache, lifetime_s};
use super::ending::Ending;
use super::found::{FoundNote, found_notes, sent_once};
use super::log_entry::LogEntry;
use super::own::{Done, Own};
use super::recorded::RecordedSession;
use super::request::{Outgoing, Pending};
use super::speak::{Call, ChatModel, Reply, SpeakError, ToolHost};

/// The largest number of requests in one turn.
const MOST_STEPS: usize = 20;

/// The largest number of calls of one reply that are run. Further calls get an error result, because providers require a result for
/// every call.
pub(super) const MAX_CALLS_PER_REPLY: usize = 128;

/// The result of a call beyond [`MAX_CALLS_PER_REPLY`].
pub(super) fn surplus(call: &ToolCall) -> Output {
    Output::failed(format!(
        "{} was not run: one reply may make {MAX_CALLS_PER_REPLY} calls, and this reply made more. Make fewer calls in one reply.",
        call.name.chars().filter(|c| !c.is_control()).take(80).collect::<String>()
    ))
}

/// The mode of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Conversation; the model may call tools.
    #[default]
    Chat,
    /// The notes are searched first, and the answer cites its sources.
    Qa,
    /// The model chooses all tools at once; then it answers.
    Plan,
    /// The model works with tools until the task is done.
    Agent,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Chat, Self::Qa, Self::Plan, Self::Agent];

    /// The name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Qa => "qa",
            Self::Plan => "plan",
            Self::Agent => "agent",
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        found.ok_or_else(|| format!("unknown mode {text:?}: expected chat, qa, plan or agent"))
    }
}

/// A message of the user.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The text and the attachments.
    pub turn: TurnInput,
    /// The current texts of an imported conversation's attachments, for the first turn.
    pub library: Vec<Version>,
}

/// The model, the tools and the callbacks of a turn.
pub(super) struct TurnContext<'a> {
    pub(super) speaker: &'a mut dyn ChatModel,
    pub(super) hands: &'a mut dyn ToolHost,
    pub(super) now: &'a dyn Fn() -> i64,
    pub(super) each: &'a mut dyn FnMut(Event<'_>),
    /// Whether the caller was notified that the message is stored.
    pub(super) told: bool,
}

/// Progress of a turn.
#[derive(Debug)]
pub enum Event<'a> {
    /// The provider's cache has expired: what the request that comes costs for that.
    ColdCache(&'a ColdCache),
    /// The user's words are stored: the end of the process does not lose them any more. Where they cannot be, it is not told.
    Stored,
    /// A request is stored and is being sent.
    Request(&'a Outgoing),
    /// A part of the reply's text.
    Part(&'a str),
    /// A tool call.
    Call(&'a ToolCall),
    /// A tool result.
    Result(&'a ToolCall, &'a Output),
    /// The passages that the search found, the best first.
    Found(&'a [FoundNote]),
}

/// The result of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    /// The text of the last reply.
    pub text: String,
    /// The number of requests.
    pub requests: usize,
    /// Whether the turn ended at its limit of requests.
    pub out_of_steps: bool,
}

/// Why a turn has no answer. Messages so far are kept.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// An input is invalid.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The request does not fit the budget.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The user's message could not be stored, so it was not sent. It is not part of the session.
    #[error("storing the message failed, so it was not sent: {}", .0.why())]
    NotStored(Health),
    /// The model failed.
    #[error(transparent)]
    Speak(#[from] SpeakError),
}

impl RecordedSession {
    /// Runs a turn from the user's message to the last reply. `now` returns the time in milliseconds since 1970.
    pub fn send(
        &mut self,
        question: Question,
        speaker: &mut dyn ChatModel,
        hands: &mut dyn ToolHost,
        now: &dyn Fn() -> i64,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<TurnOutcome, TurnError> {
        let Question { mut turn, library } = question;
        let mut party = TurnContext { speaker, hands, now, each, told: false };
        self.pending = None; // its words stay in the history; this turn follows them
        if !library.is_empty() {
            self.tell(Input::Library(library), now())?;
        }
        if self.mode == Mode::Agent {
            self.join_own_tools(now())?;
        }
        if let Some(cold) = self.cold_cache(now()) {
            (party.each)(Event::ColdCache(&cold));
        }
        self.tell_idle(now())?;
        turn.plan_suspended = self.suspends_plan();
        self.check_fits(&turn)?;
        let citable = self.gather(&mut turn, &mut party)?;
        self.manage(&turn, &mut party)?;
        let due = self.tell(Input::Turn(turn), now())?;
        self.asked = None;
        self.tell_stored(&mut party)?;
        self.save_transcript(now());
        let said = self.run(due, &mut party);
        let said = self.explained(said, now)?;
        Ok(self.cite(said, &citable, &mut party))
    }

    /// Whether a turn leaves the current plan alone: only a turn in `agent` mode works on it.
    pub(super) fn suspends_plan(&self) -> bool {
        self.mode != Mode::Agent && self.session.current_plan().is_some()
    }

    /// Refuses words that no request has room for, before they are put on record.
    fn check_fits(&self, turn: &TurnInput) -> Result<(), TurnError> {
        let mut session = self.session.clone();
        session.check(&Input::Turn(turn.clone()))?;
        session.apply(Input::Turn(turn.clone()))?;
        session.request()?;
        Ok(())
    }

    /// Continues a turn without an answer, after a crash or a failed request.
    pub fn go_on(
        &mut self,
        speaker: &mut dyn ChatModel,
        hands: &mut dyn ToolHost,
        now: &dyn Fn() -> i64,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<TurnOutcome, TurnError> {
        if let Some(turn) = self.asked.take() {
            let question = Question { turn, ..Question::default() };
            return self.send(question, speaker, hands, now, each);
        }
        let due = if self.pending.is_some() { Due::Request } else { Due::Nothing };
        let mut party = TurnContext { speaker, hands, now, each, told: false };
        self.tell_stored(&mut party)?;
        let said = self.run(due, &mut party);
        self.explained(said, now)
    }

    /// Stores why a turn has no complete answer, so that it can be shown later.
    fn explained(&mut self, said: Result<TurnOutcome, TurnError>, now: &dyn Fn() -> i64) -> Result<TurnOutcome, TurnError> {
        if let Err(error) = &said {
            self.store_ending(Ending::Failed(error.to_string()), now());
        }
        said
    }

    fn store_ending(&mut self, ending: Ending, at_ms: i64) {
        let is_end = ending == Ending::Stopped && self.ends.load(Ordering::Relaxed);
        let ending = if is_end { Ending::Interrupted } else { ending };
        self.store_told(&LogEntry::Ending(ending), at_ms, false, Vec::new());
    }

    /// Notifies the caller once that the message is stored, or rejects it if it must be stored and cannot be.
    pub(super) fn tell_stored(&mut self, party: &mut TurnContext<'_>) -> Result<(), TurnError> {
        match self.health() {
            Health::Well if !party.told => {
                party.told = true;
                (party.each)(Event::Stored);
                Ok(())
            }
            failing @ Health::Failing { .. } if self.must_store && !party.told => Err(TurnError::NotStored(failing)),
            _ => Ok(()),
        }
    }

    /// Stores the message and runs the searches that the turn needs. Failures are reported, and the turn continues without the
    /// results.
    fn gather(&mut self, turn: &mut TurnInput, party: &mut TurnContext<'_>) -> Result<Vec<Citable>, TurnError> {
        if matches!(self.mode, Mode::Qa | Mode::Plan) {
            self.store_told(&LogEntry::Asked(Box::new(turn.clone())), (party.now)(), false, Vec::new());
            self.tell_stored(party)?;
        }
        if turn.scores.is_empty() {
            match party.hands.scores(&turn.words, self.session.agent(), self.session.settings()) {
                Ok(scores) => turn.scores = scores,
                Err(why) => self.fail(format!("no items of the agent were selected: {why}")),
            }
        }
        let mut citable = Vec::new();
        match self.mode {
            Mode::Chat | Mode::Agent => {}
            Mode::Qa => match party.hands.sources(&turn.words, self.setup().size(), self.session.room_for_chosen(turn)) {
                Ok(sources) => {
                    citable = sources.citable;
                    (party.each)(Event::Found(&found_notes(&sources.result.output, &sources.result.found)));
                    turn.results.push(sources.result);
                }
                Err(why) => self.fail(format!("the notes were not searched: {why}")),
            },
            Mode::Plan => turn.results.extend(self.planned(turn, party)),
        }
        once(self.session(), turn);
        self.warn(party);
        Ok(citable)
    }

    /// Reports warnings of the tools and the search.
    fn warn(&mut self, party: &mut TurnContext<'_>) {
        for warning in party.hands.take_warnings() {
            self.fail(warning);
        }
    }

    /// Adds the list of sources to an answer that cites them.
    fn cite(&mut self, mut said: TurnOutcome, citable: &[Citable], party: &mut TurnContext<'_>) -> TurnOutcome {
        let unknown = cited(&said.text, citable).unknown;
        if let Some(number) = unknown.first().filter(|_| !citable.is_empty()) {
            self.fail(format!("the answer cites [^{number}], but it has only {} sources", citable.len()));
        }
        if let Some(list) = source_list(&said.text, citable) {
            (party.each)(Event::Part(&list));
            said.text.push_str(&list);
            self.store_told(&LogEntry::Cited(list), (party.now)(), false, Vec::new());
            self.save_transcript((party.now)());
        }
        said
    }

    /// Records idle time if the provider's cache has expired since the last request.
    pub(super) fn tell_idle(&mut self, now_ms: i64) -> Result<(), InputError> {
        if let Some(idle_s) = self.forgotten_after(now_ms) {
            self.tell(Input::Idle(idle_s), now_ms)?;
        }
        Ok(())
    }

    /// The idle time in seconds, if the provider's cache has expired.
    pub(super) fn forgotten_after(&self, now_ms: i64) -> Option<u64> {
        let sent = self.sent.as_ref()?;
        // Lifetimes count from the end of the last answer; where the session was just opened, that is not known.
        let last_ms = self.answered_ms.unwrap_or(sent.at_ms);
        let idle_s = u64::try_from(now_ms.saturating_sub(last_ms) / 1000).unwrap_or(0);
        lifetime_s(&self.model, sent.ttl).filter(|lifetime| idle_s >= *lifetime).map(|_| idle_s)
    }

    fn run(&mut self, mut due: Due, party: &mut TurnContext<'_>) -> Result<TurnOutcome, TurnError> {
        let mut said = TurnOutcome { text: String::new(), requests: 0, out_of_steps: false };
        let mut finished = false;
        while due == Due::Request && said.requests < MOST_STEPS {
            let speaker = &mut *party.speaker;
            let outgoing = self.request_with((party.now)(), &mut |model, prompt| speaker.cache(model, prompt))?;
            said.requests += 1;
            (party.each)(Event::Request(&outgoing));
            if let Some(why) = images_not_taken(&outgoing.model.name, &outgoing.envelope) {
                self.fail(why);
            }
            let (reply, _) = self.hear(&outgoing, party)?;
            let spoke = !reply.text.is_empty();
            if spoke {
                said.text.clone_from(&reply.text);
            }
            due = Due::Nothing;
            let mut handed_over = None;
            for (place, call) in reply.calls.iter().enumerate() {
                let done = match place {
                    0..MAX_CALLS_PER_REPLY => self.carry_out(call, &outgoing, party)?,
                    _ => Done { output: surplus(call), finished: None },
                };
                if let Some(result) = done.finished {
                    finished = true;
                    handed_over = Some(result).filter(|result| !result.trim().is_empty() && !reply.text.contains(result.trim()));
                }
                let Output { text: output, failed, found } = done.output;
                let (output, found) = sent_once(self.session(), &[], &output, found);
                let result = Input::ToolResult { id: call.id.clone(), output, failed, found };
                due = self.tell(result, (party.now)())?;
            }
            if let Some(result) = handed_over {
                self.answer_with(result, &reply.text, &mut said, party);
            }
            let words_alone = reply.calls.is_empty() && spoke && !reply.cut_off;
            if self.mode == Mode::Agent && words_alone && !finished {
                due = self.tell(Input::ActionPrompt, (party.now)())?;
            }
            // A task that is done needs no more words than were said.
            let enough = party.hands.stopped() || (finished && !said.text.is_empty());
            if enough && due == Due::Request {
                self.store_told(&LogEntry::Ended, (party.now)(), false, Vec::new());
                due = Due::Nothing;
                if party.hands.stopped() && !finished {
                    self.store_ending(Ending::Stopped, (party.now)());
                }
            }
        }
        said.out_of_steps = due == Due::Request;
        if !said.text.is_empty() || said.requests > 1 {
            self.save_transcript((party.now)());
        }
        Ok(said)
    }

    fn carry_out(&mut self, call: &ToolCall, outgoing: &Outgoing, party: &mut TurnContext<'_>) -> Result<Done, TurnError> {
        (party.each)(Event::Call(call));
        let tool = called(self.session().agent(), self.setup().dialect, &outgoing.envelope.tools, call);
        let own = tool.as_ref().ok().and_then(|called| Some((Own::of(&called.tool)?, called.arguments.clone())));
        let done = match own {
            Some((own, arguments)) => self.own_tool(own, &arguments, (party.now)())?,
            None => Done { output: party.hands.run(&Call { call, tool }), finished: None },
        };
        (party.each)(Event::Result(call, &done.output));
        if !done.output.found.is_empty() {
            (party.each)(Event::Found(&found_notes(&done.output.text, &done.output.found)));
        }
        self.warn(party);
        Ok(done)
    }

    /// Puts the result of a task under the last words as the answer: the model hands it over in a call, which no user reads.
    fn answer_with(&mut self, result: String, words: &str, said: &mut TurnOutcome, party: &mut TurnContext<'_>) {
        let answer = if words.is_empty() { result } else { format!("\n\n{result}") };
        (party.each)(Event::Part(&answer));
        said.text = format!("{words}{answer}");
        self.store_told(&LogEntry::Cited(answer), (party.now)(), false, Vec::new());
    }

    /// Takes in one reply, part by part.
    pub(super) fn hear(&mut self, outgoing: &Outgoing, party: &mut TurnContext<'_>) -> Result<(Reply, Usage), TurnError> {
        let mut hearing = self.listen();
        let each = &mut *party.each;
        let answer = party.speaker.answer(outgoing, &mut |part: &str| {
            self.heard(&mut hearing, part);
            each(Event::Part(part));
        });
        self.take_reply(hearing, outgoing, answer, party.now)
    }

    /// Begins a pending reply.
    pub(super) fn listen(&mut self) -> PendingReply {
        let start = Instant::now();
        self.part_at = start;
        PendingReply { start, first_ms: None, shown: String::new() }
    }

    /// Adds a part to the pending reply.
    pub(super) fn heard(&mut self, hearing: &mut PendingReply, part: &str) {
        let now = hearing.elapsed_ms();
        hearing.first_ms.get_or_insert(now);
        self.part(part);
        hearing.shown.push_str(part);
    }

    /// Completes the pending reply, which may be incomplete.
    pub(super) fn take_reply(
        &mut self,
        hearing: PendingReply,
        outgoing: &Outgoing,
        answer: Result<Reply, SpeakError>,
        now: &dyn Fn() -> i64,
    ) -> Result<(Reply, Usage), TurnError> {
        let total_ms = hearing.elapsed_ms();
        let PendingReply { first_ms, shown, .. } = hearing;
        let (reply, cut_off, error) = match answer {
            Ok(reply) => {
                let cut_off = reply.cut_off;
                (reply, cut_off, None)
            }
            // What was shown stays, marked as cut off.
            Err(error) => (Reply { text: shown, ..Reply::default() }, true, Some(error)),
        };
        let usage = self.usage(outgoing, &reply, first_ms, total_ms);
        if error.is_some() && reply.text.is_empty() {
            self.pending = Some(Pending { envelope: outgoing.envelope.clone(), stored: Some(outgoing.number) });
        } else {
            let Reply { text, calls, opaque, .. } = reply.clone();
            let input = Input::Assistant { text, calls, opaque };
            self.replied(input, now(), cut_off, Some(usage.clone()))?;
            let is_empty = reply.text.trim().is_empty() && reply.calls.is_empty() && !cut_off;
            let empty = is_empty.then(|| Ending::Failed("the model gave an empty answer".to_owned()));
            if let Some(ending) = reply.ending.clone().or(empty) {
                self.store_ending(ending, now());
            }
            self.save_transcript(now());
        }
        error.map_or(Ok((reply, usage)), |error| Err(error.into()))
    }
}

/// The warning for a model that does not support images.
pub(super) fn images_not_taken(model: &str, envelope: &Envelope) -> Option<String> {
    let left_out = envelope.left_out.iter().filter(|left_out| left_out.reason == Reason::ImagesNotTaken);
    let names: Vec<&str> = left_out.map(|left_out| left_out.item.name()).collect();
    let names = names.join(", ");
    (!names.is_empty()).then(|| {
        format!("the model {model} does not support images, so these were not sent: {names}. Choose another model to send them")
    })
}

/// Removes passages that the prompt already contains.
pub(super) fn once(session: &Session, turn: &mut TurnInput) {
    let TurnInput { attached, results, .. } = turn;
    for result in results {
        let found = std::mem::take(&mut result.found);
        (result.output, result.found) = sent_once(session, attached, &result.output, found);
    }
}

/// A reply that is still arriving.
#[derive(Debug)]
pub(super) struct PendingReply {
    start: Instant,
    first_ms: Option<u64>,
    shown: String,
}

impl PendingReply {
    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

//! One turn, start to end: the user's message is stored, the request is built and stored, the reply is stored as it comes, tools run,
//! and the transcript follows every message.

use std::time::Instant;

use foreword_core::budget::OverBudget;
use foreword_core::message::ToolCall;
use foreword_core::session::{Due, Input, InputError, TurnInput};
use foreword_core::version::Version;
use foreword_tools::Output;

use super::kept::{Kept, Outgoing, Pending};
use super::speak::{Hands, Reply, SpeakError, Speaker};

/// More requests than this one turn may not make.
const MOST_STEPS: usize = 20;

/// What a person sends.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The words, and what is attached.
    pub turn: TurnInput,
    /// The current texts of what was attached in a conversation that was had elsewhere; for its first turn here.
    pub library: Vec<Version>,
}

/// What happens while a turn runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// A request is stored and goes out.
    Request(&'a Outgoing),
    /// A part of the reply.
    Part(&'a str),
    /// The model calls a tool.
    Call(&'a ToolCall),
    /// The tool answers.
    Result(&'a ToolCall, &'a Output),
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The last words.
    pub text: String,
    /// How many requests it took.
    pub requests: usize,
    /// Whether the model wanted to go on and was not asked any more.
    pub out_of_steps: bool,
}

/// Why a turn has no answer. What was said is kept.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// It contradicts the session.
    #[error(transparent)]
    Input(#[from] InputError),
    /// It does not fit.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The model.
    #[error(transparent)]
    Speak(#[from] SpeakError),
}

impl Kept {
    /// Carries a turn from the user's words to the model's last ones. `now` tells the time in milliseconds since 1970.
    pub fn send(
        &mut self,
        question: Question,
        speaker: &mut dyn Speaker,
        hands: &mut dyn Hands,
        now: &dyn Fn() -> i64,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<Said, TurnError> {
        self.pending = None; // its words stay in the history; this turn follows them
        if !question.library.is_empty() {
            self.tell(Input::Library(question.library), now())?;
        }
        self.tell_idle(now())?;
        let due = self.tell(Input::Turn(question.turn), now())?;
        self.save_transcript(now());
        self.run(due, speaker, hands, now, each)
    }

    /// Goes on with a turn that has no answer yet: the process ended, or the model gave none.
    pub fn go_on(
        &mut self,
        speaker: &mut dyn Speaker,
        hands: &mut dyn Hands,
        now: &dyn Fn() -> i64,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<Said, TurnError> {
        let due = if self.pending.is_some() { Due::Request } else { Due::Nothing };
        self.run(due, speaker, hands, now, each)
    }

    /// A provider that was not asked for longer than it remembers has forgotten the prompt.
    pub(super) fn tell_idle(&mut self, now_ms: i64) -> Result<(), InputError> {
        let Some(last) = self.last_request_ms() else { return Ok(()) };
        let idle_s = u64::try_from((now_ms - last) / 1000).unwrap_or(0);
        if self.setup().model.cache.lifetime_s().is_some_and(|lifetime| idle_s >= lifetime) {
            self.tell(Input::Idle(idle_s), now_ms)?;
        }
        Ok(())
    }

    fn run(
        &mut self,
        mut due: Due,
        speaker: &mut dyn Speaker,
        hands: &mut dyn Hands,
        now: &dyn Fn() -> i64,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<Said, TurnError> {
        let mut said = Said { text: String::new(), requests: 0, out_of_steps: false };
        while due == Due::Request && said.requests < MOST_STEPS {
            let outgoing = self.request(now())?;
            said.requests += 1;
            each(Event::Request(&outgoing));
            let reply = self.hear(&outgoing, speaker, now, each)?;
            due = Due::Nothing;
            for call in &reply.calls {
                each(Event::Call(call));
                let output = hands.run(call, &outgoing);
                each(Event::Result(call, &output));
                due = self.tell(Input::ToolResult { id: call.id.clone(), output: output.text }, now())?;
            }
            said.text = reply.text;
        }
        said.out_of_steps = due == Due::Request;
        Ok(said)
    }

    /// Takes in one reply, part by part.
    pub(super) fn hear(
        &mut self,
        outgoing: &Outgoing,
        speaker: &mut dyn Speaker,
        now: &dyn Fn() -> i64,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<Reply, TurnError> {
        let start = Instant::now();
        let elapsed = || u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut first = None;
        let mut shown = String::new();
        let answer = speaker.answer(outgoing, &mut |part: &str| {
            first.get_or_insert_with(elapsed);
            self.part(part);
            shown.push_str(part);
            each(Event::Part(part));
        });
        let (reply, cut_off, error) = match answer {
            Ok(reply) => {
                let cut_off = reply.cut_off;
                (reply, cut_off, None)
            }
            // What was shown stays, marked as cut off.
            Err(error) => (Reply { text: shown, ..Reply::default() }, true, Some(error)),
        };
        let usage = self.usage(outgoing, reply.spent, first, elapsed());
        if error.is_some() && reply.text.is_empty() {
            self.pending = Some(Pending { envelope: outgoing.envelope.clone(), stored: Some(outgoing.number) });
        } else {
            let input = Input::Assistant { text: reply.text.clone(), calls: reply.calls.clone() };
            self.replied(input, now(), cut_off, Some(usage))?;
            self.save_transcript(now());
        }
        error.map_or(Ok(reply), |error| Err(error.into()))
    }
}

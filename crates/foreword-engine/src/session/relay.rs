//! A turn whose tools someone else runs: what came in is told, one reply is taken, and its calls are left open.

use std::collections::BTreeMap;
use std::time::Duration;

use foreword_core::message::ToolCall;
use foreword_core::prompt::USE_TOOL;
use foreword_core::session::{Due, Input, InputError};
use foreword_provider::stream::ClientMark;
use foreword_store::Usage;
use foreword_tools::Output;
use serde_json::{Map, Value};

use super::called::called;
use super::ending::Ending;
use super::kept::Kept;
use super::request::Outgoing;
use super::speak::{Reply, SpeakError, Speaker};
use super::told::Told;
use super::turn::{Event, Hearing, MAX_CALLS_PER_REPLY, TurnError, surplus};
use crate::tools::read_output;

/// How often what came in of a reply is stored while it goes on. The client has it too: where the process ends, it is the client that is
/// left with half an answer.
const PART_EVERY: Duration = Duration::from_millis(250);

/// How often a model reads on in outputs before it must answer.
const MOST_READ: usize = 12;

/// Between the words before it read on and those after.
const GAP: &str = "\n\n";

/// How a client wants its answer.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// Fields that go along with the request, in its provider's words.
    pub extra: Map<String, Value>,
    /// Whether it wants the answer as it comes; else the provider is asked for it whole.
    pub stream: bool,
    /// Cache marks that it set.
    pub marks: Vec<ClientMark>,
    /// What it says of its tools in its provider's words, by the tool's name.
    pub tool_fields: BTreeMap<String, Map<String, Value>>,
}

/// A reply, handed on.
#[derive(Clone, Debug, Default)]
pub struct Relayed {
    /// Its words.
    pub text: String,
    /// Calls whose results are to come from outside.
    pub calls: Vec<ToolCall>,
    /// Whether it ended before the model had said all.
    pub cut_off: bool,
    /// Why it ended early, where it did and that is known.
    pub ending: Option<Ending>,
    /// What it used, with what it took to read on in outputs.
    pub usage: Usage,
}

/// A request on its way, and what has come back of its reply.
#[derive(Debug)]
pub struct Exchange {
    /// The request.
    pub outgoing: Outgoing,
    hearing: Hearing,
    manner: Manner,
    /// What came of those before it that the client does not know of, and how many they were.
    before: Relayed,
    read: usize,
}

impl Exchange {
    /// What a client is told before the words of this reply, so that they do not run into those before it.
    pub fn gap(&self) -> &'static str {
        if self.before.text.is_empty() { "" } else { GAP }
    }
}

/// What becomes of a reply.
#[derive(Debug)]
pub enum Step {
    /// It goes to the client.
    Done(Box<Relayed>),
    /// The model wants to read on in an output that it was shown a part of, and nothing else: that is no matter of the client's. It was
    /// told, and is asked again.
    Again(Box<Exchange>),
}

impl Kept {
    /// Tells what a client sent and takes one reply; none where nothing is due. Where the last request has no answer yet, nothing need
    /// be told: it is sent again.
    pub fn relay(
        &mut self,
        told: Vec<Input>,
        manner: Manner,
        speaker: &mut dyn Speaker,
        now: &dyn Fn() -> i64,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<Relayed>, TurnError> {
        let Some(mut exchange) = self.begin_relay(told, manner, now)? else { return Ok(None) };
        if self.is_stored() {
            each(Event::Stored);
        }
        each(Event::Request(&exchange.outgoing));
        loop {
            let mut gap = exchange.gap();
            let Exchange { outgoing, hearing, .. } = &mut exchange;
            let answer = speaker.answer(outgoing, &mut |part| {
                self.heard(hearing, part);
                for part in [std::mem::take(&mut gap), part].into_iter().filter(|part| !part.is_empty()) {
                    each(Event::Part(part));
                }
            });
            match self.end_relay(exchange, answer, now)? {
                Step::Done(relayed) => return Ok(Some(*relayed)),
                Step::Again(next) => exchange = *next,
            }
        }
    }

    /// The first half of it, for whoever carries the request itself.
    pub fn begin_relay(
        &mut self,
        told: Vec<Input>,
        manner: Manner,
        now: &dyn Fn() -> i64,
    ) -> Result<Option<Exchange>, TurnError> {
        let due = if told.is_empty() && (self.is_unanswered() || self.due) { Due::Request } else { Due::Nothing };
        if !told.is_empty() {
            self.pending = None;
            self.tell_idle(now())?;
        }
        self.waits = true;
        let told = told.into_iter().try_fold(due, |_, input| self.tell(input, now()));
        self.waits = false;
        match told {
            Ok(Due::Request) => self.make_request(manner, now).map(Some),
            told => {
                // What was told without a request to follow is stored by itself.
                self.write([]);
                told?;
                Ok(None)
            }
        }
    }

    fn make_request(&mut self, manner: Manner, now: &dyn Fn() -> i64) -> Result<Exchange, TurnError> {
        self.manner = Some(manner);
        let requested = self.request(now());
        let manner = self.manner.take().unwrap_or_default();
        // What was told is stored, also where no request can be made of it.
        self.write([]);
        self.part_every = PART_EVERY;
        Ok(Exchange { outgoing: requested?, hearing: self.listen(), manner, before: Relayed::default(), read: 0 })
    }

    /// A part of the reply came in.
    pub fn relay_part(&mut self, exchange: &mut Exchange, part: &str) {
        self.heard(&mut exchange.hearing, part);
    }

    /// The other half: the reply is whole, or there will be no more of it.
    pub fn end_relay(
        &mut self,
        exchange: Exchange,
        answer: Result<Reply, SpeakError>,
        now: &dyn Fn() -> i64,
    ) -> Result<Step, TurnError> {
        self.part_every = Duration::ZERO;
        let gap = exchange.gap();
        let Exchange { outgoing, hearing, manner, before, read } = exchange;
        let (reply, usage) = self.take_reply(hearing, &outgoing, answer, now)?;
        let mut relayed = before;
        if !reply.text.is_empty() {
            relayed.text = relayed.text + gap + &reply.text;
        }
        relayed.usage = sum(&relayed.usage, usage);
        (relayed.cut_off, relayed.ending) = (reply.cut_off, reply.ending);
        let mut due = Due::Nothing;
        self.waits = true;
        let mut reads = 0;
        let told = reply.calls.into_iter().try_for_each(|call| {
            let Some(output) = self.read_on(&outgoing, &call, reads) else {
                relayed.calls.push(call);
                return Ok(());
            };
            reads += 1;
            let Output { text: output, failed, found } = output;
            due = self.tell(Input::ToolResult { id: call.id, output, failed, found }, now())?;
            Ok(())
        });
        self.waits = false;
        told.map_err(|error: InputError| TurnError::from(error))?;
        if due == Due::Request && read < MOST_READ {
            let next = self.make_request(manner, now)?;
            return Ok(Step::Again(Box::new(Exchange { before: relayed, read: read + 1, ..next })));
        }
        if due == Due::Request {
            self.store_told(&Told::Ended, now(), false, Vec::new());
            relayed.cut_off = true;
        }
        self.write([]);
        Ok(Step::Done(Box::new(relayed)))
    }

    /// What a call of `readOutput` gives back, after so many of them in one reply; none where it is a call of something else.
    fn read_on(&self, outgoing: &Outgoing, call: &ToolCall, reads: usize) -> Option<Output> {
        // The names are looked at first: a reply may make very many calls.
        if !call.name.contains(read_output::tool().name.as_str()) && call.name != USE_TOOL {
            return None;
        }
        let called = called(self.session().agent(), self.setup().dialect, &outgoing.envelope.tools, call).ok()?;
        if called.tool != read_output::tool().id() {
            return None;
        }
        if reads >= MAX_CALLS_PER_REPLY {
            return Some(surplus(call));
        }
        let page = self.setup().settings.budget.output_cap(&call.name) * 3 / 4;
        Some(read_output::read(&called.arguments, page, &|hash| self.store().text(hash).ok()))
    }
}

/// What two requests used together.
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

//! Turns of clients that run their own tools: the client's messages are applied, one reply is received, and its calls stay open.

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
use super::log_entry::LogEntry;
use super::recorded::RecordedSession;
use super::request::Outgoing;
use super::speak::{ChatModel, Reply, SpeakError};
use super::turn::{Event, MAX_CALLS_PER_REPLY, PendingReply, TurnError, surplus};
use foreword_vault_tools::{outputs_of, read_output};

/// How often parts of a reply are stored while it streams. The client has them too; a crash leaves it with half an answer anyway.
const PART_EVERY: Duration = Duration::from_millis(250);

/// How often a model may read outputs again before it must answer.
const MOST_READ: usize = 12;

/// The separator between the text before and after reading an output.
const GAP: &str = "\n\n";

/// The client's options for its answer.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// Extra fields of the request, in the provider's format.
    pub extra: Map<String, Value>,
    /// Whether the client wants a stream; otherwise the provider is asked for the whole answer.
    pub stream: bool,
    /// The client's cache marks.
    pub marks: Vec<ClientMark>,
    /// Extra fields of its tools in the provider's format, by tool name.
    pub tool_fields: BTreeMap<String, Map<String, Value>>,
}

/// A reply for the client.
#[derive(Clone, Debug, Default)]
pub struct Relayed {
    /// The reply's text.
    pub text: String,
    /// Calls that the client runs.
    pub calls: Vec<ToolCall>,
    /// Whether the reply is incomplete.
    pub cut_off: bool,
    /// Why it ended early, where it did and that is known.
    pub ending: Option<Ending>,
    /// What it used, with what it took to read on in outputs.
    pub usage: Usage,
}

/// A pending request and the reply received so far.
#[derive(Debug)]
pub struct Exchange {
    /// The request.
    pub outgoing: Outgoing,
    hearing: PendingReply,
    manner: ClientOptions,
    /// The combined result and the number of earlier requests that the client did not see.
    before: Relayed,
    read: usize,
}

impl Exchange {
    /// The separator to send before the text of this reply, if text was sent before.
    pub fn gap(&self) -> &'static str {
        if self.before.text.is_empty() { "" } else { GAP }
    }
}

/// What to do after a reply.
#[derive(Debug)]
pub enum Step {
    /// Send it to the client.
    Done(Box<Relayed>),
    /// Send another request: the model only read an output again, which does not concern the client.
    Again(Box<Exchange>),
}

impl RecordedSession {
    /// Applies a client's messages and receives one reply; `None` if no request is due. If the last request has no answer, it can
    /// be sent again without new messages.
    pub fn relay(
        &mut self,
        told: Vec<Input>,
        manner: ClientOptions,
        speaker: &mut dyn ChatModel,
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

    /// The first half of [`RecordedSession::relay`], for callers that send the request themselves.
    pub fn begin_relay(
        &mut self,
        told: Vec<Input>,
        manner: ClientOptions,
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

    fn make_request(&mut self, manner: ClientOptions, now: &dyn Fn() -> i64) -> Result<Exchange, TurnError> {
        self.manner = Some(manner);
        let requested = self.request(now());
        let manner = self.manner.take().unwrap_or_default();
        // What was told is stored, also where no request can be made of it.
        self.write([]);
        self.part_every = PART_EVERY;
        Ok(Exchange { outgoing: requested?, hearing: self.listen(), manner, before: Relayed::default(), read: 0 })
    }

    /// Adds a part of the reply.
    pub fn relay_part(&mut self, exchange: &mut Exchange, part: &str) {
        self.heard(&mut exchange.hearing, part);
    }

    /// The second half of [`RecordedSession::relay`]: completes the reply, which may be incomplete.
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
            self.store_told(&LogEntry::Ended, now(), false, Vec::new());
            relayed.cut_off = true;
        }
        self.write([]);
        Ok(Step::Done(Box::new(relayed)))
    }

    /// The result of a `readOutput` call; `None` for other tools.
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
        Some(read_output::read(&called.arguments, page, &|digits| outputs_of(self.store(), self.id(), digits)))
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

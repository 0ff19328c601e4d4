//! A turn whose tools someone else runs: what came in is told, one reply is taken, and its calls are left open.

use std::time::Duration;

use foreword_core::message::ToolCall;
use foreword_core::session::{Due, Input};
use foreword_store::Usage;
use serde_json::{Map, Value};

use super::kept::{Kept, Outgoing};
use super::speak::{Reply, SpeakError, Speaker};
use super::turn::{Event, Hearing, TurnError};

/// How often what came in of a reply is stored while it goes on. The client has it too: where the process ends, it is the client that is
/// left with half an answer.
const PART_EVERY: Duration = Duration::from_millis(250);

/// How a client wants its answer.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// Fields that go along with the request, in its provider's words.
    pub extra: Map<String, Value>,
    /// Whether it wants the answer as it comes; else the provider is asked for it whole.
    pub stream: bool,
}

/// A reply, handed on.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// Its words.
    pub text: String,
    /// Calls whose results are to come from outside.
    pub calls: Vec<ToolCall>,
    /// Whether it ended before the model had said all.
    pub cut_off: bool,
    /// What it used.
    pub usage: Usage,
}

/// A request on its way, and what has come back of its reply.
#[derive(Debug)]
pub struct Exchange {
    /// The request.
    pub outgoing: Outgoing,
    hearing: Hearing,
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
        each(Event::Request(&exchange.outgoing));
        let Exchange { outgoing, hearing } = &mut exchange;
        let answer = speaker.answer(outgoing, &mut |part| {
            self.heard(hearing, part);
            each(Event::Part(part));
        });
        self.end_relay(exchange, answer, now).map(Some)
    }

    /// The first half of it, for whoever carries the request itself.
    pub fn begin_relay(
        &mut self,
        told: Vec<Input>,
        manner: Manner,
        now: &dyn Fn() -> i64,
    ) -> Result<Option<Exchange>, TurnError> {
        let due = if told.is_empty() && self.is_unanswered() { Due::Request } else { Due::Nothing };
        if !told.is_empty() {
            self.pending = None;
            self.tell_idle(now())?;
        }
        self.waits = true;
        let told = told.into_iter().try_fold(due, |_, input| self.tell(input, now()));
        self.waits = false;
        (self.extra, self.whole) = (manner.extra, !manner.stream);
        let requested = match told {
            Ok(Due::Nothing) => Ok(None),
            Ok(_) => self.request(now()).map(Some).map_err(TurnError::from),
            Err(error) => Err(error.into()),
        };
        (self.extra, self.whole) = (Map::new(), false);
        // What was told without a request to follow is stored by itself.
        self.write([]);
        let Some(outgoing) = requested? else { return Ok(None) };
        self.part_every = PART_EVERY;
        Ok(Some(Exchange { outgoing, hearing: self.listen() }))
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
    ) -> Result<Relayed, TurnError> {
        self.part_every = Duration::ZERO;
        let (reply, usage) = self.take_reply(exchange.hearing, &exchange.outgoing, answer, now)?;
        Ok(Relayed { text: reply.text, calls: reply.calls, cut_off: reply.cut_off, usage })
    }
}

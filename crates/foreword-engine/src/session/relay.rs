//! A turn whose tools someone else runs: what came in is told, one reply is taken, and its calls are left open.

use std::time::Duration;

use foreword_core::message::ToolCall;
use foreword_core::session::{Due, Input};
use foreword_store::Usage;
use serde_json::{Map, Value};

use super::kept::Kept;
use super::speak::{NoHands, Speaker};
use super::turn::{Event, Party, TurnError};

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
        each(Event::Request(&outgoing));
        self.part_every = PART_EVERY;
        let heard = self.hear(&outgoing, &mut Party { speaker, hands: &mut NoHands, now, each });
        self.part_every = Duration::ZERO;
        let (reply, usage) = heard?;
        Ok(Some(Relayed { text: reply.text, calls: reply.calls, cut_off: reply.cut_off, usage }))
    }
}

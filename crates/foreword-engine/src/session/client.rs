//! Turns of clients that run their own tools: the client's messages are applied, one reply is received, and its calls stay open. The
//! model may read stored tool outputs again on the way; the client does not see these calls.

use std::collections::BTreeMap;
use std::time::Duration;

use foreword_core::message::ToolCall;
use foreword_core::prompt::USE_TOOL;
use foreword_core::session::{Due, Input};
use foreword_core::tokens::Tokens;
use foreword_provider::stream::ClientMark;
use foreword_tools::Output;
use serde_json::{Map, Value};

use super::called::called;
use super::log_entry::LogEntry;
use super::machine::{Clock, Phase, Step, Turn};
use super::recorded::RecordedSession;
use super::request::Outgoing;
use super::speak::Reply;
use super::turn::{MAX_CALLS_PER_REPLY, TurnError, surplus};
use foreword_vault_tools::{outputs_of, read_output};

/// How often parts of a reply are stored while it streams. The client has them too; a crash leaves it with half an answer anyway.
pub(super) const PART_EVERY: Duration = Duration::from_millis(250);

/// How often a model may read outputs again before it must answer.
const MAX_READS: usize = 12;

/// The separator between the text before and after reading an output.
pub(super) const GAP: &str = "\n\n";

/// The client's options for its answer.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// Extra fields of the request, in the provider's format.
    pub extra: Map<String, Value>,
    /// Whether the client wants a stream; otherwise the provider is asked for the whole answer.
    pub stream: bool,
    /// The client's limit of this reply, where it has one.
    pub reply: Option<Tokens>,
    /// The client's cache marks.
    pub marks: Vec<ClientMark>,
    /// Extra fields of its tools in the provider's format, by tool name.
    pub tool_fields: BTreeMap<String, Map<String, Value>>,
}

/// Applies the client's messages. Without messages, a request that has no answer is sent again.
pub(super) fn begin(inputs: Vec<Input>, session: &mut RecordedSession, clock: &Clock<'_>) -> Result<Phase, TurnError> {
    let is_due = inputs.is_empty() && (session.is_unanswered() || session.due);
    let mut due = if is_due { Due::Request } else { Due::Nothing };
    if !inputs.is_empty() {
        session.pending = None;
        session.record_idle(clock.now_ms())?;
    }
    for input in inputs {
        due = session.record(input, clock.now_ms())?;
    }
    // The inputs are stored together with the request that follows.
    Ok(if due == Due::Request { Phase::Request } else { Phase::Finish })
}

impl Turn {
    /// Runs the calls that concern only the engine and leaves the others to the client.
    pub(super) fn client_calls(
        &mut self,
        outgoing: &Outgoing,
        reply: Reply,
        session: &mut RecordedSession,
        clock: &Clock<'_>,
    ) -> Result<Phase, TurnError> {
        let (mut due, mut reads) = (Due::Nothing, 0);
        for call in reply.calls {
            let Some(output) = read_on(session, outgoing, &call, reads) else {
                self.outcome.calls.push(call);
                continue;
            };
            reads += 1;
            let Output { text: output, failed, found } = output;
            due = session.record(Input::ToolResult { id: call.id, output, failed, found }, clock.now_ms())?;
        }
        if due == Due::Request && self.outcome.requests <= MAX_READS {
            return Ok(Phase::Request);
        }
        if due == Due::Request {
            session.record_entry(&LogEntry::Ended, clock.now_ms(), false, Vec::new());
            self.outcome.cut_off = true;
        }
        self.steps.push_back(Step::Store);
        Ok(Phase::Finish)
    }
}

/// The result of a `readOutput` call; `None` for other tools.
fn read_on(session: &RecordedSession, outgoing: &Outgoing, call: &ToolCall, reads: usize) -> Option<Output> {
    // The names are looked at first: a reply may make very many calls.
    if !call.name.contains(read_output::tool().name.as_str()) && call.name != USE_TOOL {
        return None;
    }
    let called = called(session.session().agent(), session.setup().dialect, &outgoing.envelope.tools, call).ok()?;
    if called.tool != read_output::tool().id() {
        return None;
    }
    if reads >= MAX_CALLS_PER_REPLY {
        return Some(surplus(call));
    }
    let page = session.setup().settings.budget.output_cap(&call.name) * 3 / 4;
    Some(read_output::read(&called.arguments, page, &|digits| outputs_of(session.store(), session.id(), digits)))
}

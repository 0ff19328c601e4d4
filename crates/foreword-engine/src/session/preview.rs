//! Previews the next request of a session on a copy. Nothing is sent or stored.

use std::sync::Arc;
use std::time::Instant;

use foreword_core::tokens::Tokens;
use foreword_prompt_cache::CacheSim;
use foreword_provider::cost::{cost, uncached_cost};
use foreword_provider::stream::PromptStream;
use foreword_store::Request;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::breaks::BreakReport;
use super::breaks::{Before, diagnose};
use super::inspect::{self, Inspection, Record, Stored, explain};
use super::machine::{Clock, Step, StepResult, Turn};
use super::models::embedded_prompt_tokens;
use super::money::usd;
use super::recorded::RecordedSession;
use super::request::Outgoing;
use super::speak::ToolHost;
use super::turn::{Question, TurnError};

/// A request that was not sent.
#[derive(Debug, Serialize)]
pub struct Preview {
    /// The request; its cached tokens are estimated from the cache's rules.
    #[serde(flatten)]
    pub request: Inspection,
    /// The expected cache hits and cost.
    pub expected: Expected,
    /// The tools that the model could call, by their names in the request.
    pub tools: Vec<String>,
    /// Failed searches and missing data.
    pub problems: Vec<String>,
    /// The size of the body in bytes.
    pub bytes: usize,
    /// The body.
    #[serde(skip)]
    pub body: Vec<u8>,
}

/// The expected effect of the provider's cache, from its published rules and the last request.
#[derive(Debug, Serialize)]
pub struct Expected {
    /// Tokens read from the cache.
    pub read: Tokens,
    /// Tokens written to the cache.
    pub write: Tokens,
    /// Other tokens of the prompt.
    pub uncached: Tokens,
    /// The cost of the prompt in USD, without the reply.
    pub cost: f64,
    /// The cost without a cache.
    pub cost_uncached: f64,
    /// Where and why the prompt does not continue the last one.
    pub broke: Option<BreakReport>,
}

impl Expected {
    /// The size of the prompt as the model reads it.
    pub fn total(&self) -> Tokens {
        self.read + self.write + self.uncached
    }
}

impl RecordedSession {
    /// The request for a question at `now_ms`, with exactly the bytes that [`RecordedSession::send`] would send: the same turn on a copy
    /// of the session, ended before the request is sent. In plan mode, tool outputs are missing.
    pub fn preview(&self, question: Question, hands: &mut dyn ToolHost, now_ms: i64) -> Result<Preview, TurnError> {
        let mut copy = self.copy()?;
        let mut turn = Turn::question(question);
        let (stop, mut problems, mut result) = (CancellationToken::new(), Vec::new(), StepResult::Done);
        let outgoing = loop {
            let clock = Clock { now: &|| now_ms, instant: Instant::now(), stopped: false };
            result = match turn.next(&mut copy, result, &clock) {
                Ok(Step::Send(request)) if !request.is_side => break request.request,
                Ok(Step::Send(_)) => {
                    problems.push("the model is first asked for a plan; tool outputs will be added to this request".to_owned());
                    StepResult::NotSent
                }
                Ok(Step::Tools(request)) => request.run(hands, copy.session.agent(), copy.session.settings(), &stop),
                Ok(Step::Cache(_)) => StepResult::Cached(None),
                Ok(Step::Done(_)) => return Err(TurnError::UnexpectedResult),
                Ok(_) => StepResult::Done,
                Err(error) => {
                    copy.discard_unstored();
                    return Err(error);
                }
            };
        };
        problems.splice(0..0, copy.take_failures().into_iter().map(|failure| failure.0));
        let Outgoing { number, body, messages, envelope, options, .. } = &*outgoing;
        let stored = Stored {
            request: Request {
                number: *number,
                input: self.counts.inputs,
                run: envelope.turn as u64,
                epoch: envelope.epoch as u64,
                began: envelope.began.map(|reason| reason.as_str().to_owned()),
                at_ms: now_ms,
                combined: envelope.combined,
                wire: body.sha256(),
                tokens: envelope.tokens.0,
                messages: None,
                record: serde_json::Value::Null,
            },
            record: Record::new(&self.setup, &self.model, &copy.session, envelope, options),
            model: (*self.model).clone(),
            messages: messages.clone(),
            tools: envelope.tools.clone(),
        };
        let wire = stored.request.wire;

        let mut cache = CacheSim::new();
        let last = self.sent.as_ref().map(|sent| (sent.at_ms, sent.cut)).zip(self.prompt_of_last());
        if let Some(((at_ms, _), prompt)) = &last {
            cache.request(seconds(*at_ms), prompt, &self.model);
        }
        let mut used = cache.request(seconds(now_ms), &body.prompt, &self.model);
        if self.setup.is_embedded() {
            // It is known exactly what the embedded model reads: the chat template is part of it.
            used.uncached += embedded_prompt_tokens(&**copy.session.tokenizer(), &stored.messages).saturating_sub(used.total());
        }
        let broke = last.as_ref().and_then(|((_, cut), prompt)| {
            let before = Before { prompt, cut: *cut, cold: self.forgotten_after(now_ms).is_some() };
            diagnose(&before, envelope, stored.messages.first().map(Arc::as_ref), &body.prompt, &self.model, used.read)
        });
        let expected = Expected {
            read: used.read,
            write: used.write,
            uncached: used.uncached,
            cost: usd(cost(&self.model, &used)),
            cost_uncached: usd(uncached_cost(&self.model, used.total())),
            broke,
        };
        let tools = stored.tools.list.iter().map(|tool| tool.name.clone()).collect();
        let context = copy.session.context(envelope);
        let request = explain(self.id(), stored, context, Some(used.read), None, wire);
        let (bytes, body) = (body.bytes.len(), body.bytes.clone());
        copy.discard_unstored();
        Ok(Preview { request, expected, tools, problems, bytes, body })
    }

    /// The prompt of the last request, rendered again if needed; `None` if that fails.
    fn prompt_of_last(&self) -> Option<PromptStream> {
        let sent = self.sent.as_ref()?;
        sent.prompt.clone().or_else(|| Some(inspect::body(&*self.store, &self.row.id, sent.number).ok()?.prompt))
    }
}

fn seconds(at_ms: i64) -> u64 {
    u64::try_from(at_ms / 1000).unwrap_or(0)
}

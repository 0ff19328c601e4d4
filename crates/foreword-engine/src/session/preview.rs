//! Previews the next request of a session on a copy. Nothing is sent or stored.

use std::sync::Arc;

use foreword_core::catalog::Agent;
use foreword_core::hash::Hash;
use foreword_core::session::{Input, InputError, Session, TurnInput};
use foreword_core::tokens::Tokens;
use foreword_prompt_cache::CacheSim;
use foreword_provider::cost::{cost, uncached_cost};
use foreword_provider::stream::PromptStream;
use foreword_store::Request;
use serde::Serialize;

use super::breaks::BreakReport;
use super::breaks::{Before, diagnose};
use super::inspect::{self, Inspection, Record, Stored, explain};
use super::models::embedded_prompt_tokens;
use super::money::usd;
use super::own::Joining;
use super::recorded::RecordedSession;
use super::speak::ToolHost;
use super::turn::{Mode, Question, TurnError, images_not_taken, once};

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
    /// The request for a question at `now_ms`, with exactly the bytes that [`RecordedSession::send`] would send. In plan mode, tool outputs
    /// are missing.
    pub fn preview(&self, question: Question, hands: &mut dyn ToolHost, now_ms: i64) -> Result<Preview, TurnError> {
        let Question { mut turn, library } = question;
        let mut session = self.session.clone();
        if !library.is_empty() {
            tell(&mut session, Input::Library(library))?;
        }
        if self.mode == Mode::Agent {
            for step in Joining::ALL {
                step.input(&session).map_or(Ok(()), |input| tell(&mut session, input))?;
            }
        }
        if let Some(idle_s) = self.forgotten_after(now_ms) {
            tell(&mut session, Input::Idle(idle_s))?;
        }
        turn.plan_suspended = self.suspends_plan();
        let mut problems = self.look_for(&mut turn, session.agent(), hands);
        tell(&mut session, Input::Turn(turn))?;
        let envelope = session.request()?;
        problems.extend(images_not_taken(&self.setup.model.name, &envelope));
        let messages = session.messages().to_vec();
        let options = self.options(&session, &envelope, &self.next_at(now_ms, &envelope, self.sent.as_ref(), &messages));
        let record = Record::new(&self.setup, &self.model, &session, &envelope, &options);
        let mut stored = Stored {
            request: Request {
                number: self.sent.as_ref().map_or(self.counts.requests, |sent| sent.number + 1).max(self.counts.requests),
                input: self.counts.inputs,
                run: envelope.turn as u64,
                epoch: envelope.epoch as u64,
                began: envelope.began.map(|reason| reason.as_str().to_owned()),
                at_ms: now_ms,
                combined: envelope.combined,
                wire: Hash::of(""),
                tokens: envelope.tokens.0,
                messages: None,
                record: serde_json::Value::Null,
            },
            record,
            model: (*self.model).clone(),
            messages,
            tools: envelope.tools.clone(),
        };
        let body = stored.body();
        let wire = Hash::of(&body.bytes);
        stored.request.wire = wire;

        let mut cache = CacheSim::new();
        let last = self.sent.as_ref().map(|sent| (sent.at_ms, sent.cut)).zip(self.prompt_of_last());
        if let Some(((at_ms, _), prompt)) = &last {
            cache.request(seconds(*at_ms), prompt, &self.model);
        }
        let mut used = cache.request(seconds(now_ms), &body.prompt, &self.model);
        if self.setup.is_embedded() {
            // It is known exactly what the embedded model reads: the chat template is part of it.
            used.uncached += embedded_prompt_tokens(&**session.tokenizer(), &stored.messages).saturating_sub(used.total());
        }
        let broke = last.as_ref().and_then(|((_, cut), prompt)| {
            let before = Before { prompt, cut: *cut, cold: self.forgotten_after(now_ms).is_some() };
            diagnose(&before, &envelope, stored.messages.first().map(Arc::as_ref), &body.prompt, &self.model, used.read)
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
        let context = session.context(&envelope);
        let request = explain(self.id(), stored, context, Some(used.read), None, wire);
        Ok(Preview { request, expected, tools, problems, bytes: body.bytes.len(), body: body.bytes })
    }

    /// Runs the searches of a turn. Returns the failures.
    fn look_for(&self, turn: &mut TurnInput, agent: &Agent, hands: &mut dyn ToolHost) -> Vec<String> {
        let mut problems = Vec::new();
        if turn.scores.is_empty() {
            match hands.scores(&turn.words, agent, self.session.settings()) {
                Ok(scores) => turn.scores = scores,
                Err(why) => problems.push(format!("no items of the agent were selected: {why}")),
            }
        }
        match self.mode {
            Mode::Chat | Mode::Agent => {}
            Mode::Qa => match hands.sources(&turn.words, self.setup.size(), self.session.room_for_chosen(turn)) {
                Ok(sources) => turn.results.push(sources.result),
                Err(why) => problems.push(format!("the notes were not searched: {why}")),
            },
            Mode::Plan => {
                problems.push("the model is first asked for a plan; tool outputs will be added to this request".to_owned());
            }
        }
        once(&self.session, turn);
        problems.extend(hands.take_warnings());
        problems
    }

    /// The prompt of the last request, rendered again if needed; `None` if that fails.
    fn prompt_of_last(&self) -> Option<PromptStream> {
        let sent = self.sent.as_ref()?;
        sent.prompt.clone().or_else(|| Some(inspect::body(&*self.store, &self.row.id, sent.number).ok()?.prompt))
    }
}

fn tell(session: &mut Session, input: Input) -> Result<(), InputError> {
    session.check(&input)?;
    session.apply(input).map(drop)
}

fn seconds(at_ms: i64) -> u64 {
    u64::try_from(at_ms / 1000).unwrap_or(0)
}

//! The session: one conversation. It takes what was said and returns what to send.

use std::sync::Arc;

use foreword_core::catalog::Agent;
use foreword_core::envelope::Envelope;
use foreword_core::item::ItemId;
use foreword_core::message::Message;
use foreword_core::session::{Due, Input, LayerView};
use foreword_core::settings::Settings;
use foreword_core::tokens::Tokenizer;
use foreword_provider::dialect::Dialect;
use foreword_provider::model::Model;
use foreword_provider::render::{BodyOptions, Next, Renderer};
use foreword_provider::stream::{PromptStream, Ttl};
use serde::{Deserialize, Serialize};

use crate::explanation::explain;
use crate::{Error, Explanation, Request, SessionBuilder, ToolChoice, Turn};

/// What a session was set up with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) model: Model,
    pub(crate) dialect: Dialect,
    pub(crate) settings: Settings,
    pub(crate) agent: Agent,
    pub(crate) tools: ToolChoice,
    pub(crate) ttl: Ttl,
    pub(crate) stream: bool,
}

/// What happened in a session, in order: replaying it gives the same session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    Input(Input),
    Request,
}

/// The last request.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) prompt: PromptStream,
    pub(crate) envelope: Envelope,
}

/// One conversation: it takes what was said, and returns the requests to send.
///
/// It does no IO and reads no clock, so the same inputs give the same bytes on every machine.
///
/// ```
/// use foreword::Session;
/// # fn main() -> Result<(), foreword::Error> {
/// let mut session = Session::builder("claude-sonnet-5").system("You are a baker.").build()?;
/// let request = session.turn("Why is my loaf flat?").request()?;
/// assert!(request.text().contains("Why is my loaf flat?"));
/// // Send it with any HTTP client, and pass the answer on:
/// let answer = br#"{"role": "assistant", "content": [{"type": "text", "text": "It proved too long."}],
///     "stop_reason": "end_turn", "usage": {"input_tokens": 20, "output_tokens": 6}}"#;
/// assert_eq!(session.reply(answer)?.text, "It proved too long.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Session {
    pub(crate) core: foreword_core::session::Session,
    pub(crate) setup: Arc<Setup>,
    pub(crate) log: Vec<Step>,
    pub(crate) sent: Option<Sent>,
    renderer: Renderer,
    requests: u64,
    is_due: bool,
    /// The request that has no answer yet.
    unanswered: Option<Request>,
}

impl Session {
    /// Begins to build a session with a model of the model table.
    pub fn builder(model: impl Into<String>) -> SessionBuilder {
        SessionBuilder::new(model)
    }

    pub(crate) fn begin(setup: Setup, tokenizer: Arc<dyn Tokenizer>) -> Result<Self, Error> {
        let core = foreword_core::session::Session::new(setup.agent.clone(), setup.settings.clone(), tokenizer)?;
        let renderer = Renderer::new(setup.dialect);
        Ok(Self {
            core,
            setup: Arc::new(setup),
            log: Vec::new(),
            sent: None,
            renderer,
            requests: 0,
            is_due: false,
            unanswered: None,
        })
    }

    /// Begins a turn with the user's message. Attach things, then build the request.
    pub fn turn(&mut self, text: impl Into<String>) -> Turn<'_> {
        Turn::new(self, text.into())
    }

    /// The request that is due: after a turn, or once all open tool calls have results. Until there is a reply, it returns the same
    /// request again.
    pub fn request(&mut self) -> Result<Request, Error> {
        if let Some(request) = &self.unanswered {
            return Ok(request.clone());
        }
        if !self.is_due {
            return Err(Error::NothingDue);
        }
        self.log.push(Step::Request);
        let envelope = self.core.request()?;
        self.is_due = false;
        let messages = self.core.messages().to_vec();
        let same = self.sent.as_ref().map_or(0, |sent| in_common(&sent.messages, &messages));
        let setup = Arc::clone(&self.setup);
        let options = BodyOptions {
            ttl: setup.ttl,
            previous_len: Some(same).filter(|same| *same > 0),
            fold_len: self.core.before_next_fold(),
            // Where tools can be called, the next request most likely continues this one.
            next: if envelope.tools.allowed.is_empty() { Next::Turn } else { Next::Step },
            stream: setup.stream,
            ..BodyOptions::default()
        };
        let body = self.renderer.render(&setup.model, &self.core.prompt(&envelope), &options);
        let explanation = explain(&self.core, &setup, self.sent.as_ref(), &envelope, &body);
        let request = Request::new(&setup, &body, explanation);
        self.sent = Some(Sent { messages, prompt: body.prompt, envelope });
        self.requests += 1;
        self.unanswered = Some(request.clone());
        Ok(request)
    }

    /// The result of a tool call. Returns whether a request is due, which it is once all calls have results.
    pub fn tool_result(&mut self, call: impl Into<String>, output: impl Into<String>) -> Result<bool, Error> {
        self.apply(Input::ToolResult { id: call.into(), output: output.into(), failed: false, found: Vec::new() })
    }

    /// The same for a call that failed; the model reads the message.
    pub fn tool_failed(&mut self, call: impl Into<String>, message: impl Into<String>) -> Result<bool, Error> {
        self.apply(Input::ToolResult { id: call.into(), output: message.into(), failed: true, found: Vec::new() })
    }

    /// A reply that did not come from the session's provider: its text, without tool calls.
    pub fn reply_text(&mut self, text: impl Into<String>) -> Result<(), Error> {
        self.apply(Input::Assistant { text: text.into(), calls: Vec::new(), opaque: Vec::new() }).map(drop)
    }

    /// Adds an item of the agent to the session: `rule:name`, `reference:name` or `tool:server/name`.
    pub fn add(&mut self, item: &str) -> Result<(), Error> {
        let id = item_id(item)?;
        self.apply(Input::Add(id)).map(drop)
    }

    /// Removes an item from the session, also one that was attached.
    pub fn remove(&mut self, item: &str) -> Result<(), Error> {
        let id = item_id(item)?;
        self.apply(Input::Remove(id)).map(drop)
    }

    /// Compacts the prompt with the next request. Nothing is lost: [`Session::undo_fold`] brings the old prompt back.
    pub fn fold(&mut self) -> Result<(), Error> {
        self.apply(Input::Fold).map(drop)
    }

    /// Undoes the last fold.
    pub fn undo_fold(&mut self) -> Result<(), Error> {
        self.apply(Input::UndoFold).map(drop)
    }

    /// Seconds in which nothing happened. After the lifetime of the provider's cache a fold costs nothing.
    pub fn idle(&mut self, seconds: u64) -> Result<(), Error> {
        self.apply(Input::Idle(seconds)).map(drop)
    }

    /// Applies any input of the core. Returns whether a request is due.
    pub fn apply(&mut self, input: Input) -> Result<bool, Error> {
        let due = self.core.apply(input.clone())?;
        self.log.push(Step::Input(input));
        self.unanswered = None;
        self.is_due |= due == Due::Request;
        Ok(self.is_due)
    }

    /// A copy of the session that goes its own way. It continues the same cached prompt.
    pub fn fork(&self) -> Result<Self, Error> {
        Self::replayed(&self.setup, Arc::clone(self.core.tokenizer()), &self.log)
    }

    /// A session that continues from the end of an earlier turn, counted from 0.
    pub fn fork_at(&self, turn: usize) -> Result<Self, Error> {
        let inputs: Vec<Input> = self.inputs().cloned().collect();
        let no_turn = || Error::NoTurn { turn, turns: self.turns() };
        let kept = Input::until_turn(&inputs, turn).ok_or_else(no_turn)?.len();
        let mut left = kept;
        let mut steps: Vec<Step> = Vec::new();
        for step in &self.log {
            if let Step::Input(_) = step {
                let Some(rest) = left.checked_sub(1) else { break };
                left = rest;
            }
            steps.push(step.clone());
        }
        steps.push(Step::Input(Input::Forked { epoch: self.core.epoch() + 1 }));
        Self::replayed(&self.setup, Arc::clone(self.core.tokenizer()), &steps)
    }

    /// A session in which these things happened. A request that did not fit then is skipped, as it was the first time.
    pub(crate) fn replayed(setup: &Arc<Setup>, tokenizer: Arc<dyn Tokenizer>, log: &[Step]) -> Result<Self, Error> {
        let mut session = Self::begin(Setup::clone(setup), tokenizer)?;
        for step in log {
            match step {
                Step::Input(input) => drop(session.apply(input.clone())?),
                Step::Request => match session.request() {
                    Ok(_) | Err(Error::OverBudget(_)) => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(session)
    }

    /// All inputs so far.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.log.iter().filter_map(|step| if let Step::Input(input) = step { Some(input) } else { None })
    }

    /// Whether a request is due.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The number of turns so far.
    pub fn turns(&self) -> usize {
        self.core.turns()
    }

    /// The session's model.
    pub fn model(&self) -> &Model {
        &self.setup.model
    }

    /// The session's request format.
    pub fn dialect(&self) -> Dialect {
        self.setup.dialect
    }

    /// The session's settings.
    pub fn settings(&self) -> &Settings {
        self.core.settings()
    }

    /// The agent with the session's items.
    pub fn agent(&self) -> &Agent {
        self.core.agent()
    }

    /// The explanation of the last request.
    pub fn explanation(&self) -> Option<&Explanation> {
        self.unanswered.as_ref().map(Request::explanation)
    }

    /// The layers of the last request with the hash and size of each segment.
    pub fn layers(&self) -> Option<Vec<LayerView>> {
        self.sent.as_ref().map(|sent| self.core.layers(&sent.envelope))
    }

    /// Tool outputs that the prompt shows in part, with their IDs, since the last call. Keep them if the model may ask for the rest.
    pub fn take_outputs(&mut self) -> Vec<(String, Arc<str>)> {
        self.core.take_outbox().into_iter().map(|(id, text)| (id.to_string(), text)).collect()
    }
}

fn item_id(item: &str) -> Result<ItemId, Error> {
    item.parse().map_err(|error: foreword_core::item::NotAnItemId| Error::Attachment(error.to_string()))
}

/// How many messages two requests begin with in common.
fn in_common(before: &[Arc<Message>], now: &[Arc<Message>]) -> usize {
    before.iter().zip(now).take_while(|(before, now)| Arc::ptr_eq(before, now) || before.says_the_same(now)).count()
}

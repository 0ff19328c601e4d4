//! The traits for models and for the tools of a session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use foreword_core::catalog::Agent;
use foreword_core::item::ItemId;
use foreword_core::message::{Opaque, ToolCall};
use foreword_core::session::TurnResult;
use foreword_core::settings::Settings;
use foreword_core::tokens::Tokens;
use foreword_provider::dialect::gemini::GeminiCacheRequest;
use foreword_provider::refusal::Refusal;
use foreword_provider::reply::CacheMiss;
use foreword_provider::usage::CacheUse;
use foreword_tools::Output;
use futures_util::future::{BoxFuture, ready};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio_util::sync::CancellationToken;

use super::called::Called;
use super::cite::Citable;
use super::ending::Ending;
use super::request::Outgoing;

/// A model that answers requests.
pub trait ChatModel: Send {
    /// The lifetime of cache resources that this model may create at its provider; `None` to create none.
    fn cache_lifetime(&self) -> Option<Duration> {
        None
    }

    /// Creates or renews a cache resource and returns its name; `None` to send the whole prompt.
    fn cache(&mut self, _request: GeminiCacheRequest) -> BoxFuture<'static, Option<String>> {
        ready(None).boxed()
    }

    /// Answers a request. The stream may be read by any executor and on any thread. It ends soon after `stop` is cancelled.
    fn answer(&mut self, request: Arc<Outgoing>, stop: CancellationToken) -> ReplyStream;
}

/// The parts of a reply as they arrive. [`ReplyPart::End`] is the last one.
pub type ReplyStream = BoxStream<'static, ReplyPart>;

/// A part of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyPart {
    /// More of its text.
    Text(String),
    /// The whole reply, or why there is none.
    End(Result<Reply, SpeakError>),
}

/// A reply that arrives in one piece.
pub fn whole_reply(reply: Result<Reply, SpeakError>) -> ReplyStream {
    stream::iter([ReplyPart::End(reply)]).boxed()
}

/// A model's reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The whole text.
    pub text: String,
    /// The tool calls.
    pub calls: Vec<ToolCall>,
    /// Provider-specific blocks to send back with the reply.
    pub opaque: Vec<Opaque>,
    /// The usage, if known.
    pub spent: Option<Spent>,
    /// The provider's ID of the reply.
    pub id: Option<String>,
    /// Why the provider's cache was missed, if the provider says so.
    pub missed: Option<CacheMiss>,
    /// Whether the reply is incomplete.
    pub cut_off: bool,
    /// Why the reply ended early, if known.
    pub ending: Option<Ending>,
}

/// The token usage of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The prompt tokens.
    pub prompt: CacheUse,
    /// The reply tokens.
    pub output: u64,
}

/// The model failed to answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer from the model: {message}")]
pub struct SpeakError {
    /// The error message.
    pub message: String,
    /// What the provider said, if it refused the request.
    pub refusal: Option<Box<Refusal>>,
}

impl SpeakError {
    /// An error that is not a provider's refusal.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), refusal: None }
    }
}

/// A tool call and the tool that it names.
#[derive(Debug)]
pub struct Call<'a> {
    /// The call as the model made it.
    pub call: &'a ToolCall,
    /// The tool, or an error message for the model.
    pub tool: Result<Called, String>,
}

/// The tools and the search of a session.
pub trait ToolHost {
    /// Runs a call and returns its output. Failures are described in the output. It ends soon after `stop` is cancelled.
    fn run(&mut self, call: &Call<'_>, stop: &CancellationToken) -> Output;

    /// Checks the arguments against the tool's schema; the error is worded for the model.
    fn check(&mut self, _called: &Called) -> Result<(), String> {
        Ok(())
    }

    /// Searches the notes for a question. Returns a block for a model of the given size, limited to `room`, and the sources that
    /// can be cited.
    fn sources(&mut self, _words: &str, _size: Size, _room: Tokens) -> Result<Sources, String> {
        Err("there is nothing to search in".to_owned())
    }

    /// Warnings for the user since the last call.
    fn take_warnings(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Scores the agent's items for a question, per chunk.
    fn scores(&mut self, _words: &str, _agent: &Agent, _settings: &Settings) -> Result<Scores, String> {
        Ok(BTreeMap::new())
    }
}

/// Search scores per chunk.
pub type Scores = BTreeMap<ItemId, Vec<f64>>;

/// A model's size: small models cannot follow long instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The embedded model.
    Small,
    /// Any other model.
    Large,
}

/// The search results for a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Sources {
    /// The results as a tool output of the turn.
    pub result: TurnResult,
    /// The sources that can be cited.
    pub citable: Vec<Citable>,
}

/// A session without tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHands;

impl ToolHost for NoHands {
    fn run(&mut self, call: &Call<'_>, _stop: &CancellationToken) -> Output {
        let name = &call.call.name;
        Output::failed(call.tool.as_ref().err().cloned().unwrap_or_else(|| format!("The tool {name:?} cannot be used here.")))
    }
}

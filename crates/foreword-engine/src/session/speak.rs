//! Who answers: a model behind one trait, and the hands that run its tools.

use foreword_core::message::{Opaque, ToolCall};
use foreword_core::prompt::Prompt;
use foreword_provider::cache::CacheUse;
use foreword_provider::model::Model;
use foreword_provider::reply::CacheMiss;
use foreword_tools::Output;

use super::kept::Outgoing;

/// Something that answers requests.
pub trait Speaker {
    /// The name of a cache at its provider that holds the tools and the system of a prompt that is about to be sent, where it keeps one.
    fn cache(&mut self, _model: &Model, _prompt: &Prompt<'_>) -> Option<String> {
        None
    }

    /// Answers. Each part of the text is handed over as it comes.
    fn answer(&mut self, request: &Outgoing, part: &mut dyn FnMut(&str)) -> Result<Reply, SpeakError>;
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// All of the text.
    pub text: String,
    /// Calls.
    pub calls: Vec<ToolCall>,
    /// What its provider wants back with it.
    pub opaque: Vec<Opaque>,
    /// What it used, where that is known.
    pub spent: Option<Spent>,
    /// The provider's name for it.
    pub id: Option<String>,
    /// Why the provider's cache was missed, where it was and the provider says so.
    pub missed: Option<CacheMiss>,
    /// Whether it ended before the model had said all.
    pub cut_off: bool,
}

/// What a request used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The prompt.
    pub prompt: CacheUse,
    /// Tokens of the reply.
    pub output: u64,
}

/// The model gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the model gave no answer: {0}")]
pub struct SpeakError(pub String);

/// What runs a model's calls.
pub trait Hands {
    /// The output of a call that the model made in answer to a request. There always is one: what went wrong is said in it.
    fn run(&mut self, call: &ToolCall, request: &Outgoing) -> Output;
}

/// No tools at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHands;

impl Hands for NoHands {
    fn run(&mut self, call: &ToolCall, _: &Outgoing) -> Output {
        Output::failed(format!("There is no tool {:?} in this session.", call.name))
    }
}

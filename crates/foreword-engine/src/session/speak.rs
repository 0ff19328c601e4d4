//! Who answers: a model behind one trait, and the hands that run its tools.

use std::collections::BTreeMap;

use foreword_core::catalog::Agent;
use foreword_core::item::ItemId;
use foreword_core::message::{Opaque, ToolCall};
use foreword_core::prompt::Prompt;
use foreword_core::session::TurnResult;
use foreword_core::settings::Settings;
use foreword_core::tokens::Tokens;
use foreword_provider::cache::CacheUse;
use foreword_provider::model::Model;
use foreword_provider::reply::CacheMiss;
use foreword_tools::Output;

use super::called::Called;
use super::cite::Citable;
use super::ending::Ending;
use super::request::Outgoing;

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
    /// Why it ended early, where it did and that is known.
    pub ending: Option<Ending>,
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
#[error("no answer from the model: {0}")]
pub struct SpeakError(pub String);

/// A call of the model, and the tool it means.
#[derive(Debug)]
pub struct Call<'a> {
    /// As the model made it.
    pub call: &'a ToolCall,
    /// The tool, or why there is none, in words for the model.
    pub tool: Result<Called, String>,
}

/// What a session reaches beyond itself while a turn runs.
pub trait Hands {
    /// The output of a call. There always is one: what went wrong is said in it.
    fn run(&mut self, call: &Call<'_>) -> Output;

    /// Whether the arguments are what the tool takes; else what is wrong, in words for the model.
    fn check(&mut self, _called: &Called) -> Result<(), String> {
        Ok(())
    }

    /// What the notes have on a question, as a block for a model of that size, and what of it can be cited. A request has `room` for it at most.
    fn sources(&mut self, _words: &str, _size: Size, _room: Tokens) -> Result<Sources, String> {
        Err("there is nothing to search in".to_owned())
    }

    /// What the user should know of what ran since the last call.
    fn take_warnings(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// How well the agent's items fit a question, by chunk, for who chooses by these settings.
    fn scores(&mut self, _words: &str, _agent: &Agent, _settings: &Settings) -> Result<Scores, String> {
        Ok(BTreeMap::new())
    }

    /// Whether the user wants no more.
    fn stopped(&self) -> bool {
        false
    }
}

/// How well items fit, by chunk.
pub type Scores = BTreeMap<ItemId, Vec<f64>>;

/// How much a model can take in: a small one loses its way in long instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The model that runs in this process.
    Small,
    /// Any other.
    Large,
}

/// What was found for a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Sources {
    /// As a tool's output that comes with the turn.
    pub result: TurnResult,
    /// What can be cited.
    pub citable: Vec<Citable>,
}

/// No tools at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHands;

impl Hands for NoHands {
    fn run(&mut self, call: &Call<'_>) -> Output {
        let name = &call.call.name;
        Output::failed(call.tool.as_ref().err().cloned().unwrap_or_else(|| format!("The tool {name:?} cannot be used here.")))
    }
}

//! What `foreword simulate --json` prints: the contract of the scenario format.

use std::collections::BTreeMap;

use foreword_core::envelope::{ContextEntry, FoldReason, Form, LeftOut, Note};
use foreword_core::hash::Hash;
use foreword_core::message::Message;
use foreword_core::session::LayerView;
use foreword_core::tokens::Tokens;
pub use foreword_engine::session::BreakReport;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// One scenario.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// How it was laid out.
    pub layout: &'static str,
    /// The dialect.
    pub provider: &'static str,
    /// The model.
    pub model: String,
    /// How tokens were counted.
    pub tokenizer: String,
    /// Its requests.
    pub requests: Vec<RequestReport>,
    /// Sums over them.
    pub totals: Totals,
    /// Why it ended before its last event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One request.
#[derive(Debug, Serialize)]
pub struct RequestReport {
    /// From 0.
    pub index: usize,
    /// From 0.
    pub turn: usize,
    /// From 0.
    pub epoch: usize,
    /// Layers and hashes.
    pub envelope: EnvelopeReport,
    /// The messages in no dialect.
    pub messages: Vec<MessageReport>,
    /// What is in it.
    pub context: Vec<ContextEntry>,
    /// What is not.
    pub left_out: Vec<LeftOut>,
    /// The tools it may use.
    pub tools: Vec<String>,
    /// The provider's request, exactly as it would go out.
    pub body: Box<RawValue>,
    /// Hash of those bytes.
    pub body_sha256: String,
    /// Sizes.
    pub tokens: TokensReport,
    /// What the cache made of it.
    pub cache: CacheReport,
    /// What a person should know.
    pub notes: Vec<Note>,
    /// What began its epoch, on its first request.
    #[serde(skip)]
    pub began: Option<FoldReason>,
}

/// The layers of a request.
#[derive(Debug, Serialize)]
pub struct EnvelopeReport {
    /// All five.
    pub layers: Vec<LayerReport>,
    /// Hash over their hashes.
    pub combined_sha256: Hash,
}

/// A layer.
#[derive(Debug, Serialize)]
pub struct LayerReport {
    /// `L1_SYSTEM` …
    pub id: &'static str,
    /// Hash of its segments, joined by blank lines.
    pub sha256: Hash,
    /// Its size.
    pub tokens: Tokens,
    /// What it is made of.
    pub segments: Vec<SegmentReport>,
}

/// A segment.
#[derive(Debug, Serialize)]
pub struct SegmentReport {
    /// The item, or what else it is.
    pub id: String,
    /// Hash of its bytes.
    pub sha256: Hash,
    /// Its size.
    pub tokens: Tokens,
    /// How it stands there.
    pub form: Form,
}

impl From<LayerView> for LayerReport {
    fn from(layer: LayerView) -> Self {
        let segments = layer.segments.into_iter();
        let segments = segments.map(|segment| SegmentReport {
            id: segment.id,
            sha256: segment.hash,
            tokens: segment.tokens,
            form: segment.form,
        });
        Self { id: layer.id.as_str(), sha256: layer.hash, tokens: layer.tokens, segments: segments.collect() }
    }
}

/// A message.
#[derive(Debug, Serialize)]
pub struct MessageReport {
    /// Who speaks.
    pub role: &'static str,
    /// Its text.
    pub content: String,
    /// Its calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<CallReport>,
    /// The call it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Images that go with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
}

/// A call.
#[derive(Debug, Serialize)]
pub struct CallReport {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
}

impl From<&Message> for MessageReport {
    fn from(message: &Message) -> Self {
        let calls = message.calls.iter();
        let calls =
            calls.map(|call| CallReport { id: call.id.clone(), name: call.name.clone(), arguments: call.arguments.clone() });
        Self {
            role: message.role.as_str(),
            content: message.content().into_owned(),
            tool_calls: calls.collect(),
            tool_call_id: message.answers.clone(),
            images: message.images.iter().map(|image| image.id.to_string()).collect(),
        }
    }
}

/// Sizes.
#[derive(Debug, Serialize)]
pub struct TokensReport {
    /// The whole request.
    pub total: Tokens,
    /// The room it had.
    pub budget: Tokens,
    /// By layer, and the tools.
    pub by_layer: BTreeMap<&'static str, Tokens>,
}

/// What the cache made of a request.
#[derive(Debug, Serialize)]
pub struct CacheReport {
    /// What a perfect prefix cache could have served.
    pub reusable: Tokens,
    /// What this provider's rules serve.
    pub read: Tokens,
    /// What is written.
    pub write: Tokens,
    /// Neither.
    pub uncached: Tokens,
    /// USD.
    pub cost: f64,
    /// Where the prompt stopped being a continuation of the one before it.
    #[serde(rename = "break")]
    pub broke: Option<BreakReport>,
}

/// Sums over a scenario.
#[derive(Debug, Default, Serialize)]
pub struct Totals {
    /// How many requests.
    pub requests: usize,
    /// All prompt tokens.
    pub input_tokens: Tokens,
    /// Read from the cache.
    pub read: Tokens,
    /// Written to it.
    pub write: Tokens,
    /// Neither.
    pub uncached: Tokens,
    /// USD.
    pub cost: f64,
    /// USD without any cache.
    pub cost_uncached: f64,
    /// USD with the best fold times, known afterwards, and an ideal cache. What was paid, where no better times are known: with too
    /// many requests to look at all pairs of them, or where only dropping history keeps them within their budget.
    pub hindsight_cost: f64,
}

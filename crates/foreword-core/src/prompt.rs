//! What the core hands to step 6: messages, tools and the facts a dialect needs to place its cache marks.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use serde_json::Value;

use crate::hash::Hash;
use crate::item::ItemId;
use crate::message::Message;
use crate::tokens::Tokens;

/// The tool through which all others are called if the choice cannot be sent otherwise.
pub const USE_TOOL: &str = "useTool";

/// How the choice of tools is sent to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStyle {
    /// The list holds every tool; the request says which of them are allowed.
    Allowed,
    /// The list holds `useTool` alone; the chosen tools' schemas stand in L3.
    UseTool,
    /// The list is the choice.
    Native,
}

/// A tool definition for a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// `tool:server/name`; none for the engine's own `useTool`.
    pub id: Option<ItemId>,
    /// The name on the wire.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// JSON schema of its arguments.
    #[serde(with = "crate::json::value")]
    pub schema: Value,
}

/// The tools of one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolPlan {
    /// How the choice is sent.
    pub style: ToolStyle,
    /// The list that goes out, sorted by name; fixed for an epoch unless `native`.
    pub list: Arc<Vec<ToolSpec>>,
    /// Wire names of the tools this request may use, sorted.
    pub allowed: Vec<String>,
    /// Size of the list.
    pub tokens: Tokens,
}

/// One request, before it is put into a provider's words.
#[derive(Clone, Debug)]
pub struct Prompt<'a> {
    /// All messages in order. The first may be the system message, with the pieces of L1, then L2.
    pub messages: &'a [Arc<Message>],
    /// The tools.
    pub tools: &'a ToolPlan,
    /// The number of messages that the next turn shares if nothing changes.
    pub settled: usize,
    /// Names the session; never a time or a counter.
    pub session: &'a str,
    /// Hash of L1.
    pub l1: Hash,
    /// Hash of L2.
    pub l2: Hash,
    /// Room for the reply.
    pub reply_tokens: Tokens,
}

/// What tokens cost, how long a provider remembers them and what it reads of a prefix: all that the core needs to know of a provider to
/// decide a fold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CachePrices {
    /// One token that is neither read from nor written to the cache.
    pub input: f64,
    /// One token read from the cache.
    pub read: f64,
    /// One token written to the cache.
    pub write: f64,
    /// The cache lifetime in seconds of idle time; `None` if unlimited.
    pub lifetime_s: Option<u64>,
    /// The shortest prefix that is read.
    #[serde(default)]
    pub minimum: u64,
    /// A prefix is read up to a multiple of this; 0 and 1 are every token.
    #[serde(default)]
    pub step: u64,
    /// What changes for a long prompt.
    #[serde(default)]
    pub long: Option<LongPrompt>,
}

/// A surcharge on every token of a prompt that is longer than a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongPrompt {
    /// Prompts with more tokens than this pay it.
    pub over: u64,
    /// The factor.
    pub factor: f64,
}

impl CachePrices {
    /// What is read of a prefix that the provider still has.
    pub fn served(&self, prefix: Tokens) -> Tokens {
        if prefix.0 < self.minimum { Tokens::ZERO } else { Tokens(prefix.0 - prefix.0 % self.step.max(1)) }
    }

    /// The price of a prompt of which `read` tokens are read and the others are written.
    pub fn prompt(&self, read: Tokens, total: Tokens) -> f64 {
        (read.min(total) * self.read + (total - read) * self.write) * self.factor(total)
    }

    /// The factor that a prompt of that size pays.
    pub fn factor(&self, total: Tokens) -> f64 {
        self.long.filter(|long| total.0 > long.over).map_or(1.0, |long| long.factor)
    }
}

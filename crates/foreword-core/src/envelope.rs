//! The record of one request: what was in it, why, and the hashes that prove it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::catalog::Include;
use crate::hash::{Hash, JoinedHash};
use crate::item::ItemId;
use crate::layer::LayerId;
use crate::prompt::ToolPlan;
use crate::select::Reason;
use crate::tokens::Tokens;

/// In which form an item stands in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Its text (cut where it was over its cap).
    Full,
    /// A line that says where its text stands.
    Reference,
    /// A line in place of its text, with a pointer to it.
    Stub,
    /// What changed since the text above.
    Diff,
    /// The part of its text that a search found.
    Passage,
}

/// How an item came into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inclusion {
    /// The agent has it in every session.
    Always,
    /// A person chose it.
    Manual,
    /// A search chose it for this request.
    Agent,
    /// A tool gave it back.
    Tool,
}

impl Inclusion {
    /// The word on the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Manual => "manual",
            Self::Agent => "agent",
            Self::Tool => "tool",
        }
    }
}

impl From<Include> for Inclusion {
    fn from(include: Include) -> Self {
        match include {
            Include::Always => Self::Always,
            Include::Manual => Self::Manual,
            Include::Agent => Self::Agent,
        }
    }
}

/// An item of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextEntry {
    /// Which.
    pub item: ItemId,
    /// How it came in.
    pub include: Inclusion,
    /// What the search gave it.
    pub score: Option<f64>,
    /// Where it stands; `None` for a tool in the tool list.
    #[serde(with = "layer_or_tools")]
    pub layer: Option<LayerId>,
    /// How it stands there.
    pub form: Form,
    /// Its size there.
    pub tokens: Tokens,
}

/// A layer by its name, or `TOOLS` where there is none.
mod layer_or_tools {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::layer::LayerId;

    const TOOLS: &str = "TOOLS";

    #[allow(clippy::trivially_copy_pass_by_ref, clippy::ref_option)] // the shape serde asks for
    pub(super) fn serialize<S: Serializer>(layer: &Option<LayerId>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(layer.map_or(TOOLS, LayerId::as_str))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LayerId>, D::Error> {
        let name = String::deserialize(deserializer)?;
        let layer = LayerId::ALL.into_iter().find(|layer| layer.as_str() == name);
        if layer.is_none() && name != TOOLS { Err(de::Error::custom(format!("{name:?} is not a layer"))) } else { Ok(layer) }
    }
}

/// A candidate that is not in a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Which.
    pub item: ItemId,
    /// Why.
    pub reason: Reason,
    /// What the search gave it.
    pub score: Option<f64>,
}

/// Something a person should know about a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// A word to filter by: `capped`, `fold`, `orphan_result` …
    pub kind: Cow<'static, str>,
    /// The item it is about.
    pub item: Option<ItemId>,
    /// What happened.
    pub text: String,
}

/// Why the prefix was rewritten: what began the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoldReason {
    /// The next request would not fit the budget.
    Budget,
    /// The history would not fit its window.
    Window,
    /// The user asked.
    Asked,
    /// The user removed an item.
    ItemRemoved,
    /// The provider's cache is cold anyway.
    CacheCold,
    /// The rent has reached what the fold costs.
    Pays,
    /// The user undid a fold.
    Undone,
    /// The system prompt, the memory or the project changed.
    AgentChanged,
    /// A rule joined or left L1.
    RulesChanged,
    /// A tool joined the list.
    ToolsChanged,
    /// The session went on from an earlier turn.
    Forked,
    /// Another model answers from here on.
    ModelChanged,
    /// A summary by a template stands for older messages from here on.
    Managed,
    /// The session has another layout from here on.
    LayoutChanged,
}

impl FoldReason {
    /// All of them.
    const ALL: [Self; 14] = [
        Self::Budget,
        Self::Window,
        Self::Asked,
        Self::ItemRemoved,
        Self::CacheCold,
        Self::Pays,
        Self::Undone,
        Self::AgentChanged,
        Self::RulesChanged,
        Self::ToolsChanged,
        Self::Forked,
        Self::ModelChanged,
        Self::Managed,
        Self::LayoutChanged,
    ];

    /// The reason that a word on the record stands for.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }

    /// Whether the prompt was rewritten in order to be smaller. Else something else in it had to change, and the epoch began for that.
    pub fn is_for_room(self) -> bool {
        match self {
            Self::Budget | Self::Window | Self::Asked | Self::CacheCold | Self::Pays | Self::Managed => true,
            Self::ItemRemoved
            | Self::Undone
            | Self::AgentChanged
            | Self::RulesChanged
            | Self::ToolsChanged
            | Self::Forked
            | Self::ModelChanged
            | Self::LayoutChanged => false,
        }
    }

    /// The word on the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Window => "window",
            Self::Asked => "asked",
            Self::ItemRemoved => "item_removed",
            Self::CacheCold => "cache_cold",
            Self::Pays => "fold_pays",
            Self::Undone => "fold_undone",
            Self::AgentChanged => "agent_changed",
            Self::RulesChanged => "rules_changed",
            Self::ToolsChanged => "tools_changed",
            Self::Forked => "forked",
            Self::ModelChanged => "model_changed",
            Self::Managed => "history_managed",
            Self::LayoutChanged => "layout_changed",
        }
    }
}

/// A layer's hash and size, kept while it grows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LayerSum {
    hash: JoinedHash,
    tokens: Tokens,
}

impl LayerSum {
    /// Adds one segment.
    pub fn push(&mut self, pieces: &[&str], tokens: Tokens) {
        self.hash.push_parts(pieces);
        self.tokens += tokens;
    }

    /// Adds size that belongs to no segment: headings and joins.
    pub fn add_frame(&mut self, tokens: Tokens) {
        self.tokens += tokens;
    }

    /// Its record now.
    pub fn record(&self) -> LayerRecord {
        LayerRecord { hash: self.hash.get(), tokens: self.tokens }
    }

    /// Its size now.
    pub fn tokens(&self) -> Tokens {
        self.tokens
    }
}

/// A layer in an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// Hash of its segments, joined by blank lines.
    pub hash: Hash,
    /// Its size, headings and joins included.
    pub tokens: Tokens,
}

/// The record of one request. The bytes are the session's messages at that time.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// Which request of the session, from 0.
    pub index: usize,
    /// Which turn, from 0.
    pub turn: usize,
    /// Which epoch, from 0.
    pub epoch: usize,
    /// What began the epoch, on its first request.
    pub began: Option<FoldReason>,
    /// L1 to L5.
    pub layers: [LayerRecord; 5],
    /// Hash over the layers' hashes.
    pub combined: Hash,
    /// The tools.
    pub tools: ToolPlan,
    /// The first unit of the history that is shown.
    pub cut: usize,
    /// How many messages it has.
    pub messages: usize,
    /// How many of them the next turn begins with if nothing changes.
    pub settled: usize,
    /// The whole size.
    pub tokens: Tokens,
    /// This turn's items. What stands from earlier turns is listed by the session on demand.
    pub turn_context: Vec<ContextEntry>,
    /// What did not come in.
    pub left_out: Vec<LeftOut>,
    /// What a person should know.
    pub notes: Vec<Note>,
}

impl Envelope {
    /// Hash over the layers' hashes.
    pub fn combine(layers: &[LayerRecord; 5]) -> Hash {
        let mut combined = JoinedHash::default();
        for layer in layers {
            combined.push(&layer.hash.to_string());
        }
        combined.get()
    }
}

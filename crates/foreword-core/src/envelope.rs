//! The record of one request: its contents, the reasons for them, and hashes.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::catalog::Include;
use crate::hash::{Hash, JoinedHash};
use crate::item::ItemId;
use crate::layer::LayerId;
use crate::prompt::ToolPlan;
use crate::select::Reason;
use crate::tokens::Tokens;

/// The form of an item in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The full text, cut if it exceeds its limit.
    Full,
    /// A line that refers to the text elsewhere in the prompt.
    Reference,
    /// A one-line stub that says how to read the text.
    Stub,
    /// A diff to the text above.
    Diff,
    /// The passage that a search found.
    Passage,
}

/// Why an item is in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inclusion {
    /// The agent includes it in every session.
    Always,
    /// The user chose it.
    Manual,
    /// The search chose it for this request.
    Agent,
    /// A tool returned it.
    Tool,
}

impl Inclusion {
    /// The name in stored data.
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

/// An item in a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextEntry {
    /// The item's ID.
    pub item: ItemId,
    /// Why it is included.
    pub include: Inclusion,
    /// Its search score.
    pub score: Option<f64>,
    /// Its layer; `None` for a tool in the tool list.
    #[serde(with = "layer_or_tools")]
    pub layer: Option<LayerId>,
    /// Its form.
    pub form: Form,
    /// Its size in tokens.
    pub tokens: Tokens,
}

/// Serializes a layer by name, or `TOOLS` for `None`.
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

/// A candidate that is not in the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The item's ID.
    pub item: ItemId,
    /// Why it was left out.
    pub reason: Reason,
    /// Its search score.
    pub score: Option<f64>,
}

/// A remark about a request for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The kind of remark, for filtering: `capped`, `fold`, `orphan_result` …
    pub kind: Cow<'static, str>,
    /// The item concerned.
    pub item: Option<ItemId>,
    /// The remark's text.
    pub text: String,
}

/// Why the prompt was rewritten and a new epoch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoldReason {
    /// The next request would not fit the budget.
    Budget,
    /// The history would not fit its window.
    Window,
    /// The user asked for a fold (compaction).
    Asked,
    /// The user removed an item.
    ItemRemoved,
    /// The provider's cache has expired anyway.
    CacheCold,
    /// The fold is cheaper than further cache reads: the rent has reached its cost.
    Pays,
    /// The user undid a fold.
    Undone,
    /// The system prompt, the memory or the project changed.
    AgentChanged,
    /// A rule was added to or removed from L1.
    RulesChanged,
    /// A tool was added to the list.
    ToolsChanged,
    /// The session was forked from an earlier turn.
    Forked,
    /// The model changed.
    ModelChanged,
    /// A new summary replaces older messages.
    Managed,
    /// The layout changed.
    LayoutChanged,
}

impl FoldReason {
    /// All reasons.
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

    /// The reason with this name in stored data.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }

    /// Whether the prompt was rewritten to save room. Otherwise its content had to change.
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

    /// The name in stored data.
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

/// A layer's hash and size, updated as it grows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LayerSum {
    hash: JoinedHash,
    tokens: Tokens,
}

impl LayerSum {
    /// Adds a segment.
    pub fn push(&mut self, pieces: &[&str], tokens: Tokens) {
        self.hash.push_parts(pieces);
        self.tokens += tokens;
    }

    /// Adds tokens of headings and joins, which belong to no segment.
    pub fn add_frame(&mut self, tokens: Tokens) {
        self.tokens += tokens;
    }

    /// The layer's current record.
    pub fn record(&self) -> LayerRecord {
        LayerRecord { hash: self.hash.get(), tokens: self.tokens }
    }

    /// The layer's current size.
    pub fn tokens(&self) -> Tokens {
        self.tokens
    }
}

/// A layer in an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// The hash of its segments, joined by blank lines.
    pub hash: Hash,
    /// Its size in tokens, including headings and joins.
    pub tokens: Tokens,
}

/// The record of one request. Its bytes are in the session's messages.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The number of the request in the session, from 0.
    pub index: usize,
    /// The number of the turn, from 0.
    pub turn: usize,
    /// The number of the epoch, from 0.
    pub epoch: usize,
    /// Why the epoch began, on its first request.
    pub began: Option<FoldReason>,
    /// The layers L1 to L5.
    pub layers: [LayerRecord; 5],
    /// The hash over the layers' hashes.
    pub combined: Hash,
    /// The tools of the request.
    pub tools: ToolPlan,
    /// The first unit of the history that is shown.
    pub cut: usize,
    /// The number of messages.
    pub messages: usize,
    /// The number of messages that the next turn shares if nothing changes.
    pub settled: usize,
    /// The size of the whole request in tokens.
    pub tokens: Tokens,
    /// The items of this turn. The session lists items of earlier turns on demand.
    pub turn_context: Vec<ContextEntry>,
    /// The items that were left out.
    pub left_out: Vec<LeftOut>,
    /// Remarks for the user.
    pub notes: Vec<Note>,
}

impl Envelope {
    /// The hash over the layers' hashes.
    pub fn combine(layers: &[LayerRecord; 5]) -> Hash {
        let mut combined = JoinedHash::default();
        for layer in layers {
            combined.push(&layer.hash.to_string());
        }
        combined.get()
    }
}

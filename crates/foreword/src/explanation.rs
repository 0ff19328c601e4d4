//! Why a request is as it is: its layers, its items, what was left out, and what the provider's cache will make of it.

use foreword_core::envelope::{ContextEntry, Envelope, FoldReason, LeftOut, Note};
use foreword_core::layer::LayerId;
use foreword_prompt_cache::CacheSim;
use foreword_provider::cost::{cost, uncached_cost};
use foreword_provider::diagnose::first_break;
use foreword_provider::render::Body;
use serde::Serialize;

use crate::session::{Sent, Setup};

/// The explanation of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The number of the request in the session, from 0.
    pub request: usize,
    /// The number of the turn, from 0.
    pub turn: usize,
    /// The number of the epoch, from 0: within an epoch the prompt only grows.
    pub epoch: usize,
    /// Why a new epoch began with this request, if one did.
    pub began: Option<FoldReason>,
    /// The size of the prompt in tokens, tools included.
    pub tokens: u64,
    /// The room for it.
    pub budget: u64,
    /// How tokens were counted.
    pub tokenizer: String,
    /// The size of the tool list in tokens.
    pub tool_tokens: u64,
    /// The five layers.
    pub layers: Vec<LayerSize>,
    /// The hash over the hashes of the layers.
    pub combined_sha256: String,
    /// The items in the request: why each is there, where, and in which form.
    pub context: Vec<ContextEntry>,
    /// The items that were left out, and why.
    pub left_out: Vec<LeftOut>,
    /// Remarks: what was cut, folded or not understood.
    pub notes: Vec<Note>,
    /// The tools that the model may call, by their names in the request.
    pub tools: Vec<String>,
    /// What the provider's cache will do, by its published rules.
    pub expected: Expected,
}

/// A layer of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LayerSize {
    /// `L1_SYSTEM`, `L2_LIBRARY`, `L3_TURN`, `L4_HISTORY` or `L5_USER`.
    pub id: &'static str,
    /// Its hash.
    pub sha256: String,
    /// Its size in tokens.
    pub tokens: u64,
}

/// What the provider's cache will do with a request if the last one was just sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Expected {
    /// Tokens that are read from the cache.
    pub read: u64,
    /// Tokens that are written to it, where that is charged.
    pub write: u64,
    /// All others.
    pub uncached: u64,
    /// The price of the prompt in USD, without the reply.
    pub cost: f64,
    /// The price without a cache.
    pub cost_uncached: f64,
    /// Where this prompt stops being a continuation of the last one, as a path in the body.
    pub broke_at: Option<String>,
}

pub(crate) fn explain(
    core: &foreword_core::session::Session,
    setup: &Setup,
    before: Option<&Sent>,
    envelope: &Envelope,
    body: &Body,
) -> Explanation {
    let layer = |id: &LayerId| {
        let record = envelope.layers[id.index()];
        LayerSize { id: id.as_str(), sha256: record.hash.to_string(), tokens: record.tokens.0 }
    };
    let mut cache = CacheSim::new();
    if let Some(before) = before {
        cache.request(0, &before.prompt, &setup.model);
    }
    let used = cache.request(0, &body.prompt, &setup.model);
    let broke = before.and_then(|before| first_break(&before.prompt, &body.prompt));
    Explanation {
        request: envelope.index,
        turn: envelope.turn,
        epoch: envelope.epoch,
        began: envelope.began,
        tokens: envelope.tokens.0,
        budget: core.settings().budget.prompt.0,
        tokenizer: core.tokenizer().name().to_owned(),
        tool_tokens: envelope.tools.tokens.0,
        layers: LayerId::ALL.iter().map(layer).collect(),
        combined_sha256: envelope.combined.to_string(),
        context: core.context(envelope),
        left_out: envelope.left_out.clone(),
        notes: envelope.notes.clone(),
        tools: envelope.tools.allowed.clone(),
        expected: Expected {
            read: used.read.0,
            write: used.write.0,
            uncached: used.uncached.0,
            cost: cost(&setup.model, &used),
            cost_uncached: uncached_cost(&setup.model, used.total()),
            broke_at: broke.map(|broke| broke.path.to_string()),
        },
    }
}

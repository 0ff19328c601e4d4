//! Overviews of a session's requests: size by layer, cache hits and breaks; and the text of each layer.

use std::collections::BTreeMap;

use foreword_core::layer::LayerId;
use foreword_core::message::Role;
use foreword_store::{Store, StoreError, Usage};
use serde::Serialize;
use serde_json::Value;

use super::inspect::{Stored, is_summary, name, segment_name};
use super::paid::is_fold;

/// A summary of a request.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    /// The request's number in the session, from 0.
    pub request: u64,
    /// The turn, from 1.
    pub turn: u64,
    /// Its time in milliseconds since 1970.
    pub at_ms: i64,
    /// The epoch, from 0.
    pub epoch: u64,
    /// Why the epoch began, on its first request.
    pub began: Option<String>,
    /// Whether it began with a fold.
    pub folded: bool,
    /// The size in tokens.
    pub tokens: u64,
    /// The budget in tokens.
    pub budget: u64,
    /// Tokens of the tools and of L1 to L5.
    pub layers: [u64; 6],
    /// The usage; `None` if there was no reply.
    pub usage: Option<Usage>,
}

/// All requests of a session, without texts.
pub fn bars(store: &dyn Store, session: &str) -> Result<Vec<Bar>, StoreError> {
    let mut ledger: BTreeMap<u64, Usage> = store.ledger(session)?.into_iter().collect();
    let bars = store.requests(session)?.into_iter().map(|request| {
        let number = |pointer: &str| request.record.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        let mut layers = [number("/tool_tokens"), 0, 0, 0, 0, 0];
        for (at, tokens) in layers.iter_mut().skip(1).enumerate() {
            *tokens = number(&format!("/layers/{at}/tokens"));
        }
        Bar {
            request: request.number,
            turn: request.run + 1,
            at_ms: request.at_ms,
            epoch: request.epoch,
            budget: number("/budget"),
            layers,
            usage: ledger.remove(&request.number),
            folded: request.began.as_deref().is_some_and(is_fold),
            began: request.began,
            tokens: request.tokens,
        }
    });
    Ok(bars.collect())
}

/// A layer with its text.
#[derive(Clone, Debug, Serialize)]
pub struct LayerText {
    /// `TOOLS`, `L1_SYSTEM` …
    pub id: &'static str,
    /// The segments, in order.
    pub segments: Vec<SegmentText>,
}

/// A part of a layer with one origin.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentText {
    /// The ID of the item, message or engine text.
    pub id: String,
    /// The size in tokens.
    pub tokens: u64,
    /// The text.
    pub text: String,
}

/// The text of each layer of a request.
pub fn layer_texts(store: &dyn Store, session: &str, number: u64) -> Result<Vec<LayerText>, StoreError> {
    let stored = Stored::read(store, session, number)?;
    let mut layers: BTreeMap<LayerId, Vec<SegmentText>> = BTreeMap::new();
    let running = stored.messages.iter().rposition(|message| message.pieces.iter().any(|piece| piece.layer == LayerId::L5));
    for (at, message) in stored.messages.iter().enumerate() {
        let is_history = message.role != Role::System && Some(at) != running;
        if is_history || is_summary(message) {
            let calls = message.calls.iter().map(|call| format!("{}({})", call.name, call.arguments));
            let said = std::iter::once(message.content().into_owned()).chain(calls).filter(|text| !text.is_empty());
            let text = said.collect::<Vec<_>>().join("\n");
            let segment = SegmentText { id: segment_name(at, message), tokens: message.tokens().0, text };
            layers.entry(LayerId::L4).or_default().push(segment);
            continue;
        }
        for piece in &message.pieces {
            let id = name(&piece.origin);
            let segments = layers.entry(piece.layer).or_default();
            match segments.last_mut().filter(|last| last.id == id) {
                Some(last) => {
                    last.text.push_str(&piece.text);
                    last.tokens += piece.tokens.0;
                }
                None => segments.push(SegmentText { id, tokens: piece.tokens.0, text: piece.text.to_string() }),
            }
        }
    }
    let tools = stored.tools.list.iter().map(|tool| SegmentText {
        id: tool.name.clone(),
        tokens: 0,
        text: serde_json::to_string_pretty(tool).unwrap_or_default(),
    });
    let tools = LayerText { id: "TOOLS", segments: tools.collect() };
    let texts = LayerId::ALL.map(|layer| LayerText { id: layer.as_str(), segments: layers.remove(&layer).unwrap_or_default() });
    Ok(std::iter::once(tools).chain(texts).collect())
}

//! Inspects a request: its layers, items and exact bytes, and whether it still renders to the same bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use foreword_core::envelope::{ContextEntry, Envelope, LayerRecord, LeftOut, Note};
use foreword_core::hash::Hash;
use foreword_core::item::ItemId;
use foreword_core::layer::LayerId;
use foreword_core::message::{Message, Origin, Piece, Role};
use foreword_core::prompt::{Prompt, ToolPlan, ToolSpec, ToolStyle};
use foreword_core::session::Session;
use foreword_core::tokens::Tokens;
use foreword_prompt_cache::lifetime::{Asked, Lifetimes};
use foreword_provider::dialect::Dialect;
use foreword_provider::model::Model;
use foreword_provider::render::{Body, BodyOptions, body as render};
use foreword_store::{Request, Store, StoreError, Usage};
use serde::{Deserialize, Serialize};

use super::money::usd;
use super::setup::Setup;

/// Stored data of a request besides messages and items, needed to explain it and to send it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    dialect: Dialect,
    /// As JSON text, so that the same model is stored once.
    model: String,
    options: BodyOptions,
    layout: String,
    layers: [LayerRecord; 5],
    tool_style: ToolStyle,
    /// As JSON text, for the same reason.
    tool_list: String,
    allowed: Vec<String>,
    tool_tokens: Tokens,
    session: String,
    settled: usize,
    reply_tokens: Tokens,
    budget: Tokens,
    cut: usize,
    left_out: Vec<LeftOut>,
    notes: Vec<Note>,
    /// What the lifetime of its marks was chosen by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lifetimes: Option<(Lifetimes, Asked)>,
}

impl Record {
    pub(super) fn new(setup: &Setup, model: &Model, session: &Session, envelope: &Envelope, options: &BodyOptions) -> Self {
        Self {
            dialect: setup.dialect,
            model: serde_json::to_string(model).unwrap_or_default(),
            options: options.clone(),
            layout: session.settings().layout.as_str().to_owned(),
            layers: envelope.layers,
            tool_style: envelope.tools.style,
            tool_list: serde_json::to_string(&*envelope.tools.list).unwrap_or_default(),
            allowed: envelope.tools.allowed.clone(),
            tool_tokens: envelope.tools.tokens,
            session: session.settings().session.clone(),
            settled: envelope.settled,
            reply_tokens: session.settings().budget.reply,
            budget: session.settings().budget.prompt,
            cut: envelope.cut,
            left_out: envelope.left_out.clone(),
            notes: envelope.notes.clone(),
            lifetimes: None,
        }
    }
}

/// A stored request.
pub(super) struct Stored {
    pub(super) request: Request,
    pub(super) record: Record,
    pub(super) model: Model,
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) tools: ToolPlan,
}

impl Stored {
    /// How its body was written.
    pub(super) fn options(&self) -> &BodyOptions {
        &self.record.options
    }

    pub(super) fn read(store: &dyn Store, session: &str, number: u64) -> Result<Self, StoreError> {
        let request = store.request(session, number)?;
        let damaged = |what: &str, error: serde_json::Error| {
            StoreError::Damaged(format!("{what} of request {number} of session {session}: {error}"))
        };
        let record: Record = serde_json::from_value(request.record.clone()).map_err(|error| damaged("the record", error))?;
        let model = serde_json::from_str(&record.model).map_err(|error| damaged("the model", error))?;
        let list: Vec<ToolSpec> = serde_json::from_str(&record.tool_list).map_err(|error| damaged("the tools", error))?;
        let messages = store.messages(session, number)?.into_iter().map(|value| serde_json::from_value(value).map(Arc::new));
        let messages = messages.collect::<serde_json::Result<_>>().map_err(|error| damaged("a message", error))?;
        let tools = ToolPlan {
            style: record.tool_style,
            list: Arc::new(list),
            allowed: record.allowed.clone(),
            tokens: record.tool_tokens,
        };
        Ok(Self { request, record, model, messages, tools })
    }

    /// Whether a provider-side cache replaced its tools and system message.
    pub(super) fn needs_cache(&self) -> bool {
        self.record.options.cached_content.is_some()
    }

    /// Whether it requested a stream.
    pub(super) fn streams(&self) -> bool {
        self.record.options.stream
    }

    /// Renders the body again.
    pub(super) fn body(&self) -> Body {
        let prompt = Prompt {
            messages: &self.messages,
            tools: &self.tools,
            settled: self.record.settled,
            session: &self.record.session,
            l1: self.record.layers[LayerId::L1.index()].hash,
            l2: self.record.layers[LayerId::L2.index()].hash,
            reply_tokens: self.record.reply_tokens,
        };
        render(self.record.dialect, &self.model, &prompt, &self.record.options)
    }
}

/// The exact bytes of a request.
pub fn wire(store: &dyn Store, session: &str, number: u64) -> Result<Vec<u8>, StoreError> {
    Ok(body(store, session, number)?.bytes)
}

pub(super) fn body(store: &dyn Store, session: &str, number: u64) -> Result<Body, StoreError> {
    Ok(Stored::read(store, session, number)?.body())
}

/// The full description of a request.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// The session.
    pub session: String,
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
    /// The model.
    pub model: String,
    /// The dialect.
    pub provider: Dialect,
    /// The layout.
    pub layout: String,
    /// The tools and L1 to L5.
    pub layers: Vec<CachedLayer>,
    /// The size in tokens.
    pub tokens: u64,
    /// The budget in tokens.
    pub budget: Tokens,
    /// The hash over the layers' hashes.
    pub combined_sha256: Hash,
    /// The hash of the bytes that were sent.
    pub wire_sha256: Hash,
    /// The items of the request.
    pub context: Vec<ContextEntry>,
    /// The items that were left out, and why.
    pub left_out: Vec<LeftOut>,
    /// Remarks for the user.
    pub notes: Vec<Note>,
    /// The usage; `None` if there was no reply.
    pub usage: Option<Usage>,
    /// Whether rendering the request again gives the bytes that were sent.
    pub verified: bool,
}

/// A layer and its cached tokens.
#[derive(Clone, Debug, Serialize)]
pub struct CachedLayer {
    /// `TOOLS`, `L1_SYSTEM` …
    pub id: &'static str,
    /// The size in tokens.
    pub tokens: Tokens,
    /// The cached tokens; `None` if unknown.
    pub cached: Option<Tokens>,
    /// The hash.
    pub sha256: Hash,
    /// The segments.
    pub segments: Vec<Segment>,
}

/// A part of a layer with one origin.
#[derive(Clone, Debug, Serialize)]
pub struct Segment {
    /// The ID of the item, message or engine text.
    pub id: String,
    /// The hash of its bytes.
    pub sha256: Hash,
    /// The size in tokens.
    pub tokens: Tokens,
}

/// Describes a request from its record.
pub fn inspect(store: &dyn Store, session: &str, number: u64) -> Result<Inspection, StoreError> {
    let stored = Stored::read(store, session, number)?;
    let usage = store.ledger(session)?.into_iter().find(|(request, _)| *request == number).map(|(_, usage)| usage);
    let context = store.context(session, number)?.into_iter().map(serde_json::from_value);
    let context = context
        .collect::<serde_json::Result<Vec<ContextEntry>>>()
        .map_err(|error| StoreError::Damaged(format!("an item of request {number} of session {session}: {error}")))?;
    let usage = usage.map(|usage| Usage { cost: usd(usage.cost), cost_uncached: usd(usage.cost_uncached), ..usage });
    let wire = Hash::of(&stored.body().bytes);
    let read = usage.as_ref().map(|usage| Tokens(usage.read));
    Ok(explain(session, stored, context, read, usage, wire))
}

/// Describes a request with `read` cached tokens; `wire` is the hash of the request rendered again.
pub(super) fn explain(
    session: &str,
    stored: Stored,
    context: Vec<ContextEntry>,
    read: Option<Tokens>,
    usage: Option<Usage>,
    wire: Hash,
) -> Inspection {
    let layers = layers(&stored, read);
    let Stored { request, record, model, .. } = stored;
    Inspection {
        session: session.to_owned(),
        request: request.number,
        turn: request.run + 1,
        at_ms: request.at_ms,
        epoch: request.epoch,
        began: request.began,
        model: model.name,
        provider: record.dialect,
        layout: record.layout,
        layers,
        tokens: request.tokens,
        budget: record.budget,
        combined_sha256: request.combined,
        wire_sha256: request.wire,
        context,
        left_out: record.left_out,
        notes: record.notes,
        usage,
        verified: wire == request.wire,
    }
}

/// The layers with their segments, in the order of the cache; the first `read` tokens are cached.
fn layers(stored: &Stored, read: Option<Tokens>) -> Vec<CachedLayer> {
    let running = stored.messages.iter().rposition(|message| message.pieces.iter().any(|piece| piece.layer == LayerId::L5));
    let mut segments: BTreeMap<LayerId, Vec<Segment>> = BTreeMap::new();
    let mut cached: BTreeMap<LayerId, Tokens> = BTreeMap::new();
    let mut left = read.unwrap_or_default();
    let mut serve = |tokens: Tokens| {
        let served = left.min(tokens);
        left = left - served;
        served
    };
    let tools_cached = serve(stored.tools.tokens);
    for (at, message) in stored.messages.iter().enumerate() {
        let is_history = message.role != Role::System && Some(at) != running;
        let whole_layer = is_history || is_summary(message);
        for piece in &message.pieces {
            let layer = if whole_layer { LayerId::L4 } else { piece.layer };
            *cached.entry(layer).or_default() += serve(piece.tokens);
            if !whole_layer {
                add(segments.entry(layer).or_default(), piece);
            }
        }
        let extra = if whole_layer { LayerId::L4 } else { LayerId::L3 };
        *cached.entry(extra).or_default() += serve(message.extra_tokens);
        if whole_layer {
            let segment = Segment {
                id: segment_name(at, message),
                sha256: Hash::of(message.content().as_bytes()),
                tokens: message.tokens(),
            };
            segments.entry(LayerId::L4).or_default().push(segment);
        }
    }
    let tools = CachedLayer {
        id: "TOOLS",
        tokens: stored.tools.tokens,
        cached: read.map(|_| tools_cached),
        sha256: Hash::of(&stored.record.tool_list),
        segments: Vec::new(),
    };
    let of_layer = |layer: LayerId| {
        let LayerRecord { hash, tokens } = stored.record.layers[layer.index()];
        CachedLayer {
            id: layer.as_str(),
            tokens,
            cached: read.map(|_| cached.get(&layer).copied().unwrap_or_default().min(tokens)),
            sha256: hash,
            segments: segments.remove(&layer).unwrap_or_default(),
        }
    };
    std::iter::once(tools).chain(LayerId::ALL.map(of_layer)).collect()
}

/// Adds a piece as a segment; headings and blank lines count to the item that they introduce.
fn add(segments: &mut Vec<Segment>, piece: &Piece) {
    let id = name(&piece.origin);
    let hash = Hash::of(piece.text.as_bytes());
    match segments.last_mut().filter(|last| last.id == id) {
        Some(last) => {
            last.tokens += piece.tokens;
            last.sha256 = if piece.text.trim().is_empty() { last.sha256 } else { hash };
        }
        None => segments.push(Segment { id, sha256: hash, tokens: piece.tokens }),
    }
}

pub(super) fn is_summary(message: &Message) -> bool {
    message.pieces.first().is_some_and(|piece| piece.origin == Origin::Engine("summary"))
}

pub(super) fn name(origin: &Origin) -> String {
    match origin {
        Origin::Item(id) => ItemId::to_string(id),
        other => other.to_string(),
    }
}

pub(super) fn segment_name(at: usize, message: &Message) -> String {
    match message.pieces.first().map(|piece| &piece.origin) {
        Some(origin @ (Origin::Item(_) | Origin::Engine(_))) if message.role != Role::User => name(origin),
        _ => format!("message:{at}/{}", message.role.as_str()),
    }
}

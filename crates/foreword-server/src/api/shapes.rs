//! The shapes of the engine's records, for the `OpenAPI` document, because the engine does not depend on HTTP. No values of these
//! types are created; a test compares them with real answers.
#![allow(dead_code)]

use serde_json::Value;
use utoipa::ToSchema;

/// The usage and cost of a request.
#[derive(ToSchema)]
pub(crate) struct Usage {
    /// The model.
    model: String,
    /// Tokens read from the provider's cache.
    read: u64,
    /// Tokens written to the cache.
    write: u64,
    /// Other tokens of the prompt.
    uncached: u64,
    /// Tokens of the reply.
    output: u64,
    /// The cost in USD.
    cost: f64,
    /// The cost without a cache.
    cost_uncached: f64,
    /// The cache break, if there was one.
    #[schema(value_type = Option<Object>)]
    broke: Option<Value>,
    /// Milliseconds to the first part of the reply.
    first_token_ms: Option<u64>,
    /// Milliseconds to the end of the reply.
    total_ms: Option<u64>,
}

/// Why an answer ended early or is missing.
#[derive(ToSchema)]
pub(crate) struct Ending {
    /// `length` (the reply reached its limit), `repeating` (the model repeated itself), `stopped` (by the user), `refused` (by the
    /// model or its provider), `interrupted` (Foreword stopped) or `failed`.
    why: String,
    /// The error message, if it failed.
    detail: Option<String>,
}

/// A summary of a request.
#[derive(ToSchema)]
pub(crate) struct Bar {
    /// The request's number in the session, from 0.
    request: u64,
    /// The turn, from 1.
    turn: u64,
    /// Its time in milliseconds since 1970.
    at_ms: i64,
    /// The epoch, from 0.
    epoch: u64,
    /// Why the epoch began, on its first request.
    began: Option<String>,
    /// Whether it began with a fold.
    folded: bool,
    /// The size in tokens.
    tokens: u64,
    /// The budget in tokens.
    budget: u64,
    /// Tokens of the tools and of L1 to L5.
    layers: Vec<u64>,
    /// The usage; null if there was no reply.
    usage: Option<Usage>,
}

/// A request from its record.
#[derive(ToSchema)]
pub(crate) struct Inspection {
    /// The session's ID.
    session: String,
    /// The request's number in the session, from 0.
    request: u64,
    /// The turn, from 1.
    turn: u64,
    /// Its time in milliseconds since 1970.
    at_ms: i64,
    /// The epoch, from 0.
    epoch: u64,
    /// Why the epoch began, on its first request.
    began: Option<String>,
    /// The model.
    model: String,
    /// The request format.
    provider: String,
    /// `log` or `library`.
    layout: String,
    /// The tools and L1 to L5.
    layers: Vec<CachedLayer>,
    /// The size in tokens.
    tokens: u64,
    /// The budget in tokens.
    budget: u64,
    /// The hash over the layers' hashes.
    combined_sha256: String,
    /// The hash of the bytes that were sent.
    wire_sha256: String,
    /// The items of the request.
    context: Vec<ContextEntry>,
    /// The items that were left out, and why.
    left_out: Vec<LeftOut>,
    /// Remarks for the user.
    notes: Vec<Note>,
    /// The usage; null if there was no reply.
    usage: Option<Usage>,
    /// Whether rendering the request again gives the bytes that were sent.
    verified: bool,
}

/// A passage found in the notes.
#[derive(ToSchema)]
pub(crate) struct FoundNote {
    /// The number by which an answer cites it.
    number: usize,
    /// The note's ID.
    item: String,
    /// Its path in the vault.
    path: String,
    /// Its title.
    title: String,
    /// The headings above the passage, joined by ` > `.
    heading: String,
    /// The relevance to the question, from 0 to 1.
    score: f64,
    /// The passage; empty if the note is attached.
    text: String,
}

/// A layer and its cached tokens.
#[derive(ToSchema)]
pub(crate) struct CachedLayer {
    /// `TOOLS`, `L1_SYSTEM` …
    id: String,
    /// The size in tokens.
    tokens: u64,
    /// The cached tokens; null if unknown.
    cached: Option<u64>,
    /// The hash.
    sha256: String,
    /// The segments.
    segments: Vec<Segment>,
}

/// A part of a layer with one origin.
#[derive(ToSchema)]
pub(crate) struct Segment {
    /// The ID of the item, message or engine text.
    id: String,
    /// The hash of its bytes.
    sha256: String,
    /// The size in tokens.
    tokens: u64,
}

/// An item of a request.
#[derive(ToSchema)]
pub(crate) struct ContextEntry {
    /// The item's ID.
    item: String,
    /// How it was included: `always`, `manual`, `agent` (by search), `tool` (as a tool's output).
    include: String,
    /// The search score.
    score: Option<f64>,
    /// The layer: `TOOLS`, `L1_SYSTEM` …
    layer: String,
    /// The form: `full`, `reference`, `stub`, `diff` or `passage`.
    form: String,
    /// The size in tokens.
    tokens: u64,
}

/// A candidate that is not in the request.
#[derive(ToSchema)]
pub(crate) struct LeftOut {
    /// The item's ID.
    item: String,
    /// The reason.
    reason: String,
    /// The search score.
    score: Option<f64>,
}

/// A remark about a request for the user.
#[derive(ToSchema)]
pub(crate) struct Note {
    /// The kind of remark, for filtering.
    kind: String,
    /// The item concerned.
    item: Option<String>,
    /// The text.
    text: String,
}

/// A layer with its text.
#[derive(ToSchema)]
pub(crate) struct LayerText {
    /// `TOOLS`, `L1_SYSTEM` …
    id: String,
    /// The segments, in order.
    segments: Vec<SegmentText>,
}

/// A segment with its text.
#[derive(ToSchema)]
pub(crate) struct SegmentText {
    /// The ID of the item, message or engine text.
    id: String,
    /// The size in tokens.
    tokens: u64,
    /// The text.
    text: String,
}

/// The difference of two requests.
#[derive(ToSchema)]
pub(crate) struct Difference {
    /// The number of equal prompt bytes, in the order of a provider's cache.
    at_byte: u64,
    /// The first differing byte of the body; null if one body is a prefix of the other.
    body_byte: Option<u64>,
    /// The path of the difference in the second body.
    path: Option<String>,
    /// The item at that path.
    item: Option<String>,
    /// The item's version in the first request; null if it was not included.
    before: Option<String>,
    /// The item's version in the second request.
    after: Option<String>,
    /// The cause.
    cause: String,
    /// Tokens of the first request that the second cannot read from the cache.
    tokens_lost: u64,
    /// The cost of writing them again in USD.
    cost_lost: f64,
    /// Tokens that only the second request has.
    tokens_new: u64,
    /// The texts before and after.
    texts: Vec<String>,
}

/// A request that was not sent.
#[derive(ToSchema)]
pub(crate) struct Preview {
    /// The request; cached tokens are estimated from the cache's rules.
    #[serde(flatten)]
    request: Inspection,
    /// The expected cache hits and cost.
    expected: Expected,
    /// The tools that the model could call, by their names in the request.
    tools: Vec<String>,
    /// Failed searches and missing data.
    problems: Vec<String>,
    /// The size of the body in bytes.
    bytes: u64,
}

/// The expected effect of the provider's cache.
#[derive(ToSchema)]
pub(crate) struct Expected {
    /// Tokens read from the cache.
    read: u64,
    /// Tokens written to the cache.
    write: u64,
    /// Other tokens of the prompt.
    uncached: u64,
    /// The cost of the prompt in USD.
    cost: f64,
    /// The cost without a cache.
    cost_uncached: f64,
    /// Where and why the prompt does not continue the last one.
    broke: Option<Broke>,
}

/// A cache break.
#[derive(ToSchema)]
pub(crate) struct Broke {
    /// Prompt bytes before it, in the order of the provider's cache.
    at_byte: u64,
    /// The path in the body; null if the content is equal and the cache has expired.
    path: Option<String>,
    /// The item at that path.
    item: Option<String>,
    /// The cause.
    cause: String,
    /// Tokens that cannot be read from the cache.
    tokens_lost: u64,
    /// The cost in USD.
    cost_lost: f64,
}

/// A pin.
#[derive(ToSchema)]
pub(crate) struct Pinned {
    /// A message (`m12`), or an item's ID.
    what: String,
    /// The pinned text of a message.
    text: Option<String>,
}

/// An agent in the list.
#[derive(ToSchema)]
pub(crate) struct AgentInfo {
    /// The agent's name.
    name: String,
    /// Its description.
    description: Option<String>,
    /// Its preferred model.
    model: Option<String>,
}

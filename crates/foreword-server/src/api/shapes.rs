//! What the engine's records look like, for the description of the API: the engine itself knows nothing of HTTP. Only the fields' names and
//! kinds count here, nothing is ever made of these; a test compares them with what the server says.
#![allow(dead_code)]

use serde_json::Value;
use utoipa::ToSchema;

/// What a request used and cost.
#[derive(ToSchema)]
pub(crate) struct Usage {
    /// The model.
    model: String,
    /// Tokens read from the provider's cache.
    read: u64,
    /// Tokens written to it.
    write: u64,
    /// Tokens of the prompt that were neither.
    uncached: u64,
    /// Tokens of the reply.
    output: u64,
    /// What it cost, in USD.
    cost: f64,
    /// What it would have cost without a cache.
    cost_uncached: f64,
    /// What broke the cache, where something did.
    #[schema(value_type = Option<Object>)]
    broke: Option<Value>,
    /// Milliseconds until the first part of the reply.
    first_token_ms: Option<u64>,
    /// Milliseconds until its end.
    total_ms: Option<u64>,
}

/// Why an answer ended early, or why a question has none.
#[derive(ToSchema)]
pub(crate) struct Ending {
    /// `length` (the room for the reply was used up), `repeating` (the model repeated itself), `stopped` (by the user), `refused` (by the model or its provider), `interrupted`
    /// (Foreword ended) or `failed`.
    why: String,
    /// The error message, where it failed.
    detail: Option<String>,
}

/// A request at a glance.
#[derive(ToSchema)]
pub(crate) struct Bar {
    /// Its place in the session, from 0.
    request: u64,
    /// Which turn, from 1.
    turn: u64,
    /// When, in milliseconds since 1970.
    at_ms: i64,
    /// Which epoch, from 0.
    epoch: u64,
    /// What began it, on its first request.
    began: Option<String>,
    /// Whether that was a fold.
    folded: bool,
    /// Its size, in tokens.
    tokens: u64,
    /// The room it had.
    budget: u64,
    /// Tokens of the tools and of L1 to L5.
    layers: Vec<u64>,
    /// What it used; none where no reply came.
    usage: Option<Usage>,
}

/// A request from its record.
#[derive(ToSchema)]
pub(crate) struct Inspection {
    /// The session.
    session: String,
    /// Which request of it, from 0.
    request: u64,
    /// Which turn, from 1.
    turn: u64,
    /// When, in milliseconds since 1970.
    at_ms: i64,
    /// Which epoch, from 0.
    epoch: u64,
    /// What began it, on its first request.
    began: Option<String>,
    /// The model.
    model: String,
    /// How it is spoken to.
    provider: String,
    /// `log` or `library`.
    layout: String,
    /// The tools and L1 to L5.
    layers: Vec<CachedLayer>,
    /// Its size, in tokens.
    tokens: u64,
    /// The room it had.
    budget: u64,
    /// Hash over the layers' hashes.
    combined_sha256: String,
    /// Hash of the bytes that were sent.
    wire_sha256: String,
    /// What was in it.
    context: Vec<ContextEntry>,
    /// What was not, and why.
    left_out: Vec<LeftOut>,
    /// What a person should know.
    notes: Vec<Note>,
    /// What it used; none where no reply came.
    usage: Option<Usage>,
    /// Whether the bytes, rendered again, are those that were sent.
    verified: bool,
}

/// A passage that was found in the notes.
#[derive(ToSchema)]
pub(crate) struct FoundNote {
    /// The number that an answer cites it by.
    number: usize,
    /// The note.
    item: String,
    /// Its path in the vault.
    path: String,
    /// Its title.
    title: String,
    /// The headings above the passage, joined by ` > `.
    heading: String,
    /// How well it fits the question, from 0 to 1.
    score: f64,
    /// The passage; empty where the note is attached anyway.
    text: String,
}

/// A layer, and how much of it the provider's cache served.
#[derive(ToSchema)]
pub(crate) struct CachedLayer {
    /// `TOOLS`, `L1_SYSTEM` …
    id: String,
    /// Its size, in tokens.
    tokens: u64,
    /// What the cache served of it; none where that is not known.
    cached: Option<u64>,
    /// Its hash.
    sha256: String,
    /// What it is made of.
    segments: Vec<Segment>,
}

/// A stretch of a layer with one origin.
#[derive(ToSchema)]
pub(crate) struct Segment {
    /// The item, or what else it is.
    id: String,
    /// Hash of its bytes.
    sha256: String,
    /// Its size, in tokens.
    tokens: u64,
}

/// An item of a request.
#[derive(ToSchema)]
pub(crate) struct ContextEntry {
    /// Which.
    item: String,
    /// How it came in: `always`, `manual`, `agent` (a search chose it), `tool` (a tool gave it back).
    include: String,
    /// What the search gave it.
    score: Option<f64>,
    /// Where it stands: `TOOLS`, `L1_SYSTEM` …
    layer: String,
    /// `full`, `reference`, `stub`, `diff` or `passage`.
    form: String,
    /// Its size there, in tokens.
    tokens: u64,
}

/// A candidate that is not in a request.
#[derive(ToSchema)]
pub(crate) struct LeftOut {
    /// Which.
    item: String,
    /// Why.
    reason: String,
    /// What the search gave it.
    score: Option<f64>,
}

/// Something a person should know about a request.
#[derive(ToSchema)]
pub(crate) struct Note {
    /// A word to filter by.
    kind: String,
    /// The item it is about.
    item: Option<String>,
    /// What happened.
    text: String,
}

/// A layer as it was sent.
#[derive(ToSchema)]
pub(crate) struct LayerText {
    /// `TOOLS`, `L1_SYSTEM` …
    id: String,
    /// What it is made of, in order.
    segments: Vec<SegmentText>,
}

/// A stretch of a layer with what it says.
#[derive(ToSchema)]
pub(crate) struct SegmentText {
    /// The item, or what else it is.
    id: String,
    /// Its size, in tokens.
    tokens: u64,
    /// What it says.
    text: String,
}

/// Where two requests part.
#[derive(ToSchema)]
pub(crate) struct Difference {
    /// Bytes of prompt that are the same, in the order a provider's cache sees them.
    at_byte: u64,
    /// The first byte of the body that differs; none where one is the start of the other.
    body_byte: Option<u64>,
    /// Where the prompt differs in the body of the second.
    path: Option<String>,
    /// The item that stands there.
    item: Option<String>,
    /// Its version when the first was made; none where it was not there yet.
    before: Option<String>,
    /// Its version when the second was made.
    after: Option<String>,
    /// Why.
    cause: String,
    /// Tokens of the first that cannot be read from a cache for the second.
    tokens_lost: u64,
    /// What writing them again costs, in USD.
    cost_lost: f64,
    /// Tokens that only the second has.
    tokens_new: u64,
    /// What stood there, and what stands there now.
    texts: Vec<String>,
}

/// A request that was not sent.
#[derive(ToSchema)]
pub(crate) struct Preview {
    /// What it would hold; its cached tokens are those that the cache's rules lead one to expect.
    #[serde(flatten)]
    request: Inspection,
    /// What the provider's cache is expected to make of it.
    expected: Expected,
    /// The tools that could be called, by the names the model would see.
    tools: Vec<String>,
    /// What could not be found out, and what is missing for that.
    problems: Vec<String>,
    /// Size of the body.
    bytes: u64,
}

/// What a provider's cache is expected to make of a request.
#[derive(ToSchema)]
pub(crate) struct Expected {
    /// Tokens read from it.
    read: u64,
    /// Tokens written to it.
    write: u64,
    /// Tokens of the prompt that are neither.
    uncached: u64,
    /// The price of the prompt, in USD.
    cost: f64,
    /// The price without a cache.
    cost_uncached: f64,
    /// Where and why the prompt is no continuation of the last one.
    broke: Option<Broke>,
}

/// A break of a cache.
#[derive(ToSchema)]
pub(crate) struct Broke {
    /// Bytes of prompt before it, in the order the provider's cache sees them.
    at_byte: u64,
    /// Where it is in the body; none where nothing differs and the cache only forgot.
    path: Option<String>,
    /// The item that stands there.
    item: Option<String>,
    /// Why.
    cause: String,
    /// Tokens that cannot be read again.
    tokens_lost: u64,
    /// What that costs, in USD.
    cost_lost: f64,
}

/// Something that is kept through every fold.
#[derive(ToSchema)]
pub(crate) struct Pinned {
    /// A message (`m12`), or an item by its id.
    what: String,
    /// The words that are kept of a message.
    text: Option<String>,
}

/// An agent in the list.
#[derive(ToSchema)]
pub(crate) struct AgentInfo {
    /// What it is called by.
    name: String,
    /// What it is for.
    description: Option<String>,
    /// The model it prefers.
    model: Option<String>,
}

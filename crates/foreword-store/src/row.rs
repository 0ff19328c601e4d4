//! The plain values of a store.

use std::collections::BTreeMap;

use foreword_core::hash::Hash;
use foreword_core::json;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::packed::Document;

/// The number of stored inputs and requests of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Inputs in the log.
    pub inputs: u64,
    /// Requests.
    pub requests: u64,
}

/// A new session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewSession {
    /// Its unique ID.
    pub id: String,
    /// Its title.
    pub title: Option<String>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// Its agent.
    pub agent: Document,
    /// Its settings and model.
    pub setup: Document,
}

/// A stored session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionRow {
    /// Its ID.
    pub id: String,
    /// Its title.
    pub title: Option<String>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last written.
    pub touched_ms: i64,
    /// The hash of its first agent.
    pub agent: Hash,
    /// Its first settings and model.
    #[serde(skip)]
    pub setup: Value,
    /// The session that it was forked from.
    pub forked_from: Option<String>,
    /// Data about its file in the vault.
    pub transcript: Option<Value>,
    /// Its counts.
    pub counts: Counts,
    /// How many of them it shares with the branch that it was forked from.
    #[serde(skip)]
    pub taken: Counts,
}

/// A log entry to write or export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry<B = Document> {
    /// Its kind: `turn`, `assistant`, `tool_result`, `fold` …
    pub kind: String,
    /// The number of its turn.
    pub run: u64,
    /// Its time, in milliseconds since 1970.
    pub at_ms: i64,
    /// Whether a reply is incomplete.
    #[serde(default)]
    pub cut_off: bool,
    /// Its content.
    pub body: B,
}

/// A stored log entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Logged {
    /// Its number in the session, from 0.
    pub number: u64,
    /// Its kind.
    pub kind: String,
    /// The number of its turn.
    pub run: u64,
    /// Its time.
    pub at_ms: i64,
    /// Whether a reply is incomplete.
    pub cut_off: bool,
    /// Its content.
    pub body: Value,
}

/// A request to store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewRequest {
    /// The record, except for fields that the store sets.
    pub request: Request<Document>,
    /// The number of messages.
    pub messages: u64,
    /// Messages that differ from those of the previous request: position and message.
    pub changed: Vec<(u64, Document)>,
    /// The number of items.
    pub items: u64,
    /// Items that differ from those of the previous request: position, name and item as JSON.
    pub context: Vec<(u64, String, String)>,
}

/// The record of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request<R = Value> {
    /// Its number in the session, from 0. Set by the store.
    pub number: u64,
    /// The number of inputs at that time. Set by the store.
    pub input: u64,
    /// The number of its turn.
    pub run: u64,
    /// The number of its epoch.
    pub epoch: u64,
    /// Why the epoch began, on its first request.
    pub began: Option<String>,
    /// Its time.
    pub at_ms: i64,
    /// The hash over the layers' hashes.
    pub combined: Hash,
    /// The hash of the bytes that were sent.
    pub wire: Hash,
    /// Its size in tokens.
    pub tokens: u64,
    /// The number of messages. Set by the store.
    #[serde(default)]
    pub messages: Option<u64>,
    /// All other data needed to explain the request and to send it again.
    pub record: R,
}

/// The usage and cost of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The model.
    pub model: String,
    /// Tokens read from the provider's cache.
    pub read: u64,
    /// Tokens written to the cache.
    pub write: u64,
    /// Other tokens of the prompt.
    pub uncached: u64,
    /// Tokens of the reply.
    pub output: u64,
    /// The cost in USD.
    pub cost: f64,
    /// What the prompt would have cost without a cache.
    pub cost_uncached: f64,
    /// The cache break, if there was one.
    #[serde(default, with = "json::maybe")]
    pub broke: Option<Value>,
    /// Milliseconds to the first part of the reply.
    pub first_token_ms: Option<u64>,
    /// Milliseconds to the end of the reply.
    pub total_ms: Option<u64>,
}

/// A view of a managed history: a summary and its sources, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The number of the input that follows it. Set by the store.
    #[serde(default)]
    pub number: u64,
    /// Its time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The template's name.
    pub template: String,
    /// Where the template comes from.
    pub source: String,
    /// The hash of the template's text.
    pub hash: Hash,
    /// The model that wrote it.
    pub model: String,
    /// All other data.
    #[serde(with = "json::value")]
    pub record: Value,
}

/// An entry to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Write {
    /// An input. It also completes an unfinished reply.
    Input(Entry),
    /// A part of a reply. It survives a process crash, but not a power failure.
    Part(String),
    /// A request that is about to be sent.
    Request(Box<NewRequest>),
    /// The usage of a request.
    Usage(u64, Usage),
    /// A tool output that is not in the prompt in full.
    Output(String),
    /// The session's title.
    Title(String),
    /// Data about its file in the vault.
    Transcript(#[serde(with = "json::value")] Value),
    /// A view of a managed history, for the next input.
    Summary(Box<Summary>),
    /// A checkpoint.
    Checkpoint(Checkpoint),
}

/// A request to forward.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewForwarded {
    /// Its time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The client's API.
    pub front: String,
    /// The model that it names.
    pub model: String,
    /// The session that it names and is deleted with.
    pub session: Option<String>,
    /// Its bytes.
    pub body: String,
    /// What else is known of it, as JSON: the store only keeps it.
    #[serde(skip)] // journals of older versions have none; see `Job::SentAbout`
    pub about: Option<String>,
}

/// The outcome of a forwarded request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The status of the answer; `None` if there was none.
    pub status: Option<u16>,
    /// The usage, as far as the provider reported it.
    pub usage: Usage,
    /// What else is known of the answer, as JSON: the store only keeps it.
    #[serde(skip)]
    pub about: Option<String>,
}

/// A forwarded request.
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarded {
    /// Its number.
    pub number: u64,
    /// Its time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The client's API.
    pub front: String,
    /// The session that it names.
    pub session: Option<String>,
    /// The status of the answer; `None` if there is none.
    pub status: Option<u16>,
    /// The usage and the model.
    pub usage: Usage,
    /// What else is known of it, as JSON.
    pub about: Option<String>,
    /// What else is known of its answer, as JSON.
    pub came: Option<String>,
}

/// What a session did itself, on its current branch and on abandoned ones, without entries shared with other sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Own {
    /// Its requests with a ledger entry, oldest first.
    pub requests: Vec<Paid>,
    /// Its log entries of the requested kind, with references instead of long texts.
    pub entries: Vec<Logged>,
    /// Its summaries, likewise.
    pub summaries: Vec<Summary>,
}

/// A request with its usage.
#[derive(Clone, Debug, PartialEq)]
pub struct Paid {
    /// Its number in the session, from 0.
    pub number: u64,
    /// Its time, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why the epoch began, on its first request.
    pub began: Option<String>,
    /// The usage.
    pub usage: Usage,
}

/// The serialized state of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The counts that it includes.
    pub counts: Counts,
    /// The state.
    #[serde(with = "hex")]
    pub body: Vec<u8>,
}

/// Bytes as hexadecimal digits in JSON.
mod hex {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |four: u8| char::from(DIGITS[usize::from(four)]);
        let digits: String = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
        serializer.serialize_str(&digits)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        let bytes = pairs.iter().map(byte).collect::<Option<Vec<u8>>>().filter(|_| rest.is_empty());
        bytes.ok_or_else(|| de::Error::custom("expected two digits for each byte"))
    }
}

/// A fork of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// Its unique ID.
    pub id: String,
    /// Its title.
    pub title: Option<String>,
    /// Its time, in milliseconds since 1970.
    pub created_ms: i64,
}

/// A search result.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The session.
    pub session: String,
    /// The message.
    pub entry: Logged,
    /// The score; higher is better.
    pub score: f64,
}

/// An error in the stored data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The session, if the error concerns only one.
    pub session: Option<String>,
    /// The table and row.
    pub place: String,
    /// The error.
    pub what: String,
}

/// An exported session with all texts that it refers to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dump {
    /// Always 1.
    pub foreword_session: u32,
    /// Its ID.
    pub id: String,
    /// Its title.
    pub title: Option<String>,
    /// When it was created.
    pub created_ms: i64,
    /// When it was last written.
    pub touched_ms: i64,
    /// The hash of its first agent.
    pub agent: Hash,
    /// Its settings and model.
    pub setup: Value,
    /// The log, in order, with references instead of long texts.
    pub log: Vec<Entry<Value>>,
    /// The requests, in order.
    pub requests: Vec<Request>,
    /// The positions of the messages.
    pub placed: Vec<Interval>,
    /// The positions of the items.
    pub context: Vec<Interval>,
    /// The usage by request.
    pub ledger: Vec<(u64, Usage)>,
    /// The hashes of the tool outputs in the outbox.
    pub outbox: Vec<Hash>,
    /// The summaries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summaries: Vec<Summary>,
    /// All referenced texts by hash.
    pub texts: BTreeMap<Hash, String>,
}

/// A value that was at one position for some requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// The position.
    pub position: u64,
    /// The first request with it.
    pub since: u64,
    /// The first request without it.
    pub until: Option<u64>,
    /// The hash of a message, or an item's entry.
    pub value: Value,
}

/// Why an exported session cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot import the session file: {place}: {what}")]
pub struct DumpError {
    /// The place in the file.
    pub place: String,
    /// The error.
    pub what: String,
}

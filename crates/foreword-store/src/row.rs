//! The plain values a store takes and gives.

use std::collections::BTreeMap;

use foreword_core::hash::Hash;
use foreword_core::json;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::packed::Document;

/// How far the records of a session go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Inputs in the log.
    pub inputs: u64,
    /// Requests.
    pub requests: u64,
}

/// A session that begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewSession {
    /// Its name; never used before.
    pub id: String,
    /// What it is about.
    pub title: Option<String>,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// The agent it begins with.
    pub agent: Document,
    /// The settings and the model it begins with.
    pub setup: Document,
}

/// A session as it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionRow {
    /// Its name.
    pub id: String,
    /// What it is about.
    pub title: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub created_ms: i64,
    /// When something was last written.
    pub touched_ms: i64,
    /// The agent it began with.
    pub agent: Hash,
    /// The settings and the model it began with.
    #[serde(skip)]
    pub setup: Value,
    /// The session it was forked from.
    pub forked_from: Option<String>,
    /// What is remembered of its file in the vault.
    pub transcript: Option<Value>,
    /// How far its records go.
    pub counts: Counts,
    /// How many of them it took over from the line of history it branched off from.
    #[serde(skip)]
    pub taken: Counts,
}

/// An input on its way into the log, or in a dump.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry<B = Document> {
    /// What it is: `turn`, `assistant`, `tool_result`, `fold` …
    pub kind: String,
    /// The run it belongs to.
    pub run: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Whether a reply ended before it was whole.
    #[serde(default)]
    pub cut_off: bool,
    /// What was told.
    pub body: B,
}

/// An input of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Logged {
    /// Its place in the session, from 0.
    pub number: u64,
    /// What it is.
    pub kind: String,
    /// The run it belongs to.
    pub run: u64,
    /// When.
    pub at_ms: i64,
    /// Whether a reply ended before it was whole.
    pub cut_off: bool,
    /// What was told.
    pub body: Value,
}

/// A request on its way into the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewRequest {
    /// The envelope, except what the store lays down by itself.
    pub request: Request<Document>,
    /// How many messages it has.
    pub messages: u64,
    /// Those that do not stand at the same place in the request before it: the place and the message.
    pub changed: Vec<(u64, Document)>,
    /// How many items it has.
    pub items: u64,
    /// Those that do not stand at the same place in the request before it: the place, the name and the item as JSON.
    pub context: Vec<(u64, String, String)>,
}

/// The envelope of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request<R = Value> {
    /// Its place in the session, from 0. Given by the store.
    pub number: u64,
    /// How many inputs the session had been told. Given by the store.
    pub input: u64,
    /// The run it belongs to.
    pub run: u64,
    /// The epoch.
    pub epoch: u64,
    /// What began the epoch, on its first request.
    pub began: Option<String>,
    /// When.
    pub at_ms: i64,
    /// Hash over the layers' hashes.
    pub combined: Hash,
    /// Hash of the bytes that were sent.
    pub wire: Hash,
    /// Its size.
    pub tokens: u64,
    /// How many messages it has. Given by the store.
    #[serde(default)]
    pub messages: Option<u64>,
    /// Everything else that is needed to explain it and to send it again.
    pub record: R,
}

/// What a request used and cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The model.
    pub model: String,
    /// Tokens read from the provider's cache.
    pub read: u64,
    /// Tokens written to it.
    pub write: u64,
    /// Tokens of the prompt that were neither.
    pub uncached: u64,
    /// Tokens of the reply.
    pub output: u64,
    /// What it cost, in USD.
    pub cost: f64,
    /// What the prompt would have cost without a cache.
    pub cost_uncached: f64,
    /// What broke the cache, where something did.
    #[serde(default, with = "json::maybe")]
    pub broke: Option<Value>,
    /// Milliseconds until the first part of the reply.
    pub first_token_ms: Option<u64>,
    /// Milliseconds until its end.
    pub total_ms: Option<u64>,
}

/// A managed view of a history: what a summary was made from and what came of it, also where nothing did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The input it was made before. Given by the store.
    #[serde(default)]
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The name of the template.
    pub template: String,
    /// Where that came from.
    pub source: String,
    /// The hash of its text.
    pub hash: Hash,
    /// Who wrote.
    pub model: String,
    /// Everything else.
    #[serde(with = "json::value")]
    pub record: Value,
}

/// Something to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Write {
    /// The session was told something. A reply that was coming in is whole with it.
    Input(Entry),
    /// A part of a reply came in. It need not survive the end of the machine, only that of the process.
    Part(String),
    /// A request is about to be sent.
    Request(Box<NewRequest>),
    /// What a request used.
    Usage(u64, Usage),
    /// A tool output that is kept out of the prompt.
    Output(String),
    /// What the session is about.
    Title(String),
    /// What is remembered of its file in the vault.
    Transcript(#[serde(with = "json::value")] Value),
    /// A managed view of the history, for the input that comes next.
    Summary(Box<Summary>),
    /// A shortcut for going on.
    Checkpoint(Checkpoint),
}

/// A request that is about to be passed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewForwarded {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The API it is in.
    pub front: String,
    /// The model it names.
    pub model: String,
    /// The session it names; it is forgotten with it.
    pub session: Option<String>,
    /// Its bytes.
    pub body: String,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The status of the answer; none where there was no answer.
    pub status: Option<u16>,
    /// What it used, as far as the provider said so.
    pub usage: Usage,
}

/// A request that was passed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarded {
    /// Its number.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The API it is in.
    pub front: String,
    /// The session it names.
    pub session: Option<String>,
    /// The status of its answer; none where there was none, or none yet.
    pub status: Option<u16>,
    /// What it used; the model it names.
    pub usage: Usage,
}

/// What a session did itself, in the line of history it is on and in those that it has left. What it took over from another session is not in
/// it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Own {
    /// Its requests that have an entry in the ledger, oldest first.
    pub requests: Vec<Paid>,
    /// The entries of its log that are of the kind that was asked for, with pointers in place of long texts.
    pub entries: Vec<Logged>,
    /// The managed views of its history, likewise.
    pub summaries: Vec<Summary>,
}

/// A request and what it used.
#[derive(Clone, Debug, PartialEq)]
pub struct Paid {
    /// Its place in the session, from 0.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// What began the epoch, on its first request.
    pub began: Option<String>,
    /// What it used.
    pub usage: Usage,
}

/// A session's state after some inputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// How far it goes.
    pub counts: Counts,
    /// The state.
    #[serde(with = "hex")]
    pub body: Vec<u8>,
}

/// Bytes in JSON.
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

/// A session that goes on from another one's past.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// Its name; never used before.
    pub id: String,
    /// What it is about.
    pub title: Option<String>,
    /// When, in milliseconds since 1970.
    pub created_ms: i64,
}

/// A message that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The session.
    pub session: String,
    /// The message.
    pub entry: Logged,
    /// How well it fits; more is better.
    pub score: f64,
}

/// Something that is broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The session, where it is one session's fault.
    pub session: Option<String>,
    /// Where: a table and a row.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

/// A session in one value, with every text it points to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dump {
    /// Always 1.
    pub foreword_session: u32,
    /// Its name.
    pub id: String,
    /// What it is about.
    pub title: Option<String>,
    /// When it began.
    pub created_ms: i64,
    /// When something was last written.
    pub touched_ms: i64,
    /// The agent it began with.
    pub agent: Hash,
    /// The settings and the model.
    pub setup: Value,
    /// The log, in order; long texts are pointers.
    pub log: Vec<Entry<Value>>,
    /// The requests, in order.
    pub requests: Vec<Request>,
    /// Which message stood where, and when.
    pub placed: Vec<Interval>,
    /// Which item was in, and when.
    pub context: Vec<Interval>,
    /// What was used.
    pub ledger: Vec<(u64, Usage)>,
    /// Hashes of the outputs in the Outbox.
    pub outbox: Vec<Hash>,
    /// Managed views of the history.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summaries: Vec<Summary>,
    /// Every text that is pointed to.
    pub texts: BTreeMap<Hash, String>,
}

/// Something that stood at a place for some requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Where.
    pub position: u64,
    /// The first request it was in.
    pub since: u64,
    /// The first request it was not in any more.
    pub until: Option<u64>,
    /// A message's hash, or an item's entry.
    pub value: Value,
}

/// Why a dump cannot be taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot import the session file: {place}: {what}")]
pub struct DumpError {
    /// Where in the file.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

//! Step 8: stores sessions, requests and messages on disk before they take effect.
//!
//! [`Store`] is a trait of plain values and does not interpret them; [`Sqlite`] implements it. Each long text is stored once, by
//! hash. A request stores only what differs from the previous one.

mod acknowledged;
mod error;
mod files;
mod health;
mod journal;
mod lease;
mod packed;
mod row;
mod shared;
mod sqlite;
mod underway;

use std::collections::BTreeMap;
use std::path::Path;

use foreword_core::hash::Hash;
use serde_json::Value;

pub use error::StoreError;
pub use health::Health;
pub use lease::Lease;
pub use packed::Document;
pub use row::{
    Answered, Checkpoint, Counts, Dump, DumpError, Entry, Fault, Fork, Forwarded, Found, Interval, Logged, NewForwarded,
    NewRequest, NewSession, Own, Paid, Request, SessionRow, Summary, Usage, Write,
};
pub use shared::Shared;
pub use sqlite::Sqlite;

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, StoreError>;

/// A store of sessions. When a write returns, its data survives a process crash and, except for [`Shared::unsynced`], a power
/// failure.
pub trait Store: Send + std::fmt::Debug {
    /// Creates a session and returns the lease to write to it.
    fn begin(&mut self, new: &NewSession) -> Result<Lease>;
    /// All sessions, the last used first.
    fn sessions(&self) -> Result<Vec<SessionRow>>;
    /// One session.
    fn session(&self, id: &str) -> Result<SessionRow>;
    /// Writes all entries or none. Returns the session's counts.
    fn commit(&mut self, session: &str, writes: &[Write]) -> Result<Counts>;
    /// The same for the holder of the session's lease, who knows its counts. Written entries are removed from `writes`.
    fn note(&mut self, session: &str, _at: Counts, writes: &mut Vec<Write>) -> Result<Counts> {
        let counts = self.commit(session, writes)?;
        writes.clear();
        Ok(counts)
    }
    /// Makes all writes, or those of one session, visible to other processes. Must be called before a lease is returned.
    fn settle(&mut self, _session: Option<&str>) -> Result<()> {
        Ok(())
    }
    /// Keeps the lease of a session until its writes are visible to other processes, if [`Store::settle`] failed.
    fn hold(&mut self, _session: &str, _lease: Lease) {}
    /// The log of a session, from an input on.
    fn log(&self, session: &str, from: u64) -> Result<Vec<Logged>>;
    /// The same with references instead of long texts, for callers that need only some of them.
    fn log_packed(&self, session: &str, from: u64) -> Result<Vec<Logged>>;
    /// Replaces references with long texts.
    fn unpack(&self, packed: Value) -> Result<Value>;
    /// The parts of an unfinished reply.
    fn parts(&self, session: &str) -> Result<Vec<String>>;
    /// The records of a session's requests.
    fn requests(&self, session: &str) -> Result<Vec<Request>>;
    /// The record of one request.
    fn request(&self, session: &str, number: u64) -> Result<Request>;
    /// The messages of a request.
    fn messages(&self, session: &str, request: u64) -> Result<Vec<Value>>;
    /// The hashes of a request's messages.
    fn message_hashes(&self, session: &str, request: u64) -> Result<Vec<Hash>>;
    /// The items of a request.
    fn context(&self, session: &str, request: u64) -> Result<Vec<Value>>;
    /// The usage and cost of a session's requests, by request number.
    fn ledger(&self, session: &str) -> Result<Vec<(u64, Usage)>>;
    /// What each session, or the given one, did itself: its requests with their usage, its log entries of one kind, and its
    /// summaries.
    fn own(&self, session: Option<&str>, kind: &str) -> Result<BTreeMap<String, Own>>;
    /// The newest summaries of a session, oldest first.
    fn summaries(&self, session: &str, most: usize) -> Result<Vec<Summary>>;
    /// A text by its hash, for example a tool output of the outbox.
    fn text(&self, hash: Hash) -> Result<String>;
    /// An agent by its hash.
    fn agent(&self, hash: Hash) -> Result<Value>;
    /// The newest usable checkpoint of a session.
    fn checkpoint(&self, session: &str) -> Result<Option<Checkpoint>>;
    /// Continues a session, or a fork of it, from an earlier point with new entries, all or none. Entries before that point are
    /// shared; later ones stay until the session is deleted.
    fn branch(&mut self, session: &str, at: Counts, fork: Option<&Fork>, writes: &[Write]) -> Result<()>;
    /// Deletes a session and all data that only it uses.
    fn delete(&mut self, session: &str) -> Result<()>;
    /// Finds messages that contain all words, the best first.
    fn search(&self, words: &str, limit: usize) -> Result<Vec<Found>>;
    /// Checks all hashes and references.
    fn check(&self) -> Result<Vec<Fault>>;
    /// Copies the store to one file, even while it is in use.
    fn backup(&self, file: &Path) -> Result<()>;
    /// Exports one session as a value.
    fn dump(&self, session: &str) -> Result<Dump>;
    /// Imports an exported session.
    fn load(&mut self, dump: &Dump) -> Result<()>;
    /// Records a request that the gateway is about to forward, and returns its number. It survives a process crash; the latest ones
    /// may be lost in a power failure, because forwarding does not wait for the disk.
    fn sent(&mut self, new: NewForwarded) -> Result<u64>;
    /// Records the outcome of a forwarded request, with the same durability.
    fn answered(&mut self, number: u64, answered: &Answered) -> Result<()>;
    /// All forwarded requests, the oldest first.
    fn forwarded(&self) -> Result<Vec<Forwarded>>;
    /// At most `most` forwarded requests with a number below `before`, the latest first.
    fn forwarded_before(&self, before: Option<u64>, most: usize) -> Result<Vec<Forwarded>>;
    /// Those of one session, the first one first.
    fn forwarded_of(&self, session: &str) -> Result<Vec<Forwarded>>;
    /// The body of one.
    fn forwarded_body(&self, number: u64) -> Result<String>;
    /// The lease to write to a session. It ends with the process at the latest.
    fn lease(&self, session: &str) -> Result<Lease>;
}

/// A new, unique session ID that is short enough to type.
pub fn new_session_id() -> Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::NoRandomness(error.to_string()))?;
    Ok(session_id(u64::from_le_bytes(bytes)))
}

/// The session ID for a number.
pub fn session_id(mut number: u64) -> String {
    // No vowels and nothing that looks like something else, so that no name is a word or is misread.
    const LETTERS: &[u8; 20] = b"bcdfghjkmnpqrstvwxyz";
    let mut id = String::new();
    for _ in 0..10 {
        id.push(char::from(LETTERS[usize::try_from(number % 20).unwrap_or_default()]));
        number /= 20;
    }
    id
}

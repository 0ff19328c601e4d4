//! Step 8's memory: every session, every request, everything that was said, on disk before it counts.
//!
//! [`Store`] speaks in plain values and knows nothing of what they mean; [`Sqlite`] is the one behind it. Long texts are kept once, by
//! hash, and a request points to them; what a request shares with the one before it is not written again.

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

/// What went wrong, or what came of it.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Where sessions are kept. What a call that writes has returned from survives the end of the process and, but for [`Shared::unsynced`],
/// of the machine.
pub trait Store: Send + std::fmt::Debug {
    /// Begins a session, and gives the right to write to it.
    fn begin(&mut self, new: &NewSession) -> Result<Lease>;
    /// All sessions, the last used first.
    fn sessions(&self) -> Result<Vec<SessionRow>>;
    /// One session.
    fn session(&self, id: &str) -> Result<SessionRow>;
    /// Writes all of it or nothing. Gives back how far the session's records go.
    fn commit(&mut self, session: &str, writes: &[Write]) -> Result<Counts>;
    /// The same for whoever holds the session's lease and knows how far its records go. What was written is taken out of `writes`.
    fn note(&mut self, session: &str, _at: Counts, writes: &mut Vec<Write>) -> Result<Counts> {
        let counts = self.commit(session, writes)?;
        writes.clear();
        Ok(counts)
    }
    /// Sees to it that whoever else opens the store finds all that was written, to a session or at all; to be done before a lease is given
    /// back.
    fn settle(&mut self, _session: Option<&str>) -> Result<()> {
        Ok(())
    }
    /// Holds the lease of a session on until all of that is found, where it could not be settled.
    fn hold(&mut self, _session: &str, _lease: Lease) {}
    /// What a session was told, from an input on.
    fn log(&self, session: &str, from: u64) -> Result<Vec<Logged>>;
    /// The same with pointers in place of long texts, for who needs only some of them.
    fn log_packed(&self, session: &str, from: u64) -> Result<Vec<Logged>>;
    /// Puts the long texts back.
    fn unpack(&self, packed: Value) -> Result<Value>;
    /// What has come in of a reply that is not whole.
    fn parts(&self, session: &str) -> Result<Vec<String>>;
    /// The envelopes of a session's requests.
    fn requests(&self, session: &str) -> Result<Vec<Request>>;
    /// One of them.
    fn request(&self, session: &str, number: u64) -> Result<Request>;
    /// The messages of a request.
    fn messages(&self, session: &str, request: u64) -> Result<Vec<Value>>;
    /// The hashes under which they are kept.
    fn message_hashes(&self, session: &str, request: u64) -> Result<Vec<Hash>>;
    /// The items of a request.
    fn context(&self, session: &str, request: u64) -> Result<Vec<Value>>;
    /// What the requests of a session used and cost, by request.
    fn ledger(&self, session: &str) -> Result<Vec<(u64, Usage)>>;
    /// What each session did itself, by session, or that one: its requests with what they used, its entries of a kind, its managed views.
    fn own(&self, session: Option<&str>, kind: &str) -> Result<BTreeMap<String, Own>>;
    /// The newest managed views of a session's history, oldest first.
    fn summaries(&self, session: &str, most: usize) -> Result<Vec<Summary>>;
    /// A text by its hash: a tool output of the Outbox, say.
    fn text(&self, hash: Hash) -> Result<String>;
    /// An agent by its hash.
    fn agent(&self, hash: Hash) -> Result<Value>;
    /// The newest checkpoint that a session can go on from.
    fn checkpoint(&self, session: &str) -> Result<Option<Checkpoint>>;
    /// Lets a session, or a new one beside it, go on from an earlier point with what is written at once: all of it or nothing. The
    /// rows before that point are shared, those after it stay until the session is deleted.
    fn branch(&mut self, session: &str, at: Counts, fork: Option<&Fork>, writes: &[Write]) -> Result<()>;
    /// Forgets a session and whatever only it had.
    fn delete(&mut self, session: &str) -> Result<()>;
    /// Messages that hold all the words, best first.
    fn search(&self, words: &str, limit: usize) -> Result<Vec<Found>>;
    /// Looks at every hash and every pointer.
    fn check(&self) -> Result<Vec<Fault>>;
    /// A copy of all of it in one file, while it is in use.
    fn backup(&self, file: &Path) -> Result<()>;
    /// One session as a value that can be taken elsewhere.
    fn dump(&self, session: &str) -> Result<Dump>;
    /// Takes a session in that was dumped elsewhere.
    fn load(&mut self, dump: &Dump) -> Result<()>;
    /// Records a request that is about to be passed on untouched; its number. It survives the end of the process; the last of it may be
    /// lost with the machine, so that it need not wait for the disk.
    fn sent(&mut self, new: NewForwarded) -> Result<u64>;
    /// Records what came of one, likewise.
    fn answered(&mut self, number: u64, answered: &Answered) -> Result<()>;
    /// All requests that were passed on, the first one first.
    fn forwarded(&self) -> Result<Vec<Forwarded>>;
    /// So many of them at most, the last one first; those with a lower number than `before`.
    fn forwarded_before(&self, before: Option<u64>, most: usize) -> Result<Vec<Forwarded>>;
    /// Those of one session, the first one first.
    fn forwarded_of(&self, session: &str) -> Result<Vec<Forwarded>>;
    /// The body of one.
    fn forwarded_body(&self, number: u64) -> Result<String>;
    /// The right to write to a session; it ends with the process at the latest.
    fn lease(&self, session: &str) -> Result<Lease>;
}

/// A new name for a session: short enough to type, never used before.
pub fn new_session_id() -> Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::NoRandomness(error.to_string()))?;
    Ok(session_id(u64::from_le_bytes(bytes)))
}

/// The name that a number stands for.
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

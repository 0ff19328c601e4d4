//! Putting the bytes together, and their hash: both know what did not change since the last body.

use std::sync::{Arc, OnceLock};

use foreword_core::hash::Hash;
use sha2::{Digest as _, Sha256};

use crate::stream::PromptStream;

/// Bytes to put in, by the place they go to.
pub(super) type Inserts = Vec<(usize, &'static [u8])>;

/// A request as it goes out.
#[derive(Clone, Debug)]
pub struct Body {
    /// Canonical JSON: sorted keys, no spaces.
    pub bytes: Vec<u8>,
    /// The prompt in the order in which the provider's cache sees it.
    pub prompt: PromptStream,
    hash: Arc<Lazy>,
}

impl Body {
    /// The sha256 of the bytes. Hashed when asked for, and from where the last hashed body of the session ended.
    pub fn sha256(&self) -> Hash {
        let hashed = self.hash.value.get_or_init(|| {
            let (from, mut state) = self.hash.base.clone().unwrap_or_default();
            let at = self.hash.at.max(from);
            state.update(&self.bytes[from..at]);
            let resume = state.clone();
            state.update(&self.bytes[at..]);
            let hash = Hash::from(<[u8; 32]>::from(state.finalize()));
            Hashed { hash, at, resume }
        });
        hashed.hash
    }
}

#[derive(Debug)]
struct Hashed {
    hash: Hash,
    at: usize,
    resume: Sha256,
}

#[derive(Debug)]
struct Lazy {
    /// A state over the first bytes, taken from the last body.
    base: Option<(usize, Sha256)>,
    /// Up to where the next body is likely to be the same.
    at: usize,
    value: OnceLock<Hashed>,
}

/// What the renderer remembers of its last body.
#[derive(Debug, Default)]
pub(super) struct HashState {
    lead: Vec<u8>,
    generation: u64,
    system_marks: Inserts,
    wire_marks: Inserts,
    last: Option<Arc<Lazy>>,
}

/// Everything a body is put together from, in order.
pub(super) struct Assembly<'a> {
    /// Up to the messages' bracket.
    pub(super) lead: &'a [u8],
    /// The system message, where it is one of the messages.
    pub(super) inner_system: &'a [u8],
    pub(super) system_marks: Inserts,
    /// Changes with the system's bytes.
    pub(super) generation: u64,
    /// The other messages.
    pub(super) wire: &'a [u8],
    pub(super) wire_marks: Inserts,
    /// How many of their bytes are those of the last body.
    pub(super) kept: usize,
    /// Closes the last message.
    pub(super) close: &'static str,
    /// The fields behind the messages.
    pub(super) middle: &'a [u8],
    /// The system, where it is a field of its own.
    pub(super) outer_system: &'a [u8],
    /// The fields behind that.
    pub(super) tail: &'a [u8],
}

impl Assembly<'_> {
    pub(super) fn finish(self, last: &mut HashState, prompt: PromptStream) -> Body {
        let (inner_marks, outer_marks) = match (self.inner_system, self.outer_system) {
            ([], []) => (Vec::new(), Vec::new()),
            ([], _) => (Vec::new(), self.system_marks),
            _ => (self.system_marks, Vec::new()),
        };
        let put_in = |marks: &Inserts| marks.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        let size = self.lead.len()
            + self.inner_system.len()
            + put_in(&inner_marks)
            + self.wire.len()
            + put_in(&self.wire_marks)
            + self.close.len()
            + self.middle.len()
            + self.outer_system.len()
            + put_in(&outer_marks)
            + self.tail.len()
            + 3;
        let mut bytes = Vec::with_capacity(size);
        bytes.extend_from_slice(self.lead);
        copy_marked(&mut bytes, self.inner_system, &inner_marks);
        if !self.inner_system.is_empty() && !self.wire.is_empty() {
            bytes.push(b',');
        }
        let wire_at = bytes.len();
        copy_marked(&mut bytes, self.wire, &self.wire_marks);
        let wire_end = bytes.len();
        bytes.extend_from_slice(self.close.as_bytes());
        bytes.push(b']');
        bytes.extend_from_slice(self.middle);
        copy_marked(&mut bytes, self.outer_system, &outer_marks);
        bytes.extend_from_slice(self.tail);
        bytes.push(b'}');

        let same_start = last.lead == self.lead && last.generation == self.generation && last.system_marks == inner_marks;
        let stable = if same_start { wire_at + same_bytes(self.kept, &last.wire_marks, &self.wire_marks) } else { 0 };
        let base = last
            .last
            .take()
            .and_then(|lazy| lazy.value.get().map(|hashed| (hashed.at, hashed.resume.clone())))
            .filter(|(at, _)| *at <= stable);
        // Marks on messages move with every turn: what stands before the first of them stays.
        let at = match self.wire_marks.first() {
            Some((at, _)) => wire_at + at,
            None => wire_end,
        };
        let hash = Arc::new(Lazy { base, at, value: OnceLock::new() });
        *last = HashState {
            lead: self.lead.to_vec(),
            generation: self.generation,
            system_marks: inner_marks,
            wire_marks: self.wire_marks,
            last: Some(Arc::clone(&hash)),
        };
        Body { bytes, prompt, hash }
    }
}

/// How many bytes of the marked messages are the same, when `kept` bytes of the unmarked ones are.
fn same_bytes(kept: usize, old: &Inserts, new: &Inserts) -> usize {
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let differs = [old.get(same), new.get(same)].into_iter().flatten().map(|(at, _)| *at).min().unwrap_or(kept);
    let upto = kept.min(differs);
    let put_in: usize = old[..same].iter().filter(|(at, _)| *at < upto).map(|(_, bytes)| bytes.len()).sum();
    upto + put_in
}

/// Appends `bytes` with the inserts at their places.
fn copy_marked(out: &mut Vec<u8>, bytes: &[u8], inserts: &[(usize, &'static [u8])]) {
    let mut from = 0;
    for (at, insert) in inserts {
        out.extend_from_slice(&bytes[from..*at]);
        out.extend_from_slice(insert);
        from = *at;
    }
    out.extend_from_slice(&bytes[from..]);
}

//! How a log becomes calls: what stands between two calls of a chain is gathered until the next call takes it.

use std::collections::HashMap;

use crate::lenient::Size;
use crate::log::{Call, FileLog, Name, Signs, ToolResult, Trigger};

/// The name of the main chain.
pub(crate) const MAIN: &str = "main";

/// What has gathered in a chain since its last call.
#[derive(Debug, Default)]
struct Pending {
    start_ms: i64,
    asked: Trigger,
    signs: Signs,
    sign_line: u32,
    user_chars: u64,
    results: Vec<(Name, u64)>,
    last: Option<u32>,
}

/// A log that is being read.
#[derive(Debug)]
pub(crate) struct Builder {
    pub(crate) log: FileLog,
    chains: HashMap<Name, Pending>,
    /// Tools by a hash of the id of their call.
    tools: HashMap<u64, Name>,
}

/// No session has more calls; what is beyond is not read.
const MOST_CALLS: usize = 4_000_000;

/// Results beyond so many for one call are added to the last one's size.
const MOST_RESULTS: usize = 1_000;

impl Builder {
    pub(crate) fn new(log: FileLog) -> Self {
        Self { log, chains: HashMap::new(), tools: HashMap::new() }
    }

    /// The name of a chain: the main one, or a sub-agent's.
    pub(crate) fn chain(&mut self, agent: &str) -> Name {
        if agent.is_empty() { self.log.intern(MAIN) } else { self.log.intern(agent) }
    }

    /// Words of the user, or anything else that asks for a reply.
    pub(crate) fn heard(&mut self, chain: Name, at_ms: i64, chars: u64) {
        let pending = self.chains.entry(chain).or_default();
        pending.start_ms = if at_ms > 0 { at_ms } else { pending.start_ms };
        pending.asked = Trigger::User;
        pending.user_chars = pending.user_chars.saturating_add(chars);
    }

    /// A tool was called.
    pub(crate) fn calls_tool(&mut self, id: u64, name: &str) {
        let name = self.log.intern(name);
        self.tools.insert(id, name);
    }

    /// The name of the tool of a call.
    pub(crate) fn tool(&self, id: u64) -> Name {
        self.tools.get(&id).copied().unwrap_or_default()
    }

    /// A tool gave something back.
    pub(crate) fn result(&mut self, chain: Name, at_ms: i64, tool: Name, size: Size) {
        let pending = self.chains.entry(chain).or_default();
        pending.start_ms = if at_ms > 0 { at_ms } else { pending.start_ms };
        pending.asked = Trigger::Tool;
        if pending.results.len() < MOST_RESULTS {
            pending.results.push((tool, size.chars));
        } else if let Some(last) = pending.results.last_mut() {
            last.1 = last.1.saturating_add(size.chars);
        }
    }

    /// Something that may change what the cache holds.
    pub(crate) fn sign(&mut self, chain: Name, line: u32, sign: Signs) {
        let pending = self.chains.entry(chain).or_default();
        if !pending.signs.any() {
            pending.sign_line = line;
        }
        pending.signs.add(sign);
    }

    /// The last call of a chain.
    pub(crate) fn last(&self, chain: Name) -> Option<u32> {
        self.chains.get(&chain).and_then(|pending| pending.last)
    }

    /// A call, which takes what has gathered. Its place; none where there are too many.
    pub(crate) fn call(&mut self, mut call: Call) -> Option<u32> {
        if self.log.calls.len() >= MOST_CALLS {
            return None;
        }
        let place = u32::try_from(self.log.calls.len()).ok()?;
        let pending = self.chains.entry(call.chain).or_default();
        if call.start_ms == 0 {
            call.start_ms = if pending.start_ms > 0 { pending.start_ms } else { call.end_ms };
        }
        call.end_ms = call.end_ms.max(call.start_ms);
        call.asked = pending.asked;
        call.user_chars = std::mem::take(&mut pending.user_chars);
        call.sign_line = std::mem::take(&mut pending.sign_line);
        call.signs.add(std::mem::take(&mut pending.signs));
        pending.last = Some(place);
        pending.start_ms = 0;
        pending.asked = Trigger::Tool;
        for (tool, chars) in std::mem::take(&mut pending.results) {
            self.log.results.push(ToolResult { call: place, tool, chars });
        }
        self.log.calls.push(call);
        Some(place)
    }

    /// A call that was read already.
    pub(crate) fn at(&mut self, place: u32) -> Option<&mut Call> {
        self.log.calls.get_mut(usize::try_from(place).ok()?)
    }
}

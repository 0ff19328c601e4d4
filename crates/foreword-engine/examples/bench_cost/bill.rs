//! What requests cost under an ideal cache, the same for all policies: what a request has in common with the one before it, in
//! whole messages from the start, is read; the rest is written.

use std::sync::Arc;

use foreword_core::message::Message;
use foreword_core::prompt::CachePrices;
use foreword_core::tokens::Tokens;

/// Relative to a token that no cache serves.
pub(crate) const PRICES: CachePrices = CachePrices { input: 1.0, read: 0.1, write: 1.25, lifetime_s: None, ..CachePrices::default() };

/// Sums up the requests of a conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bill {
    /// At the prices of the cache.
    pub(crate) cost: f64,
    /// If every token were paid in full.
    pub(crate) uncached: f64,
    /// How often a request did not begin with the one before it.
    pub(crate) rewrites: usize,
    last: Vec<Arc<Message>>,
}

impl Bill {
    /// Adds the next request.
    pub(crate) fn request(&mut self, messages: &[Arc<Message>]) {
        let shared = common(&self.last, messages);
        self.cost += price(messages, shared);
        self.uncached += size(messages) * PRICES.input;
        self.rewrites += usize::from(shared < self.last.len());
        self.last = messages.to_vec();
    }

    /// Adds the next request as if all behind the system message were one message.
    pub(crate) fn glued_request(&mut self, messages: &[Arc<Message>]) {
        let system = usize::from(messages.len() > 1);
        let shared = if self.last.is_empty() { 0 } else { system };
        self.cost += price(messages, shared);
        self.uncached += size(messages) * PRICES.input;
        self.rewrites += usize::from(!self.last.is_empty());
        self.last = messages.to_vec();
    }
}

/// What a request costs that begins with so many known messages.
pub(crate) fn price(messages: &[Arc<Message>], shared: usize) -> f64 {
    size(&messages[..shared]) * PRICES.read + size(&messages[shared..]) * PRICES.write
}

/// The size of some messages.
pub(crate) fn size(messages: &[Arc<Message>]) -> Tokens {
    messages.iter().map(|message| message.tokens()).sum()
}

/// How many messages two requests begin with in common.
pub(crate) fn common(before: &[Arc<Message>], now: &[Arc<Message>]) -> usize {
    before.iter().zip(now).take_while(|(before, now)| Arc::ptr_eq(before, now) || is_same(before, now)).count()
}

/// Whether two messages are the same bytes; which layer a piece of them is counted to is not sent.
fn is_same(one: &Message, other: &Message) -> bool {
    one.role == other.role && one.content() == other.content() && one.calls == other.calls && one.answers == other.answers
}

//! The cheapest fold times, known afterwards: what the policy is measured against.
//!
//! The conversation is kept as one log that is never folded. For every request it is known how large the prompt would be if it
//! were folded there, and how much of an earlier fold's prompt it would begin with. Dynamic programming over the last fold then
//! finds the cheapest times under an ideal cache: what was sent before is read, the rest is written.

use std::sync::Arc;

use foreword_core::budget::Budget;
use foreword_core::hash::Hash;
use foreword_core::message::{Message, Role};
use foreword_core::prompt::CachePrices;
use foreword_core::session::Session;
use foreword_core::tokens::Tokens;

/// Above this many requests it is not computed: it looks at all pairs of them.
pub(super) const MOST_REQUESTS: usize = 2000;

/// A prompt as the sums of its messages: a key that tells equal prefixes, and their size.
struct Prefixes {
    keys: Vec<u64>,
    tokens: Vec<u64>,
}

impl Prefixes {
    fn of(head: Tokens, messages: &[Arc<Message>]) -> Self {
        let (mut key, mut size) = (0_u64, head.0);
        let (mut keys, mut tokens) = (vec![key], vec![size]);
        for message in messages {
            key = key.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ identity(message);
            size += message.tokens().0;
            keys.push(key);
            tokens.push(size);
        }
        Self { keys, tokens }
    }

    fn total(&self) -> u64 {
        self.tokens.last().copied().unwrap_or(0)
    }

    /// How many messages two prompts begin with in common.
    fn common(&self, other: &Self) -> usize {
        let most = self.keys.len().min(other.keys.len());
        let same = self.keys[..most].iter().zip(&other.keys[..most]);
        // Keys are chained, so once two differ all later ones do.
        let mut low = 0;
        let pairs: Vec<bool> = same.map(|(a, b)| a == b).collect();
        let mut high = pairs.len();
        while low + 1 < high {
            let middle = usize::midpoint(low, high);
            if pairs[middle] { low = middle } else { high = middle }
        }
        low
    }
}

/// Tool outputs and replies are shared between prompts and told apart by where they lie; the rest by what it says.
fn identity(message: &Arc<Message>) -> u64 {
    match message.role {
        Role::Assistant | Role::Tool => Arc::as_ptr(message) as usize as u64,
        Role::System | Role::User => {
            u64::from_str_radix(&Hash::of(message.content().as_bytes()).to_string()[..16], 16).unwrap_or(0)
        }
    }
}

/// One request of the unfolded log.
struct Request {
    log: Prefixes,
    folded: Option<Prefixes>,
    cold: bool,
}

/// Collects a conversation's requests.
pub(super) struct Hindsight {
    prices: CachePrices,
    budget: Budget,
    requests: Vec<Request>,
    complete: bool,
}

impl Hindsight {
    /// Nothing yet.
    pub(super) fn new(prices: CachePrices, budget: Budget) -> Self {
        Self { prices, budget, requests: Vec::new(), complete: true }
    }

    /// Adds the last request of an unfolded log. `cold` says that nothing can be read for it.
    pub(super) fn push(&mut self, session: &Session, tools: Tokens, cold: bool) {
        if self.requests.len() >= MOST_REQUESTS {
            self.complete = false;
            return;
        }
        let folded = session.folded(&self.budget).map(|folded| Prefixes::of(tools, folded.messages()));
        self.requests.push(Request { log: Prefixes::of(tools, session.messages()), folded, cold });
    }

    /// The least the requests could have cost; none where there are too many to tell.
    pub(super) fn cost(&self) -> Option<f64> {
        if !self.complete {
            return None;
        }
        // What the provider's rules would read of a prefix, and what a request then costs.
        let price = |kept: u64, total: u64| {
            let total = Tokens(total);
            let read = self.prices.served(Tokens(kept));
            if read == Tokens::ZERO && total.0 < self.prices.minimum {
                return total * self.prices.input * self.prices.factor(total);
            }
            self.prices.prompt(read, total)
        };
        let fits = |tokens: u64| tokens <= self.budget.prompt.0;
        let appended = |at: usize| match at {
            0 => self.requests[0].log.total(),
            _ => self.requests[at].log.total().saturating_sub(self.requests[at - 1].log.total()),
        };
        // For every last fold (0 is none, f + 1 is request f): the least cost so far, and the size of the prompt.
        let mut best: Vec<Option<(f64, u64)>> = vec![Some((0.0, 0))];
        for (at, request) in self.requests.iter().enumerate() {
            let mut next: Vec<Option<(f64, u64)>> = best
                .iter()
                .map(|state| {
                    let (cost, size) = (*state)?;
                    let grown = size + appended(at);
                    let paid = price(if request.cold { 0 } else { size }, grown);
                    fits(grown).then_some((cost + paid, grown))
                })
                .collect();
            let fold = request.folded.as_ref().filter(|folded| fits(folded.total())).and_then(|folded| {
                let costs = best.iter().enumerate().filter_map(|(last, state)| {
                    let (cost, _) = (*state)?;
                    let before = if last == 0 {
                        at.checked_sub(1).map(|at| &self.requests[at].log)
                    } else {
                        self.requests[last - 1].folded.as_ref()
                    };
                    let kept = before.map_or(0, |before| folded.tokens[before.common(folded)]);
                    let kept = if request.cold || at == 0 { 0 } else { kept };
                    Some(cost + price(kept, folded.total()))
                });
                costs.min_by(f64::total_cmp).map(|cost| (cost, folded.total()))
            });
            next.push(fold);
            best = next;
        }
        best.into_iter().flatten().map(|(cost, _)| cost).min_by(f64::total_cmp)
    }
}

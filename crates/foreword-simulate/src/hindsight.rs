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
    /// Of the model that answers.
    prices: Arc<CachePrices>,
    budget: Tokens,
}

impl Request {
    /// The cost of a prompt of `total` tokens, of which the provider's rules can read up to `kept`.
    fn price(&self, kept: u64, total: u64) -> f64 {
        let (prices, total) = (&self.prices, Tokens(total));
        let read = prices.served(Tokens(if self.cold { 0 } else { kept }));
        if read == Tokens::ZERO && total.0 < prices.minimum {
            return total * prices.input * prices.factor(total);
        }
        prices.prompt(read, total)
    }

    /// The size of a prompt that grew by what is new in the log since `before`. Another model counts its old part otherwise.
    fn grown(&self, size: u64, before: Option<&Self>) -> u64 {
        let Some(before) = before else { return self.log.total() };
        if self.prices == before.prices {
            return size + self.log.total().saturating_sub(before.log.total());
        }
        let old = self.log.tokens.get(before.log.tokens.len() - 1).copied().unwrap_or_else(|| self.log.total());
        let size = match before.log.total() {
            same if same == old => size,
            0 => 0,
            counted => u64::try_from(u128::from(size) * u128::from(old) / u128::from(counted)).unwrap_or(u64::MAX),
        };
        size + (self.log.total() - old)
    }
}

/// Collects a conversation's requests.
pub(super) struct Hindsight {
    requests: Vec<Request>,
    complete: bool,
}

impl Hindsight {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self { requests: Vec::new(), complete: true }
    }

    /// Adds the last request of an unfolded log. `cold` says that nothing can be read for it.
    pub(super) fn push(&mut self, session: &Session, tools: Tokens, cold: bool, prices: &Arc<CachePrices>, budget: &Budget) {
        if self.requests.len() >= MOST_REQUESTS {
            self.complete = false;
            return;
        }
        let folded = session.folded(budget).map(|folded| Prefixes::of(tools, folded.messages()));
        let log = Prefixes::of(tools, session.messages());
        self.requests.push(Request { log, folded, cold, prices: Arc::clone(prices), budget: budget.prompt });
    }

    /// The least the requests could have cost; none where there are too many to tell.
    pub(super) fn cost(&self) -> Option<f64> {
        if !self.complete {
            return None;
        }
        // For every last fold (0 is none, f + 1 is request f): the least cost so far, and the size of the prompt.
        let mut best: Vec<Option<(f64, u64)>> = vec![Some((0.0, 0))];
        for (at, request) in self.requests.iter().enumerate() {
            let earlier = at.checked_sub(1).map(|at| &self.requests[at]);
            let fits = |tokens: u64| tokens <= request.budget.0;
            let mut next: Vec<Option<(f64, u64)>> = best
                .iter()
                .map(|state| {
                    let (cost, size) = (*state)?;
                    let grown = request.grown(size, earlier);
                    fits(grown).then_some((cost + request.price(size, grown), grown))
                })
                .collect();
            let fold = request.folded.as_ref().filter(|folded| fits(folded.total())).and_then(|folded| {
                let costs = best.iter().enumerate().filter_map(|(last, state)| {
                    let (cost, _) = (*state)?;
                    let before =
                        if last == 0 { earlier.map(|request| &request.log) } else { self.requests[last - 1].folded.as_ref() };
                    let kept = before.map_or(0, |before| folded.tokens[before.common(folded)]);
                    Some(cost + request.price(kept, folded.total()))
                });
                costs.min_by(f64::total_cmp).map(|cost| (cost, folded.total()))
            });
            next.push(fold);
            best = next;
        }
        best.into_iter().flatten().map(|(cost, _)| cost).min_by(f64::total_cmp)
    }
}

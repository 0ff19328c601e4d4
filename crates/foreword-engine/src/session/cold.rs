//! A provider's cache that has expired: what the next request costs for that, said before it is sent.

use std::fmt;

use foreword_core::tokens::Tokens;
use foreword_provider::model::{CacheRules, Model};
use foreword_provider::stream::Ttl;
use serde::Serialize;

use super::recorded::RecordedSession;

/// Below this difference, in USD, nobody is told.
const WORTH_TELLING: f64 = 0.01;

/// What an expired cache costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ColdCache {
    /// For how many seconds it has been gone.
    pub expired_s: u64,
    /// What the prompt so far costs now, in USD.
    pub cost: f64,
    /// What it would have cost from the cache.
    pub warm_cost: f64,
    /// What it costs once it is folded, where a fold makes it smaller.
    pub folded_cost: Option<f64>,
    /// Whether the session folds it by itself.
    pub folds: bool,
}

impl fmt::Display for ColdCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ago = match self.expired_s {
            seconds if seconds < 120 => format!("{seconds} s"),
            seconds if seconds < 2 * 3600 => format!("{} min", seconds / 60),
            seconds => format!("{} h", seconds / 3600),
        };
        write!(f, "cache expired {ago} ago: ${:.2} instead of ${:.2}", self.cost, self.warm_cost)?;
        match self.folded_cost {
            Some(cost) if self.folds => write!(f, "; it is folded first: ${cost:.2}"),
            Some(cost) => write!(f, "; fold first: ${cost:.2}"),
            None => Ok(()),
        }
    }
}

/// Seconds after the last answer until a prompt is gone whose marks are remembered for such a time; none where nothing is known.
pub(super) fn lifetime_s(model: &Model, ttl: Ttl) -> Option<u64> {
    match model.cache {
        CacheRules::Marks { long_lifetime_s, .. } if ttl == Ttl::Long => Some(long_lifetime_s),
        rules => rules.lifetime_s(),
    }
}

impl RecordedSession {
    /// What the next request costs because the provider's cache has expired, where that is worth telling.
    pub fn cold_cache(&self, now_ms: i64) -> Option<ColdCache> {
        let idle_s = self.forgotten_after(now_ms)?;
        let lifetime = lifetime_s(&self.model, self.sent.as_ref()?.ttl)?;
        let prices = self.model.cache_prices();
        let tools = self.session.prompt_tokens() - size(&self.session);
        let total = self.session.prompt_tokens();
        let (cost, warm_cost) = (prices.prompt(Tokens::ZERO, total), prices.prompt(prices.served(total), total));
        if cost - warm_cost < WORTH_TELLING {
            return None;
        }
        let folded = self.session.folded(&self.session.settings().budget).map(|folded| size(&folded) + tools);
        let folded_cost = folded.filter(|folded| *folded < total).map(|folded| prices.prompt(Tokens::ZERO, folded));
        let folds = folded_cost.is_some() && self.session.folds_when_cold();
        Some(ColdCache { expired_s: idle_s - lifetime.min(idle_s), cost, warm_cost, folded_cost, folds })
    }
}

/// Size of a session's messages.
fn size(session: &foreword_core::session::Session) -> Tokens {
    session.messages().iter().map(|message| message.tokens()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_words() {
        let check = |expired_s, folded_cost, folds, expect: &str| {
            let cold = ColdCache { expired_s, cost: 0.42, warm_cost: 0.05, folded_cost, folds };
            assert_eq!(cold.to_string(), expect);
        };
        check(720, Some(0.11), false, "cache expired 12 min ago: $0.42 instead of $0.05; fold first: $0.11");
        check(30, Some(0.11), true, "cache expired 30 s ago: $0.42 instead of $0.05; it is folded first: $0.11");
        check(90_000, None, false, "cache expired 25 h ago: $0.42 instead of $0.05");
    }
}

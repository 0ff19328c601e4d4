//! For how long a session's cache marks are to be remembered, and whether to keep its cache alive while nobody asks.
//!
//! Writing for the long lifetime is dearer; after a pause that only the long lifetime outlasts, everything would have to be written again.
//! That is ski rental, request by request: the long lifetime is bought while its premium is below what a pause is expected to cost, and
//! while the session has cost no more than a little beyond what the short lifetime alone would have cost it. So a session without pauses
//! pays next to nothing for the insurance.
//!
//! A mark's entry lives as long as the mark says, with all in front of it: so the providers have it. Where what they report says
//! otherwise, the policy believes that, and buys the long lifetime only where everything in front has it too.

use foreword_core::tokens::Tokens;
use serde::{Deserialize, Serialize};

use foreword_provider::model::{CacheRules, Capability, Model};
use foreword_provider::stream::Ttl;
use foreword_provider::usage::CacheUse;

/// The session may cost this many times what it would have cost with the short lifetime alone.
const MOST_OVER_SHORT: f64 = 1.02;

/// The same once keep-alives are counted.
const MOST_OVER_WITH_PINGS: f64 = 1.03;

/// What a session without a history of its own is believed to do: one request in so many comes after a pause that the long lifetime
/// outlasts and the short one does not.
const REQUESTS_A_PAUSE: f64 = 40.0;

/// Of so many pauses beyond the short lifetime, so many end within the long one.
const RETURNS: (f64, f64) = (4.0, 7.0);

/// Of so many pauses beyond the long lifetime, so many end within another one.
const LATE_RETURNS: (f64, f64) = (1.0, 8.0);

/// A keep-alive comes so many seconds before the lifetime ends: a lapse costs more than a few seconds.
const SHORT_MARGIN_S: u64 = 20;
const LONG_MARGIN_S: u64 = 110;

/// Keep-alives in one pause.
const MOST_PINGS: usize = 6;

/// What a keep-alive asks, and what is answered, in tokens of the prompt.
const PING_TOKENS: f64 = 30.0;

/// Below this share of what it had to read, a request counts as not having found the cache.
const FOUND: f64 = 0.5;

/// The prices and lifetimes of a model that remembers marks for one of two times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// A token that no cache serves.
    pub input: f64,
    /// A token read.
    pub read: f64,
    /// A token written for the short lifetime.
    pub write: f64,
    /// A token written for the long one.
    pub write_long: f64,
    /// Seconds of the short lifetime.
    pub short_s: u64,
    /// Seconds of the long one.
    pub long_s: u64,
}

impl Terms {
    /// Of a model; none where there is nothing to choose.
    pub fn of(model: &Model) -> Option<Self> {
        let CacheRules::Marks { lifetime_s, long_lifetime_s, .. } = model.cache else { return None };
        let prices = model.prices.filter(|_| model.has(Capability::LongTtl))?;
        Some(Self {
            input: prices.input,
            read: prices.read(),
            write: prices.write(),
            write_long: prices.write_long(),
            short_s: lifetime_s,
            long_s: long_lifetime_s,
        })
    }

    fn price(&self, used: &CacheUse) -> f64 {
        let short = used.write - used.write_long;
        used.read * self.read + short * self.write + used.write_long * self.write_long + used.uncached * self.input
    }
}

/// A request, as far as the choice depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Seconds since the last answer ended.
    pub idle_s: u64,
    /// Size of the prompt.
    pub total: Tokens,
    /// What it has in common with the prompt before it.
    pub kept: Tokens,
}

/// A request that only keeps the cache alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// Seconds after the last answer.
    pub after_s: u64,
    /// For how long its mark is remembered.
    pub ttl: Ttl,
}

/// What a session has seen and paid so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lifetimes {
    requests: u64,
    /// Pauses that only the long lifetime outlasts.
    pauses: u64,
    /// Pauses beyond the short lifetime, and beyond the long one.
    idle: [u64; 2],
    /// Those of them that ended within the long lifetime, and within twice that.
    returned: [u64; 2],
    /// What it cost, and what it would have cost with the short lifetime alone.
    paid: f64,
    short_alone: f64,
    /// Size of the last prompt, and how much of it has the long lifetime.
    last: Tokens,
    long: Tokens,
    /// What the first request read: other sessions keep that alive.
    shared: Tokens,
    /// Whether the last mark was to outlast a pause.
    insured: bool,
    /// What the provider reports says that a prefix lives only as long as the part of it that lives shortest.
    parts_count: bool,
    /// What it reports says that a mark for long outlasts a pause.
    proven: bool,
}

impl Lifetimes {
    /// What is sure to be in the cache still. What a long mark is worth must have been seen once: where it is gone, all would be written anew.
    fn alive(&self, terms: &Terms, asked: &Asked) -> Tokens {
        let alive = if asked.idle_s <= terms.short_s {
            self.last
        } else if asked.idle_s <= terms.long_s && self.proven {
            self.long
        } else {
            Tokens::ZERO
        };
        alive.max(self.shared).min(asked.kept)
    }

    /// What the request would cost with the short lifetime alone, had that been so from the start.
    fn short_alone_for(&self, terms: &Terms, asked: &Asked, uncached: Tokens) -> f64 {
        let alive = if asked.idle_s <= terms.short_s { asked.kept } else { self.shared.min(asked.kept) };
        let read = if self.requests == 0 { self.shared } else { alive };
        read * terms.read + (asked.total - uncached - read) * terms.write + uncached * terms.input
    }

    /// For how long the marks of the next request are to be remembered.
    pub fn choose(&self, terms: &Terms, asked: &Asked) -> Ttl {
        let read = self.alive(terms, asked);
        let new = asked.total - read;
        let premium = new * (terms.write_long - terms.write);
        let pauses = self.pauses + u64::from(self.is_pause(terms, asked));
        let chance = (pauses as f64 + 1.0) / (self.requests as f64 + 1.0 + REQUESTS_A_PAUSE);
        let loss = asked.total * (terms.write - terms.read);
        let cost = self.paid + read * terms.read + new * terms.write + premium;
        let alone = self.short_alone + self.short_alone_for(terms, asked, Tokens::ZERO);
        let allowed = alone * MOST_OVER_SHORT;
        let helps = !self.parts_count || read <= self.shared || self.long >= read;
        if helps && premium <= chance * loss && cost <= allowed { Ttl::Long } else { Ttl::Short }
    }

    fn is_pause(&self, terms: &Terms, asked: &Asked) -> bool {
        self.requests > 0 && asked.idle_s > terms.short_s && asked.idle_s <= terms.long_s
    }

    /// Takes down a request with such marks, and what its provider reported.
    pub fn sent(&mut self, terms: &Terms, asked: &Asked, ttl: Ttl, used: &CacheUse) {
        let paused = self.is_pause(terms, asked);
        if self.requests == 0 {
            self.shared = used.read;
        } else if asked.idle_s > terms.short_s {
            self.idle[0] += 1;
            self.returned[0] += u64::from(asked.idle_s <= terms.long_s);
            if asked.idle_s > terms.long_s {
                self.idle[1] += 1;
                self.returned[1] += u64::from(asked.idle_s <= 2 * terms.long_s);
            }
        }
        self.pauses += u64::from(paused);
        if paused && self.insured && asked.kept > self.shared {
            let found = used.read.0 as f64 >= FOUND * self.last.min(asked.kept).0 as f64;
            self.parts_count |= !found;
            self.proven |= found;
        }
        self.short_alone += self.short_alone_for(terms, asked, used.uncached);
        self.paid += terms.price(used);
        let all_long = used.read <= self.shared || self.long >= used.read;
        let cached = used.read + used.write;
        self.long = match ttl {
            Ttl::Long if !self.parts_count || all_long => cached,
            // An older mark for long is not refreshed by what follows it.
            _ => Tokens::ZERO,
        };
        self.insured = ttl == Ttl::Long;
        self.last = cached;
        self.requests += 1;
    }

    /// Takes down a request whose report is not known: what its provider was expected to make of it.
    pub fn foretold(&mut self, terms: &Terms, asked: &Asked, ttl: Ttl) {
        let read = self.alive(terms, asked);
        let write = asked.total - read;
        let write_long = if ttl == Ttl::Long { write } else { Tokens::ZERO };
        self.sent(terms, asked, ttl, &CacheUse { read, write, write_long, uncached: Tokens::ZERO });
    }

    /// Takes down a keep-alive, which reads the whole of the last prompt.
    pub fn pinged(&mut self, terms: &Terms, ttl: Ttl, used: &CacheUse) {
        self.paid += terms.price(used);
        if ttl == Ttl::Long && !self.parts_count {
            self.long = self.last;
            self.insured = true;
        }
    }

    /// The keep-alives of the pause that begins now, each of them only if it is expected to pay. `most` is what they may cost at the prices of
    /// `terms`.
    pub fn keep_alive(&self, terms: &Terms, most: f64) -> Vec<Ping> {
        let price = self.last * terms.read + PING_TOKENS * terms.input;
        let loss = self.last * (terms.write - terms.read);
        let allowed = (self.short_alone * MOST_OVER_WITH_PINGS - self.paid).min(most);
        let chance =
            |(returns, pauses): (f64, f64), at: usize| (self.returned[at] as f64 + returns) / (self.idle[at] as f64 + pauses);
        let (soon, late) = (chance(RETURNS, 0), chance(LATE_RETURNS, 1));
        let (short, long) = (terms.short_s - SHORT_MARGIN_S.min(terms.short_s), terms.long_s - LONG_MARGIN_S.min(terms.long_s));
        let mut pings: Vec<Ping> = Vec::new();
        let mut add = |after_s: u64, ttl: Ttl, chance: f64| {
            let fits = pings.len() < MOST_PINGS && (pings.len() + 1) as f64 * price <= allowed;
            let pays = fits && price <= chance * loss;
            if pays {
                pings.push(Ping { after_s, ttl });
            }
            pays
        };
        if self.requests == 0 || self.last == Tokens::ZERO {
            return pings;
        }
        let mut after = long;
        if self.long < self.last {
            if self.parts_count {
                // Each one lasts for the short lifetime only, and most pauses that end soon end very soon.
                let mut at = 1.0;
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a small count
                while add(short * at as u64, Ttl::Short, soon / (2.2 * at)) {
                    at += 1.0;
                }
                return pings;
            }
            if !add(short, Ttl::Long, soon) {
                return pings;
            }
            after = short + long;
        }
        let mut chance = late;
        while self.proven && add(after, Ttl::Long, chance) {
            after += long;
            chance /= 2.0;
        }
        pings
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OPUS: Terms = Terms { input: 1.0, read: 0.1, write: 1.25, write_long: 2.0, short_s: 310, long_s: 3610 };

    /// A provider that keeps its word: what is read of a session's prompts, which only grow.
    struct Provider {
        last: Tokens,
        until: [(u64, Tokens); 2],
    }

    /// Tells a session of such requests (seconds of pause, new tokens). Gives back what it cost and what the short lifetime alone costs.
    fn told(requests: &[(u64, u64)], pings: bool) -> (f64, f64, Vec<Ttl>) {
        let mut lifetimes = Lifetimes::default();
        let mut provider = Provider { last: Tokens::ZERO, until: [(0, Tokens::ZERO); 2] };
        let (mut now, mut spent, mut short_alone, mut chosen) = (0, 0.0, 0.0, Vec::new());
        for (at, &(idle_s, new)) in requests.iter().enumerate() {
            let planned = if pings && at > 0 { lifetimes.keep_alive(&OPUS, f64::INFINITY) } else { Vec::new() };
            for ping in planned.into_iter().filter(|ping| ping.after_s < idle_s) {
                let alive = provider.until.iter().any(|(until, size)| now + ping.after_s <= *until && *size == provider.last);
                assert!(alive, "a keep-alive comes too late");
                let used = CacheUse { read: provider.last, uncached: Tokens(30), ..CacheUse::default() };
                let lives = if ping.ttl == Ttl::Long { OPUS.long_s } else { OPUS.short_s };
                provider.until[usize::from(ping.ttl == Ttl::Long)] = (now + ping.after_s + lives, provider.last);
                spent += OPUS.price(&used);
                lifetimes.pinged(&OPUS, ping.ttl, &used);
            }
            now += idle_s;
            let total = provider.last + Tokens(new);
            let asked = Asked { idle_s, total, kept: provider.last };
            let ttl = lifetimes.choose(&OPUS, &asked);
            let alive = provider.until.iter().filter(|(until, _)| now <= *until).map(|(_, size)| *size);
            let read = alive.max().unwrap_or_default();
            let write = total - read;
            let write_long = if ttl == Ttl::Long { write } else { Tokens::ZERO };
            let used = CacheUse { read, write, write_long, uncached: Tokens::ZERO };
            spent += OPUS.price(&used);
            let kept = if idle_s <= OPUS.short_s { provider.last } else { Tokens::ZERO };
            short_alone += OPUS.price(&CacheUse { read: kept, write: total - kept, ..CacheUse::default() });
            lifetimes.sent(&OPUS, &asked, ttl, &used);
            let lives = if ttl == Ttl::Long { OPUS.long_s } else { OPUS.short_s };
            provider.until[usize::from(ttl == Ttl::Long)] = (now + lives, total);
            provider.last = total;
            chosen.push(ttl);
        }
        (spent, short_alone, chosen)
    }

    #[test]
    fn pauses_are_insured_against_and_nothing_else() {
        // A tool loop without pauses: the premium stays within two percent.
        let (spent, alone, _) = told(&[(2, 500); 200], false);
        assert!(spent <= alone * 1.021, "{spent} {alone}");
        // A pause of ten minutes every ten requests: most of the rewriting is saved.
        let pauses: Vec<(u64, u64)> = (0..200).map(|at| if at % 10 == 9 { (600, 500) } else { (2, 500) }).collect();
        let (spent, alone, chosen) = told(&pauses, false);
        assert!(spent < alone * 0.75, "{spent} {alone}");
        assert_eq!(chosen[0], Ttl::Short, "the first prompt is all new");
        // Pauses that no lifetime outlasts: no more is paid for them than two percent.
        let nights: Vec<(u64, u64)> = (0..100).map(|at| if at % 10 == 9 { (40_000, 500) } else { (2, 500) }).collect();
        let (spent, alone, _) = told(&nights, false);
        assert!(spent <= alone * 1.021, "{spent} {alone}");
    }

    #[test]
    fn a_keep_alive_comes_while_the_cache_is_alive_and_costs_no_more_than_allowed() {
        let pauses: Vec<(u64, u64)> = (0..200).map(|at| if at % 10 == 9 { (2_000, 500) } else { (2, 500) }).collect();
        let (spent, alone, _) = told(&pauses, true);
        assert!(spent < alone * 0.7, "{spent} {alone}");
        let mut lifetimes = Lifetimes::default();
        let used = CacheUse { write: Tokens(50_000), ..CacheUse::default() };
        lifetimes.sent(&OPUS, &Asked { total: Tokens(50_000), ..Asked::default() }, Ttl::Short, &used);
        for _ in 0..50 {
            let used = CacheUse { read: Tokens(50_000), ..CacheUse::default() };
            let asked = Asked { idle_s: 1, total: Tokens(50_000), kept: Tokens(50_000) };
            lifetimes.sent(&OPUS, &asked, Ttl::Short, &used);
        }
        assert_eq!(lifetimes.keep_alive(&OPUS, f64::INFINITY).first(), Some(&Ping { after_s: 290, ttl: Ttl::Long }));
        assert_eq!(lifetimes.keep_alive(&OPUS, 5_000.0), [], "a keep-alive costs 5,030");
    }

    #[test]
    fn a_provider_that_counts_parts_is_believed() {
        let mut lifetimes = Lifetimes::default();
        let total = Tokens(50_000);
        let write = CacheUse { write: total, ..CacheUse::default() };
        lifetimes.sent(&OPUS, &Asked { total, ..Asked::default() }, Ttl::Short, &write);
        let asked = |idle_s, new| Asked { idle_s, total: total + Tokens(new), kept: total };
        for _ in 0..20 {
            let read = CacheUse { read: total, ..CacheUse::default() };
            lifetimes.sent(&OPUS, &asked(1, 0), Ttl::Short, &read);
        }
        assert_eq!(lifetimes.choose(&OPUS, &asked(1, 100)), Ttl::Long);
        let insured = CacheUse { read: total, write: Tokens(100), write_long: Tokens(100), ..CacheUse::default() };
        lifetimes.sent(&OPUS, &asked(1, 100), Ttl::Long, &insured);
        // The mark was for an hour, ten minutes pass, and nothing is there.
        lifetimes.sent(&OPUS, &asked(600, 200), Ttl::Short, &CacheUse { write: Tokens(50_200), ..CacheUse::default() });
        assert!(lifetimes.parts_count);
        assert_eq!(lifetimes.choose(&OPUS, &asked(1, 300)), Ttl::Short);
    }

    proptest! {
        #[test]
        fn no_session_costs_much_more_than_with_the_short_lifetime_alone(
            requests in proptest::collection::vec((prop_oneof![8 => 0..60_u64, 2 => 60..5_000_u64, 1 => 3_000..90_000_u64], 1..20_000_u64), 1..120),
            pings: bool,
        ) {
            let (spent, alone, _) = told(&requests, pings);
            prop_assert!(spent <= alone * 1.035 + 1.0, "{} {}", spent, alone);
        }
    }
}

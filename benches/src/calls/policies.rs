//! What other cache lifetimes would have cost over the logged calls.

use std::collections::BTreeMap;

use foreword_core::tokens::Tokens;
use foreword_prompt_cache::lifetime::{Asked, Lifetimes, Terms};
use foreword_provider::stream::Ttl;
use foreword_provider::usage::CacheUse;

use crate::data::Chain;

/// How a provider remembers a prefix that was written for different times.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// A mark's entry lives as long as the mark says, with all in front of it: so the documentation has it.
    Marks,
    /// No longer than the part of it that was written for the shortest time.
    Parts,
}

/// How the lifetime of each call's marks is chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// As it was reported.
    Logged,
    Short,
    Long,
    /// Long in the main thread, short in sub-agents.
    LongInMain,
    /// Short, with so many keep-alives in each pause of the main thread.
    Pings(usize),
    /// The engine's.
    Chosen,
    /// The engine's, with keep-alives in the pauses of the main thread.
    KeptAlive,
    /// Knows how long the next pause is.
    Oracle,
}

/// A keep-alive reads the prompt and asks for next to nothing.
const PING: Tokens = Tokens(30);

/// What the calls of a chain cost.
pub(crate) fn cost(chain: &Chain, policy: Policy, terms: &Terms, memory: Memory) -> f64 {
    let mut cache = Cache::default();
    let mut lifetimes = Lifetimes::default();
    let mut cost = 0.0;
    let first = chain.calls[0].read;
    let is_main = chain.calls[0].chain == "main";
    let pings = |lifetimes: &Lifetimes| match policy {
        Policy::Pings(count) if is_main => (1..=count).map(|at| ((terms.short_s - 10) * at as u64, Ttl::Short)).collect(),
        Policy::KeptAlive if is_main => {
            lifetimes.keep_alive(terms, f64::INFINITY).into_iter().map(|ping| (ping.after_s, ping.ttl)).collect()
        }
        _ => Vec::new(),
    };
    for (at, call) in chain.calls.iter().enumerate() {
        let idle_s = if at == 0 { 0 } else { call.gap.max(0.0).ceil() as u64 };
        let planned: Vec<(u64, Ttl)> = if at == 0 { Vec::new() } else { pings(&lifetimes) };
        for (after_s, ttl) in planned.into_iter().filter(|(after_s, _)| *after_s < idle_s) {
            cost += cache.ping(terms, &mut lifetimes, after_s, ttl, memory);
        }
        let (total, kept) = (Tokens(call.total()), chain.kept(at));
        let uncached = Tokens(call.input);
        let base = Tokens(first.min(call.read)).min(kept);
        let lapsed = call.cause.as_deref() == Some("ttl");
        let base = if lapsed { Tokens(call.read).min(kept) } else { base };
        let read = if at == 0 { kept } else { cache.alive(terms, idle_s).min(kept).max(base) };
        let asked = Asked { idle_s, total, kept };
        let next = chain.calls.get(at + 1).map(|next| next.gap.max(0.0).ceil() as u64);
        let outlasts = next.is_some_and(|gap| gap > terms.short_s && gap <= terms.long_s);
        let is_long = match policy {
            Policy::Logged => call.write_1h > 0,
            Policy::Short | Policy::Pings(_) => false,
            Policy::Long => true,
            Policy::LongInMain => is_main,
            Policy::Chosen | Policy::KeptAlive => lifetimes.choose(terms, &asked) == Ttl::Long,
            Policy::Oracle => {
                let premium = (total - uncached - read) * (terms.write_long - terms.write);
                outlasts && premium < total * (terms.write - terms.read)
            }
        };
        let used = if policy == Policy::Logged {
            let write_long = Tokens(call.write_1h);
            CacheUse { read: Tokens(call.read), write: Tokens(call.written()), write_long, uncached }
        } else {
            let write = total - uncached - read;
            CacheUse { read, write, write_long: if is_long { write } else { Tokens::ZERO }, uncached }
        };
        cost += price(terms, &used);
        let ttl = if is_long { Ttl::Long } else { Ttl::Short };
        lifetimes.sent(terms, &asked, ttl, &used);
        cache.sent(total - uncached, read, base, ttl, memory);
    }
    // Nobody knows that the session is over: its last pause is kept alive like any other.
    for (after_s, ttl) in pings(&lifetimes) {
        cost += cache.ping(terms, &mut lifetimes, after_s, ttl, memory);
    }
    cost
}

fn price(terms: &Terms, used: &CacheUse) -> f64 {
    let short = used.write - used.write_long;
    used.read * terms.read + short * terms.write + used.write_long * terms.write_long + used.uncached * terms.input
}

/// What is cached, and how much of it for long; both from the last use on.
#[derive(Default)]
struct Cache {
    all: Tokens,
    long: Tokens,
    /// When the pause was last interrupted by a keep-alive.
    used_s: u64,
}

impl Cache {
    fn alive(&self, terms: &Terms, idle_s: u64) -> Tokens {
        match idle_s.saturating_sub(self.used_s) {
            idle if idle <= terms.short_s => self.all,
            idle if idle <= terms.long_s => self.long,
            _ => Tokens::ZERO,
        }
    }

    fn ping(&mut self, terms: &Terms, lifetimes: &mut Lifetimes, after_s: u64, ttl: Ttl, memory: Memory) -> f64 {
        let read = self.alive(terms, after_s);
        // What is gone is written again, so that a keep-alive that comes too late is paid for.
        let write = self.all - read;
        let used = CacheUse { read, write, write_long: if ttl == Ttl::Long { write } else { Tokens::ZERO }, uncached: PING };
        self.used_s = after_s;
        if ttl == Ttl::Long && memory == Memory::Marks {
            self.long = self.all;
        }
        lifetimes.pinged(terms, ttl, &used);
        price(terms, &used)
    }

    fn sent(&mut self, total: Tokens, read: Tokens, base: Tokens, ttl: Ttl, memory: Memory) {
        let all_long = read <= base || self.long >= read;
        self.long = match (ttl, memory) {
            (Ttl::Long, Memory::Marks) => total,
            (Ttl::Long, Memory::Parts) if all_long => total,
            // What has the long lifetime at the front keeps it while it is read; an entry of a mark does not.
            (_, Memory::Parts) => self.long.min(read),
            (Ttl::Short, Memory::Marks) => Tokens::ZERO,
        };
        self.all = total;
        self.used_s = 0;
    }
}

/// What a policy costs over all chains, as a share of the short lifetime everywhere, and the worst log of at least twenty calls.
pub(crate) fn ratio(chains: &[&Chain], policy: Policy, terms: &Terms, memory: Memory) -> (f64, f64) {
    let mut logs: BTreeMap<&str, (f64, f64, usize)> = BTreeMap::new();
    for chain in chains {
        let log = logs.entry(chain.log()).or_default();
        log.0 += cost(chain, policy, terms, memory);
        log.1 += cost(chain, Policy::Short, terms, memory);
        log.2 += chain.calls.len();
    }
    let sum = |what: fn(&(f64, f64, usize)) -> f64| logs.values().map(what).sum::<f64>();
    let worst = logs.values().filter(|log| log.2 >= 20).map(|log| log.0 / log.1).fold(0.0, f64::max);
    (sum(|log| log.0) / sum(|log| log.1), worst)
}

/// The better of short and long everywhere, log by log, known afterwards.
pub(crate) fn better_of_both(chains: &[&Chain], terms: &Terms) -> f64 {
    let mut logs: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for chain in chains {
        let log = logs.entry(chain.log()).or_default();
        log.0 += cost(chain, Policy::Short, terms, Memory::Marks);
        log.1 += cost(chain, Policy::Long, terms, Memory::Marks);
    }
    logs.values().map(|(short, long)| short.min(*long)).sum::<f64>() / logs.values().map(|log| log.0).sum::<f64>()
}

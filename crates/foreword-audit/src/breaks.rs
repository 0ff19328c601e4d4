//! Where a prompt was read from the cache less than it could have been, what that cost, and why.
//!
//! What a call leaves in the cache is what it read and wrote; where writing is free, its whole prompt. The next call of its chain could have
//! read that. A chain's first call has nothing to read.

use foreword_provider::model::CacheRules;
use serde::{Deserialize, Serialize};

use crate::log::{Call, Signs, Verdict};
use crate::price::{Prices, Regime};
use crate::sessions::{Chain, Step};

/// Why the cache was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The entry had lapsed.
    Idle,
    /// The history was replaced by a summary.
    Compaction,
    /// Another model, or another effort.
    Model,
    /// The tools changed.
    Tools,
    /// What stands in front of the conversation changed.
    System,
    /// The conversation went on from an earlier point.
    Rewind,
    /// Another process went on with the session.
    Resume,
    /// Images joined or left the prompt.
    Images,
    /// The provider sent the request to a machine that knew less of the prompt. No setting helps, so reports list these apart.
    Provider,
    /// Nothing in the log tells.
    Unexplained,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Idle,
        Self::Compaction,
        Self::Model,
        Self::Tools,
        Self::System,
        Self::Rewind,
        Self::Resume,
        Self::Images,
        Self::Provider,
        Self::Unexplained,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Compaction => "compaction",
            Self::Model => "model",
            Self::Tools => "tools",
            Self::System => "system",
            Self::Rewind => "rewind",
            Self::Resume => "resume",
            Self::Images => "images",
            Self::Provider => "provider",
            Self::Unexplained => "unexplained",
        }
    }
}

/// How sure a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The log says so: the provider's verdict, a mark, two names that differ, a clock.
    Measured,
    /// Something that usually breaks the cache stands in the log at this place.
    Inferred,
    /// It fits, and nothing else does.
    Guessed,
}

/// A break.
#[derive(Clone, Debug, PartialEq)]
pub struct Break {
    /// The call that read too little, by its place in the chain.
    pub step: usize,
    /// Why.
    pub cause: Cause,
    /// How sure that is.
    pub evidence: Evidence,
    /// What it says in words.
    pub detail: &'static str,
    /// Tokens that were not read although they could have been.
    pub tokens: u64,
    /// What that cost more than reading them.
    pub cost: f64,
    /// The time without a call before it, in milliseconds.
    pub idle_ms: i64,
}

/// A prefix below this size is no loss: providers do not cache it.
const LEAST: u64 = 1_024;

/// What may be missing of a prefix before it counts as lost, in hundredths: markers move, sizes are rounded.
const SLACK: u64 = 90;

/// A chain begins with what every session shares; it is no longer than this.
const LONGEST_START: u64 = 60_000;

/// From so many seconds without a request on, caches that promise no lifetime lose entries several times more often than before: in
/// logged calls to OpenAI's older models 6 % of requests missed below, 28 % up to three minutes, 53 % up to five.
const FADING_S: f64 = 30.0;

/// What a call leaves in the cache.
pub(crate) fn cached(prices: &Prices, call: &Call) -> u64 {
    match prices.regime(call) {
        Regime::Marks => call.tokens.cache_read + call.tokens.written(),
        Regime::Breakpoints | Regime::Automatic => call.tokens.prompt(),
    }
}

/// For how long, in seconds, and whether the log itself says which lifetime it was.
pub(crate) fn lifetime_s(prices: &Prices, call: &Call, long_before: bool) -> (f64, bool) {
    /// Automatic caches promise nothing; after five minutes most entries are gone.
    const AUTOMATIC: f64 = 300.0;
    match prices.regime(call) {
        Regime::Marks => {
            let long =
                if call.tokens.written() > 0 { call.tokens.cache_write_1h > call.tokens.cache_write_5m } else { long_before };
            (if long { 3_600.0 } else { 300.0 }, true)
        }
        Regime::Breakpoints => {
            let known = prices.model(call.model).and_then(|model| model.cache.lifetime_s());
            (known.unwrap_or(1_800) as f64, false)
        }
        Regime::Automatic => match prices.model(call.model).map(|model| model.cache) {
            Some(CacheRules::None {} | CacheRules::Slots { .. } | CacheRules::Blocks { .. }) => (f64::INFINITY, false),
            _ => (AUTOMATIC, false),
        },
    }
}

/// The breaks of a chain.
pub fn breaks(prices: &Prices, chain: &Chain) -> Vec<Break> {
    let mut found = Vec::new();
    let mut long = false;
    let start = chain.steps.first().map_or(0, |step| step.call.tokens.prompt());
    for (at, pair) in chain.steps.windows(2).enumerate() {
        let [before, now] = pair else { continue };
        let written = before.call.tokens;
        if written.written() > 0 {
            long = written.cache_write_1h > written.cache_write_5m;
        }
        if before.call.count > 1 || now.call.count > 1 {
            continue;
        }
        let earlier = chain.steps.get(..at).unwrap_or_default();
        if let Some(mut one) = judge(prices, earlier, before, now, long, start) {
            one.step = at + 1;
            found.push(one);
        }
    }
    found
}

fn judge(prices: &Prices, earlier: &[Step], before: &Step, now: &Step, long: bool, start: u64) -> Option<Break> {
    let (was, call) = (&before.call, &now.call);
    let could = cached(prices, was);
    let read = call.tokens.cache_read;
    if could < LEAST || read.saturating_mul(100) >= could.saturating_mul(SLACK) {
        return None;
    }
    let tokens = could.min(call.tokens.prompt()).saturating_sub(read);
    if tokens == 0 {
        return None;
    }
    let each = prices.each(call);
    let cost = each.map_or(0.0, |each| (each.write - each.read).max(0.0) * tokens as f64);
    let idle_ms = (call.start_ms - was.end_ms).max(0);
    let mut found = Break { step: 0, cause: Cause::Unexplained, evidence: Evidence::Guessed, detail: "", tokens, cost, idle_ms };
    (found.cause, found.evidence, found.detail) = cause(prices, was, call, long, start);
    if found.cause == Cause::Unexplained
        && prices.regime(call) == Regime::Automatic
        && let Some(detail) = known_elsewhere(prices, earlier, before, call)
    {
        (found.cause, found.evidence, found.detail) = (Cause::Provider, Evidence::Inferred, detail);
    }
    Some(found)
}

/// Whether what was read is exactly what a machine would have that took part in the chain before, but not in its latest calls. Such caches
/// live on single machines, and a request may reach any of them.
fn known_elsewhere(prices: &Prices, earlier: &[Step], before: &Step, call: &Call) -> Option<&'static str> {
    /// Where the table does not say where prefixes can end: nearly all providers round to 128 tokens, some keep a few for themselves.
    const ROUNDED: u64 = 256;
    let read = call.tokens.cache_read;
    if read == 0 {
        return None;
    }
    let rounded = match prices.model(call.model).map(|model| model.cache) {
        Some(CacheRules::Interval { interval, report, .. }) => ROUNDED.max(interval + report),
        _ => ROUNDED,
    };
    if earlier.iter().any(|step| (read..read + rounded).contains(&step.call.tokens.prompt())) {
        return Some("the machine that answered knew the conversation as it was at an earlier request");
    }
    let shared = earlier.iter().chain([before]).any(|step| step.call.tokens.cache_read == read);
    shared.then_some("the machine that answered knew only the beginning that earlier requests had read as well")
}

/// The first reason that holds.
fn cause(prices: &Prices, was: &Call, call: &Call, long: bool, start: u64) -> (Cause, Evidence, &'static str) {
    use Evidence::{Guessed, Inferred, Measured};
    let shrank = call.tokens.prompt().saturating_mul(100) < was.tokens.prompt().saturating_mul(90);
    let signs = call.signs;
    if let Some(verdict) = call.verdict {
        return match verdict {
            Verdict::Tools => (Cause::Tools, Measured, "the provider says that the tools changed"),
            Verdict::System => (Cause::System, Measured, "the provider says that the system prompt changed"),
            Verdict::Gone => (Cause::Idle, Measured, "the provider says that the entry was gone"),
            Verdict::Model => (Cause::Model, Measured, "the provider says that the model changed"),
            Verdict::Messages if signs.has(Signs::COMPACTED) => {
                (Cause::Compaction, Measured, "the provider says that earlier messages changed, after a compaction")
            }
            Verdict::Messages if signs.has(Signs::IMAGE) && !shrank => {
                (Cause::Images, Inferred, "the provider says that earlier messages changed, after an image")
            }
            Verdict::Messages => (Cause::Rewind, Measured, "the provider says that earlier messages changed"),
        };
    }
    if call.model != was.model && call.model != 0 && was.model != 0 {
        return (Cause::Model, Measured, "another model answered");
    }
    if signs.has(Signs::COMPACTED) {
        return (Cause::Compaction, Measured, "the history was compacted");
    }
    let (lifetime, known) = lifetime_s(prices, was, long);
    let idle_s = (call.start_ms - was.end_ms).max(0) as f64 / 1000.0;
    // Clocks are those of the program: around the lifetime itself they do not decide.
    if idle_s > lifetime * 1.04 {
        return if known {
            (Cause::Idle, Measured, "longer without a request than the entry lives")
        } else {
            (Cause::Idle, Inferred, "longer without a request than entries usually live")
        };
    }
    if signs.has(Signs::REWOUND) {
        return (Cause::Rewind, Measured, "the conversation went on from an earlier point");
    }
    if call.effort != was.effort && call.effort != 0 && was.effort != 0 {
        return (Cause::Model, Measured, "another effort was asked for");
    }
    if idle_s > lifetime * 0.95 {
        return (Cause::Idle, Inferred, "about as long without a request as the entry lives");
    }
    if signs.has(Signs::TOOLS) {
        return (Cause::Tools, Inferred, "tools were loaded or reloaded just before");
    }
    if signs.has(Signs::RESUMED) {
        return (Cause::Resume, Inferred, "another process went on with the session");
    }
    if signs.has(Signs::SYSTEM) {
        return (Cause::System, Inferred, "a command changed what stands in front of the conversation");
    }
    if signs.has(Signs::IMAGE) && !shrank {
        return (Cause::Images, Inferred, "an image joined the prompt");
    }
    if signs.has(Signs::PLAN) {
        return (Cause::Tools, Guessed, "planning began or ended, which changes the tools");
    }
    if signs.has(Signs::SKILL) {
        return (Cause::Tools, Guessed, "a skill ran, and some change the tools");
    }
    if shrank {
        return (Cause::Rewind, Inferred, "the prompt became shorter");
    }
    let versions = [was.version, call.version];
    if versions[0] != versions[1] && !versions.contains(&0) {
        return (Cause::Resume, Inferred, "another version of the program went on");
    }
    // What is no longer than a chain's first prompt ends inside it: the difference stands before the conversation.
    let front = start.min(LONGEST_START);
    if prices.regime(call) != Regime::Automatic && call.tokens.cache_read <= front {
        return (Cause::System, Guessed, "read only up to the start of the conversation: what the program puts there changed");
    }
    if prices.regime(call) == Regime::Automatic && idle_s >= FADING_S {
        return (
            Cause::Idle,
            Guessed,
            "so long without a request that a cache without a promised lifetime often loses its entry",
        );
    }
    (Cause::Unexplained, Guessed, "nothing in the log tells why")
}

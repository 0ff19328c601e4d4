//! The same sessions under other rules: another lifetime, pings that keep an entry alive, folds, shorter tool results, another model.
//!
//! Each call is taken as the log has it, and only what it read and wrote is asked anew. What a provider would have read is known where it did
//! read (a call that found its entry), and where an entry had only lapsed; every other break would have happened under any lifetime.

use foreword_provider::dialect::Dialect;
use foreword_provider::model::Model;
use serde::Serialize;

use crate::breaks::{Break, Cause, cached, lifetime_s};
use crate::log::{Call, Tokens, Trigger};
use crate::parts::{Change, Flow, Kind};
use crate::price::{Prices, Regime, charge};
use crate::sessions::{Chain, Session};

/// What a policy would have cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Its name.
    pub policy: String,
    /// What all of it would have cost, in USD.
    pub cost: f64,
    /// The least that it may have cost, by what the simulation is off for what did happen.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// What it is.
    pub about: String,
}

/// How entries are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lifetime {
    /// As the log has it.
    Logged,
    /// Five minutes.
    Short,
    /// An hour.
    Long,
    /// An hour for the main thread, five minutes for sub-agents.
    MainLong,
    /// Five minutes, and so many pings that keep the entry alive while the main thread waits.
    Pings(u32),
    /// Five minutes, and pings only before those requests that do come in time.
    Foreseen,
}

const SHORT_S: f64 = 300.0;
const LONG_S: f64 = 3_600.0;
/// A ping comes before the entry lapses.
const PING_S: f64 = 270.0;

/// A session with what is known of it.
pub(crate) struct SessionFacts<'a> {
    pub(crate) session: &'a Session,
    /// By chain.
    pub(crate) breaks: &'a [Vec<Break>],
    /// By chain.
    pub(crate) flows: &'a [Vec<Flow>],
}

/// What one session would have cost, policy by policy, in the order of `POLICIES`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Costs {
    /// What it did cost.
    pub(crate) actual: f64,
    /// As simulated.
    pub(crate) logged: f64,
    pub(crate) short: f64,
    pub(crate) long: f64,
    pub(crate) main_long: f64,
    pub(crate) pings: f64,
    pub(crate) foreseen: f64,
    pub(crate) short_results: f64,
    pub(crate) folds: f64,
}

/// Runs every policy over a session.
pub(crate) fn costs(prices: &Prices, known: &SessionFacts) -> Costs {
    let mut sum = Costs::default();
    for ((chain, breaks), flows) in known.session.chains.iter().zip(known.breaks).zip(known.flows) {
        let main = chain.name == "main";
        let actual: f64 = chain.steps.iter().filter(|step| step.counts).filter_map(|step| prices.call(&step.call)).sum();
        sum.actual += actual;
        let run = |lifetime| simulate(prices, chain, breaks, main, lifetime);
        sum.logged += run(Lifetime::Logged);
        sum.short += run(Lifetime::Short);
        sum.long += run(Lifetime::Long);
        sum.main_long += run(Lifetime::MainLong);
        sum.pings += run(Lifetime::Pings(3));
        sum.foreseen += run(Lifetime::Foreseen);
        sum.short_results += actual - saved_by_short_results(prices, chain, flows);
        sum.folds += actual - saved_by_folds(prices, chain, flows);
    }
    sum
}

/// One chain under one lifetime.
fn simulate(prices: &Prices, chain: &Chain, breaks: &[Break], main: bool, lifetime: Lifetime) -> f64 {
    let mut cost = 0.0;
    let mut long_logged = false;
    let mut breaks = breaks.iter().peekable();
    // What is left of a prefix when all of this chain's own entries are gone.
    let lapsed: Vec<u64> = breaks
        .clone()
        .filter(|one| one.cause == Cause::Idle)
        .filter_map(|one| chain.steps.get(one.step))
        .map(|step| step.call.tokens.cache_read)
        .collect();
    let first = chain.steps.first().map_or(0, |step| step.call.tokens.cache_read);
    let left = lapsed.iter().copied().min().unwrap_or(first);
    let mut alive_s = f64::INFINITY;
    for (at, step) in chain.steps.iter().enumerate() {
        let call = &step.call;
        let broke = breaks.next_if(|one| one.step == at);
        if prices.regime(call) != Regime::Marks || call.count > 1 {
            cost += if step.counts { prices.call(call).unwrap_or_default() } else { 0.0 };
            continue;
        }
        let before = at.checked_sub(1).and_then(|before| chain.steps.get(before)).map(|step| &step.call);
        let idle_s = before.map_or(0.0, |before| (call.start_ms - before.end_ms).max(0) as f64 / 1000.0);
        let prompt = call.tokens.prompt();
        // What would be read while the entry lives, and when it does not.
        let could = before.map_or(call.tokens.cache_read, |before| cached(prices, before).min(prompt));
        let alive = match broke {
            Some(one) if one.cause == Cause::Idle => could,
            _ => call.tokens.cache_read,
        };
        let gone = match broke {
            Some(_) => call.tokens.cache_read.min(alive),
            None => left.min(alive),
        };
        let mut pings = 0.0;
        let lives = match lifetime {
            Lifetime::Logged => idle_s <= alive_s,
            Lifetime::Long => idle_s <= LONG_S,
            Lifetime::MainLong => idle_s <= if main { LONG_S } else { SHORT_S },
            Lifetime::Pings(most) if main => {
                let sent = (idle_s / PING_S).floor().min(f64::from(most));
                pings = if idle_s > SHORT_S { sent } else { 0.0 };
                idle_s <= SHORT_S + PING_S * f64::from(most)
            }
            Lifetime::Foreseen => {
                let needed = if idle_s > SHORT_S { ((idle_s - SHORT_S) / PING_S).ceil() } else { 0.0 };
                let pays = prices.each(call).is_some_and(|each| {
                    let rewritten = alive.saturating_sub(gone) as f64 * (each.write - each.read);
                    needed * could as f64 * each.read < rewritten
                });
                pings = if pays { needed } else { 0.0 };
                idle_s <= SHORT_S || pays
            }
            Lifetime::Short | Lifetime::Pings(_) => idle_s <= SHORT_S,
        };
        if call.tokens.written() > 0 {
            long_logged = call.tokens.cache_write_1h > call.tokens.cache_write_5m;
        }
        alive_s = lifetime_s(prices, call, long_logged).0 * 1.03;
        if !step.counts {
            continue;
        }
        let read = if at == 0 || lives { alive } else { gone };
        let written = prompt.saturating_sub(read).saturating_sub(call.tokens.input);
        let long = match lifetime {
            Lifetime::Logged => long_logged,
            Lifetime::Long => true,
            Lifetime::MainLong => main,
            _ => false,
        };
        let tokens = Tokens {
            input: prompt - read - written,
            cache_read: read,
            cache_write_5m: if long { 0 } else { written },
            cache_write_1h: if long { written } else { 0 },
            output: call.tokens.output,
        };
        let Some(model) = prices.model(call.model) else { continue };
        cost += charge(model, &tokens, call.percent);
        cost += pings * charge(model, &Tokens { cache_read: could, output: 1, ..Tokens::default() }, call.percent);
    }
    cost
}

/// A longer tool result is shown in part, in tokens.
pub(crate) const LONGEST_RESULT: f64 = 2_000.0;

/// So much of what is cut is asked for again.
const ASKED_AGAIN: f64 = 0.15;

fn saved_by_short_results(prices: &Prices, chain: &Chain, flows: &[Flow]) -> f64 {
    let (mut saved, mut out) = (0.0, 0.0);
    for (step, flow) in chain.steps.iter().zip(flows) {
        out *= match flow.change {
            Change::Grown => 1.0,
            Change::Left(share) => share,
            Change::Compacted => 0.0,
        };
        let results = flow.added.iter().filter(|(kind, _)| matches!(kind, Kind::Tool(_)));
        let cut: f64 = results.map(|(_, tokens)| (tokens - LONGEST_RESULT).max(0.0)).sum::<f64>() * (1.0 - ASKED_AGAIN);
        if let Some(each) = prices.each(&step.call).filter(|_| step.counts) {
            saved += cut * each.write + out * mean(each.read, each.write, &step.call);
        }
        out += cut;
    }
    saved
}

/// What a token costs that has been in the prompt before: read, or written again with the rest.
fn mean(read: f64, write: f64, call: &Call) -> f64 {
    let prompt = call.tokens.prompt().max(1) as f64;
    let hit = call.tokens.cache_read as f64 / prompt;
    read * hit + write * (1.0 - hit)
}

/// What is left of folded tokens: stubs.
const STUBS: f64 = 0.1;

/// The share of a fold's price at which it comes.
const RENT: f64 = 0.8;

/// A fold comes when what the tokens that it could remove have cost in reads reaches what rewriting the rest costs. Removed are tool results
/// and replies of earlier turns.
fn saved_by_folds(prices: &Prices, chain: &Chain, flows: &[Flow]) -> f64 {
    let (mut saved, mut out) = (0.0, 0.0);
    let (mut old, mut turn, mut rent) = (0.0, 0.0, 0.0);
    for (step, flow) in chain.steps.iter().zip(flows) {
        let share = match flow.change {
            Change::Grown => 1.0,
            Change::Left(share) => share,
            Change::Compacted => 0.0,
        };
        (out, old, turn) = (out * share, old * share, turn * share);
        if step.call.asked == Trigger::User {
            old += turn;
            turn = 0.0;
        }
        turn += flow
            .added
            .iter()
            .filter(|(kind, _)| matches!(kind, Kind::Tool(_) | Kind::Reply))
            .map(|(_, tokens)| tokens)
            .sum::<f64>();
        let Some(each) = prices.each(&step.call) else { continue };
        let kept = (step.call.tokens.cache_read as f64 - out - old).max(0.0);
        rent += old * each.read;
        let price = kept * (each.write - each.read).max(0.0);
        if step.counts {
            saved += out * mean(each.read, each.write, &step.call);
        }
        if old > 4_000.0 && rent >= price * RENT {
            if step.counts {
                saved += old * (1.0 - STUBS) * each.read - price - old * STUBS * each.write;
            }
            out += old * (1.0 - STUBS);
            (old, rent) = (0.0, 0.0);
        }
    }
    saved
}

/// All policies over all sessions. `costs` are those of each session.
pub(crate) fn outcomes(prices: &Prices, sessions: &[Session], costs: &[Costs]) -> Vec<Outcome> {
    let sum = |of: fn(&Costs) -> f64| costs.iter().map(of).sum::<f64>();
    let (actual, logged) = (sum(|one| one.actual), sum(|one| one.logged));
    // What the simulation is off for what did happen, session by session: the error of each is weighed by its cost.
    let off: f64 = costs.iter().map(|one| (one.logged - one.actual).abs()).sum();
    let off = if actual > 0.0 { (off / actual).clamp(0.005, 1.0) } else { 0.0 };
    let mut found = vec![Outcome {
        policy: "as logged".to_owned(),
        cost: actual,
        low: actual,
        high: actual,
        about: "what it did cost".to_owned(),
    }];
    let mut add = |policy: &str, cost: f64, off: f64, about: &str| {
        found.push(Outcome {
            policy: policy.to_owned(),
            cost,
            low: cost * (1.0 - off),
            high: cost * (1.0 + off),
            about: about.to_owned(),
        });
    };
    // The simulation's own error for what did happen is taken out: a policy is compared with the same simulation.
    let over = |cost: f64| (actual + cost - logged).max(0.0);
    if costs.iter().any(|one| (one.short - one.long).abs() > 1e-9) {
        add("5m", over(sum(|one| one.short)), off, "every entry lives five minutes");
        add("1h", over(sum(|one| one.long)), off, "every entry lives an hour");
        add("1h main, 5m sub-agents", over(sum(|one| one.main_long)), off, "an hour for the main thread only");
        add(
            "best per session",
            over(sum(|one| one.short.min(one.long))),
            off,
            "five minutes or an hour, whichever is cheaper for a session",
        );
        add("keep-alive", over(sum(|one| one.pings)), off, "five minutes, and up to 3 pings while the main thread waits");
        add(
            "keep-alive, foreseen",
            over(sum(|one| one.foreseen)),
            off,
            "pings only where the next request comes in time and they pay",
        );
    }
    // Sizes of single texts are shared out by length: a fifth is what that is off at most in practice.
    let rough = |cost: f64| (actual - cost).abs() / cost.max(1e-9) * 0.3 + off;
    let short = sum(|one| one.short_results);
    add("long outputs out", short, rough(short), "tool results over 2,000 tokens are shown in part, and 15 % is asked for again");
    let folds = sum(|one| one.folds);
    add("folds by rent", folds, rough(folds), "earlier turns become stubs as soon as reading them has cost what a fold costs");
    for model in others(prices, sessions) {
        let cost = as_model(prices, sessions, &model);
        // Another tokenizer, and another way of working.
        add(&format!("model {}", model.name), cost, 0.25, "the same tokens at this model's prices; it would use others");
    }
    found
}

/// Models to compare with: what their families offer today.
fn others(prices: &Prices, sessions: &[Session]) -> Vec<Model> {
    const CLAUDE: [&str; 3] = ["claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"];
    const OPENAI: [&str; 2] = ["gpt-6.1-sol", "gpt-6.1-terra"];
    const GEMINI: [&str; 1] = ["gemini-3.8-flash"];
    let mut spent: [f64; 3] = [0.0; 3];
    let calls = sessions.iter().flat_map(|session| &session.chains).flat_map(|chain| &chain.steps).filter(|step| step.counts);
    for step in calls {
        if let Some(family) = prices.model(step.call.model).and_then(family) {
            spent[family] += prices.call(&step.call).unwrap_or_default();
        }
    }
    let all: f64 = spent.iter().sum();
    let names = [&CLAUDE[..], &OPENAI[..], &GEMINI[..]];
    let wanted = names.iter().zip(spent).filter(|(_, spent)| *spent > all * 0.2);
    wanted.flat_map(|(names, _)| names.iter()).filter_map(|name| prices.table().find(name).ok()).collect()
}

fn family(model: &Model) -> Option<usize> {
    match model.dialect {
        Dialect::Anthropic => Some(0),
        Dialect::OpenAiChat | Dialect::OpenAiResponses if model.name.starts_with("gpt-") => Some(1),
        Dialect::Gemini => Some(2),
        _ => None,
    }
}

/// The calls of the model's family at its prices, the others as they were.
fn as_model(prices: &Prices, sessions: &[Session], model: &Model) -> f64 {
    let calls = sessions.iter().flat_map(|session| &session.chains).flat_map(|chain| &chain.steps).filter(|step| step.counts);
    calls
        .filter_map(|step| {
            let was = prices.model(step.call.model)?;
            let same = family(was) == family(model);
            Some(charge(if same { model } else { was }, &step.call.tokens, step.call.percent))
        })
        .sum()
}

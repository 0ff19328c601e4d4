//! When folds come: what a session costs under an ideal cache, against never folding and against the best fold times known afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::cast_possible_truncation, clippy::format_collect)]
#![allow(clippy::needless_range_loop)] // the two lists are indexed by the same request

use std::sync::Arc;

use foreword_core::budget::Budget;
use foreword_core::catalog::Agent;
use foreword_core::envelope::FoldReason;
use foreword_core::message::{Message, Role, ToolCall};
use foreword_core::prompt::{CachePrices, LongPrompt};
use foreword_core::session::{Input, Session, TurnInput};
use foreword_core::settings::{Layout, Settings};
use foreword_core::tokens::{Chars, Tokens};
use proptest::prelude::*;

const NEVER: CachePrices = CachePrices { input: 1.0, read: 1.0, write: 1.0, lifetime_s: None, minimum: 0, step: 0, long: None };

fn prices(read: f64, write: f64) -> CachePrices {
    CachePrices { input: 1.0, read, write, ..NEVER }
}

fn session(prices: CachePrices) -> Session {
    let agent = Agent { system_prompt: "Be brief.".to_owned(), ..Agent::default() };
    let budget = Budget { prompt: Tokens(10_000_000), output_chars: usize::MAX, ..Budget::default() };
    let settings = Settings { layout: Layout::Log, budget, keep_outputs: 2, ..Settings::new("s", prices) };
    Session::new(agent, settings, Arc::new(Chars::FOUR)).unwrap()
}

/// The inputs before each request of a tool loop whose outputs have so many tokens.
fn rounds(outputs: &[u64]) -> Vec<Vec<Input>> {
    let first = vec![Input::Turn(TurnInput { words: "Go on. ".repeat(50), ..TurnInput::default() })];
    let step = |(at, tokens): (usize, &u64)| {
        let call = ToolCall { id: format!("c{at}"), name: "bash".to_owned(), arguments: serde_json::json!({}) };
        let text = "I look at it. ".repeat(10);
        // No line is like another: those would be counted, not sent.
        let lines = 1 + (*tokens as usize * 4) / 30;
        let output = (0..lines).map(|line| format!("{at:>4}.{line:<6} words of output\n")).collect();
        let result = Input::ToolResult { id: format!("c{at}"), output, failed: false, found: Vec::new() };
        vec![Input::Assistant { text, calls: vec![call], opaque: Vec::new() }, result]
    };
    std::iter::once(first).chain(outputs.iter().enumerate().map(step)).collect()
}

fn size(messages: &[Arc<Message>]) -> Tokens {
    messages.iter().map(|message| message.tokens()).sum()
}

fn price(before: &[Arc<Message>], now: &[Arc<Message>], prices: &CachePrices) -> f64 {
    let same = before.iter().zip(now).take_while(|(before, now)| before == now).count();
    prices.prompt(prices.served(size(&now[..same])), size(now))
}

/// What the requests of a session cost, and how often it was folded.
fn cost(rounds: &[Vec<Input>], decides: CachePrices, prices: &CachePrices) -> (f64, usize) {
    let mut session = session(decides);
    let (mut cost, mut folds, mut last) = (0.0, 0, Vec::new());
    for inputs in rounds {
        for input in inputs {
            session.apply(input.clone()).unwrap();
        }
        let envelope = session.request().unwrap();
        folds += usize::from(envelope.began == Some(FoldReason::Pays));
        cost += price(&last, session.messages(), prices);
        last = session.messages().to_vec();
    }
    (cost, folds)
}

/// The least that whole folds could have cost.
fn hindsight(rounds: &[Vec<Input>], prices: &CachePrices) -> f64 {
    let mut session = session(NEVER);
    let mut requests: Vec<(usize, Vec<Arc<Message>>)> = Vec::new();
    for inputs in rounds {
        for input in inputs {
            session.apply(input.clone()).unwrap();
        }
        session.request().unwrap();
        let folded = session.folded(&session.settings().budget).unwrap();
        requests.push((session.messages().len(), folded.messages().to_vec()));
    }
    let log = session.messages();
    let prompt = |fold: Option<usize>, at: usize| match fold {
        None => log[..requests[at].0].to_vec(),
        Some(fold) => [&requests[fold].1, &log[requests[fold].0..requests[at].0]].concat(),
    };
    let mut ways: Vec<(Option<usize>, f64)> = vec![(None, 0.0)];
    for at in 0..requests.len() {
        let before = |fold| at.checked_sub(1).map(|at| prompt(fold, at)).unwrap_or_default();
        let here = &requests[at].1;
        let folded = ways.iter().map(|(fold, cost)| cost + price(&before(*fold), here, prices)).min_by(f64::total_cmp);
        ways = ways.iter().map(|(fold, cost)| (*fold, cost + price(&before(*fold), &prompt(*fold, at), prices))).collect();
        if at > 0 {
            ways.push((Some(at), folded.unwrap()));
        }
    }
    ways.into_iter().map(|(_, cost)| cost).min_by(f64::total_cmp).unwrap()
}

/// The share of a fold's price that the rent has reached when the fold comes.
const EAGERNESS: f64 = 0.8;

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn folds_cost_no_more_than_the_bounds(
        outputs in proptest::collection::vec(prop_oneof![6 => 1..400_u64, 3 => 400..3_000_u64, 1 => 3_000..20_000_u64], 1..40),
        at in 0..5_usize,
    ) {
        let prices = [prices(0.1, 1.25), prices(0.05, 1.25), prices(0.025, 1.25), prices(0.1, 1.0), CachePrices { minimum: 1024, step: 128, ..prices(0.1, 1.0) }][at];
        let rounds = rounds(&outputs);
        let (ours, _) = cost(&rounds, prices, &prices);
        let (unfolded, _) = cost(&rounds, NEVER, &prices);
        let best = hindsight(&rounds, &prices);
        // The bounds that docs/decisions/folds.md derives. Every policy writes each token once; prefixes are read in whole steps.
        let written = cost(&rounds, NEVER, &CachePrices { read: 0.0, minimum: 0, step: 0, ..prices }).0;
        let rounding = (rounds.len() as u64 * prices.step.max(1) + prices.minimum) as f64 * prices.write;
        prop_assert!(ours <= unfolded + (unfolded - written) / EAGERNESS + rounding, "{} {} {}", ours, unfolded, written);
        prop_assert!(ours <= unfolded * 1.08 + (unfolded - written) / 2.0 + rounding, "{} {} {}", ours, unfolded, written);
        prop_assert!(ours <= best * 4.0 + rounding, "{} {}", ours, best);
        // What was found by search is nearer.
        prop_assert!(ours <= unfolded * 1.25, "{} {}", ours, unfolded);
        prop_assert!(ours <= best * 1.5, "{} {}", ours, best);
    }
}

#[test]
fn a_small_early_output_does_not_bring_all_behind_it_to_be_written_again() {
    // The first output saves a little, and much that no fold can leave out stands behind it; then a large one grows old.
    let mut rounds = rounds(&[60, 1, 1, 1, 1, 9_000, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    for inputs in &mut rounds[2..5] {
        if let Some(Input::Assistant { text, .. }) = inputs.first_mut() {
            *text = "A long thought. ".repeat(2_000);
        }
    }
    let prices = prices(0.1, 1.25);
    let mut session = session(prices);
    let mut began = None;
    for inputs in &rounds {
        for input in inputs {
            session.apply(input.clone()).unwrap();
        }
        let before = session.messages().to_vec();
        let expected = session.before_next_fold();
        let envelope = session.request().unwrap();
        if envelope.began == Some(FoldReason::Pays) {
            let same = before.iter().zip(session.messages()).take_while(|(before, now)| before == now).count();
            began = Some((same, expected));
            break;
        }
    }
    let (same, expected) = began.expect("a fold pays");
    let outputs: Vec<bool> = session
        .messages()
        .iter()
        .filter(|message| message.role == Role::Tool)
        .map(|message| message.content().starts_with("[Output of "))
        .collect();
    assert_eq!(outputs.first(), Some(&false), "the first output stays whole");
    assert!(outputs.contains(&true), "the large one does not");
    assert_eq!(expected, Some(same), "the fold begins where a mark was set for it");
}

#[test]
fn a_prompt_that_pays_a_surcharge_is_folded_at_once() {
    let outputs = [9_000, 1, 1, 1];
    let rounds = rounds(&outputs);
    let with = |long| CachePrices { long, ..prices(0.1, 1.25) };
    let folds = |prices: CachePrices| cost(&rounds, prices, &prices).1;
    assert_eq!(folds(with(None)), 1);
    let long = Some(LongPrompt { over: 5_000, factor: 2.0 });
    assert_eq!(folds(with(long)), 1);
    assert!(cost(&rounds, with(long), &with(long)).0 < cost(&rounds, with(None), &with(long)).0 + 1e-9);
}

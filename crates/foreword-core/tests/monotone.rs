//! What a larger budget promises over a whole session, whatever folds come and when.
//!
//! 1. What a turn asks for (what is attached, tool outputs that come with it) is in the request of a larger budget if it is in that of a
//!    smaller one.
//! 2. Every item that stands in the prompt under a budget also stands there under one that is larger by `1 / low_water` or more.
//!
//! Both hold as long as no item is so large that it has to be cut, and no fold is taken back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::sync::Arc;

use foreword_core::budget::Budget;
use foreword_core::catalog::Agent;
use foreword_core::envelope::Inclusion;
use foreword_core::item::{ItemId, Kind};
use foreword_core::message::ToolCall;
use foreword_core::prompt::CachePrices;
use foreword_core::session::{Due, Input, Session, TurnInput, TurnResult};
use foreword_core::settings::{Layout, Settings};
use foreword_core::tokens::{Chars, Tokens};
use foreword_core::version::Version;
use proptest::prelude::*;
use serde_json::json;

/// No note and no output is larger, in tokens; every budget is more than four times that.
const LARGEST: usize = 200;

#[derive(Clone, Debug)]
enum Event {
    /// Words, notes with their sizes, tool outputs that come along.
    Turn(usize, Vec<(usize, usize)>, Vec<usize>),
    /// The model calls a tool, which gives back so much.
    Call(usize),
    Answer(usize),
    Idle(u64),
    Fold,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let attached = prop::collection::vec((0..9_usize, 1..LARGEST), 0..3);
    let turn = (1..120_usize, attached, prop::collection::vec(1..LARGEST, 0..2));
    let event = prop_oneof![
        5 => turn.prop_map(|(words, notes, results)| Event::Turn(words, notes, results)),
        4 => (1..LARGEST).prop_map(Event::Answer),
        2 => (1..LARGEST).prop_map(Event::Call),
        1 => (0..500_u64).prop_map(Event::Idle),
        1 => Just(Event::Fold),
    ];
    prop::collection::vec(event, 5..60)
}

/// A text of so many tokens.
fn text(tokens: usize) -> String {
    "abc ".repeat(tokens)
}

fn inputs(events: &[Event]) -> Vec<Input> {
    let mut inputs = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Turn(words, notes, results) => {
                // A note is as long as its name says, so it changes only where the sizes differ: each size is a note of its own.
                let note = |(name, size): &(usize, usize)| {
                    Version::note(&format!("{name}-{}.md", size / 50), None, &text((size / 50 + 1) * 50), Vec::new())
                };
                let result = |size: &usize| TurnResult {
                    tool: "grep".to_owned(),
                    attributes: Vec::new(),
                    output: format!("{at} {}", text(*size)),
                    ..TurnResult::default()
                };
                inputs.push(Input::Turn(TurnInput {
                    words: text(*words),
                    attached: notes.iter().map(note).collect(),
                    results: results.iter().map(result).collect(),
                    ..TurnInput::default()
                }));
            }
            Event::Call(size) => {
                let call = ToolCall { id: format!("c{at}"), name: "read".to_owned(), arguments: json!({}) };
                inputs.push(Input::Assistant { text: String::new(), calls: vec![call], opaque: Vec::new() });
                inputs.push(Input::ToolResult {
                    id: format!("c{at}"),
                    output: format!("{at} {}", text(*size)),
                    failed: false,
                    found: Vec::new(),
                });
            }
            Event::Answer(size) => {
                inputs.push(Input::Assistant { text: text(*size), calls: Vec::new(), opaque: Vec::new() });
            }
            Event::Idle(seconds) => inputs.push(Input::Idle(*seconds)),
            Event::Fold => inputs.push(Input::Fold),
        }
    }
    inputs
}

/// What a request holds: what its turn asked for, and every item that somebody brought in.
struct Held {
    asked: BTreeSet<ItemId>,
    items: BTreeSet<ItemId>,
}

/// The requests that inputs lead to; none where one does not fit.
fn run(inputs: &[Input], layout: Layout, prompt: u64) -> Vec<Option<Held>> {
    let agent: Agent = serde_json::from_value(json!({
        "system_prompt": "You help.",
        "tools": [{"server": "fs", "name": "read", "description": "Reads.", "include": "always"}],
    }))
    .unwrap();
    let prices = CachePrices { input: 1.0, read: 0.1, write: 1.25, lifetime_s: Some(300), ..CachePrices::default() };
    let budget = Budget { prompt: Tokens(prompt), ..Budget::default() };
    let settings = Settings { layout, budget, ..Settings::new("monotone", prices) };
    let mut session = Session::new(agent, settings, Arc::new(Chars::FOUR)).unwrap();
    let mut asked: BTreeSet<ItemId> = BTreeSet::new();
    let mut all = Vec::new();
    for input in inputs {
        if let Input::Turn(turn) = input {
            asked = turn.attached.iter().map(|version| version.id.clone()).collect();
        }
        if session.apply(input.clone()).unwrap() != Due::Request {
            continue;
        }
        all.push(session.request().ok().map(|envelope| {
            let context = session.context(&envelope);
            let in_turn = envelope.turn_context.iter().map(|entry| entry.item.clone());
            let held: BTreeSet<ItemId> = in_turn.filter(|item| asked.contains(item) || item.kind() == Kind::Output).collect();
            let items = context.into_iter().filter(|entry| entry.include != Inclusion::Agent).map(|entry| entry.item);
            Held { asked: held, items: items.collect() }
        }));
    }
    all
}

fn layouts() -> impl Strategy<Value = Layout> {
    prop_oneof![Just(Layout::Library), Just(Layout::Log)]
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// What the smaller budget's requests hold and the larger one's do not.
fn missing(small: &[Option<Held>], large: &[Option<Held>], of: fn(&Held) -> &BTreeSet<ItemId>) -> Option<String> {
    assert_eq!(small.len(), large.len());
    small.iter().zip(large).enumerate().find_map(|(at, (small, large))| {
        let small = small.as_ref()?;
        let Some(large) = large else { return Some(format!("request {at} fits the smaller budget alone")) };
        let missing: Vec<_> = of(small).difference(of(large)).map(ToString::to_string).collect();
        (!missing.is_empty()).then(|| format!("request {at}: {missing:?}"))
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_a_turn_asks_for_is_in_a_larger_budget_too(events in events(), layout in layouts(), small in 1000..4000_u64, more in 1..4000_u64) {
        let inputs = inputs(&events);
        let (small, large) = (run(&inputs, layout, small), run(&inputs, layout, small + more));
        let missing = missing(&small, &large, |held| &held.asked);
        prop_assert!(missing.is_none(), "{}", missing.unwrap_or_default());
    }

    #[test]
    fn what_stands_under_a_budget_stands_under_one_that_is_half_as_large_again(events in events(), layout in layouts(), small in 1000..4000_u64, more in 0..3000_u64) {
        let inputs = inputs(&events);
        let (small, large) = (run(&inputs, layout, small), run(&inputs, layout, (small * 3).div_ceil(2) + more));
        let missing = missing(&small, &large, |held| &held.items);
        prop_assert!(missing.is_none(), "{}", missing.unwrap_or_default());
    }
}

//! Very many tools: the work grows with their number, not with its square.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use foreword_core::budget::Budget;
use foreword_core::catalog::{Agent, Tool};
use foreword_core::prompt::{CachePrices, ToolStyle};
use foreword_core::session::{Input, Session, TurnInput};
use foreword_core::settings::{Layout, Settings};
use foreword_core::tokens::{Chars, Tokens};
use serde_json::{Value, json};

fn agent(lead: &str, tools: usize) -> Agent {
    let tool = |number| Tool {
        server: "client".to_owned(),
        name: format!("{lead}{number}"),
        description: None,
        schema: Value::Null,
        include: None,
        permission: None,
        read_only: false,
    };
    Agent { tools: (0..tools).map(tool).collect(), ..Agent::default() }
}

/// A session with so many tools that makes a request, then gets others instead.
fn carried(style: ToolStyle, tools: usize) -> Duration {
    let prices = CachePrices { input: 1.0, read: 0.1, write: 1.25, lifetime_s: None, ..CachePrices::default() };
    let budget = Budget { prompt: Tokens(1 << 40), ..Budget::default() };
    let settings = Settings { layout: Layout::Log, tools: style, budget, ..Settings::new("many", prices) };
    let (first, second) = (agent("a", tools), agent("b", tools));
    let started = Instant::now();
    let mut session = Session::new(first, settings, Arc::new(Chars::FOUR)).unwrap();
    let turn = |words: &str| Input::Turn(TurnInput { words: words.to_owned(), ..TurnInput::default() });
    session.apply(turn("hello")).unwrap();
    let envelope = session.request().unwrap();
    assert_eq!(envelope.tools.allowed.len(), tools);
    assert_eq!(session.context(&envelope).len(), tools);
    session.apply(Input::Assistant { text: "Hi.".to_owned(), calls: Vec::new(), opaque: Vec::new() }).unwrap();
    session.apply(Input::Agent(Box::new(second))).unwrap();
    session.apply(turn("and now?")).unwrap();
    let envelope = session.request().unwrap();
    assert!(envelope.tools.allowed.is_empty(), "{}", json!(envelope.tools.allowed.len()));
    started.elapsed()
}

#[test]
fn the_work_grows_with_the_number_of_tools_and_not_with_its_square() {
    for style in [ToolStyle::Native, ToolStyle::Allowed] {
        let best = |tools: usize| (0..2).map(|_| carried(style, tools)).min().unwrap();
        let (few, many) = (best(1_000), best(12_000));
        // Twelve times the tools: about twelve times the work, and 144 times where it is squared.
        assert!(many < few * 60, "{style:?}: {few:?} for 1,000 and {many:?} for 12,000");
    }
}

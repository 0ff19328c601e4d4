//! Sessions that never end: 2,000 turns with tool outputs up to 600 kB, in both layouts, whole and resumed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use foreword_core::budget::Budget;
use foreword_core::catalog::Agent;
use foreword_core::message::{Message, Role, ToolCall};
use foreword_core::prompt::CachePrices;
use foreword_core::session::{Due, Input, Session, TurnInput};
use foreword_core::settings::{HistoryPolicy, Layout, Settings};
use foreword_core::tokens::{Chars, Tokens};
use serde_json::json;

const TURNS: usize = 2_000;

fn session(layout: Layout, history: HistoryPolicy) -> Session {
    let agent: Agent = serde_json::from_value(json!({
        "system_prompt": "You work through a long list.",
        "tools": [{"server": "fs", "name": "read", "include": "always", "read_only": true}],
    }))
    .unwrap();
    let prices = CachePrices { input: 1.0, read: 0.1, write: 1.25, lifetime_s: None, ..CachePrices::default() };
    let budget = Budget { prompt: Tokens(64_000), ..Budget::default() };
    Session::new(agent, Settings { layout, history, budget, ..Settings::new("long", prices) }, Arc::new(Chars::FOUR)).unwrap()
}

/// What is told in a turn: words, a call, its output, an answer.
fn turn(number: usize) -> [Input; 4] {
    let size = if number % 50 == 7 { 600_000 } else { 40 + number % 200 };
    let line = format!("line of part{number}.txt with value {number}\n");
    let output = line.repeat(size / line.len() + 1);
    let call = ToolCall {
        id: format!("call-{number}"),
        name: "read".to_owned(),
        arguments: json!({"path": format!("data/part{number}.txt")}),
    };
    let words = format!("Now look at data/part{number}.txt, please.");
    [
        Input::Turn(TurnInput { words, ..TurnInput::default() }),
        Input::Assistant { text: String::new(), calls: vec![call], opaque: Vec::new() },
        Input::ToolResult { id: format!("call-{number}"), output, failed: false, found: Vec::new() },
        Input::Assistant {
            text: format!("Part {number} has value {number}. It is fine."),
            calls: Vec::new(),
            opaque: Vec::new(),
        },
    ]
}

/// Every call is followed by exactly its results.
fn is_paired(messages: &[Arc<Message>]) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        match (&message.answers, message.role) {
            (Some(id), Role::Tool) if open.first() == Some(&id.as_str()) => drop(open.remove(0)),
            (None, role) if role != Role::Tool && open.is_empty() => {
                open = message.calls.iter().map(|call| call.id.as_str()).collect();
            }
            _ => return false,
        }
    }
    open.is_empty()
}

fn check(layout: Layout, history: &HistoryPolicy) {
    let mut session = session(layout, history.clone());
    let (mut requests, mut folds, mut epoch) = (0_usize, 0_usize, 0);
    let mut resumed: Option<Session> = None;
    for number in 0..TURNS {
        if matches!(history, HistoryPolicy::Managed { .. }) && number % 100 == 99 {
            let told = Input::Managed { summary: format!("They looked at {number} parts."), covers: session.managed_cut() };
            for session in std::iter::once(&mut session).chain(&mut resumed) {
                session.apply(told.clone()).unwrap();
            }
        }
        match number % 199 {
            3 => resumed = Some(Session::restore(&session.checkpoint(), Arc::new(Chars::FOUR)).unwrap()),
            5 => resumed = None,
            _ => {}
        }
        for input in turn(number) {
            let mut other = resumed.as_mut();
            if let Some(other) = &mut other {
                other.apply(input.clone()).unwrap();
            }
            if session.apply(input).unwrap() != Due::Request {
                continue;
            }
            let envelope = session.request().unwrap();
            requests += 1;
            folds += usize::from(layout == Layout::Log && envelope.epoch != epoch);
            epoch = envelope.epoch;
            assert!(envelope.tokens <= Tokens(64_000), "turn {number}: {}", envelope.tokens);
            assert!(is_paired(session.messages()), "turn {number}");
            if let Some(other) = other {
                assert_eq!(other.request().unwrap().combined, envelope.combined, "turn {number}, resumed");
                assert_eq!(other.messages(), session.messages());
            }
            session.take_outbox();
        }
    }
    assert_eq!(requests, 2 * TURNS);
    assert!(folds * 100 < requests, "{folds} folds in {requests} requests");
    // What is kept grows with what was said, not faster.
    assert!(session.checkpoint().len() < TURNS * 4_000, "{}", session.checkpoint().len());
}

#[test]
fn two_thousand_turns_in_the_log_layout() {
    check(Layout::Log, &HistoryPolicy::Full);
}

#[test]
fn two_thousand_turns_in_the_library_layout() {
    check(Layout::Library, &HistoryPolicy::Full);
}

#[test]
fn two_thousand_managed_turns() {
    let history = HistoryPolicy::Managed { summary: None, passthrough_runs: 1, token_threshold: Tokens(4_000) };
    check(Layout::Log, &history);
    check(Layout::Library, &history);
}

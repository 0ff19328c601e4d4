//! What one turn took: its requests, and what a model was asked beside the conversation for it, a plan or a summary.

use std::collections::BTreeMap;

use foreword_store::{Store, StoreError, Usage};
use serde::Serialize;

use super::log_entry::{ASIDE, SideExchange};
use super::money::usd;
use super::point::Point;
use crate::manager::View;

/// What a model was asked beside the conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideRequest {
    /// For which turn, from 1.
    pub turn: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// What for: `plan` or `summary`.
    pub purpose: String,
    /// Who was asked.
    pub model: String,
    /// How often a model was asked for it.
    pub questions: u64,
    /// Tokens of the prompt.
    pub tokens: u64,
    /// Tokens of it that the provider's cache served.
    pub cached: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// What it cost, in USD.
    pub cost: f64,
    /// Why there was no answer.
    pub error: Option<String>,
    /// The bytes that were sent. Of a summary that an older version wrote, only what was asked behind the conversation.
    #[serde(skip)]
    pub body: String,
    /// What came back.
    #[serde(skip)]
    pub answer: String,
}

/// What one turn took.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TurnCost {
    /// Requests of the conversation.
    pub requests: u64,
    /// What was asked beside it, the first first.
    pub side_requests: Vec<SideRequest>,
    /// What all of it cost, in USD.
    pub cost: f64,
}

/// What was asked beside a session's conversation, the first first.
pub fn side_requests(store: &dyn Store, session: &str) -> Result<Vec<SideRequest>, StoreError> {
    let (mut found, mut turns) = (Vec::new(), BTreeMap::new());
    let mut last = 0;
    let log = store.log_packed(session, 0)?;
    for logged in &log {
        if logged.kind == "turn" {
            turns.insert(logged.number, logged.run + 1);
        }
        last = last.max(logged.run + 1);
    }
    // It is asked before the turn that needs it is told. A turn that never came would have been the next one.
    let next = turns.values().last().copied().unwrap_or(last) + 1;
    let turn_after = |number: u64| turns.range(number..).next().map_or(next, |(_, turn)| *turn);
    for logged in log.into_iter().filter(|logged| logged.kind == ASIDE) {
        let (number, at_ms) = (logged.number, logged.at_ms);
        let aside: SideExchange = serde_json::from_value(store.unpack(logged.body)?)
            .map_err(|error| StoreError::Damaged(format!("an entry of session {session}: {error}")))?;
        let SideExchange { purpose, body, answer, usage: Usage { model, read, write, uncached, output, cost, .. } } = aside;
        let (answer, error) = match answer {
            Ok(answer) => (answer, None),
            Err(error) => (String::new(), Some(error)),
        };
        let tokens = read + write + uncached;
        let (turn, questions, cached, cost) = (turn_after(number), 1, read, usd(cost));
        found.push(SideRequest { turn, at_ms, purpose, model, questions, tokens, cached, output, cost, error, body, answer });
    }
    for row in store.summaries(session, usize::MAX)? {
        let Ok(view) = View::of(&row) else { continue };
        let asked = || view.sections.iter().filter(|section| section.by_model && !section.cached);
        let joined = |texts: Vec<&str>| texts.join("\n\n");
        if asked().next().is_none() {
            continue;
        }
        found.push(SideRequest {
            turn: turn_after(row.number),
            at_ms: row.at_ms,
            purpose: "summary".to_owned(),
            model: view.model.clone(),
            questions: asked().count() as u64,
            tokens: view.figures.prompt.0,
            cached: view.figures.read.0,
            output: view.figures.output.0,
            cost: usd(view.figures.cost),
            error: view.why.as_ref().map(ToString::to_string),
            body: joined(asked().map(|section| if section.body.is_empty() { &*section.asked } else { &*section.body }).collect()),
            answer: joined(asked().map(|section| section.raw.as_str()).collect()),
        });
    }
    found.sort_by_key(|side| (side.turn, side.at_ms));
    Ok(found)
}

/// What a turn of a session took, counted from 1.
pub fn turn_cost(store: &dyn Store, session: &str, turn: u64) -> Result<TurnCost, StoreError> {
    let mut found = TurnCost::default();
    let usage: BTreeMap<u64, Usage> = store.ledger(session)?.into_iter().collect();
    for request in store.requests(session)?.into_iter().filter(|request| request.run + 1 == turn) {
        found.requests += 1;
        found.cost += usage.get(&request.number).map_or(0.0, |usage| usage.cost);
    }
    found.side_requests = side_requests(store, session)?.into_iter().filter(|side| side.turn == turn).collect();
    found.cost = usd(found.cost + found.side_requests.iter().map(|side| side.cost).sum::<f64>());
    Ok(found)
}

impl Point {
    /// How a person names a request: `SESSION@TURN.STEP`.
    pub fn of_request(store: &dyn Store, session: &str, number: u64) -> Result<Self, StoreError> {
        let requests = store.requests(session)?;
        let run = requests.iter().find(|request| request.number == number).map_or(0, |request| request.run);
        let step = requests.iter().filter(|request| request.run == run && request.number <= number).count() as u64;
        Ok(Self { session: session.to_owned(), turn: Some(run + 1), step: Some(step.max(1)) })
    }
}

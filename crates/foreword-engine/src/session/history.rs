//! Going back: forks beside a session, and a session that goes on from an earlier turn.

use foreword_core::session::{Input, TurnInput};
use foreword_store::{Counts, Entry, Fork, Store, StoreError, Write};
use serde_json::Value;

use super::told::Told;

/// How far the records go at the end of the first `turns` turns.
fn cut(store: &dyn Store, session: &str, turns: u64) -> Result<Counts, StoreError> {
    let mut begun = 0;
    let mut inputs = store.session(session)?.counts.inputs;
    for entry in store.log_packed(session, 0)? {
        let begins = match entry.kind.as_str() {
            "turn" => 1,
            "imported" => {
                let lines = entry.body.as_array().into_iter().flatten();
                lines.filter(|line| line.get("role").and_then(Value::as_str) == Some("user")).count() as u64
            }
            _ => 0,
        };
        if begins > 0 && begun + begins > turns {
            if begins > 1 {
                return Err(StoreError::Damaged(format!(
                    "session {session} was taken over from elsewhere up to turn {begins}; it can go back to there, not further"
                )));
            }
            inputs = entry.number;
            break;
        }
        begun += begins;
    }
    if begun < turns {
        return Err(StoreError::NoRequest { session: session.to_owned(), request: turns });
    }
    let requests = store.requests(session)?.iter().filter(|request| request.input <= inputs).count() as u64;
    Ok(Counts { inputs, requests })
}

/// Lets a session, or a fork of it, go on from the end of its first `turns` turns.
fn branch_off(store: &mut dyn Store, session: &str, turns: u64, fork: Option<&Fork>, at_ms: i64) -> Result<(), StoreError> {
    let at = cut(store, session, turns)?;
    let epochs = store.requests(session)?.last().map_or(0, |request| request.epoch + 1);
    store.branch(session, at, fork)?;
    let epoch = usize::try_from(epochs).unwrap_or(usize::MAX);
    let (kind, body) = Told::Input(Input::Forked { epoch })
        .parts()
        .map_err(|error| StoreError::Damaged(format!("the fork cannot be stored: {error}")))?;
    let entry = Entry { kind, run: turns.saturating_sub(1), at_ms, cut_off: false, body };
    store.commit(fork.map_or(session, |fork| fork.id.as_str()), &[Write::Input(entry)])?;
    Ok(())
}

/// A new session that shares the first `turns` turns of another.
pub fn fork(store: &mut dyn Store, session: &str, turns: u64, new: &Fork) -> Result<(), StoreError> {
    branch_off(store, session, turns, Some(new), new.created_ms)
}

/// Takes a session back to the end of its first `turns` turns. What came after them stays in the store.
pub fn rewind(store: &mut dyn Store, session: &str, turns: u64, at_ms: i64) -> Result<(), StoreError> {
    let _lease = store.lease(session)?;
    branch_off(store, session, turns, None, at_ms)
}

/// What a turn was, counted from 1: its words and what was attached.
pub fn turn_of(store: &dyn Store, session: &str, turn: u64) -> Result<TurnInput, StoreError> {
    let missing = || StoreError::NoTurn { session: session.to_owned(), turn: Some(turn), step: None };
    let entries = store.log_packed(session, 0)?;
    let entry = entries.into_iter().find(|entry| entry.kind == "turn" && entry.run + 1 == turn).ok_or_else(missing)?;
    let damaged = |error: serde_json::Error| StoreError::Damaged(format!("turn {turn} of session {session}: {error}"));
    serde_json::from_value(store.unpack(entry.body)?).map_err(damaged)
}

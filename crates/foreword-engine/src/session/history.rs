//! Forks and rewinds.

use foreword_core::session::{Input, TurnInput};
use foreword_store::{Counts, Document, Entry, Fork, Store, StoreError, Write};
use serde_json::Value;

use super::chronicle::{Line, entries, entries_until};
use super::log_entry::LogEntry;

/// The number of turns of a session, and how many of them were imported.
pub fn turns(store: &dyn Store, session: &str) -> Result<(u64, u64), StoreError> {
    let (mut all, mut imported) = (0, 0);
    for entry in store.log_packed(session, 0)? {
        let begins = begins(&entry.kind, &entry.body);
        all += begins;
        imported += if entry.kind == "turn" { 0 } else { begins };
    }
    Ok((all, imported))
}

/// The number of turns that a log entry begins.
fn begins(kind: &str, body: &Value) -> u64 {
    match kind {
        "turn" => 1,
        "imported" => {
            let lines = body.as_array().into_iter().flatten();
            lines.filter(|line| line.get("role").and_then(Value::as_str) == Some("user")).count() as u64
        }
        _ => 0,
    }
}

/// Whether an entry of this kind is part of the turn before it.
fn belongs_to_turn(kind: &str) -> bool {
    const KINDS: [&str; 13] = [
        "turn",
        "imported",
        "past",
        "assistant",
        "tool_result",
        "plan",
        "task_complete",
        "action_prompt",
        "interrupt",
        "edited",
        "ended",
        "cited",
        "ending",
    ];
    KINDS.contains(&kind)
}

/// Whether an entry of this kind is a setting, or something that the user added to the session or took out of it.
fn is_set_by_user(kind: &str) -> bool {
    const KINDS: [&str; 9] = ["model", "settings", "mode", "history", "agent", "add", "remove", "pin", "unpin"];
    KINDS.contains(&kind)
}

/// How far the records go at the end of the first `turns` turns.
fn cut(store: &dyn Store, session: &str, turns: u64) -> Result<Counts, StoreError> {
    let mut begun = 0;
    let mut inputs = store.session(session)?.counts.inputs;
    // Where the last entry of a turn stands that belongs to it: other settings, another model or another agent that came behind it are
    // for the next turn.
    let mut end = None;
    for entry in store.log_packed(session, 0)? {
        let begins = begins(&entry.kind, &entry.body);
        if begins > 0 && begun + begins > turns {
            if entry.kind != "turn" && turns > 0 {
                return Err(StoreError::Refused(format!(
                    "session {session} was imported up to turn {begins}; it cannot go back further"
                )));
            }
            inputs = end.filter(|_| turns > 0).unwrap_or(entry.number);
            break;
        }
        begun += begins;
        if belongs_to_turn(&entry.kind) {
            end = Some(entry.number + 1);
        }
    }
    if begun < turns {
        return Err(StoreError::Refused(format!("session {session} has {begun} turns, not {turns}")));
    }
    let requests = store.requests(session)?.iter().filter(|request| request.input <= inputs).count() as u64;
    Ok(Counts { inputs, requests })
}

/// Continues a session, or a fork of it, after its first `turns` turns, with another turn if one is given.
fn branch_off(
    store: &mut dyn Store,
    session: &str,
    turns: u64,
    fork: Option<&Fork>,
    turn: Option<TurnInput>,
    at_ms: i64,
) -> Result<(), StoreError> {
    let at = cut(store, session, turns)?;
    let epochs = store.requests(session)?.last().map_or(0, |request| request.epoch + 1);
    let epoch = usize::try_from(epochs).unwrap_or(usize::MAX);
    let mut told = vec![LogEntry::Input(Input::Forked { epoch })];
    // What a person changed in the transcript by hand stays changed.
    let then = entries_until(store, session, at.inputs)?;
    let now = entries(store, session)?;
    if let Some(same) = now.get(..then.len()).filter(|same| *same != then) {
        told.push(LogEntry::Edited(same.iter().cloned().map(Line::from).collect()));
    }
    let mut writes = Vec::new();
    if turn.is_some() {
        // What the user set since then holds for the turn that is said again.
        for entry in store.log_packed(session, at.inputs)? {
            if is_set_by_user(&entry.kind) {
                let refused = |error: serde_json::Error| StoreError::Refused(format!("the branch cannot be stored: {error}"));
                let body = Document::of(&store.unpack(entry.body)?).map_err(refused)?;
                writes.push(Write::Input(Entry { kind: entry.kind, run: turns.saturating_sub(1), at_ms, cut_off: false, body }));
            }
        }
    }
    let told_before = told.len();
    told.extend(turn.map(|turn| LogEntry::Input(Input::Turn(turn))));
    let set = std::mem::take(&mut writes);
    for (place, told) in told.into_iter().enumerate() {
        if place == told_before {
            writes.extend(set.iter().cloned());
        }
        let run = if matches!(told, LogEntry::Input(Input::Turn(_))) { turns } else { turns.saturating_sub(1) };
        let (kind, body) = told.parts().map_err(|error| StoreError::Refused(format!("the branch cannot be stored: {error}")))?;
        writes.push(Write::Input(Entry { kind, run, at_ms, cut_off: false, body }));
    }
    store.branch(session, at, fork, &writes)
}

/// Creates a session that shares the first `turns` turns of another.
pub fn fork(store: &mut dyn Store, session: &str, turns: u64, new: &Fork) -> Result<(), StoreError> {
    branch_off(store, session, turns, Some(new), None, new.created_ms)
}

/// Rewinds a session to the end of its first `turns` turns. Later turns stay in the store until the session is deleted.
pub fn rewind(store: &mut dyn Store, session: &str, turns: u64, at_ms: i64) -> Result<(), StoreError> {
    let _lease = store.lease(session)?;
    branch_off(store, session, turns, None, None, at_ms)
}

/// Rewinds a session to before a turn, counted from 1, and replaces its message, both or neither. The turn must then be continued.
pub fn replace_turn(store: &mut dyn Store, session: &str, turn: u64, with: TurnInput, at_ms: i64) -> Result<(), StoreError> {
    let _lease = store.lease(session)?;
    branch_off(store, session, turn.saturating_sub(1), None, Some(with), at_ms)
}

/// The message and attachments of a turn, counted from 1.
pub fn turn_of(store: &dyn Store, session: &str, turn: u64) -> Result<TurnInput, StoreError> {
    let (all, imported) = turns(store, session)?;
    if turn == 0 || turn > all {
        return Err(StoreError::Refused(format!("session {session} has {all} turns, not {turn}")));
    }
    if turn <= imported {
        return Err(StoreError::Refused(format!(
            "turn {turn} of session {session} was imported and cannot be changed; continue from the end"
        )));
    }
    let mut own = store.log_packed(session, 0)?.into_iter().filter(|entry| entry.kind == "turn");
    let entry = usize::try_from(turn - imported - 1).ok().and_then(|at| own.nth(at));
    let entry = entry.ok_or_else(|| StoreError::Damaged(format!("turn {turn} of session {session} is missing")))?;
    let damaged = |error: serde_json::Error| StoreError::Damaged(format!("turn {turn} of session {session}: {error}"));
    serde_json::from_value(store.unpack(entry.body)?).map_err(damaged)
}

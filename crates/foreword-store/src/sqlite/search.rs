//! Finding messages by their words, in all of history: what was folded away is still in the log.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};
use serde_json::Value;

use super::lineage::lineage;
use super::read::document;
use super::write::execute;
use crate::error::doing;
use crate::row::{Found, Logged};
use crate::{Result, StoreError};

/// The words of an input, where it has any that people said or read.
fn words(kind: &str, body: &Value) -> Option<String> {
    let field = |name: &str| body.get(name)?.as_str().map(str::to_owned);
    match kind {
        "turn" => field("words"),
        "assistant" => field("text"),
        "tool_result" => field("output"),
        "imported" => {
            let said = body.as_array()?.iter().filter_map(|said| said.get("text")?.as_str());
            Some(said.collect::<Vec<_>>().join("\n"))
        }
        _ => None,
    }
}

/// Scripts without spaces are cut into characters, so that any part of a sentence is found.
fn spaced(text: &str) -> String {
    let is_unspaced = |c: char| matches!(u32::from(c), 0x3040..=0x30FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unspaced(c) {
            out.extend([' ', c, ' ']);
        } else {
            out.push(c);
        }
    }
    out
}

/// Makes the oldest inputs findable that are not yet, so many at most; how many there were. One transaction for many of them costs a
/// fraction of one for each, so nobody who writes waits for it.
pub(super) fn index(connection: &Connection, most: usize) -> Result<usize> {
    let failed = doing("index messages for search");
    // They are taken in order and each leaves a row here, also where it has no words: what comes behind the last row is new.
    let sql = "SELECT id, kind, body FROM log WHERE id > (SELECT coalesce(max(id), 0) FROM found_docsize)
               AND kind IN ('turn', 'assistant', 'tool_result', 'imported') ORDER BY id LIMIT ?1";
    let new: Vec<(i64, String, String)> = connection
        .prepare_cached(sql)
        .and_then(|mut statement| {
            statement.query_map([most as u64], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        })
        .map_err(failed)?;
    for (id, kind, body) in &new {
        let words = match document(connection, body) {
            Ok(body) => words(kind, &body).unwrap_or_default(),
            // That is for `check` to tell.
            Err(StoreError::Damaged(_)) => String::new(),
            Err(error) => return Err(error),
        };
        execute(connection, "INSERT INTO found (rowid, text) VALUES (?1, ?2)", params![id, spaced(&words)])?;
    }
    Ok(new.len())
}

/// Every word as a phrase, so that nothing in it is taken for an operator; the start of a word is enough to find it.
fn expression(words: &str) -> String {
    let phrases = words.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric));
    let phrases: Vec<String> = phrases.map(|word| format!("\"{}\"*", spaced(word).trim().replace('"', " "))).collect();
    phrases.join(" ")
}

pub(super) fn search(connection: &Connection, words: &str, limit: usize) -> Result<Vec<Found>> {
    let expression = expression(words);
    if expression.is_empty() {
        return Ok(Vec::new());
    }
    let failed = doing("search the sessions");
    let owners = owners(connection)?;
    let sql = "SELECT log.branch, log.number, log.kind, log.run, log.at_ms, log.cut_off, log.body, -bm25(found)
               FROM found JOIN log ON log.id = found.rowid WHERE found MATCH ?1 ORDER BY bm25(found), log.at_ms DESC, log.id";
    let mut statement = connection.prepare_cached(sql).map_err(&failed)?;
    let mut rows = statement.query([expression]).map_err(&failed)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(&failed)? {
        let (branch, number): (i64, u64) = (row.get(0).map_err(&failed)?, row.get(1).map_err(&failed)?);
        let of_branch = owners.get(&branch).map(Vec::as_slice).unwrap_or_default();
        let mut holders = of_branch.iter().filter(|(from, until, _)| (*from..*until).contains(&number));
        let Some((_, _, session)) = holders.next() else { continue };
        let entry = Logged {
            number,
            kind: row.get(2).map_err(&failed)?,
            run: row.get(3).map_err(&failed)?,
            at_ms: row.get(4).map_err(&failed)?,
            cut_off: row.get(5).map_err(&failed)?,
            body: document(connection, &row.get::<_, String>(6).map_err(&failed)?)?,
        };
        found.push(Found { session: session.clone(), entry, score: row.get(7).map_err(&failed)? });
        if found.len() == limit {
            break;
        }
    }
    Ok(found)
}

/// By branch: from which input until which one, and whose.
type Owners = BTreeMap<i64, Vec<(u64, u64, String)>>;

/// Which stretches of a branch belong to which session; the session whose own branch it is comes first.
fn owners(connection: &Connection) -> Result<Owners> {
    let sessions: Vec<(String, i64)> = connection
        .prepare_cached("SELECT id, branch FROM sessions ORDER BY created_ms, id")
        .and_then(|mut statement| statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .map_err(doing("search the sessions"))?;
    let mut owners = Owners::new();
    for (session, branch) in sessions {
        for stretch in lineage(connection, branch)? {
            owners.entry(stretch.branch).or_default().push((stretch.from.inputs, stretch.until.inputs, session.clone()));
        }
    }
    Ok(owners)
}

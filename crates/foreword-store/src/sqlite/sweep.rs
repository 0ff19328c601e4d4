//! Deleting: branches that no session needs any more go, and then every text that nothing points to.

use std::collections::BTreeSet;

use foreword_core::hash::Hash;
use rusqlite::{Connection, params};
use serde_json::Value;

use super::branch_of;
use super::write::execute;
use crate::Result;
use crate::error::doing;
use crate::packed::pointers;

/// Tables whose rows belong to a branch.
const OF_BRANCH: [&str; 9] = ["log", "parts", "requests", "placed", "context", "ledger", "outbox", "summaries", "checkpoints"];

pub(super) fn delete(connection: &Connection, session: &str) -> Result<()> {
    if let Err(unknown) = branch_of(connection, session) {
        // The session of a client has nothing but what was passed on in its name.
        if super::forwarded::of(connection, session)?.is_empty() {
            return Err(unknown);
        }
    }
    execute(connection, "DELETE FROM sessions WHERE id = ?1", [session])?;
    execute(connection, "DELETE FROM forwarded WHERE session = ?1", [session])?;
    for branch in unneeded(connection, session)? {
        execute(connection, "DELETE FROM found WHERE rowid IN (SELECT id FROM log WHERE branch = ?1)", [branch])?;
        for table in OF_BRANCH {
            execute(connection, &format!("DELETE FROM {table} WHERE branch = ?1"), [branch])?;
        }
        execute(connection, "DELETE FROM branches WHERE id = ?1", [branch])?;
    }
    trim(connection, session)?;
    // The words of deleted rows stay in the index until its parts are merged.
    execute(connection, "INSERT INTO found (found) VALUES ('optimize')", [])?;
    execute(connection, "DELETE FROM agents WHERE hash NOT IN (SELECT agent FROM sessions)", [])?;
    let needed = needed(connection)?;
    let failed = doing("delete a session");
    let all: Vec<[u8; 32]> = connection
        .prepare("SELECT hash FROM texts")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .map_err(&failed)?;
    for hash in all.into_iter().filter(|hash| !needed.contains(&Hash::from(*hash))) {
        execute(connection, "DELETE FROM texts WHERE hash = ?1", params![&hash[..]])?;
    }
    Ok(())
}

/// What others took over from the session stays; the rest of those branches goes.
fn trim(connection: &Connection, session: &str) -> Result<()> {
    let sql = "SELECT b.id, max(c.inputs), max(c.requests) FROM branches b JOIN branches c ON c.parent = b.id WHERE b.session = ?1 GROUP BY b.id";
    let taken: Vec<(i64, u64, u64)> = connection
        .prepare(sql)
        .and_then(|mut statement| statement.query_map([session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect())
        .map_err(doing("delete a session"))?;
    for (branch, inputs, requests) in taken {
        let sql = "DELETE FROM found WHERE rowid IN (SELECT id FROM log WHERE branch = ?1 AND number >= ?2)";
        execute(connection, sql, params![branch, inputs])?;
        execute(connection, "DELETE FROM log WHERE branch = ?1 AND number >= ?2", params![branch, inputs])?;
        for (table, column) in [("requests", "number"), ("placed", "since"), ("context", "since"), ("ledger", "request")] {
            let sql = format!("DELETE FROM {table} WHERE branch = ?1 AND {column} >= ?2");
            execute(connection, &sql, params![branch, requests])?;
        }
        execute(connection, "DELETE FROM summaries WHERE branch = ?1 AND number >= ?2", params![branch, inputs])?;
        execute(connection, "DELETE FROM parts WHERE branch = ?1", [branch])?;
        execute(connection, "DELETE FROM checkpoints WHERE branch = ?1 AND inputs > ?2", params![branch, inputs])?;
    }
    Ok(())
}

/// Branches of a session that are in no other one's past, the youngest first.
fn unneeded(connection: &Connection, session: &str) -> Result<Vec<i64>> {
    let sql = "WITH RECURSIVE needed (id) AS (
                   SELECT branch FROM sessions
                   UNION SELECT id FROM branches WHERE session <> ?1
                   UNION SELECT parent FROM branches JOIN needed USING (id) WHERE parent IS NOT NULL)
               SELECT id FROM branches WHERE session = ?1 AND id NOT IN (SELECT id FROM needed) ORDER BY id DESC";
    connection
        .prepare(sql)
        .and_then(|mut statement| statement.query_map([session], |row| row.get(0))?.collect())
        .map_err(doing("delete a session"))
}

/// Columns that hold documents, and columns that hold the hash of one.
const DOCUMENTS: [&str; 4] =
    ["SELECT setup FROM sessions", "SELECT body FROM log", "SELECT record FROM requests", "SELECT record FROM summaries"];
const HASHES: [(&str, bool); 3] =
    [("SELECT hash FROM agents", true), ("SELECT DISTINCT message FROM placed", true), ("SELECT hash FROM outbox", false)];

/// Every text that something points to.
pub(super) fn needed(connection: &Connection) -> Result<BTreeSet<Hash>> {
    let failed = doing("find unused texts");
    let mut needed = BTreeSet::new();
    let follow = |json: &str, needed: &mut BTreeSet<Hash>| {
        if let Ok(value) = serde_json::from_str::<Value>(json) {
            pointers(&value, &mut |hash| {
                needed.insert(hash);
            });
        }
    };
    for sql in DOCUMENTS {
        let mut statement = connection.prepare(sql).map_err(&failed)?;
        let mut rows = statement.query([]).map_err(&failed)?;
        while let Some(row) = rows.next().map_err(&failed)? {
            follow(&row.get::<_, String>(0).map_err(&failed)?, &mut needed);
        }
    }
    for (sql, is_document) in HASHES {
        let mut statement = connection.prepare(sql).map_err(&failed)?;
        let mut rows = statement.query([]).map_err(&failed)?;
        while let Some(row) = rows.next().map_err(&failed)? {
            let hash = Hash::from(row.get::<_, [u8; 32]>(0).map_err(&failed)?);
            needed.insert(hash);
            if is_document && let Ok(json) = super::read::text(connection, hash) {
                follow(&json, &mut needed);
            }
        }
    }
    super::forwarded::pieces(connection, &mut |hash| {
        needed.insert(hash);
    })?;
    Ok(needed)
}

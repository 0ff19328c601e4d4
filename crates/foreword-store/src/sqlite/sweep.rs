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
    branch_of(connection, session)?;
    execute(connection, "DELETE FROM sessions WHERE id = ?1", [session])?;
    for branch in unneeded(connection)? {
        execute(connection, "DELETE FROM found WHERE rowid IN (SELECT id FROM log WHERE branch = ?1)", [branch])?;
        for table in OF_BRANCH {
            execute(connection, &format!("DELETE FROM {table} WHERE branch = ?1"), [branch])?;
        }
        execute(connection, "DELETE FROM branches WHERE id = ?1", [branch])?;
    }
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

/// Branches that are in no session's past, the youngest first.
fn unneeded(connection: &Connection) -> Result<Vec<i64>> {
    let sql = "WITH RECURSIVE needed (id) AS (
                   SELECT branch FROM sessions
                   UNION SELECT parent FROM branches JOIN needed USING (id) WHERE parent IS NOT NULL)
               SELECT id FROM branches WHERE id NOT IN (SELECT id FROM needed) ORDER BY id DESC";
    connection
        .prepare(sql)
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .map_err(doing("delete a session"))
}

/// Columns that hold documents, and columns that hold the hash of one.
const DOCUMENTS: [&str; 4] =
    ["SELECT setup FROM sessions", "SELECT body FROM log", "SELECT record FROM requests", "SELECT record FROM summaries"];
const HASHES: [(&str, bool); 3] =
    [("SELECT hash FROM agents", true), ("SELECT DISTINCT message FROM placed", true), ("SELECT hash FROM outbox", false)];

/// Every text that something points to.
pub(super) fn needed(connection: &Connection) -> Result<BTreeSet<Hash>> {
    let failed = doing("look for texts that are needed");
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
    Ok(needed)
}

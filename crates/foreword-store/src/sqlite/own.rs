//! What sessions did themselves: the rows of all branches that are theirs, also of those that a rewind has left. What was taken over from
//! another session is that session's.

use std::collections::BTreeMap;

use rusqlite::types::Type;
use rusqlite::{Connection, Row, ToSql, named_params};
use serde_json::Value;

use super::read;
use crate::Result;
use crate::error::doing;
use crate::row::{Logged, Own, Paid, Summary};

pub(super) fn own(connection: &Connection, session: Option<&str>, kind: &str) -> Result<BTreeMap<String, Own>> {
    let mut all: BTreeMap<String, Own> = BTreeMap::new();
    // The branches come first in each join: what is looked for in the others stands under its branch.
    let sql = format!(
        "SELECT {}, l.request, l.broke, r.at_ms, r.began, b.session FROM branches b CROSS JOIN ledger l ON l.branch = b.id
         CROSS JOIN requests r ON r.branch = l.branch AND r.number = l.request
         WHERE (:session IS NULL OR b.session = :session) ORDER BY b.id, l.request",
        read::USAGE
    );
    each(connection, &sql, named_params! {":session": session}, |row| {
        let paid =
            Paid { number: row.get("request")?, at_ms: row.get("at_ms")?, began: row.get("began")?, usage: read::used(row)? };
        all.entry(row.get("session")?).or_default().requests.push(paid);
        Ok(())
    })?;
    let sql = "SELECT g.number, g.run, g.at_ms, g.cut_off, g.body, b.session FROM branches b
               CROSS JOIN log g ON g.branch = b.id AND g.kind = :kind
               WHERE (:session IS NULL OR b.session = :session) ORDER BY b.id, g.number";
    each(connection, sql, named_params! {":session": session, ":kind": kind}, |row| {
        let entry = Logged {
            number: row.get("number")?,
            kind: kind.to_owned(),
            run: row.get("run")?,
            at_ms: row.get("at_ms")?,
            cut_off: row.get("cut_off")?,
            body: json(row, "body")?,
        };
        all.entry(row.get("session")?).or_default().entries.push(entry);
        Ok(())
    })?;
    let sql = "SELECT s.number, s.at_ms, s.template, s.source, s.hash, s.model, s.record, b.session FROM branches b
               CROSS JOIN summaries s ON s.branch = b.id
               WHERE (:session IS NULL OR b.session = :session) ORDER BY b.id, s.number";
    each(connection, sql, named_params! {":session": session}, |row| {
        let summary = Summary { record: json(row, "record")?, ..read::summary(row)? };
        all.entry(row.get("session")?).or_default().summaries.push(summary);
        Ok(())
    })?;
    Ok(all)
}

fn each(
    connection: &Connection,
    sql: &str,
    values: &[(&str, &dyn ToSql)],
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> Result<()> {
    let failed = doing("read what sessions used");
    let mut statement = connection.prepare_cached(sql).map_err(&failed)?;
    let mut rows = statement.query(values).map_err(&failed)?;
    while let Some(row) = rows.next().map_err(&failed)? {
        read(row).map_err(&failed)?;
    }
    Ok(())
}

/// A document, with pointers in place of its long texts.
fn json(row: &Row<'_>, column: &str) -> rusqlite::Result<Value> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

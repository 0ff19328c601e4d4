//! A sum in every row, over its other columns, so that `check` sees each bit that changed since it was written. The database makes them
//! itself, by a function that every connection has.

use foreword_core::hash::Hash;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params};

use super::write::execute;
use crate::Result;
use crate::error::doing;
use crate::row::Fault;

/// A table, the columns of each row, and where their sum stands. What names a row comes first.
struct Summed {
    table: &'static str,
    columns: &'static str,
    sum: &'static str,
}

const fn summed(table: &'static str, columns: &'static str) -> Summed {
    Summed { table, columns, sum: "sum" }
}

const SUMMED: [Summed; 12] = [
    summed("agents", "hash, first_ms"),
    summed("branches", "id, parent, inputs, requests, session"),
    summed("sessions", "id, branch, title, created_ms, touched_ms, agent, setup, forked_from, transcript"),
    summed("parts", "branch, number, text"),
    summed("placed", "branch, position, since, until, message"),
    summed("context", "branch, position, since, until, item, entry"),
    summed(
        "ledger",
        "branch, request, model, read, write, uncached, output, cost, cost_uncached, broke, first_token_ms, total_ms",
    ),
    summed("outbox", "branch, hash"),
    summed("summaries", "branch, number, at_ms, template, source, hash, model, record"),
    summed("checkpoints", "branch, inputs, requests, body"),
    summed("journals", "name, taken, numbers"),
    Summed {
        table: "forwarded",
        columns: "id, status, read, write, uncached, output, cost, cost_uncached, first_token_ms, total_ms, about, came",
        sum: "answer_sum",
    },
];

/// Gives a connection the function.
pub(super) fn add_functions(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("foreword_sum", -1, flags, |context| Ok(sum(context).bytes().to_vec()))
}

fn sum(context: &Context<'_>) -> Hash {
    let mut bytes = Vec::with_capacity(256);
    for at in 0..context.len() {
        match context.get_raw(at) {
            ValueRef::Null => bytes.push(0),
            ValueRef::Integer(number) => {
                bytes.push(1);
                bytes.extend(number.to_le_bytes());
            }
            ValueRef::Real(number) => {
                bytes.push(2);
                bytes.extend(number.to_bits().to_le_bytes());
            }
            ValueRef::Text(text) => long(&mut bytes, 3, text),
            ValueRef::Blob(blob) => long(&mut bytes, 4, blob),
        }
    }
    Hash::of(bytes)
}

fn long(bytes: &mut Vec<u8>, kind: u8, value: &[u8]) {
    bytes.push(kind);
    bytes.extend((value.len() as u64).to_le_bytes());
    bytes.extend(value);
}

/// Puts the sums into rows of a table that were written, those that `which` names.
pub(super) fn seal(connection: &Connection, table: &'static str, which: &str, values: impl Params) -> Result<()> {
    let Some(Summed { columns, sum, .. }) = SUMMED.iter().find(|summed| summed.table == table) else { return Ok(()) };
    execute(connection, &format!("UPDATE {table} SET {sum} = foreword_sum({columns}) WHERE {which}"), values).map(drop)
}

/// Rows that are not as they were written.
pub(super) fn check(connection: &Connection) -> Result<Vec<Fault>> {
    let failed = doing("check the rows");
    let mut faults = Vec::new();
    for Summed { table, columns, sum } in &SUMMED {
        let (first, second) = columns.split_once(", ").unwrap_or((columns, columns));
        let second = second.split(", ").next().unwrap_or(second);
        let name = |column: &str| format!("CASE typeof({column}) WHEN 'blob' THEN lower(hex({column})) ELSE {column} END");
        let sql = format!(
            "SELECT {} || '/' || coalesce({}, '') FROM {table} WHERE {sum} IS NOT foreword_sum({columns})",
            name(first),
            name(second)
        );
        let mut statement = connection.prepare(&sql).map_err(&failed)?;
        let mut rows = statement.query([]).map_err(&failed)?;
        while let Some(row) = rows.next().map_err(&failed)? {
            let key: String = row.get(0).unwrap_or_default();
            let what = "changed since it was written".to_owned();
            faults.push(Fault { session: None, place: format!("{table} {key}"), what });
        }
    }
    Ok(faults)
}

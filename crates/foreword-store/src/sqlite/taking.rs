//! Taking in what stands in journals.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::sums::seal;
use super::{apart, write};
use crate::error::doing;
use crate::shared::Job;
use crate::{Result, StoreError};

/// The last write of a journal that is in the database.
pub(super) fn taken(connection: &Connection, name: &str) -> Result<u64> {
    let taken = connection
        .prepare_cached("SELECT taken FROM journals WHERE name = ?1")
        .and_then(|mut statement| statement.query_row([name], |row| row.get(0)).optional())
        .map_err(doing("read a journal"))?;
    Ok(taken.unwrap_or(0))
}

/// Takes writes in, and remembers that all up to the last of them are.
pub(super) fn all(connection: &Connection, name: &str, last: u64, jobs: &[Job]) -> Result<()> {
    jobs.iter().try_for_each(|job| write::job(connection, job).map(drop))?;
    reached(connection, name, last)
}

/// The same where some of them cannot be: what went wrong with those, which are lost. It is nothing that passes.
pub(super) fn each(connection: &Connection, name: &str, last: u64, jobs: &[Job]) -> Result<Vec<(usize, StoreError)>> {
    let mut never = Vec::new();
    for (at, job) in jobs.iter().enumerate() {
        match apart(connection, job) {
            Ok(_) => {}
            Err(error) if error.may_pass() || connection.is_autocommit() => return Err(error),
            Err(error) => never.push((at, error)),
        }
    }
    reached(connection, name, last)?;
    Ok(never)
}

/// Remembers that all writes up to that one are in the database.
fn reached(connection: &Connection, name: &str, last: u64) -> Result<()> {
    let sql = "INSERT INTO journals (name, taken, numbers) VALUES (?1, ?2, 0) ON CONFLICT (name) DO UPDATE SET taken = ?2";
    write::execute(connection, sql, params![name, last])?;
    seal(connection, "journals", "name = ?1", [name])
}

/// Sets numbers aside for requests that are passed on; the first of them.
pub(super) fn reserve(connection: &Connection, name: &str, count: u64) -> Result<u64> {
    let sql = "SELECT 1 + max(coalesce((SELECT max(id) FROM forwarded), 0), coalesce((SELECT max(numbers) FROM journals), 0))";
    let first: u64 = connection.query_row(sql, [], |row| row.get(0)).map_err(doing("record forwarded requests"))?;
    let sql = "INSERT INTO journals (name, taken, numbers) VALUES (?1, 0, ?2) ON CONFLICT (name) DO UPDATE SET numbers = ?2";
    write::execute(connection, sql, params![name, first + count - 1])?;
    seal(connection, "journals", "name = ?1", [name])?;
    Ok(first)
}

/// Forgets a journal whose files are gone.
pub(super) fn forget(connection: &Connection, name: &str) -> Result<()> {
    write::execute(connection, "DELETE FROM journals WHERE name = ?1", [name]).map(drop)
}

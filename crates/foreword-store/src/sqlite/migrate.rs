//! The format of the file: which one it has, and how an older one becomes the newest.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use crate::error::{cannot_open, doing};
use crate::{Result, StoreError};

/// Each brings a store from one format to the next. They are never changed once released, only added to.
pub(super) const MIGRATIONS: [&str; 5] = [
    include_str!("../migrations/0001.sql"),
    include_str!("../migrations/0002.sql"),
    include_str!("../migrations/0003.sql"),
    include_str!("../migrations/0004.sql"),
    include_str!("../migrations/0005.sql"),
];

/// Marks the file as one of ours: "FWRD".
const APPLICATION_ID: i32 = 0x4657_5244;

/// The newest format.
pub(super) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// Looks at the head of the file without taking part in its locks or its log, so that a database that is not ours to change is not touched.
/// SQLite does it: a file that this process opened and closed itself would lose the locks that its other connections hold on it.
pub(super) fn refuse_strangers(path: &Path) -> Result<()> {
    let file = super::immutable(path)?;
    let number = |name: &str| -> rusqlite::Result<i32> { file.pragma_query_value(None, name, |row| row.get(0)) };
    let not_one = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => cannot_open(path, "not a database"),
        _ => cannot_open(path, error),
    };
    let found = number("user_version").and_then(|version| Ok((version, number("application_id")?)));
    let (version, application) = match found {
        // Its log is just being brought into it, or that was cut off: without the log it makes no sense. Who opens it with the log looks again.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => return Ok(()),
        found => found.map_err(not_one)?,
    };
    let version = version.cast_unsigned();
    // A file whose tables are still in its log has neither.
    if version != 0 && application != APPLICATION_ID {
        return Err(StoreError::NotOurs(path.to_owned()));
    }
    if version > newest() {
        return Err(StoreError::Newer { path: path.to_owned(), found: version, known: newest() });
    }
    Ok(())
}

/// Looks at a database that was opened and not changed yet. What is in its log counts too.
pub(super) fn refuse_others(connection: &Connection, path: &Path) -> Result<()> {
    // Both at one moment: another process may be making the tables just now.
    let moment = connection.unchecked_transaction().map_err(|error| cannot_open(path, error))?;
    let read = |sql: &str| moment.query_row(sql, [], |row| row.get::<_, u32>(0)).map_err(|error| cannot_open(path, error));
    let (version, tables) = (read("PRAGMA user_version")?, read("SELECT count(*) FROM sqlite_schema")?);
    if version > newest() {
        return Err(StoreError::Newer { path: path.to_owned(), found: version, known: newest() });
    }
    if version == 0 && tables > 0 {
        return Err(StoreError::NotOurs(path.to_owned()));
    }
    let (strange, _) = strange(&moment, version).map_err(|error| cannot_open(path, error))?;
    if strange.is_empty() {
        return Ok(());
    }
    Err(StoreError::Planted { path: path.to_owned(), what: strange.join(", ") })
}

/// What a schema tells of: the kind and the name of each thing, and how it was made.
type Schema = BTreeMap<(String, String), Option<String>>;

fn schema(connection: &Connection) -> rusqlite::Result<Schema> {
    let mut statement = connection.prepare("SELECT type, name, sql FROM sqlite_schema")?;
    let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
    rows.collect()
}

/// Names what is in the schema of a database of that format and should not be, and what is missing from it. A store may come from a
/// stranger, and a trigger or a view in it would take part in everything that is done with it.
pub(super) fn strange(connection: &Connection, version: u32) -> rusqlite::Result<(Vec<String>, Vec<String>)> {
    let model = Connection::open_in_memory()?;
    super::add_functions(&model)?;
    for sql in MIGRATIONS.iter().take(usize::try_from(version).unwrap_or(usize::MAX)) {
        model.execute_batch(sql)?;
    }
    let (expected, found) = (schema(&model)?, schema(connection)?);
    // SQLite makes these itself where it is told to count rows, and its version of a search index decides how that one is kept.
    let is_own = |name: &str| name.starts_with("sqlite_stat") || name.starts_with("found_");
    let strange = found.iter().filter_map(|(key @ (kind, name), sql)| match expected.get(key) {
        Some(known) if known == sql || is_own(name) => None,
        Some(_) => Some(format!("the {kind} {name:?} with another definition")),
        None if kind == "table" && is_own(name) => None,
        None => Some(format!("the {kind} {name:?}")),
    });
    let missing = expected.keys().filter(|key| !found.contains_key(*key)).map(|(kind, name)| format!("the {kind} {name:?}"));
    Ok((strange.take(MAX_NAMED).collect(), missing.take(MAX_NAMED).collect()))
}

/// So many things are named.
const MAX_NAMED: usize = 20;

/// Brings the store to the newest format, each step by itself or not at all.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<()> {
    let failed = doing("migrate the store");
    loop {
        let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(&failed)?;
        if found > newest() {
            return Err(StoreError::Newer { path: path.to_owned(), found, known: newest() });
        }
        if found == newest() {
            return Ok(());
        }
        step(connection, found, path)?;
    }
}

/// Takes one step, unless another process just did.
fn step(connection: &mut Connection, found: u32, path: &Path) -> Result<()> {
    let failed = doing("migrate the store");
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
    let now: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(&failed)?;
    let tables: u32 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(&failed)?;
    if now == 0 && tables > 0 {
        return Err(StoreError::NotOurs(path.to_owned()));
    }
    if now == found {
        let at = usize::try_from(found).unwrap_or(usize::MAX);
        if let Some(sql) = MIGRATIONS.get(at) {
            transaction.execute_batch(sql).map_err(&failed)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(&failed)?;
            transaction.pragma_update(None, "user_version", found + 1).map_err(&failed)?;
        }
    }
    transaction.commit().map_err(&failed)
}

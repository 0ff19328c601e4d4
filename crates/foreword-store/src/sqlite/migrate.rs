//! The format of the file: which one it has, and how an older one becomes the newest.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::error::{cannot_open, doing};
use crate::{Result, StoreError};

/// Each brings a store from one format to the next. They are never changed once released, only added to.
pub(super) const MIGRATIONS: [&str; 3] =
    [include_str!("../migrations/0001.sql"), include_str!("../migrations/0002.sql"), include_str!("../migrations/0003.sql")];

/// Marks the file as one of ours: "FWRD".
const APPLICATION_ID: i32 = 0x4657_5244;

/// The newest format.
pub(super) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// Reads the head of the file by hand, so that a database that is not ours to change is not even opened.
pub(super) fn refuse_strangers(path: &Path) -> Result<()> {
    let mut head = [0; 100];
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot_open(path, error)),
    };
    let mut read = 0;
    while read < head.len() {
        match file.read(&mut head[read..]).map_err(|error| cannot_open(path, error))? {
            0 => break,
            more => read += more,
        }
    }
    if read == 0 {
        return Ok(()); // made by a process that ended before it wrote
    }
    if read < head.len() || !head.starts_with(b"SQLite format 3\0") {
        return Err(cannot_open(path, "it is not a database"));
    }
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (version, application) = (number(60), number(68));
    // A file whose tables are still in its log has neither.
    if version != 0 && application != APPLICATION_ID.cast_unsigned() {
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
    if version == 0 && tables > 0 { Err(StoreError::NotOurs(path.to_owned())) } else { Ok(()) }
}

/// Brings the store to the newest format, each step by itself or not at all.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<()> {
    let failed = doing("bring the store up to date");
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
    let failed = doing("bring the store up to date");
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

//! Other programs' databases, which are read and never written to.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

/// Larger ones are not copied.
const MOST_COPIED: u64 = 4 << 30;

/// A database that was opened, and the copy that it was made of where one was needed.
pub(crate) struct Database {
    pub(crate) connection: Connection,
    _copy: Option<tempfile::TempDir>,
}

/// Opens a database of another program. What that program has not brought into the file yet stands in a second one beside it (`-wal`): then
/// copies of both are read, so that nothing is written where the program works.
pub(crate) fn open(path: &Path) -> Result<Database, String> {
    let facts = fs::metadata(path).map_err(|error| error.to_string())?;
    if !facts.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let wal = beside(path, "-wal");
    let waits = fs::metadata(&wal).is_ok_and(|facts| facts.len() > 0);
    if !waits {
        return Ok(Database { connection: connect(path)?, _copy: None });
    }
    if facts.len() > MOST_COPIED {
        return Err(format!("it has {} bytes and is in use; end the program that writes it and try again", facts.len()));
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let copy = folder.path().join("copy.db");
    fs::copy(path, &copy).and_then(|_| fs::copy(&wal, beside(&copy, "-wal"))).map_err(|error| error.to_string())?;
    // The copy is ours: it may be written to, so that SQLite can bring the two together.
    let connection = Connection::open(&copy).map_err(|error| error.to_string())?;
    Ok(Database { connection: careful(connection)?, _copy: Some(folder) })
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn connect(path: &Path) -> Result<Connection, String> {
    let path = path.to_str().ok_or("its path is not UTF-8")?;
    let escaped = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags);
    careful(connection.map_err(|error| error.to_string())?)
}

/// Someone else made this file: nothing in it is executed.
fn careful(connection: Connection) -> Result<Connection, String> {
    connection
        .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON;")
        .map_err(|error| error.to_string())?;
    Ok(connection)
}

/// Whether a table, and of it a column, is there.
pub(crate) fn has(connection: &Connection, table: &str, column: &str) -> bool {
    connection
        .prepare("SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2")
        .and_then(|mut statement| statement.exists([table, column]))
        .unwrap_or(false)
}

/// A column that may be missing in older versions.
pub(crate) fn or_null<'a>(connection: &Connection, table: &str, column: &'a str) -> &'a str {
    if has(connection, table, column) { column } else { "NULL" }
}

//! Requests that were passed on untouched. A body is kept in pieces: the next one of a conversation begins like it, so the pieces they
//! share are there once.

use foreword_core::hash::Hash;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use super::read;
use super::sums::seal;
use super::write::{execute, text};
use crate::error::doing;
use crate::row::{Answered, Fault, Forwarded, NewForwarded};
use crate::{Result, StoreError};

/// Bytes of a piece, or a few less where a character would be cut.
const PIECE: usize = 16 << 10;

/// Records that one is about to be sent, under a number that was set aside or the next one.
pub(super) fn sent(connection: &Connection, number: Option<u64>, new: &NewForwarded, about: Option<&str>) -> Result<u64> {
    let mut pieces = Vec::new();
    for piece in cut(&new.body) {
        pieces.extend_from_slice(text(connection, piece)?.bytes());
    }
    let sum = sum(new.at_ms, &new.front, &new.model, new.session.as_deref(), &pieces);
    let sql =
        "INSERT INTO forwarded (id, at_ms, front, model, session, pieces, sum, about) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let values = params![number, new.at_ms, new.front, new.model, new.session, pieces, &sum.bytes()[..], about];
    execute(connection, sql, values)?;
    let number = connection.last_insert_rowid();
    seal(connection, "forwarded", "id = ?1", [number])?;
    u64::try_from(number).map_err(|_| StoreError::Damaged("a row has a number below 0".to_owned()))
}

/// Records what came of one.
pub(super) fn answered(connection: &Connection, number: u64, answered: &Answered, about: Option<&str>) -> Result<()> {
    let sql =
        "UPDATE forwarded SET status = ?2, read = ?3, write = ?4, uncached = ?5, output = ?6, cost = ?7, cost_uncached = ?8,
               first_token_ms = ?9, total_ms = ?10, came = ?11 WHERE id = ?1";
    let used = &answered.usage;
    let values = params![
        number,
        answered.status,
        used.read,
        used.write,
        used.uncached,
        used.output,
        used.cost,
        used.cost_uncached,
        used.first_token_ms,
        used.total_ms,
        about
    ];
    execute(connection, sql, values)?;
    seal(connection, "forwarded", "id = ?1", [number])
}

fn cut(mut body: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = body.split_at(body.floor_char_boundary(PIECE));
        body = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

fn sum(at_ms: i64, front: &str, model: &str, session: Option<&str>, pieces: &[u8]) -> Hash {
    Hash::of(format!("{at_ms}\n{front}\n{model}\n{session:?}\n{}", Hash::of(pieces)))
}

/// All of them, the first one first.
pub(super) fn all(connection: &Connection) -> Result<Vec<Forwarded>> {
    rows(connection, "ORDER BY id", [])
}

/// Those with a lower number, the last one first.
pub(super) fn before(connection: &Connection, before: Option<u64>, most: usize) -> Result<Vec<Forwarded>> {
    // No row has a higher number than SQLite's largest.
    let largest = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let (before, most) = (before.map_or(i64::MAX, largest), i64::try_from(most).unwrap_or(i64::MAX));
    rows(connection, "WHERE id < ?1 ORDER BY id DESC LIMIT ?2", params![before, most])
}

/// Those of one session, the first one first.
pub(super) fn of(connection: &Connection, session: &str) -> Result<Vec<Forwarded>> {
    rows(connection, "WHERE session = ?1 ORDER BY id", [session])
}

fn rows(connection: &Connection, which: &str, values: impl Params) -> Result<Vec<Forwarded>> {
    let sql = format!("SELECT {}, id, at_ms, front, session, status, about, came FROM forwarded {which}", read::USAGE);
    let one = |row: &Row<'_>| {
        Ok(Forwarded {
            number: row.get("id")?,
            at_ms: row.get("at_ms")?,
            front: row.get("front")?,
            session: row.get("session")?,
            status: row.get("status")?,
            usage: read::usage(row)?,
            about: row.get("about")?,
            came: row.get("came")?,
        })
    };
    connection
        .prepare_cached(&sql)
        .and_then(|mut statement| statement.query_map(values, one)?.collect())
        .map_err(doing("read forwarded requests"))
}

/// The body of one.
pub(super) fn body(connection: &Connection, number: u64) -> Result<String> {
    let pieces: Option<Vec<u8>> = connection
        .prepare_cached("SELECT pieces FROM forwarded WHERE id = ?1")
        .and_then(|mut statement| statement.query_row([number], |row| row.get(0)).optional())
        .map_err(doing("read forwarded requests"))?;
    let pieces = pieces.ok_or_else(|| StoreError::Refused(format!("there is no forwarded request {number}")))?;
    hashes(&pieces).map(|hash| read::text(connection, hash)).collect()
}

fn hashes(pieces: &[u8]) -> impl Iterator<Item = Hash> {
    pieces.as_chunks::<32>().0.iter().map(|bytes| Hash::from(*bytes))
}

/// Tells of every piece that is needed.
pub(super) fn pieces(connection: &Connection, found: &mut dyn FnMut(Hash)) -> Result<()> {
    let failed = doing("find unused texts");
    let mut statement = connection.prepare("SELECT pieces FROM forwarded").map_err(&failed)?;
    let mut rows = statement.query([]).map_err(&failed)?;
    while let Some(row) = rows.next().map_err(&failed)? {
        hashes(row.get_ref(0).and_then(|pieces| Ok(pieces.as_blob()?)).map_err(&failed)?).for_each(&mut *found);
    }
    Ok(())
}

/// Rows that are not as they were written.
pub(super) fn check(connection: &Connection) -> Result<Vec<Fault>> {
    let failed = doing("check forwarded requests");
    let mut statement =
        connection.prepare("SELECT id, at_ms, front, model, session, pieces, sum FROM forwarded").map_err(&failed)?;
    let row = |row: &Row<'_>| {
        let (front, model, session): (String, String, Option<String>) = (row.get(2)?, row.get(3)?, row.get(4)?);
        let (pieces, kept): (Vec<u8>, Vec<u8>) = (row.get(5)?, row.get(6)?);
        let whole = sum(row.get(1)?, &front, &model, session.as_deref(), &pieces).bytes()[..] == kept;
        Ok((row.get::<_, i64>(0)?, whole))
    };
    let rows: Vec<(i64, bool)> = statement.query_map([], row).and_then(Iterator::collect).map_err(&failed)?;
    let broken = rows.into_iter().filter(|(_, whole)| !whole);
    let fault =
        |(id, _)| Fault { session: None, place: format!("forwarded {id}"), what: "changed since it was written".to_owned() };
    Ok(broken.map(fault).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pieces_share_their_beginning() {
        let check = |body: &str, expect: &[usize]| assert_eq!(cut(body).map(str::len).collect::<Vec<_>>(), expect);
        check("", &[]);
        check("x", &[1]);
        check(&"x".repeat(PIECE), &[PIECE]);
        check(&"x".repeat(PIECE + 1), &[PIECE, 1]);
        check(&("x".to_owned() + &"ä".repeat(PIECE)), &[PIECE - 1, PIECE, 2]);
    }

    proptest! {
        #[test]
        fn pieces_are_the_body(body in "[aäあ🦀]{0,9000}", more in ".{0,9}") {
            prop_assert_eq!(cut(&body).collect::<String>(), body.as_str());
            let longer = format!("{body}{more}");
            let settled = cut(&body).count().saturating_sub(1);
            prop_assert!(cut(&body).zip(cut(&longer)).take(settled).all(|(a, b)| a == b));
        }
    }
}

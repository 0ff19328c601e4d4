//! Reading a session back.

use foreword_core::hash::Hash;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::Value;

use super::branch_of;
use super::lineage::{Stretch, counts, lineage, of_request};
use crate::error::doing;
use crate::packed::unpack;
use crate::row::{Checkpoint, Counts, Logged, Request, SessionRow, Summary, Usage};
use crate::{Result, StoreError};

const SESSION: &str = "SELECT id, title, created_ms, touched_ms, agent, setup, forked_from, transcript, branch FROM sessions";

type Raw = (SessionRow, String, i64);

fn session_row(row: &Row<'_>) -> rusqlite::Result<Raw> {
    let transcript: Option<String> = row.get(7)?;
    let session = SessionRow {
        id: row.get(0)?,
        title: row.get(1)?,
        created_ms: row.get(2)?,
        touched_ms: row.get(3)?,
        agent: Hash::from(row.get::<_, [u8; 32]>(4)?),
        setup: Value::Null,
        forked_from: row.get(6)?,
        transcript: transcript.and_then(|file| serde_json::from_str(&file).ok()),
        counts: Counts::default(),
        taken: Counts::default(),
    };
    Ok((session, row.get(5)?, row.get(8)?))
}

fn whole(connection: &Connection, (mut session, setup, branch): Raw) -> Result<SessionRow> {
    session.setup = document(connection, &setup)?;
    session.counts = counts(connection, branch)?;
    session.taken = connection
        .prepare_cached("SELECT inputs, requests FROM branches WHERE id = ?1")
        .and_then(|mut statement| statement.query_row([branch], |row| Ok(Counts { inputs: row.get(0)?, requests: row.get(1)? })))
        .map_err(doing("find a session"))?;
    Ok(session)
}

pub(super) fn sessions(connection: &Connection) -> Result<Vec<SessionRow>> {
    let rows: Vec<Raw> = connection
        .prepare_cached(&format!("{SESSION} ORDER BY touched_ms DESC, id"))
        .and_then(|mut statement| statement.query_map([], session_row)?.collect())
        .map_err(doing("list sessions"))?;
    rows.into_iter().map(|raw| whole(connection, raw)).collect()
}

pub(super) fn session(connection: &Connection, id: &str) -> Result<SessionRow> {
    let raw = connection
        .prepare_cached(&format!("{SESSION} WHERE id = ?1"))
        .and_then(|mut statement| statement.query_row([id], session_row).optional())
        .map_err(doing("find a session"))?;
    whole(connection, raw.ok_or_else(|| StoreError::NoSession(id.to_owned()))?)
}

pub(super) fn text(connection: &Connection, hash: Hash) -> Result<String> {
    let body: Option<Vec<u8>> = connection
        .prepare_cached("SELECT body FROM texts WHERE hash = ?1")
        .and_then(|mut statement| statement.query_row([&hash.bytes()[..]], |row| row.get(0)).optional())
        .map_err(doing("read a text"))?;
    let body = body.ok_or_else(|| StoreError::Damaged(format!("the text {hash} is missing")))?;
    String::from_utf8(body).map_err(|_| StoreError::Damaged(format!("the text {hash} is not UTF-8")))
}

/// A document with its long texts back in place.
pub(super) fn document(connection: &Connection, json: &str) -> Result<Value> {
    let value = serde_json::from_str(json).map_err(|error| StoreError::Damaged(format!("a document is not JSON: {error}")))?;
    unpack(value, &mut |hash| text(connection, hash))
}

fn stretches(connection: &Connection, session: &str) -> Result<Vec<Stretch>> {
    lineage(connection, branch_of(connection, session)?)
}

pub(super) fn summaries(connection: &Connection, session: &str, most: usize) -> Result<Vec<Summary>> {
    let mut found = Vec::new();
    for stretch in stretches(connection, session)?.into_iter().rev() {
        let left = most.saturating_sub(found.len());
        if left == 0 {
            break;
        }
        for mut summary in summaries_of(connection, stretch, left)?.into_iter().rev() {
            summary.record = unpack(summary.record, &mut |hash| text(connection, hash))?;
            found.push(summary);
        }
    }
    found.reverse();
    Ok(found)
}

/// The newest of a stretch, oldest first, with pointers in place of long texts.
pub(super) fn summaries_of(connection: &Connection, stretch: Stretch, most: usize) -> Result<Vec<Summary>> {
    let sql = "SELECT number, at_ms, template, source, hash, model, record FROM summaries
               WHERE branch = ?1 AND number >= ?2 AND number < ?3 ORDER BY number DESC LIMIT ?4";
    let read = |row: &Row<'_>| Ok((summary(row)?, row.get(6)?));
    let rows: Vec<(Summary, String)> = connection
        .prepare_cached(sql)
        .and_then(|mut statement| {
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            statement.query_map(params![stretch.branch, stretch.from.inputs, stretch.until.inputs, most], read)?.collect()
        })
        .map_err(doing("read the summaries of a session"))?;
    let whole = |(summary, record): (Summary, String)| {
        let record =
            serde_json::from_str(&record).map_err(|error| StoreError::Damaged(format!("a summary is not JSON: {error}")))?;
        Ok(Summary { record, ..summary })
    };
    rows.into_iter().rev().map(whole).collect()
}

/// A summary without its record.
pub(super) fn summary(row: &Row<'_>) -> rusqlite::Result<Summary> {
    Ok(Summary {
        number: row.get(0)?,
        at_ms: row.get(1)?,
        template: row.get(2)?,
        source: row.get(3)?,
        hash: Hash::from(row.get::<_, [u8; 32]>(4)?),
        model: row.get(5)?,
        record: Value::Null,
    })
}

pub(super) fn log(connection: &Connection, session: &str, from: u64) -> Result<Vec<Logged>> {
    let mut entries = Vec::new();
    for stretch in stretches(connection, session)? {
        log_of(connection, stretch, from, &mut |mut entry, body| {
            entry.body = document(connection, &body)?;
            entries.push(entry);
            Ok(())
        })?;
    }
    Ok(entries)
}

pub(super) fn log_packed(connection: &Connection, session: &str, from: u64) -> Result<Vec<Logged>> {
    let mut entries = Vec::new();
    for stretch in stretches(connection, session)? {
        log_of(connection, stretch, from, &mut |mut entry, body| {
            entry.body = serde_json::from_str(&body).map_err(|error| {
                StoreError::Damaged(format!("entry {} of session {session} is not JSON: {error}", entry.number))
            })?;
            entries.push(entry);
            Ok(())
        })?;
    }
    Ok(entries)
}

/// The raw rows of a stretch.
pub(super) fn log_of(
    connection: &Connection,
    stretch: Stretch,
    from: u64,
    each: &mut dyn FnMut(Logged, String) -> Result<()>,
) -> Result<()> {
    let failed = doing("read a session's log");
    let sql = "SELECT number, kind, run, at_ms, cut_off, body FROM log
               WHERE branch = ?1 AND number >= ?2 AND number < ?3 ORDER BY number";
    let mut statement = connection.prepare_cached(sql).map_err(&failed)?;
    let from = from.max(stretch.from.inputs);
    let mut rows = statement.query(params![stretch.branch, from, stretch.until.inputs]).map_err(&failed)?;
    while let Some(row) = rows.next().map_err(&failed)? {
        let read = |row: &Row<'_>| -> rusqlite::Result<(Logged, String)> {
            let entry = Logged {
                number: row.get(0)?,
                kind: row.get(1)?,
                run: row.get(2)?,
                at_ms: row.get(3)?,
                cut_off: row.get(4)?,
                body: Value::Null,
            };
            Ok((entry, row.get(5)?))
        };
        let (entry, body) = read(row).map_err(&failed)?;
        each(entry, body)?;
    }
    Ok(())
}

pub(super) fn parts(connection: &Connection, session: &str) -> Result<Vec<String>> {
    let branch = branch_of(connection, session)?;
    connection
        .prepare_cached("SELECT text FROM parts WHERE branch = ?1 ORDER BY number")
        .and_then(|mut statement| statement.query_map([branch], |row| row.get(0))?.collect())
        .map_err(doing("read the parts of a reply"))
}

const REQUEST: &str = "SELECT number, input, run, epoch, began, at_ms, combined, wire, tokens, record, messages FROM requests";

fn request_row(row: &Row<'_>) -> rusqlite::Result<(Request, String, u64)> {
    let request = Request {
        number: row.get(0)?,
        input: row.get(1)?,
        run: row.get(2)?,
        epoch: row.get(3)?,
        began: row.get(4)?,
        at_ms: row.get(5)?,
        combined: row.get::<_, [u8; 32]>(6)?.into(),
        wire: row.get::<_, [u8; 32]>(7)?.into(),
        tokens: row.get(8)?,
        messages: row.get(10)?,
        record: Value::Null,
    };
    Ok((request, row.get(9)?, row.get(10)?))
}

/// The raw rows of a stretch: envelope, record, number of messages.
pub(super) fn requests_of(connection: &Connection, stretch: Stretch) -> Result<Vec<(Request, String, u64)>> {
    let sql = format!("{REQUEST} WHERE branch = ?1 AND number >= ?2 AND number < ?3 ORDER BY number");
    connection
        .prepare_cached(&sql)
        .and_then(|mut statement| {
            let range = params![stretch.branch, stretch.from.requests, stretch.until.requests];
            statement.query_map(range, request_row)?.collect()
        })
        .map_err(doing("read a session's requests"))
}

pub(super) fn requests(connection: &Connection, session: &str) -> Result<Vec<Request>> {
    let mut requests = Vec::new();
    for stretch in stretches(connection, session)? {
        for (request, record, _) in requests_of(connection, stretch)? {
            requests.push(Request { record: document(connection, &record)?, ..request });
        }
    }
    Ok(requests)
}

/// A request with the branch it stands in and the number of its messages.
fn find(connection: &Connection, session: &str, number: u64) -> Result<(Request, i64, u64)> {
    let missing = || StoreError::NoRequest { session: session.to_owned(), request: number };
    let branch = of_request(&stretches(connection, session)?, number).ok_or_else(missing)?;
    let found = connection
        .prepare_cached(&format!("{REQUEST} WHERE branch = ?1 AND number = ?2"))
        .and_then(|mut statement| statement.query_row(params![branch, number], request_row).optional())
        .map_err(doing("read a request"))?;
    let (request, record, messages) = found.ok_or_else(missing)?;
    Ok((Request { record: document(connection, &record)?, ..request }, branch, messages))
}

pub(super) fn request(connection: &Connection, session: &str, number: u64) -> Result<Request> {
    find(connection, session, number).map(|(request, _, _)| request)
}

pub(super) fn messages(connection: &Connection, session: &str, number: u64) -> Result<Vec<Value>> {
    let hashes = message_hashes(connection, session, number)?;
    hashes.into_iter().map(|hash| document(connection, &text(connection, hash)?)).collect()
}

pub(super) fn message_hashes(connection: &Connection, session: &str, number: u64) -> Result<Vec<Hash>> {
    let (_, branch, count) = find(connection, session, number)?;
    let hashes = placed(connection, branch, number)?;
    if hashes.len() as u64 != count {
        let what = format!("request {number} of session {session} has {} stored messages, but {count} were sent", hashes.len());
        return Err(StoreError::Damaged(what));
    }
    Ok(hashes)
}

/// The hashes of a request's messages.
pub(super) fn placed(connection: &Connection, branch: i64, number: u64) -> Result<Vec<Hash>> {
    let sql = "SELECT message FROM placed WHERE branch = ?1 AND since <= ?2 AND (until IS NULL OR until > ?2) ORDER BY position";
    let hashes: Vec<[u8; 32]> = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_map(params![branch, number], |row| row.get(0))?.collect())
        .map_err(doing("read the messages of a request"))?;
    Ok(hashes.into_iter().map(Hash::from).collect())
}

pub(super) fn context(connection: &Connection, session: &str, number: u64) -> Result<Vec<Value>> {
    let (_, branch, _) = find(connection, session, number)?;
    let sql = "SELECT entry FROM context WHERE branch = ?1 AND since <= ?2 AND (until IS NULL OR until > ?2) ORDER BY position";
    let entries: Vec<String> = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_map(params![branch, number], |row| row.get(0))?.collect())
        .map_err(doing("read the items of a request"))?;
    let parsed = entries.iter().map(|entry| serde_json::from_str(entry));
    parsed.collect::<serde_json::Result<_>>().map_err(|error| StoreError::Damaged(format!("an item is not JSON: {error}")))
}

pub(super) fn ledger(connection: &Connection, session: &str) -> Result<Vec<(u64, Usage)>> {
    let mut all = Vec::new();
    for stretch in stretches(connection, session)? {
        all.extend(ledger_of(connection, stretch)?);
    }
    Ok(all)
}

pub(super) fn ledger_of(connection: &Connection, stretch: Stretch) -> Result<Vec<(u64, Usage)>> {
    let sql = format!(
        "SELECT {USAGE}, request, broke FROM ledger WHERE branch = ?1 AND request >= ?2 AND request < ?3 ORDER BY request"
    );
    let used = |row: &Row<'_>| Ok((row.get("request")?, used(row)?));
    connection
        .prepare_cached(&sql)
        .and_then(|mut statement| {
            statement.query_map(params![stretch.branch, stretch.from.requests, stretch.until.requests], used)?.collect()
        })
        .map_err(doing("read the ledger"))
}

/// The columns of what a request used, which come first where they are read.
pub(super) const USAGE: &str = "model, read, write, uncached, output, cost, cost_uncached, first_token_ms, total_ms";

/// What a request used.
pub(super) fn usage(row: &Row<'_>) -> rusqlite::Result<Usage> {
    Ok(Usage {
        model: row.get(0)?,
        read: row.get(1)?,
        write: row.get(2)?,
        uncached: row.get(3)?,
        output: row.get(4)?,
        cost: row.get(5)?,
        cost_uncached: row.get(6)?,
        first_token_ms: row.get(7)?,
        total_ms: row.get(8)?,
        broke: None,
    })
}

/// The same, with what broke the cache.
pub(super) fn used(row: &Row<'_>) -> rusqlite::Result<Usage> {
    let broke: Option<String> = row.get("broke")?;
    Ok(Usage { broke: broke.and_then(|broke| serde_json::from_str(&broke).ok()), ..usage(row)? })
}

/// The newest checkpoint of the branch, or of one it came from, that lies within the session's own past.
pub(super) fn checkpoint(connection: &Connection, session: &str) -> Result<Option<Checkpoint>> {
    let sql = "SELECT inputs, requests, body FROM checkpoints WHERE branch = ?1 AND inputs <= ?2 AND requests <= ?3";
    for stretch in stretches(connection, session)?.into_iter().rev() {
        let found = connection
            .prepare_cached(sql)
            .and_then(|mut statement| {
                let limits = params![stretch.branch, stretch.until.inputs, stretch.until.requests];
                let read = |row: &Row<'_>| {
                    Ok(Checkpoint { counts: Counts { inputs: row.get(0)?, requests: row.get(1)? }, body: row.get(2)? })
                };
                statement.query_row(limits, read).optional()
            })
            .map_err(doing("read a checkpoint"))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

//! A session as one value, and back. What comes in is checked as if a stranger had written it.

use std::collections::{BTreeMap, BTreeSet};

use foreword_core::hash::Hash;
use rusqlite::{Connection, params};
use serde_json::Value;

use super::branch_of;
use super::lineage::lineage;
use super::read::{ledger_of, log_of, requests_of, session, summaries_of, text};
use super::sums::seal;
use super::write::{self, envelope, execute, logged, summary, usage};
use crate::error::doing;
use crate::packed::{Document, pointers};
use crate::row::{Counts, Dump, DumpError, Entry, Interval, Request};
use crate::{Result, StoreError};

const FORMAT: u32 = 1;

/// In milliseconds since 1970.
const YEAR_10000: i64 = 253_402_300_800_000;

/// No title is longer.
const MOST_TITLE: usize = 500;

pub(super) fn dump(connection: &Connection, id: &str) -> Result<Dump> {
    let row = session(connection, id)?;
    let stretches = lineage(connection, branch_of(connection, id)?)?;
    let mut dump = Dump {
        foreword_session: FORMAT,
        id: row.id,
        title: row.title,
        created_ms: row.created_ms,
        touched_ms: row.touched_ms,
        agent: row.agent,
        setup: row.setup,
        log: Vec::new(),
        requests: Vec::new(),
        placed: Vec::new(),
        context: Vec::new(),
        ledger: Vec::new(),
        outbox: Vec::new(),
        summaries: Vec::new(),
        texts: BTreeMap::new(),
    };
    for stretch in stretches {
        log_of(connection, stretch, 0, &mut |entry, body| {
            let body = json(&body)?;
            let (kind, run, at_ms, cut_off) = (entry.kind, entry.run, entry.at_ms, entry.cut_off);
            dump.log.push(Entry { kind, run, at_ms, cut_off, body });
            Ok(())
        })?;
        for (request, record, _) in requests_of(connection, stretch)? {
            dump.requests.push(Request { record: json(&record)?, ..request });
        }
        dump.ledger.extend(ledger_of(connection, stretch)?);
        dump.summaries.extend(summaries_of(connection, stretch, usize::MAX)?);
        let end = stretch.until.requests;
        dump.placed.extend(intervals(connection, "placed", "lower(hex(message))", stretch.branch, end)?);
        dump.context.extend(intervals(connection, "context", "entry", stretch.branch, end)?);
        dump.outbox.extend(hashes(connection, "SELECT hash FROM outbox WHERE branch = ?1 ORDER BY hash", stretch.branch)?);
    }
    gather(connection, &mut dump)?;
    Ok(dump)
}

fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| StoreError::Damaged(format!("a document is not JSON: {error}")))
}

fn hashes(connection: &Connection, sql: &str, branch: i64) -> Result<Vec<Hash>> {
    let found: Vec<[u8; 32]> = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_map([branch], |row| row.get(0))?.collect())
        .map_err(doing("read a session"))?;
    Ok(found.into_iter().map(Hash::from).collect())
}

/// What stood where in a branch, up to a request. At the end of a stretch everything that still stands ends.
fn intervals(connection: &Connection, table: &str, value: &str, branch: i64, end: u64) -> Result<Vec<Interval>> {
    let sql =
        format!("SELECT position, since, until, {value} FROM {table} WHERE branch = ?1 AND since < ?2 ORDER BY since, position");
    let rows: Vec<(u64, u64, Option<u64>, String)> = connection
        .prepare_cached(&sql)
        .and_then(|mut statement| {
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
            statement.query_map(params![branch, end], read)?.collect()
        })
        .map_err(doing("read a session"))?;
    let is_last = end == i64::MAX.cast_unsigned();
    let value = |text: String| if table == "context" { json(&text) } else { Ok(Value::String(text)) };
    let interval = |(position, since, until, text): (u64, u64, Option<u64>, String)| {
        let until = if is_last { until } else { Some(until.map_or(end, |until| until.min(end))) };
        Ok(Interval { position, since, until, value: value(text)? })
    };
    rows.into_iter().map(interval).collect()
}

/// Adds every text that something in the dump points to.
fn gather(connection: &Connection, dump: &mut Dump) -> Result<()> {
    let mut open: Vec<Hash> = vec![dump.agent];
    open.extend(&dump.outbox);
    open.extend(dump.placed.iter().filter_map(|interval| serde_json::from_value::<Hash>(interval.value.clone()).ok()));
    for value in dump
        .log
        .iter()
        .map(|input| &input.body)
        .chain(dump.requests.iter().map(|request| &request.record))
        .chain(dump.summaries.iter().map(|summary| &summary.record))
    {
        pointers(value, &mut |hash| open.push(hash));
    }
    let outputs: BTreeSet<Hash> = dump.outbox.iter().copied().collect();
    let documents: BTreeSet<Hash> = std::iter::once(dump.agent)
        .chain(dump.placed.iter().filter_map(|interval| serde_json::from_value(interval.value.clone()).ok()))
        .collect();
    while let Some(hash) = open.pop() {
        if dump.texts.contains_key(&hash) {
            continue;
        }
        let body = text(connection, hash)?;
        if documents.contains(&hash) && !outputs.contains(&hash) {
            pointers(&json(&body)?, &mut |hash| open.push(hash));
        }
        dump.texts.insert(hash, body);
    }
    Ok(())
}

pub(super) fn load(connection: &Connection, dump: &Dump) -> Result<()> {
    check(dump)?;
    for body in dump.texts.values() {
        write::text(connection, body)?;
    }
    let setup = Document::of(&dump.setup).map_err(|error| wrong("setup", error))?;
    let setup = write::packed(connection, &setup)?;
    let agent = &dump.agent.bytes()[..];
    write::first_agent(connection, agent, dump.created_ms)?;
    let branch = write::new_branch(connection, None, Counts::default(), &dump.id)?;
    let sql = "INSERT OR IGNORE INTO sessions (id, branch, title, created_ms, touched_ms, agent, setup)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let row = params![dump.id, branch, dump.title, dump.created_ms, dump.touched_ms, agent, setup];
    if execute(connection, sql, row)? == 0 {
        return Err(StoreError::Exists(dump.id.clone()));
    }
    seal(connection, "sessions", "id = ?1", [&dump.id])?;
    for (number, input) in (0..).zip(&dump.log) {
        logged(connection, branch, number, input, &foreword_core::json::to_string(&input.body))?;
    }
    for (request, messages) in dump.requests.iter().zip(standing(dump)) {
        envelope(connection, branch, request, messages, &foreword_core::json::to_string(&request.record))?;
    }
    for Interval { position, since, until, value } in &dump.placed {
        let hash: Hash = serde_json::from_value(value.clone()).map_err(|error| wrong("placed", error))?;
        let sql = "INSERT INTO placed (branch, position, since, until, message, sum)
                   VALUES (?1, ?2, ?3, ?4, ?5, foreword_sum(?1, ?2, ?3, ?4, ?5))";
        execute(connection, sql, params![branch, position, since, until, &hash.bytes()[..]])?;
    }
    for Interval { position, since, until, value } in &dump.context {
        let item = value.get("item").and_then(Value::as_str).unwrap_or_default();
        let sql = "INSERT INTO context (branch, position, since, until, item, entry, sum)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, foreword_sum(?1, ?2, ?3, ?4, ?5, ?6))";
        let entry = foreword_core::json::to_string(value);
        execute(connection, sql, params![branch, position, since, until, item, entry])?;
    }
    for (request, used) in &dump.ledger {
        usage(connection, branch, *request, used)?;
    }
    for new in &dump.summaries {
        summary(connection, branch, new.number, new, &foreword_core::json::to_string(&new.record))?;
    }
    for hash in &dump.outbox {
        let sql = "INSERT OR IGNORE INTO outbox (branch, hash, sum) VALUES (?1, ?2, foreword_sum(?1, ?2))";
        execute(connection, sql, params![branch, &hash.bytes()[..]])?;
    }
    Ok(())
}

/// How many messages each request has.
fn standing(dump: &Dump) -> Vec<u64> {
    let mut begin = vec![0; dump.requests.len() + 1];
    let mut end = begin.clone();
    let at = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(dump.requests.len());
    for interval in &dump.placed {
        begin[at(interval.since)] += 1;
        end[at(interval.until.unwrap_or(u64::MAX))] += 1;
    }
    let mut now = 0;
    let count = |(begin, end): (&u64, &u64)| {
        now = now + begin - end;
        now
    };
    begin.iter().zip(&end).map(count).take(dump.requests.len()).collect()
}

fn wrong(place: impl Into<String>, what: impl std::fmt::Display) -> StoreError {
    DumpError { place: place.into(), what: what.to_string() }.into()
}

/// Everything that SQLite would not refuse by itself.
fn check(dump: &Dump) -> Result<()> {
    if dump.foreword_session != FORMAT {
        return Err(wrong("foreword_session", format!("format {}; this version supports {FORMAT}", dump.foreword_session)));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if dump.id.is_empty() || dump.id.len() > 64 || dump.id == "last" || !dump.id.chars().all(is_name) {
        return Err(wrong("id", format!("{:?} is not a session ID", dump.id)));
    }
    for (name, time) in [("created_ms", dump.created_ms), ("touched_ms", dump.touched_ms)] {
        if !(0..YEAR_10000).contains(&time) {
            return Err(wrong(name, format!("{time} is not a time in milliseconds since 1970")));
        }
    }
    if dump.title.as_ref().is_some_and(|title| title.chars().count() > MOST_TITLE) {
        return Err(wrong("title", format!("more than {MOST_TITLE} characters")));
    }
    for (hash, body) in &dump.texts {
        if Hash::of(body) != *hash {
            return Err(wrong(format!("texts.{hash}"), "the text does not match its hash"));
        }
    }
    let known = |hash: Hash, place: &dyn Fn() -> String| {
        if dump.texts.contains_key(&hash) { Ok(()) } else { Err(wrong(place(), format!("the text {hash} is not in the file"))) }
    };
    let follow = |value: &Value, place: &dyn Fn() -> String| {
        let mut result = Ok(());
        pointers(value, &mut |hash| {
            if result.is_ok() {
                result = known(hash, place);
            }
        });
        result
    };
    let document = |hash: Hash, place: &dyn Fn() -> String| {
        known(hash, place)?;
        let body = dump.texts.get(&hash).map(String::as_str).unwrap_or_default();
        follow(&serde_json::from_str(body).map_err(|error| wrong(place(), error))?, place)
    };
    document(dump.agent, &|| "agent".to_owned())?;
    for (at, input) in dump.log.iter().enumerate() {
        follow(&input.body, &|| format!("log[{at}].body"))?;
    }
    for (at, request) in dump.requests.iter().enumerate() {
        let place = || format!("requests[{at}]");
        if request.number != at as u64 || request.input > dump.log.len() as u64 {
            return Err(wrong(place(), "the requests are not in order, or one precedes its input"));
        }
        follow(&request.record, &place)?;
    }
    let count = dump.requests.len() as u64;
    for (name, intervals) in [("placed", &dump.placed), ("context", &dump.context)] {
        for (at, interval) in intervals.iter().enumerate() {
            let ends = interval.until.is_none_or(|until| until > interval.since && until <= count);
            if interval.since >= count || !ends || interval.position > i64::MAX.cast_unsigned() {
                return Err(wrong(format!("{name}[{at}]"), "it belongs to no request"));
            }
        }
    }
    for (name, intervals) in [("placed", &dump.placed), ("context", &dump.context)] {
        let mut sorted: Vec<&Interval> = intervals.iter().collect();
        sorted.sort_by_key(|interval| (interval.position, interval.since));
        for pair in sorted.windows(2) {
            if pair[0].position == pair[1].position && pair[0].until.is_none_or(|until| until > pair[1].since) {
                return Err(wrong(name, format!("two entries at position {} of request {}", pair[1].position, pair[1].since)));
            }
        }
    }
    for (at, interval) in dump.placed.iter().enumerate() {
        let place = || format!("placed[{at}]");
        let hash = serde_json::from_value(interval.value.clone()).map_err(|error| wrong(place(), error))?;
        document(hash, &place)?;
    }
    for (at, hash) in dump.outbox.iter().enumerate() {
        known(*hash, &|| format!("outbox[{at}]"))?;
    }
    for (at, summary) in dump.summaries.iter().enumerate() {
        let place = || format!("summaries[{at}]");
        if summary.number > dump.log.len() as u64 || !(0..YEAR_10000).contains(&summary.at_ms) {
            return Err(wrong(place(), "it belongs to no input, or its time is invalid"));
        }
        follow(&summary.record, &place)?;
    }
    if let Some((request, _)) = dump.ledger.iter().find(|(request, _)| *request >= count) {
        return Err(wrong("ledger", format!("there is no request {request}")));
    }
    Ok(())
}

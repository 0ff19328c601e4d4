//! Looking at everything: what SQLite itself can tell, every hash, every pointer, every gap.

use std::collections::BTreeSet;

use foreword_core::hash::Hash;
use rusqlite::{Connection, params};
use serde_json::Value;

use super::lineage::{Stretch, lineage};
use super::read::{log_of, placed, requests_of};
use super::sweep::needed;
use super::write::{sum_of_entry, sum_of_request};
use crate::Result;
use crate::error::doing;
use crate::packed::pointers;
use crate::row::{Entry, Fault};

pub(super) fn check(connection: &Connection) -> Result<Vec<Fault>> {
    let mut faults = database(connection)?;
    let (texts, broken) = texts(connection)?;
    faults.extend(broken);
    for hash in needed(connection)?.difference(&texts) {
        faults.push(fault(None, "texts", format!("{hash} is referenced but missing")));
    }
    faults.extend(schema(connection)?);
    faults.extend(super::sums::check(connection)?);
    faults.extend(contexts(connection)?);
    faults.extend(super::forwarded::check(connection)?);
    faults.extend(sessions(connection, &texts)?);
    Ok(faults)
}

fn fault(session: Option<&str>, place: impl Into<String>, what: impl Into<String>) -> Fault {
    Fault { session: session.map(str::to_owned), place: place.into(), what: what.into() }
}

fn database(connection: &Connection) -> Result<Vec<Fault>> {
    let failed = doing("check the store");
    let mut faults = Vec::new();
    let mut statement = connection.prepare("PRAGMA integrity_check").map_err(&failed)?;
    let mut rows = statement.query([]).map_err(&failed)?;
    while let Some(row) = rows.next().map_err(&failed)? {
        let what: String = row.get(0).map_err(&failed)?;
        if what != "ok" {
            faults.push(fault(None, "database", what));
        }
    }
    let mut statement = connection.prepare("PRAGMA foreign_key_check").map_err(&failed)?;
    let mut rows = statement.query([]).map_err(&failed)?;
    while let Some(row) = rows.next().map_err(&failed)? {
        let (table, parent): (String, String) = (row.get(0).map_err(&failed)?, row.get(2).map_err(&failed)?);
        faults.push(fault(None, table, format!("a row refers to a missing row of {parent}")));
    }
    Ok(faults)
}

/// What is in the database and should not be, or is missing.
fn schema(connection: &Connection) -> Result<Vec<Fault>> {
    let (strange, missing) = super::migrate::strange(connection, super::migrate::newest()).map_err(doing("check the tables"))?;
    let planted = strange.into_iter().map(|what| fault(None, "database", format!("not created by Foreword: {what}")));
    let missing = missing.into_iter().map(|what| fault(None, "database", format!("missing: {what}")));
    Ok(planted.chain(missing).collect())
}

/// The hashes of all texts, and those whose bytes are not what their hash says.
fn texts(connection: &Connection) -> Result<(BTreeSet<Hash>, Vec<Fault>)> {
    let failed = doing("check the texts");
    let mut statement = connection.prepare("SELECT hash, body FROM texts").map_err(&failed)?;
    let mut rows = statement.query([]).map_err(&failed)?;
    let (mut hashes, mut faults) = (BTreeSet::new(), Vec::new());
    while let Some(row) = rows.next().map_err(&failed)? {
        let hash = Hash::from(row.get::<_, [u8; 32]>(0).map_err(&failed)?);
        let body: Vec<u8> = row.get(1).map_err(&failed)?;
        if Hash::of(&body) != hash {
            faults.push(fault(None, format!("texts {hash}"), "its bytes do not match its hash"));
        } else if String::from_utf8(body).is_err() {
            faults.push(fault(None, format!("texts {hash}"), "not UTF-8"));
        }
        hashes.insert(hash);
    }
    Ok((hashes, faults))
}

/// Items that are not what an item looks like.
fn contexts(connection: &Connection) -> Result<Vec<Fault>> {
    let failed = doing("check the items of requests");
    let mut statement = connection.prepare("SELECT branch, position, since, item, entry FROM context").map_err(&failed)?;
    let mut rows = statement.query([]).map_err(&failed)?;
    let mut faults = Vec::new();
    while let Some(row) = rows.next().map_err(&failed)? {
        let (item, entry): (String, String) = (row.get(3).map_err(&failed)?, row.get(4).map_err(&failed)?);
        let value: Option<Value> = serde_json::from_str(&entry).ok();
        if value.as_ref().and_then(|value| value.get("item")).and_then(Value::as_str) != Some(item.as_str()) {
            let (branch, position, since): (i64, u64, u64) =
                (row.get(0).map_err(&failed)?, row.get(1).map_err(&failed)?, row.get(2).map_err(&failed)?);
            faults.push(fault(None, format!("context {branch}/{position}/{since}"), format!("it does not describe {item}")));
        }
    }
    Ok(faults)
}

fn sessions(connection: &Connection, texts: &BTreeSet<Hash>) -> Result<Vec<Fault>> {
    let sessions: Vec<(String, i64)> = connection
        .prepare("SELECT id, branch FROM sessions ORDER BY id")
        .and_then(|mut statement| statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .map_err(doing("check the sessions"))?;
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for (session, branch) in sessions {
        let mut next = (0, 0);
        let stretches = match lineage(connection, branch) {
            Ok(stretches) => stretches,
            Err(error) => {
                faults.push(fault(Some(&session), format!("branches {branch}"), error.to_string()));
                continue;
            }
        };
        for stretch in stretches {
            // What two sessions share is looked at once, but counted for each.
            let again = !seen.insert((stretch.branch, stretch.until.inputs, stretch.until.requests));
            let mut look = Look { session: &session, texts, faults: Vec::new() };
            look.log(connection, stretch, &mut next.0)?;
            look.requests(connection, stretch, &mut next.1)?;
            if !again {
                faults.append(&mut look.faults);
            }
        }
    }
    Ok(faults)
}

/// The sum of a row.
fn column(connection: &Connection, table: &str, branch: i64, number: u64) -> Option<[u8; 32]> {
    let sql = format!("SELECT sum FROM {table} WHERE branch = ?1 AND number = ?2");
    let found =
        connection.prepare_cached(&sql).and_then(|mut statement| statement.query_row(params![branch, number], |row| row.get(0)));
    found.ok()
}

struct Look<'a> {
    session: &'a str,
    texts: &'a BTreeSet<Hash>,
    faults: Vec<Fault>,
}

impl Look<'_> {
    fn fault(&mut self, place: String, what: impl Into<String>) {
        self.faults.push(fault(Some(self.session), place, what));
    }

    fn document(&mut self, place: &str, json: &str) {
        let Ok(value) = serde_json::from_str::<Value>(json) else {
            self.fault(place.to_owned(), "not JSON");
            return;
        };
        let mut missing = Vec::new();
        pointers(&value, &mut |hash| {
            if !self.texts.contains(&hash) {
                missing.push(hash);
            }
        });
        for hash in missing {
            self.fault(place.to_owned(), format!("it refers to the text {hash}, which is missing"));
        }
    }

    fn log(&mut self, connection: &Connection, stretch: Stretch, next: &mut u64) -> Result<()> {
        log_of(connection, stretch, 0, &mut |entry, body| {
            let place = format!("log {}", entry.number);
            if entry.number != *next {
                self.fault(place.clone(), format!("input {next} is missing before it"));
            }
            *next = entry.number + 1;
            let sum: Option<[u8; 32]> = column(connection, "log", stretch.branch, entry.number);
            let told = Entry { kind: entry.kind, run: entry.run, at_ms: entry.at_ms, cut_off: entry.cut_off, body: () };
            if sum.map(Hash::from) != Some(sum_of_entry(entry.number, &told, &body)) {
                self.fault(place.clone(), "changed since it was written");
            }
            self.document(&place, &body);
            Ok(())
        })
    }

    fn requests(&mut self, connection: &Connection, stretch: Stretch, next: &mut u64) -> Result<()> {
        for (request, record, messages) in requests_of(connection, stretch)? {
            let place = format!("requests {}", request.number);
            if request.number != *next {
                self.fault(place.clone(), format!("request {next} is missing before it"));
            }
            *next = request.number + 1;
            let sum: Option<[u8; 32]> = column(connection, "requests", stretch.branch, request.number);
            if sum.map(Hash::from) != Some(sum_of_request(&request, messages, &record)) {
                self.fault(place.clone(), "changed since it was written");
            }
            self.document(&place, &record);
            let stands = placed(connection, stretch.branch, request.number)?;
            if stands.len() as u64 != messages {
                self.fault(place, format!("{} messages are stored, but {messages} were sent", stands.len()));
            }
        }
        Ok(())
    }
}

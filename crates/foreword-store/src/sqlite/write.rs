//! Writing: each function adds rows inside a transaction that its caller ends.

use foreword_core::hash::Hash;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::lineage::{counts, of_request};
use super::sums::seal;
use super::{branch_of, forwarded};
use crate::error::doing;
use crate::packed::Document;
use crate::row::{Checkpoint, Counts, Entry, Fork, NewRequest, NewSession, Summary, Usage, Write};
use crate::shared::{Job, Written};
use crate::{Result, StoreError};

pub(super) fn begin(connection: &Connection, new: &NewSession) -> Result<()> {
    let agent = document(connection, &new.agent)?;
    let setup = packed(connection, &new.setup)?;
    let agent = &agent.bytes()[..];
    first_agent(connection, agent, new.created_ms)?;
    let branch = new_branch(connection, None, Counts::default(), &new.id)?;
    let sql = "INSERT OR IGNORE INTO sessions (id, branch, title, created_ms, touched_ms, agent, setup) VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)";
    match execute(connection, sql, params![new.id, branch, new.title, new.created_ms, agent, setup])? {
        1 => seal(connection, "sessions", "id = ?1", [&new.id]),
        _ => Err(StoreError::Exists(new.id.clone())),
    }
}

/// Keeps an agent once, with when it was first used.
pub(super) fn first_agent(connection: &Connection, hash: &[u8], at_ms: i64) -> Result<()> {
    let sql = "INSERT OR IGNORE INTO agents (hash, first_ms, sum) VALUES (?1, ?2, foreword_sum(?1, ?2))";
    execute(connection, sql, params![hash, at_ms]).map(drop)
}

/// Begins a line of history; its number.
pub(super) fn new_branch(connection: &Connection, parent: Option<i64>, at: Counts, session: &str) -> Result<i64> {
    let sql = "INSERT INTO branches (parent, inputs, requests, session) VALUES (?1, ?2, ?3, ?4)";
    execute(connection, sql, params![parent, at.inputs, at.requests, session])?;
    let branch = connection.last_insert_rowid();
    seal(connection, "branches", "id = ?1", [branch])?;
    Ok(branch)
}

pub(super) fn job(connection: &Connection, job: &Job) -> Result<Written> {
    let mut written = Written::default();
    match job {
        Job::Begin(new) => begin(connection, new)?,
        Job::Commit(session, writes) => written.counts = all(connection, session, writes)?,
        Job::Branch(session, at, fork, writes) => branch(connection, session, *at, fork.as_ref(), writes)?,
        Job::Note(session, at, writes) => written.counts = note(connection, session, *at, writes)?,
        Job::Sent(number, new) => drop(forwarded::sent(connection, Some(*number), new, new.about.as_deref())?),
        Job::SentAbout(number, new, about) => drop(forwarded::sent(connection, Some(*number), new, Some(about))?),
        Job::Answered(number, answered) => forwarded::answered(connection, *number, answered, answered.about.as_deref())?,
        Job::AnsweredAbout(number, answered, about) => forwarded::answered(connection, *number, answered, Some(about))?,
        Job::Index(most) => written.indexed = super::search::index(connection, *most)?,
    }
    Ok(written)
}

/// Writes to a session whose records must go as far as whoever writes believes.
fn note(connection: &Connection, session: &str, at: Counts, writes: &[Write]) -> Result<Counts> {
    let branch = branch_of(connection, session)?;
    let now = counts(connection, branch)?;
    if now != at {
        let (there, here) = ((at.inputs, at.requests), (now.inputs, now.requests));
        return Err(StoreError::Damaged(format!("session {session} is at {here:?}, but a write expected {there:?}")));
    }
    after(connection, session, branch, now, writes)
}

pub(super) fn all(connection: &Connection, session: &str, writes: &[Write]) -> Result<Counts> {
    let branch = branch_of(connection, session)?;
    let now = counts(connection, branch)?;
    after(connection, session, branch, now, writes)
}

fn after(connection: &Connection, session: &str, branch: i64, mut now: Counts, writes: &[Write]) -> Result<Counts> {
    let (mut touched, mut changed) = (None, false);
    for write in writes {
        match write {
            Write::Input(entry) => {
                input(connection, branch, now.inputs, entry)?;
                touched = touched.max(Some(entry.at_ms));
                now.inputs += 1;
            }
            Write::Part(text) => part(connection, branch, text)?,
            Write::Request(new) => {
                request(connection, branch, now, new)?;
                touched = touched.max(Some(new.request.at_ms));
                now.requests += 1;
            }
            Write::Usage(number, used) => {
                let stretches = super::lineage::lineage(connection, branch)?;
                let owner = of_request(&stretches, *number)
                    .filter(|_| *number < now.requests)
                    .ok_or_else(|| StoreError::NoRequest { session: session.to_owned(), request: *number })?;
                usage(connection, owner, *number, used)?;
            }
            Write::Output(output) => {
                let hash = text(connection, output)?;
                let sql = "INSERT OR IGNORE INTO outbox (branch, hash, sum) VALUES (?1, ?2, foreword_sum(?1, ?2))";
                execute(connection, sql, params![branch, &hash.bytes()[..]])?;
            }
            Write::Title(title) => {
                execute(connection, "UPDATE sessions SET title = ?2 WHERE id = ?1", params![session, title])?;
                changed = true;
            }
            Write::Transcript(file) => {
                let file = foreword_core::json::to_string(file);
                execute(connection, "UPDATE sessions SET transcript = ?2 WHERE id = ?1", params![session, file])?;
                changed = true;
            }
            Write::Summary(new) => {
                let record = Document::of(&new.record).map_err(|error| StoreError::Refused(error.to_string()))?;
                summary(connection, branch, now.inputs, new, packed(connection, &record)?)?;
            }
            Write::Checkpoint(Checkpoint { counts, body }) => {
                let sql = "INSERT OR REPLACE INTO checkpoints (branch, inputs, requests, body, sum)
                           VALUES (?1, ?2, ?3, ?4, foreword_sum(?1, ?2, ?3, ?4))";
                execute(connection, sql, params![branch, counts.inputs, counts.requests, body])?;
            }
        }
    }
    if let Some(at_ms) = touched {
        let sql = "UPDATE sessions SET touched_ms = ?2 WHERE id = ?1 AND touched_ms < ?2";
        changed |= execute(connection, sql, params![session, at_ms])? > 0;
    }
    if changed {
        seal(connection, "sessions", "id = ?1", [session])?;
    }
    Ok(now)
}

pub(super) fn execute(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<usize> {
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute(params)).map_err(doing("write to a session"))
}

/// Keeps a text once.
pub(super) fn text(connection: &Connection, text: &str) -> Result<Hash> {
    let hash = Hash::of(text);
    put(connection, hash, text)?;
    Ok(hash)
}

fn put(connection: &Connection, hash: Hash, text: &str) -> Result<()> {
    let sql = "INSERT OR IGNORE INTO texts (hash, body) VALUES (?1, ?2)";
    execute(connection, sql, params![&hash.bytes()[..], text.as_bytes()])?;
    Ok(())
}

/// A document with its long texts kept elsewhere; gives back its JSON.
pub(super) fn packed<'a>(connection: &Connection, document: &'a Document) -> Result<&'a str> {
    for (hash, text) in &document.texts {
        put(connection, *hash, text)?;
    }
    Ok(&document.json)
}

/// A document that is itself kept once.
fn document(connection: &Connection, document: &Document) -> Result<Hash> {
    text(connection, packed(connection, document)?)
}

fn input(connection: &Connection, branch: i64, number: u64, entry: &Entry) -> Result<()> {
    let body = packed(connection, &entry.body)?;
    logged(connection, branch, number, entry, body)?;
    if entry.kind == "assistant" {
        execute(connection, "DELETE FROM parts WHERE branch = ?1", [branch])?;
    }
    Ok(())
}

pub(super) fn logged<B>(connection: &Connection, branch: i64, number: u64, entry: &Entry<B>, body: &str) -> Result<()> {
    let sql = "INSERT INTO log (branch, number, run, kind, at_ms, cut_off, body, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let sum = sum_of_entry(number, entry, body);
    let values = params![branch, number, entry.run, entry.kind, entry.at_ms, entry.cut_off, body, &sum.bytes()[..]];
    execute(connection, sql, values)?;
    Ok(())
}

/// What tells that a row of the log is as it was written.
pub(super) fn sum_of_entry<B>(number: u64, entry: &Entry<B>, body: &str) -> Hash {
    let Entry { kind, run, at_ms, cut_off, .. } = entry;
    Hash::of(format!("{number}\n{kind}\n{run}\n{at_ms}\n{cut_off}\n{body}"))
}

/// The same for a request.
pub(super) fn sum_of_request<R>(request: &crate::Request<R>, messages: u64, record: &str) -> Hash {
    let crate::Request { number, input, run, epoch, began, at_ms, combined, wire, tokens, .. } = request;
    let began = began.as_deref().unwrap_or_default();
    let numbers = format!("{number} {input} {run} {epoch} {at_ms} {tokens} {messages}");
    Hash::of(format!("{numbers}\n{began}\n{combined}\n{wire}\n{record}"))
}

fn part(connection: &Connection, branch: i64, text: &str) -> Result<()> {
    let sql = "INSERT INTO parts (branch, number, text, sum)
               SELECT ?1, number, ?2, foreword_sum(?1, number, ?2)
               FROM (SELECT coalesce(max(number) + 1, 0) AS number FROM parts WHERE branch = ?1)";
    execute(connection, sql, params![branch, text])?;
    Ok(())
}

/// Only what does not stand where it stood in the request before is written.
fn request(connection: &Connection, branch: i64, now: Counts, new: &NewRequest) -> Result<()> {
    let number = now.requests;
    let before: Option<u64> = connection
        .prepare_cached("SELECT messages FROM requests WHERE branch = ?1 ORDER BY number DESC LIMIT 1")
        .and_then(|mut statement| statement.query_row([branch], |row| row.get(0)).optional())
        .map_err(doing("store a request"))?;
    let before = before.unwrap_or(0);
    let is_new = |position: &u64| new.changed.iter().any(|(changed, _)| changed == position);
    if !(before..new.messages).all(|position| is_new(&position)) {
        return Err(StoreError::Damaged("a request refers to messages that were never sent".to_owned()));
    }
    for (position, message) in &new.changed {
        if *position < before {
            let sql = "UPDATE placed SET until = ?3, sum = foreword_sum(branch, position, since, ?3, message)
                       WHERE branch = ?1 AND position = ?2 AND until IS NULL";
            execute(connection, sql, params![branch, position, number])?;
        }
        let hash = document(connection, message)?;
        let sql = "INSERT INTO placed (branch, position, since, message, sum)
                   VALUES (?1, ?2, ?3, ?4, foreword_sum(?1, ?2, ?3, NULL, ?4))";
        execute(connection, sql, params![branch, position, number, &hash.bytes()[..]])?;
    }
    if new.messages < before {
        end(connection, "placed", branch, new.messages, number)?;
    }
    context(connection, branch, number, new)?;
    let crate::Request { run, epoch, at_ms, combined, wire, tokens, ref began, ref record, .. } = new.request;
    let (input, began) = (now.inputs, began.clone());
    let request = crate::Request { number, input, run, epoch, began, at_ms, combined, wire, tokens, messages: None, record: () };
    envelope(connection, branch, &request, new.messages, packed(connection, record)?)
}

pub(super) fn envelope<R>(
    connection: &Connection,
    branch: i64,
    request: &crate::Request<R>,
    messages: u64,
    record: &str,
) -> Result<()> {
    let sql =
        "INSERT INTO requests (branch, number, input, run, epoch, began, at_ms, combined, wire, tokens, messages, record, sum)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    let sum = sum_of_request(request, messages, record);
    let values = params![
        branch,
        request.number,
        request.input,
        request.run,
        request.epoch,
        request.began,
        request.at_ms,
        &request.combined.bytes()[..],
        &request.wire.bytes()[..],
        request.tokens,
        messages,
        record,
        &sum.bytes()[..]
    ];
    execute(connection, sql, values)?;
    Ok(())
}

/// What stood from a position on no longer stands from this request on.
fn end(connection: &Connection, table: &'static str, branch: i64, from: u64, number: u64) -> Result<()> {
    let open = format!("{table} INDEXED BY {table}_open");
    let rest = if table == "placed" { "message" } else { "item, entry" };
    let sql = format!(
        "UPDATE {open} SET until = ?3, sum = foreword_sum(branch, position, since, ?3, {rest})
         WHERE branch = ?1 AND position >= ?2 AND until IS NULL"
    );
    execute(connection, &sql, params![branch, from, number])?;
    Ok(())
}

fn context(connection: &Connection, branch: i64, number: u64, new: &NewRequest) -> Result<()> {
    // Left to itself SQLite walks through all that ever was in the branch.
    let sql = "SELECT max(position) FROM context INDEXED BY context_open WHERE branch = ?1 AND until IS NULL";
    let last: Option<u64> = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row([branch], |row| row.get(0)))
        .map_err(doing("store a request's context"))?;
    let before = last.map_or(0, |last| last + 1);
    let mut new_ones = new.context.iter().map(|(position, ..)| *position).filter(|position| *position >= before);
    if !(before..new.items).all(|position| new_ones.next() == Some(position)) {
        return Err(StoreError::Damaged("a request refers to items that were never sent".to_owned()));
    }
    for (position, item, entry) in &new.context {
        if *position < before {
            let sql = "UPDATE context SET until = ?3, sum = foreword_sum(branch, position, since, ?3, item, entry)
                       WHERE branch = ?1 AND position = ?2 AND until IS NULL";
            execute(connection, sql, params![branch, position, number])?;
        }
        let sql = "INSERT INTO context (branch, position, since, item, entry, sum)
                   VALUES (?1, ?2, ?3, ?4, ?5, foreword_sum(?1, ?2, ?3, NULL, ?4, ?5))";
        execute(connection, sql, params![branch, position, number, item, entry])?;
    }
    if new.items < before {
        end(connection, "context", branch, new.items, number)?;
    }
    Ok(())
}

pub(super) fn usage(connection: &Connection, branch: i64, request: u64, used: &Usage) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO ledger
               (branch, request, model, read, write, uncached, output, cost, cost_uncached, broke, first_token_ms, total_ms, sum)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
                       foreword_sum(?1, ?2, ?3, ?4, ?5, ?6, ?7, CAST(?8 AS REAL), CAST(?9 AS REAL), ?10, ?11, ?12))";
    let broke = used.broke.as_ref().map(foreword_core::json::to_string);
    let values = params![
        branch,
        request,
        used.model,
        used.read,
        used.write,
        used.uncached,
        used.output,
        used.cost,
        used.cost_uncached,
        broke,
        used.first_token_ms,
        used.total_ms
    ];
    execute(connection, sql, values)?;
    Ok(())
}

pub(super) fn summary(connection: &Connection, branch: i64, number: u64, new: &Summary, record: &str) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO summaries (branch, number, at_ms, template, source, hash, model, record, sum)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, foreword_sum(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8))";
    let Summary { at_ms, template, source, hash, model, .. } = new;
    execute(connection, sql, params![branch, number, at_ms, template, source, &hash.bytes()[..], model, record])?;
    Ok(())
}

/// A new branch, for the session itself or for one beside it.
pub(super) fn branch(connection: &Connection, session: &str, at: Counts, fork: Option<&Fork>, writes: &[Write]) -> Result<()> {
    let parent = branch_of(connection, session)?;
    let now = counts(connection, parent)?;
    if at.inputs > now.inputs || at.requests > now.requests {
        return Err(StoreError::Damaged(format!("session {session} has no input {} or request {}", at.inputs, at.requests)));
    }
    // What it takes over may lie before its parent's own first row: then the parent's parent is the one it came from.
    let stretches = super::lineage::lineage(connection, parent)?;
    let from = stretches.iter().rev().find(|stretch| stretch.from.inputs <= at.inputs && stretch.from.requests <= at.requests);
    let from = from.map_or(parent, |stretch| stretch.branch);
    let owner = fork.map_or(session, |fork| fork.id.as_str());
    let branch = new_branch(connection, Some(from), at, owner)?;
    let Some(fork) = fork else {
        execute(connection, "UPDATE sessions SET branch = ?2 WHERE id = ?1", params![session, branch])?;
        seal(connection, "sessions", "id = ?1", [session])?;
        return all(connection, session, writes).map(|_| ());
    };
    let sql = "INSERT OR IGNORE INTO sessions (id, branch, title, created_ms, touched_ms, agent, setup, forked_from)
               SELECT ?2, ?3, coalesce(?4, title), ?5, ?5, agent, setup, id FROM sessions WHERE id = ?1";
    match execute(connection, sql, params![session, fork.id, branch, fork.title, fork.created_ms])? {
        1 => {
            seal(connection, "sessions", "id = ?1", [&fork.id])?;
            all(connection, &fork.id, writes).map(|_| ())
        }
        _ => Err(StoreError::Exists(fork.id.clone())),
    }
}

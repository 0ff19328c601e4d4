//! Sessions that are kept in databases: `OpenCode`, goose, `llm`, and Foreword's own store.

use std::collections::BTreeMap;
use std::path::Path;

use foreword_store::Sqlite;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde::Deserialize;
use serde_json::Value;

use super::builder::{Builder, MAIN};
use super::opencode;
use super::rename_main;
use crate::database::{has, open, or_null};
use crate::lenient::{Num, Obj, Text};
use crate::log::{Agent, Call, FileLog, Tokens, hash, time_ms};

/// No column that is read is longer.
const LONGEST: usize = 64 << 20;

/// The sessions in a database of any program.
pub(crate) fn read(path: &Path, file: &str) -> Result<Vec<FileLog>, String> {
    let database = open(path)?;
    let connection = &database.connection;
    let found = if has(connection, "message", "data") && has(connection, "session", "id") {
        read_opencode(connection, file)
    } else if has(connection, "sessions", "working_dir") && has(connection, "messages", "content_json") {
        read_goose(connection, file)
    } else if has(connection, "turns", "input_tokens") || has(connection, "responses", "input_tokens") {
        read_llm(connection, file)
    } else if has(connection, "ledger", "cost_uncached") {
        drop(database);
        return read_own(path, file);
    } else {
        return Err("no program that is known keeps its sessions in such a database".to_owned());
    };
    found.map_err(|error| error.to_string())
}

/// A column as text, whatever its type; too long a one is left out.
fn text(row: &rusqlite::Row, column: usize) -> String {
    match row.get_ref(column) {
        Ok(ValueRef::Text(text)) if text.len() <= LONGEST => String::from_utf8_lossy(text).into_owned(),
        Ok(ValueRef::Integer(number)) => number.to_string(),
        Ok(ValueRef::Real(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn number(row: &rusqlite::Row, column: usize) -> u64 {
    text(row, column).parse::<Value>().ok().and_then(|value| serde_json::from_value::<Num>(value).ok()).map_or(0, |num| num.0)
}

/// A time as databases keep it: milliseconds, seconds, or a text.
fn moment(text: &str) -> i64 {
    match text.parse::<f64>() {
        #[allow(clippy::cast_possible_truncation)] // times of this century
        Ok(number) if number.is_finite() && number.abs() < 1e15 => {
            if number > 1e11 {
                number as i64
            } else {
                (number * 1000.0) as i64
            }
        }
        _ => time_ms(text).or_else(|| time_ms(&format!("{}Z", text.trim().replacen(' ', "T", 1)))).unwrap_or_default(),
    }
}

fn read_opencode(connection: &Connection, file: &str) -> rusqlite::Result<Vec<FileLog>> {
    let columns = ["parent_id", "directory", "version"].map(|column| or_null(connection, "session", column));
    let mut sessions = connection.prepare(&format!("SELECT id, {} FROM session ORDER BY id", columns.join(", ")))?;
    let mut messages = connection.prepare("SELECT id, data FROM message WHERE session_id = ?1 ORDER BY id")?;
    let has_parts = has(connection, "part", "message_id") && has(connection, "part", "session_id");
    let mut parts = if has_parts {
        Some(connection.prepare("SELECT message_id, data FROM part WHERE session_id = ?1 ORDER BY id")?)
    } else {
        None
    };
    let mut found = Vec::new();
    let mut rows = sessions.query([])?;
    while let Some(row) = rows.next()? {
        let (id, parent) = (text(row, 0), text(row, 1));
        let mut session = opencode::Session::default();
        let info = serde_json::json!({"directory": text(row, 2), "version": text(row, 3)}).to_string();
        opencode::read_info(&mut session, info.as_bytes());
        let mut log = opencode::empty(if parent.is_empty() { &id } else { &parent }, file);
        log.part = !parent.is_empty();
        let mut each = messages.query([&id])?;
        while let Some(row) = each.next()? {
            log.lines.skipped += u64::from(!opencode::read_message(&mut session, &text(row, 0), text(row, 1).as_bytes()));
        }
        if let Some(parts) = &mut parts {
            let mut each = parts.query([&id])?;
            while let Some(row) = each.next()? {
                log.lines.read += 1;
                log.lines.skipped += u64::from(!opencode::read_part(&mut session, &text(row, 0), text(row, 1).as_bytes()));
            }
        }
        let mut log = session.finish(log);
        if log.part {
            rename_to(&mut log, &id);
        }
        if !log.calls.is_empty() {
            found.push(log);
        }
    }
    Ok(found)
}

fn rename_to(log: &mut FileLog, id: &str) {
    rename_main(log);
    if let Some(name) = log.names.iter_mut().find(|name| name.as_str() == "sub-agent") {
        id.clone_into(name);
    }
}

/// The usage of a single message, which newer versions keep.
#[derive(Default, Deserialize)]
#[serde(default)]
struct GooseMeta<'a> {
    usage: Obj<GooseUsage>,
    #[serde(borrow)]
    model: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_field_names)] // the log's own names
struct GooseUsage {
    input_tokens: Num,
    output_tokens: Num,
    cache_read_input_tokens: Num,
    cache_write_input_tokens: Num,
}

/// A session of goose has sums; only some versions say what single messages took.
fn read_goose(connection: &Connection, file: &str) -> rusqlite::Result<Vec<FileLog>> {
    const SUMS: [&str; 8] = [
        "accumulated_input_tokens",
        "accumulated_output_tokens",
        "accumulated_cache_read_tokens",
        "accumulated_cache_write_tokens",
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
    ];
    let sums = SUMS.map(|column| or_null(connection, "sessions", column)).join(", ");
    let model = or_null(connection, "sessions", "model_config_json");
    let parent = or_null(connection, "sessions", "parent_session_id");
    let mut sessions = connection
        .prepare(&format!("SELECT id, working_dir, updated_at, {model}, {parent}, {sums} FROM sessions ORDER BY id"))?;
    let meta = or_null(connection, "messages", "metadata_json");
    let mut messages = connection.prepare(&format!(
        "SELECT role, created_timestamp, {meta}, length(content_json) FROM messages WHERE session_id = ?1 ORDER BY id"
    ))?;
    let mut found = Vec::new();
    let mut rows = sessions.query([])?;
    while let Some(row) = rows.next()? {
        let (id, parent) = (text(row, 0), text(row, 4));
        let config: Value = text(row, 3).parse().unwrap_or_default();
        let session_model = config.get("model_name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut log = FileLog::new(Agent::Goose, if parent.is_empty() { &id } else { &parent }, file);
        log.project = text(row, 1);
        let chain = log.intern(if parent.is_empty() { MAIN } else { &id });
        log.part = !parent.is_empty();
        let mut builder = Builder::new(log);
        let (mut replies, mut line) = (0_u32, 0_u32);
        let mut each = messages.query([&id])?;
        while let Some(message) = each.next()? {
            line = line.saturating_add(1);
            builder.log.lines.read += 1;
            let at_ms = moment(&text(message, 1));
            if text(message, 0) != "assistant" {
                builder.heard(chain, at_ms, number(message, 3));
                continue;
            }
            replies = replies.saturating_add(1);
            let meta = text(message, 2);
            let meta: GooseMeta = serde_json::from_str(&meta).unwrap_or_default();
            let Some(usage) = meta.usage.0 else { continue };
            let tokens = inclusive(
                usage.input_tokens.0,
                usage.cache_read_input_tokens.0,
                usage.cache_write_input_tokens.0,
                usage.output_tokens.0,
            );
            let model = builder.log.intern(if meta.model.is_empty() { &session_model } else { &meta.model });
            let id = hash(&format!("{id} {line}"));
            builder.call(Call { id, line, chain, model, end_ms: at_ms, tokens, ..Call::default() });
        }
        if builder.log.calls.is_empty() {
            // Before sums were kept, the last call's counts are all there is.
            let from = if number(row, 5) > 0 { 5 } else { 9 };
            let sum = |offset: usize| number(row, from + offset);
            let tokens = inclusive(sum(0), sum(2), sum(3), sum(1));
            let model = builder.log.intern(&session_model);
            let end_ms = moment(&text(row, 2));
            if !tokens.is_zero() {
                let (id, count) = (hash(&id), replies.max(1));
                builder.call(Call { id, line: 1, chain, model, end_ms, tokens, count, ..Call::default() });
            }
        }
        if !builder.log.calls.is_empty() {
            found.push(builder.log);
        }
    }
    Ok(found)
}

/// Counts whose input contains what was read and written.
fn inclusive(input: u64, read: u64, written: u64, output: u64) -> Tokens {
    let read = read.min(input);
    let written = written.min(input - read);
    Tokens { input: input - read - written, cache_read: read, cache_write_5m: written, cache_write_1h: 0, output }
}

/// What a plugin of `llm` says about tokens: each in its provider's words.
fn llm_tokens(input: u64, output: u64, details: &Value) -> (Tokens, u64) {
    let at = |path: &str| details.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    let reasoning = at("/completion_tokens_details/reasoning_tokens").max(at("/output_tokens_details/reasoning_tokens"));
    if details.get("cache_read_input_tokens").is_some() || details.get("cache_creation_input_tokens").is_some() {
        let long = at("/cache_creation/ephemeral_1h_input_tokens").min(at("/cache_creation_input_tokens"));
        let tokens = Tokens {
            input,
            cache_read: at("/cache_read_input_tokens"),
            cache_write_5m: at("/cache_creation_input_tokens") - long,
            cache_write_1h: long,
            output,
        };
        return (tokens, reasoning);
    }
    let read = at("/prompt_tokens_details/cached_tokens")
        .max(at("/input_tokens_details/cached_tokens"))
        .max(at("/cachedContentTokenCount"))
        .max(at("/prompt_cache_hit_tokens"));
    let written = at("/prompt_tokens_details/cache_write_tokens").max(at("/input_tokens_details/cache_write_tokens"));
    (inclusive(input, read, written, output + at("/thoughtsTokenCount")), reasoning)
}

fn read_llm(connection: &Connection, file: &str) -> rusqlite::Result<Vec<FileLog>> {
    let mut found: BTreeMap<String, Builder> = BTreeMap::new();
    let mut queries = Vec::new();
    if has(connection, "responses", "input_tokens") && has(connection, "responses", "conversation_id") {
        queries.push(
            "SELECT id, conversation_id, model, input_tokens, output_tokens, token_details, datetime_utc, duration_ms, \
             length(prompt), NULL FROM responses ORDER BY datetime_utc, id",
        );
    }
    if has(connection, "turns", "input_tokens") && has(connection, "turns", "thread_id") {
        queries.push(
            "SELECT id, thread_id, model, input_tokens, output_tokens, token_details, datetime_utc, duration_ms, 0, \
             parent_message_hash FROM turns ORDER BY datetime_utc, id",
        );
    }
    for query in queries {
        let mut statement = connection.prepare(query)?;
        let mut rows = statement.query([])?;
        let mut line = 0_u32;
        // The last prompt of each thread: what goes on from another message was rewound.
        while let Some(row) = rows.next()? {
            line = line.saturating_add(1);
            let (id, mut session) = (text(row, 0), text(row, 1));
            if session.is_empty() {
                session.clone_from(&id);
            }
            let builder = found.entry(session.clone()).or_insert_with(|| Builder::new(FileLog::new(Agent::Llm, &session, file)));
            builder.log.lines.read += 1;
            let chain = builder.log.intern(MAIN);
            let model = builder.log.intern(&text(row, 2));
            let details: Value = text(row, 5).parse().unwrap_or_default();
            let (tokens, reasoning) = llm_tokens(number(row, 3), number(row, 4), &details);
            let start_ms = moment(&text(row, 6));
            let took = i64::try_from(number(row, 7).min(1 << 40)).unwrap_or_default();
            if tokens.is_zero() {
                continue;
            }
            builder.heard(chain, start_ms, number(row, 8));
            builder.call(Call {
                id: hash(&id),
                line,
                chain,
                model,
                start_ms,
                end_ms: start_ms.saturating_add(took),
                tokens,
                reasoning,
                ..Call::default()
            });
        }
    }
    Ok(found.into_values().map(|builder| builder.log).filter(|log| !log.calls.is_empty()).collect())
}

/// Foreword's own store, through the crate that keeps it.
pub(crate) fn read_own(path: &Path, file: &str) -> Result<Vec<FileLog>, String> {
    Sqlite::open_existing(path).and_then(|store| super::foreword::read(&store, file)).map_err(|error| error.to_string())
}

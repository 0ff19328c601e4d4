//! `recall`: what was said in earlier sessions: chats with Foreword, imported ones, and sessions of programs that use the gateway.

use std::collections::BTreeMap;

use foreword_engine::session::{Sqlite, Store};
use foreword_gateway::{ClientSession, Who, client_messages, client_sessions};
use jiff::Timestamp;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Definition, Effect, nullable, one_line, read};
use crate::notes::Notes;

pub(super) const DEFINITION: Definition = Definition {
    name: "recall",
    title: "Recall past sessions",
    description: "Search what was said in the user's earlier sessions: chats over this vault, imported chats, and sessions of other programs \
                  that used the Foreword gateway. Give a query to search, or the id of a result to read the whole message.",
    arguments,
    required: &[],
    answer,
    effect: Effect::Reads,
    run,
};

const USUAL: usize = 10;
const MOST: usize = 50;

/// The characters of a message around the words that were looked for.
const EXCERPT: usize = 400;

/// The characters of a message on one page.
const PAGE: usize = 12_000;

/// The number of words of a query that are looked for one by one.
const MOST_WORDS: usize = 8;

/// The number of gateway sessions that are searched, the last used ones first, and the size of what is read of them.
const MOST_CLIENTS: usize = 100;
const MOST_CLIENT_BYTES: usize = 32 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    query: Option<String>,
    id: Option<String>,
    offset: Option<usize>,
    limit: Option<usize>,
}

fn arguments() -> Value {
    json!({
        "query": {"type": "string", "description": "The words to look for."},
        "id": {"type": "string", "description": "A message to read, from the results of a search."},
        "offset": {"type": "integer", "minimum": 0, "description": "Where to read on in a long message, in characters."},
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "description": format!("The largest number of results; {USUAL} by default.")},
    })
}

fn answer() -> Value {
    json!({
        "messages": {"type": "array", "items": {
            "type": "object",
            "required": ["id", "session", "title", "source", "role", "at", "text"],
            "properties": {
                "id": {"type": "string", "description": "For recall, to read the whole message."},
                "session": {"type": "string"},
                "title": nullable("string", "The title of the session."),
                "source": {"enum": ["chat", "import", "gateway"]},
                "role": {"enum": ["user", "assistant", "tool"]},
                "at": nullable("string", "When it was said."),
                "text": {"type": "string"},
            },
        }},
        "next_offset": nullable("integer", "The offset of the next page of a message."),
    })
}

/// A message that was found.
struct Message {
    id: String,
    session: String,
    title: Option<String>,
    source: &'static str,
    role: &'static str,
    at_ms: Option<i64>,
    text: String,
    /// How well it fits.
    score: f64,
}

fn run(notes: &Notes, arguments: JsonObject) -> Result<Answer, String> {
    let Arguments { query, id, offset, limit } = read(arguments)?;
    let query = query.map(|query| query.trim().to_owned()).filter(|query| !query.is_empty());
    let store = notes.store()?;
    match (query, id) {
        (_, Some(id)) => whole(store.as_ref(), &id, offset.unwrap_or(0)),
        (Some(query), None) => search(store.as_ref(), &query, limit.unwrap_or(USUAL).clamp(1, MOST)),
        (None, None) => Err("give a query to search for, or the id of a message to read".to_owned()),
    }
}

fn search(store: Option<&Sqlite>, query: &str, limit: usize) -> Result<Answer, String> {
    let words = words(query);
    let mut found = match store {
        Some(store) => found(store, query, &words, limit)?,
        None => Vec::new(),
    };
    found.truncate(limit);
    let mut text = if found.is_empty() {
        "Nothing that was said in earlier sessions has these words.\n".to_owned()
    } else {
        format!("{} messages, the best first; read one whole with its id\n", found.len())
    };
    let mut rows = Vec::new();
    for message in found {
        let excerpt = around(&message.text, &words);
        text.push_str(&head(&message));
        for line in excerpt.lines() {
            text.extend(["> ", line, "\n"]);
        }
        rows.push(row(&message, &excerpt));
    }
    Ok(Answer { text, structured: json!({"messages": rows, "next_offset": null}) })
}

/// The messages that fit, the best first.
fn found(store: &Sqlite, query: &str, words: &[String], limit: usize) -> Result<Vec<Message>, String> {
    let failed = |error: foreword_engine::session::StoreError| error.to_string();
    let mut by_id: BTreeMap<String, Message> = BTreeMap::new();
    // All words first; then each by itself, so that a question finds what a few of its words are in.
    let one_by_one = words.iter().map(|word| (word.as_str(), 1.0));
    for (words, weight) in std::iter::once((query, 4.0)).chain(one_by_one.filter(|_| words.len() > 1)) {
        for hit in store.search(words, limit).map_err(failed)? {
            let id = format!("{}#{}", hit.session, hit.entry.number);
            let message = by_id.entry(id.clone()).or_insert_with(|| Message {
                id,
                title: store.session(&hit.session).ok().and_then(|row| row.title),
                session: hit.session,
                source: if hit.entry.kind == "imported" { "import" } else { "chat" },
                role: role(&hit.entry.kind),
                at_ms: Some(hit.entry.at_ms),
                text: said(&hit.entry.body),
                score: 0.0,
            });
            message.score += weight;
        }
    }
    let mut found: Vec<Message> = by_id.into_values().collect();
    found.extend(of_clients(store, words).map_err(failed)?);
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| b.at_ms.cmp(&a.at_ms)).then_with(|| a.id.cmp(&b.id)));
    Ok(found)
}

/// The messages of gateway sessions that have one of the words.
fn of_clients(store: &Sqlite, words: &[String]) -> Result<Vec<Message>, foreword_engine::session::StoreError> {
    let mut found = Vec::new();
    let mut bytes = 0;
    for client in client_sessions(store)?.into_iter().take(MOST_CLIENTS) {
        let messages = client_messages(store, &client.id)?;
        for (number, message) in messages.into_iter().enumerate() {
            bytes += message.text.len();
            let lower = message.text.to_lowercase();
            let has = words.iter().filter(|word| lower.contains(*word)).count();
            if has > 0 {
                let all = if has == words.len() { 4.0 } else { 0.0 };
                found.push(of_client(&client, number, message.who, message.text, has as f64 + all));
            }
        }
        if bytes > MOST_CLIENT_BYTES {
            break;
        }
    }
    Ok(found)
}

fn of_client(client: &ClientSession, number: usize, who: Who, text: String, score: f64) -> Message {
    let role = match who {
        Who::User => "user",
        Who::Model => "assistant",
        Who::Tools => "tool",
    };
    Message {
        id: format!("{}#{number}", client.id),
        session: client.id.clone(),
        title: client.title.clone(),
        source: "gateway",
        role,
        at_ms: Some(client.touched_ms),
        text,
        score,
    }
}

/// A whole message, in pages.
fn whole(store: Option<&Sqlite>, id: &str, offset: usize) -> Result<Answer, String> {
    let missing = || format!("no message {:?}: ids are in the results of a search with a query", one_line(id));
    let store = store.ok_or_else(missing)?;
    let (session, number) = id.rsplit_once('#').ok_or_else(missing)?;
    let number: u64 = number.parse().map_err(|_| missing())?;
    let message = if let Ok(session) = store.session(session) {
        let log = store.log(&session.id, number).map_err(|error| error.to_string())?;
        let entry = log.into_iter().find(|entry| entry.number == number).ok_or_else(missing)?;
        Message {
            id: id.to_owned(),
            session: session.id,
            title: session.title,
            source: if entry.kind == "imported" { "import" } else { "chat" },
            role: role(&entry.kind),
            at_ms: Some(entry.at_ms),
            text: said(&entry.body),
            score: 1.0,
        }
    } else {
        let clients = client_sessions(store).map_err(|error| error.to_string())?;
        let client = clients.into_iter().find(|client| client.id == session).ok_or_else(missing)?;
        let messages = client_messages(store, &client.id).map_err(|error| error.to_string())?;
        let at = usize::try_from(number).map_err(|_| missing())?;
        let message = messages.into_iter().nth(at).ok_or_else(missing)?;
        of_client(&client, at, message.who, message.text, 1.0)
    };
    let total = message.text.chars().count();
    let page: String = message.text.chars().skip(offset).take(PAGE).collect();
    let end = offset.saturating_add(page.chars().count());
    let next = (end < total && !page.is_empty()).then_some(end);
    let mut text = head(&message);
    text.push_str(&page);
    text.push_str(&next.map(|next| format!("\n(goes on at offset {next} of {total})")).unwrap_or_default());
    Ok(Answer { text, structured: json!({"messages": [row(&message, &page)], "next_offset": next}) })
}

fn head(message: &Message) -> String {
    let Message { id, title, source, role, .. } = message;
    let title = title.as_deref().map(|title| format!(", {:?}", one_line(title))).unwrap_or_default();
    let at = at(message).map(|at| format!(", {}", at.get(..10).unwrap_or_default())).unwrap_or_default();
    format!("\n[{}] {role} in a {source} session{title}{at}\n", one_line(id))
}

fn row(message: &Message, text: &str) -> Value {
    let Message { id, session, title, source, role, .. } = message;
    json!({"id": id, "session": session, "title": title, "source": source, "role": role, "at": at(message), "text": text})
}

fn at(message: &Message) -> Option<String> {
    Some(Timestamp::from_millisecond(message.at_ms?).ok()?.to_string())
}

fn role(kind: &str) -> &'static str {
    match kind {
        "assistant" => "assistant",
        "tool_result" => "tool",
        _ => "user",
    }
}

/// The text of a log entry.
fn said(body: &Value) -> String {
    match body {
        Value::Array(lines) => {
            let texts = lines.iter().filter_map(|line| {
                let role = line.get("role").and_then(Value::as_str).unwrap_or("user").to_lowercase();
                Some(format!("{role}: {}", line.get("text")?.as_str()?))
            });
            texts.collect::<Vec<_>>().join("\n\n")
        }
        body => ["words", "text", "output"].iter().find_map(|name| body.get(name)?.as_str()).unwrap_or_default().to_owned(),
    }
}

/// The words of a query that say something, in lower case.
fn words(query: &str) -> Vec<String> {
    let mut words: Vec<String> = query.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect();
    words.retain(|word| word.chars().count() > 3);
    words.dedup();
    words.truncate(MOST_WORDS);
    if words.is_empty() { vec![query.to_lowercase()] } else { words }
}

/// The part of a text around the first of the words.
fn around(text: &str, words: &[String]) -> String {
    let lower = text.to_lowercase();
    let at = words.iter().filter_map(|word| lower.find(word.as_str())).min().unwrap_or(0);
    // The lower case may have another length.
    let from = lower.get(..at).map_or(0, |before| before.chars().count()).saturating_sub(EXCERPT / 4);
    let excerpt: String = text.chars().skip(from).take(EXCERPT).collect();
    let is_end = from + EXCERPT >= text.chars().count();
    format!("{}{}{}", if from > 0 { "…" } else { "" }, excerpt.trim(), if is_end { "" } else { "…" })
}

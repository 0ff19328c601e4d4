//! What a client sent, explained: the layers of each request, what of them came from the provider's cache, where a request stopped being a
//! continuation of the one before it, why, and what that cost. All of it from the record, when somebody asks.

use std::collections::BTreeMap;

use foreword_core::hash::Hash;
use foreword_core::json;
use foreword_provider::model::Model;
use foreword_store::{Forwarded, Result, Store, StoreError};
use serde::Serialize;
use serde_json::Value;

use super::assist::without;
use super::conversation::BILLING;
use super::forward::About;
use foreword_engine::config::{Config, Server};

/// Characters of a text that are shown where two requests part.
const SHOWN: usize = 80;

/// Prices are quoted for this many tokens.
const PER: f64 = 1_000_000.0;

/// A session of a client whose requests are passed on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClientSession {
    /// Its name.
    pub id: String,
    /// The session that it is a side call of.
    pub parent: Option<String>,
    /// What it is about.
    pub title: Option<String>,
    /// The program.
    pub client: Option<String>,
    /// The model of its last request.
    pub model: String,
    /// The level of its last request.
    pub level: String,
    /// When it began, in milliseconds since 1970.
    pub created_ms: i64,
    /// When its last request came.
    pub touched_ms: i64,
    /// Requests.
    pub requests: u64,
    /// Requests without an answer, or with a refusal.
    pub failed: u64,
    /// Tokens read from the provider's cache.
    pub read: u64,
    /// Tokens written to it.
    pub write: u64,
    /// Tokens of prompts that were neither.
    pub uncached: u64,
    /// Tokens of replies.
    pub output: u64,
    /// What it cost, in USD.
    pub cost: f64,
    /// What it would have cost without a cache.
    pub cost_uncached: f64,
}

/// A request of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientRequest {
    /// Its number on record.
    pub number: u64,
    /// Its place in its session, from 1.
    pub place: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The API it is in.
    pub front: String,
    /// The model.
    pub model: String,
    /// Its level.
    pub level: String,
    /// The status of its answer.
    pub status: Option<u16>,
    /// What was added to it, as texts.
    pub added: Vec<String>,
    /// Tokens read from the provider's cache.
    pub read: u64,
    /// Tokens written to it.
    pub write: u64,
    /// Tokens of the prompt that were neither.
    pub uncached: u64,
    /// Tokens of the reply.
    pub output: u64,
    /// What it cost, in USD.
    pub cost: f64,
    /// Its layers, in the order in which a cache sees them.
    pub layers: Vec<ClientLayer>,
    /// Where it stopped being a continuation of the answered request before it.
    pub broke: Option<ClientBreak>,
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientLayer {
    /// Who it comes from: `tools`, `system`, `history`, `input`.
    pub id: &'static str,
    /// Its size: its share of the tokens that the provider counted, else an estimate.
    pub tokens: u64,
    /// The part of it that came from the cache.
    pub cached: u64,
    /// The hash of it.
    pub sha256: Hash,
    /// The hash of everything up to its end.
    pub prefix: Hash,
}

/// Where two requests part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientBreak {
    /// The first place that differs, for example `messages[3].content[0].text`.
    pub path: String,
    /// Why: `tools_changed`, `system_changed`, `message_changed`, `message_removed`, `model_changed`, `expired`.
    pub cause: &'static str,
    /// What stood there.
    pub before: Option<String>,
    /// What stands there now.
    pub now: Option<String>,
    /// Tokens of the earlier prompt that could not be read again.
    pub tokens: u64,
    /// What those cost beyond what reading them would have, in USD.
    pub cost: f64,
}

/// All sessions of clients, the last used first.
pub fn client_sessions(store: &dyn Store) -> Result<Vec<ClientSession>> {
    let mut sessions: BTreeMap<String, ClientSession> = BTreeMap::new();
    for row in store.forwarded()? {
        let Some(id) = row.session.clone() else { continue };
        let about = About::read(row.about.as_deref());
        let session =
            sessions.entry(id.clone()).or_insert_with(|| ClientSession { id, created_ms: row.at_ms, ..ClientSession::default() });
        session.add(&row, about);
    }
    let mut sessions: Vec<ClientSession> = sessions.into_values().collect();
    sessions.sort_by(|a, b| b.touched_ms.cmp(&a.touched_ms).then_with(|| a.id.cmp(&b.id)));
    Ok(sessions)
}

impl ClientSession {
    fn add(&mut self, row: &Forwarded, about: About) {
        self.parent = self.parent.take().or(about.parent);
        self.title = self.title.take().or(about.title);
        self.client = self.client.take().or(about.client);
        self.level = about.level;
        self.model.clone_from(&row.usage.model);
        self.touched_ms = self.touched_ms.max(row.at_ms);
        self.requests += 1;
        self.failed += u64::from(!is_answered(row));
        self.read += row.usage.read;
        self.write += row.usage.write;
        self.uncached += row.usage.uncached;
        self.output += row.usage.output;
        self.cost += row.usage.cost;
        self.cost_uncached += row.usage.cost_uncached;
    }
}

fn is_answered(row: &Forwarded) -> bool {
    row.status.is_some_and(|status| (200..300).contains(&status))
}

/// The requests of one, the first one first.
pub fn client_session(store: &dyn Store, id: &str, config: &Config) -> Result<Vec<ClientRequest>> {
    let mut requests = Vec::new();
    let mut before: Option<Sent> = None;
    for (place, row) in store.forwarded_of(id)?.into_iter().enumerate() {
        let body = store.forwarded_body(row.number)?;
        let about = About::read(row.about.as_deref());
        let added = about.added.iter().filter_map(|(at, len)| body.get(*at..at + len).map(str::to_owned)).collect();
        let model = config.choose(Some(&row.usage.model), Server::default()).ok().map(|chosen| chosen.model);
        let now = Sent::read(&without(&body, &about.added), &row);
        // What has no conversation (a count, vectors) is compared with nothing.
        let is_talk = matches!(row.front.as_str(), "chat" | "responses" | "messages" | "gemini");
        let broke =
            before.as_ref().filter(|_| is_talk && is_answered(&row)).and_then(|before| now.broke(before, model.as_ref(), &row));
        requests.push(ClientRequest {
            number: row.number,
            place: place as u64 + 1,
            at_ms: row.at_ms,
            front: row.front.clone(),
            model: row.usage.model.clone(),
            level: about.level,
            status: row.status,
            added,
            read: row.usage.read,
            write: row.usage.write,
            uncached: row.usage.uncached,
            output: row.usage.output,
            cost: row.usage.cost,
            layers: now.layers(row.usage.read),
            broke,
        });
        if is_talk && is_answered(&row) {
            before = Some(now);
        }
    }
    Ok(requests)
}

/// Where the second of two requests stops being a continuation of the first; none where it goes on from all of it.
pub fn client_diff(store: &dyn Store, first: u64, second: u64, config: &Config) -> Result<Option<ClientBreak>> {
    let read = |number: u64| -> Result<(Sent, Forwarded)> {
        let row = store.forwarded_before(number.checked_add(1), 1)?.pop().filter(|row| row.number == number);
        let unknown = || StoreError::Refused(format!("no request was passed on under the number {number}"));
        let row = row.ok_or_else(unknown)?;
        let about = About::read(row.about.as_deref());
        Ok((Sent::read(&without(&store.forwarded_body(number)?, &about.added), &row), row))
    };
    let ((before, _), (now, row)) = (read(first)?, read(second)?);
    let model = config.choose(Some(&row.usage.model), Server::default()).ok().map(|chosen| chosen.model);
    Ok(now.broke(&before, model.as_ref(), &row))
}

/// A part of a prompt by itself: a tool, a system text, a message.
struct Unit {
    layer: &'static str,
    path: String,
    value: Value,
    text: String,
}

/// A request, in the order in which a cache sees it.
struct Sent {
    model: String,
    at_ms: i64,
    units: Vec<Unit>,
    /// All tokens of its prompt.
    tokens: u64,
    bytes: u64,
    /// Whether its provider has what came before.
    goes_on: bool,
}

/// A value without the marks in it.
fn bare(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(bare).collect(),
        Value::Object(map) => {
            let kept = map.iter().filter(|(name, _)| !matches!(name.as_str(), "cache_control" | "prompt_cache_breakpoint"));
            kept.map(|(name, value)| (name.clone(), bare(value))).collect()
        }
        other => other.clone(),
    }
}

impl Sent {
    fn read(body: &str, row: &Forwarded) -> Self {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let mut units = Vec::new();
        let mut push = |layer, path: String, value: &Value| {
            let value = bare(value);
            let text = json::to_string(&value);
            units.push(Unit { layer, path, value, text });
        };
        for (at, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
            push("tools", format!("tools[{at}]"), tool);
        }
        for name in ["system", "instructions", "systemInstruction", "system_instruction"] {
            match body.get(name) {
                Some(Value::Array(blocks)) => {
                    let prompt = blocks
                        .iter()
                        .enumerate()
                        .filter(|(_, block)| !block["text"].as_str().is_some_and(|text| text.starts_with(BILLING)));
                    prompt.for_each(|(at, block)| push("system", format!("{name}[{at}]"), block));
                }
                None | Some(Value::Null) => {}
                Some(value) => push("system", name.to_owned(), value),
            }
        }
        for name in ["messages", "input", "contents"] {
            let Some(list) = body.get(name) else { continue };
            let Some(list) = list.as_array() else {
                push("input", name.to_owned(), list);
                continue;
            };
            let is_model = |message: &Value| {
                let kind = message["type"].as_str().unwrap_or_default();
                matches!(message["role"].as_str(), Some("assistant" | "model"))
                    || (message["role"].is_null() && kind != "message" && !kind.ends_with("_output"))
            };
            let input = list.iter().rposition(is_model).map_or(0, |last| last + 1);
            let mut begun = false;
            for (at, message) in list.iter().enumerate() {
                let is_system = !begun && matches!(message["role"].as_str(), Some("system" | "developer"));
                begun |= !is_system;
                let layer = if is_system {
                    "system"
                } else if at < input {
                    "history"
                } else {
                    "input"
                };
                push(layer, format!("{name}[{at}]"), message);
            }
        }
        let bytes: usize = units.iter().map(|unit| unit.text.len()).sum();
        let bytes = bytes as u64;
        let used = row.usage.read + row.usage.write + row.usage.uncached;
        let tokens = if used > 0 { used } else { bytes / 4 };
        let goes_on = body["previous_response_id"].is_string();
        Self { model: row.usage.model.clone(), at_ms: row.at_ms, units, tokens, bytes, goes_on }
    }

    /// The tokens that so many bytes are.
    fn share(&self, bytes: u64) -> u64 {
        (self.tokens * bytes).checked_div(self.bytes).unwrap_or(0)
    }

    fn layers(&self, read: u64) -> Vec<ClientLayer> {
        let (mut layers, mut prefix, mut end, mut until) = (Vec::new(), String::new(), 0, 0);
        for id in ["tools", "system", "history", "input"] {
            let texts: Vec<&str> = self.units.iter().filter(|unit| unit.layer == id).map(|unit| unit.text.as_str()).collect();
            if texts.is_empty() {
                continue;
            }
            let sha256 = Hash::of(texts.join("\n"));
            prefix.push_str(&sha256.to_string());
            end += texts.iter().map(|text| text.len() as u64).sum::<u64>();
            let (from, to) = (until, self.share(end));
            until = to;
            let cached = read.clamp(from, to) - from;
            layers.push(ClientLayer { id, tokens: to - from, cached, sha256, prefix: Hash::of(&prefix) });
        }
        layers
    }

    /// Where this stopped being a continuation of `before`.
    fn broke(&self, before: &Self, model: Option<&Model>, row: &Forwarded) -> Option<ClientBreak> {
        let same = self
            .units
            .iter()
            .zip(&before.units)
            .take_while(|(now, before)| now.text == before.text && now.layer_of() == before.layer_of())
            .count();
        let shared: u64 = before.units.iter().take(same).map(|unit| unit.text.len() as u64).sum();
        let (was, is) = (before.units.get(same), self.units.get(same));
        let lifetime_ms =
            model.and_then(|model| model.cache.lifetime_s()).map(|s| i64::try_from(s).unwrap_or(i64::MAX).saturating_mul(1000));
        let (path, cause, shared) = match (was, is) {
            _ if self.model != before.model => ("model".to_owned(), "model_changed", 0),
            _ if self.goes_on => return None,
            (None, _) => {
                // All of it is there again; it may have been forgotten meanwhile.
                let expired =
                    lifetime_ms.is_some_and(|life| self.at_ms - before.at_ms > life) && row.usage.read * 2 < before.tokens;
                if !expired {
                    return None;
                }
                (String::new(), "expired", 0)
            }
            (Some(was), is) => {
                let cause = match (was.layer, is.map(|is| is.layer)) {
                    ("tools", _) | (_, Some("tools")) => "tools_changed",
                    ("system", _) | (_, Some("system")) => "system_changed",
                    (_, None) => "message_removed",
                    _ => "message_changed",
                };
                let inner = is.and_then(|is| differs(&was.value, &is.value)).unwrap_or_default();
                (format!("{}{inner}", is.map_or(&was.path, |is| &is.path)), cause, shared)
            }
        };
        let tokens = before.tokens.saturating_sub(before.share(shared)).min(row.usage.write + row.usage.uncached);
        let price = model.and_then(|model| model.prices).map_or(0.0, |prices| {
            let paid = if row.usage.write > 0 { prices.write() } else { prices.input };
            (paid - prices.read()).max(0.0)
        });
        let show = |unit: Option<&Unit>| unit.map(|unit| excerpt(unit, was, is));
        let (shown_before, shown_now) = if matches!(cause, "expired" | "model_changed") {
            let model = |sent: &Self| (cause == "model_changed").then(|| sent.model.clone());
            (model(before), model(self))
        } else {
            (show(was), show(is))
        };
        Some(ClientBreak { path, cause, before: shown_before, now: shown_now, tokens, cost: tokens as f64 * price / PER })
    }
}

impl Unit {
    /// What a cache tells apart: the system prompt and tools stand in front of messages.
    fn layer_of(&self) -> &'static str {
        if self.layer == "input" { "history" } else { self.layer }
    }
}

/// The words of a unit from shortly before the place where it differs from the other.
fn excerpt(unit: &Unit, was: Option<&Unit>, is: Option<&Unit>) -> String {
    let (a, b) = (was.map_or("", |unit| unit.text.as_str()), is.map_or("", |unit| unit.text.as_str()));
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let from = unit.text.floor_char_boundary(same.saturating_sub(SHOWN / 4).min(unit.text.len()));
    unit.text[from..].chars().take(SHOWN).collect()
}

/// The path within a value to the first place that differs.
fn differs(was: &Value, is: &Value) -> Option<String> {
    match (was, is) {
        (Value::Object(was), Value::Object(is)) => {
            // Longer texts say more than short fields.
            let names: std::collections::BTreeSet<&String> = was.keys().chain(is.keys()).collect();
            names.into_iter().find_map(|name| match (was.get(name), is.get(name)) {
                (Some(was), Some(is)) => differs(was, is).map(|inner| format!(".{name}{inner}")),
                _ => Some(format!(".{name}")),
            })
        }
        (Value::Array(was), Value::Array(is)) => {
            let inner =
                was.iter().zip(is).enumerate().find_map(|(at, (was, is))| differs(was, is).map(|inner| format!("[{at}]{inner}")));
            inner.or_else(|| (was.len() != is.len()).then(|| format!("[{}]", was.len().min(is.len()))))
        }
        (was, is) => (was != is).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use foreword_store::Usage;
    use serde_json::json;

    use super::*;

    fn row(at_ms: i64, [read, write, uncached]: [u64; 3]) -> Forwarded {
        Forwarded {
            number: 1,
            at_ms,
            front: "messages".to_owned(),
            session: None,
            status: Some(200),
            usage: Usage { model: "claude-sonnet-5".to_owned(), read, write, uncached, ..Usage::default() },
            about: None,
            came: None,
        }
    }

    fn body(system: &str, tool: &str, words: &[&str]) -> Value {
        let messages: Vec<Value> = words
            .iter()
            .enumerate()
            .map(|(at, words)| json!({"role": if at % 2 == 0 { "user" } else { "assistant" }, "content": words}))
            .collect();
        json!({"model": "m", "system": system, "tools": [{"name": tool}], "messages": messages})
    }

    #[test]
    fn a_break_has_a_place_a_cause_and_a_price() {
        let model = Config::read("").unwrap().choose(Some("claude-sonnet-5"), Server::default()).unwrap().model;
        let long = "w".repeat(4000);
        let check = |before: &Value, now: &Value, at_ms: i64, read: u64, expect: Option<(&str, &str)>| {
            let (first, second) = (row(0, [0, 1000, 0]), row(at_ms, [read, 1500 - read, 0]));
            let found =
                Sent::read(&now.to_string(), &second).broke(&Sent::read(&before.to_string(), &first), Some(&model), &second);
            assert_eq!(found.as_ref().map(|found| (found.path.as_str(), found.cause)), expect, "{found:?}");
            found
        };
        let first = body("s", "t", &[&long]);
        check(&first, &body("s", "t", &[&long, "a", "b"]), 1000, 1000, None);
        let broke =
            check(&first, &body("s, today", "t", &[&long, "a", "b"]), 1000, 0, Some(("system", "system_changed"))).unwrap();
        // Nearly all of 1,000 tokens, written for 2.50 where reading costs 0.20 a million.
        assert!((970..=1000).contains(&broke.tokens) && (broke.cost - broke.tokens as f64 * 2.3e-6).abs() < 1e-9, "{broke:?}");
        assert_eq!((broke.before.as_deref(), broke.now.as_deref()), (Some("\"s\""), Some("\"s, today\"")));
        check(&first, &body("s", "u", &[&long]), 1000, 0, Some(("tools[0].name", "tools_changed")));
        check(
            &body("s", "t", &["a", "b", "c"]),
            &body("s", "t", &["a", "x", "c"]),
            1000,
            0,
            Some(("messages[1].content", "message_changed")),
        );
        check(&body("s", "t", &["a", "b", "c"]), &body("s", "t", &["a"]), 1000, 0, Some(("messages[1]", "message_removed")));
        check(&first, &body("s", "t", &[&long, "a", "b"]), 400_000, 0, Some(("", "expired")));
        let mut marked = first.clone();
        marked["messages"][0]["cache_control"] = json!({"type": "ephemeral"});
        check(&first, &marked, 1000, 900, None);
    }

    #[test]
    fn layers_share_the_tokens_that_were_counted() {
        let sent = Sent::read(&body("sys", "tool", &["a", "b", "c"]).to_string(), &row(0, [50, 0, 50]));
        let layers = sent.layers(50);
        assert_eq!(layers.iter().map(|layer| layer.id).collect::<Vec<_>>(), ["tools", "system", "history", "input"]);
        assert_eq!(layers.iter().map(|layer| layer.tokens).sum::<u64>(), 100);
        assert_eq!(layers.iter().map(|layer| layer.cached).sum::<u64>(), 50);
        assert_eq!(layers[3].cached, 0);
    }
}

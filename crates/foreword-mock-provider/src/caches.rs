//! Gemini's `cachedContents`: created, read, given a longer life, deleted, listed, and gone when their time is over.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::errors;
use super::http::{Request, Response};
use foreword_prompt_cache::body_prompt as prompt;
use foreword_provider::dialect::Dialect;
use foreword_provider::model::Model;
use foreword_provider::stream::PromptStream;
use foreword_provider::table::ModelTable;

const GONE: &str = "CachedContent not found (or permission denied)";

#[derive(Debug)]
struct Content {
    body: Value,
    model: String,
    tokens: u64,
    /// Seconds of the server's clock.
    until: u64,
}

/// All of them, by name.
#[derive(Debug, Default)]
pub(super) struct Caches {
    made: u64,
    alive: BTreeMap<String, Content>,
}

impl Caches {
    pub(super) fn count(&mut self, now: u64) -> usize {
        self.alive.retain(|_, content| now < content.until);
        self.alive.len()
    }

    /// Answers a request for the resource `path`.
    pub(super) fn answer(&mut self, path: &str, request: &Request, now: u64, table: &ModelTable) -> Result<Response, Response> {
        self.count(now);
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        match (request.method.as_str(), path) {
            ("POST", "cachedContents") => self.create(body, now, table),
            ("GET", "cachedContents") => {
                let all: Vec<Value> = self.alive.iter().map(|(name, content)| shown(name, content, now)).collect();
                Ok(Response::json(200, &json!({"cachedContents": all})))
            }
            ("PATCH", name) => {
                let until = now + ttl(&body)?;
                let content = self.alive.get_mut(name).ok_or_else(|| refuse(403, GONE))?;
                content.until = until;
                Ok(Response::json(200, &shown(name, content, now)))
            }
            ("GET", name) => {
                let content = self.alive.get(name).ok_or_else(|| refuse(403, GONE))?;
                Ok(Response::json(200, &shown(name, content, now)))
            }
            ("DELETE", name) => {
                self.alive.remove(name).ok_or_else(|| refuse(403, GONE))?;
                Ok(Response::json(200, &json!({})))
            }
            _ => Err(refuse(404, "Not Found")),
        }
    }

    fn create(&mut self, body: Value, now: u64, table: &ModelTable) -> Result<Response, Response> {
        let name = body["model"].as_str().unwrap_or_default().trim_start_matches("models/").to_owned();
        let model = table.find(&name).map_err(|_| refuse(404, &errors::no_model(Dialect::Gemini, &name)))?;
        let until = now + ttl(&body)?;
        let tokens = prompt::read(Dialect::Gemini, &body, &model).tokens().0;
        let least = model.cache.minimum();
        if tokens < least {
            let text = format!("Cached content is too small. total_token_count={tokens}, min_total_token_count={least}");
            return Err(refuse(400, &text));
        }
        self.made += 1;
        let content = Content { body, model: model.name, tokens, until };
        let name = format!("cachedContents/double{}", self.made);
        let response = Response::json(200, &shown(&name, &content, now));
        self.alive.insert(name, content);
        Ok(response)
    }

    /// The prompt of a request that names a cache.
    pub(super) fn prompt(&mut self, name: &str, body: &Value, model: &Model, now: u64) -> Result<PromptStream, Response> {
        self.count(now);
        let content = self.alive.get(name).ok_or_else(|| refuse(403, GONE))?;
        if content.model != model.name {
            let text = format!(
                "Model used by GenerateContent request (models/{}) and CachedContent (models/{}) has to be the same.",
                model.name, content.model
            );
            return Err(refuse(400, &text));
        }
        Ok(prompt::read_behind(&content.body, body, model))
    }
}

fn refuse(status: u16, text: &str) -> Response {
    errors::response(Dialect::Gemini, status, text)
}

fn ttl(body: &Value) -> Result<u64, Response> {
    match body["ttl"].as_str() {
        None => Ok(3600),
        Some(text) => {
            let seconds = text.strip_suffix('s').and_then(|seconds| seconds.parse().ok());
            seconds.ok_or_else(|| refuse(400, "Invalid value at 'cached_content.ttl' (Field 'ttl', Illegal duration format)"))
        }
    }
}

fn shown(name: &str, content: &Content, now: u64) -> Value {
    let left = i64::try_from(content.until.saturating_sub(now)).unwrap_or(i64::MAX);
    let expires = Timestamp::now().checked_add(SignedDuration::from_secs(left)).unwrap_or(Timestamp::MAX);
    json!({
        "name": name, "model": format!("models/{}", content.model), "displayName": content.body["displayName"],
        "expireTime": expires.to_string(), "usageMetadata": {"totalTokenCount": content.tokens},
    })
}

//! Gemini's explicit caches: resources that cost storage while they exist. Each is created once, kept alive while in use, and
//! deleted at the end. After a crash they expire on their own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use foreword_core::hash::Hash;
use foreword_core::tokens::Tokens;
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use url::Url;

use super::error::{SendError, Waited};
use super::{Client, start_of};
use crate::clock;
use crate::dialect::gemini::GeminiCacheRequest;
use crate::refusal::Fault;
use crate::reply::ReadError;

/// A cache is not used this shortly before it expires.
const MARGIN: SignedDuration = SignedDuration::from_secs(10);
/// The largest number of known caches.
const MAX_CACHES: usize = 1024;

/// A cache at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// Its name, for `BodyOptions::cached_content`.
    pub name: String,
    /// Its size in tokens.
    pub tokens: Tokens,
    /// When it expires.
    pub expires: Timestamp,
}

/// The explicit caches of one client.
#[derive(Debug)]
pub struct ExplicitCaches {
    client: Arc<Client>,
    lifetime: Duration,
    /// `None` if the provider rejected a prompt as too small.
    known: Mutex<BTreeMap<Hash, Option<Cached>>>,
}

impl ExplicitCaches {
    /// Creates an empty set. Each cache will live for `lifetime` after its last use.
    pub fn new(client: Arc<Client>, lifetime: Duration) -> Self {
        Self { client, lifetime, known: Mutex::default() }
    }

    /// The cache for `request`: created if missing, and renewed after half of its lifetime. `None` if the provider rejects it as
    /// too small; then the whole prompt is sent.
    pub async fn get(&self, request: &GeminiCacheRequest) -> Result<Option<Cached>, SendError> {
        // Held while the provider is asked: a second caller would make the same cache again.
        let mut known = self.known.lock().await;
        let now = clock::now();
        known.retain(|_, cached| cached.as_ref().is_none_or(|cached| cached.expires.duration_since(now) > MARGIN));
        let half = SignedDuration::try_from(self.lifetime / 2).unwrap_or(SignedDuration::MAX);
        match known.get(&request.key) {
            Some(None) => return Ok(None),
            Some(Some(cached)) if cached.expires.duration_since(now) >= half => return Ok(Some(cached.clone())),
            Some(Some(cached)) => match self.refresh(&cached.name).await {
                Ok(cached) => {
                    known.insert(request.key, Some(cached.clone()));
                    return Ok(Some(cached));
                }
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            },
            None => {}
        }
        let made = match self.create(&request.body).await {
            Ok(cached) => Some(cached),
            Err(error) if is_too_small(&error) => None,
            Err(error) => return Err(error),
        };
        if known.len() >= MAX_CACHES {
            known.pop_first();
        }
        known.insert(request.key, made.clone());
        Ok(made)
    }

    /// Forgets a cache that no longer exists; [`get`](Self::get) creates it again.
    pub async fn forget(&self, name: &str) {
        self.known.lock().await.retain(|_, cached| cached.as_ref().is_none_or(|cached| cached.name != name));
    }

    /// Deletes all caches. Returns their number.
    pub async fn clean_up(&self) -> Result<usize, SendError> {
        let mut known = self.known.lock().await;
        let mut deleted = 0;
        while let Some(entry) = known.first_entry() {
            if let Some(cached) = entry.get() {
                match self.client.resource(Method::DELETE, &self.address(&cached.name), None).await {
                    Ok(_) => deleted += 1,
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            entry.remove();
        }
        Ok(deleted)
    }

    async fn create(&self, body: &[u8]) -> Result<Cached, SendError> {
        let url = self.client.address(&["cachedContents"]);
        let answer = self.client.resource(Method::POST, &url, Some(body.to_vec())).await?;
        self.read(&answer)
    }

    async fn refresh(&self, name: &str) -> Result<Cached, SendError> {
        let mut url = self.address(name);
        url.set_query(Some("updateMask=ttl"));
        let body = json!({"ttl": format!("{}s", self.lifetime.as_secs())}).to_string();
        let answer = self.client.resource(Method::PATCH, &url, Some(body.into_bytes())).await?;
        self.read(&answer)
    }

    /// The URL of a cache, from the provider's `cachedContents/…` name.
    fn address(&self, name: &str) -> Url {
        self.client.address(&name.split('/').collect::<Vec<_>>())
    }

    fn read(&self, answer: &Value) -> Result<Cached, SendError> {
        let name = answer["name"].as_str().filter(|name| name.starts_with("cachedContents/"));
        let expires = answer["expireTime"].as_str().and_then(|time| time.parse().ok());
        let (Some(name), Some(expires)) = (name, expires) else {
            let why = "the provider created a cache without a name or an expiry time".to_owned();
            return Err(SendError::Unread { host: self.client.host.clone(), error: ReadError::Strange { why } });
        };
        let tokens = answer.pointer("/usageMetadata/totalTokenCount").and_then(Value::as_u64).unwrap_or(0);
        Ok(Cached { name: name.to_owned(), tokens: Tokens(tokens), expires })
    }
}

impl Client {
    /// Sends a request for a small JSON resource.
    async fn resource(&self, method: Method, url: &Url, body: Option<Vec<u8>>) -> Result<Value, SendError> {
        let limit = self.timeouts.begin;
        let mut tried = 0;
        loop {
            tried += 1;
            let asked = async {
                let mut sent = self.call(method.clone(), url, body.clone()).await?;
                let text = start_of(&mut sent.response).await;
                serde_json::from_slice(&text).map_err(|error| {
                    let why = format!("the answer is not JSON ({error})");
                    SendError::Unread { host: self.host.clone(), error: ReadError::Strange { why } }
                })
            };
            let answer = tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| Err(self.slow(Waited::Begin, limit)));
            let wait = match &answer {
                Ok(_) => None,
                Err(error) => self.retry.wait(tried, error),
            };
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return answer,
            }
        }
    }
}

fn is_gone(error: &SendError) -> bool {
    error.refusal().is_some_and(|refusal| matches!(refusal.fault, Fault::CacheGone | Fault::NotFound))
}

fn is_too_small(error: &SendError) -> bool {
    error.refusal().is_some_and(|refusal| refusal.message.contains("content is too small"))
}

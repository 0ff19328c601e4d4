//! A request of someone else, sent on as it came; its answer goes back as it comes.

use bytes::Bytes;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tokio::time::Instant;

use super::config::Timeouts;
use super::error::{SendError, Waited};
use super::key::{KeyError, Secret};
use super::{Client, key_header};
use crate::front::Front;
use crate::reply::{Form, Reader};

/// Headers of a client that mean something to a provider. No other goes along.
const ALONG: [&str; 6] =
    ["anthropic-version", "anthropic-beta", "openai-organization", "openai-project", "openai-beta", "idempotency-key"];

/// Headers of an answer that mean something to a client.
const BACK: [HeaderName; 6] = [
    CONTENT_TYPE,
    RETRY_AFTER,
    HeaderName::from_static("retry-after-ms"),
    HeaderName::from_static("x-should-retry"),
    HeaderName::from_static("request-id"),
    HeaderName::from_static("x-request-id"),
];

/// Bytes of a refusal; what is behind them is lost.
const MAX_REFUSAL: usize = 1 << 20;

/// A request to send on.
#[derive(Debug)]
pub struct Untouched {
    /// The API it is in.
    pub front: Front,
    /// Its bytes.
    pub body: Bytes,
    /// Its headers, of which a few go along.
    pub headers: HeaderMap,
    /// The client's own key, which is used in place of ours.
    pub key: Option<Secret>,
}

/// An answer on its way back. Dropping it ends the request.
#[derive(Debug)]
pub struct Forwarded {
    response: Response,
    /// A refusal, whole.
    refusal: Option<Bytes>,
    host: String,
    timeouts: Timeouts,
    deadline: Instant,
}

impl Front {
    /// Where the API is behind a provider's base.
    fn path(self) -> &'static [&'static str] {
        match self {
            Self::Chat => &["chat", "completions"],
            Self::Responses => &["responses"],
            Self::Messages => &["messages"],
        }
    }
}

impl Client {
    /// Sends a request on as it came, with its own key where it brings one, else with ours. It is not tried again: whoever made it sees what came of it, and decides.
    pub async fn forward(&self, request: Untouched) -> Result<Forwarded, SendError> {
        let Untouched { front, body, headers: given, key } = request;
        let deadline = Instant::now() + self.timeouts.total;
        let is_theirs = key.is_some();
        let key = match key {
            Some(theirs) => Some(theirs),
            None => self.key.get().await.map_err(SendError::Key)?,
        };
        let mut headers = self.headers.clone();
        for name in ALONG {
            if let Some(value) = given.get(name) {
                headers.insert(name, value.clone());
            }
        }
        if let Some(key) = &key {
            let (name, mut value) = key_header(self.dialect, key).ok_or(SendError::Key(KeyError::Characters))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let sent = self.http.post(self.address(front.path())).headers(headers).body(body).send();
        let response = match tokio::time::timeout_at(deadline.min(Instant::now() + self.timeouts.begin), sent).await {
            Ok(sent) => sent.map_err(|error| SendError::network(&self.host, &error))?,
            Err(_) => return Err(self.slow(Waited::Begin, self.timeouts.begin)),
        };
        let (host, timeouts) = (self.host.clone(), self.timeouts);
        let mut answer = Forwarded { response, refusal: None, host, timeouts, deadline };
        if answer.response.status() == 401 && !is_theirs {
            self.key.forget().await;
        }
        if !answer.response.status().is_success() {
            answer.refusal = Some(answer.read_refusal(key.as_ref()).await?);
        }
        Ok(answer)
    }
}

impl Forwarded {
    /// Its status.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The headers that go back with it.
    pub fn headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        BACK.into_iter().filter_map(|name| self.response.headers().get(&name).cloned().map(|value| (name, value)))
    }

    /// Something that reads it, to know what it cost.
    pub fn reader(&self, front: Front, max: usize) -> Reader {
        let kind = self.response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let form = if kind.starts_with("text/event-stream") { Form::Stream } else { Form::Whole };
        Reader::new(front.dialect(), form, max)
    }

    /// Its next bytes; none after the last.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SendError> {
        if let Some(refusal) = &mut self.refusal {
            return Ok(Some(std::mem::take(refusal)).filter(|bytes| !bytes.is_empty()));
        }
        self.chunk().await
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, SendError> {
        let until = self.deadline.min(Instant::now() + self.timeouts.idle);
        if let Ok(chunk) = tokio::time::timeout_at(until, self.response.chunk()).await {
            return chunk.map_err(|error| SendError::network(&self.host, &error));
        }
        let (waited, limit) =
            if until == self.deadline { (Waited::Whole, self.timeouts.total) } else { (Waited::Next, self.timeouts.idle) };
        Err(SendError::TooSlow { host: self.host.clone(), waited, limit })
    }

    /// A refusal may repeat the key, which is not the client's to see.
    async fn read_refusal(&mut self, key: Option<&Secret>) -> Result<Bytes, SendError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk[..chunk.len().min(MAX_REFUSAL - bytes.len())]);
            if bytes.len() == MAX_REFUSAL {
                break;
            }
        }
        match (std::str::from_utf8(&bytes), key.map(Secret::expose)) {
            (Ok(text), Some(key)) if !key.is_empty() && text.contains(key) => Ok(text.replace(key, "[key]").into()),
            _ => Ok(bytes.into()),
        }
    }
}

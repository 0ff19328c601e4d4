//! A request of someone else, sent on as it came; its answer goes back as it comes.

use bytes::Bytes;
use reqwest::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE,
};
use reqwest::{Method, Response};
use tokio::time::Instant;
use url::Url;

use super::config::Timeouts;
use super::error::{SendError, Waited};
use super::key::{KeyError, Secret};
use super::{Client, key_header};
use crate::dialect::Dialect;
use crate::reply::Form;

/// Headers that belong to one connection and not to the request or its answer (RFC 9110, 7.6.1).
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers of a request that end here beside those: what only this server is meant to read, and what a browser or a proxy in front adds.
const KEPT_HERE: [&str; 7] = ["host", "content-length", "expect", "cookie", "forwarded", "via", "x-real-ip"];

/// Headers that hold a key.
const KEYS: [&str; 3] = ["authorization", "x-api-key", "x-goog-api-key"];

/// Bytes of a refusal; what is behind them is lost.
const MAX_REFUSAL: usize = 1 << 20;

/// A request to send on.
#[derive(Debug)]
pub struct Untouched {
    /// Its method.
    pub method: Method,
    /// Its path behind the version, with its query: `messages?beta=true`.
    pub path: String,
    /// Its bytes.
    pub body: Bytes,
    /// Its headers, without keys of ours.
    pub headers: HeaderMap,
    /// The client's own key, which is used in place of ours.
    pub key: Option<Secret>,
}

/// An answer on its way back. Dropping it ends the request.
#[derive(Debug)]
pub struct Forwarded {
    response: Response,
    /// A refusal from which our key was removed.
    refusal: Option<Bytes>,
    host: String,
    timeouts: Timeouts,
    deadline: Instant,
}

/// Whether a header belongs to one connection.
fn is_hop_by_hop(headers: &HeaderMap, name: &HeaderName) -> bool {
    let named = || {
        let lists = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        lists.flat_map(|list| list.split(',')).any(|word| word.trim().eq_ignore_ascii_case(name.as_str()))
    };
    HOP_BY_HOP.contains(&name.as_str()) || named()
}

fn ends_here(name: &HeaderName) -> bool {
    let name = name.as_str();
    KEPT_HERE.contains(&name)
        || name.starts_with("x-foreword-")
        || name.starts_with("x-forwarded-")
        || name.starts_with("sec-fetch-")
}

/// The codings a client takes, as far as they can be read in passing.
fn codings(value: &HeaderValue) -> HeaderValue {
    let text = value.to_str().unwrap_or_default();
    let takes = |coding: &str| {
        text.split(',').any(|part| {
            let (name, weight) = part.split_once(';').unwrap_or((part, ""));
            name.trim().eq_ignore_ascii_case(coding) && !matches!(weight.trim(), "q=0" | "q=0.0")
        })
    };
    HeaderValue::from_static(if takes("gzip") || takes("*") { "gzip" } else { "identity" })
}

impl Client {
    /// Sends a request on as it came, with its own key where it brings one, else with ours. It is not tried again: whoever made it sees what came of it, and decides.
    pub async fn forward(&self, request: Untouched) -> Result<Forwarded, SendError> {
        let Untouched { method, path, body, headers: given, key } = request;
        let deadline = Instant::now() + self.timeouts.total;
        let is_theirs = key.is_some();
        let url = self.behind(&path)?;
        let (headers, ours) = self.forwarded_headers(&given, key, !body.is_empty()).await?;
        let mut sent = self.http.request(method, url).headers(headers);
        if !body.is_empty() {
            sent = sent.body(body);
        }
        let response = match tokio::time::timeout_at(deadline.min(Instant::now() + self.timeouts.begin), sent.send()).await {
            Ok(sent) => sent.map_err(|error| SendError::network(&self.host, &error))?,
            Err(_) => return Err(self.slow(Waited::Begin, self.timeouts.begin)),
        };
        let (host, timeouts) = (self.host.clone(), self.timeouts);
        let mut answer = Forwarded { response, refusal: None, host, timeouts, deadline };
        if answer.response.status() == 401 && !is_theirs {
            self.key.forget().await;
        }
        // A client hears of its own key what it likes; ours is not its to see.
        if let Some(ours) = ours
            && !answer.response.status().is_success()
        {
            answer.refusal = Some(answer.read_refusal(&ours).await?);
        }
        Ok(answer)
    }

    /// The base with a path and a query behind it, as they were written.
    fn behind(&self, path: &str) -> Result<Url, SendError> {
        let refused = || SendError::Network { host: self.host.clone(), why: "the path leads elsewhere".to_owned() };
        // A path that climbs would leave the base.
        let climbs = |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
        let plain = path.split(['?', '#']).next().unwrap_or_default();
        if plain.split(['/', '\\']).any(climbs) || path.contains('#') {
            return Err(refused());
        }
        let base = self.base.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}/{path}")).map_err(|_| refused())
    }

    /// What goes along with a request, and our key where it is used.
    async fn forwarded_headers(
        &self,
        given: &HeaderMap,
        key: Option<Secret>,
        has_body: bool,
    ) -> Result<(HeaderMap, Option<Secret>), SendError> {
        let mut headers = HeaderMap::with_capacity(given.len() + 4);
        let is_native = |name: &HeaderName| match self.dialect {
            Dialect::Anthropic => name == "authorization" || name == "x-api-key",
            Dialect::Gemini => name == "authorization" || name == "x-goog-api-key",
            Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::LlamaCpp => name == "authorization",
        };
        let mut has_key = false;
        for (name, value) in given {
            if is_hop_by_hop(given, name) || ends_here(name) {
                continue;
            }
            if KEYS.contains(&name.as_str()) {
                if key.is_some() && is_native(name) {
                    let mut value = value.clone();
                    value.set_sensitive(true);
                    headers.append(name, value);
                    has_key = true;
                }
                continue;
            }
            let value = if name == ACCEPT_ENCODING { codings(value) } else { value.clone() };
            headers.append(name, value);
        }
        for (name, value) in &self.headers {
            // A secret of the operator counts more than what a client says.
            let is_wanted = (has_body || name != CONTENT_TYPE) && !headers.contains_key(name);
            if value.is_sensitive() || is_wanted {
                headers.insert(name, value.clone());
            }
        }
        let ours = match &key {
            Some(_) => None,
            None => self.key.get().await.map_err(SendError::Key)?,
        };
        if let Some(key) = ours.as_ref().or(key.as_ref().filter(|_| !has_key)) {
            let (name, mut value) = key_header(self.dialect, key).ok_or(SendError::Key(KeyError::Characters))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok((headers, ours))
    }
}

impl Forwarded {
    /// Its status.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The headers that go back with it: all but those of the connection, and cookies.
    pub fn headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let all = self.response.headers();
        let goes = |name: &HeaderName| {
            // The length of a refusal may have changed.
            let is_length = name == CONTENT_LENGTH && self.refusal.is_some();
            !is_hop_by_hop(all, name) && name != SET_COOKIE && !is_length && !name.as_str().starts_with("x-foreword-")
        };
        all.iter().filter(move |(name, _)| goes(name)).map(|(name, value)| (name.clone(), value.clone()))
    }

    /// How its body is written: the media type and the coding.
    pub fn form(&self) -> (Form, Option<&str>) {
        let text = |name: HeaderName| self.response.headers().get(name).and_then(|kind| kind.to_str().ok());
        let is_stream = text(CONTENT_TYPE).is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/event-stream"));
        (if is_stream { Form::Stream } else { Form::Whole }, text(CONTENT_ENCODING))
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
    async fn read_refusal(&mut self, key: &Secret) -> Result<Bytes, SendError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk[..chunk.len().min(MAX_REFUSAL - bytes.len())]);
            if bytes.len() == MAX_REFUSAL {
                break;
            }
        }
        match (std::str::from_utf8(&bytes), key.expose()) {
            (Ok(text), key) if !key.is_empty() && text.contains(key) => Ok(text.replace(key, "[key]").into()),
            _ => Ok(bytes.into()),
        }
    }
}

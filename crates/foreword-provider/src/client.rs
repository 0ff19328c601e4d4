//! Step 7: sends the bytes of a request body unchanged and returns the answer as events.
//!
//! A request is retried only before the model begins to answer; after that a retry could give another answer and cost twice. Dropping an
//! [`Answer`] or its future cancels the request.
//!
//! ```no_run
//! # use foreword_provider::{client::*, dialect::Dialect, model::Model, render::Body, reply::Event};
//! # async fn example(model: &Model, body: &Body) -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(ClientConfig::new(Dialect::Anthropic))?;
//! let mut answer = client.send(model, body, Delivery::Stream).await?;
//! while let Some(event) = answer.next().await? {
//!     if let Event::Text(text) = event {
//!         print!("{text}");
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod answer;
mod caches;
mod config;
mod error;
mod flight;
mod forward;
mod key;
mod reach;
mod retry;

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, redirect};
use tokio::time::Instant;
use url::Url;

use crate::dialect::Dialect;
use crate::endpoint;
use crate::model::Model;
use crate::refusal::Refusal;
use crate::render::Body;
use crate::reply::{Form, Reader};

pub use crate::endpoint::Delivery;
pub use answer::Answer;
pub use bytes::Bytes;
pub use caches::{Cached, ExplicitCaches};
pub use config::{ClientConfig, Retry, Timeouts};
pub use error::{SendError, SetupError, Waited};
pub use forward::{Forwarded, Untouched};
pub use key::{KeyError, KeySource, Secret};
pub use reqwest::Method;
pub use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use flight::{Flight, Flights};
use key::Key;

/// The largest part of an error response that is read.
const MAX_REFUSAL: usize = 64 << 10;
const MAX_HEADERS: usize = 200;

/// A request that the provider accepted, and the key that was used.
struct Sent {
    response: Response,
    key: Option<Secret>,
}

/// A client for one provider with one key.
pub struct Client {
    dialect: Dialect,
    base: Url,
    host: String,
    http: reqwest::Client,
    headers: HeaderMap,
    key: Arc<Key>,
    timeouts: Timeouts,
    retry: Retry,
    max_bytes: usize,
    flights: Arc<Mutex<Flights>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("dialect", &self.dialect).field("host", &self.host).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client. Nothing is sent, and the key is not looked up yet.
    pub fn new(config: ClientConfig) -> Result<Self, SetupError> {
        let ClientConfig { dialect, base_url, key, headers: more, proxy, timeouts, retry, max_bytes, user_agent } = config;
        let (timeouts, retry) = (timeouts.bounded(), retry.bounded());
        let text = base_url.unwrap_or_else(|| endpoint::base_url(dialect).to_owned());
        let base = config::parse_base(&text)?;
        let host = config::shown_host(&base);
        let mut headers = HeaderMap::new();
        for &(name, value) in endpoint::headers(dialect) {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        for (name, value) in &more {
            let bad = || SetupError::Header { name: name.clone() };
            let header = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
            let mut value = HeaderValue::try_from(value.expose()).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        // An error says that a provider is there already, which will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            // A key is not carried on to wherever an answer points.
            .redirect(redirect::Policy::none())
            .referer(false)
            .user_agent(user_agent)
            .http1_max_headers(MAX_HEADERS)
            .connect_timeout(timeouts.connect);
        if let Some(proxy) = proxy {
            builder = builder.proxy(reqwest::Proxy::all(proxy.expose()).map_err(|_| SetupError::Proxy)?);
        }
        let http = builder.build().map_err(|error| SetupError::Http(error::innermost(&error)))?;
        let key = Arc::new(Key::new(key));
        Ok(Self { dialect, base, host, http, headers, key, timeouts, retry, max_bytes, flights: Arc::default() })
    }

    /// A client for the same provider with another key. Connections are shared.
    #[must_use]
    pub fn with_key(&self, key: Secret) -> Self {
        Self {
            dialect: self.dialect,
            base: self.base.clone(),
            host: self.host.clone(),
            http: self.http.clone(),
            headers: self.headers.clone(),
            key: Arc::new(Key::new(KeySource::Given(key))),
            timeouts: self.timeouts,
            retry: self.retry,
            max_bytes: self.max_bytes,
            // What one key has warmed is not there for another.
            flights: Arc::default(),
        }
    }

    /// The same for one request of somebody who decides about tries: it is sent once, and waits for no other.
    #[must_use]
    pub fn once(&self) -> Self {
        Self {
            dialect: self.dialect,
            base: self.base.clone(),
            host: self.host.clone(),
            http: self.http.clone(),
            headers: self.headers.clone(),
            key: Arc::clone(&self.key),
            timeouts: self.timeouts,
            retry: Retry { tries: 1, ..self.retry },
            max_bytes: self.max_bytes,
            flights: Arc::default(),
        }
    }

    /// Whether a key is all that the provider asks for: with another key in place of the configured one, nothing that is configured as
    /// a secret goes along.
    pub fn is_opened_by_key_alone(&self) -> bool {
        self.key.is_needed() && !self.headers.values().any(HeaderValue::is_sensitive)
    }

    /// The provider's dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Sends `body` and returns when the answer begins. Waits first if another request is about to fill the cache for this one.
    pub async fn send(&self, model: &Model, body: &Body, delivery: Delivery) -> Result<Answer, SendError> {
        let deadline = Instant::now() + self.timeouts.total;
        let sent = async {
            let flight = Flight::take_off(&self.flights, model, &body.prompt).await;
            let answer = self.tries(model, body, delivery, deadline).await?;
            if let Some(flight) = flight {
                flight.begun();
            }
            Ok(answer)
        };
        let began = Instant::now();
        let answer = match tokio::time::timeout_at(deadline, sent).await {
            Ok(answer) => answer,
            Err(_) => Err(self.slow(Waited::Whole, self.timeouts.total)),
        };
        let (host, ms) = (&self.host, began.elapsed().as_millis());
        match &answer {
            Ok(_) => tracing::debug!(%host, model = %model.name, bytes = body.bytes.len(), ms, "provider began to answer"),
            Err(error) => {
                tracing::warn!(%host, model = %model.name, bytes = body.bytes.len(), ms, error = error.kind(), status = error.status(), "provider did not answer");
            }
        }
        answer
    }

    async fn tries(&self, model: &Model, body: &Body, delivery: Delivery, deadline: Instant) -> Result<Answer, SendError> {
        let url = self.endpoint(model, delivery);
        let mut tried = 0;
        loop {
            tried += 1;
            let error = match self.attempt(&url, body, delivery, deadline).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let Some(wait) = self.retry.wait(tried, &error).filter(|wait| Instant::now() + *wait < deadline) else {
                return Err(error);
            };
            tracing::info!(host = %self.host, model = %model.name, tried, ?wait, error = error.kind(), status = error.status(), "retrying");
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends the request once and reads up to the first event.
    async fn attempt(&self, url: &Url, body: &Body, delivery: Delivery, deadline: Instant) -> Result<Answer, SendError> {
        let limit = self.timeouts.begin;
        let begin = async {
            let sent = self.call(Method::POST, url, Some(body.bytes.clone())).await?;
            let form = match content_type(&sent.response).as_deref() {
                Some(kind) if kind.starts_with("text/event-stream") => Form::Stream,
                Some(kind) if kind.starts_with("application/json") => Form::Whole,
                // Some servers do not say, or call it plain text.
                _ => match delivery {
                    Delivery::Stream => Form::Stream,
                    Delivery::Whole => Form::Whole,
                },
            };
            let reader = Reader::new(self.dialect, form, self.max_bytes);
            let mut answer = Answer::new(sent, reader, self.host.clone(), self.timeouts, deadline);
            match answer.begin().await {
                Ok(()) => Ok(answer),
                // It is told when it is done, so the model has answered.
                Err(error) if form == Form::Whole && answer.came() => Err(error.of_whole()),
                Err(error) => Err(error),
            }
        };
        match tokio::time::timeout(limit, begin).await {
            Ok(answer) => answer,
            Err(_) => Err(self.slow(Waited::Begin, limit)),
        }
    }

    /// Sends one HTTP request and converts error responses.
    async fn call(&self, method: Method, url: &Url, body: Option<Vec<u8>>) -> Result<Sent, SendError> {
        let key = self.key.get().await.map_err(SendError::Key)?;
        let mut request = self.http.request(method, url.clone()).headers(self.headers.clone());
        if let Some(key) = &key {
            let (name, mut value) = key_header(self.dialect, key).ok_or(SendError::Key(KeyError::Characters))?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let sent = request.send().await;
        let mut response = sent.map_err(|error| SendError::network(&self.host, &error))?;
        if response.status().is_success() {
            return Ok(Sent { response, key });
        }
        let status = response.status().as_u16();
        if status == 401 {
            self.key.forget().await;
        }
        let said = retry::said(response.headers());
        let text = tokio::time::timeout(self.timeouts.idle, start_of(&mut response)).await.unwrap_or_default();
        let mut refusal = Refusal::read(status, &text);
        if let Some(key) = &key {
            refusal = refusal.without(key.expose());
        }
        refusal.passing = said.again.unwrap_or(refusal.passing);
        refusal.wait = said.wait.or(refusal.wait);
        Err(SendError::Refused { host: self.host.clone(), refusal })
    }

    fn endpoint(&self, model: &Model, delivery: Delivery) -> Url {
        let (path, query) = endpoint::path(self.dialect, model, delivery);
        let mut url = self.address(&path);
        url.set_query(query);
        url
    }

    /// Appends a path to the base URL.
    fn address(&self, path: &[impl AsRef<str>]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.iter().map(AsRef::as_ref));
        }
        url
    }

    fn slow(&self, waited: Waited, limit: std::time::Duration) -> SendError {
        SendError::TooSlow { host: self.host.clone(), waited, limit }
    }
}

fn content_type(response: &Response) -> Option<String> {
    response.headers().get(CONTENT_TYPE)?.to_str().ok().map(str::to_ascii_lowercase)
}

fn key_header(dialect: Dialect, key: &Secret) -> Option<(&'static str, HeaderValue)> {
    let (name, value) = endpoint::key_header(dialect, key.expose());
    Some((name, HeaderValue::try_from(value).ok()?))
}

/// The first bytes of a response, for error messages.
async fn start_of(response: &mut Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes.extend_from_slice(&chunk[..chunk.len().min(MAX_REFUSAL - bytes.len())]);
        if bytes.len() == MAX_REFUSAL {
            break;
        }
    }
    bytes
}

/// Locks a mutex, even if another task panicked: the data is always consistent.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The configuration of a client.

use std::collections::BTreeMap;
use std::time::Duration;

use url::Url;

use super::error::SetupError;
use super::key::{KeySource, Secret};
use crate::dialect::Dialect;
use crate::endpoint::base_url;

/// A provider and how to connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// The dialect.
    pub dialect: Dialect,
    /// The base URL with the version: `http://127.0.0.1:8080/v1`. Default: the dialect's own provider.
    pub base_url: Option<String>,
    /// The source of its API key.
    pub key: KeySource,
    /// Additional headers.
    pub headers: BTreeMap<String, Secret>,
    /// A proxy, for example `http://user:password@proxy:3128`. Proxies of the environment are not used unless the caller passes
    /// them here.
    pub proxy: Option<Secret>,
    /// Time limits.
    pub timeouts: Timeouts,
    /// How often to retry.
    pub retry: Retry,
    /// The largest size of one answer in bytes.
    pub max_bytes: usize,
    /// The `User-Agent` header.
    pub user_agent: String,
}

impl ClientConfig {
    /// The base URL.
    pub fn address(&self) -> &str {
        self.base_url.as_deref().unwrap_or_else(|| base_url(self.dialect))
    }

    /// The dialect's own provider with default settings and the usual environment variable for the key.
    pub fn new(dialect: Dialect) -> Self {
        let key = match dialect {
            Dialect::OpenAiResponses | Dialect::OpenAiChat => KeySource::Env("OPENAI_API_KEY".to_owned()),
            Dialect::Anthropic => KeySource::Env("ANTHROPIC_API_KEY".to_owned()),
            Dialect::Gemini => KeySource::Env("GEMINI_API_KEY".to_owned()),
            Dialect::LlamaCpp => KeySource::None,
        };
        Self {
            dialect,
            base_url: None,
            key,
            headers: BTreeMap::new(),
            proxy: None,
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            max_bytes: 64 << 20,
            user_agent: concat!("foreword/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// Time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For connecting.
    pub connect: Duration,
    /// For the beginning of the answer, per attempt: the model may have to read a long prompt or to think. An answer that is not
    /// streamed begins when it is complete.
    pub begin: Duration,
    /// For each pause within the answer.
    pub idle: Duration,
    /// For everything, including waits and retries.
    pub total: Duration,
}

/// The longest possible limit.
const LONGEST: Duration = Duration::from_hours(24 * 365);

impl Timeouts {
    pub(super) fn bounded(self) -> Self {
        let Self { connect, begin, idle, total } = self;
        Self { connect: connect.min(LONGEST), begin: begin.min(LONGEST), idle: idle.min(LONGEST), total: total.min(LONGEST) }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            begin: Duration::from_mins(10),
            idle: Duration::from_mins(2),
            total: Duration::from_hours(1),
        }
    }
}

/// How often to retry a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The number of attempts, including the first.
    pub tries: u32,
    /// The wait before the second attempt; each further one is twice as long.
    pub first_wait: Duration,
    /// The longest wait. If a provider asks for more, the request fails.
    pub max_wait: Duration,
}

impl Retry {
    pub(super) fn bounded(self) -> Self {
        Self { max_wait: self.max_wait.min(LONGEST), ..self }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self { tries: 4, first_wait: Duration::from_millis(500), max_wait: Duration::from_mins(1) }
    }
}

/// Parses a base URL. A URL with a password is never shown.
pub(super) fn parse_base(text: &str) -> Result<Url, SetupError> {
    let url = Url::parse(text).map_err(|_| SetupError::BaseUrl("not a valid URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(SetupError::BaseUrl("it must not contain a user name or password"));
    }
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(SetupError::BaseUrl("only http and https are supported"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(SetupError::BaseUrl("it must not have a query or fragment"));
    }
    Ok(url)
}

/// The host for messages.
pub(super) fn shown_host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases() {
        let check = |text: &str, good: bool| assert_eq!(parse_base(text).is_ok(), good, "{text}");
        for dialect in Dialect::ALL {
            check(base_url(dialect), true);
        }
        check("http://192.168.1.2:11434/v1", true);
        check("http://[::1]:8080/v1/", true);
        check("localhost:8080/v1", false);
        check("ftp://host/v1", false);
        check("https://me:secret@host/v1", false);
        check("https://host/v1?key=secret", false);
        check("", false);
        let error = parse_base("https://me:secret@host/v1").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}

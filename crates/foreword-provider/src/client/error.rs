//! Errors of requests. Messages never contain a key, a password or a header's value.

use std::time::Duration;

use super::key::{KeyError, Secret};
use crate::refusal::{Refusal, without};
use crate::reply::ReadError;

/// An invalid client configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The base URL is invalid.
    #[error("invalid `base_url`: {0}; write it like https://host/v1")]
    BaseUrl(&'static str),
    /// A header is invalid.
    #[error("invalid header {name:?}: HTTP does not allow its name or value")]
    Header {
        /// Its name.
        name: String,
    },
    /// The proxy is invalid.
    #[error("invalid `proxy`: write it like http://host:3128")]
    Proxy,
    /// The HTTP client cannot be created.
    #[error("cannot set up the provider: {0}")]
    Http(String),
}

/// What took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The beginning of the answer.
    Begin,
    /// The next part of the answer.
    Next,
    /// The whole answer.
    Whole,
}

impl Waited {
    fn words(self, limit: Duration) -> String {
        let seconds = limit.as_secs_f32();
        match self {
            Self::Begin => {
                format!("no answer within {seconds} seconds; try again, or raise the `begin` timeout")
            }
            Self::Next => {
                format!("the answer stalled for {seconds} seconds; try again, or raise the `idle` timeout")
            }
            Self::Whole => format!("the answer took longer than {seconds} seconds; try again, or raise the `total` timeout"),
        }
    }
}

/// A request that failed or was interrupted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no API key.
    #[error("{0}")]
    Key(KeyError),
    /// The connection failed or was lost.
    #[error("request to {host} failed: {why}; check the connection and the base URL")]
    Network {
        /// The host.
        host: String,
        /// The cause.
        why: String,
    },
    /// A time limit was exceeded.
    #[error("request to {host} failed: {}", waited.words(*limit))]
    TooSlow {
        /// The host.
        host: String,
        /// What took too long.
        waited: Waited,
        /// The limit.
        limit: Duration,
    },
    /// The provider refused the request.
    #[error("request to {host} failed: {refusal}")]
    Refused {
        /// The host.
        host: String,
        /// The refusal.
        refusal: Refusal,
    },
    /// An answer that is not streamed was interrupted.
    #[error("request to {host} failed: the answer was interrupted ({why}); it may have been billed, so it was not retried")]
    BrokeOff {
        /// The host.
        host: String,
        /// The cause.
        why: String,
    },
    /// The answer is incomplete or invalid.
    #[error("request to {host} failed: {error}")]
    Unread {
        /// The host.
        host: String,
        /// The error.
        error: ReadError,
    },
}

impl SendError {
    /// The kind of error in one word, for logs: the whole message may quote what was sent.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Key(_) => "key",
            Self::Network { .. } => "network",
            Self::TooSlow { .. } => "timeout",
            Self::Refused { .. } => "refused",
            Self::BrokeOff { .. } => "cut",
            Self::Unread { .. } => "unreadable",
        }
    }

    /// The HTTP status, where the provider sent one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { refusal, .. } => refusal.status,
            _ => None,
        }
    }

    /// Whether the same request may be taken a little later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Network { .. } => true,
            Self::Refused { refusal, .. } => refusal.passing,
            Self::Unread { error, .. } => *error == ReadError::Cut,
            // Whoever is slow now is working on it; a second request would cost again.
            Self::Key(_) | Self::TooSlow { .. } | Self::BrokeOff { .. } => false,
        }
    }

    /// The same error for an answer that is not streamed and had begun.
    pub(super) fn of_whole(self) -> Self {
        match self {
            Self::Network { host, why } => Self::BrokeOff { host, why },
            Self::Unread { host, error: error @ ReadError::Cut } => Self::BrokeOff { host, why: error.to_string() },
            other => other,
        }
    }

    /// The provider's refusal.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }

    pub(super) fn network(host: &str, error: &reqwest::Error) -> Self {
        let why = if error.is_timeout() { "the connection timed out".to_owned() } else { innermost(error) };
        Self::Network { host: host.to_owned(), why }
    }

    pub(super) fn read(host: &str, key: Option<&Secret>, error: ReadError) -> Self {
        let host = host.to_owned();
        let key = key.map_or("", Secret::expose);
        match error {
            ReadError::Refused(refusal) => Self::Refused { host, refusal: refusal.without(key) },
            ReadError::Strange { why } => Self::Unread { host, error: ReadError::Strange { why: without(&why, key) } },
            error => Self::Unread { host, error },
        }
    }
}

/// The innermost error; outer ones repeat the URL.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(inner) = at {
        text = inner.to_string();
        at = inner.source();
    }
    text
}

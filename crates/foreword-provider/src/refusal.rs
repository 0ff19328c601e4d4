//! Provider-neutral error responses: the kind of error, the provider's message, and whether a retry may help.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// The longest part of a provider's message that is shown.
const MAX_MESSAGE: usize = 1000;

/// The kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The key is missing, invalid, or lacks permission.
    Key,
    /// There is no such model or URL.
    NotFound,
    /// The prompt exceeds the context window, or the body is too large.
    TooLong,
    /// The account has no balance or quota left.
    Quota,
    /// The rate limit is exceeded.
    RateLimit,
    /// The provider is overloaded or down.
    Busy,
    /// The explicit cache in the request no longer exists.
    CacheGone,
    /// The request is invalid.
    Request,
}

impl Fault {
    /// Advice for the user.
    fn advice(self) -> &'static str {
        match self {
            Self::Key => "check the API key and its permissions",
            Self::NotFound => "check the model name and the base URL, which must end in the version, like /v1",
            Self::TooLong => "compact (fold) the session, or choose a model with a larger context window",
            Self::Quota => "check the account's plan and balance",
            Self::RateLimit => "wait, or raise the account's rate limits",
            Self::Busy => "try again later",
            Self::CacheGone => "send the request without the cache, or create the cache again",
            Self::Request => "the request is invalid; a retry does not help",
        }
    }
}

/// A request that the provider refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status; `None` if the error came within a stream.
    pub status: Option<u16>,
    /// The kind of error.
    pub fault: Fault,
    /// The provider's message, on one line.
    pub message: String,
    /// Whether the same request may succeed later.
    pub passing: bool,
    /// How long to wait, if the provider says so.
    pub wait: Option<Duration>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "the provider answered {status}: ")?,
            None => write!(f, "the provider ended the answer: ")?,
        }
        write!(f, "{}; {}", self.message.trim_end_matches('.'), self.fault.advice())
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// Parses an error response.
    pub fn read(status: u16, body: &[u8]) -> Self {
        let value: Option<Value> = serde_json::from_slice(body).ok();
        let found = value.as_ref().map(details).unwrap_or_default();
        let message = if found.message.is_empty() { clean(&String::from_utf8_lossy(body)) } else { found.message };
        let message = if message.is_empty() { "no reason given".to_owned() } else { message };
        let fault = fault(Some(status), &found.words, &message);
        Self { status: Some(status), fault, message, passing: passes(fault), wait: found.wait }
    }

    /// Parses an error event of a stream.
    pub fn in_stream(event: &Value) -> Self {
        let found = details(event);
        let message = if found.message.is_empty() { "no reason given".to_owned() } else { found.message };
        let fault = fault(None, &found.words, &message);
        Self { status: None, fault, message, passing: passes(fault), wait: found.wait }
    }

    /// Removes a secret from the message.
    #[cfg(feature = "client")]
    #[must_use]
    pub(crate) fn without(mut self, secret: &str) -> Self {
        self.message = without(&self.message, secret);
        self
    }
}

/// The text without the secret, also if it is truncated at the end.
#[cfg(feature = "client")]
pub(crate) fn without(text: &str, secret: &str) -> String {
    if secret.is_empty() {
        return text.to_owned();
    }
    let clean = text.replace(secret, "[key]");
    let starts = secret.char_indices().rev().map(|(at, _)| &secret[..at]).filter(|start| !start.is_empty());
    match starts.into_iter().find_map(|start| clean.strip_suffix(start)) {
        Some(rest) => format!("{rest}[key]"),
        None => clean,
    }
}

fn passes(fault: Fault) -> bool {
    matches!(fault, Fault::RateLimit | Fault::Busy)
}

#[derive(Default)]
struct Details {
    message: String,
    /// Types, codes and statuses, joined.
    words: String,
    wait: Option<Duration>,
}

/// Finds the message and the error codes in the formats of various servers.
fn details(value: &Value) -> Details {
    let value = value.get(0).unwrap_or(value); // Gemini wraps the errors of streams in a list
    let inner = ["/error", "/response/error"].iter().find_map(|path| value.pointer(path)).filter(|error| !error.is_null());
    let error = inner.unwrap_or(value);
    let text = |value: &Value, name: &str| match &value[name] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let message = match error {
        Value::String(text) => text.clone(),
        _ => ["message", "detail"].iter().find_map(|name| text(error, name)).unwrap_or_default(),
    };
    let mut words: Vec<String> = ["type", "code", "status"].iter().filter_map(|name| text(error, name)).collect();
    let mut wait = None;
    for detail in error["details"].as_array().into_iter().flatten().take(16) {
        words.extend(text(detail, "reason"));
        wait = wait.or_else(|| seconds(detail["retryDelay"].as_str()?.strip_suffix('s')?));
    }
    Details { message: clean(&message), words: words.join(" ").to_lowercase(), wait }
}

/// The text on one line, shortened, without control characters.
fn clean(text: &str) -> String {
    let spaced = text.chars().take(4 * MAX_MESSAGE).map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    let words: Vec<&str> = spaced.split_whitespace().collect();
    words.join(" ").chars().take(MAX_MESSAGE).collect()
}

/// Parses a number of seconds as in headers and Gemini's errors.
pub(crate) fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn fault(status: Option<u16>, words: &str, message: &str) -> Fault {
    let message = message.to_lowercase();
    let word = |list: &[&str]| list.iter().any(|word| words.contains(word));
    let says = |list: &[&str]| list.iter().any(|part| message.contains(part));
    if says(&["cachedcontent not found"]) {
        return Fault::CacheGone;
    }
    if word(&["context_length_exceeded", "exceed_context_size", "request_too_large"])
        || says(&[
            "prompt is too long",
            "maximum context length",
            "exceeds the maximum number of tokens",
            "available context size",
        ])
    {
        return Fault::TooLong;
    }
    if word(&["insufficient_quota", "billing"]) || says(&["credit balance is too low"]) {
        return Fault::Quota;
    }
    if word(&["invalid_api_key", "api_key_invalid", "authentication_error", "permission_error"]) {
        return Fault::Key;
    }
    match status {
        Some(401 | 403) => Fault::Key,
        Some(402) => Fault::Quota,
        Some(300..=399 | 404 | 405 | 410) => Fault::NotFound,
        Some(413) => Fault::TooLong,
        Some(429) => Fault::RateLimit,
        Some(501 | 505) => Fault::Request,
        Some(408 | 409 | 500..) => Fault::Busy,
        None if word(&["rate_limit", "resource_exhausted", "429"]) => Fault::RateLimit,
        None if word(&["overloaded", "api_error", "server_error", "timeout", "unavailable", "internal", "500", "502", "503"]) => {
            Fault::Busy
        }
        Some(_) | None => Fault::Request,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(status: u16, body: &Value, fault: Fault, passing: bool, message: &str) {
        let refusal = Refusal::read(status, body.to_string().as_bytes());
        assert_eq!((refusal.fault, refusal.passing, &*refusal.message), (fault, passing, message), "{body}");
    }

    #[test]
    fn every_server_has_its_own_form() {
        check(
            429,
            &json!({"error": {"message": "Slow down.", "type": "requests", "code": "rate_limit_exceeded"}}),
            Fault::RateLimit,
            true,
            "Slow down.",
        );
        check(
            429,
            &json!({"error": {"message": "Pay.", "type": "insufficient_quota", "code": "insufficient_quota"}}),
            Fault::Quota,
            false,
            "Pay.",
        );
        check(400, &json!({"error": {"message": "Long.", "code": "context_length_exceeded"}}), Fault::TooLong, false, "Long.");
        check(
            401,
            &json!({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}),
            Fault::Key,
            false,
            "Incorrect API key provided",
        );
        check(
            529,
            &json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            Fault::Busy,
            true,
            "Overloaded",
        );
        check(
            400,
            &json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}}),
            Fault::TooLong,
            false,
            "prompt is too long: 9 tokens > 8 maximum",
        );
        check(
            400,
            &json!({"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}}),
            Fault::Key,
            false,
            "API key not valid.",
        );
        check(
            403,
            &json!({"error": {"code": 403, "message": "CachedContent not found (or permission denied)", "status": "PERMISSION_DENIED"}}),
            Fault::CacheGone,
            false,
            "CachedContent not found (or permission denied)",
        );
        check(503, &json!([{"error": {"code": 503, "message": "Later", "status": "UNAVAILABLE"}}]), Fault::Busy, true, "Later");
        check(404, &json!({"error": "model 'x' not found"}), Fault::NotFound, false, "model 'x' not found");
        check(400, &json!({"object": "error", "message": "bad", "code": 400}), Fault::Request, false, "bad");
        check(422, &json!({"detail": "bad"}), Fault::Request, false, "bad");
        check(500, &json!({}), Fault::Busy, true, "{}");
        check(302, &json!({"error": {"message": "moved"}}), Fault::NotFound, false, "moved");
        check(400, &json!({"error": {"message": "a\n\u{1b}[31mb"}}), Fault::Request, false, "a [31mb");
    }

    #[test]
    fn pages_of_gateways_are_quoted_in_part() {
        let refusal = Refusal::read(502, "<html>\n".repeat(10_000).as_bytes());
        assert!(refusal.passing && refusal.message.starts_with("<html> <html>") && refusal.message.len() <= MAX_MESSAGE);
        assert_eq!(Refusal::read(502, b"").message, "no reason given");
        assert_eq!(Refusal::read(502, &[0xff; 9]).fault, Fault::Busy);
    }

    #[test]
    fn gemini_says_in_its_body_how_long_to_wait() {
        let body = json!({"error": {"code": 429, "message": "quota", "details": [{"retryDelay": "34.5s"}]}});
        assert_eq!(Refusal::read(429, body.to_string().as_bytes()).wait, Some(Duration::from_millis(34_500)));
        for bad in ["-1s", "x", "1e99s", "NaNs"] {
            let body = json!({"error": {"message": "quota", "details": [{"retryDelay": bad}]}});
            assert_eq!(Refusal::read(429, body.to_string().as_bytes()).wait, None, "{bad}");
        }
    }

    #[test]
    fn errors_within_a_stream_have_no_status() {
        let check = |event: Value, fault| assert_eq!(Refusal::in_stream(&event).fault, fault, "{event}");
        check(json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}), Fault::Busy);
        check(json!({"type": "error", "code": "rate_limit_exceeded", "message": "x"}), Fault::RateLimit);
        check(json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "x"}}}), Fault::Busy);
        check(json!({"error": {"code": 502, "message": "x"}}), Fault::Busy);
        check(json!({"error": {"type": "invalid_request_error", "message": "x"}}), Fault::Request);
    }

    #[test]
    fn a_message_says_what_happened_and_what_to_do() {
        let refusal = Refusal::read(401, br#"{"error":{"message":"Bad key sk-1234."}}"#).without("sk-1234");
        assert_eq!(refusal.to_string(), "the provider answered 401: Bad key [key]; check the API key and its permissions");
    }

    #[test]
    fn secrets_are_taken_out() {
        let check = |text: &str, secret: &str, expect: &str| assert_eq!(without(text, secret), expect);
        check("a sk-1234, b", "sk-1234", "a [key], b");
        check("a sk-1234, sk-12", "sk-1234", "a [key], [key]");
        check("a é", "éa", "a [key]");
        check("as", "", "as");
    }
}

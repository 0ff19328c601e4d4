//! Where a request goes: the address, path and headers of each dialect, for any HTTP client.

use crate::dialect::Dialect;
use crate::model::Model;

/// How the answer is delivered. Gemini takes this from the URL, the other dialects from the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// As a stream.
    Stream,
    /// As a whole.
    Whole,
}

/// The base URL of a dialect's own provider.
pub fn base_url(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAiResponses | Dialect::OpenAiChat => "https://api.openai.com/v1",
        Dialect::Anthropic => "https://api.anthropic.com/v1",
        Dialect::Gemini => "https://generativelanguage.googleapis.com/v1beta",
        Dialect::LlamaCpp => "http://127.0.0.1:8080/v1",
    }
}

/// The path behind the base URL, by segments, and the query if there is one.
pub fn path(dialect: Dialect, model: &Model, delivery: Delivery) -> (Vec<String>, Option<&'static str>) {
    let plain = |segments: &[&str]| (segments.iter().map(|&segment| segment.to_owned()).collect(), None);
    match (dialect, delivery) {
        (Dialect::OpenAiChat | Dialect::LlamaCpp, _) => plain(&["chat", "completions"]),
        (Dialect::OpenAiResponses, _) => plain(&["responses"]),
        (Dialect::Anthropic, _) => plain(&["messages"]),
        (Dialect::Gemini, Delivery::Whole) => plain(&["models", &format!("{}:generateContent", model.wire)]),
        (Dialect::Gemini, Delivery::Stream) => {
            let (segments, _) = plain(&["models", &format!("{}:streamGenerateContent", model.wire)]);
            (segments, Some("alt=sse"))
        }
    }
}

/// The headers of every request, without the key.
pub fn headers(dialect: Dialect) -> &'static [(&'static str, &'static str)] {
    match dialect {
        Dialect::Anthropic => &[("content-type", "application/json"), ("anthropic-version", "2023-06-01")],
        _ => &[("content-type", "application/json")],
    }
}

/// The header that carries the key.
pub fn key_header(dialect: Dialect, key: &str) -> (&'static str, String) {
    match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::LlamaCpp => ("authorization", format!("Bearer {key}")),
        Dialect::Anthropic => ("x-api-key", key.to_owned()),
        Dialect::Gemini => ("x-goog-api-key", key.to_owned()),
    }
}

//! Refusals in each provider's form and words.

use serde_json::{Value, json};

use super::http::Response;
use super::script::ScriptedError;
use foreword_provider::dialect::Dialect;

/// A refusal with the status' usual word.
pub(super) fn response(dialect: Dialect, status: u16, message: &str) -> Response {
    Response::json(status, &body(dialect, status, kind(dialect, status), message))
}

/// A refusal of the script.
pub(super) fn scripted(dialect: Dialect, error: &ScriptedError) -> Response {
    let response = Response::json(error.status, &scripted_body(dialect, error));
    match error.retry_after {
        Some(seconds) => response.header("Retry-After", seconds.to_string()),
        None => response,
    }
}

/// The JSON of a refusal of the script, as it also comes within a stream.
pub(super) fn scripted_body(dialect: Dialect, error: &ScriptedError) -> Value {
    let kind = error.kind.as_deref().unwrap_or(kind(dialect, error.status));
    body(dialect, error.status, kind, &error.message)
}

fn body(dialect: Dialect, status: u16, kind: &str, message: &str) -> Value {
    match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses => {
            json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
        }
        Dialect::LlamaCpp => json!({"error": {"code": status, "message": message, "type": kind}}),
        Dialect::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_double"}),
        Dialect::Gemini => json!({"error": {"code": status, "message": message, "status": kind}}),
    }
}

fn kind(dialect: Dialect, status: u16) -> &'static str {
    if dialect == Dialect::Gemini {
        return match status {
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            503 => "UNAVAILABLE",
            500.. => "INTERNAL",
            _ => "INVALID_ARGUMENT",
        };
    }
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. if dialect == Dialect::Anthropic => "api_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// A missing or wrong key. OpenAI quotes the key it was given.
pub(super) fn bad_key(dialect: Dialect, given: Option<&str>) -> Response {
    match (dialect, given) {
        (Dialect::Anthropic, None) => response(dialect, 401, "x-api-key header is required"),
        (Dialect::Anthropic, Some(_)) => response(dialect, 401, "invalid x-api-key"),
        (Dialect::Gemini, _) => {
            let mut body = body(dialect, 400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.");
            body["error"]["details"] = json!([{"reason": "API_KEY_INVALID", "domain": "googleapis.com"}]);
            Response::json(400, &body)
        }
        (_, None) => response(dialect, 401, "You didn't provide an API key."),
        (_, Some(key)) => response(dialect, 401, &format!("Incorrect API key provided: {key}.")),
    }
}

/// There is no such model.
pub(super) fn no_model(dialect: Dialect, name: &str) -> String {
    match dialect {
        Dialect::Anthropic => format!("model: {name}"),
        Dialect::Gemini => {
            format!("models/{name} is not found for API version v1beta, or is not supported for generateContent.")
        }
        _ => format!("The model `{name}` does not exist or you do not have access to it."),
    }
}

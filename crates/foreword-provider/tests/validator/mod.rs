//! What providers refuse, with the words they refuse it in. Written from their rules, not from the code that is tested.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use foreword_provider::dialect::Dialect;
use serde_json::Value;

/// What a provider does for one model and not for another.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Endpoint {
    /// System messages may stand between others (Anthropic).
    pub(crate) systems: bool,
    /// Calls need a thought signature (Gemini).
    pub(crate) signatures: bool,
    /// Parts may carry a breakpoint (OpenAI).
    pub(crate) breakpoints: bool,
}

/// The text of a 400.
pub(crate) type Refusal = String;

/// Whether the provider takes the body.
pub(crate) fn validate(dialect: Dialect, endpoint: Endpoint, body: &Value) -> Result<(), Refusal> {
    match dialect {
        Dialect::OpenAiChat => chat::validate(body, endpoint, chat::Server::OpenAi),
        Dialect::LlamaCpp => chat::validate(body, endpoint, chat::Server::Local),
        Dialect::OpenAiResponses => responses::validate(body, endpoint),
        Dialect::Anthropic => anthropic::validate(body, endpoint),
        Dialect::Gemini => gemini::validate(body, endpoint),
    }
}

fn refuse<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err(text.into())
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], Refusal> {
    match &value[name] {
        Value::Array(values) => Ok(values),
        other => refuse(format!("Invalid type for '{name}': expected an array, got {other}")),
    }
}

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, Refusal> {
    match &value[name] {
        Value::String(text) => Ok(text),
        other => refuse(format!("Invalid type for '{name}': expected a string, got {other}")),
    }
}

/// `^[a-zA-Z0-9_-]{1,limit}$`
fn pattern(text: &str, limit: usize) -> bool {
    (1..=limit).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// The only fields a provider knows.
fn known(value: &Value, names: &[&str]) -> Result<(), Refusal> {
    let fields = value.as_object().into_iter().flat_map(|map| map.keys());
    match fields.into_iter().find(|field| !names.contains(&field.as_str())) {
        Some(field) => refuse(format!("Unknown parameter: '{field}'.")),
        None => Ok(()),
    }
}

/// The names in `tools`, all good and each one once.
fn tool_names<'a>(tools: &'a [Value], pointer: &str) -> Result<Vec<&'a str>, Refusal> {
    let mut names = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        let name = tool.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if !pattern(name, 64) {
            return refuse(format!(
                "Invalid 'tools[{index}].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
            ));
        }
        if names.contains(&name) {
            return refuse("tools: Tool names must be unique.");
        }
        names.push(name);
    }
    Ok(names)
}

/// A tool's schema is an object with properties.
fn object_schema(schema: &Value) -> Result<(), Refusal> {
    if schema["type"] != "object" {
        return refuse(format!(
            "Invalid schema for function: schema must be a JSON Schema of 'type: \"object\"', got 'type: {}'.",
            schema["type"]
        ));
    }
    if !schema["properties"].is_object() {
        return refuse("Invalid schema for function: object schema missing properties.");
    }
    Ok(())
}

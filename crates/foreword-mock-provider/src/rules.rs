//! What providers refuse, with the words they refuse it in. Written from their rules, not from the code that makes requests: the double
//! answers by them, and the tests hold every body against them.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use serde_json::Value;

use foreword_provider::dialect::Dialect;
use foreword_provider::model::{Capability, Model};

/// What a provider does for one model and not for another.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own, true or not")]
pub struct Endpoint {
    /// System messages may stand between others (Anthropic).
    pub systems: bool,
    /// Calls need a thought signature (Gemini).
    pub signatures: bool,
    /// Parts may carry a breakpoint (OpenAI).
    pub breakpoints: bool,
    /// Each of the model's messages needs its thoughts (DeepSeek).
    pub thoughts: bool,
    /// Encrypted thoughts can be asked for (OpenAI Responses).
    pub reasoning: bool,
    /// A prompt can be compared with an earlier one (OpenAI Responses).
    pub diagnostics: bool,
}

impl Endpoint {
    /// What it does for `model`.
    pub fn of(model: &Model) -> Self {
        Self {
            systems: model.has(Capability::MidConversationSystem),
            signatures: model.has(Capability::ThoughtSignature),
            breakpoints: model.has(Capability::Breakpoints),
            thoughts: model.has(Capability::ReasoningContent),
            reasoning: model.has(Capability::Reasoning),
            diagnostics: model.has(Capability::CacheDiagnostics),
        }
    }
}

/// Whether the provider takes the body; the text of its 400 where it does not.
pub fn validate(dialect: Dialect, endpoint: Endpoint, body: &Value) -> Result<(), String> {
    match dialect {
        Dialect::OpenAiChat => chat::validate(body, endpoint, chat::Server::OpenAi),
        Dialect::LlamaCpp => chat::validate(body, endpoint, chat::Server::Local),
        Dialect::OpenAiResponses => responses::validate(body, endpoint),
        Dialect::Anthropic => anthropic::validate(body, endpoint),
        Dialect::Gemini => gemini::validate(body, endpoint),
    }
}

fn refuse<T>(text: impl Into<String>) -> Result<T, String> {
    Err(text.into())
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], String> {
    match &value[name] {
        Value::Array(values) => Ok(values),
        other => refuse(format!("Invalid type for '{name}': expected an array, got {other}")),
    }
}

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, String> {
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
fn known(value: &Value, names: &[&str]) -> Result<(), String> {
    let fields = value.as_object().into_iter().flat_map(|map| map.keys());
    match fields.into_iter().find(|field| !names.contains(&field.as_str())) {
        Some(field) => refuse(format!("Unknown parameter: '{field}'.")),
        None => Ok(()),
    }
}

/// The names in `tools`, all good and each one once.
fn tool_names<'a>(tools: &'a [Value], pointer: &str) -> Result<Vec<&'a str>, String> {
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
fn object_schema(schema: &Value) -> Result<(), String> {
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

//! What a client asks, whatever the API.

use std::collections::BTreeMap;
use std::fmt::Arguments;

use foreword_core::catalog::Tool;
use serde_json::{Map, Value};

use crate::stream::ClientMark;

/// The most tools that one request may bring. No provider takes as many.
pub const MAX_TOOLS: usize = 4096;

/// The server under whose name a client's tools stand.
pub(super) const CLIENT: &str = "client";

/// A request of a client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// The model it names.
    pub model: String,
    /// Whether it wants the answer as it comes.
    pub stream: bool,
    /// Whether a stream is to tell what was used (Chat Completions only tells when asked).
    pub usage: bool,
    /// What the model is told first.
    pub system: String,
    /// What was said, the last message last.
    pub said: Vec<ClientMessage>,
    /// Tools that the client runs.
    pub tools: Vec<Tool>,
    /// The longest reply, in tokens.
    pub reply_tokens: Option<u64>,
    /// The answer this continues, where the client names it instead of sending what was said.
    pub previous: Option<String>,
    /// Cache marks that the client set, each behind something that a session keeps whole.
    pub marks: Vec<ClientMark>,
    /// Whether it is laid out in a way that a session would change: a mark within a message, instructions between messages.
    pub laid_out: bool,
    /// What it says of its tools beside what every API has, by the tool's name.
    pub tool_fields: BTreeMap<String, Map<String, Value>>,
    /// Fields that mean nothing here and something to the provider, as they came.
    pub extra: Map<String, Value>,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientMessage {
    /// By the user.
    User(String),
    /// By the model.
    Assistant {
        /// Its words.
        text: String,
        /// Its calls.
        calls: Vec<ClientCall>,
    },
    /// What a tool gave back.
    Result {
        /// The call.
        id: String,
        /// The output.
        output: String,
        /// Whether it failed.
        failed: bool,
    },
}

/// A call that the model made.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// With what.
    pub arguments: Value,
}

/// Something in a request that cannot be put into no provider's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct NotUnderstood {
    /// Where it stands.
    pub place: String,
    /// What is wrong with it, and what would be right.
    pub what: String,
}

impl NotUnderstood {
    pub(super) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        // What a client sent may be in it, and can be of any size.
        Self { place: place.into(), what: what.into().chars().take(400).collect() }
    }
}

/// A body's fields, taken one by one; what is left is for the provider.
pub(super) struct Fields(pub(super) Map<String, Value>);

impl Fields {
    pub(super) fn of(body: Value) -> Result<Self, NotUnderstood> {
        match body {
            Value::Object(fields) => Ok(Self(fields)),
            _ => Err(NotUnderstood::new("body", "expected a JSON object")),
        }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, NotUnderstood> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(NotUnderstood::new(name, "expected a string")),
        }
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<bool, NotUnderstood> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(NotUnderstood::new(name, "expected true or false")),
        }
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<u64>, NotUnderstood> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => match value.as_u64().filter(|number| *number > 0) {
                Some(number) => Ok(Some(number)),
                None => Err(NotUnderstood::new(name, "expected a whole number above 0")),
            },
        }
    }

    pub(super) fn list(&mut self, name: &str) -> Result<Vec<Value>, NotUnderstood> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(NotUnderstood::new(name, "expected a list")),
        }
    }

    /// Refuses what asks for something that an answer here does not have.
    pub(super) fn refuse(&self, names: &[&str]) -> Result<(), NotUnderstood> {
        let empty = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        match names.iter().find(|name| self.0.get(**name).is_some_and(|value| !empty(value))) {
            Some(name) => Err(NotUnderstood::new(*name, "what it asks for is not understood here; leave it out")),
            None => Ok(()),
        }
    }

    pub(super) fn model(&mut self) -> Result<String, NotUnderstood> {
        match self.text("model")? {
            Some(model) if (1..=256).contains(&model.len()) => Ok(model),
            _ => Err(NotUnderstood::new("model", "a model is needed; GET /v1/models lists them")),
        }
    }
}

/// The text of a content that is a string or a list of text parts.
pub(super) fn text(place: Arguments<'_>, content: Option<&Value>) -> Result<String, NotUnderstood> {
    let parts = match content {
        None | Some(Value::Null) => return Ok(String::new()),
        Some(Value::String(text)) => return Ok(text.clone()),
        Some(Value::Array(parts)) => parts,
        Some(_) => return Err(NotUnderstood::new(place.to_string(), "expected a string or a list of parts")),
    };
    let mut texts = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        match (kind, part.get("text").and_then(Value::as_str)) {
            ("text" | "input_text" | "output_text", Some(text)) => texts.push(text),
            _ => {
                return Err(NotUnderstood::new(
                    format!("{place}[{at}]"),
                    format!("a part of type {kind:?} is not understood here, only text"),
                ));
            }
        }
    }
    Ok(texts.join("\n\n"))
}

/// What a call's arguments are: JSON text, which models do not always get right.
pub(super) fn arguments(text: &str) -> Value {
    match text.trim() {
        "" => Value::Object(Map::new()),
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}

impl Asked {
    /// A tool of the client. `schema` is the name of the field that its arguments are described in.
    pub(super) fn add_tool(&mut self, place: Arguments<'_>, listed: &Value, schema: &str) -> Result<(), NotUnderstood> {
        if self.tools.len() >= MAX_TOOLS {
            return Err(NotUnderstood::new("tools", format!("there are more than {MAX_TOOLS}; send fewer")));
        }
        let mut fields = listed.as_object().cloned().unwrap_or_default();
        let text = |value: Option<Value>| if let Some(Value::String(text)) = value { Some(text) } else { None };
        let Some(name) = text(fields.remove("name")).filter(|name| !name.is_empty()) else {
            return Err(NotUnderstood::new(format!("{place}.name"), "a tool needs a name"));
        };
        let tool = Tool {
            server: CLIENT.to_owned(),
            name: name.clone(),
            description: text(fields.remove("description")),
            schema: fields.remove(schema).unwrap_or_default(),
            include: None,
            permission: None,
            read_only: false,
        };
        // What kind it is was looked at, and a mark is no part of it.
        fields.retain(|name, value| !value.is_null() && name != "type" && name != "cache_control");
        if !fields.is_empty() {
            self.tool_fields.insert(name, fields);
        }
        self.tools.push(tool);
        Ok(())
    }
}

pub(super) fn required<'a>(place: Arguments<'_>, value: &'a Value, name: &str) -> Result<&'a str, NotUnderstood> {
    let found = value.get(name).and_then(Value::as_str);
    found.ok_or_else(|| NotUnderstood::new(format!("{place}.{name}"), "expected a string"))
}

//! A request in one API, written in another: an OpenAI client asks Claude, a client of Anthropic asks GPT.
//!
//! What both APIs have is translated: tools, images, files, thinking, `response_format`, limits. Hints that change no answer are left
//! out and named as ignored. Everything else is refused with the name of its field. JSON that a model reads (schemas, arguments) keeps
//! its text, so that the order of its keys survives.

mod answer;
mod fields;
mod from_chat;
mod from_messages;
mod from_responses;
mod json_text;
#[cfg(test)]
mod tests;
mod to_anthropic;
mod to_chat;
mod to_responses;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use answer::AnswerTranslator;

use serde_json::value::RawValue;

use super::ask::NotUnderstood;
use super::{ClientApi, MAX_TOOLS};
use crate::dialect::Dialect;
use crate::dialect::names::wire_name;
use crate::model::Model;

/// What marks a thought of another provider in a field that only its own provider reads.
pub(super) const SEALED: &str = "foreword:";

/// A request for a provider that speaks another API.
#[derive(Clone, Debug, PartialEq)]
pub struct Translation {
    /// The body.
    pub body: String,
    /// Whether the client wants the answer as it comes.
    pub stream: bool,
    /// Whether a stream of Chat Completions is to tell what was used.
    pub usage: bool,
    /// Hints that were left out.
    pub ignored: Vec<String>,
    /// The client's tools by the names that the provider has for them.
    pub tools: BTreeMap<String, ClientTool>,
}

/// What a client calls one of its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTool {
    /// Its name.
    pub name: String,
    /// The group it stands in (Responses).
    pub namespace: Option<String>,
    /// Whether it takes a text instead of JSON (Responses).
    pub is_custom: bool,
}

impl ClientApi {
    /// Writes a request of this API for a provider of another one. `wire` is the provider's name for the model.
    pub fn translate(self, body: &str, to: Dialect, model: &Model, wire: &str) -> Result<Translation, NotUnderstood> {
        let mut request = match self {
            Self::Chat => from_chat::read(body),
            Self::Responses => from_responses::read(body),
            Self::Messages => from_messages::read(body),
        }?;
        if request.tools.len() > MAX_TOOLS {
            return Err(NotUnderstood::new("tools", format!("there are more than {MAX_TOOLS}; send fewer")));
        }
        let mut tools = BTreeMap::new();
        for tool in &request.tools {
            let name = wire_name(to, &tool.full_name()).into_owned();
            if tools.insert(name, tool.client.clone()).is_some() {
                return Err(NotUnderstood::new("tools", format!("two tools are called {:?}", tool.client.name)));
            }
        }
        let body = match to {
            Dialect::Anthropic => to_anthropic::write(&mut request, model, wire)?,
            Dialect::OpenAiResponses => to_responses::write(&mut request, model, wire)?,
            Dialect::OpenAiChat | Dialect::LlamaCpp => to_chat::write(&mut request, model, wire, to)?,
            Dialect::Gemini => return Err(NotUnderstood::new("model", "requests are not translated for Gemini")),
        };
        Ok(Translation { body, stream: request.stream, usage: request.usage, ignored: request.ignored, tools })
    }
}

/// A request in no provider's words.
#[derive(Debug, Default)]
struct Request {
    system: Vec<String>,
    said: Vec<Said>,
    tools: Vec<Tool>,
    choice: Option<Choice>,
    /// Whether several tools may be called at once; none where the client does not say.
    parallel: Option<bool>,
    limit: Option<u64>,
    stream: bool,
    usage: bool,
    temperature: Option<f64>,
    top_p: Option<f64>,
    stop: Vec<String>,
    effort: Option<Effort>,
    format: Option<Format>,
    ignored: Vec<String>,
}

/// A message.
#[derive(Debug)]
enum Said {
    /// An instruction between messages.
    System(String),
    /// By the user and the tools.
    User(Vec<Block>),
    /// By the model.
    Model(Vec<Block>),
}

/// A part of a message.
#[derive(Debug)]
enum Block {
    Text(String),
    Image(Source),
    /// A file, with the field that it stands in.
    File {
        name: Option<String>,
        source: Source,
        place: String,
    },
    /// What the model thought, and the block that its provider wants back, where it is of that provider.
    Thought {
        text: String,
        sealed: Option<String>,
    },
    Call {
        id: String,
        tool: ClientTool,
        arguments: String,
    },
    Result {
        id: String,
        parts: Vec<Block>,
        failed: bool,
    },
}

/// Where the bytes of an image or a file are.
#[derive(Debug)]
enum Source {
    Data { media: String, base64: String },
    Url(String),
}

impl Source {
    /// A URL, which may hold the data itself.
    fn of_url(url: &str) -> Self {
        let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        match data {
            Some((media, base64)) => Self::Data { media: media.to_owned(), base64: base64.to_owned() },
            None => Self::Url(url.to_owned()),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Data { media, base64 } => format!("data:{media};base64,{base64}"),
            Self::Url(url) => url.clone(),
        }
    }
}

/// A tool.
#[derive(Debug)]
struct Tool {
    client: ClientTool,
    description: Option<String>,
    /// JSON text.
    schema: Option<String>,
    strict: Option<bool>,
}

/// What a tool that takes a text is called with where every tool takes JSON.
const TEXT_SCHEMA: &str = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}"#;

impl Tool {
    fn full_name(&self) -> String {
        self.client.full_name()
    }

    fn schema(&self) -> &str {
        let usual = r#"{"type":"object","properties":{}}"#;
        if self.client.is_custom { TEXT_SCHEMA } else { self.schema.as_deref().unwrap_or(usual) }
    }

    /// The schema as OpenAI takes it: it refuses an object without `properties`, which Anthropic accepts.
    fn schema_with_properties(&self) -> Cow<'_, str> {
        let schema = self.schema();
        let members: Result<BTreeMap<String, &RawValue>, _> = serde_json::from_str(schema);
        match (members, schema.trim_end().strip_suffix('}')) {
            (Ok(members), Some(begun)) if !members.is_empty() && !members.contains_key("properties") => {
                Cow::Owned(format!("{begun},\"properties\":{{}}}}"))
            }
            _ => Cow::Borrowed(schema),
        }
    }
}

impl ClientTool {
    fn of(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// What the client gets of the arguments: a tool that takes a text gets that.
    pub(super) fn given(&self, arguments: &str) -> String {
        let input = || serde_json::from_str::<serde_json::Value>(arguments).ok()?.get("input")?.as_str().map(str::to_owned);
        if self.is_custom { input().unwrap_or_else(|| arguments.to_owned()) } else { arguments.to_owned() }
    }

    /// One name for a tool in a group.
    fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}__{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Whether tools are called.
#[derive(Debug)]
enum Choice {
    Auto,
    None,
    Any,
    One(String),
}

/// How much the model is to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effort {
    None,
    Low,
    Medium,
    High,
    Max,
}

impl Effort {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "none" | "disabled" => Self::None,
            "minimal" | "low" => Self::Low,
            "medium" | "auto" => Self::Medium,
            "high" => Self::High,
            "xhigh" | "max" => Self::Max,
            _ => return None,
        })
    }

    /// OpenAI's word.
    fn openai(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High | Self::Max => "high",
        }
    }
}

/// The form of the answer: JSON of this schema.
#[derive(Debug)]
struct Format {
    name: String,
    /// JSON text.
    schema: String,
}

impl Request {
    /// Adds to what the user and the tools said last.
    fn user(&mut self, blocks: Vec<Block>) {
        match self.said.last_mut() {
            Some(Said::User(said)) => said.extend(blocks),
            _ => self.said.push(Said::User(blocks)),
        }
    }

    /// Adds to what the model said last.
    fn model(&mut self, blocks: Vec<Block>) {
        match self.said.last_mut() {
            Some(Said::Model(said)) => said.extend(blocks),
            _ => self.said.push(Said::Model(blocks)),
        }
    }

    /// An instruction: what comes before all messages is the system prompt.
    fn instruct(&mut self, text: String) {
        if self.said.is_empty() { self.system.push(text) } else { self.said.push(Said::System(text)) }
    }

    /// The texts of some blocks.
    fn text(blocks: &[Block]) -> String {
        let texts: Vec<&str> =
            blocks.iter().filter_map(|block| if let Block::Text(text) = block { Some(text.as_str()) } else { None }).collect();
        texts.join("\n\n")
    }
}

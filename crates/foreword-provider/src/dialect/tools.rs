//! Tool definitions and the choice among them. Definitions stand in front of every cached prefix; the choice stands beside it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foreword_core::json;
use foreword_core::message::{Origin, Role};
use foreword_core::prompt::{ToolPlan, ToolSpec, ToolStyle};
use foreword_core::tokens::Tokens;
use serde_json::{Map, Value, json};

use super::Dialect;
use super::names::wire_name;
use super::parts::shares;
use crate::stream::{Block, BlockKind, Chunk, Path, Source, Tag};

/// What a client says of its tools in the provider's own words, by the tool's name.
type ToolFields = BTreeMap<String, Map<String, Value>>;

/// The encoded tool list.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    list: Option<Arc<Vec<ToolSpec>>>,
    tokens: Tokens,
    /// What a client says of them.
    fields: ToolFields,
    /// The value of `tools`; empty where there are none.
    pub(crate) bytes: Vec<u8>,
    /// Where the last tool begins there, behind its brace.
    last: usize,
    pub(crate) blocks: Arc<Chunk>,
}

impl Tools {
    /// Encodes `plan`, unless it is the list that is encoded already.
    pub(crate) fn set(&mut self, dialect: Dialect, plan: &ToolPlan, fields: &ToolFields) {
        let same = self.list.as_ref().is_some_and(|list| Arc::ptr_eq(list, &plan.list)) && self.tokens == plan.tokens;
        if same && self.fields == *fields {
            return;
        }
        self.fields.clone_from(fields);
        self.list = Some(Arc::clone(&plan.list));
        self.tokens = plan.tokens;
        self.bytes.clear();
        let texts: Vec<String> =
            plan.list.iter().map(|tool| json::to_string(&definition(dialect, tool, fields.get(&tool.name)))).collect();
        if !texts.is_empty() {
            let (before, after) = match dialect {
                Dialect::Gemini => (r#"[{"functionDeclarations":["#, "]}]"),
                _ => ("[", "]"),
            };
            self.bytes.extend_from_slice(before.as_bytes());
            self.bytes.extend_from_slice(texts.join(",").as_bytes());
            self.last = self.bytes.len() + 1 - texts.last().map_or(0, String::len);
            self.bytes.extend_from_slice(after.as_bytes());
        }
        let lens: Vec<usize> = texts.iter().map(String::len).collect();
        let path = match dialect {
            Dialect::Gemini => "tools[0].functionDeclarations[#]",
            _ => "tools[#]",
        };
        let blocks: Vec<Block> = texts
            .into_iter()
            .zip(plan.list.iter())
            .zip(shares(plan.tokens, &lens))
            .enumerate()
            .map(|(index, ((text, tool), tokens))| {
                let origin = match &tool.id {
                    Some(id) => Origin::Item(id.clone()),
                    None => Origin::Engine("useTool"),
                };
                let tag = Tag { kind: BlockKind::Tool, role: Role::System, opens: true };
                let source = Source::Own(Arc::from(text), origin);
                Block::new(tag, Path::new(path, index, 0), source, tokens, false)
            })
            .collect();
        self.blocks = Arc::new(blocks.into());
    }
}

impl Tools {
    /// The value of `tools` with something more said of the last of them.
    pub(crate) fn with_mark(&self, mark: Option<&[u8]>) -> Cow<'_, [u8]> {
        match mark {
            None => Cow::Borrowed(&self.bytes),
            Some(mark) => Cow::Owned([&self.bytes[..self.last], mark, &self.bytes[self.last..]].concat()),
        }
    }
}

fn definition(dialect: Dialect, tool: &ToolSpec, fields: Option<&Map<String, Value>>) -> Value {
    let name = wire_name(dialect, &tool.name);
    let schema = object_schema(&tool.schema);
    let description = &tool.description;
    let mut definition = match dialect {
        Dialect::OpenAiResponses => json!({
            "type": "function", "name": name, "description": description, "parameters": schema,
            // Responses is strict unless told otherwise, and a server's schema seldom is.
            "strict": false,
        }),
        Dialect::OpenAiChat | Dialect::LlamaCpp => json!({
            "type": "function",
            "function": {"name": name, "description": description, "parameters": schema},
        }),
        Dialect::Anthropic => {
            json!({"name": name, "description": description, "input_schema": schema})
        }
        Dialect::Gemini => {
            json!({"name": name, "description": description, "parametersJsonSchema": schema})
        }
    };
    let own = match dialect {
        Dialect::OpenAiChat | Dialect::LlamaCpp => definition.get_mut("function"),
        _ => Some(&mut definition),
    };
    if let (Some(Value::Object(own)), Some(fields)) = (own, fields) {
        own.extend(fields.clone());
    }
    definition
}

/// Providers refuse a schema that does not say it is an object with properties, even where it has none.
fn object_schema(schema: &Value) -> Value {
    let mut map = match schema {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    };
    map.entry("type").or_insert_with(|| "object".into());
    if map.get("type").and_then(Value::as_str) == Some("object") {
        map.entry("properties").or_insert_with(|| json!({}));
    }
    Value::Object(map)
}

/// The value of `tool_choice`, where one has to be sent.
pub(crate) fn choice(dialect: Dialect, plan: &ToolPlan) -> Option<Value> {
    if plan.style != ToolStyle::Allowed || plan.list.is_empty() {
        return None;
    }
    let names: BTreeSet<&str> = plan.allowed.iter().map(String::as_str).collect();
    let allowed: Vec<&ToolSpec> = plan.list.iter().filter(|tool| names.contains(tool.name.as_str())).collect();
    if allowed.len() == plan.list.len() {
        return None;
    }
    let names = || allowed.iter().map(|tool| wire_name(dialect, &tool.name));
    match dialect {
        Dialect::OpenAiChat if !allowed.is_empty() => Some(json!({
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "auto",
                "tools": names()
                    .map(|name| json!({"type": "function", "function": {"name": name}}))
                    .collect::<Vec<_>>(),
            },
        })),
        Dialect::OpenAiResponses if !allowed.is_empty() => Some(json!({
            "type": "allowed_tools",
            "mode": "auto",
            "tools": names()
                .map(|name| json!({"type": "function", "name": name}))
                .collect::<Vec<_>>(),
        })),
        Dialect::OpenAiChat | Dialect::OpenAiResponses => Some(json!("none")),
        // The others have no word for a subset, and their choice would cost the messages' cache.
        Dialect::Anthropic | Dialect::Gemini | Dialect::LlamaCpp => None,
    }
}

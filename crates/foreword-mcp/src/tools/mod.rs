//! The tools. Each has its own file with its description, its arguments and its answer. Answers are limited in size; they say what was
//! left out and how to read on.

mod context_for;
mod list_notes;
mod read_note;
mod recall;
mod search_notes;
mod write_note;

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::notes::{Notes, Writing};

/// The largest text of an answer in bytes.
const MOST_BYTES: usize = 24_000;

/// What a tool returns: the same for people and models, and for programs.
pub(crate) struct Answer {
    text: String,
    structured: Value,
}

/// A tool of the server.
struct Definition {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// The properties of its arguments.
    arguments: fn() -> Value,
    required: &'static [&'static str],
    /// The properties of its structured answer, all of them required.
    answer: fn() -> Value,
    effect: Effect,
    run: fn(&Notes, JsonObject) -> Result<Answer, String>,
}

/// What a tool does to the vault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Writes,
}

/// All tools, always in this order.
const DEFINITIONS: [&Definition; 6] = [
    &search_notes::DEFINITION,
    &read_note::DEFINITION,
    &recall::DEFINITION,
    &list_notes::DEFINITION,
    &context_for::DEFINITION,
    &write_note::DEFINITION,
];

fn offered(writing: Writing) -> impl Iterator<Item = &'static Definition> {
    DEFINITIONS.into_iter().filter(move |tool| writing == Writing::On || tool.effect == Effect::Reads)
}

/// The list of tools.
pub(crate) fn list(writing: Writing) -> Vec<Tool> {
    offered(writing).map(Definition::described).collect()
}

/// The tool of that name, as it is listed.
pub(crate) fn find(writing: Writing, name: &str) -> Option<Tool> {
    offered(writing).find(|tool| tool.name == name).map(Definition::described)
}

/// Calls a tool; `None` if there is no such tool.
pub(crate) fn call(notes: &Notes, name: &str, arguments: JsonObject) -> Option<CallToolResult> {
    let tool = offered(notes.config().writing).find(|tool| tool.name == name)?;
    Some(match (tool.run)(notes, arguments) {
        Ok(Answer { text, structured }) => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = Some(structured);
            result
        }
        Err(why) => CallToolResult::error(vec![ContentBlock::text(cut(&why, 2_000))]),
    })
}

impl Definition {
    fn described(&self) -> Tool {
        let schema = |properties: Value, required: Vec<&str>| {
            let schema = json!({
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            });
            let Value::Object(schema) = schema else { return Arc::new(Map::new()) };
            Arc::new(schema)
        };
        let answer = (self.answer)();
        let keys: Vec<String> = answer.as_object().map(|answer| answer.keys().cloned().collect()).unwrap_or_default();
        let writes = self.effect == Effect::Writes;
        let hints = ToolAnnotations::with_title(self.title).read_only(!writes).open_world(false);
        let hints = if writes { hints.destructive(true).idempotent(false) } else { hints };
        Tool::new(self.name, self.description, schema((self.arguments)(), self.required.to_vec()))
            .with_title(self.title)
            .with_raw_output_schema(schema(answer, keys.iter().map(String::as_str).collect()))
            .with_annotations(hints)
    }
}

/// Reads the arguments of a call.
fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| format!("the arguments do not fit this tool: {error}"))
}

/// The start of a text.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// A text on one line, no longer than a line.
fn one_line(text: &str) -> String {
    const MOST_CHARS: usize = 300;
    text.chars().map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c }).take(MOST_CHARS).collect()
}

/// A schema of a value that may be null.
fn nullable(kind: &str, description: &str) -> Value {
    json!({"type": [kind, "null"], "description": description})
}

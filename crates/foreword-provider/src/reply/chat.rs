//! Chat Completions, OpenAI's own and what a dozen other servers make of it.

use std::collections::BTreeMap;

use foreword_core::json;
use serde_json::{Value, json};

use super::read::Sink;
use super::{Place, Stop};
use crate::dialect::Dialect;
use crate::refusal::Refusal;
use crate::usage::Usage;

#[derive(Debug)]
pub(super) struct Chat {
    dialect: Dialect,
    /// The call that each index of the wire stands for at the moment, and its id.
    calls: BTreeMap<u64, (usize, String)>,
    /// Reasoning under the name it came by: some servers refuse a tool loop without it.
    thoughts: String,
    /// OpenRouter's pieces of reasoning, which go back as one list.
    details: Vec<Value>,
    refused: bool,
}

impl Chat {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, calls: BTreeMap::new(), thoughts: String::new(), details: Vec::new(), refused: false }
    }

    /// A chunk of a stream, or a whole completion: they differ in one word.
    pub(super) fn event(&mut self, sink: &mut Sink, value: &Value) -> Result<(), Refusal> {
        if value.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Refusal::in_stream(value));
        }
        sink.name(&value["id"]);
        sink.usage = Usage::read(self.dialect, value).or(sink.usage);
        let Some(choice) = value.pointer("/choices/0") else { return Ok(()) };
        let said = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        self.reasoning(sink, said);
        match &said["content"] {
            Value::String(text) => sink.text(text),
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).for_each(|text| sink.text(text)),
            _ => {}
        }
        if let Some(text) = said["refusal"].as_str() {
            self.refused |= !text.is_empty();
            sink.text(text);
        }
        for (place, call) in said["tool_calls"].as_array().into_iter().flatten().enumerate() {
            self.call(sink, place as u64, call);
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            sink.stop = Some(match reason {
                "stop" if self.refused => Stop::Refused,
                // Some servers say `stop` although they made calls.
                "stop" | "eos" => sink.end(),
                "tool_calls" | "function_call" => Stop::Calls,
                "length" => Stop::Length,
                "content_filter" => Stop::Refused,
                other => Stop::Other(other.to_owned()),
            });
        }
        Ok(())
    }

    fn reasoning(&mut self, sink: &mut Sink, said: &Value) {
        if let Some(details) = said["reasoning_details"].as_array() {
            self.details.extend_from_slice(details);
        }
        if let Some(text) = said["reasoning_content"].as_str() {
            self.thoughts.push_str(text);
            sink.reasoning(text);
        } else if let Some(text) = said["reasoning"].as_str() {
            sink.reasoning(text);
        }
    }

    fn call(&mut self, sink: &mut Sink, place: u64, call: &Value) {
        let index = call["index"].as_u64().unwrap_or(place);
        let id = call["id"].as_str().unwrap_or_default();
        let function = &call["function"];
        // Some servers give all calls the same index; then a new id begins a new one.
        let open = self.calls.get(&index).filter(|(_, known)| id.is_empty() || id == known).map(|(at, _)| *at);
        let at = open.unwrap_or_else(|| {
            let at = sink.call(Some(id), function["name"].as_str().unwrap_or_default());
            self.calls.insert(index, (at, id.to_owned()));
            at
        });
        match &function["arguments"] {
            Value::String(text) => sink.arguments(at, text),
            Value::Null => {}
            // Against the rules, but seen.
            other => sink.arguments(at, &json::to_string(other)),
        }
        if let Some(extra) = call.get("extra_content").filter(|extra| !extra.is_null()) {
            sink.opaque(Place::Call(at), json!({"extra_content": extra}));
        }
    }

    /// What belongs to the message as a whole.
    pub(super) fn finish(&mut self, sink: &mut Sink) {
        if !self.details.is_empty() {
            let details = std::mem::take(&mut self.details);
            sink.opaque(Place::Message, json!({"reasoning_details": details}));
        } else if !self.thoughts.is_empty() {
            let thoughts = std::mem::take(&mut self.thoughts);
            sink.opaque(Place::Message, json!({"reasoning_content": thoughts}));
        }
    }
}

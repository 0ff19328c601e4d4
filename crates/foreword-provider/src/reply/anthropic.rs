//! Anthropic Messages: numbered content blocks that begin, grow and end. A whole message is read as blocks that do not grow.

use std::collections::BTreeMap;

use foreword_core::json;
use serde_json::{Map, Value};

use super::read::Sink;
use super::{Place, Stop};
use crate::dialect::Dialect;
use crate::refusal::Refusal;
use crate::usage::Usage;

/// A block that has begun.
#[derive(Debug)]
struct Block {
    json: Value,
    call: Option<usize>,
    /// The arguments of a tool that the provider itself runs.
    partial: String,
    grown: bool,
}

#[derive(Debug, Default)]
pub(super) struct Anthropic {
    open: BTreeMap<u64, Block>,
    /// The first event counts the prompt, a later one the reply.
    usage: Map<String, Value>,
}

impl Anthropic {
    pub(super) fn event(&mut self, sink: &mut Sink, mut value: Value) -> Result<(), Refusal> {
        let index = value["index"].as_u64().unwrap_or(0);
        match value["type"].as_str().unwrap_or_default() {
            "message_start" => {
                sink.name(&value["message"]["id"]);
                self.count(sink, &value["message"]["usage"]);
            }
            "content_block_start" => self.begin(sink, index, value["content_block"].take()),
            "content_block_delta" => self.grow(sink, index, &value["delta"]),
            "content_block_stop" => self.end(sink, index),
            "message_delta" => {
                self.count(sink, &value["usage"]);
                stop(sink, &value["delta"]["stop_reason"], &value["delta"]["stop_sequence"]);
            }
            "message_stop" => sink.ended = true,
            "error" => return Err(Refusal::in_stream(&value)),
            _ => {}
        }
        Ok(())
    }

    /// A whole message.
    pub(super) fn whole(&mut self, sink: &mut Sink, message: &Value) -> Result<(), Refusal> {
        if message["type"] == "error" {
            return Err(Refusal::in_stream(message));
        }
        sink.name(&message["id"]);
        for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
            self.begin(sink, index as u64, block.clone());
            self.end(sink, index as u64);
        }
        self.count(sink, &message["usage"]);
        stop(sink, &message["stop_reason"], &message["stop_sequence"]);
        Ok(())
    }

    fn count(&mut self, sink: &mut Sink, usage: &Value) {
        for (name, count) in usage.as_object().into_iter().flatten().filter(|(_, count)| !count.is_null()) {
            self.usage.insert(name.clone(), count.clone());
        }
        if !self.usage.is_empty() {
            self.usage.entry("input_tokens").or_insert_with(|| 0.into());
            sink.usage = Usage::read(Dialect::Anthropic, &Value::Object(self.usage.clone()));
        }
    }

    fn begin(&mut self, sink: &mut Sink, index: u64, json: Value) {
        let call = match json["type"].as_str().unwrap_or_default() {
            "text" => {
                sink.text(json["text"].as_str().unwrap_or_default());
                None
            }
            "thinking" => {
                sink.reasoning(json["thinking"].as_str().unwrap_or_default());
                None
            }
            "tool_use" => Some(sink.call(json["id"].as_str(), json["name"].as_str().unwrap_or_default())),
            _ => None,
        };
        self.open.insert(index, Block { json, call, partial: String::new(), grown: false });
    }

    fn grow(&mut self, sink: &mut Sink, index: u64, delta: &Value) {
        let Some(block) = self.open.get_mut(&index) else { return };
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        match text("type") {
            "text_delta" => sink.text(text("text")),
            "input_json_delta" => match block.call {
                Some(call) => {
                    block.grown |= !text("partial_json").is_empty();
                    sink.arguments(call, text("partial_json"));
                }
                None => block.partial.push_str(text("partial_json")),
            },
            // What is kept for the provider grows by whatever fields its events have.
            kind => {
                if kind == "thinking_delta" {
                    sink.reasoning(text("thinking"));
                }
                for (name, more) in delta.as_object().into_iter().flatten().filter(|(name, _)| *name != "type") {
                    append(&mut block.json, name, more);
                }
            }
        }
    }

    fn end(&mut self, sink: &mut Sink, index: u64) {
        let Some(mut block) = self.open.remove(&index) else { return };
        if let Some(call) = block.call {
            if !block.grown {
                let input = block.json.get("input").filter(|input| input.is_object());
                sink.arguments(call, &input.map_or_else(|| "{}".to_owned(), json::to_string));
            }
            return;
        }
        if block.json["type"] == "text" {
            return;
        }
        if let (false, Ok(input)) = (block.partial.is_empty(), serde_json::from_str::<Value>(&block.partial)) {
            set(&mut block.json, "input", input);
        }
        sink.opaque(Place::Here, block.json);
    }
}

fn append(block: &mut Value, name: &str, more: &Value) {
    match (block.get_mut(name), more) {
        (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
        _ => set(block, name, more.clone()),
    }
}

fn set(block: &mut Value, name: &str, value: Value) {
    if let Value::Object(map) = block {
        map.insert(name.to_owned(), value);
    }
}

fn stop(sink: &mut Sink, reason: &Value, sequence: &Value) {
    let Some(reason) = reason.as_str() else { return };
    sink.stop = Some(match reason {
        "end_turn" => Stop::End,
        "stop_sequence" => Stop::Sequence(sequence.as_str().map(str::to_owned)),
        "tool_use" => Stop::Calls,
        "max_tokens" => Stop::Length,
        "model_context_window_exceeded" => Stop::Window,
        "refusal" => Stop::Refused,
        "pause_turn" => Stop::Paused,
        other => Stop::Other(other.to_owned()),
    });
}

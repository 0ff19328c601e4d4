//! OpenAI Responses: items that grow, and a last event that holds them all. What was not streamed is taken from there, so a whole
//! response is read as that last event alone.

use std::collections::BTreeMap;

use serde_json::Value;

use super::read::Sink;
use super::{CacheMiss, Place, Stop};
use crate::dialect::Dialect;
use crate::refusal::Refusal;
use crate::usage::Usage;

/// What is known of an item.
#[derive(Debug, Default)]
struct Item {
    call: Option<usize>,
    /// Its text or arguments came in pieces.
    streamed: bool,
    done: bool,
}

#[derive(Debug, Default)]
pub(super) struct Responses {
    items: BTreeMap<u64, Item>,
    refused: bool,
}

impl Responses {
    pub(super) fn event(&mut self, sink: &mut Sink, value: &Value) -> Result<(), Refusal> {
        let index = value["output_index"].as_u64().unwrap_or(0);
        let delta = value["delta"].as_str().unwrap_or_default();
        match value["type"].as_str().unwrap_or_default() {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.refused |= value["type"] == "response.refusal.delta";
                self.item(index).streamed = true;
                sink.text(delta);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.item(index).streamed = true;
                sink.reasoning(delta);
            }
            "response.reasoning_summary_part.added" if value["summary_index"].as_u64() > Some(0) => sink.reasoning("\n\n"),
            "response.created" => sink.name(&value["response"]["id"]),
            "response.output_item.added" if value["item"]["type"] == "function_call" => {
                self.begin(sink, index, &value["item"]);
            }
            "response.function_call_arguments.delta" => {
                let item = self.item(index);
                item.streamed = true;
                if let Some(call) = item.call {
                    sink.arguments(call, delta);
                }
            }
            "response.output_item.done" => self.done(sink, index, &value["item"]),
            "response.completed" | "response.incomplete" => self.whole(sink, &value["response"])?,
            "response.failed" | "error" => return Err(Refusal::in_stream(value)),
            _ => {}
        }
        Ok(())
    }

    /// A whole response.
    pub(super) fn whole(&mut self, sink: &mut Sink, response: &Value) -> Result<(), Refusal> {
        if response.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Refusal::in_stream(response));
        }
        sink.name(&response["id"]);
        for (index, item) in response["output"].as_array().into_iter().flatten().enumerate() {
            self.done(sink, index as u64, item);
        }
        sink.usage = Usage::read(Dialect::OpenAiResponses, response).or(sink.usage);
        sink.missed = missed(&response["prompt_cache_diagnostics"]);
        let why = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        sink.stop = match (response["status"].as_str(), why) {
            (Some("incomplete"), Some("max_output_tokens")) => Some(Stop::Length),
            (Some("incomplete"), Some("content_filter")) => Some(Stop::Refused),
            (Some("completed"), _) if self.refused => Some(Stop::Refused),
            (Some("completed"), _) => Some(sink.end()),
            (Some(status), why) => Some(Stop::Other(why.unwrap_or(status).to_owned())),
            (None, _) => None,
        };
        sink.ended = true;
        Ok(())
    }

    fn item(&mut self, index: u64) -> &mut Item {
        self.items.entry(index).or_default()
    }

    fn begin(&mut self, sink: &mut Sink, index: u64, item: &Value) -> usize {
        let known = self.item(index);
        *known.call.get_or_insert_with(|| sink.call(item["call_id"].as_str(), item["name"].as_str().unwrap_or_default()))
    }

    /// An item is whole: what was not streamed of it follows.
    fn done(&mut self, sink: &mut Sink, index: u64, item: &Value) {
        let known = self.item(index);
        if std::mem::replace(&mut known.done, true) {
            return;
        }
        let streamed = known.streamed;
        match item["type"].as_str().unwrap_or_default() {
            "message" if !streamed => {
                for part in item["content"].as_array().into_iter().flatten() {
                    let refusal = part["refusal"].as_str();
                    self.refused |= refusal.is_some();
                    sink.text(part["text"].as_str().or(refusal).unwrap_or_default());
                }
            }
            "message" => {}
            "function_call" => {
                let call = self.begin(sink, index, item);
                if !streamed {
                    sink.arguments(call, item["arguments"].as_str().unwrap_or_default());
                }
            }
            kind => {
                if kind == "reasoning" && !streamed {
                    let list = |name: &str| item[name].as_array().into_iter().flatten();
                    let texts: Vec<&str> =
                        list("summary").chain(list("content")).filter_map(|part| part["text"].as_str()).collect();
                    sink.reasoning(&texts.join("\n\n"));
                }
                sink.opaque(Place::Here, item.clone());
            }
        }
    }
}

/// Why the cache was missed. A hit, and a comparison that could not be made, say nothing.
fn missed(diagnostics: &Value) -> Option<CacheMiss> {
    let reason = diagnostics["reason"].as_str().filter(|_| diagnostics["type"] == "cache_miss")?;
    let reason = reason.chars().filter(|c| !c.is_control()).take(64).collect();
    Some(CacheMiss { reason, tokens: diagnostics["cache_missed_tokens"].as_u64() })
}

//! Gemini: every event is a response of its own; parts come whole.

use foreword_core::json;
use serde_json::{Value, json};

use super::read::Sink;
use super::{Place, Stop};
use crate::dialect::Dialect;
use crate::refusal::Refusal;
use crate::usage::Usage;

#[derive(Debug)]
pub(super) struct Gemini;

impl Gemini {
    #[allow(clippy::unused_self)] // the other dialects remember something
    pub(super) fn event(&self, sink: &mut Sink, value: &Value) -> Result<(), Refusal> {
        let value = value.get(0).unwrap_or(value);
        if value.get("error").is_some() {
            return Err(Refusal::in_stream(value));
        }
        sink.name(&value["responseId"]);
        sink.usage = Usage::read(Dialect::Gemini, value).or(sink.usage);
        let candidate = value.pointer("/candidates/0").unwrap_or(&Value::Null);
        for part in candidate.pointer("/content/parts").and_then(Value::as_array).into_iter().flatten() {
            read_part(sink, part);
        }
        if let Some(reason) = candidate["finishReason"].as_str() {
            sink.stop = Some(match reason {
                "STOP" => sink.end(),
                "MAX_TOKENS" => Stop::Length,
                "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE" | "IMAGE_SAFETY" => {
                    Stop::Refused
                }
                other => Stop::Other(other.to_owned()),
            });
        } else if value.pointer("/promptFeedback/blockReason").is_some() {
            sink.stop = Some(Stop::Refused);
        }
        Ok(())
    }
}

fn read_part(sink: &mut Sink, part: &Value) {
    let signature = part.get("thoughtSignature").filter(|signature| !signature.is_null());
    if let Some(call) = part.get("functionCall") {
        let at = sink.call(call["id"].as_str(), call["name"].as_str().unwrap_or_default());
        let arguments = call.get("args").filter(|arguments| !arguments.is_null());
        sink.arguments(at, &arguments.map_or_else(|| "{}".to_owned(), json::to_string));
        if let Some(signature) = signature {
            sink.opaque(Place::Call(at), json!({"thoughtSignature": signature}));
        }
    } else if let Some(text) = part["text"].as_str() {
        if part["thought"] == true {
            sink.reasoning(text);
        } else {
            sink.text(text);
        }
        if let Some(signature) = signature {
            // The words are there already; what signs them goes back in a part of its own behind them.
            sink.opaque(Place::Here, json!({"text": "", "thoughtSignature": signature}));
        }
    } else {
        sink.opaque(Place::Here, part.clone());
    }
}

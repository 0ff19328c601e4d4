//! A reply of the script in each dialect's own words, streamed and whole.

use serde_json::{Value, json};

use super::errors;
use super::script::{Scripted, ScriptedCall, ScriptedStop};
use super::thoughts;
use foreword_provider::dialect::Dialect;
use foreword_provider::model::Model;
use foreword_provider::usage::CacheUse;

/// Everything an answer is made of.
pub(super) struct WireReply<'a> {
    pub(super) dialect: Dialect,
    pub(super) model: &'a Model,
    pub(super) reply: &'a Scripted,
    pub(super) serial: u64,
    pub(super) cache: CacheUse,
    pub(super) body: &'a Value,
}

/// The answer as events: names, where the dialect has them, and data.
pub(super) fn frames(told: &WireReply<'_>) -> Vec<(String, String)> {
    let mut values = match told.dialect {
        Dialect::OpenAiChat | Dialect::LlamaCpp => told.chat_frames(),
        Dialect::OpenAiResponses => told.responses_frames(),
        Dialect::Anthropic => told.anthropic_frames(),
        Dialect::Gemini => told.gemini_frames(),
    };
    if let Some(error) = &told.reply.breaks {
        values.truncate(values.len().div_ceil(2));
        let mut body = errors::scripted_body(told.dialect, error);
        if told.dialect == Dialect::OpenAiResponses {
            body = json!({"type": "error", "code": body["error"]["type"], "message": error.message});
        }
        values.push(body);
    }
    let named = matches!(told.dialect, Dialect::OpenAiResponses | Dialect::Anthropic);
    let name = |value: &Value| if named { value["type"].as_str().unwrap_or_default().to_owned() } else { String::new() };
    let mut frames: Vec<(String, String)> = values.iter().map(|value| (name(value), value.to_string())).collect();
    if matches!(told.dialect, Dialect::OpenAiChat | Dialect::LlamaCpp) && told.reply.breaks.is_none() {
        frames.push((String::new(), "[DONE]".to_owned()));
    }
    frames
}

/// The answer as one value.
pub(super) fn whole(told: &WireReply<'_>) -> Value {
    match told.dialect {
        Dialect::OpenAiChat | Dialect::LlamaCpp => {
            let calls: Vec<Value> = told.calls().map(|(id, call)| chat_call(&id, call)).collect();
            let mut message = json!({"role": "assistant", "content": told.reply.text});
            if !told.reply.reasoning.is_empty() {
                message["reasoning_content"] = json!(told.reply.reasoning);
            }
            if !calls.is_empty() {
                message["tool_calls"] = json!(calls);
            }
            json!({
                "id": told.id("chatcmpl"), "object": "chat.completion", "model": told.model.wire, "usage": told.usage(),
                "choices": [{"index": 0, "message": message, "finish_reason": told.stop("stop", "tool_calls", "length", "content_filter")}],
            })
        }
        Dialect::OpenAiResponses => told.response(&told.items()),
        Dialect::Anthropic => json!({
            "id": told.id("msg"), "type": "message", "role": "assistant", "model": told.model.wire, "content": told.blocks(),
            "stop_reason": told.stop("end_turn", "tool_use", "max_tokens", "refusal"), "usage": told.usage(),
        }),
        Dialect::Gemini => told.gemini_last(&told.gemini_parts()),
    }
}

fn chat_call(id: &str, call: &ScriptedCall) -> Value {
    json!({"id": id, "type": "function", "function": {"name": call.name, "arguments": call.arguments.to_string()}})
}

impl WireReply<'_> {
    fn id(&self, lead: &str) -> String {
        format!("{lead}_double{}", self.serial)
    }

    fn calls(&self) -> impl Iterator<Item = (String, &ScriptedCall)> {
        let lead = match self.dialect {
            Dialect::Anthropic => "toolu",
            _ => "call",
        };
        self.reply.calls.iter().enumerate().map(move |(at, call)| (format!("{lead}_{}_{at}", self.serial), call))
    }

    fn signature(&self) -> String {
        thoughts::sign(&self.reply.reasoning, self.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default())
    }

    fn pieces(&self, text: &str) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(self.reply.piece.max(1)).map(|piece| piece.iter().collect()).collect()
    }

    fn stop(&self, end: &'static str, calls: &'static str, length: &'static str, refused: &'static str) -> &'static str {
        match self.reply.stop {
            Some(ScriptedStop::Length) => length,
            Some(ScriptedStop::Refused) => refused,
            None if self.reply.calls.is_empty() => end,
            None => calls,
        }
    }

    /// Tokens of the reply, and of the reasoning in it.
    fn output(&self) -> (u64, u64) {
        let count = |text: &str| self.model.tokenizer.tokenizer().count(text).0;
        let reasoning = count(&self.reply.reasoning);
        let calls: u64 = self.reply.calls.iter().map(|call| count(&call.name) + count(&call.arguments.to_string())).sum();
        (reasoning + count(&self.reply.text) + calls, reasoning)
    }

    fn usage(&self) -> Value {
        let CacheUse { read, write, write_long, uncached } = self.cache;
        let total = self.cache.total();
        let (output, reasoning) = self.output();
        match self.dialect {
            Dialect::OpenAiChat | Dialect::LlamaCpp => json!({
                "prompt_tokens": total, "completion_tokens": output, "total_tokens": total.0 + output,
                "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": write},
                "completion_tokens_details": {"reasoning_tokens": reasoning},
            }),
            Dialect::OpenAiResponses => json!({
                "input_tokens": total, "output_tokens": output, "total_tokens": total.0 + output,
                "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": write},
                "output_tokens_details": {"reasoning_tokens": reasoning},
            }),
            Dialect::Anthropic => json!({
                "input_tokens": uncached, "cache_read_input_tokens": read, "cache_creation_input_tokens": write,
                "cache_creation": {"ephemeral_5m_input_tokens": write - write_long, "ephemeral_1h_input_tokens": write_long},
                "output_tokens": output, "output_tokens_details": {"thinking_tokens": reasoning},
            }),
            Dialect::Gemini => json!({
                "promptTokenCount": total, "cachedContentTokenCount": read, "candidatesTokenCount": output - reasoning,
                "thoughtsTokenCount": reasoning, "totalTokenCount": total.0 + output,
            }),
        }
    }

    // Chat Completions

    fn chat_chunk(&self, delta: &Value, finish: Option<&str>) -> Value {
        json!({
            "id": self.id("chatcmpl"), "object": "chat.completion.chunk", "model": self.model.wire, "usage": null,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        })
    }

    fn chat_frames(&self) -> Vec<Value> {
        let mut frames = vec![self.chat_chunk(&json!({"role": "assistant", "content": ""}), None)];
        let mut say = |delta: Value| frames.push(self.chat_chunk(&delta, None));
        self.pieces(&self.reply.reasoning).iter().for_each(|piece| say(json!({"reasoning_content": piece})));
        self.pieces(&self.reply.text).iter().for_each(|piece| say(json!({"content": piece})));
        for (index, (id, call)) in self.calls().enumerate() {
            let begin = json!({"name": call.name, "arguments": ""});
            say(json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": begin}]}));
            for piece in self.pieces(&call.arguments.to_string()) {
                say(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
            }
        }
        frames.push(self.chat_chunk(&json!({}), Some(self.stop("stop", "tool_calls", "length", "content_filter"))));
        if self.body["stream_options"]["include_usage"] == true {
            let mut last = self.chat_chunk(&json!({}), None);
            last["choices"] = json!([]);
            last["usage"] = self.usage();
            frames.push(last);
        }
        frames
    }

    // Responses

    fn items(&self) -> Vec<Value> {
        let mut items = Vec::new();
        if !self.reply.reasoning.is_empty() {
            let mut item = json!({
                "type": "reasoning", "id": self.id("rs"), "summary": [{"type": "summary_text", "text": self.reply.reasoning}],
            });
            let included =
                self.body["include"].as_array().is_some_and(|list| list.contains(&json!("reasoning.encrypted_content")));
            if included {
                item["encrypted_content"] = json!(self.signature());
            }
            items.push(item);
        }
        if !self.reply.text.is_empty() {
            let part = json!({"type": "output_text", "text": self.reply.text, "annotations": []});
            items.push(json!({
                "type": "message", "id": self.id("msg"), "role": "assistant", "status": "completed", "content": [part],
            }));
        }
        items.extend(self.calls().map(|(id, call)| {
            let arguments = call.arguments.to_string();
            json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": call.name, "arguments": arguments})
        }));
        items
    }

    fn response(&self, items: &[Value]) -> Value {
        let details = match self.reply.stop {
            Some(ScriptedStop::Length) => json!({"reason": "max_output_tokens"}),
            Some(ScriptedStop::Refused) => json!({"reason": "content_filter"}),
            None => Value::Null,
        };
        let mut response = json!({
            "id": self.id("resp"), "object": "response", "model": self.model.wire, "error": null, "output": items,
            "status": if details.is_null() { "completed" } else { "incomplete" }, "incomplete_details": details, "usage": self.usage(),
        });
        if self.body["prompt_cache_options"]["comparison_response_id"].is_string() {
            response["prompt_cache_diagnostics"] = if self.cache.read.0 > 0 {
                json!({"type": "cache_hit"})
            } else {
                json!({"type": "cache_miss", "reason": "input_changed", "cache_missed_tokens": self.cache.total()})
            };
        }
        response
    }

    fn responses_frames(&self) -> Vec<Value> {
        let items = self.items();
        let mut frames = vec![json!({"type": "response.created", "response": {"id": self.id("resp"), "status": "in_progress"}})];
        for (index, item) in items.iter().enumerate() {
            let (field, event, text) = match item["type"].as_str() {
                Some("reasoning") => ("summary", "response.reasoning_summary_text.delta", self.reply.reasoning.as_str()),
                Some("message") => ("content", "response.output_text.delta", self.reply.text.as_str()),
                _ => ("arguments", "response.function_call_arguments.delta", item["arguments"].as_str().unwrap_or_default()),
            };
            let mut begun = item.clone();
            begun[field] = if field == "arguments" { json!("") } else { json!([]) };
            frames.push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
            let pieces = self.pieces(text);
            frames.extend(pieces.iter().map(|piece| json!({"type": event, "output_index": index, "delta": piece})));
            frames.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
        }
        let response = self.response(&items);
        let last = if response["status"] == "completed" { "response.completed" } else { "response.incomplete" };
        frames.push(json!({"type": last, "response": response}));
        for (number, frame) in frames.iter_mut().enumerate() {
            frame["sequence_number"] = json!(number);
        }
        frames
    }

    // Anthropic

    fn blocks(&self) -> Vec<Value> {
        let mut blocks = Vec::new();
        if !self.reply.reasoning.is_empty() {
            let thought = &self.reply.reasoning;
            blocks.push(json!({"type": "thinking", "thinking": thought, "signature": self.signature()}));
        }
        if !self.reply.text.is_empty() {
            blocks.push(json!({"type": "text", "text": self.reply.text}));
        }
        blocks.extend(
            self.calls().map(|(id, call)| json!({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments})),
        );
        blocks
    }

    fn anthropic_frames(&self) -> Vec<Value> {
        let mut usage = self.usage();
        usage["output_tokens"] = json!(1);
        let message = json!({
            "id": self.id("msg"), "type": "message", "role": "assistant", "model": self.model.wire, "content": [],
            "stop_reason": null, "usage": usage,
        });
        let mut frames = vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})];
        for (index, block) in self.blocks().into_iter().enumerate() {
            let mut begun = block.clone();
            let (field, kind, delta, text) = match block["type"].as_str() {
                Some("thinking") => ("thinking", "thinking_delta", "thinking", self.reply.reasoning.clone()),
                Some("text") => ("text", "text_delta", "text", self.reply.text.clone()),
                _ => ("input", "input_json_delta", "partial_json", block["input"].to_string()),
            };
            begun[field] = if field == "input" { json!({}) } else { json!("") };
            if field == "thinking" {
                begun["signature"] = json!("");
            }
            frames.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
            let mut grow = |delta: Value| frames.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
            self.pieces(&text).iter().for_each(|piece| grow(json!({"type": kind, delta: piece})));
            if field == "thinking" {
                grow(json!({"type": "signature_delta", "signature": block["signature"]}));
            }
            frames.push(json!({"type": "content_block_stop", "index": index}));
        }
        let stop = self.stop("end_turn", "tool_use", "max_tokens", "refusal");
        let (output, reasoning) = self.output();
        let usage = json!({"output_tokens": output, "output_tokens_details": {"thinking_tokens": reasoning}});
        frames.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}));
        frames.push(json!({"type": "message_stop"}));
        frames
    }

    // Gemini

    fn gemini(&self, parts: &[Value]) -> Value {
        let candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
        json!({"responseId": self.id("r"), "modelVersion": self.model.wire, "candidates": [candidate], "usageMetadata": self.usage()})
    }

    fn gemini_last(&self, parts: &[Value]) -> Value {
        let mut last = self.gemini(parts);
        last["candidates"][0]["finishReason"] = json!(self.stop("STOP", "STOP", "MAX_TOKENS", "SAFETY"));
        last
    }

    fn gemini_calls(&self) -> Vec<Value> {
        let mut calls: Vec<Value> = self
            .calls()
            .map(|(id, call)| json!({"functionCall": {"id": id, "name": call.name, "args": call.arguments}}))
            .collect();
        // Of calls made at once only the first one carries the signature.
        if let Some(first) = calls.first_mut().filter(|_| !self.reply.reasoning.is_empty()) {
            first["thoughtSignature"] = json!(self.signature());
        }
        calls
    }

    fn gemini_parts(&self) -> Vec<Value> {
        let mut parts = Vec::new();
        if !self.reply.reasoning.is_empty() {
            parts.push(json!({"text": self.reply.reasoning, "thought": true}));
        }
        if !self.reply.text.is_empty() {
            parts.push(json!({"text": self.reply.text}));
        }
        parts.extend(self.gemini_calls());
        parts
    }

    fn gemini_frames(&self) -> Vec<Value> {
        let mut frames = Vec::new();
        for piece in self.pieces(&self.reply.reasoning) {
            frames.push(self.gemini(&[json!({"text": piece, "thought": true})]));
        }
        for piece in self.pieces(&self.reply.text) {
            frames.push(self.gemini(&[json!({"text": piece})]));
        }
        frames.push(self.gemini_last(&self.gemini_calls()));
        frames
    }
}

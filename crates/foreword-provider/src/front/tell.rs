//! An answer in the client's words: as it comes, or whole.

use foreword_core::message::ToolCall;
use serde_json::{Value, json};

use super::ClientApi;

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The model had said all.
    Done,
    /// It waits for the results of its calls.
    Calls,
    /// Before that: the room for it was used up, or it broke off.
    Cut,
    /// The model or its provider refused to go on.
    Refused,
}

/// A whole answer.
#[derive(Clone, Copy, Debug)]
pub struct FinishedAnswer<'a> {
    /// The words.
    pub text: &'a str,
    /// The calls.
    pub calls: &'a [ToolCall],
    /// Why it ended.
    pub end: End,
    /// Tokens of the prompt that came from a cache, and those that were written to one.
    pub cached: (u64, u64),
    /// All tokens of the prompt.
    pub prompt: u64,
    /// Tokens of the answer.
    pub output: u64,
}

/// Tells one answer.
#[derive(Debug)]
pub struct ResponseWriter {
    front: ClientApi,
    /// The answer's name.
    id: String,
    model: String,
    created_s: i64,
    /// Whether Chat Completions is to tell what was used.
    usage: bool,
    /// Frames so far, for those that are counted.
    sequence: u64,
    text: String,
}

impl ResponseWriter {
    /// Of an answer with a name, made at a time in seconds since 1970.
    pub fn new(front: ClientApi, id: &str, model: &str, created_s: i64, usage: bool) -> Self {
        let lead = match front {
            ClientApi::Chat => "chatcmpl",
            ClientApi::Responses => "resp",
            ClientApi::Messages => "msg",
        };
        Self { front, id: format!("{lead}_{id}"), model: model.to_owned(), created_s, usage, sequence: 0, text: String::new() }
    }

    /// The answer's name as the client knows it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What a stream begins with. `prompt` is how large the prompt is thought to be.
    pub fn begin(&mut self, prompt: u64) -> String {
        match self.front {
            ClientApi::Chat => self.chunk(&json!({"role": "assistant", "content": ""}), None),
            ClientApi::Responses => {
                let response = self.response("in_progress", &[], &Value::Null, &Value::Null);
                let created = self.event(json!({"type": "response.created", "response": response}));
                created + &self.event(json!({"type": "response.in_progress", "response": response}))
            }
            ClientApi::Messages => {
                let message = json!({
                    "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
                    "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": prompt, "output_tokens": 0},
                });
                self.event(json!({"type": "message_start", "message": message}))
            }
        }
    }

    /// More words.
    pub fn part(&mut self, text: &str) -> String {
        let first = self.text.is_empty();
        self.text.push_str(text);
        let mut out = String::new();
        match self.front {
            ClientApi::Chat => out = self.chunk(&json!({"content": text}), None),
            ClientApi::Responses => {
                let item = self.text_id();
                if first {
                    let begun =
                        json!({"type": "message", "id": item, "role": "assistant", "status": "in_progress", "content": []});
                    out += &self.event(json!({"type": "response.output_item.added", "output_index": 0, "item": begun}));
                    let part = json!({"type": "output_text", "text": "", "annotations": []});
                    out += &self.event(
                        json!({"type": "response.content_part.added", "item_id": item, "output_index": 0, "content_index": 0, "part": part}),
                    );
                }
                out += &self.event(json!({
                    "type": "response.output_text.delta", "item_id": item, "output_index": 0, "content_index": 0, "delta": text, "logprobs": [],
                }));
            }
            ClientApi::Messages => {
                if first {
                    let block = json!({"type": "text", "text": ""});
                    out += &self.event(json!({"type": "content_block_start", "index": 0, "content_block": block}));
                }
                let delta = json!({"type": "text_delta", "text": text});
                out += &self.event(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
            }
        }
        out
    }

    /// The end of a stream. Words that no part brought are told first.
    pub fn end(&mut self, told: &FinishedAnswer<'_>) -> String {
        let mut out = String::new();
        let rest = told.text.strip_prefix(self.text.as_str()).unwrap_or_default().to_owned();
        if !rest.is_empty() {
            out += &self.part(&rest);
        }
        out += &match self.front {
            ClientApi::Chat => self.chat_end(told),
            ClientApi::Responses => self.responses_end(told),
            ClientApi::Messages => self.messages_end(told),
        };
        out
    }

    /// A stream that ends badly.
    pub fn failed(&mut self, status: u16, message: &str) -> String {
        let error = self.front.error(status, message);
        match self.front {
            ClientApi::Chat => format!("data: {error}\n\n"),
            ClientApi::Responses => {
                self.event(json!({"type": "error", "code": error["error"]["type"], "message": message, "param": null}))
            }
            ClientApi::Messages => self.event(error),
        }
    }

    /// The answer in one piece.
    pub fn whole(&self, told: &FinishedAnswer<'_>) -> Value {
        match self.front {
            ClientApi::Chat => {
                let mut message = json!({"role": "assistant", "content": told.text, "refusal": null});
                if !told.calls.is_empty() {
                    message["tool_calls"] = told.calls.iter().map(chat_call).collect();
                    if told.text.is_empty() {
                        message["content"] = Value::Null;
                    }
                }
                json!({
                    "id": self.id, "object": "chat.completion", "created": self.created_s, "model": self.model,
                    "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": chat_reason(told.end)}],
                    "usage": chat_usage(told),
                })
            }
            ClientApi::Responses => self.complete(told),
            ClientApi::Messages => json!({
                "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": blocks(told),
                "stop_reason": messages_reason(told.end), "stop_sequence": null, "usage": messages_usage(told),
            }),
        }
    }

    /// An event with its type as its name, and its number where the API counts them.
    fn event(&mut self, mut value: Value) -> String {
        if self.front == ClientApi::Responses {
            value["sequence_number"] = json!(self.sequence);
            self.sequence += 1;
        }
        let name = value["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {value}\n\n")
    }

    fn chunk(&self, delta: &Value, reason: Option<&str>) -> String {
        let chunk = json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created_s, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}],
        });
        format!("data: {chunk}\n\n")
    }

    fn chat_end(&self, told: &FinishedAnswer<'_>) -> String {
        let mut out = String::new();
        for (index, call) in told.calls.iter().enumerate() {
            let mut call = chat_call(call);
            call["index"] = json!(index);
            out += &self.chunk(&json!({"tool_calls": [call]}), None);
        }
        out += &self.chunk(&json!({}), Some(chat_reason(told.end)));
        if self.usage {
            let last = json!({
                "id": self.id, "object": "chat.completion.chunk", "created": self.created_s, "model": self.model,
                "choices": [], "usage": chat_usage(told),
            });
            out.extend(["data: ", &last.to_string(), "\n\n"]);
        }
        out + "data: [DONE]\n\n"
    }

    fn text_id(&self) -> String {
        self.id.replacen("resp", "msg", 1)
    }

    fn items(&self, told: &FinishedAnswer<'_>) -> Vec<Value> {
        let status = if matches!(told.end, End::Cut | End::Refused) { "incomplete" } else { "completed" };
        let mut items = Vec::new();
        if !told.text.is_empty() {
            let part = json!({"type": "output_text", "text": told.text, "annotations": [], "logprobs": []});
            items
                .push(json!({"type": "message", "id": self.text_id(), "role": "assistant", "status": status, "content": [part]}));
        }
        items.extend(told.calls.iter().map(|call| {
            json!({
                "type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id, "name": call.name,
                "arguments": call.arguments.to_string(), "status": "completed",
            })
        }));
        items
    }

    fn response(&self, status: &str, items: &[Value], details: &Value, usage: &Value) -> Value {
        json!({
            "id": self.id, "object": "response", "created_at": self.created_s, "model": self.model, "status": status,
            "output": items, "incomplete_details": details, "usage": usage, "error": null, "instructions": null, "metadata": {},
            "parallel_tool_calls": true, "temperature": null, "tool_choice": "auto", "tools": [], "top_p": null,
        })
    }

    fn complete(&self, told: &FinishedAnswer<'_>) -> Value {
        let usage = json!({
            "input_tokens": told.prompt, "input_tokens_details": {"cached_tokens": told.cached.0},
            "output_tokens": told.output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": told.prompt + told.output,
        });
        match told.end {
            End::Cut => self.response("incomplete", &self.items(told), &json!({"reason": "max_output_tokens"}), &usage),
            End::Refused => self.response("incomplete", &self.items(told), &json!({"reason": "content_filter"}), &usage),
            End::Done | End::Calls => self.response("completed", &self.items(told), &Value::Null, &usage),
        }
    }

    fn responses_end(&mut self, told: &FinishedAnswer<'_>) -> String {
        let mut out = String::new();
        for (index, item) in self.items(told).into_iter().enumerate() {
            if item["type"] == "message" {
                let (id, part) = (item["id"].clone(), item["content"][0].clone());
                out += &self.event(json!({
                    "type": "response.output_text.done", "item_id": id, "output_index": index, "content_index": 0, "text": told.text, "logprobs": [],
                }));
                out += &self.event(
                    json!({"type": "response.content_part.done", "item_id": id, "output_index": index, "content_index": 0, "part": part}),
                );
            } else {
                let (id, arguments) = (item["id"].clone(), item["arguments"].clone());
                let mut begun = item.clone();
                (begun["arguments"], begun["status"]) = (json!(""), json!("in_progress"));
                out += &self.event(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
                out += &self.event(
                    json!({"type": "response.function_call_arguments.delta", "item_id": id, "output_index": index, "delta": arguments}),
                );
                out += &self.event(json!({
                    "type": "response.function_call_arguments.done", "item_id": id, "output_index": index, "arguments": arguments, "name": item["name"],
                }));
            }
            out += &self.event(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
        }
        let response = self.complete(told);
        let name = if matches!(told.end, End::Cut | End::Refused) { "response.incomplete" } else { "response.completed" };
        out + &self.event(json!({"type": name, "response": response}))
    }

    fn messages_end(&mut self, told: &FinishedAnswer<'_>) -> String {
        let mut out = String::new();
        if !self.text.is_empty() {
            out += &self.event(json!({"type": "content_block_stop", "index": 0}));
        }
        let before = usize::from(!self.text.is_empty());
        for (at, call) in told.calls.iter().enumerate() {
            let index = before + at;
            let block = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
            out += &self.event(json!({"type": "content_block_start", "index": index, "content_block": block}));
            let delta = json!({"type": "input_json_delta", "partial_json": call.arguments.to_string()});
            out += &self.event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
            out += &self.event(json!({"type": "content_block_stop", "index": index}));
        }
        let delta = json!({"stop_reason": messages_reason(told.end), "stop_sequence": null});
        out += &self.event(json!({"type": "message_delta", "delta": delta, "usage": messages_usage(told)}));
        out + &self.event(json!({"type": "message_stop"}))
    }
}

fn chat_call(call: &ToolCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments.to_string()}})
}

fn chat_reason(end: End) -> &'static str {
    match end {
        End::Done => "stop",
        End::Calls => "tool_calls",
        End::Cut => "length",
        End::Refused => "content_filter",
    }
}

fn chat_usage(told: &FinishedAnswer<'_>) -> Value {
    json!({
        "prompt_tokens": told.prompt, "completion_tokens": told.output, "total_tokens": told.prompt + told.output,
        "prompt_tokens_details": {"cached_tokens": told.cached.0},
    })
}

fn messages_reason(end: End) -> &'static str {
    match end {
        End::Done => "end_turn",
        End::Calls => "tool_use",
        End::Cut => "max_tokens",
        End::Refused => "refusal",
    }
}

/// Anthropic counts apart what came from a cache and what went into one.
fn messages_usage(told: &FinishedAnswer<'_>) -> Value {
    let (read, write) = told.cached;
    json!({
        "input_tokens": told.prompt.saturating_sub(read + write), "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write, "output_tokens": told.output,
    })
}

fn blocks(told: &FinishedAnswer<'_>) -> Vec<Value> {
    let text = (!told.text.is_empty()).then(|| json!({"type": "text", "text": told.text}));
    let calls =
        told.calls.iter().map(|call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}));
    text.into_iter().chain(calls).collect()
}

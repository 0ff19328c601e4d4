//! An answer in the client's words: as it comes, or whole.
//!
//! An answer is a row of items: thoughts, texts, calls. In a stream one of them is open at a time. Where a provider makes several calls
//! at once, the first is told as it comes and the others when it is whole.

use std::collections::BTreeMap;

use foreword_core::message::ToolCall;
use serde_json::{Value, json};

use super::ClientApi;
use super::translate::{ClientTool, SEALED};

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The model had said all.
    Done,
    /// It wrote this stop sequence of the client.
    Sequence(Option<String>),
    /// It waits for the results of its calls.
    Calls,
    /// Before that: the room for it was used up, or it broke off.
    Cut,
    /// The context window is full.
    Window,
    /// The provider wants the answer sent back in order to go on.
    Paused,
    /// The model or its provider refused to go on.
    Refused,
}

/// A whole answer.
#[derive(Clone, Debug)]
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
    /// Those of them that are thoughts.
    pub reasoning: u64,
}

/// A part of an answer.
#[derive(Clone, Debug)]
enum Item {
    Thought { text: String, sealed: Option<String> },
    Text(String),
    Call { id: String, tool: ClientTool, arguments: String },
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
    items: Vec<Item>,
    /// Whether the last item may grow.
    is_open: bool,
    /// The provider's number of the call that is the last item.
    call: Option<usize>,
    /// Calls that wait until that one is whole.
    held: Vec<(usize, Item)>,
    /// The client's tools by their names at the provider, where those differ.
    tools: BTreeMap<String, ClientTool>,
}

impl ResponseWriter {
    /// Of an answer with a name, made at a time in seconds since 1970.
    pub fn new(front: ClientApi, id: &str, model: &str, created_s: i64, usage: bool) -> Self {
        let lead = match front {
            ClientApi::Chat => "chatcmpl",
            ClientApi::Responses => "resp",
            ClientApi::Messages => "msg",
        };
        Self {
            front,
            id: format!("{lead}_{id}"),
            model: model.to_owned(),
            created_s,
            usage,
            sequence: 0,
            items: Vec::new(),
            is_open: false,
            call: None,
            held: Vec::new(),
            tools: BTreeMap::new(),
        }
    }

    /// With the client's names of its tools.
    #[must_use]
    pub fn with_tools(mut self, tools: BTreeMap<String, ClientTool>) -> Self {
        self.tools = tools;
        self
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

    /// What tells a client that waits that the answer is still on its way.
    pub fn ping(&self) -> &'static str {
        match self.front {
            ClientApi::Messages => "event: ping\ndata: {\"type\": \"ping\"}\n\n",
            ClientApi::Chat | ClientApi::Responses => ": ping\n\n",
        }
    }

    /// A thought of a provider is whole. One of the client's own API is given as it is, any other in a form that only this gateway reads.
    pub fn opaque(&mut self, block: &Value) -> String {
        let kind = block["type"].as_str().unwrap_or_default();
        let own = match (self.front, kind) {
            (ClientApi::Messages, "thinking") => block["signature"].as_str(),
            (ClientApi::Messages, "redacted_thinking") => block["data"].as_str(),
            (ClientApi::Responses, "reasoning") => block["encrypted_content"].as_str(),
            _ => None,
        };
        match kind {
            "thinking" | "redacted_thinking" | "reasoning" => {
                self.seal(own.map_or_else(|| format!("{SEALED}{block}"), str::to_owned))
            }
            _ => String::new(),
        }
    }

    /// More words.
    pub fn part(&mut self, text: &str) -> String {
        let mut out = String::new();
        if !(self.is_open && matches!(self.items.last(), Some(Item::Text(_)))) {
            out = self.open(Item::Text(String::new()));
        }
        if let Some(Item::Text(all)) = self.items.last_mut() {
            all.push_str(text);
        }
        out + &self.delta(text)
    }

    /// More of what the model thinks.
    pub fn think(&mut self, text: &str) -> String {
        let mut out = String::new();
        if !(self.is_open && matches!(self.items.last(), Some(Item::Thought { .. }))) {
            out = self.open(Item::Thought { text: String::new(), sealed: None });
        }
        if let Some(Item::Thought { text: all, .. }) = self.items.last_mut() {
            all.push_str(text);
        }
        out + &self.delta(text)
    }

    /// A thought is whole; `seal` is what its provider wants back of it.
    fn seal(&mut self, seal: String) -> String {
        let sealed = Some(seal);
        match self.items.last_mut() {
            Some(Item::Thought { sealed: none @ None, .. }) if self.is_open => {
                *none = sealed;
                self.close()
            }
            _ => {
                let begun = self.open(Item::Thought { text: String::new(), sealed });
                begun + &self.close()
            }
        }
    }

    /// A call begins: the provider's number of it, its id, the tool's name at the provider.
    pub fn call(&mut self, call: usize, id: Option<&str>, name: &str) -> String {
        let tool = self.tools.get(name).cloned().unwrap_or_else(|| ClientTool { name: name.to_owned(), ..ClientTool::default() });
        let id = id.map_or_else(|| format!("call_{}_{call}", self.rest()), str::to_owned);
        let item = Item::Call { id, tool, arguments: String::new() };
        if self.is_open && self.call.is_some() {
            self.held.push((call, item));
            return String::new();
        }
        let begun = self.open(item);
        self.call = Some(call);
        begun
    }

    /// More of what a call is made with.
    pub fn arguments(&mut self, call: usize, text: &str) -> String {
        if let Some((_, Item::Call { arguments, .. })) = self.held.iter_mut().find(|(held, _)| *held == call) {
            arguments.push_str(text);
            return String::new();
        }
        match self.items.last_mut() {
            Some(Item::Call { arguments, .. }) if self.is_open && self.call == Some(call) => arguments.push_str(text),
            _ => return String::new(),
        }
        self.delta(text)
    }

    /// The end of a stream. Words and calls that were not told yet come first.
    pub fn end(&mut self, told: &FinishedAnswer<'_>) -> String {
        let mut out = String::new();
        let texts = self.items.iter().filter_map(|item| if let Item::Text(text) = item { Some(text.as_str()) } else { None });
        let so_far: String = texts.collect();
        let rest = told.text.strip_prefix(so_far.as_str()).unwrap_or_default().to_owned();
        if !rest.is_empty() {
            out += &self.part(&rest);
        }
        if !self.items.iter().any(|item| matches!(item, Item::Call { .. })) {
            for (at, call) in told.calls.iter().enumerate() {
                // What is no JSON stays what the model wrote.
                let arguments = call.arguments.as_str().map_or_else(|| call.arguments.to_string(), str::to_owned);
                out += &self.call(at, Some(&call.id), &call.name);
                out += &self.arguments(at, &arguments);
            }
        }
        out += &self.close();
        out + &match self.front {
            ClientApi::Chat => self.chat_end(told),
            ClientApi::Responses => self.responses_end(told),
            ClientApi::Messages => self.messages_end(told),
        }
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
    pub fn whole(&mut self, told: &FinishedAnswer<'_>) -> Value {
        self.end(told);
        match self.front {
            ClientApi::Chat => self.chat_whole(told),
            ClientApi::Responses => self.complete(told),
            ClientApi::Messages => {
                let sequence = if let End::Sequence(sequence) = &told.end { sequence.as_deref() } else { None };
                json!({
                    "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": self.blocks(),
                    "stop_reason": messages_reason(&told.end), "stop_sequence": sequence, "usage": messages_usage(told),
                })
            }
        }
    }

    /// The answer's name without its lead.
    fn rest(&self) -> &str {
        self.id.split_once('_').map_or("", |(_, rest)| rest)
    }

    /// Begins an item behind the last one.
    fn open(&mut self, item: Item) -> String {
        let before = self.close();
        self.items.push(item);
        self.is_open = true;
        let at = self.items.len() - 1;
        let begun = match self.front {
            ClientApi::Chat => match &self.items[at] {
                Item::Call { id, tool, .. } => {
                    let call = json!({"index": self.call_index(), "id": id, "type": "function", "function": {"name": tool.name, "arguments": ""}});
                    self.chunk(&json!({"tool_calls": [call]}), None)
                }
                Item::Thought { .. } | Item::Text(_) => String::new(),
            },
            ClientApi::Messages => {
                let block = match &self.items[at] {
                    Item::Thought { text, sealed: Some(data) } if text.is_empty() => {
                        json!({"type": "redacted_thinking", "data": data})
                    }
                    Item::Thought { .. } => json!({"type": "thinking", "thinking": "", "signature": ""}),
                    Item::Text(_) => json!({"type": "text", "text": ""}),
                    Item::Call { id, tool, .. } => json!({"type": "tool_use", "id": id, "name": tool.name, "input": {}}),
                };
                self.event(json!({"type": "content_block_start", "index": at, "content_block": block}))
            }
            ClientApi::Responses => {
                let item = self.response_item(at, "in_progress");
                let id = item["id"].clone();
                let mut begun = self.event(json!({"type": "response.output_item.added", "output_index": at, "item": item}));
                match &self.items[at] {
                    Item::Text(_) => {
                        let part = json!({"type": "output_text", "text": "", "annotations": []});
                        begun += &self.event(
                            json!({"type": "response.content_part.added", "item_id": id, "output_index": at, "content_index": 0, "part": part}),
                        );
                    }
                    Item::Thought { sealed: None, .. } => {
                        let part = json!({"type": "summary_text", "text": ""});
                        begun += &self.event(
                            json!({"type": "response.reasoning_summary_part.added", "item_id": id, "output_index": at, "summary_index": 0, "part": part}),
                        );
                    }
                    Item::Thought { .. } | Item::Call { .. } => {}
                }
                begun
            }
        };
        before + &begun
    }

    /// More of the last item.
    fn delta(&mut self, text: &str) -> String {
        let Some(at) = self.items.len().checked_sub(1) else { return String::new() };
        match (self.front, &self.items[at]) {
            (ClientApi::Chat, Item::Text(_)) => self.chunk(&json!({"content": text}), None),
            (ClientApi::Chat, Item::Thought { .. }) => self.chunk(&json!({"reasoning_content": text}), None),
            (ClientApi::Chat, Item::Call { .. }) => {
                let call = json!({"index": self.call_index(), "function": {"arguments": text}});
                self.chunk(&json!({"tool_calls": [call]}), None)
            }
            (ClientApi::Messages, item) => {
                let delta = match item {
                    Item::Text(_) => json!({"type": "text_delta", "text": text}),
                    Item::Thought { .. } => json!({"type": "thinking_delta", "thinking": text}),
                    Item::Call { .. } => json!({"type": "input_json_delta", "partial_json": text}),
                };
                self.event(json!({"type": "content_block_delta", "index": at, "delta": delta}))
            }
            // The text in its JSON is told when that is whole.
            (ClientApi::Responses, Item::Call { tool, .. }) if tool.is_custom => String::new(),
            (ClientApi::Responses, item) => {
                let (kind, place) = match item {
                    Item::Text(_) => ("response.output_text.delta", Some("content_index")),
                    Item::Thought { .. } => ("response.reasoning_summary_text.delta", Some("summary_index")),
                    Item::Call { .. } => ("response.function_call_arguments.delta", None),
                };
                let mut event = json!({"type": kind, "item_id": self.item_id(at), "output_index": at, "delta": text});
                if let Some(place) = place {
                    event[place] = json!(0);
                }
                if kind == "response.output_text.delta" {
                    event["logprobs"] = json!([]);
                }
                self.event(event)
            }
        }
    }

    /// Ends the last item, and tells the calls that waited for that.
    fn close(&mut self) -> String {
        if !std::mem::replace(&mut self.is_open, false) {
            return String::new();
        }
        self.call = None;
        let mut out = self.closed();
        for (_, item) in std::mem::take(&mut self.held) {
            let Item::Call { id, tool, arguments } = item else { continue };
            out += &self.open(Item::Call { id, tool, arguments: arguments.clone() });
            out += &self.delta(&arguments);
            self.is_open = false;
            out += &self.closed();
        }
        out
    }

    /// The end of the last item.
    fn closed(&mut self) -> String {
        let Some(at) = self.items.len().checked_sub(1) else { return String::new() };
        match (self.front, self.items[at].clone()) {
            (ClientApi::Chat, Item::Thought { text, sealed: Some(sealed) }) => {
                let detail = json!({"type": "reasoning.encrypted", "text": text, "data": sealed, "index": 0});
                self.chunk(&json!({"reasoning_details": [detail]}), None)
            }
            (ClientApi::Chat, _) => String::new(),
            (ClientApi::Messages, item) => {
                let mut out = String::new();
                if let Item::Thought { text, sealed: Some(sealed) } = item
                    && !text.is_empty()
                {
                    let delta = json!({"type": "signature_delta", "signature": sealed});
                    out = self.event(json!({"type": "content_block_delta", "index": at, "delta": delta}));
                }
                out + &self.event(json!({"type": "content_block_stop", "index": at}))
            }
            (ClientApi::Responses, item) => {
                let whole = self.response_item(at, "completed");
                let id = whole["id"].clone();
                let mut out = String::new();
                let mut tell = |writer: &mut Self, kind: &str, name: &str, value: Value, place: Option<&str>| {
                    let mut event = json!({"type": kind, "item_id": id, "output_index": at, name: value});
                    if let Some(place) = place {
                        event[place] = json!(0);
                    }
                    out += &writer.event(event);
                };
                match item {
                    Item::Text(text) => {
                        tell(self, "response.output_text.done", "text", json!(text), Some("content_index"));
                        let part = whole["content"][0].clone();
                        tell(self, "response.content_part.done", "part", part, Some("content_index"));
                    }
                    Item::Thought { text, .. } if !text.is_empty() => {
                        tell(self, "response.reasoning_summary_text.done", "text", json!(text), Some("summary_index"));
                        let part = whole["summary"][0].clone();
                        tell(self, "response.reasoning_summary_part.done", "part", part, Some("summary_index"));
                    }
                    Item::Thought { .. } => {}
                    Item::Call { tool, .. } if tool.is_custom => {
                        tell(self, "response.custom_tool_call_input.delta", "delta", whole["input"].clone(), None);
                        tell(self, "response.custom_tool_call_input.done", "input", whole["input"].clone(), None);
                    }
                    Item::Call { .. } => {
                        tell(self, "response.function_call_arguments.done", "arguments", whole["arguments"].clone(), None);
                    }
                }
                out + &self.event(json!({"type": "response.output_item.done", "output_index": at, "item": whole}))
            }
        }
    }

    /// How many calls are in front of the last item.
    fn call_index(&self) -> usize {
        let calls = self.items.iter().filter(|item| matches!(item, Item::Call { .. })).count();
        calls.saturating_sub(1)
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
        let mut out = self.chunk(&json!({}), Some(chat_reason(&told.end)));
        if self.usage {
            let last = json!({
                "id": self.id, "object": "chat.completion.chunk", "created": self.created_s, "model": self.model,
                "choices": [], "usage": chat_usage(told),
            });
            out.extend(["data: ", &last.to_string(), "\n\n"]);
        }
        out + "data: [DONE]\n\n"
    }

    fn chat_whole(&self, told: &FinishedAnswer<'_>) -> Value {
        let (mut words, mut thoughts, mut details, mut calls) = (String::new(), String::new(), Vec::new(), Vec::new());
        for item in &self.items {
            match item {
                Item::Text(text) => words.push_str(text),
                Item::Thought { text, sealed } => {
                    thoughts.push_str(text);
                    details
                        .extend(sealed.as_ref().map(|data| json!({"type": "reasoning.encrypted", "text": text, "data": data})));
                }
                Item::Call { id, tool, arguments } => {
                    calls.push(json!({"id": id, "type": "function", "function": {"name": tool.name, "arguments": arguments}}));
                }
            }
        }
        let mut message = json!({"role": "assistant", "content": words, "refusal": null});
        if !thoughts.is_empty() {
            message["reasoning_content"] = json!(thoughts);
        }
        if !details.is_empty() {
            message["reasoning_details"] = json!(details);
        }
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
            if words.is_empty() {
                message["content"] = Value::Null;
            }
        }
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created_s, "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": chat_reason(&told.end)}],
            "usage": chat_usage(told),
        })
    }

    fn item_id(&self, at: usize) -> String {
        match &self.items[at] {
            Item::Thought { .. } => format!("rs_{}_{at}", self.rest()),
            Item::Text(_) => format!("msg_{}_{at}", self.rest()),
            Item::Call { id, .. } => format!("fc_{id}"),
        }
    }

    /// An item as Responses has it.
    fn response_item(&self, at: usize, status: &str) -> Value {
        let id = self.item_id(at);
        let is_begun = status == "in_progress";
        match &self.items[at] {
            Item::Text(text) => {
                let part = json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
                let content = if is_begun { json!([]) } else { json!([part]) };
                json!({"type": "message", "id": id, "role": "assistant", "status": status, "content": content})
            }
            Item::Thought { text, sealed } => {
                let summary =
                    if is_begun || text.is_empty() { json!([]) } else { json!([{"type": "summary_text", "text": text}]) };
                let mut item = json!({"type": "reasoning", "id": id, "summary": summary});
                if let Some(sealed) = sealed {
                    item["encrypted_content"] = json!(sealed);
                }
                item
            }
            Item::Call { id: call, tool, arguments } => {
                let (kind, name) = if tool.is_custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
                let given = if is_begun { String::new() } else { tool.given(arguments) };
                let mut item = json!({"type": kind, "id": id, "call_id": call, "name": tool.name, name: given, "status": status});
                if let Some(namespace) = &tool.namespace {
                    item["namespace"] = json!(namespace);
                }
                item
            }
        }
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
            "output_tokens": told.output, "output_tokens_details": {"reasoning_tokens": told.reasoning},
            "total_tokens": told.prompt + told.output,
        });
        let why = incomplete(&told.end);
        let items: Vec<Value> = (0..self.items.len())
            .map(|at| {
                let is_cut = why.is_some() && matches!(self.items[at], Item::Text(_));
                self.response_item(at, if is_cut { "incomplete" } else { "completed" })
            })
            .collect();
        match why {
            Some(why) => self.response("incomplete", &items, &json!({"reason": why}), &usage),
            None => self.response("completed", &items, &Value::Null, &usage),
        }
    }

    fn responses_end(&mut self, told: &FinishedAnswer<'_>) -> String {
        let response = self.complete(told);
        let name = if incomplete(&told.end).is_some() { "response.incomplete" } else { "response.completed" };
        self.event(json!({"type": name, "response": response}))
    }

    fn messages_end(&mut self, told: &FinishedAnswer<'_>) -> String {
        let sequence = if let End::Sequence(sequence) = &told.end { sequence.as_deref() } else { None };
        let delta = json!({"stop_reason": messages_reason(&told.end), "stop_sequence": sequence});
        let end = self.event(json!({"type": "message_delta", "delta": delta, "usage": messages_usage(told)}));
        end + &self.event(json!({"type": "message_stop"}))
    }

    /// The items as blocks of a message.
    fn blocks(&self) -> Vec<Value> {
        let block = |item: &Item| match item {
            Item::Thought { text, sealed: Some(data) } if text.is_empty() => json!({"type": "redacted_thinking", "data": data}),
            Item::Thought { text, sealed } => {
                json!({"type": "thinking", "thinking": text, "signature": sealed.as_deref().unwrap_or_default()})
            }
            Item::Text(text) => json!({"type": "text", "text": text}),
            Item::Call { id, tool, arguments } => {
                let input: Value = serde_json::from_str(arguments).unwrap_or_default();
                let input = if input.is_object() { input } else { json!({}) };
                json!({"type": "tool_use", "id": id, "name": tool.name, "input": input})
            }
        };
        self.items.iter().map(block).collect()
    }
}

/// Why a response is not whole, in the words of Responses.
fn incomplete(end: &End) -> Option<&'static str> {
    match end {
        End::Cut | End::Window => Some("max_output_tokens"),
        End::Refused => Some("content_filter"),
        End::Done | End::Sequence(_) | End::Calls | End::Paused => None,
    }
}

fn chat_reason(end: &End) -> &'static str {
    match end {
        End::Done | End::Sequence(_) | End::Paused => "stop",
        End::Calls => "tool_calls",
        End::Cut | End::Window => "length",
        End::Refused => "content_filter",
    }
}

fn chat_usage(told: &FinishedAnswer<'_>) -> Value {
    json!({
        "prompt_tokens": told.prompt, "completion_tokens": told.output, "total_tokens": told.prompt + told.output,
        "prompt_tokens_details": {"cached_tokens": told.cached.0},
        "completion_tokens_details": {"reasoning_tokens": told.reasoning},
    })
}

fn messages_reason(end: &End) -> &'static str {
    match end {
        End::Done => "end_turn",
        End::Sequence(_) => "stop_sequence",
        End::Calls => "tool_use",
        End::Cut => "max_tokens",
        End::Window => "model_context_window_exceeded",
        End::Paused => "pause_turn",
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

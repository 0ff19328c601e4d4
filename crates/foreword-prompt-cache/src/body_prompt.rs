//! A body as the provider's cache sees it: tools, system, messages, without the marks in them. Read from the JSON alone, so that what the
//! engine believes of its own request is held against what it really sent.

use foreword_core::json;
use foreword_core::message::Role;
use foreword_core::tokens::Tokens;
use serde_json::Value;

use foreword_provider::dialect::Dialect;
use foreword_provider::model::Model;
use foreword_provider::stream::{Block, BlockKind, Mark, PromptStream, Ttl};

/// What an image counts; the size of its picture is not known here.
const IMAGE_TOKENS: Tokens = Tokens(1000);

/// The prompt of a request.
pub fn read(dialect: Dialect, body: &Value, model: &Model) -> PromptStream {
    let mut blocks = head(dialect, body);
    blocks.extend(messages(dialect, body));
    stream(&blocks, model)
}

/// The prompt of a request that continues an explicit cache.
pub fn read_behind(cached: &Value, body: &Value, model: &Model) -> PromptStream {
    let mut blocks = head(Dialect::Gemini, cached);
    blocks.extend(messages(Dialect::Gemini, cached));
    let explicit = blocks.len();
    blocks.extend(messages(Dialect::Gemini, body));
    stream(&blocks, model).with_explicit(explicit)
}

struct Raw {
    kind: BlockKind,
    role: Role,
    opens: bool,
    ends: bool,
    text: String,
    mark: Option<Ttl>,
}

fn stream(raw: &[Raw], model: &Model) -> PromptStream {
    let tokenizer = model.tokenizer.tokenizer();
    let mut marks = Vec::new();
    let mut blocks = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let tokens = if raw.kind == BlockKind::Image { IMAGE_TOKENS } else { tokenizer.count(&raw.text) };
        blocks.push(Block::of_request(raw.kind, raw.role, raw.opens, raw.ends, &raw.text, tokens));
        marks.extend(raw.mark.map(|ttl| Mark { block: index, ttl }));
    }
    PromptStream::of(blocks).with_marks(marks)
}

fn mark(block: &Value) -> Option<Ttl> {
    let mark = ["cache_control", "prompt_cache_breakpoint"].iter().find_map(|name| block.get(name))?;
    Some(if mark["ttl"] == "1h" { Ttl::Long } else { Ttl::Short })
}

/// A block without its mark.
pub fn bare(block: &Value) -> String {
    let mut block = block.clone();
    if let Value::Object(map) = &mut block {
        map.retain(|name, _| name != "cache_control" && name != "prompt_cache_breakpoint");
    }
    json::to_string(&block)
}

/// Tools and system, where these are fields of their own.
fn head(dialect: Dialect, body: &Value) -> Vec<Raw> {
    let tools = match dialect {
        Dialect::Gemini => body.pointer("/tools/0/functionDeclarations"),
        _ => body.get("tools"),
    };
    let tools = tools.and_then(Value::as_array).into_iter().flatten();
    let mut blocks: Vec<Raw> = tools
        .map(|tool| Raw {
            kind: BlockKind::Tool,
            role: Role::System,
            opens: true,
            ends: false,
            text: bare(tool),
            mark: mark(tool),
        })
        .collect();
    let system = match dialect {
        Dialect::Anthropic => &body["system"],
        Dialect::Gemini => &body["systemInstruction"]["parts"],
        _ => &Value::Null,
    };
    let from = blocks.len();
    parts(&mut blocks, Role::System, system);
    bound(&mut blocks[from..]);
    blocks
}

fn messages(dialect: Dialect, body: &Value) -> Vec<Raw> {
    let (list, content) = match dialect {
        Dialect::Gemini => ("contents", "parts"),
        Dialect::OpenAiResponses => ("input", "content"),
        _ => ("messages", "content"),
    };
    let mut blocks = Vec::new();
    for message in body[list].as_array().into_iter().flatten() {
        let role = match message["role"].as_str() {
            Some("system" | "developer") => Role::System,
            Some("assistant" | "model") => Role::Assistant,
            Some("tool") => Role::Tool,
            _ => Role::User,
        };
        match message["type"].as_str() {
            Some("function_call") => block(&mut blocks, Role::Assistant, BlockKind::Call, message),
            Some("function_call_output") => block(&mut blocks, Role::Tool, BlockKind::Result, message),
            Some("reasoning") => block(&mut blocks, Role::Assistant, BlockKind::Text, message),
            _ if role == Role::Tool => block(&mut blocks, role, BlockKind::Result, message),
            _ => {
                let from = blocks.len();
                parts(&mut blocks, role, &message[content]);
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    push(&mut blocks, role, BlockKind::Call, bare(call), mark(call));
                }
                bound(&mut blocks[from..]);
            }
        }
    }
    blocks
}

fn push(blocks: &mut Vec<Raw>, role: Role, kind: BlockKind, text: String, mark: Option<Ttl>) {
    blocks.push(Raw { kind, role, opens: false, ends: false, text, mark });
}

/// Says where a message begins and ends.
fn bound(message: &mut [Raw]) {
    if let Some(first) = message.first_mut() {
        first.opens = true;
    }
    if let Some(last) = message.last_mut() {
        last.ends = true;
    }
}

fn block(blocks: &mut Vec<Raw>, role: Role, kind: BlockKind, value: &Value) {
    let from = blocks.len();
    push(blocks, role, kind, bare(value), mark(value));
    bound(&mut blocks[from..]);
}

/// The parts of a message, or its text.
fn parts(blocks: &mut Vec<Raw>, role: Role, content: &Value) {
    let system = role == Role::System;
    if let Value::String(text) = content {
        push(blocks, role, if system { BlockKind::System } else { BlockKind::Text }, text.clone(), None);
    }
    for part in content.as_array().into_iter().flatten() {
        let has = |names: &[&str]| names.iter().any(|name| part["type"] == *name || part.get(name).is_some());
        let (role, kind) = if system {
            (role, BlockKind::System)
        } else if has(&["tool_result", "functionResponse"]) {
            (Role::Tool, BlockKind::Result)
        } else if has(&["tool_use", "functionCall"]) {
            (role, BlockKind::Call)
        } else if has(&["image", "image_url", "input_image", "inlineData"]) {
            (role, BlockKind::Image)
        } else {
            (role, BlockKind::Text)
        };
        let text = match part["text"].as_str() {
            Some(text) if part["thoughtSignature"].is_null() => text.to_owned(),
            _ => bare(part),
        };
        push(blocks, role, kind, text, mark(part));
    }
}

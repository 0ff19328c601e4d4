//! Anthropic Messages.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Endpoint, known, list, pattern, refuse, text, tool_names};

pub(super) fn validate(body: &Value, endpoint: Endpoint) -> Result<(), String> {
    known(
        body,
        &[
            "max_tokens",
            "messages",
            "metadata",
            "model",
            "output_config",
            "service_tier",
            "stop_sequences",
            "stream",
            "system",
            "temperature",
            "thinking",
            "tool_choice",
            "tools",
            "top_k",
            "top_p",
        ],
    )?;
    if !body["tools"].is_null() {
        let tools = list(body, "tools")?;
        tool_names(tools, "/name")?;
        if tools.iter().any(|tool| tool["input_schema"]["type"] != "object") {
            return refuse("tools.0.custom.input_schema.type: Field required");
        }
    }
    let system = if body["system"].is_null() { &[] } else { list(body, "system")? };
    for block in system {
        words(block, "system")?;
    }
    let messages = list(body, "messages")?;
    order(messages, endpoint)?;
    tool_use(messages)?;
    marks(system, messages)
}

fn words(block: &Value, place: &str) -> Result<(), String> {
    known(block, &["cache_control", "text", "type"])?;
    let words = text(block, "text")?;
    if words.is_empty() {
        return refuse(format!("{place}: text content blocks must be non-empty"));
    }
    if words.trim().is_empty() {
        return refuse(format!("{place}: text content blocks must contain non-whitespace text"));
    }
    Ok(())
}

fn order(messages: &[Value], endpoint: Endpoint) -> Result<(), String> {
    if messages.is_empty() {
        return refuse("messages: at least one message is required");
    }
    for (index, message) in messages.iter().enumerate() {
        let role = text(message, "role")?;
        let before = index.checked_sub(1).map(|before| messages[before]["role"].as_str().unwrap_or(""));
        let after = messages.get(index + 1).map(|after| after["role"].as_str().unwrap_or(""));
        match role {
            "system" if !endpoint.systems => return refuse("role 'system' is not supported on this model"),
            "system" if before != Some("user") || !matches!(after, None | Some("assistant")) => {
                return refuse(format!(
                    "messages.{index}: a system message must follow a user message and be last or followed by an assistant message"
                ));
            }
            "user" | "assistant" | "system" => {}
            _ => return refuse(format!("messages.{index}.role: Input should be 'user' or 'assistant'")),
        }
        if index == 0 && role != "user" {
            return refuse("messages: first message must use the \"user\" role");
        }
        if before == Some(role) {
            return refuse(format!(
                "messages: roles must alternate between \"user\" and \"assistant\", but found multiple \"{role}\" roles in a row"
            ));
        }
        let content = list(message, "content")?;
        if content.is_empty() {
            return refuse(format!("messages.{index}: content must be non-empty"));
        }
        for block in content {
            match (text(block, "type")?, role) {
                ("text", _) => words(block, "messages")?,
                ("image", "user") => {
                    text(&block["source"], "data")?;
                    text(&block["source"], "media_type")?;
                }
                ("tool_use", "assistant") => {}
                ("tool_result", "user") => {
                    known(block, &["cache_control", "content", "is_error", "tool_use_id", "type"])?;
                    if !matches!(block["is_error"], Value::Null | Value::Bool(_)) {
                        return refuse(format!(
                            "messages.{index}.content.0.tool_result.is_error: Input should be a valid boolean"
                        ));
                    }
                }
                ("thinking", "assistant") => {
                    unmarked(block, index)?;
                    text(block, "thinking")?;
                    text(block, "signature")?;
                }
                ("redacted_thinking", "assistant") => {
                    unmarked(block, index)?;
                    text(block, "data")?;
                }
                (other, _) => return refuse(format!("messages.{index}.content: unexpected block '{other}'")),
            }
        }
    }
    Ok(())
}

fn unmarked(block: &Value, index: usize) -> Result<(), String> {
    match block.get("cache_control") {
        Some(_) => refuse(format!("messages.{index}.content: cache_control: Extra inputs are not permitted")),
        None => Ok(()),
    }
}

fn tool_use(messages: &[Value]) -> Result<(), String> {
    let mut all: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let content = list(message, "content")?;
        let mut answered: Vec<&str> = Vec::new();
        for (place, block) in content.iter().enumerate().filter(|(_, block)| block["type"] == "tool_result") {
            let id = text(block, "tool_use_id")?;
            if answered.contains(&id) {
                return refuse(format!(
                    "each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
                ));
            }
            if !open.contains(&id) {
                return refuse(format!(
                    "messages.{index}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                ));
            }
            answered.push(id);
        }
        let first = content.iter().take_while(|block| block["type"] == "tool_result").count();
        let missing: Vec<&str> = open.iter().copied().filter(|id| !answered.contains(id)).collect();
        if !missing.is_empty() || first != answered.len() {
            return refuse(format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
                index.saturating_sub(1),
                missing.join(", ")
            ));
        }
        open = Vec::new();
        for block in content.iter().filter(|block| block["type"] == "tool_use") {
            let id = text(block, "id")?;
            if !pattern(id, 64) {
                return refuse(format!("messages.{index}.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"));
            }
            if !all.insert(id) {
                return refuse("`tool_use` ids must be unique");
            }
            if !pattern(text(block, "name")?, 64) || !block["input"].is_object() {
                return refuse(format!("messages.{index}.content.0.tool_use.input: Input should be a valid dictionary"));
            }
            open.push(id);
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        refuse(format!(
            "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
            messages.len() - 1,
            open.join(", ")
        ))
    }
}

fn marks(system: &[Value], messages: &[Value]) -> Result<(), String> {
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let marks: Vec<&Value> =
        system.iter().chain(blocks).map(|block| &block["cache_control"]).filter(|mark| !mark.is_null()).collect();
    if marks.len() > 4 {
        return refuse(format!("A maximum of 4 blocks with cache_control may be provided. Found {}.", marks.len()));
    }
    let mut short = false;
    for mark in marks {
        known(mark, &["ttl", "type"])?;
        match mark["ttl"].as_str().unwrap_or("5m") {
            "5m" => short = true,
            "1h" if short => {
                return refuse(
                    "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
                );
            }
            "1h" => {}
            other => return refuse(format!("cache_control.ttl: Input should be '5m' or '1h', got '{other}'")),
        }
    }
    Ok(())
}

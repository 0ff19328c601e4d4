//! Chat Completions.

use serde_json::Value;

use super::{Endpoint, known, list, object_schema, pattern, refuse, text, tool_names};

/// Whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    OpenAi,
    Local,
}

/// Fields that all servers know.
const FIELDS: [&str; 23] = [
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_tokens",
    "messages",
    "metadata",
    "model",
    "n",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "seed",
    "service_tier",
    "stop",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
];

pub(super) fn validate(body: &Value, endpoint: Endpoint, server: Server) -> Result<(), String> {
    let own: &[&str] = match server {
        Server::OpenAi => &["max_completion_tokens", "prompt_cache_key"],
        Server::Local => &["cache_prompt"],
    };
    known(body, &[&FIELDS[..], own].concat())?;
    tools(body)?;
    let messages = list(body, "messages")?;
    if messages.is_empty() {
        return refuse(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        );
    }
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = text(message, "role")?;
        if role == "tool" {
            let id = text(message, "tool_call_id")?;
            let Some(at) = open.iter().position(|open| *open == id) else {
                return refuse("messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.");
            };
            open.remove(at);
            text(message, "content")?;
            continue;
        }
        if !open.is_empty() {
            return refuse(format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
                open.join(", ")
            ));
        }
        match role {
            "system" if server == Server::Local && index > 0 => {
                return refuse("System message must be at the beginning.");
            }
            "system" | "user" => content(message, endpoint)?,
            "assistant" => {
                if endpoint.thoughts && !message["reasoning_content"].is_string() {
                    return refuse("The `reasoning_content` in the thinking mode must be passed back to the API.");
                }
                open = calls(message)?;
            }
            _ => return refuse(format!("Invalid value: '{role}'.")),
        }
        let repeats = index > 0 && messages[index - 1]["role"] == "user" && role == "user";
        let texts = |message: &Value| message["content"].is_string();
        if server == Server::Local && repeats && texts(message) && texts(&messages[index - 1]) {
            return refuse("Conversation roles must alternate user/assistant/user/assistant/...");
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        refuse(format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
            open.join(", ")
        ))
    }
}

fn content(message: &Value, endpoint: Endpoint) -> Result<(), String> {
    let parts = match &message["content"] {
        Value::String(_) => return Ok(()),
        Value::Array(parts) if !parts.is_empty() => parts,
        other => return refuse(format!("Invalid value for 'content': expected a string or parts, got {other}.")),
    };
    for part in parts {
        match text(part, "type")? {
            "text" => {
                known(part, &["prompt_cache_breakpoint", "text", "type"])?;
                text(part, "text")?;
            }
            "image_url" if message["role"] == "user" => {
                if !text(&part["image_url"], "url")?.starts_with("data:image/") {
                    return refuse("Invalid image URL.");
                }
            }
            other => return refuse(format!("Invalid value: '{other}'.")),
        }
        if !part["prompt_cache_breakpoint"].is_null() && !endpoint.breakpoints {
            return refuse("prompt_cache_breakpoint is not supported on this model");
        }
    }
    Ok(())
}

fn calls(message: &Value) -> Result<Vec<&str>, String> {
    let Some(calls) = message.get("tool_calls") else {
        text(message, "content")?;
        return Ok(Vec::new());
    };
    let mut ids = Vec::new();
    for call in calls.as_array().filter(|calls| !calls.is_empty()).ok_or("Invalid 'tool_calls': empty array.")? {
        let id = text(call, "id")?;
        if !pattern(id, 40) {
            return refuse("Invalid 'tool_calls[0].id': string too long. Expected a string with maximum length 40.");
        }
        if ids.contains(&id) {
            return refuse(format!("Duplicate value for 'tool_call_id' of '{id}'."));
        }
        ids.push(id);
        if call["type"] != "function" || !pattern(text(&call["function"], "name")?, 64) {
            return refuse("Invalid 'tool_calls[0].function.name'.");
        }
        text(&call["function"], "arguments")?;
    }
    Ok(ids)
}

fn tools(body: &Value) -> Result<(), String> {
    if body["tools"].is_null() {
        return if body["tool_choice"].is_null() {
            Ok(())
        } else {
            refuse("Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.")
        };
    }
    let tools = list(body, "tools")?;
    let names = tool_names(tools, "/function/name")?;
    for tool in tools {
        object_schema(&tool["function"]["parameters"])?;
    }
    match &body["tool_choice"] {
        Value::Null => Ok(()),
        Value::String(word) if word == "none" => Ok(()),
        choice if choice["type"] == "allowed_tools" => {
            let allowed = list(&choice["allowed_tools"], "tools")?;
            let good = !allowed.is_empty()
                && allowed
                    .iter()
                    .all(|tool| tool["type"] == "function" && names.contains(&tool["function"]["name"].as_str().unwrap_or("")));
            if good && choice["allowed_tools"]["mode"] == "auto" { Ok(()) } else { refuse("Invalid value for 'tool_choice'.") }
        }
        other => refuse(format!("Invalid value for 'tool_choice': {other}")),
    }
}

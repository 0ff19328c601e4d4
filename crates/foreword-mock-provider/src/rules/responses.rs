//! OpenAI Responses.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Endpoint, known, list, object_schema, pattern, refuse, text, tool_names};

pub(super) fn validate(body: &Value, endpoint: Endpoint) -> Result<(), String> {
    known(
        body,
        &[
            "input",
            "include",
            "instructions",
            "max_output_tokens",
            "metadata",
            "model",
            "parallel_tool_calls",
            "prompt_cache_key",
            "prompt_cache_options",
            "reasoning",
            "service_tier",
            "store",
            "stream",
            "temperature",
            "text",
            "tool_choice",
            "tools",
            "top_p",
            "user",
        ],
    )?;
    if !body["include"].is_null() && !endpoint.reasoning {
        return refuse("Encrypted content is not supported with this model.");
    }
    if !body["prompt_cache_options"].is_null() {
        known(&body["prompt_cache_options"], &["comparison_response_id"])?;
        text(&body["prompt_cache_options"], "comparison_response_id")?;
        if !endpoint.diagnostics {
            return refuse("prompt_cache_options is not supported on this model");
        }
    }
    tools(body)?;
    let mut open: Vec<&str> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    // A reasoning item that waits for what it led to.
    let mut thought: Option<&str> = None;
    for item in list(body, "input")? {
        let kind = text(item, "type")?;
        if let (Some(id), "reasoning" | "function_call_output") = (thought, kind) {
            return refuse(alone(id));
        }
        thought = None;
        match kind {
            "reasoning" => {
                thought = Some(text(item, "id")?);
                list(item, "summary")?;
                if body["store"] == false && !item["encrypted_content"].is_string() {
                    return refuse(format!(
                        "Item with id '{}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.",
                        thought.unwrap_or_default()
                    ));
                }
            }
            "message" => {
                if let Some(id) = open.first() {
                    return refuse(format!("No tool output found for function call {id}."));
                }
                message(item, endpoint)?;
            }
            "function_call" => {
                let id = text(item, "call_id")?;
                if !pattern(id, 64) || !seen.insert(id) || !pattern(text(item, "name")?, 64) {
                    return refuse(format!("Invalid function call {id}."));
                }
                text(item, "arguments")?;
                open.push(id);
            }
            "function_call_output" => {
                let id = text(item, "call_id")?;
                let Some(at) = open.iter().position(|open| *open == id) else {
                    return refuse(format!("No tool call found for function call output with call_id {id}."));
                };
                open.remove(at);
                text(item, "output")?;
            }
            other => return refuse(format!("Invalid value: '{other}'.")),
        }
    }
    match (open.first(), thought) {
        (Some(id), _) => refuse(format!("No tool output found for function call {id}.")),
        (None, Some(id)) => refuse(alone(id)),
        (None, None) => Ok(()),
    }
}

fn alone(id: &str) -> String {
    format!("Item '{id}' of type 'reasoning' was provided without its required following item.")
}

fn message(item: &Value, endpoint: Endpoint) -> Result<(), String> {
    let role = text(item, "role")?;
    for part in list(item, "content")? {
        let good = match (role, text(part, "type")?) {
            ("developer" | "user", "input_text") | ("assistant", "output_text") => part["text"].is_string(),
            ("user", "input_image") => part["image_url"].is_string() && part["detail"] == "auto",
            _ => false,
        };
        if !good {
            return refuse(format!("Invalid value: '{}'. Supported values are: 'output_text' and 'refusal'.", part["type"]));
        }
        if !part["prompt_cache_breakpoint"].is_null() && (!endpoint.breakpoints || role == "assistant") {
            return refuse("prompt_cache_breakpoint is not supported on this model");
        }
    }
    Ok(())
}

fn tools(body: &Value) -> Result<(), String> {
    if body["tools"].is_null() {
        return Ok(());
    }
    let tools = list(body, "tools")?;
    let names = tool_names(tools, "/name")?;
    for tool in tools {
        object_schema(&tool["parameters"])?;
    }
    match &body["tool_choice"] {
        Value::Null => Ok(()),
        Value::String(word) if word == "none" => Ok(()),
        choice => {
            let allowed = list(choice, "tools")?;
            let good = !allowed.is_empty() && allowed.iter().all(|tool| names.contains(&tool["name"].as_str().unwrap_or("")));
            if good && choice["type"] == "allowed_tools" { Ok(()) } else { refuse("Invalid value for 'tool_choice'.") }
        }
    }
}

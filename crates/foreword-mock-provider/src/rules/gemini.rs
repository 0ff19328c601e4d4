//! Gemini generateContent.

use serde_json::Value;

use super::{Endpoint, known, list, refuse, text, tool_names};

const POSITION: &str =
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn.";
const COUNT: &str = "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.";

pub(super) fn validate(body: &Value, endpoint: Endpoint) -> Result<(), String> {
    known(body, &["cachedContent", "contents", "generationConfig", "systemInstruction", "toolConfig", "tools"])?;
    let own = !body["systemInstruction"].is_null() || !body["tools"].is_null();
    if own && !body["cachedContent"].is_null() {
        return refuse(
            "CachedContent can not be used with GenerateContent request setting system_instruction, tools or tool_config.",
        );
    }
    if let Some(tools) = body.pointer("/tools/0/functionDeclarations").and_then(Value::as_array) {
        for name in tool_names(tools, "/name")? {
            if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                return refuse("Invalid function name. Must start with a letter or an underscore.");
            }
        }
    }
    let contents = list(body, "contents")?;
    if contents.is_empty() {
        return refuse("contents is not specified");
    }
    // Names of the calls of the turn before.
    let mut open: Vec<&str> = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        let role = text(content, "role")?;
        if role != "user" && role != "model" {
            return refuse("Please use a valid role: user, model.");
        }
        if index == 0 && role != "user" {
            return refuse(POSITION);
        }
        let parts = list(content, "parts")?;
        if parts.is_empty() {
            return refuse(format!("contents[{index}].parts must not be empty"));
        }
        let names = |field: &str| -> Vec<&str> {
            let found = parts.iter().filter_map(|part| part.get(field));
            found.map(|call| call["name"].as_str().unwrap_or("")).collect()
        };
        let responses = names("functionResponse");
        if responses != open || (!responses.is_empty() && (role != "user" || responses.len() != parts.len())) {
            return refuse(COUNT);
        }
        open = names("functionCall");
        if !open.is_empty() {
            if role != "model" || contents[index - 1]["role"] != "user" {
                return refuse(POSITION);
            }
            let first = parts.iter().find(|part| part.get("functionCall").is_some());
            if endpoint.signatures && first.is_some_and(|call| call["thoughtSignature"].is_null()) {
                return refuse("Function call is missing a thought_signature in functionCall parts.");
            }
        }
        for part in parts {
            if part.get("text").is_some_and(|text| text == "") && part["thoughtSignature"].is_null() {
                return refuse(format!("Unable to submit request because it must have a text parameter: contents[{index}]"));
            }
            if part.get("functionCall").is_some_and(|call| !call["args"].is_object()) {
                return refuse("Invalid value at 'function_call.args' (Struct)");
            }
            if part.get("functionResponse").is_some_and(|answer| !answer["response"].is_object()) {
                return refuse("Invalid value at 'function_response.response' (Struct)");
            }
        }
    }
    if open.is_empty() { Ok(()) } else { refuse(COUNT) }
}

//! Chat Completions.

use std::fmt::Arguments;

use serde_json::Value;

use super::ask::{Asked, ClientCall, ClientMessage, Fields, NotUnderstood, arguments, required, text};

pub(super) fn read(body: Value) -> Result<Asked, NotUnderstood> {
    let mut fields = Fields::of(body)?;
    let mut asked = Asked { model: fields.model()?, stream: fields.flag("stream")?, ..Asked::default() };
    let options = fields.take("stream_options").unwrap_or_default();
    asked.usage = options.get("include_usage").and_then(Value::as_bool).unwrap_or(false);
    asked.reply_tokens = match fields.number("max_completion_tokens")? {
        Some(tokens) => Some(tokens),
        None => fields.number("max_tokens")?,
    };
    if fields.number("n")?.is_some_and(|count| count > 1) {
        return Err(NotUnderstood::new("n", "one answer at a time"));
    }
    fields.refuse(&["audio", "function_call", "functions", "logprobs", "top_logprobs", "web_search_options"])?;
    if fields.0.get("modalities").and_then(Value::as_array).is_some_and(|kinds| kinds.iter().any(|kind| kind != "text")) {
        return Err(NotUnderstood::new("modalities", "an answer here is text"));
    }
    let mut system = Vec::new();
    for (at, message) in fields.list("messages")?.iter().enumerate() {
        let place = format_args!("messages[{at}]");
        let content = text(format_args!("{place}.content"), message.get("content"))?;
        match required(place, message, "role")? {
            "system" | "developer" => {
                asked.laid_out |= !asked.said.is_empty();
                system.push(content);
            }
            "user" => asked.said.push(ClientMessage::User(content)),
            "assistant" if message.get("function_call").is_some_and(|call| !call.is_null()) => {
                return Err(NotUnderstood::new(format!("{place}.function_call"), "calls are understood in `tool_calls` only"));
            }
            "assistant" => asked.said.push(ClientMessage::Assistant { text: content, calls: calls(place, message)? }),
            "tool" => {
                let id = required(place, message, "tool_call_id")?.to_owned();
                asked.said.push(ClientMessage::Result { id, output: content, failed: false });
            }
            other => return Err(NotUnderstood::new(format!("{place}.role"), format!("{other:?} is no role"))),
        }
    }
    asked.system = system.join("\n\n");
    for (at, listed) in fields.list("tools")?.iter().enumerate() {
        let place = format_args!("tools[{at}]");
        let Some(function) = listed.get("function").filter(|_| listed.get("type").is_none_or(|kind| kind == "function")) else {
            return Err(NotUnderstood::new(place.to_string(), "only tools of type \"function\" are understood here"));
        };
        asked.add_tool(format_args!("{place}.function"), function, "parameters")?;
    }
    asked.extra = fields.0;
    Ok(asked)
}

fn calls(place: Arguments<'_>, message: &Value) -> Result<Vec<ClientCall>, NotUnderstood> {
    let listed = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().enumerate();
    let call = |(at, call): (usize, &Value)| {
        let place = format_args!("{place}.tool_calls[{at}]");
        let function = call.get("function").unwrap_or(&Value::Null);
        Ok(ClientCall {
            id: required(place, call, "id")?.to_owned(),
            name: required(format_args!("{place}.function"), function, "name")?.to_owned(),
            arguments: arguments(function.get("arguments").and_then(Value::as_str).unwrap_or_default()),
        })
    };
    listed.map(call).collect()
}

//! OpenAI's Responses.

use serde_json::Value;

use super::ask::{Asked, ClientCall, ClientMessage, Fields, NotUnderstood, arguments, required, text};

pub(super) fn read(body: Value) -> Result<Asked, NotUnderstood> {
    let mut fields = Fields::of(body)?;
    let mut asked = Asked { model: fields.model()?, stream: fields.flag("stream")?, usage: true, ..Asked::default() };
    asked.reply_tokens = fields.number("max_output_tokens")?;
    fields.refuse(&["background", "conversation", "prompt", "top_logprobs"])?;
    asked.previous = fields.text("previous_response_id")?;
    let mut system: Vec<String> = fields.text("instructions")?.into_iter().collect();
    let input = match fields.take("input") {
        None => Vec::new(),
        Some(Value::String(words)) => {
            asked.said.push(ClientMessage::User(words));
            Vec::new()
        }
        Some(Value::Array(items)) => items,
        Some(_) => return Err(NotUnderstood::new("input", "expected a string or a list of items")),
    };
    for (at, item) in input.iter().enumerate() {
        let place = format_args!("input[{at}]");
        match item.get("type").and_then(Value::as_str).unwrap_or("message") {
            "message" => {
                let content = text(format_args!("{place}.content"), item.get("content"))?;
                match required(place, item, "role")? {
                    "system" | "developer" => {
                        asked.laid_out |= !asked.said.is_empty();
                        system.push(content);
                    }
                    "user" => asked.said.push(ClientMessage::User(content)),
                    "assistant" => say(&mut asked.said, content),
                    other => return Err(NotUnderstood::new(format!("{place}.role"), format!("{other:?} is no role"))),
                }
            }
            "function_call" => {
                let call = ClientCall {
                    id: required(place, item, "call_id")?.to_owned(),
                    name: required(place, item, "name")?.to_owned(),
                    arguments: arguments(item.get("arguments").and_then(Value::as_str).unwrap_or_default()),
                };
                call_made(&mut asked.said, call);
            }
            "function_call_output" => asked.said.push(ClientMessage::Result {
                id: required(place, item, "call_id")?.to_owned(),
                output: text(format_args!("{place}.output"), item.get("output"))?,
                failed: false,
            }),
            // Thoughts belong to the answer they came with; the session has its own.
            "reasoning" => {}
            other => {
                return Err(NotUnderstood::new(place.to_string(), format!("an item of type {other:?} is not understood here")));
            }
        }
    }
    asked.system = system.join("\n\n");
    for (at, listed) in fields.list("tools")?.iter().enumerate() {
        let place = format_args!("tools[{at}]");
        if listed.get("type").is_none_or(|kind| kind != "function") {
            return Err(NotUnderstood::new(place.to_string(), "only tools of type \"function\" are understood here"));
        }
        asked.add_tool(place, listed, "parameters")?;
    }
    asked.extra = fields.0;
    Ok(asked)
}

/// Words and calls of one answer are items of their own here.
fn say(said: &mut Vec<ClientMessage>, words: String) {
    match said.last_mut() {
        Some(ClientMessage::Assistant { text, .. }) => text.push_str(&words),
        _ => said.push(ClientMessage::Assistant { text: words, calls: Vec::new() }),
    }
}

fn call_made(said: &mut Vec<ClientMessage>, call: ClientCall) {
    match said.last_mut() {
        Some(ClientMessage::Assistant { calls, .. }) => calls.push(call),
        _ => said.push(ClientMessage::Assistant { text: String::new(), calls: vec![call] }),
    }
}

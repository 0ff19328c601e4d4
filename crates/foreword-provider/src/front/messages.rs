//! Anthropic's Messages.

use serde_json::{Map, Value};

use super::ask::{Asked, Fields, NotUnderstood, Said, SaidCall, required, text, tool};

pub(super) fn read(body: Value) -> Result<Asked, NotUnderstood> {
    let mut fields = Fields::of(body)?;
    let mut asked = Asked { model: fields.model()?, stream: fields.flag("stream")?, usage: true, ..Asked::default() };
    asked.reply_tokens = fields.number("max_tokens")?;
    fields.refuse(&["container", "mcp_servers"])?;
    asked.marked = is_marked(&fields.0);
    asked.system = text("system", fields.take("system").as_ref())?;
    for (at, message) in fields.list("messages")?.iter().enumerate() {
        let place = format!("messages[{at}]");
        let content = message.get("content");
        match (required(&place, message, "role")?, content) {
            ("user", Some(Value::Array(blocks))) => user(&mut asked.said, &place, blocks)?,
            ("user", content) => asked.said.push(Said::User(text(&format!("{place}.content"), content)?)),
            ("assistant", Some(Value::Array(blocks))) => assistant(&mut asked.said, &place, blocks)?,
            ("assistant", content) => {
                let text = text(&format!("{place}.content"), content)?;
                asked.said.push(Said::Assistant { text, calls: Vec::new() });
            }
            (other, _) => return Err(NotUnderstood::new(format!("{place}.role"), format!("{other:?} is no role"))),
        }
    }
    for (at, listed) in fields.list("tools")?.iter().enumerate() {
        let place = format!("tools[{at}]");
        if listed.get("type").is_some_and(|kind| kind != "custom") {
            return Err(NotUnderstood::new(place, "only tools that the client runs are understood here"));
        }
        asked.tools.push(tool(&place, listed.get("name"), listed.get("description"), listed.get("input_schema"))?);
    }
    asked.extra = fields.0;
    Ok(asked)
}

/// Whether a cache mark stands anywhere that marks can stand.
fn is_marked(body: &Map<String, Value>) -> bool {
    fn any(blocks: Option<&Value>) -> bool {
        let mut blocks = blocks.and_then(Value::as_array).into_iter().flatten();
        blocks.any(|block| {
            set(block.get("cache_control"))
                || (block.get("type").is_some_and(|kind| kind == "tool_result") && any(block.get("content")))
        })
    }
    fn set(mark: Option<&Value>) -> bool {
        mark.is_some_and(|mark| !mark.is_null())
    }
    let mut messages = body.get("messages").and_then(Value::as_array).into_iter().flatten();
    set(body.get("cache_control"))
        || any(body.get("system"))
        || any(body.get("tools"))
        || messages.any(|message| any(message.get("content")))
}

/// Results come first, each a message of its own; what is said beside them is one more.
fn user(said: &mut Vec<Said>, place: &str, blocks: &[Value]) -> Result<(), NotUnderstood> {
    let mut texts = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        let place = format!("{place}.content[{at}]");
        match block.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => texts.push(required(&place, block, "text")?),
            "tool_result" => said.push(Said::Result {
                id: required(&place, block, "tool_use_id")?.to_owned(),
                output: text(&format!("{place}.content"), block.get("content"))?,
                failed: block.get("is_error").and_then(Value::as_bool).unwrap_or(false),
            }),
            other => return Err(not_text(place, other)),
        }
    }
    if !texts.is_empty() {
        said.push(Said::User(texts.join("\n\n")));
    }
    Ok(())
}

fn assistant(said: &mut Vec<Said>, place: &str, blocks: &[Value]) -> Result<(), NotUnderstood> {
    let (mut texts, mut calls) = (Vec::new(), Vec::new());
    for (at, block) in blocks.iter().enumerate() {
        let place = format!("{place}.content[{at}]");
        match block.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => texts.push(required(&place, block, "text")?),
            "tool_use" => calls.push(SaidCall {
                id: required(&place, block, "id")?.to_owned(),
                name: required(&place, block, "name")?.to_owned(),
                arguments: block.get("input").cloned().unwrap_or_else(|| Value::Object(Map::new())),
            }),
            // Thoughts belong to the answer they came with; the session has its own.
            "thinking" | "redacted_thinking" => {}
            other => return Err(not_text(place, other)),
        }
    }
    said.push(Said::Assistant { text: texts.join("\n\n"), calls });
    Ok(())
}

fn not_text(place: String, kind: &str) -> NotUnderstood {
    NotUnderstood::new(place, format!("a block of type {kind:?} is not understood here, only text and tool use"))
}

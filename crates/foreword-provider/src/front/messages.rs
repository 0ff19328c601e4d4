//! Anthropic's Messages.

use std::fmt::Arguments;

use serde_json::{Map, Value};

use super::ask::{Asked, ClientCall, ClientMessage, Fields, NotUnderstood, required, text};
use crate::stream::{ClientMark, Marked, Ttl};

pub(super) fn read(body: Value) -> Result<Asked, NotUnderstood> {
    let mut fields = Fields::of(body)?;
    let mut asked = Asked { model: fields.model()?, stream: fields.flag("stream")?, usage: true, ..Asked::default() };
    asked.reply_tokens = fields.number("max_tokens")?;
    fields.refuse(&["container", "mcp_servers"])?;
    let mut marks = Marks::default();
    // Set on the whole body, it stands behind the last message.
    let whole = fields.take("cache_control").as_ref().and_then(ttl);
    let system = fields.take("system");
    marks.within(Marked::System, system.as_ref());
    asked.system = text(format_args!("system"), system.as_ref())?;
    for (at, message) in fields.list("messages")?.iter().enumerate() {
        let place = format_args!("messages[{at}]");
        let content = message.get("content");
        match (required(place, message, "role")?, content) {
            ("user", Some(Value::Array(blocks))) => user(&mut asked.said, place, blocks)?,
            ("user", content) => asked.said.push(ClientMessage::User(text(format_args!("{place}.content"), content)?)),
            ("assistant", Some(Value::Array(blocks))) => assistant(&mut asked.said, place, blocks)?,
            ("assistant", content) => {
                let text = text(format_args!("{place}.content"), content)?;
                asked.said.push(ClientMessage::Assistant { text, calls: Vec::new() });
            }
            (other, _) => return Err(NotUnderstood::new(format!("{place}.role"), format!("{other:?} is no role"))),
        }
        marks.message(asked.said.len(), content);
    }
    if let Some(ttl) = whole {
        marks.set.push((asked.said.len(), ClientMark { at: Marked::Message(0), ttl }));
    }
    let tools = fields.list("tools")?;
    marks.within(Marked::Tools, Some(&Value::Array(tools.clone())));
    (asked.marks, asked.laid_out) = marks.of(asked.said.len());
    for (at, listed) in tools.iter().enumerate() {
        let place = format_args!("tools[{at}]");
        if listed.get("type").is_some_and(|kind| kind != "custom") {
            return Err(NotUnderstood::new(place.to_string(), "only tools that the client runs are understood here"));
        }
        asked.add_tool(place, listed, "input_schema")?;
    }
    asked.extra = fields.0;
    Ok(asked)
}

/// The cache marks of a body.
#[derive(Default)]
struct Marks {
    /// Each with how many messages stand up to there, where it is a message's.
    set: Vec<(usize, ClientMark)>,
    /// Whether one stands where a session has no end of its own.
    elsewhere: bool,
}

impl Marks {
    /// Those of a list that a session keeps as one: only its end is an end there too.
    fn within(&mut self, at: Marked, list: Option<&Value>) {
        let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (index, block) in list.iter().enumerate() {
            match block.get("cache_control").and_then(ttl) {
                Some(ttl) if index + 1 == list.len() => self.set.push((0, ClientMark { at, ttl })),
                Some(_) => self.elsewhere = true,
                None => {}
            }
        }
    }

    /// Those of a message, which is `said` messages up to its end: each result is one of its own, the rest is one behind them.
    fn message(&mut self, said: usize, content: Option<&Value>) {
        let blocks = content.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let is_result = |block: &Value| block.get("type").is_some_and(|kind| kind == "tool_result");
        let words = usize::from(blocks.iter().any(|block| !is_result(block)));
        let mut results = blocks.iter().filter(|block| is_result(block)).count();
        for (index, block) in blocks.iter().enumerate() {
            let mark = block.get("cache_control").and_then(ttl);
            let inner = block.get("content").and_then(Value::as_array).into_iter().flatten();
            self.elsewhere |= is_result(block) && inner.into_iter().any(|part| part.get("cache_control").and_then(ttl).is_some());
            let up_to = if is_result(block) {
                results -= 1;
                said.checked_sub(words + results)
            } else {
                blocks[index + 1..].iter().all(is_result).then_some(said)
            };
            match (mark, up_to) {
                (None, _) => {}
                (Some(ttl), Some(up_to)) => self.set.push((up_to, ClientMark { at: Marked::Message(0), ttl })),
                (Some(_), None) => self.elsewhere = true,
            }
        }
    }

    /// All of them where so many messages were sent, and whether there are others.
    fn of(self, said: usize) -> (Vec<ClientMark>, bool) {
        let placed = self.set.into_iter().map(|(up_to, mark)| match mark.at {
            Marked::Message(_) => ClientMark { at: Marked::Message(said.saturating_sub(up_to)), ..mark },
            _ => mark,
        });
        (placed.collect(), self.elsewhere)
    }
}

/// For how long a mark is set; none where it is none.
fn ttl(mark: &Value) -> Option<Ttl> {
    let long = mark.get("ttl").is_some_and(|ttl| ttl == "1h");
    (!mark.is_null()).then_some(if long { Ttl::Long } else { Ttl::Short })
}

/// Results come first, each a message of its own; what is said beside them is one more.
fn user(said: &mut Vec<ClientMessage>, place: Arguments<'_>, blocks: &[Value]) -> Result<(), NotUnderstood> {
    let mut texts = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        let place = format_args!("{place}.content[{at}]");
        match block.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => texts.push(required(place, block, "text")?),
            "tool_result" => said.push(ClientMessage::Result {
                id: required(place, block, "tool_use_id")?.to_owned(),
                output: text(format_args!("{place}.content"), block.get("content"))?,
                failed: block.get("is_error").and_then(Value::as_bool).unwrap_or(false),
            }),
            other => return Err(not_text(place, other)),
        }
    }
    if !texts.is_empty() {
        said.push(ClientMessage::User(texts.join("\n\n")));
    }
    Ok(())
}

fn assistant(said: &mut Vec<ClientMessage>, place: Arguments<'_>, blocks: &[Value]) -> Result<(), NotUnderstood> {
    let (mut texts, mut calls) = (Vec::new(), Vec::new());
    for (at, block) in blocks.iter().enumerate() {
        let place = format_args!("{place}.content[{at}]");
        match block.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => texts.push(required(place, block, "text")?),
            "tool_use" => calls.push(ClientCall {
                id: required(place, block, "id")?.to_owned(),
                name: required(place, block, "name")?.to_owned(),
                arguments: block.get("input").cloned().unwrap_or_else(|| Value::Object(Map::new())),
            }),
            // Thoughts belong to the answer they came with; the session has its own.
            "thinking" | "redacted_thinking" => {}
            other => return Err(not_text(place, other)),
        }
    }
    said.push(ClientMessage::Assistant { text: texts.join("\n\n"), calls });
    Ok(())
}

fn not_text(place: Arguments<'_>, kind: &str) -> NotUnderstood {
    NotUnderstood::new(place.to_string(), format!("a block of type {kind:?} is not understood here, only text and tool use"))
}

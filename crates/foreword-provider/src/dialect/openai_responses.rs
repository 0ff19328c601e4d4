//! OpenAI Responses: a flat list of items. The system goes in as a developer message, since `instructions` cannot carry a
//! breakpoint.

use std::sync::Arc;

use foreword_core::json;
use foreword_core::message::{Message, Role};

use super::Dialect;
use super::names::{wire_id, wire_name};
use super::openai_chat::data_url;
use super::parts::{Part, What};
use super::system::{Frame, Split};
use super::wire::{Open, Position, Wire};
use crate::stream::Path;

/// The system message.
pub(crate) const SYSTEM: Frame = Frame {
    before: r#"{"content":["#,
    open: r#"{"text":""#,
    close: r#"","type":"input_text"}"#,
    after: r#"],"role":"developer","type":"message"}"#,
    split: Split::Segments,
    path: "input[0].content[#].text",
};

pub(crate) fn message(wire: &mut Wire, message: &Arc<Message>, parts: &[Part<'_>]) {
    let is_spoken = |part: &Part<'_>| matches!(part.what, What::Text | What::Filler(_) | What::Image(..));
    let mut index = 0;
    while let Some(part) = parts.get(index) {
        let spoken = parts[index..].iter().take_while(|part| is_spoken(part)).count();
        if spoken > 0 {
            spoken_item(wire, message, &parts[index..index + spoken], index + spoken == parts.len());
            index += spoken;
            continue;
        }
        let start = item(wire);
        let form = if let What::Opaque(json) | What::Fields(json) = part.what {
            json::write(&mut wire.bytes, json);
            "input[#]"
        } else if let What::Call(call, _) = part.what {
            wire.raw(r#"{"arguments":"#);
            json::write_str(&mut wire.bytes, &json::to_string(&call.arguments));
            wire.raw(r#","call_id":"#);
            json::write_str(&mut wire.bytes, &wire_id(Dialect::OpenAiResponses, &call.id));
            wire.raw(r#","name":"#);
            json::write_str(&mut wire.bytes, &wire_name(Dialect::OpenAiResponses, &call.name));
            wire.raw(r#","type":"function_call"}"#);
            "input[#]"
        } else {
            let id = message.answers.as_deref().unwrap_or_default();
            wire.raw(r#"{"call_id":"#);
            json::write_str(&mut wire.bytes, &wire_id(Dialect::OpenAiResponses, id));
            wire.raw(r#","output":""#);
            part.escape(&mut wire.bytes, message);
            wire.raw(r#"","type":"function_call_output"}"#);
            "input[#].output"
        };
        let at =
            Position { role: message.role, path: Path::new(form, wire.place(), 0), opens: true, ends: index + 1 == parts.len() };
        wire.part(message, part, at, start);
        index += 1;
    }
}

fn item(wire: &mut Wire) -> usize {
    wire.next_message(Open::Closed);
    wire.bytes.len()
}

fn spoken_item(wire: &mut Wire, message: &Arc<Message>, parts: &[Part<'_>], ends: bool) {
    let (role, text_type) = match message.role {
        Role::System => ("developer", "input_text"),
        Role::Assistant => ("assistant", "output_text"),
        Role::User | Role::Tool => ("user", "input_text"),
    };
    item(wire);
    wire.raw(r#"{"content":["#);
    for (index, part) in parts.iter().enumerate() {
        let start = wire.next_part();
        let form = if let What::Image(image, _) = part.what {
            wire.raw(r#"{"detail":"auto","image_url":"#);
            data_url(&mut wire.bytes, &image.media_type, &image.data);
            wire.raw(r#","type":"input_image"}"#);
            "input[#].content[#].image_url"
        } else {
            wire.raw(r#"{"text":""#);
            part.escape(&mut wire.bytes, message);
            wire.raw(r#"","type":""#);
            wire.raw(text_type);
            wire.raw(r#""}"#);
            "input[#].content[#].text"
        };
        let at = Position {
            role: message.role,
            path: Path::new(form, wire.place(), index),
            opens: index == 0,
            ends: ends && index + 1 == parts.len(),
        };
        wire.part(message, part, at, start);
    }
    wire.raw(r#"],"role":""#);
    wire.raw(role);
    wire.raw(r#"","type":"message"}"#);
}

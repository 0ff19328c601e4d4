//! Chat Completions, OpenAI's own and the form local servers take.

use std::sync::Arc;

use foreword_core::json;
use foreword_core::message::{Message, Role};

use super::Dialect;
use super::names::{wire_id, wire_name};
use super::parts::{Part, What};
use super::system::{Frame, Split};
use super::wire::{Open, Position, Wire};
use crate::stream::Path;

/// The system message in one string.
pub(crate) const SYSTEM: Frame = Frame {
    before: r#"{"content":""#,
    open: "",
    close: "",
    after: r#"","role":"system"}"#,
    split: Split::Whole,
    path: "messages[0].content",
};

/// The system message in parts that can carry a breakpoint.
pub(crate) const SYSTEM_PARTS: Frame = Frame {
    before: r#"{"content":["#,
    open: r#"{"text":""#,
    close: r#"","type":"text"}"#,
    after: r#"],"role":"system"}"#,
    split: Split::Segments,
    path: "messages[0].content[#].text",
};

const JOIN: &str = "\n\n";

/// Whose Chat Completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// OpenAI's.
    OpenAi,
    /// A local server's: chat templates want the system first, and users and models in turn.
    Local,
}

/// What closes the open message.
pub(crate) fn close(open: Open) -> &'static str {
    match open {
        Open::User => r#"","role":"user"}"#,
        _ => "",
    }
}

/// Appends a message; `thoughtful` where the model wants its thoughts back.
pub(crate) fn message(wire: &mut Wire, flavour: Flavour, message: &Arc<Message>, parts: &[Part<'_>], thoughtful: bool) {
    let role = match (flavour, message.role) {
        (Flavour::Local, Role::System) => Role::User,
        (_, role) => role,
    };
    if let ([text], Flavour::Local, Role::User) = (parts, flavour, role)
        && matches!(text.what, What::Text)
    {
        user_text(wire, message, text);
        return;
    }
    wire.raw(close(wire.now.open));
    wire.next_message(Open::Closed);
    wire.raw(r#"{"content":"#);
    let pictured = parts.iter().any(|part| matches!(part.what, What::Image(..)));
    if pictured {
        content_parts(wire, role, message, parts);
    } else {
        content_text(wire, role, message, parts);
    }
    thoughts(wire, message, parts, thoughtful);
    wire.raw(r#","role":""#);
    wire.raw(role.as_str());
    wire.raw("\"");
    if let Some(id) = &message.answers {
        wire.raw(r#","tool_call_id":"#);
        json::write_str(&mut wire.bytes, &wire_id(Dialect::OpenAiChat, id));
    }
    tool_calls(wire, message, parts);
    wire.raw("}");
}

/// Local servers get consecutive user texts as one message, which stays open until somebody else speaks.
fn user_text(wire: &mut Wire, message: &Arc<Message>, text: &Part<'_>) {
    let opens = wire.now.open != Open::User;
    if opens {
        wire.next_message(Open::User);
        wire.raw(r#"{"content":""#);
    }
    let at = Position { role: Role::User, path: Path::new("messages[#].content", wire.place(), 0), opens, ends: true };
    if !opens {
        let start = wire.bytes.len();
        json::write_escaped(&mut wire.bytes, JOIN);
        let join = Position { ends: false, ..at };
        wire.engine("join", JOIN, join, start);
    }
    let start = wire.bytes.len();
    text.escape(&mut wire.bytes, message);
    wire.part(message, text, at, start);
}

fn content_text(wire: &mut Wire, role: Role, message: &Arc<Message>, parts: &[Part<'_>]) {
    let said = |part: &Part<'_>| matches!(part.what, What::Text | What::Filler(_) | What::Result);
    let Some(index) = parts.iter().position(said) else {
        wire.raw("null");
        return;
    };
    let text = &parts[index];
    let start = wire.bytes.len();
    wire.raw("\"");
    text.escape(&mut wire.bytes, message);
    wire.raw("\"");
    let path = Path::new("messages[#].content", wire.place(), 0);
    wire.part(message, text, Position { role, path, opens: index == 0, ends: index + 1 == parts.len() }, start);
}

/// What the model thought, under the names that servers give it. Where a server asks for it, each of the model's messages has it.
fn thoughts(wire: &mut Wire, message: &Arc<Message>, parts: &[Part<'_>], asked: bool) {
    let mut told = false;
    for (index, part) in parts.iter().enumerate() {
        let What::Fields(fields) = part.what else { continue };
        let start = wire.bytes.len();
        for name in ["reasoning_content", "reasoning_details"] {
            let Some(value) = fields.get(name) else { continue };
            told |= name == "reasoning_content";
            wire.raw(",");
            json::write_str(&mut wire.bytes, name);
            wire.raw(":");
            json::write(&mut wire.bytes, value);
        }
        let path = Path::new("messages[#]", wire.place(), 0);
        let at = Position { role: Role::Assistant, path, opens: index == 0, ends: index + 1 == parts.len() };
        wire.part(message, part, at, start);
    }
    if asked && !told && message.role == Role::Assistant {
        wire.raw(r#","reasoning_content":"#);
        json::write_str(&mut wire.bytes, "");
    }
}

fn content_parts(wire: &mut Wire, role: Role, message: &Arc<Message>, parts: &[Part<'_>]) {
    wire.raw("[");
    for (index, part) in parts.iter().enumerate() {
        let start = wire.next_part();
        let form = if let What::Image(image, _) = part.what {
            wire.raw(r#"{"image_url":{"url":"#);
            data_url(&mut wire.bytes, &image.media_type, &image.data);
            wire.raw(r#"},"type":"image_url"}"#);
            "messages[#].content[#].image_url.url"
        } else {
            wire.raw(r#"{"text":""#);
            part.escape(&mut wire.bytes, message);
            wire.raw(r#"","type":"text"}"#);
            "messages[#].content[#].text"
        };
        let at = Position { role, path: Path::new(form, wire.place(), index), opens: index == 0, ends: index + 1 == parts.len() };
        wire.part(message, part, at, start);
    }
    wire.raw("]");
}

fn tool_calls(wire: &mut Wire, message: &Arc<Message>, parts: &[Part<'_>]) {
    let calls = parts.iter().enumerate().filter_map(|(index, part)| match part.what {
        What::Call(call, fields) => Some((index, part, call, fields)),
        _ => None,
    });
    let mut written = 0;
    for (index, part, call, fields) in calls {
        wire.raw(if written == 0 { r#","tool_calls":["# } else { "," });
        let start = wire.bytes.len();
        wire.raw("{");
        if let Some(extra) = fields.and_then(|fields| fields.get("extra_content")) {
            wire.raw(r#""extra_content":"#);
            json::write(&mut wire.bytes, extra);
            wire.raw(",");
        }
        wire.raw(r#""function":{"arguments":"#);
        json::write_str(&mut wire.bytes, &json::to_string(&call.arguments));
        wire.raw(r#","name":"#);
        json::write_str(&mut wire.bytes, &wire_name(Dialect::OpenAiChat, &call.name));
        wire.raw(r#"},"id":"#);
        json::write_str(&mut wire.bytes, &wire_id(Dialect::OpenAiChat, &call.id));
        wire.raw(r#","type":"function"}"#);
        let at = Position {
            role: Role::Assistant,
            path: Path::new("messages[#].tool_calls[#]", wire.place(), written),
            opens: index == 0,
            ends: index + 1 == parts.len(),
        };
        wire.part(message, part, at, start);
        written += 1;
    }
    if written > 0 {
        wire.raw("]");
    }
}

/// Appends an image as a data URL, quotes included.
pub(crate) fn data_url(out: &mut Vec<u8>, media_type: &str, data: &str) {
    out.extend_from_slice(b"\"data:");
    json::write_escaped(out, media_type);
    out.extend_from_slice(b";base64,");
    json::write_escaped(out, data);
    out.push(b'"');
}

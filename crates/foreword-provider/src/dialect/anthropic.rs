//! Anthropic Messages: content blocks, roles in turn, results of tools first in the user's message, marks on blocks.

use std::sync::Arc;

use foreword_core::json;
use foreword_core::message::{Message, Role};
use serde_json::{Value, json};

use super::Dialect;
use super::names::{wire_id, wire_name};
use super::parts::{Part, What};
use super::system::{Frame, Split};
use super::turns::{Turns, position};
use super::wire::{Open, Wire};
use crate::stream::Ttl;

/// The system blocks.
pub(crate) const SYSTEM: Frame = Frame {
    before: "[",
    open: r#"{"text":""#,
    close: r#"","type":"text"}"#,
    after: "]",
    split: Split::Segments,
    path: "system[#].text",
};

const TEXT: &str = "messages[#].content[#].text";

/// The field that marks a block, as it stands behind the block's brace.
pub(crate) fn mark(ttl: Ttl) -> &'static [u8] {
    match ttl {
        Ttl::Short => br#""cache_control":{"type":"ephemeral"},"#,
        Ttl::Long => br#""cache_control":{"ttl":"1h","type":"ephemeral"},"#,
    }
}

/// How roles take turns.
pub(crate) const TURNS: Turns = Turns { open: r#"{"content":["#, close, end_text: r#"","type":"text"}"#, text: TEXT };

/// What closes the open message.
pub(crate) fn close(open: Open) -> &'static str {
    match open {
        Open::Closed => "",
        Open::User | Open::Results => r#"],"role":"user"}"#,
        Open::Assistant => r#"],"role":"assistant"}"#,
        Open::System => r#"],"role":"system"}"#,
    }
}

/// Whether a system message between others may stay one, given who speaks next.
fn stays_system(wire: &Wire, follower: Option<Role>) -> bool {
    matches!(wire.now.open, Open::User | Open::System) && matches!(follower, None | Some(Role::Assistant))
}

/// Appends a message. `follower` is who speaks next, system messages aside; `systems` whether the model takes those.
pub(crate) fn message(wire: &mut Wire, message: &Arc<Message>, parts: &[Part<'_>], systems: bool, follower: Option<Role>) {
    let (open, role) = match message.role {
        Role::Assistant => (Open::Assistant, Role::Assistant),
        Role::System if systems && stays_system(wire, follower) => (Open::System, Role::System),
        Role::System | Role::User => (Open::User, Role::User),
        Role::Tool => (Open::User, Role::Tool),
    };
    if wire.now.index == 0 && open == Open::Assistant {
        TURNS.first_word(wire);
    }
    TURNS.speak(wire, open);
    for (index, part) in parts.iter().enumerate() {
        let start = wire.next_part();
        let form = block(wire, message, part);
        let at = position(wire, role, form, index + 1 == parts.len());
        wire.part(message, part, at, start);
    }
}

fn block(wire: &mut Wire, message: &Arc<Message>, part: &Part<'_>) -> &'static str {
    match part.what {
        What::Text | What::Filler(_) => {
            wire.raw(r#"{"text":""#);
            part.escape(&mut wire.bytes, message);
            wire.raw(r#"","type":"text"}"#);
            TEXT
        }
        What::Image(image, _) => {
            wire.raw(r#"{"source":{"data":"#);
            json::write_str(&mut wire.bytes, &image.data);
            wire.raw(r#","media_type":"#);
            json::write_str(&mut wire.bytes, &image.media_type);
            wire.raw(r#","type":"base64"},"type":"image"}"#);
            "messages[#].content[#].source.data"
        }
        What::Opaque(json) | What::Fields(json) => {
            json::write(&mut wire.bytes, json);
            "messages[#].content[#]"
        }
        What::Call(call, _) => {
            wire.raw(r#"{"id":"#);
            json::write_str(&mut wire.bytes, &wire_id(Dialect::Anthropic, &call.id));
            wire.raw(r#","input":"#);
            json::write(&mut wire.bytes, &object(&call.arguments));
            wire.raw(r#","name":"#);
            json::write_str(&mut wire.bytes, &wire_name(Dialect::Anthropic, &call.name));
            wire.raw(r#","type":"tool_use"}"#);
            "messages[#].content[#]"
        }
        What::Result => {
            wire.raw("{");
            if !message.is_empty() {
                wire.raw(r#""content":""#);
                part.escape(&mut wire.bytes, message);
                wire.raw(r#"","#);
            }
            if message.failed {
                wire.raw(r#""is_error":true,"#);
            }
            wire.raw(r#""tool_use_id":"#);
            let id = message.answers.as_deref().unwrap_or_default();
            json::write_str(&mut wire.bytes, &wire_id(Dialect::Anthropic, id));
            wire.raw(r#","type":"tool_result"}"#);
            "messages[#].content[#].content"
        }
    }
}

/// Arguments are an object, also where the model erred.
pub(crate) fn object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        other => json!({"value": other}),
    }
}

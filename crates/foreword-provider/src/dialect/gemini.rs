//! Gemini: users and models only, results of one group of calls in a turn of their own, and caches that are resources.

use std::sync::Arc;

use foreword_core::hash::Hash;
use foreword_core::json;
use foreword_core::message::{Message, Role};

use super::Dialect;
use super::anthropic::object;
use super::names::{wire_id, wire_name};
use super::parts::{Part, What};
use super::system::{Frame, Split};
use super::turns::{Turns, position};
use super::wire::{Open, Wire};

/// The system instruction.
pub(crate) const SYSTEM: Frame = Frame {
    before: r#"{"parts":["#,
    open: r#"{"text":""#,
    close: r#""}"#,
    after: "]}",
    split: Split::Whole,
    path: "systemInstruction.parts[#].text",
};

const TEXT: &str = "contents[#].parts[#].text";
/// Gemini 3 refuses calls without a signature; this value says that the call's own is not at hand.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// How roles take turns.
pub(crate) const TURNS: Turns = Turns { open: r#"{"parts":["#, close, end_text: r#""}"#, text: TEXT };

/// What closes the open message.
pub(crate) fn close(open: Open) -> &'static str {
    match open {
        Open::Closed => "",
        Open::User | Open::Results | Open::System => r#"],"role":"user"}"#,
        Open::Assistant => r#"],"role":"model"}"#,
    }
}

/// Appends a message; `signed` where the model refuses calls without a thought signature.
pub(crate) fn message(wire: &mut Wire, message: &Arc<Message>, parts: &[Part<'_>], signed: bool) {
    let (open, role) = match message.role {
        Role::Assistant => (Open::Assistant, Role::Assistant),
        Role::System | Role::User => (Open::User, Role::User),
        Role::Tool => (Open::Results, Role::Tool),
    };
    if wire.now.index == 0 && open == Open::Assistant {
        TURNS.first_word(wire);
    }
    TURNS.speak(wire, open);
    let mut sign = signed;
    for (index, part) in parts.iter().enumerate() {
        let start = wire.next_part();
        let form = write_part(wire, message, part, &mut sign);
        let at = position(wire, role, form, index + 1 == parts.len());
        wire.part(message, part, at, start);
    }
}

fn write_part(wire: &mut Wire, message: &Arc<Message>, part: &Part<'_>, sign: &mut bool) -> &'static str {
    match part.what {
        What::Text | What::Filler(_) => {
            wire.raw(r#"{"text":""#);
            part.escape(&mut wire.bytes, message);
            wire.raw(r#""}"#);
            TEXT
        }
        What::Image(image, _) => {
            wire.raw(r#"{"inlineData":{"data":"#);
            json::write_str(&mut wire.bytes, &image.data);
            wire.raw(r#","mimeType":"#);
            json::write_str(&mut wire.bytes, &image.media_type);
            wire.raw("}}");
            "contents[#].parts[#].inlineData.data"
        }
        What::Opaque(json) | What::Fields(json) => {
            json::write(&mut wire.bytes, json);
            "contents[#].parts[#]"
        }
        What::Call(call, fields) => {
            wire.raw(r#"{"functionCall":{"args":"#);
            json::write(&mut wire.bytes, &object(&call.arguments));
            wire.raw(r#","id":"#);
            json::write_str(&mut wire.bytes, &wire_id(Dialect::Gemini, &call.id));
            wire.raw(r#","name":"#);
            json::write_str(&mut wire.bytes, &wire_name(Dialect::Gemini, &call.name));
            wire.raw("}");
            // Of calls made at once only the first one carries the signature.
            let own = fields.and_then(|fields| fields["thoughtSignature"].as_str());
            let missing = std::mem::take(sign).then_some(NO_SIGNATURE);
            if let Some(signature) = own.or(missing) {
                wire.raw(r#","thoughtSignature":"#);
                json::write_str(&mut wire.bytes, signature);
            }
            wire.raw("}");
            "contents[#].parts[#].functionCall"
        }
        What::Result => {
            let id = message.answers.as_deref().unwrap_or_default();
            let name = wire
                .caller()
                .and_then(|caller| caller.calls.iter().find(|call| call.id == id))
                .map_or_else(|| "unknown".to_owned(), |call| call.name.clone());
            wire.raw(r#"{"functionResponse":{"id":"#);
            json::write_str(&mut wire.bytes, &wire_id(Dialect::Gemini, id));
            wire.raw(r#","name":"#);
            json::write_str(&mut wire.bytes, &wire_name(Dialect::Gemini, &name));
            let (field, path) = if message.failed {
                (r#","response":{"error":""#, "contents[#].parts[#].functionResponse.response.error")
            } else {
                (r#","response":{"output":""#, "contents[#].parts[#].functionResponse.response.output")
            };
            wire.raw(field);
            part.escape(&mut wire.bytes, message);
            wire.raw(r#""}}}"#);
            path
        }
    }
}

/// A request that makes a cache of a session's tools and system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeminiCacheRequest {
    /// Names what is cached: the same session, model, tools, L1 and L2 give the same key.
    pub key: Hash,
    /// The body for `POST cachedContents`.
    pub body: Vec<u8>,
}

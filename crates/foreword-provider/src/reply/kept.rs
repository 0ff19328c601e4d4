//! What of a reply goes back to its author. A session's message is text, then calls; where a reply does not come to that, or has a block
//! that the provider would not take back, all of its blocks are dropped: half of them would be refused.

use foreword_core::message::{Opaque, Slot, ToolCall};
use serde_json::Value;

use super::{Part, Place, Reply};
use crate::dialect::Dialect;
use crate::model::{Capability, Model};

/// A reply as a session takes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplyMessage {
    /// The text.
    pub text: String,
    /// The calls, each with an ID.
    pub calls: Vec<ToolCall>,
    /// The blocks that only the provider can read.
    pub opaque: Vec<Opaque>,
}

impl Reply {
    /// The reply as a session takes it. Of a reply that was cut off, only the text remains: half a call is none. A call without an ID
    /// gets one with the number of the request.
    pub fn message(&self, dialect: Dialect, model: &Model, number: u64, cut_off: bool) -> ReplyMessage {
        if cut_off {
            return ReplyMessage { text: self.text(), ..ReplyMessage::default() };
        }
        let calls = self.parts.iter().enumerate().filter_map(|(at, part)| match part {
            Part::Call { id, name, arguments } => Some(ToolCall {
                id: id.clone().unwrap_or_else(|| format!("call-{number}-{at}")),
                name: name.clone(),
                arguments: arguments_of(arguments),
            }),
            _ => None,
        });
        ReplyMessage { text: self.text(), calls: calls.collect(), opaque: self.opaque(dialect, model) }
    }

    /// Its opaque blocks, each with its place in the message that its words and calls become.
    pub fn opaque(&self, dialect: Dialect, model: &Model) -> Vec<Opaque> {
        let from = dialect.author(model);
        let blocks = self.placed().map(|blocks| {
            let wanted = blocks.into_iter().filter(|(at, json)| is_wanted(model, *at, json));
            wanted.map(|(at, json)| Opaque { from: from.clone(), at, json }).collect::<Vec<_>>()
        });
        blocks.filter(|blocks| can_go_back(dialect, blocks)).unwrap_or_default()
    }

    /// The blocks with their places; none where words stand behind calls, or a block between words.
    fn placed(&self) -> Option<Vec<(Slot, Value)>> {
        let calls = self.parts.iter().filter(|part| matches!(part, Part::Call { .. })).count();
        let mut blocks: Vec<(Slot, Value)> = Vec::new();
        let (mut seen, mut said, mut parted) = (0, false, false);
        for part in &self.parts {
            match part {
                Part::Text(text) if text.is_empty() => {}
                Part::Text(_) if parted || seen > 0 => return None,
                Part::Text(_) => said = true,
                Part::Reasoning(_) => {}
                Part::Call { .. } => seen += 1,
                Part::Opaque(opaque) => {
                    let at = match opaque.place {
                        Place::Here if !said && seen == 0 => Slot::BeforeText,
                        Place::Here if seen < calls => Slot::BeforeCall(seen),
                        Place::Here => Slot::End,
                        Place::Call(call) => Slot::OfCall(call),
                        Place::Message => Slot::OfMessage,
                    };
                    parted |= said && opaque.place == Place::Here;
                    add(&mut blocks, at, &opaque.json);
                }
            }
        }
        Some(blocks)
    }
}

/// The arguments of a call; what is not JSON stays text.
fn arguments_of(text: &str) -> Value {
    let empty = || if text.trim().is_empty() { Value::Object(serde_json::Map::new()) } else { Value::String(text.to_owned()) };
    serde_json::from_str(text).unwrap_or_else(|_| empty())
}

/// Adds a block; fields of one object are put together.
fn add(blocks: &mut Vec<(Slot, Value)>, at: Slot, json: &Value) {
    let is_fields = matches!(at, Slot::OfCall(_) | Slot::OfMessage);
    let known = blocks.iter_mut().find(|(known, _)| is_fields && *known == at);
    match (known, json) {
        (Some((_, Value::Object(known))), Value::Object(more)) => {
            known.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        _ => blocks.push((at, json.clone())),
    }
}

/// Plain thoughts are only sent to those who ask for them.
fn is_wanted(model: &Model, at: Slot, json: &Value) -> bool {
    at != Slot::OfMessage || json.get("reasoning_content").is_none() || model.has(Capability::ReasoningContent)
}

/// Whether the provider takes all of them back.
fn can_go_back(dialect: Dialect, blocks: &[Opaque]) -> bool {
    let text = |opaque: &Opaque, name: &str| opaque.json[name].as_str().is_some_and(|text| !text.is_empty());
    blocks.iter().enumerate().all(|(index, opaque)| match (dialect, opaque.at) {
        (Dialect::Anthropic, Slot::BeforeText | Slot::BeforeCall(_)) => match opaque.json["type"].as_str() {
            Some("thinking") => opaque.json["thinking"].is_string() && text(opaque, "signature"),
            Some("redacted_thinking") => text(opaque, "data"),
            _ => false,
        },
        // A reasoning item stands directly in front of what it led to.
        (Dialect::OpenAiResponses, Slot::BeforeText | Slot::BeforeCall(_)) => {
            let alone = blocks[..index].iter().all(|before| before.at != opaque.at);
            let whole = text(opaque, "id") && text(opaque, "encrypted_content") && opaque.json["summary"].is_array();
            opaque.json["type"] == "reasoning" && alone && whole
        }
        (Dialect::Gemini, Slot::BeforeText | Slot::BeforeCall(_) | Slot::End) => {
            opaque.json["text"] == "" && text(opaque, "thoughtSignature")
        }
        (Dialect::Gemini, Slot::OfCall(_)) => text(opaque, "thoughtSignature"),
        (Dialect::OpenAiChat | Dialect::LlamaCpp, Slot::OfCall(_)) => opaque.json.get("extra_content").is_some(),
        (Dialect::OpenAiChat | Dialect::LlamaCpp, Slot::OfMessage) => {
            opaque.json["reasoning_content"].is_string() || opaque.json["reasoning_details"].is_array()
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Opaque as Block;
    use super::*;
    use crate::table::ModelTable;

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    fn call() -> Part {
        Part::Call { id: None, name: "read".to_owned(), arguments: "{}".to_owned() }
    }

    fn block(place: Place, json: Value) -> Part {
        Part::Opaque(Block { place, json })
    }

    fn check(model: &str, parts: Vec<Part>, expect: &[Slot]) {
        let model = ModelTable::builtin().unwrap().find(model).unwrap();
        let reply = Reply { parts, ..Reply::default() };
        let kept = reply.opaque(model.dialect, &model);
        assert_eq!(kept.iter().map(|opaque| opaque.at).collect::<Vec<_>>(), expect, "{:?}", reply.parts);
        assert!(kept.iter().all(|opaque| opaque.from == format!("{}/{}", model.dialect, model.wire)));
    }

    #[test]
    fn signed_thoughts() {
        let thought = || block(Place::Here, json!({"type": "thinking", "thinking": "", "signature": "s"}));
        let claude = |parts, expect: &[Slot]| check("claude-opus-5-5", parts, expect);
        claude(vec![thought(), text("a")], &[Slot::BeforeText]);
        claude(vec![thought(), call(), call()], &[Slot::BeforeText]);
        claude(
            vec![thought(), text("a"), thought(), call(), thought(), call()],
            &[Slot::BeforeText, Slot::BeforeCall(0), Slot::BeforeCall(1)],
        );
        claude(vec![block(Place::Here, json!({"type": "redacted_thinking", "data": "x"})), text("a")], &[Slot::BeforeText]);
        // What cannot stand where it stood takes the others with it.
        claude(vec![thought(), text("a"), thought(), text("b")], &[]);
        claude(vec![thought(), call(), text("a")], &[]);
        claude(vec![thought(), text("a"), thought()], &[]);
        claude(vec![thought(), block(Place::Here, json!({"type": "thinking", "thinking": "", "signature": ""})), call()], &[]);
        claude(vec![block(Place::Here, json!({"type": "tool_result", "tool_use_id": "a"})), call()], &[]);
    }

    #[test]
    fn reasoning_items() {
        let item = |id: &str| {
            block(Place::Here, json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "e", "status": null}))
        };
        let gpt = |parts, expect: &[Slot]| check("gpt-6.1-sol", parts, expect);
        gpt(vec![item("1"), text("a"), item("2"), call()], &[Slot::BeforeText, Slot::BeforeCall(0)]);
        gpt(vec![item("1"), item("2"), text("a")], &[]);
        gpt(vec![text("a"), item("1")], &[]);
        gpt(vec![block(Place::Here, json!({"type": "reasoning", "id": "1", "summary": []})), text("a")], &[]);
    }

    #[test]
    fn signatures_and_fields() {
        let signed = || json!({"thoughtSignature": "s"});
        let part = || block(Place::Here, json!({"text": "", "thoughtSignature": "s"}));
        let gemini = |parts, expect: &[Slot]| check("gemini-3.8-flash", parts, expect);
        gemini(vec![text("a"), call(), block(Place::Call(0), signed()), call()], &[Slot::OfCall(0)]);
        gemini(vec![text("a"), part()], &[Slot::End]);
        gemini(vec![text("a"), part(), call()], &[Slot::BeforeCall(0)]);
        gemini(vec![part(), block(Place::Here, json!({"inlineData": {}})), text("a")], &[]);
        let thoughts = || block(Place::Message, json!({"reasoning_content": "Hm"}));
        check("deepseek-chat", vec![text("a"), thoughts()], &[Slot::OfMessage]);
        check("gpt-5.4", vec![text("a"), thoughts()], &[]);
        check("gpt-5.4", vec![text("a"), block(Place::Message, json!({"reasoning_details": []}))], &[Slot::OfMessage]);
        let extra = |name: &str| block(Place::Call(0), json!({"extra_content": {name: 1}}));
        check("gpt-5.4", vec![call(), extra("a"), extra("b"), thoughts()], &[Slot::OfCall(0)]);
    }
}

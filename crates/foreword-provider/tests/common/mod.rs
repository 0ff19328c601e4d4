//! Small conversations for the tests.
#![allow(dead_code)] // each test file uses a part of it

use std::sync::Arc;

use foreword_core::hash::Hash;
use foreword_core::item::{ItemId, Kind};
use foreword_core::layer::LayerId;
use foreword_core::message::{Image, Message, Origin, Piece, Role, ToolCall};
use foreword_core::prompt::{Prompt, ToolPlan, ToolSpec, ToolStyle};
use foreword_core::tokens::{Chars, Tokenizer, Tokens};
use foreword_provider::dialect::Dialect;
use foreword_provider::model::Model;
use foreword_provider::render::{Body, BodyOptions, body};
use foreword_provider::table::ModelTable;
use serde_json::{Value, json};

pub(crate) fn piece(layer: LayerId, origin: Origin, text: &str) -> Piece {
    Piece { layer, origin, text: Arc::from(text), tokens: Chars::FOUR.count(text) }
}

/// A piece that counts as many tokens as it is told to.
pub(crate) fn sized(layer: LayerId, origin: Origin, text: &str, tokens: u64) -> Piece {
    Piece { tokens: Tokens(tokens), ..piece(layer, origin, text) }
}

pub(crate) fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::text(Role::User, vec![piece(LayerId::L5, Origin::User, text)]))
}

pub(crate) fn user_sized(text: &str, tokens: u64) -> Arc<Message> {
    Arc::new(Message::text(Role::User, vec![sized(LayerId::L5, Origin::User, text, tokens)]))
}

pub(crate) fn model_says(text: &str) -> Arc<Message> {
    calls(text, &[])
}

pub(crate) fn notice(text: &str) -> Arc<Message> {
    Arc::new(Message::text(Role::System, vec![piece(LayerId::L4, Origin::Engine("notice"), text)]))
}

pub(crate) fn calls(text: &str, calls: &[(&str, &str, Value)]) -> Arc<Message> {
    let mut message = Message::text(Role::Assistant, vec![piece(LayerId::L4, Origin::Model, text)]);
    for (id, name, arguments) in calls {
        message.calls.push(ToolCall { id: (*id).to_owned(), name: (*name).to_owned(), arguments: arguments.clone() });
        message.extra_tokens += Tokens(10);
    }
    Arc::new(message)
}

pub(crate) fn result(id: &str, text: &str) -> Arc<Message> {
    let mut message = Message::text(Role::Tool, vec![piece(LayerId::L3, Origin::Item(ItemId::output(Hash::of(text))), text)]);
    message.answers = Some(id.to_owned());
    Arc::new(message)
}

pub(crate) fn pictured(text: &str) -> Arc<Message> {
    let mut message = Message::text(Role::User, vec![piece(LayerId::L5, Origin::User, text)]);
    message.images.push(Image {
        id: ItemId::new(Kind::Image, "a.png"),
        media_type: "image/png".to_owned(),
        data: Arc::from("iVBORw0="),
        pixels: None,
    });
    message.extra_tokens = Tokens(100);
    Arc::new(message)
}

/// L1, and L2 as headings, joins and notes of the given names and texts.
pub(crate) fn system(l1: &str, notes: &[(&str, &str)]) -> Arc<Message> {
    let mut pieces = vec![piece(LayerId::L1, Origin::Engine("system_prompt"), l1)];
    for (index, (name, text)) in notes.iter().enumerate() {
        let (word, join) = if index == 0 { ("heading", "\n\n## Context Library\n\n") } else { ("join", "\n\n") };
        pieces.push(piece(LayerId::L2, Origin::Engine(word), join));
        pieces.push(piece(LayerId::L2, Origin::Item(ItemId::note(name)), text));
    }
    Arc::new(Message::text(Role::System, pieces))
}

pub(crate) fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        id: Some(ItemId::tool("fs", name)),
        name: name.to_owned(),
        description: format!("{name} it"),
        schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }
}

pub(crate) fn plan(style: ToolStyle, names: &[&str], allowed: &[&str]) -> ToolPlan {
    ToolPlan {
        style,
        list: Arc::new(names.iter().map(|name| tool(name)).collect()),
        allowed: allowed.iter().map(|name| (*name).to_owned()).collect(),
        tokens: Tokens(20 * names.len() as u64),
    }
}

pub(crate) fn no_tools() -> ToolPlan {
    plan(ToolStyle::Native, &[], &[])
}

pub(crate) fn prompt<'a>(messages: &'a [Arc<Message>], tools: &'a ToolPlan, settled: usize) -> Prompt<'a> {
    Prompt { messages, tools, settled, session: "s1", l1: Hash::of("l1"), l2: Hash::of("l2"), reply_tokens: Tokens(1000) }
}

pub(crate) fn model(name: &str) -> Model {
    ModelTable::builtin().unwrap().find(name).unwrap()
}

pub(crate) fn render(dialect: Dialect, name: &str, messages: &[Arc<Message>], tools: &ToolPlan) -> Body {
    let settled = messages.len().saturating_sub(1);
    body(dialect, &model(name), &prompt(messages, tools, settled), &BodyOptions::default())
}

pub(crate) fn default_name(dialect: Dialect) -> String {
    ModelTable::builtin().unwrap().default_for(dialect).unwrap().name
}

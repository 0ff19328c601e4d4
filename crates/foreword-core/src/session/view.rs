//! A full listing of a request: every segment of every layer, and every item with its place. Computed on demand.

use std::collections::BTreeMap;

use super::{Session, message_hash};
use crate::envelope::{ContextEntry, Envelope, Form};
use crate::hash::Hash;
use crate::item::ItemId;
use crate::layer::LayerId;
use crate::library::Place;
use crate::message::{Message, Origin, Role};
use crate::prompt::{ToolSpec, ToolStyle};
use crate::tokens::Tokens;
use serde::{Deserialize, Serialize};

/// A rendered Version or message inside a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentView {
    /// The ID of the item, message or engine text.
    pub id: String,
    /// The hash of its bytes.
    pub hash: Hash,
    /// Its size in tokens.
    pub tokens: Tokens,
    /// Its form, e.g. full text or reference.
    pub form: Form,
}

/// A layer with its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerView {
    /// The layer's ID.
    pub id: LayerId,
    /// The layer's hash.
    pub hash: Hash,
    /// The layer's size in tokens.
    pub tokens: Tokens,
    /// The layer's segments, in order.
    pub segments: Vec<SegmentView>,
}

impl Session {
    /// The layers of the last request with their segments.
    pub fn layers(&self, envelope: &Envelope) -> Vec<LayerView> {
        let view = |id: LayerId, segments| {
            let record = envelope.layers[id.index()];
            LayerView { id, hash: record.hash, tokens: record.tokens, segments }
        };
        let library = self.library.entries().iter().filter(|entry| entry.place == Place::Library);
        let library = library.map(|entry| SegmentView {
            id: entry.version.id.to_string(),
            hash: Hash::of(entry.block.as_bytes()),
            tokens: entry.tokens,
            form: Form::Full,
        });
        let user = self.turn.as_ref().and_then(|turn| turn.message.as_ref());
        let running = self.running_at();
        let others = self.epoch.messages.iter().enumerate().filter(|(at, _)| Some(*at) != running);
        let history = others.map(|(_, message)| message).filter(|message| message.role != Role::System || is_summary(message));
        let history = history.enumerate().map(|(at, message)| message_segment(at, message));
        vec![
            view(LayerId::L1, self.epoch.l1_segments.clone()),
            view(LayerId::L2, library.collect()),
            view(LayerId::L3, user.map(|message| self.turn_segments(message)).unwrap_or_default()),
            view(LayerId::L4, history.collect()),
            view(LayerId::L5, user.map(|message| user_segments(message)).unwrap_or_default()),
        ]
    }

    fn turn_segments(&self, message: &Message) -> Vec<SegmentView> {
        let form_of = |id: &str| {
            let context = self.turn.as_ref().map(|turn| &turn.context[..]).unwrap_or_default();
            context.iter().find(|entry| entry.item.to_string() == id).map_or(Form::Full, |entry| entry.form)
        };
        let pieces = message.pieces.iter().filter(|piece| piece.layer == LayerId::L3 && !piece.text.trim().is_empty());
        let items = pieces.filter_map(|piece| match &piece.origin {
            Origin::Item(id) => Some((id.to_string(), piece)),
            Origin::Engine(word) if *word != "heading" => Some((format!("engine:{word}"), piece)),
            _ => None,
        });
        items
            .map(|(id, piece)| SegmentView {
                form: form_of(&id),
                hash: Hash::of(piece.text.as_bytes()),
                tokens: piece.tokens,
                id,
            })
            .collect()
    }

    /// Every item of the last request, including those of earlier turns: how it was included, its layer and its form.
    pub fn context(&self, envelope: &Envelope) -> Vec<ContextEntry> {
        let mut entries = self.epoch.l1_context.clone();
        let is_new = |item: &ItemId| envelope.turn_context.iter().any(|entry| entry.item == *item);
        // What stands from earlier turns; the search may have chosen it for one of them and not for this one.
        for entry in self.library.current_versions() {
            if !is_new(&entry.version.id) {
                entries.push(ContextEntry {
                    item: entry.version.id.clone(),
                    include: entry.include.into(),
                    score: None,
                    layer: Some(if entry.place == Place::Library { LayerId::L2 } else { LayerId::L4 }),
                    form: entry.form,
                    tokens: entry.tokens,
                });
            }
        }
        if envelope.tools.style != ToolStyle::UseTool {
            let specs = self.tool_specs();
            let specs: BTreeMap<&ItemId, &ToolSpec> = specs.iter().filter_map(|spec| Some((spec.id.as_ref()?, spec))).collect();
            for (id, include) in &self.members {
                let Some(spec) = specs.get(id) else { continue };
                if !is_new(id) {
                    let tokens = self.spec_tokens(spec);
                    entries.push(ContextEntry {
                        item: id.clone(),
                        include: (*include).into(),
                        score: None,
                        layer: None,
                        form: Form::Full,
                        tokens,
                    });
                }
            }
        }
        entries.extend(envelope.turn_context.iter().cloned());
        entries
    }
}

/// The ID of the output in a tool message.
pub(super) fn output_of(message: &Message) -> Option<&ItemId> {
    match message.pieces.first().map(|piece| &piece.origin) {
        Some(Origin::Item(id)) if message.role == Role::Tool => Some(id),
        _ => None,
    }
}

/// Whether a tool message is only a stub.
pub(super) fn is_stub(message: &Message) -> bool {
    message.content().starts_with("[Output of ")
}

fn is_summary(message: &Message) -> bool {
    message.pieces.first().is_some_and(|piece| piece.origin == Origin::Engine("summary"))
}

fn message_segment(at: usize, message: &Message) -> SegmentView {
    let (id, form) = match (&message.role, message.pieces.first().map(|piece| &piece.origin)) {
        (Role::Tool, Some(Origin::Item(id))) => (id.to_string(), if is_stub(message) { Form::Stub } else { Form::Full }),
        (_, Some(Origin::Engine(word))) if *word != "heading" => (format!("engine:{word}"), Form::Full),
        (role, _) => (format!("message:{at}/{}", role.as_str()), Form::Full),
    };
    SegmentView { id, hash: message_hash(message), tokens: message.tokens(), form }
}

fn user_segments(message: &Message) -> Vec<SegmentView> {
    let words = message.pieces.iter().filter(|piece| piece.layer == LayerId::L5);
    words
        .map(|piece| SegmentView {
            id: "user".to_owned(),
            hash: Hash::of(piece.text.as_bytes()),
            tokens: piece.tokens,
            form: Form::Full,
        })
        .collect()
}

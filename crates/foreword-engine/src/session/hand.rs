//! The user's control of the history: folds, pins and the summary.

use foreword_core::history::MessageId;
use foreword_core::item::ItemId;
use foreword_core::message::Role;
use foreword_core::session::{Input, InputError, Pin, Unpin};
use serde::Serialize;

use super::kept::Kept;

/// Why something cannot be pinned.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// There is no such message.
    #[error("no message {0} in this session; message names look like m12, see `/summary`")]
    NoMessage(MessageId),
    /// It is neither a message nor an item.
    #[error("{0:?} is neither a message of this session, like m12, nor an attachment")]
    Nothing(String),
    /// The session rejects the pin.
    #[error(transparent)]
    Input(#[from] InputError),
}

/// A pin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pinned {
    /// A message (`m12`), or an item's ID.
    pub what: String,
    /// The pinned text of a message.
    pub text: Option<String>,
}

impl Kept {
    /// The pins: messages, then items.
    pub fn pins(&self) -> Vec<Pinned> {
        let (texts, items) = self.session.pins();
        let texts = texts.into_iter().map(|(from, text)| Pinned { what: from.to_string(), text: Some(text) });
        texts.chain(items.into_iter().map(|id| Pinned { what: id.to_string(), text: None })).collect()
    }

    /// Removes the pins of a message (`m12`) or an item.
    pub fn unpin(&mut self, what: &str, at_ms: i64) -> Result<(), PinError> {
        let message = what.trim().parse().map(Unpin::Message).ok();
        let unpin = message.or_else(|| what.trim().parse().map(Unpin::Item).ok());
        let unpin = unpin.ok_or_else(|| PinError::Nothing(what.chars().filter(|c| !c.is_control()).take(80).collect()))?;
        self.tell(Input::Unpin(unpin), at_ms)?;
        Ok(())
    }

    /// Requests a fold with the next turn. `focus` is the focus of the summary.
    pub fn fold(&mut self, focus: Option<&str>, at_ms: i64) -> Result<(), InputError> {
        if let Some(manager) = &mut self.manager {
            manager.focus =
                focus.map(str::trim).filter(|focus| !focus.is_empty()).map(|focus| focus.chars().take(1_000).collect());
        }
        self.tell(Input::Fold, at_ms).map(|_| ())
    }

    /// Pins a message (`m12`), or an item by ID or path. Returns a description of the pin.
    pub fn pin(&mut self, what: &str, at_ms: i64) -> Result<String, PinError> {
        let what = what.trim();
        if let Ok(from) = what.parse::<MessageId>() {
            let spoken = self.session.spoken(from).filter(|spoken| spoken.role != Role::Tool);
            let text = spoken.ok_or(PinError::NoMessage(from))?.text;
            self.tell(Input::Pin(Pin::Text { from, text: text.clone() }), at_ms)?;
            return Ok(text);
        }
        let named =
            [what.parse().ok(), Some(ItemId::note(what)), Some(ItemId::note(&format!("{what}.md"))), Some(ItemId::url(what))];
        for id in named.into_iter().flatten() {
            let pin = Input::Pin(Pin::Item(id.clone()));
            if self.session.check(&pin).is_ok() {
                self.tell(pin, at_ms)?;
                return Ok(id.to_string());
            }
        }
        Err(PinError::Nothing(what.chars().filter(|c| !c.is_control()).take(80).collect()))
    }
}

//! The user's control of the history: folds, pins and the summary.

use foreword_core::budget::OverBudget;
use foreword_core::history::MessageId;
use foreword_core::item::ItemId;
use foreword_core::message::Role;
use foreword_core::session::{FoldPreview, Input, InputError, Pin, Unpin};
use foreword_core::tokens::Tokens;
use serde::Serialize;

use super::recorded::RecordedSession;
use crate::manager::is_due;

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

/// Why nothing is folded.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// It would only cost.
    #[error("a fold would not make the prompt smaller ({before} tokens now, {after} then), so nothing is folded")]
    NotSmaller {
        /// The prompt now.
        before: Tokens,
        /// And behind the fold.
        after: Tokens,
    },
    /// What has to stay does not fit.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The session says no.
    #[error(transparent)]
    Input(#[from] InputError),
}

/// Something that is kept through every fold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pinned {
    /// A message (`m12`), or an item's ID.
    pub what: String,
    /// The pinned text of a message.
    pub text: Option<String>,
}

impl RecordedSession {
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

    /// Asks for a fold with the next turn, where that makes the prompt smaller. Whoever writes the summary is told what to look at above all.
    pub fn fold(&mut self, focus: Option<&str>, at_ms: i64) -> Result<(), FoldError> {
        // A summary that is still to be written is not part of the forecast.
        let awaits_summary = self.manager.as_ref().is_some_and(|manager| is_due(manager, &self.session));
        if self.counts().requests > 0 && !awaits_summary {
            let FoldPreview { before, after, .. } = self.session.preview_fold()?;
            if after >= before {
                return Err(FoldError::NotSmaller { before, after });
            }
        }
        if let Some(manager) = &mut self.manager {
            manager.focus =
                focus.map(str::trim).filter(|focus| !focus.is_empty()).map(|focus| focus.chars().take(1_000).collect());
        }
        self.tell(Input::Fold, at_ms)?;
        Ok(())
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

//! What a person does to a session's history by hand: folding it, keeping things, looking at what a fold would take and at the summary.

use foreword_core::history::MessageId;
use foreword_core::item::ItemId;
use foreword_core::message::Role;
use foreword_core::session::{Input, InputError, Pin};

use super::kept::Kept;

/// Why something cannot be pinned.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// There is no such message.
    #[error("there is no message {0} in this session: `/summary` and `recall` name messages as m12")]
    NoMessage(MessageId),
    /// It names nothing.
    #[error("{0:?} is neither a message of this session, like m12, nor something that was attached to it")]
    Nothing(String),
    /// The session says no.
    #[error(transparent)]
    Input(#[from] InputError),
}

impl Kept {
    /// Asks for a fold with the next turn. Whoever writes the summary is told what to look at above all.
    pub fn fold(&mut self, focus: Option<&str>, at_ms: i64) -> Result<(), InputError> {
        if let Some(manager) = &mut self.manager {
            manager.focus =
                focus.map(str::trim).filter(|focus| !focus.is_empty()).map(|focus| focus.chars().take(1_000).collect());
        }
        self.tell(Input::Fold, at_ms).map(|_| ())
    }

    /// Keeps a message (`m12`), or an item by its id or its path, through every fold. Gives back what was pinned.
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

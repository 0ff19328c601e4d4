//! A conversation that was had elsewhere, taken over before the first turn.

use std::sync::Arc;

use super::Session;
use super::draft::Draft;
use super::input::Said;
use crate::catalog::Include;
use crate::history::{MessageId, Unit};
use crate::layer::LayerId;
use crate::message::{Message, Origin, Role};
use crate::version::Version;

impl Session {
    /// What was said becomes history; each message of the user counts as a turn.
    pub(super) fn past(&mut self, said: &[Said]) {
        for (line, said) in (0..).zip(said) {
            let from = MessageId { line, ..self.message_id() };
            let (role, origin, text) = match said {
                Said::User(text) => (Role::User, Origin::User, text),
                Said::Assistant(text) => (Role::Assistant, Origin::Model, text),
            };
            if role == Role::User {
                self.turns += 1;
            } else if text.is_empty() {
                continue;
            }
            let mut draft = Draft::new(&*self.tokenizer);
            if !text.is_empty() {
                draft.push(LayerId::L4, origin, text.as_str());
            }
            let message = Arc::new(Message::text(role, draft.pieces));
            let unit = self.history.units.len();
            if role == Role::User {
                self.summary.asked(unit, from, text);
                self.push_unit_from(Unit::User(message), from);
            } else {
                self.summary.answered(unit, from, text);
                self.push_unit_from(Unit::Said(message), from);
            }
        }
        self.lay_out();
    }

    /// Lets Versions stand in L2 from the first request on. The last of an item counts.
    pub(super) fn stock_library(&mut self, versions: Vec<Version>) {
        for version in versions {
            self.library.remove(&version.id);
            self.seen.insert(version.id.clone());
            let standing = self.standing(&Arc::new(version), Include::Manual, self.turns);
            self.library.push(standing);
        }
        self.lay_out();
    }
}

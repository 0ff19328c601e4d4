//! A conversation that was had elsewhere, taken over before the first turn.

use std::sync::Arc;

use super::Session;
use super::draft::Draft;
use super::input::{Due, PastMessage, TurnInput};
use crate::catalog::Include;
use crate::history::{MessageId, Unit};
use crate::layer::LayerId;
use crate::message::{Message, Origin, Role, ToolCall};
use crate::pairing::CallOutput;
use crate::version::Version;

impl Session {
    /// Adds an imported conversation to the history; each user message is a turn. If it ends with tool results, the last turn
    /// continues.
    pub(super) fn past(&mut self, mut said: Vec<PastMessage>) -> Due {
        let runs = matches!(said.last(), Some(PastMessage::Called { .. }));
        let running = said.iter().rposition(|said| runs && matches!(said, PastMessage::User(_))).unwrap_or(said.len());
        let steps = said.split_off(running);
        let input = self.message_id();
        let mut ids = (0..).map(|line| MessageId { line, ..input });
        for (said, from) in said.into_iter().zip(&mut ids) {
            self.was_said(said, from);
        }
        self.lay_out();
        let mut steps = steps.into_iter().zip(ids);
        let Some((PastMessage::User(words), from)) = steps.next() else { return Due::Nothing };
        self.begin_turn_from(TurnInput { words, ..TurnInput::default() }, from);
        for (said, from) in steps {
            self.was_said(said, from);
        }
        Due::Request
    }

    /// One message of it.
    fn was_said(&mut self, said: PastMessage, from: MessageId) {
        let (role, origin, text) = match said {
            PastMessage::User(text) => (Role::User, Origin::User, text),
            PastMessage::Assistant(text) if text.is_empty() => return,
            PastMessage::Assistant(text) => (Role::Assistant, Origin::Model, text),
            PastMessage::Called { text, calls } => return self.were_called(&text, calls, from),
        };
        let mut draft = Draft::new(&*self.tokenizer);
        if !text.is_empty() {
            draft.push(LayerId::L4, origin, text.as_str());
        }
        let message = Arc::new(Message::text(role, draft.pieces));
        let unit = self.history.units.len();
        if role == Role::User {
            self.turns += 1;
            self.summary.asked(unit, from, &text);
            self.push_unit_from(Unit::User(message), from);
        } else {
            self.summary.answered(unit, from, &text);
            self.push_unit_from(Unit::PastMessage(message), from);
        }
    }

    /// Adds calls and their results.
    fn were_called(&mut self, text: &str, calls: Vec<(ToolCall, Option<CallOutput>)>, from: MessageId) {
        let (calls, outputs): (Vec<ToolCall>, Vec<Option<CallOutput>>) = calls.into_iter().unzip();
        let (message, mut open) = self.calling(text, &calls, Vec::new());
        for (call, output) in calls.iter().zip(outputs) {
            if let Some(output) = output {
                open.answer(&call.id, output);
            }
        }
        let outputs = self.settled_calls(open, from);
        self.push_unit_from(Unit::Calls(message, outputs), from);
    }

    /// Lets Versions stand in L2 from the first request on. The last of an item counts.
    pub(super) fn stock_library(&mut self, versions: Vec<Version>) {
        for version in versions {
            self.library.remove(&version.id);
            self.seen.insert(version.id.clone());
            let standing = self.standing(&Arc::new(version), Include::Manual, self.turns, self.settings.budget.item_cap());
            self.library.push(standing);
        }
        self.lay_out();
    }
}

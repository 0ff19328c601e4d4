//! Dialects in which roles take turns: what one role says is gathered in one message until another speaks.

use foreword_core::message::Role;

use super::parts::FIRST_WORD;
use super::wire::{Open, Position, Wire};
use crate::stream::Path;

/// A dialect's words around a turn.
pub(crate) struct Turns {
    /// What opens a message.
    pub(crate) open: &'static str,
    /// What closes the open one.
    pub(crate) close: fn(Open) -> &'static str,
    /// What closes a text.
    pub(crate) end_text: &'static str,
    /// Where a text is.
    pub(crate) text: &'static str,
}

impl Turns {
    /// Lets `open` speak: the message that is open already where it is the same.
    pub(crate) fn speak(&self, wire: &mut Wire, open: Open) {
        if wire.now.open == open {
            return;
        }
        wire.raw((self.close)(wire.now.open));
        wire.next_message(open);
        wire.raw(self.open);
    }

    /// The user's words in front of a conversation that has none there.
    pub(crate) fn first_word(&self, wire: &mut Wire) {
        self.speak(wire, Open::User);
        let start = wire.next_part();
        wire.raw(r#"{"text":""#);
        wire.raw(FIRST_WORD);
        wire.raw(self.end_text);
        let at = Position { role: Role::User, path: Path::new(self.text, wire.place(), 0), opens: true, ends: true };
        wire.engine("placeholder", FIRST_WORD, at, start);
    }
}

/// Where the part that was begun last stands; `ends` where it is the last of its message.
pub(crate) fn position(wire: &Wire, role: Role, form: &'static str, ends: bool) -> Position {
    Position { role, path: Path::new(form, wire.place(), wire.now.part - 1), opens: wire.now.part == 1, ends }
}

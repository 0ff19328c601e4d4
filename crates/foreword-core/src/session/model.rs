//! Another model in mid-session: other prices, another budget, another way to tell it of tools, and another way to count. Other settings.

use std::sync::Arc;

use super::{Due, Session};
use crate::envelope::FoldReason;
use crate::history::Unit;
use crate::item::Kind;
use crate::library::Standing;
use crate::message::{Message, Piece, Role};
use crate::prompt::ToolStyle;
use crate::settings::Settings;
use crate::tokens::Tokenizer;

impl Session {
    /// Goes on with another model: its prices, its budget and its tool style are taken over, what stands is counted anew, and the next
    /// request begins an epoch. A request is due where the last one has no answer yet.
    pub fn change_model(&mut self, settings: &Settings, tokenizer: Arc<dyn Tokenizer>) -> Due {
        let waits = self.history.answerable;
        self.forget_opaque();
        self.settings.prices = settings.prices;
        self.settings.budget = settings.budget.clone();
        self.settings.tools = settings.tools;
        self.settings.images = settings.images;
        if self.settings.tools != ToolStyle::UseTool {
            self.library.retain(|entry| entry.version.id.kind() != Kind::Tool);
        }
        self.tokenizer = tokenizer;
        self.recount();
        // What was folded for the other model is not taken back for this one.
        self.undo = None;
        if self.requests == 0 {
            self.epoch.tools = None;
            self.seat_members();
            self.lay_out();
            return Due::Nothing;
        }
        self.want_fold(FoldReason::ModelChanged);
        if waits { Due::Request } else { Due::Nothing }
    }

    /// Goes on with other settings: all of them but its name, its prices and its way to tell of tools, which are the model's. Another
    /// layout begins an epoch with the next request; everything else takes effect as the session goes on.
    pub fn change_settings(&mut self, settings: &Settings) {
        let old = &self.settings;
        let (session, prices, tools) = (old.session.clone(), old.prices, old.tools);
        let relaid = old.layout != settings.layout;
        self.settings = Settings { session, prices, tools, ..settings.clone() };
        if !relaid {
            return;
        }
        // A fold that is taken back would lay out the old way again.
        self.undo = None;
        if self.requests == 0 {
            self.lay_out();
        } else {
            self.want_fold(FoldReason::LayoutChanged);
        }
    }

    /// Counts everything that the next layout is made from.
    fn recount(&mut self) {
        let mut units = std::mem::take(&mut self.history.units);
        for unit in &mut units {
            match unit {
                Unit::User(message) | Unit::Said(message) | Unit::Engine(message) => self.recount_message(message),
                Unit::Calls(message, outputs) => {
                    self.recount_message(message);
                    for output in outputs {
                        self.recount_message(&mut output.full);
                        self.recount_message(&mut output.stub);
                    }
                }
            }
        }
        self.history.units = units;
        if let Some((mut message, open)) = self.history.open.take() {
            self.recount_message(&mut message);
            self.history.open = Some((message, open));
        }
        let entries = self.library.entries().to_vec();
        self.library = crate::library::Library::default();
        for entry in entries {
            // The cap of an item is another too: the fold makes its block anew.
            self.library.push(Standing { tokens: self.count(&entry.block), plain: false, ..entry });
        }
        let tokenizer = Arc::clone(&self.tokenizer);
        for notice in &mut self.pending_notices {
            notice.tokens = tokenizer.count(&notice.text);
        }
        if let Some(turn) = &mut self.turn {
            for notice in &mut turn.notices {
                notice.tokens = tokenizer.count(&notice.text);
            }
            for part in turn.results.iter_mut().flat_map(|result| &mut result.parts) {
                part.tokens = tokenizer.count(&part.text);
            }
        }
    }

    fn recount_message(&self, message: &mut Arc<Message>) {
        let recounted = |piece: &Piece| Piece { tokens: self.count(&piece.text), ..piece.clone() };
        let mut again = Message { pieces: message.pieces.iter().map(recounted).collect(), ..Message::clone(message) };
        if again.role == Role::Assistant {
            again.extra_tokens = self.wordless_tokens(&again);
        }
        *message = Arc::new(again);
    }
}

//! Changes of the model and the settings during a session.

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
    /// Continues with another model: uses its prices, budget and tool format, recounts all tokens, and begins an epoch with the
    /// next request. A request is due if the last one has no answer yet.
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

    /// Continues with other settings, except the name, prices and tool format, which belong to the model. A new layout begins an
    /// epoch with the next request; other settings take effect gradually.
    pub fn change_settings(&mut self, settings: &Settings) {
        let old = &self.settings;
        let (session, tools, prices) = (old.session.clone(), old.tools, old.prices);
        let relaid = old.layout != settings.layout;
        self.settings = Settings { session, tools, prices, ..settings.clone() };
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

    /// Recounts the tokens of everything that the next layout uses.
    fn recount(&mut self) {
        let mut units = std::mem::take(&mut self.history.units);
        for unit in &mut units {
            match unit {
                Unit::User(message) | Unit::PastMessage(message) | Unit::Engine(message) => self.recount_message(message),
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

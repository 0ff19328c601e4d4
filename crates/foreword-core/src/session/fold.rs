//! Folds: the only place where the prefix is rewritten, and what decides that it is time for one.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::fold_plan::FoldPlan;
use super::rent::Planned;
use super::{Epoch, Session, push_message};
use crate::budget::{Budget, OverBudget, Share};
use crate::catalog::Include;
use crate::envelope::{FoldReason, Form, LayerSum, LeftOut};
use crate::hash::Hash;
use crate::item::Kind;
use crate::library::{Library, Place, Standing};
use crate::select::Reason;
use crate::settings::Layout;
use crate::tokens::Tokens;
use crate::version::RenderOptions;

/// What a fold replaced.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Undo {
    epoch: Epoch,
    library: Library,
    /// How many messages of the new epoch stand for the old ones.
    replaced_by: usize,
    /// The first turn whose items came after it.
    turn: usize,
    /// The running turn's message as it was, where the fold came in the middle of it.
    message: Option<Arc<crate::message::Message>>,
    /// Outputs that stood whole although they were old.
    spared: BTreeSet<usize>,
}

impl Session {
    /// Why the next request should begin a new epoch, if it should.
    pub(super) fn fold_reason(&mut self) -> Option<FoldReason> {
        if let Some(reason) = self.pending_fold.take() {
            if reason != FoldReason::Asked || self.requests > 0 {
                return Some(reason);
            }
            self.note("nothing_to_fold", None, "there is nothing to fold before the first request");
        }
        let cold = self.settings.prices.lifetime_s.is_some_and(|lifetime| self.idle_s >= lifetime);
        if cold && self.folds_when_cold() {
            return Some(FoldReason::CacheCold);
        }
        if self.settings.layout != Layout::Log {
            return None;
        }
        // In `library` every turn rebuilds the prompt, and the summary is placed then.
        if self.summary_waits && self.is_managed() && self.policy_cut() > self.epoch.shown.cut {
            return Some(FoldReason::Managed);
        }
        self.fold_pays().then_some(FoldReason::Pays)
    }

    /// Whether the next request would be folded because the provider has forgotten the prompt: all of it is written again anyway.
    pub fn folds_when_cold(&self) -> bool {
        let grown = match self.settings.layout {
            Layout::Log => self.epoch.messages.len() > self.epoch.base,
            Layout::Library => self.epoch.rent.is_due(),
        };
        grown && self.requests > 0
    }

    /// A running turn whose results no longer fit.
    pub(super) fn outgrown(&mut self) -> Option<FoldReason> {
        if self.total() > self.settings.budget.prompt || self.over_layer_cap() {
            return Some(FoldReason::Budget);
        }
        if !self.over_window() {
            return None;
        }
        match self.settings.layout {
            Layout::Log => Some(FoldReason::Window),
            Layout::Library => {
                self.epoch.shown.cut = self.policy_cut();
                self.lay_out();
                self.append_running();
                None
            }
        }
    }

    /// Rewrites the prompt: current Versions go to L2, stale and unused ones leave, old outputs become stubs, old runs the summary. So
    /// many more tokens than usual are kept free.
    pub(super) fn fold(&mut self, reason: FoldReason, free: Tokens, planned: Option<&Planned>) -> Result<(), OverBudget> {
        let spared = self.spare_outputs(planned);
        self.forget_opaque();
        let fresh = !self.is_placed();
        if fresh {
            self.settle_past();
        }
        let library = self.library.clone();
        if let Some(turn) = &mut self.turn {
            // A rule that joined stands in L1 from here on.
            turn.notices.retain(|notice| notice.item.kind() != Kind::Rule || notice.version.is_none());
        }
        self.pending_notices.retain(|notice| notice.item.kind() != Kind::Rule || notice.version.is_none());
        // What had no room before may have it now.
        self.seat_members();
        let fold = match self.plan_fold(reason, free) {
            Ok(fold) => fold,
            Err(over) => {
                self.library = library;
                self.spare_again(&spared);
                return Err(over);
            }
        };
        let message = self.turn.as_ref().and_then(|turn| turn.message.clone());
        let turn = self.turn.as_ref().map_or(self.turns, |turn| turn.number + usize::from(!fresh));
        let undo = Undo { epoch: self.epoch.clone(), library, replaced_by: 0, turn, message, spared };
        let before = self.total();
        self.apply_fold(&fold, reason);
        self.summary_waits = false;
        self.epoch.number += 1;
        self.epoch.began = Some(reason);
        let base = self.epoch.messages.len();
        let laid_out = self.total();
        if let Some(turn) = self.turn.clone() {
            let placed = self.place_items(&turn, fold.cap);
            self.commit(placed, &fold.shares, fold.cap);
        }
        self.rest_rent(planned);
        let replaced_by = if fresh { base } else { self.epoch.messages.len() };
        let undoable = !matches!(reason, FoldReason::ItemRemoved | FoldReason::ModelChanged);
        self.undo = undoable.then(|| Box::new(Undo { replaced_by, ..undo }));
        // A turn that is not placed yet is no part of the prompt before the fold, and it is one of the prompt behind it.
        let before = if fresh { before + (self.total() - laid_out) } else { before };
        self.note(
            "fold",
            None,
            format!("epoch {} begins ({}): {} tokens before, {} now", self.epoch.number, reason.as_str(), before, self.total()),
        );
        Ok(())
    }

    fn apply_fold(&mut self, fold: &FoldPlan, reason: FoldReason) {
        let (current, dropped): (Vec<_>, Vec<_>) =
            self.library.current_versions().into_iter().cloned().partition(|entry| fold.keep.contains(&entry.version.id));
        let recent = self.turns.saturating_sub(self.settings.recent_runs + 1);
        let why = |entry: &Standing| {
            if reason == FoldReason::Asked && entry.last_used < recent { Reason::Unused } else { Reason::OverBudget }
        };
        let dropped = dropped.into_iter().filter(|entry| entry.promotable);
        self.dropped =
            dropped.map(|entry| LeftOut { item: entry.version.id.clone(), reason: why(&entry), score: None }).collect();
        self.library = Library::default();
        for entry in current {
            let standing = if entry.plain {
                Standing { place: Place::Library, ..entry }
            } else {
                Standing { since: entry.since, ..self.standing(&entry.version, entry.include, entry.last_used, fold.cap) }
            };
            self.library.push(standing);
        }
        self.epoch.shown = fold.shown;
        self.epoch.tools = Some(fold.tools.clone());
        self.lay_out();
    }

    /// The session as a fold now would leave it within that budget: for asking what another time for it would have cost.
    pub fn folded(&self, budget: &Budget) -> Option<Self> {
        let mut trial = self.clone();
        trial.settings.budget = budget.clone();
        trial.fold(FoldReason::Budget, Tokens::ZERO, None).ok()?;
        Some(trial)
    }

    /// Takes the last fold back: everything it left out stands again, with what was said since behind it.
    pub(super) fn undo_fold(&mut self) {
        if self.pending_fold == Some(FoldReason::Asked) {
            self.pending_fold = None;
            return;
        }
        let Some(undo) = self.undo.take() else {
            self.note("nothing_to_undo", None, "there is no fold to undo");
            return;
        };
        let Undo { epoch: old, library, replaced_by, turn, message, spared } = *undo;
        self.spare_again(&spared);
        self.account_undone();
        let since: Vec<_> = self.library.entries().iter().filter(|entry| entry.since >= turn).cloned().collect();
        self.forget_opaque();
        let mut appended = self.epoch.messages[replaced_by.min(self.epoch.messages.len())..].to_vec();
        // What was thought behind the fold cannot stand behind what it folded.
        for message in &mut appended {
            self.strip(message);
        }
        // What came again since would stand beside what it replaced; then the prompt is laid out anew.
        let twice = since.iter().any(|entry| library.contains(&entry.version.id));
        // So it is where the agent or the session is no longer what the old prompt says.
        let seated = self
            .members
            .iter()
            .all(|(id, _)| !self.stands_in_library(id) || self.pending_members.contains(id) || library.contains(id));
        let stale = old.l1.record().hash != Hash::of(self.l1_text()) || !seated;
        let number = self.epoch.number + 1;
        let folded = std::mem::replace(&mut self.library, library);
        // What was asked for since stays asked for, also where the text is the one that stood before.
        for entry in folded.entries() {
            let (id, hash) = (&entry.version.id, entry.version.hash);
            self.library.touch(id, hash, entry.last_used);
            if entry.include != Include::Agent {
                self.library.adopt(id, hash, entry.include, entry.promotable);
            }
        }
        for entry in since {
            if self.library.find(&entry.version.id, entry.version.hash).is_some() {
                continue;
            }
            let supersedes = self.library.contains(&entry.version.id);
            let (block, tokens, cut) =
                self.capped_block(&entry.version, RenderOptions::superseding(supersedes), self.settings.budget.item_cap());
            let again = if supersedes { Standing { block, tokens, cut, plain: false, form: Form::Full, ..entry } } else { entry };
            self.library.push(again);
        }
        if let (Some(message), Some(running)) = (message, &mut self.turn)
            && running.number < turn
        {
            running.message = Some(message);
        }
        if self.settings.layout == Layout::Log && !twice && !stale {
            self.epoch = old;
            for message in &appended {
                self.append(message);
            }
            self.sum_history();
        } else {
            (self.epoch.shown, self.epoch.tools) = (old.shown, old.tools);
            let running = self.turn.clone();
            let now = running.as_ref().map_or(self.turns, |turn| turn.number);
            self.library.retain(|entry| entry.since < now);
            self.library.promote(now);
            self.write_out_diffs();
            self.seat_members();
            self.lay_out();
            if let Some(turn) = running {
                let cap = self.settings.budget.item_cap();
                let placed = self.place_items(&turn, cap);
                let shares = vec![Share::Full; placed.len() + turn.results.len()];
                self.commit(placed, &shares, cap);
            }
        }
        self.epoch.number = number;
        self.epoch.began = Some(FoldReason::Undone);
        self.rest_rent(None);
        self.note("fold_undone", None, format!("epoch {number} begins: the fold was undone"));
    }

    /// What stood as a diff in a message is a text of its own in L2.
    fn write_out_diffs(&mut self) {
        let entries = self.library.entries().to_vec();
        self.library = Library::default();
        for entry in entries {
            let entry = if entry.form == Form::Diff {
                let (block, tokens, cut) =
                    self.capped_block(&entry.version, RenderOptions::superseding(true), self.settings.budget.item_cap());
                Standing { block, tokens, cut, form: Form::Full, plain: false, ..entry }
            } else {
                entry
            };
            self.library.push(entry);
        }
    }

    /// Sums L4 anew from the messages.
    fn sum_history(&mut self) {
        let system = usize::from(self.epoch.messages.first().is_some_and(|message| message.role == crate::message::Role::System));
        let user = self.running_at().unwrap_or(self.epoch.messages.len());
        let mut past = LayerSum::default();
        for message in &self.epoch.messages[system..user] {
            push_message(&mut past, message);
        }
        self.epoch.now = past.clone();
        self.epoch.past = past;
        self.epoch.absorbed = user;
        for message in &self.epoch.messages[(user + 1).min(self.epoch.messages.len())..] {
            push_message(&mut self.epoch.now, message);
        }
    }
}

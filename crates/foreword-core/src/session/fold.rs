//! Folds: the only place where the prefix is rewritten, and what decides that it is time for one.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::fold_plan::FoldPlan;
use super::{Epoch, Session, push_message};
use crate::budget::{Budget, OverBudget, Share};
use crate::catalog::Include;
use crate::envelope::{FoldReason, Form, LayerSum, LeftOut};
use crate::hash::Hash;
use crate::history::{Output, Unit};
use crate::item::{ItemId, Kind};
use crate::library::{Library, Place, Standing};
use crate::select::Reason;
use crate::settings::{HistoryPolicy, Layout};
use crate::tokens::Tokens;
use crate::version::Dress;

/// Which share of a fold's price the rent has to reach. Sessions that have come this far mostly go on for a while.
const EAGERNESS: f64 = 0.8;

/// What foldable tokens cost in cache reads since the last fold.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Rent {
    paid: f64,
    /// Size of the last request.
    sent: Tokens,
    /// What a fold would leave out.
    foldable: Tokens,
    /// Size of the prompt before the first of it.
    first_at: Option<Tokens>,
    /// Outputs that are still too new to be stubs: where they stand and what a stub would save.
    recent: VecDeque<(Tokens, Tokens)>,
    /// Where the runs of this epoch begin, for policies that leave old ones out.
    runs: VecDeque<Tokens>,
    /// Whether texts stand in messages that a fold would move to L2.
    moves: bool,
}

impl Rent {
    fn add(&mut self, at: Tokens, tokens: Tokens) {
        if tokens > Tokens::ZERO {
            self.foldable += tokens;
            self.first_at = Some(self.first_at.map_or(at, |first| first.min(at)));
        }
    }
}

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
        let grown = match self.settings.layout {
            Layout::Log => self.epoch.messages.len() > self.epoch.base,
            Layout::Library => self.epoch.rent.foldable > Tokens::ZERO,
        };
        if cold && grown && self.requests > 0 {
            return Some(FoldReason::CacheCold);
        }
        if self.settings.layout != Layout::Log {
            return None;
        }
        // In `library` every turn lays the prompt out anew, and a summary takes its place then.
        if self.summary_waits && self.is_managed() && self.policy_cut() > self.epoch.shown.cut {
            return Some(FoldReason::Managed);
        }
        self.fold_pays().then_some(FoldReason::Pays)
    }

    /// Ski rental: with this request, renting (reading foldable tokens from the cache) has cost as much as buying (rewriting
    /// without them) would. What is new since the last request is written either way and is no part of the price.
    fn fold_pays(&self) -> bool {
        let rent = &self.epoch.rent;
        let prices = self.settings.prices;
        let Some(first) = rent.first_at else { return false };
        let system = self.epoch.l1.tokens() + self.epoch.l2.tokens();
        let from = if rent.moves { system } else { first };
        let rewritten = rent.sent.min(self.epoch.total) - rent.foldable - from;
        let cost = rewritten * (prices.write - prices.read);
        let paid = rent.paid + rent.foldable * prices.read;
        prices.write > prices.read && rent.foldable > Tokens::ZERO && paid >= cost * EAGERNESS
    }

    /// Each request pays for what it could have left out.
    pub(super) fn pay_rent(&mut self) {
        self.epoch.rent.paid += self.epoch.rent.foldable * self.settings.prices.read;
        self.epoch.rent.sent = self.epoch.total;
    }

    /// A new output stands at the end; the one that is now too old to stay whole becomes foldable.
    pub(super) fn rent_output(&mut self, output: &Output) {
        let at = self.epoch.total;
        self.epoch.rent.recent.push_back((at, output.saving()));
        if self.epoch.rent.recent.len() > self.settings.keep_outputs
            && let Some((at, saving)) = self.epoch.rent.recent.pop_front()
        {
            self.epoch.rent.add(at, saving);
        }
    }

    /// The Version before this one is out of date.
    pub(super) fn rent_superseded(&mut self, id: &ItemId) {
        self.epoch.rent.moves = true;
        if let Some(old) = self.library.newest(id) {
            let (at, tokens) = (old.at, old.tokens);
            self.epoch.rent.add(at, tokens);
        }
    }

    /// A run begins; one that the policy would leave out becomes foldable.
    pub(super) fn rent_starts_turn(&mut self, turn: usize) {
        let HistoryPolicy::Strip { keep_runs, .. } = self.settings.history else { return };
        let at = self.epoch.total;
        if turn == 0 || self.epoch.rent.runs.back() == Some(&at) {
            return;
        }
        self.epoch.rent.runs.push_back(at);
        if self.epoch.rent.runs.len() > keep_runs + 1
            && let Some(begins) = self.epoch.rent.runs.pop_front()
        {
            let ends = self.epoch.rent.runs.front().copied().unwrap_or(at);
            self.epoch.rent.add(begins, ends - begins);
        }
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
    pub(super) fn fold(&mut self, reason: FoldReason, free: Tokens) -> Result<(), OverBudget> {
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
                return Err(over);
            }
        };
        let message = self.turn.as_ref().and_then(|turn| turn.message.clone());
        let turn = self.turn.as_ref().map_or(self.turns, |turn| turn.number + usize::from(!fresh));
        let undo = Undo { epoch: self.epoch.clone(), library, replaced_by: 0, turn, message };
        let before = self.total();
        self.apply_fold(&fold, reason);
        self.summary_waits = false;
        self.epoch.number += 1;
        self.epoch.began = Some(reason);
        let base = self.epoch.messages.len();
        let laid_out = self.total();
        if let Some(turn) = self.turn.clone() {
            let placed = self.place_items(&turn);
            self.commit(placed, &fold.shares);
        }
        self.tight = false;
        self.rest_rent();
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
                Standing { since: entry.since, ..self.standing(&entry.version, entry.include, entry.last_used) }
            };
            self.library.push(standing);
        }
        self.epoch.shown = fold.shown;
        self.epoch.tools = Some(fold.tools.clone());
        self.lay_out();
    }

    /// Counts again what is foldable in a prompt that was laid out anew.
    fn rest_rent(&mut self) {
        self.epoch.rent = Rent::default();
        let units = self.history.units.iter().skip(self.epoch.shown.cut);
        let outputs = units.filter_map(|unit| if let Unit::Calls(_, outputs) = unit { Some(outputs) } else { None }).flatten();
        // By the call an output answers: that is unique in the conversation.
        let outputs: BTreeMap<&str, &Output> =
            outputs.filter_map(|output| Some((output.full.answers.as_deref()?, output))).collect();
        let mut recent = VecDeque::new();
        let mut at = Tokens::ZERO;
        for message in &self.epoch.messages {
            let output = message.answers.as_deref().and_then(|call| outputs.get(call));
            if let Some(output) = output.filter(|output| output.full == *message) {
                recent.push_back((at, output.saving()));
            }
            at += message.tokens();
        }
        let excess = recent.len().saturating_sub(self.settings.keep_outputs);
        for (at, saving) in recent.drain(..excess) {
            self.epoch.rent.add(at, saving);
        }
        self.epoch.rent.recent = recent;
    }

    /// The session as a fold now would leave it within that budget: for asking what another time for it would have cost.
    pub fn folded(&self, budget: &Budget) -> Option<Self> {
        let mut trial = self.clone();
        trial.settings.budget = budget.clone();
        trial.fold(FoldReason::Budget, Tokens::ZERO).ok()?;
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
        let Undo { epoch: old, library, replaced_by, turn, message } = *undo;
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
            let (block, tokens, cut) = self.capped_block(&entry.version, Dress::superseding(supersedes), self.item_cap());
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
                let placed = self.place_items(&turn);
                let shares = vec![Share::Full; placed.len() + turn.results.len()];
                self.commit(placed, &shares);
            }
        }
        self.epoch.number = number;
        self.epoch.began = Some(FoldReason::Undone);
        self.rest_rent();
        self.note("fold_undone", None, format!("epoch {number} begins: the fold was undone"));
    }

    /// What stood as a diff in a message is a text of its own in L2.
    fn write_out_diffs(&mut self) {
        let entries = self.library.entries().to_vec();
        self.library = Library::default();
        for entry in entries {
            let entry = if entry.form == Form::Diff {
                let (block, tokens, cut) = self.capped_block(&entry.version, Dress::superseding(true), self.item_cap());
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

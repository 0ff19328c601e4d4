//! When a fold pays, and where it begins.
//!
//! Ski rental: each request pays rent, the cache reads of what a fold could leave out. Once the rent has come near the price of the
//! fold, the fold comes. Its price is what has to be written again, as the provider's rules have it. A fold may begin behind outputs that
//! save less than writing everything behind them again would cost; those stay whole.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::Session;
use crate::envelope::FoldReason;
use crate::history::{Output, Unit};
use crate::item::ItemId;
use crate::layer::LayerId;
use crate::message::{Message, Origin, Role};
use crate::settings::{HistoryPolicy, Layout};
use crate::tokens::Tokens;

/// Which share of a fold's price the rent has to reach. Sessions that have come this far mostly go on for a while.
const EAGERNESS: f64 = 0.8;

/// A fold waits while it could leave the session dearer than this many times what it would have cost without any fold: short sessions end
/// before a fold has paid.
const MOST_OVER_UNFOLDED: f64 = 1.08;

/// A session that has made so many requests is not short any more.
const SHORT_SESSION: usize = 40;

/// It does not wait beyond a rent of this many times its price.
const OVERDUE: f64 = 2.0;

/// As many requests as this share of those so far are expected to come: that decides where a fold begins, not when it comes.
const EXPECTED: f64 = 0.5;

/// So many places at which a fold could begin are told apart.
const MOST_PLACES: usize = 256;

/// Something a fold would leave out.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Foldable {
    place: Place,
    saving: Tokens,
}

/// Where something stands in the messages of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Place {
    /// Size of the messages in front of it.
    at: Tokens,
    /// How many there are.
    message: usize,
}

/// What foldable tokens cost in cache reads since the last fold.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Rent {
    paid: f64,
    /// Size of the last request's messages.
    sent: Tokens,
    /// What a fold would leave out, in the order in which it stands.
    foldable: Vec<Foldable>,
    /// Size of all of it.
    saving: Tokens,
    /// Outputs that are still too new to be stubs: where they stand and what a stub would save.
    recent: VecDeque<Foldable>,
    /// Where the runs of this epoch begin, for policies that leave old ones out.
    runs: VecDeque<Place>,
    /// Whether texts stand in messages that a fold would move to L2.
    moves: bool,
    /// The first message that every fold writes otherwise.
    rewritten: Option<Place>,
    /// The first one that it does once the running turn is over.
    rewritten_later: Option<Place>,
}

impl Rent {
    /// Whether a fold would leave anything out.
    pub(super) fn is_due(&self) -> bool {
        self.saving > Tokens::ZERO
    }

    fn add(&mut self, foldable: Foldable) {
        if foldable.saving == Tokens::ZERO {
            return;
        }
        self.saving += foldable.saving;
        let at = self.foldable.partition_point(|known| known.place <= foldable.place);
        self.foldable.insert(at, foldable);
        if self.foldable.len() > MOST_PLACES {
            let joined = |pair: &[Foldable]| Foldable { saving: pair.iter().map(|one| one.saving).sum(), ..pair[0] };
            self.foldable = self.foldable.chunks(2).map(joined).collect();
        }
    }

    /// A message joins the request.
    pub(super) fn appended(&mut self, message: &Message, place: Place) {
        if message.role == Role::User && message.pieces.iter().any(|piece| piece.layer == LayerId::L5) {
            // A turn begins, and the one before it is over.
            self.rewritten = self.rewritten.or(self.rewritten_later.take());
        }
        if !message.opaque.is_empty() {
            self.rewritten.get_or_insert(place);
        }
        let by_engine = match message.pieces.first().map(|piece| &piece.origin) {
            Some(Origin::Engine(word)) => *word != "summary" && place.message > 0,
            _ => false,
        };
        let with_context = message.role == Role::User && message.pieces.iter().any(|piece| piece.layer == LayerId::L3);
        if by_engine || with_context {
            self.rewritten_later.get_or_insert(place);
        }
    }

    fn restart(&mut self, paid: f64) {
        *self = Self { paid, ..Self::default() };
    }
}

/// What the session cost so far, and what it would have cost without the folds that came because they paid.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Account {
    paid: f64,
    unfolded: f64,
    /// What those folds left out.
    removed: Tokens,
}

/// A fold as it would be now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    /// The first message that it writes otherwise.
    start: Place,
    /// What it leaves out.
    saving: Tokens,
    /// What is read of the prompt.
    read: Tokens,
    /// What it costs beyond a request that was always that small.
    price: f64,
    /// Outputs in front of this message stay whole.
    whole_before: usize,
}

impl Session {
    /// Where the next message will stand.
    pub(super) fn end_place(&self) -> Place {
        Place { at: self.epoch.total, message: self.epoch.messages.len() }
    }

    fn tool_tokens(&self) -> Tokens {
        self.epoch.tools.as_ref().map_or(Tokens::ZERO, |tools| tools.tokens)
    }

    /// Size of the last request, tools included; nothing before the first.
    pub(super) fn sent(&self) -> Tokens {
        let sent = self.epoch.rent.sent.min(self.epoch.total);
        if sent == Tokens::ZERO { sent } else { sent + self.tool_tokens() }
    }

    /// The first message that a fold now would write otherwise, whatever it leaves out.
    fn rewritten(&self) -> Option<Place> {
        let rent = &self.epoch.rent;
        // Where a new turn waits, the last one is over.
        if self.is_placed() { rent.rewritten } else { rent.rewritten.into_iter().chain(rent.rewritten_later).min() }
    }

    /// Whether outputs can stay whole through a fold while later ones become stubs.
    fn folds_in_part(&self) -> bool {
        !self.epoch.rent.moves && self.settings.history == HistoryPolicy::Full
    }

    /// The fold that saves most over the requests that are expected to come; none where there is nothing to leave out.
    fn planned_fold(&self) -> Option<Planned> {
        let rent = &self.epoch.rent;
        let prices = &self.settings.prices;
        let (sent, tools) = (self.sent(), self.tool_tokens());
        let in_part = self.folds_in_part();
        let expected = (self.requests as f64 * EXPECTED).max(1.0);
        let system = Place { at: self.epoch.l1.tokens() + self.epoch.l2.tokens(), message: 1 };
        let mut saving = rent.saving;
        let mut best: Option<(f64, Planned)> = None;
        let places = if in_part { rent.foldable.len() } else { 1 };
        for foldable in rent.foldable.iter().take(places) {
            let first = self.rewritten().map_or(foldable.place, |rewritten| rewritten.min(foldable.place));
            let start = if rent.moves { first.min(system) } else { first };
            let smaller = sent - saving;
            let read = prices.served(start.at + tools).min(smaller);
            let price = (smaller - read) * (prices.write - prices.read) * prices.factor(smaller);
            let gain = (prices.prompt(sent, sent) - prices.prompt(smaller, smaller)) * expected - price;
            let whole_before = if in_part { foldable.place.message } else { 0 };
            let planned = Planned { start, saving, read, price, whole_before };
            if best.as_ref().is_none_or(|(most, _)| gain > *most) {
                best = Some((gain, planned));
            }
            saving = saving - foldable.saving;
        }
        best.map(|(_, planned)| planned)
    }

    /// Whether renting (reading foldable tokens from the cache) has cost about as much by now as buying (writing the rest again) would. What
    /// is new since the last request is written either way and is no part of the price.
    pub(super) fn fold_pays(&self) -> bool {
        let rent = &self.epoch.rent;
        let prices = &self.settings.prices;
        if prices.write <= prices.read || !rent.is_due() {
            return false;
        }
        let Some(planned) = self.planned_fold() else { return false };
        let sent = self.sent();
        let smaller = sent - planned.saving;
        let now = prices.prompt(sent, sent) - prices.prompt(smaller, smaller);
        let share = planned.saving.0 as f64 / rent.saving.0.max(1) as f64;
        let paid = rent.paid * share + now;
        if paid < planned.price * EAGERNESS {
            return false;
        }
        let new = (self.total() - sent) * prices.write;
        let Account { paid: so_far, unfolded, removed } = self.account;
        let folded = so_far + prices.prompt(smaller, smaller) + planned.price + new;
        let unfolded = unfolded + (sent + removed) * prices.read * prices.factor(sent + removed) + new;
        let is_safe = folded <= unfolded * MOST_OVER_UNFOLDED;
        is_safe || self.requests >= SHORT_SESSION || paid >= planned.price * OVERDUE
    }

    /// The fold that comes for a reason, where it may begin behind outputs that stay whole.
    pub(super) fn fold_in_part(&self, reason: Option<FoldReason>) -> Option<Planned> {
        if reason == Some(FoldReason::Pays) { self.planned_fold() } else { None }
    }

    /// How many messages of this request the next fold will leave as they are, as far as that is known: a cache mark there lets it read them.
    pub fn before_next_fold(&self) -> Option<usize> {
        let rent = &self.epoch.rent;
        if self.settings.layout != Layout::Log || rent.moves {
            return None;
        }
        let planned = self.planned_fold().map(|planned| planned.start);
        let start = planned.or_else(|| rent.recent.iter().find(|recent| recent.saving > Tokens::ZERO).map(|recent| recent.place));
        let rewritten = rent.rewritten.into_iter().chain(rent.rewritten_later).min();
        start.map(|start| rewritten.map_or(start, |rewritten| rewritten.min(start)).message)
    }

    /// Puts a request on the account, and lets it pay for what it could have left out. `planned` is the fold it began with.
    pub(super) fn pay(&mut self, sent: Tokens, began: Option<FoldReason>, planned: Option<&Planned>) {
        let prices = &self.settings.prices;
        let total = self.total();
        let account = &mut self.account;
        match (began, planned) {
            (Some(_), None) => {
                // It was folded for something else: that would have come without the other folds too.
                let cost = prices.prompt(Tokens::ZERO, total);
                account.removed = Tokens::ZERO;
                account.paid += cost;
                account.unfolded += cost;
            }
            (_, planned) => {
                let saving = planned.map_or(Tokens::ZERO, |planned| planned.saving);
                let read = planned.map_or(sent, |planned| planned.read);
                let new = total - (sent - saving);
                account.paid += prices.prompt(read, total);
                account.unfolded += prices.prompt(sent + account.removed, sent + account.removed + new);
                account.removed += saving;
            }
        }
        let smaller = total - self.epoch.rent.saving;
        self.epoch.rent.paid += prices.prompt(total, total) - prices.prompt(smaller, smaller);
        self.epoch.rent.sent = self.epoch.total;
    }

    /// A fold was taken back: what it left out stands again.
    pub(super) fn account_undone(&mut self) {
        self.account.removed = Tokens::ZERO;
    }

    /// A new output stands at the end; the one that is now too old to stay whole becomes foldable.
    pub(super) fn rent_output(&mut self, output: &Output) {
        let place = self.end_place();
        self.epoch.rent.recent.push_back(Foldable { place, saving: output.saving() });
        if self.epoch.rent.recent.len() > self.settings.keep_outputs
            && let Some(foldable) = self.epoch.rent.recent.pop_front()
        {
            self.epoch.rent.add(foldable);
        }
    }

    /// The Version before this one is out of date.
    pub(super) fn rent_superseded(&mut self, id: &ItemId) {
        self.epoch.rent.moves = true;
        if let Some(old) = self.library.newest(id) {
            // A fold that moves texts begins at the system message, so it does not matter which message this is.
            let foldable = Foldable { place: Place { at: old.at, message: 1 }, saving: old.tokens };
            self.epoch.rent.add(foldable);
        }
    }

    /// A run begins; one that the policy would leave out becomes foldable.
    pub(super) fn rent_starts_turn(&mut self, turn: usize) {
        let HistoryPolicy::Strip { keep_runs, .. } = self.settings.history else { return };
        let place = self.end_place();
        if turn == 0 || self.epoch.rent.runs.back() == Some(&place) {
            return;
        }
        self.epoch.rent.runs.push_back(place);
        if self.epoch.rent.runs.len() > keep_runs + 1
            && let Some(begins) = self.epoch.rent.runs.pop_front()
        {
            let ends = self.epoch.rent.runs.front().copied().unwrap_or(place);
            self.epoch.rent.add(Foldable { place: begins, saving: ends.at - begins.at });
        }
    }

    /// Decides which outputs stay whole through a fold: those in front of where it begins. Gives back those that did so far.
    pub(super) fn spare_outputs(&mut self, planned: Option<&Planned>) -> BTreeSet<usize> {
        let before: BTreeSet<usize> =
            self.history.all_outputs().filter(|output| output.spared).map(|output| output.sequence).collect();
        let until = planned.map_or(0, |planned| planned.whole_before);
        let ahead = &self.epoch.messages[..until.min(self.epoch.messages.len())];
        let whole: BTreeSet<&str> = ahead.iter().filter_map(|message| message.answers.as_deref()).collect();
        if !before.is_empty() || !whole.is_empty() {
            let stubs_before = self.epoch.shown.stubs_before;
            for output in self.history.all_outputs_mut() {
                let is_whole = output.sequence >= stubs_before || output.spared;
                output.spared = is_whole && output.full.answers.as_deref().is_some_and(|call| whole.contains(call));
            }
        }
        before
    }

    /// Takes back which outputs stay whole.
    pub(super) fn spare_again(&mut self, spared: &BTreeSet<usize>) {
        for output in self.history.all_outputs_mut() {
            output.spared = spared.contains(&output.sequence);
        }
    }

    /// Recounts the foldable tokens after the prompt was rebuilt.
    pub(super) fn rest_rent(&mut self, planned: Option<&Planned>) {
        let rent = &self.epoch.rent;
        let kept = planned.map_or(0.0, |planned| 1.0 - planned.saving.0 as f64 / rent.saving.0.max(1) as f64);
        let paid = rent.paid * kept.max(0.0);
        let mut rent = std::mem::take(&mut self.epoch.rent);
        rent.restart(paid);
        let shown = self.history.units.get(self.epoch.shown.cut..).unwrap_or_default();
        let outputs = shown.iter().filter_map(|unit| if let Unit::Calls(_, outputs) = unit { Some(outputs) } else { None });
        // By the call an output answers: that is unique in the conversation.
        let outputs: BTreeMap<&str, &Output> =
            outputs.flatten().filter_map(|output| Some((output.full.answers.as_deref()?, output))).collect();
        let mut at = Tokens::ZERO;
        for (index, message) in self.epoch.messages.iter().enumerate() {
            let place = Place { at, message: index };
            rent.appended(message, place);
            let output = message.answers.as_deref().and_then(|call| outputs.get(call));
            if let Some(output) = output.filter(|output| output.full == *message) {
                rent.recent.push_back(Foldable { place, saving: output.saving() });
            }
            at += message.tokens();
        }
        let excess = rent.recent.len().saturating_sub(self.settings.keep_outputs);
        let old: Vec<Foldable> = rent.recent.drain(..excess).collect();
        for foldable in old {
            rent.add(foldable);
        }
        self.epoch.rent = rent;
    }
}

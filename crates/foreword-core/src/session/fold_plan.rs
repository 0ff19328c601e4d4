//! Decides what a fold keeps: all candidates are put in one order and given to the planner.
//!
//! Order of removal, last to first: the newest results in full; this turn's attachments, tool results and selected items; the
//! session's references; the running turn's earlier steps; a summary; the newest messages; other library items, by last use; older
//! messages. Never removed: tools, L1, L5, the current step, the newest calls.
//!
//! What is kept of the library depends neither on the words that were said nor on where earlier folds came: that is what makes a larger
//! budget hold what a smaller one holds (docs/decisions/budget.md).

use std::collections::BTreeSet;
use std::ops::Range;

use super::compose::{How, Placed, chosen_tools};
use super::draft::JOIN;
use super::system::LIBRARY_HEADING;
use super::{Session, Turn};
use crate::budget::{Candidate, Limit, Mandatory, OverBudget, Share, plan};
use crate::envelope::{FoldReason, Form};
use crate::hash::Hash;
use crate::history::Shown;
use crate::item::ItemId;
use crate::layer::LayerId;
use crate::library::{Library, Place, Standing};
use crate::prompt::ToolPlan;
use crate::tokens::Tokens;
use crate::version::RenderOptions;

/// Reserved room: sizes are planned before parts are joined, and a tokenizer may count the seams differently.
const SEAMS: Tokens = Tokens(8);

/// The result of a fold: what stays in the prompt, and the shares of the turn's items.
pub(super) struct FoldPlan {
    pub(super) keep: BTreeSet<ItemId>,
    pub(super) shown: Shown,
    pub(super) shares: Vec<Share>,
    /// The limit of one item.
    pub(super) cap: Tokens,
    pub(super) tools: ToolPlan,
    /// Whether everything that the turn and the session ask for is included in full.
    complete: bool,
}

/// The source of a candidate.
enum CandidateSource {
    /// The newest results in full.
    Newest,
    /// An item or result of the turn, with its ID if it would be in L2.
    Turn(Option<ItemId>),
    /// A library item that is not requested now.
    Library(ItemId),
    /// A unit of the history.
    Unit(usize),
    /// The summary of the removed history.
    Summary,
}

/// A Version that may stay in L2 after the fold.
struct Resident {
    id: ItemId,
    hash: Hash,
    tokens: Tokens,
    last_used: usize,
}

/// The candidates in order.
#[derive(Default)]
struct Candidates {
    seats: Vec<CandidateSource>,
    candidates: Vec<Candidate>,
}

impl Candidates {
    fn push(&mut self, seat: CandidateSource, layer: LayerId, tokens: Tokens, limit: Limit) {
        self.seats.push(seat);
        self.candidates.push(Candidate { layer, tokens, cuttable: false, limit });
    }
}

impl Session {
    /// Decides what a fold keeps. If the turn's items do not all fit, decides again with a smaller limit per item.
    pub(super) fn plan_fold(&mut self, reason: FoldReason, free: Tokens) -> Result<FoldPlan, OverBudget> {
        let whole = self.try_fold(reason, free, self.settings.budget.item_cap())?;
        if whole.complete {
            return Ok(whole);
        }
        self.try_fold(reason, free, self.settings.budget.tight_item_cap())
    }

    fn try_fold(&mut self, reason: FoldReason, free: Tokens, cap: Tokens) -> Result<FoldPlan, OverBudget> {
        let turn = self.turn.clone();
        let tools = self.tools_after_fold(turn.as_ref());
        let residents = self.residents(turn.as_ref(), reason, cap);
        let placed = self.placed_after_fold(turn.as_ref(), &residents, cap);
        let floor = self.fold_floor(reason);
        let summary = self.summary_room();
        let ballot = self.ballot(turn.as_ref(), &placed, &residents, floor, summary);
        let mut mandatory = self.fold_mandatory(turn.as_ref(), &tools, !residents.is_empty());
        mandatory.frames += (SEAMS + free).min(self.settings.budget.prompt - mandatory.total());
        let shares = plan(&self.settings.budget, mandatory, &ballot.candidates)?;

        let mut fold =
            FoldPlan { keep: BTreeSet::new(), shown: Shown::default(), shares: Vec::new(), cap, tools, complete: true };
        let user = self.current_user().unwrap_or(self.history.units.len());
        let newest = self.newest_calls().map(|(at, _)| at).filter(|at| *at > user + 1);
        // Where no unit fits, the newest calls stay with the user's words, or these alone.
        let mut cut = newest.unwrap_or(user);
        fold.shown.stubs_before = self.history.outputs.saturating_sub(self.settings.keep_outputs);
        for ((seat, candidate), share) in ballot.seats.into_iter().zip(&ballot.candidates).zip(shares) {
            let taken = share == Share::Full;
            let asked_for =
                matches!(seat, CandidateSource::Turn(_) | CandidateSource::Library(_)) && candidate.limit == Limit::Budget;
            fold.complete &= taken || !asked_for;
            match seat {
                CandidateSource::Newest if !taken => fold.shown.stubs_before = self.history.outputs,
                CandidateSource::Summary => fold.shown.no_summary = !taken && candidate.tokens > Tokens::ZERO,
                CandidateSource::Unit(at) if taken => cut = cut.min(at),
                CandidateSource::Library(id) if taken => {
                    fold.keep.insert(id);
                }
                CandidateSource::Turn(resident) => {
                    fold.keep.extend(resident.filter(|_| taken));
                    fold.shares.push(share);
                }
                CandidateSource::Newest | CandidateSource::Unit(_) | CandidateSource::Library(_) => {}
            }
        }
        fold.shown.cut = if cut == user + 1 { user } else { cut }.max(floor);
        Ok(fold)
    }

    /// Each epoch has a new tool list.
    fn tools_after_fold(&self, turn: Option<&Turn>) -> ToolPlan {
        self.tool_plan(&turn.map(chosen_tools).unwrap_or_default(), None)
    }

    /// The Versions that may be in L2: one per item. Items of this turn stay with the turn.
    fn residents(&mut self, turn: Option<&Turn>, reason: FoldReason, cap: Tokens) -> Vec<Resident> {
        let join = self.count(JOIN);
        let of_turn = |entry: &Standing| turn.is_some_and(|turn| turn.number == entry.since) && entry.place == Place::Message;
        // Who asks for a fold wants room: what no recent run asked for leaves.
        let recent = self.turns.saturating_sub(self.settings.recent_runs + 1);
        let is_used =
            |entry: &Standing| reason != FoldReason::Asked || entry.last_used >= recent || self.stays(&entry.version.id);
        let current = self.library.current_versions().into_iter();
        let standing: Vec<Standing> =
            current.filter(|entry| entry.promotable && !of_turn(entry) && is_used(entry)).cloned().collect();
        let resident = |entry: &Standing| {
            let tokens = if entry.plain { entry.tokens } else { self.capped_block(&entry.version, RenderOptions::PLAIN, cap).1 };
            Resident { id: entry.version.id.clone(), hash: entry.version.hash, tokens: tokens + join, last_used: entry.last_used }
        };
        standing.iter().map(resident).collect()
    }

    /// How the turn's items are shown if the residents stay.
    fn placed_after_fold(&mut self, turn: Option<&Turn>, residents: &[Resident], cap: Tokens) -> Vec<Placed> {
        let Some(turn) = turn else { return Vec::new() };
        let mut kept = Library::default();
        let stays = |entry: &Standing| {
            residents.iter().any(|resident| resident.id == entry.version.id && resident.hash == entry.version.hash)
        };
        for entry in self.library.current_versions().into_iter().filter(|entry| stays(entry)) {
            kept.push(Standing { place: Place::Library, form: Form::Full, ..entry.clone() });
        }
        let whole = std::mem::replace(&mut self.library, kept);
        let placed = self.place_items(turn, cap);
        self.library = whole;
        placed
    }

    /// The first unit that a fold may show: from the history policy, and the recent turns if the user asked for the fold.
    fn fold_floor(&self, reason: FoldReason) -> usize {
        let asked = if reason == FoldReason::Asked { self.history.runs_back(self.settings.recent_runs) } else { 0 };
        self.policy_cut().max(asked)
    }

    fn ballot(
        &self,
        turn: Option<&Turn>,
        placed: &[Placed],
        residents: &[Resident],
        floor: usize,
        summary: Tokens,
    ) -> Candidates {
        let mut ballot = Candidates::default();
        let units = &self.history.units;
        let user = self.current_user().unwrap_or(units.len());
        let newest = self.newest_calls().map(|(at, _)| at);
        if let Some(at) = newest {
            let size = |stubs_before| units[at..].iter().map(|unit| unit.tokens(stubs_before)).sum::<Tokens>();
            ballot.push(CandidateSource::Newest, LayerId::L4, size(0) - size(usize::MAX), Limit::Budget);
        }
        if let Some(turn) = turn {
            let referred = placed.iter().map(|placed| match placed.how {
                How::Reference(_) => residents.iter().find(|resident| resident.id == placed.wanted.version.id),
                _ => None,
            });
            let (attached, chosen): (Vec<_>, Vec<_>) = referred.enumerate().partition(|(at, _)| *at < turn.attached.len());
            let results = turn.results.iter().map(|_| None);
            let seats = attached
                .into_iter()
                .map(|(_, resident)| resident)
                .chain(results)
                .chain(chosen.into_iter().map(|(_, resident)| resident));
            for (resident, mut candidate) in seats.zip(self.turn_candidates(turn, placed)) {
                candidate.tokens += resident.map_or(Tokens::ZERO, |resident| resident.tokens);
                ballot.seats.push(CandidateSource::Turn(resident.map(|resident| resident.id.clone())));
                ballot.candidates.push(candidate);
            }
        }
        let asked_for = |resident: &&Resident| placed.iter().any(|placed| placed.wanted.version.id == resident.id);
        let idle = residents.iter().filter(|resident| !asked_for(resident));
        let (members, mut others): (Vec<_>, Vec<_>) = idle.partition(|resident| self.stays(&resident.id));
        for resident in members {
            ballot.push(CandidateSource::Library(resident.id.clone()), LayerId::L2, resident.tokens, Limit::Budget);
        }
        let stubs_before = self.history.outputs.saturating_sub(self.settings.keep_outputs);
        let recent = self.history.runs_back(self.settings.recent_runs);
        let push_units = |ballot: &mut Candidates, range: Range<usize>, limit| {
            for at in range.rev().filter(|at| *at >= floor) {
                ballot.push(CandidateSource::Unit(at), LayerId::L4, units[at].tokens(stubs_before), limit);
            }
        };
        push_units(&mut ballot, (user + 1).min(units.len())..newest.unwrap_or(units.len()), Limit::Budget);
        ballot.push(CandidateSource::Summary, LayerId::L4, summary, Limit::Beyond);
        // The newest words stay whatever the library holds, up to half of what the low-water mark leaves free; the others come behind it.
        let budget = &self.settings.budget;
        let mut spare = Tokens((budget.prompt - budget.low_water_mark()).0 / 2);
        let mut newest_words = user;
        while newest_words > recent && units[newest_words - 1].tokens(stubs_before) <= spare {
            newest_words -= 1;
            spare = spare - units[newest_words].tokens(stubs_before);
        }
        push_units(&mut ballot, newest_words..user, Limit::Beyond);
        others.sort_by_key(|resident| std::cmp::Reverse(resident.last_used));
        for resident in others {
            ballot.push(CandidateSource::Library(resident.id.clone()), LayerId::L2, resident.tokens, Limit::LowWater);
        }
        push_units(&mut ballot, 0..newest_words, Limit::LowWater);
        ballot
    }

    fn fold_mandatory(&mut self, turn: Option<&Turn>, tools: &ToolPlan, has_residents: bool) -> Mandatory {
        let l1 = self.l1_tokens();
        let words = turn.map(|turn| self.turn_mandatory(turn)).unwrap_or_default();
        let images = turn.map(|turn| self.image_tokens(turn)).unwrap_or_default();
        let plan_unit = self.history.plan.as_ref().and_then(|(_, unit)| self.history.units.get(*unit));
        let step = self.history.plan.as_ref().map_or(Tokens::ZERO, |(plan, _)| self.count(&plan.directive()));
        let join = self.count(JOIN);
        Mandatory {
            tools: tools.tokens,
            l1,
            open_calls: self.newest_calls().map_or(Tokens::ZERO, |(_, tokens)| tokens),
            directive: words.directive + step + plan_unit.map_or(Tokens::ZERO, |unit| unit.tokens(usize::MAX)),
            standing: self.pinned_tokens(),
            frames: if has_residents { self.count(LIBRARY_HEADING) + join + join } else { Tokens::ZERO },
            l5: words.l5 + images,
        }
    }
}

//! Summaries of history that is no longer shown, and the data needed to write them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::Session;
use super::draft::call_text;
use super::input::{Input, InputError, Pin, TurnInput, Unpin};
use crate::budget::OverBudget;
use crate::envelope::{Envelope, FoldReason, LayerSum, LeftOut};
use crate::history::{MessageId, Unit};
use crate::item::ItemId;
use crate::message::{Message, Origin, Role};
use crate::prompt::{ToolPlan, ToolStyle};
use crate::settings::HistoryPolicy;
use crate::summary::Retained;
use crate::tokens::Tokens;
use foreword_text::normalise::normalise;

/// Pins may use this fraction of a prompt.
const PINNED_SHARE: u64 = 8;

/// A message of the history as plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoken {
    /// The message's ID.
    pub id: MessageId,
    /// The message's role.
    pub role: Role,
    /// The text; a call is written as `name(arguments)`.
    pub text: String,
}

/// A side request: the last request with one more message, or a prompt of its own.
#[derive(Clone, Debug)]
pub struct SidePrompt {
    /// The messages of the request.
    pub messages: Vec<Arc<Message>>,
    /// The record of the request.
    pub envelope: Envelope,
}

/// A preview of a fold.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldPreview {
    /// The prompt's size before the fold.
    pub before: Tokens,
    /// The prompt's size after the fold.
    pub after: Tokens,
    /// Messages that are replaced by the summary.
    pub messages: Vec<Spoken>,
    /// Items that are removed from the library.
    pub items: Vec<LeftOut>,
    /// The new summary.
    pub summary: Option<String>,
}

impl Session {
    /// The summary message for the units before `cut`.
    pub(super) fn summary_message(&mut self, cut: usize) -> Option<Arc<Message>> {
        let written = self.written.clone().filter(|_| self.is_managed());
        if let Some(written) = written.as_ref().filter(|written| written.covers.is_none()) {
            let summary = self.fence.escape(&normalise(&written.text)).into_owned();
            let text = format!("Context summary (managed):\n<conversation_summary>\n{summary}\n</conversation_summary>");
            return Some(self.plain(Role::System, Origin::Engine("summary"), text));
        }
        if cut == 0 {
            return None;
        }
        let cap = self.summary_cap();
        let tokenizer = Arc::clone(&self.tokenizer);
        let text = self.summary.before(cut, cap, written.as_ref(), &*tokenizer, &mut self.fence)?;
        let role = if written.is_some_and(|written| !written.text.is_empty()) { Role::System } else { Role::User };
        Some(self.plain(role, Origin::Engine("summary"), text))
    }

    /// The message with the pins, used if there is no room for a summary.
    pub(super) fn pinned_message(&mut self, cut: usize) -> Option<Arc<Message>> {
        let tokenizer = Arc::clone(&self.tokenizer);
        let text = self.summary.pinned_before(cut, &*tokenizer, &mut self.fence)?;
        Some(self.plain(Role::User, Origin::Engine("summary"), text))
    }

    /// The room for a summary at any cut: a written summary's own size, or the largest size of the engine's.
    pub(super) fn summary_room(&mut self) -> Tokens {
        let cap = self.summary_cap();
        match self.written.clone().filter(|_| self.is_managed()) {
            Some(written) if written.covers.is_some() => {
                let text = self.fence.escape(&normalise(&written.text)).into_owned();
                cap + self.count(&text)
            }
            Some(_) => self.summary_message(usize::MAX).map_or(Tokens::ZERO, |summary| summary.tokens().max(cap)),
            None => self.summary_message(self.history.units.len()).map_or(Tokens::ZERO, |_| cap),
        }
    }

    /// Whether a written summary replaces older turns: one exists, and the history is long enough.
    pub(super) fn is_managed(&self) -> bool {
        let HistoryPolicy::Managed { token_threshold, .. } = self.settings.history else { return false };
        let past = &self.history.units[..self.current_user().unwrap_or(self.history.units.len())];
        let size: Tokens = past.iter().map(|unit| unit.tokens(0)).sum();
        self.written.is_some() && !past.is_empty() && size >= token_threshold
    }

    pub(super) fn pinned_tokens(&mut self) -> Tokens {
        let tokenizer = Arc::clone(&self.tokenizer);
        self.summary.pinned_tokens(&*tokenizer, &mut self.fence)
    }

    /// Whether every fold keeps an item.
    pub(super) fn stays(&self, id: &ItemId) -> bool {
        self.is_member(id) || self.pinned.contains(id)
    }

    pub(super) fn pin(&mut self, pin: &Pin) {
        match pin {
            Pin::Item(id) => {
                self.pinned.insert(id.clone());
            }
            Pin::Text { from, text } => {
                let unit = self.unit_of(*from).unwrap_or(self.history.units.len());
                self.summary.pin(unit, *from, text);
            }
        }
    }

    pub(super) fn check_pin(&self, pin: &Pin) -> Result<(), InputError> {
        match pin {
            Pin::Item(id) if !self.seen.contains(id) && !self.is_member(id) => Err(InputError::UnknownItem(id.clone())),
            Pin::Item(_) => Ok(()),
            Pin::Text { text, .. } => {
                let pinned: Tokens = self.summary.pins().map(|(_, text)| self.count(text)).sum();
                let (size, most) = (pinned + self.count(text), Tokens(self.settings.budget.prompt.0 / PINNED_SHARE));
                if size > most { Err(InputError::PinTooLarge(size, most)) } else { Ok(()) }
            }
        }
    }

    pub(super) fn unpin(&mut self, unpin: &Unpin) {
        match unpin {
            Unpin::Item(id) => {
                self.pinned.remove(id);
            }
            Unpin::Message(from) => self.summary.unpin(*from),
        }
    }

    pub(super) fn check_unpin(&self, unpin: &Unpin) -> Result<(), InputError> {
        let (is_pinned, name) = match unpin {
            Unpin::Item(id) => (self.pinned.contains(id), id.to_string()),
            Unpin::Message(from) => (self.summary.pins().any(|(pinned, _)| pinned == *from), from.to_string()),
        };
        if is_pinned { Ok(()) } else { Err(InputError::NotPinned(name)) }
    }

    /// Changes the history policy. The current prompt is unchanged until the next layout.
    pub fn change_history(&mut self, history: HistoryPolicy) {
        self.settings.history = history;
    }

    /// The history unit of a message.
    fn unit_of(&self, id: MessageId) -> Option<usize> {
        self.history.ids.partition_point(|first| *first <= id).checked_sub(1)
    }

    /// The first unit that stays unchanged if a turn began now; a summary replaces the units before it.
    pub fn managed_cut(&self) -> usize {
        let HistoryPolicy::Managed { passthrough_runs, .. } = self.settings.history else { return 0 };
        let is_user = |at: &usize| matches!(self.history.units[*at], Unit::User(_));
        match passthrough_runs.checked_sub(1) {
            None => self.history.units.len(),
            Some(back) => (0..self.history.units.len()).rev().filter(is_user).nth(back).unwrap_or(0),
        }
    }

    /// The last `runs` turns, if a turn began now.
    pub fn last_runs(&self, runs: usize) -> Range<usize> {
        let end = self.history.units.len();
        let is_user = |at: &usize| matches!(self.history.units[*at], Unit::User(_));
        let starts = (0..end).rev().filter(is_user);
        let first = runs.checked_sub(1).map_or(end, |back| starts.into_iter().nth(back).unwrap_or(0));
        first..end
    }

    /// The messages of some units as plain text. Tool outputs are as the prompt had them.
    pub fn said(&self, units: Range<usize>) -> Vec<Spoken> {
        let end = units.end.min(self.history.units.len());
        let mut spoken = Vec::new();
        for at in units.start.min(end)..end {
            let id = self.history.ids.get(at).copied().unwrap_or_default();
            let unit = &self.history.units[at];
            if matches!(unit, Unit::Engine(_)) {
                continue;
            }
            for message in unit.messages(0) {
                let calls = message.calls.iter().map(call_text);
                let text: Vec<String> =
                    std::iter::once(message.content().into_owned()).filter(|text| !text.is_empty()).chain(calls).collect();
                spoken.push(Spoken { id, role: message.role, text: text.join("\n") });
            }
        }
        spoken
    }

    /// A message of the user or the model, or a tool output.
    pub fn spoken(&self, id: MessageId) -> Option<Spoken> {
        let unit = self.unit_of(id)?;
        self.said(unit..unit + 1).into_iter().find(|spoken| spoken.id == id)
    }

    /// What a fold would do with the next question. Nothing is changed: the question is put to copies, to one with a fold and to one without.
    pub fn preview_fold(&self) -> Result<FoldPreview, OverBudget> {
        let next = |fold: Option<FoldReason>| {
            let mut trial = self.clone();
            trial.pending_fold = fold;
            trial.begin_turn(TurnInput { words: "?".to_owned(), ..TurnInput::default() });
            trial.request().map(|envelope| (trial, envelope))
        };
        // What the engine does by itself it does in both.
        let by_itself = self.pending_fold.filter(|reason| *reason != FoldReason::Asked);
        let (_, unfolded) = next(by_itself)?;
        let (mut trial, folded) = next(by_itself.or(Some(FoldReason::Asked)))?;
        let cut = self.epoch.shown.cut.min(trial.epoch.shown.cut);
        let pinned: BTreeSet<MessageId> = self.summary.pins().map(|(id, _)| id).collect();
        let mut messages = self.said(cut..trial.epoch.shown.cut);
        // What is pinned stands in the summary, word for word.
        messages.retain(|spoken| !pinned.contains(&spoken.id) || spoken.role == Role::Tool);
        Ok(FoldPreview {
            before: unfolded.tokens,
            after: folded.tokens,
            messages,
            items: std::mem::take(&mut trial.dropped),
            summary: trial.shown_summary().0,
        })
    }

    /// The size of the whole history in tokens.
    pub fn history_tokens(&self) -> Tokens {
        self.history.units.iter().map(|unit| unit.tokens(0)).sum()
    }

    /// The size of some units in tokens.
    pub fn units_tokens(&self, units: Range<usize>) -> Tokens {
        self.history.units.get(units).unwrap_or_default().iter().map(|unit| unit.tokens(0)).sum()
    }

    /// The written summary, and the first unit that it does not include.
    pub fn written(&self) -> Option<(&str, usize)> {
        self.written.as_ref().and_then(|written| Some((written.text.as_str(), written.covers?)))
    }

    /// The facts that a summary of the units before `cut` must keep.
    pub fn required(&self, cut: usize) -> Vec<Retained> {
        self.summary.required(cut)
    }

    /// The pins: texts with their messages, and items.
    pub fn pins(&self) -> (Vec<(MessageId, String)>, Vec<ItemId>) {
        let texts = self.summary.pins().map(|(id, text)| (id, text.to_owned()));
        (texts.collect(), self.pinned.iter().cloned().collect())
    }

    /// The summary in the prompt, and the first unit shown after it.
    pub fn shown_summary(&self) -> (Option<String>, usize) {
        let is_summary = |message: &&Arc<Message>| message.pieces.iter().any(|piece| piece.origin == Origin::Engine("summary"));
        let summary = self.epoch.messages.iter().find(is_summary).map(|message| message.content().into_owned());
        (summary, self.epoch.shown.cut)
    }

    /// The messages that the request after an input would no longer show, if it began a new epoch. Nothing is changed.
    pub fn would_fold(&self, input: Input) -> Option<Range<usize>> {
        let mut trial = self.clone();
        trial.apply(input).ok()?;
        trial.request().ok()?;
        (trial.epoch.number != self.epoch.number).then(|| self.epoch.shown.cut..trial.epoch.shown.cut.max(self.epoch.shown.cut))
    }

    /// A side request without this conversation and without tools. Nothing is changed.
    pub fn alone(&self, system: &str, words: &str) -> SidePrompt {
        let messages =
            [(Role::System, system), (Role::User, words)].map(|(role, text)| self.plain(role, Origin::Engine("directive"), text));
        let size = messages.iter().map(|message| message.tokens()).sum();
        let tools = ToolPlan { style: ToolStyle::Native, list: Arc::default(), allowed: Vec::new(), tokens: Tokens::ZERO };
        self.beside(messages.to_vec(), tools, size, [&LayerSum::default(); 5])
    }

    /// A side request: the last request, its reply and one more engine message. It shares the prefix that the provider has cached.
    /// Nothing is changed.
    pub fn aside(&self, instruction: &str) -> SidePrompt {
        let mut messages = self.epoch.messages.clone();
        let message = self.plain(Role::User, Origin::Engine("directive"), instruction);
        let mut past = self.epoch.now.clone();
        super::push_message(&mut past, &message);
        let size = self.total() + message.tokens();
        messages.push(message);
        let tools = self.epoch.tools.clone().unwrap_or_else(|| self.tool_plan(&[], None));
        let none = LayerSum::default();
        self.beside(messages, tools, size, [&self.epoch.l1, &self.epoch.l2, &none, &past, &none])
    }

    fn beside(&self, messages: Vec<Arc<Message>>, tools: ToolPlan, tokens: Tokens, layers: [&LayerSum; 5]) -> SidePrompt {
        let layers = layers.map(LayerSum::record);
        let envelope = Envelope {
            index: self.requests,
            turn: self.turn.as_ref().map_or(0, |turn| turn.number),
            epoch: self.epoch.number,
            began: None,
            layers,
            combined: Envelope::combine(&layers),
            messages: messages.len(),
            settled: messages.len().saturating_sub(1),
            tokens,
            tools,
            cut: self.epoch.shown.cut,
            turn_context: Vec::new(),
            left_out: Vec::new(),
            notes: Vec::new(),
        };
        SidePrompt { messages, envelope }
    }
}

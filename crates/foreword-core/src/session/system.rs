//! The start of the prompt: tools, L1, L2, and the history at the start of an epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde_json::json;

use super::draft::{Draft, JOIN};
use super::view::SegmentView;
use super::{Epoch, Session, push_message};
use crate::catalog::{CatalogBody, Include};
use crate::envelope::{ContextEntry, Form, LayerSum};
use crate::hash::Hash;
use crate::history::{Unit, window_chars};
use crate::item::{ItemId, Kind};
use crate::json;
use crate::layer::LayerId;
use crate::library::{Place, Standing};
use crate::message::{Message, Origin, Role};
use crate::prompt::{ToolPlan, ToolSpec, ToolStyle, USE_TOOL};
use crate::settings::{HistoryPolicy, Layout};
use crate::tokens::Tokens;
use crate::version::{RenderOptions, Version, plain_block};
use foreword_text::normalise::normalise;

/// The heading of L2.
pub(super) const LIBRARY_HEADING: &str = "## Context Library\n\nThe following notes are available for reference:";

/// The smallest useful room for a summary.
const LEAST_SUMMARY: Tokens = Tokens(80);

/// A part of L1: its origin, include mode and text.
type Part = (Origin, Include, String);

impl Session {
    fn l1_parts(&mut self) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let agent = self.agent.clone();
        let prompt = normalise(&agent.system_prompt);
        if !prompt.is_empty() {
            parts.push((Origin::Engine("system_prompt"), Include::Always, prompt.into_owned()));
        }
        let project = agent.project.unwrap_or_default();
        let blocks = [
            (ItemId::new(Kind::Memory, "user"), "user_memory", agent.memory),
            (ItemId::new(Kind::Project, "system_prompt"), "project_system_prompt", project.system_prompt),
            (ItemId::new(Kind::Project, "context"), "project_context", project.context),
        ];
        for (id, tag, text) in blocks {
            if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
                parts.push((Origin::Item(id), Include::Always, plain_block(&mut self.fence, tag, &text)));
            }
        }
        let members: BTreeMap<&ItemId, &Include> = self.members.iter().map(|(id, include)| (id, include)).collect();
        for item in self.agent.items() {
            if !matches!(item.body, CatalogBody::Rule(_)) {
                continue;
            }
            if let Some(include) = members.get(&item.id).copied() {
                let version = Version::catalogued(&item);
                let block = version.block(&mut self.fence, &version.content, RenderOptions::PLAIN);
                parts.push((Origin::Item(item.id.clone()), *include, block));
            }
        }
        parts
    }

    /// L1 as one string, to detect changes.
    pub(super) fn l1_text(&mut self) -> String {
        let parts: Vec<String> = self.l1_parts().into_iter().map(|(_, _, text)| text).collect();
        parts.join(JOIN)
    }

    /// The size of L1 in tokens.
    pub(super) fn l1_tokens(&mut self) -> Tokens {
        let parts = self.l1_parts();
        let joins = Tokens(self.count(JOIN).0 * parts.len() as u64);
        parts.iter().map(|(_, _, text)| self.count(text)).sum::<Tokens>() + joins
    }

    /// Places references (and tools with `useTool`) that joined at creation in L2 from the first request.
    pub(super) fn seat_members(&mut self) {
        let items = self.agent.by_id();
        let seated = self.members.iter().filter(|(id, _)| self.stands_in_library(id) && !self.library.contains(id));
        let versions: Vec<(Arc<Version>, Include)> =
            seated.filter_map(|(id, include)| Some((Arc::new(Version::catalogued(items.get(id)?)), *include))).collect();
        for (version, include) in versions {
            let standing = self.standing(&version, include, 0, self.settings.budget.item_cap());
            self.library.push(standing);
        }
    }

    /// A Version as placed in L2: its block, cut to `cap`.
    pub(super) fn standing(&mut self, version: &Arc<Version>, include: Include, last_used: usize, cap: Tokens) -> Standing {
        let (block, tokens, cut) = self.capped_block(version, RenderOptions::PLAIN, cap);
        Standing {
            version: Arc::clone(version),
            block,
            tokens,
            include,
            form: Form::Full,
            place: Place::Library,
            promotable: true,
            since: 0,
            last_used,
            cut,
            plain: !cut,
            at: Tokens::ZERO,
        }
    }

    /// The definitions of all tools of the agent, sorted by name.
    pub(super) fn tool_specs(&self) -> Vec<ToolSpec> {
        let names = self.agent.wire_names();
        let mut specs: Vec<ToolSpec> = self
            .agent
            .tools
            .iter()
            .map(|tool| {
                let id = tool.id();
                let name = names.get(&id).cloned().unwrap_or_else(|| tool.name.clone());
                ToolSpec { id: Some(id), name, description: tool.description.clone().unwrap_or_default(), schema: tool.schema() }
            })
            .collect();
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        specs
    }

    /// The tools of a request that may use `chosen` in addition to the session's tools.
    /// The tools of a request. `standing` is the list that the prompt already has.
    pub(super) fn tool_plan(&self, chosen: &[ItemId], standing: Option<&ToolPlan>) -> ToolPlan {
        let specs = self.tool_specs();
        let usable: BTreeSet<&ItemId> = self.members().chain(chosen).collect();
        let is_allowed = |spec: &&ToolSpec| spec.id.as_ref().is_some_and(|id| usable.contains(id));
        let allowed: Vec<String> = specs.iter().filter(is_allowed).map(|spec| spec.name.clone()).collect();
        let style = self.settings.tools;
        let list = match (style, standing) {
            (ToolStyle::Native, _) => Arc::new(specs.iter().filter(is_allowed).cloned().collect()),
            (_, Some(plan)) => Arc::clone(&plan.list),
            (ToolStyle::Allowed, None) => Arc::new(specs),
            (ToolStyle::UseTool, None) if specs.is_empty() => Arc::new(Vec::new()),
            (ToolStyle::UseTool, None) => Arc::new(vec![use_tool()]),
        };
        let tokens = match standing {
            Some(plan) if Arc::ptr_eq(&plan.list, &list) => plan.tokens,
            _ => list.iter().map(|spec| self.spec_tokens(spec)).sum(),
        };
        ToolPlan { style, list, allowed, tokens }
    }

    pub(super) fn spec_tokens(&self, spec: &ToolSpec) -> Tokens {
        self.count(&format!("{}{}{}", spec.name, spec.description, json::to_string(&spec.schema)))
    }

    /// Lays the prompt out again: the system message and the shown part of the history, without the running turn.
    pub(super) fn lay_out(&mut self) {
        self.forget_opaque();
        let old = std::mem::take(&mut self.epoch);
        self.epoch = Epoch {
            number: old.number,
            began: old.began,
            shown: old.shown,
            tools: old.tools,
            rent: old.rent,
            ..Epoch::default()
        };
        self.append_system();
        self.append_past();
        self.epoch.base = self.epoch.messages.len();
        self.epoch.absorbed = self.epoch.base;
        self.epoch.now = self.epoch.past.clone();
    }

    fn append_system(&mut self) {
        let tokenizer = Arc::clone(&self.tokenizer);
        let mut draft = Draft::new(&*tokenizer);
        let (mut l1, mut l2) = (LayerSum::default(), LayerSum::default());
        for (origin, include, text) in self.l1_parts() {
            let tokens = tokenizer.count(&text);
            let id = match &origin {
                Origin::Item(id) => id.to_string(),
                _ => "system".to_owned(),
            };
            if let Origin::Item(item) = &origin {
                let entry = ContextEntry {
                    item: item.clone(),
                    include: include.into(),
                    score: None,
                    layer: Some(LayerId::L1),
                    form: Form::Full,
                    tokens,
                };
                self.epoch.l1_context.push(entry);
            }
            self.epoch.l1_segments.push(SegmentView { id, hash: Hash::of(text.as_bytes()), tokens, form: Form::Full });
            l1.push(&[&text], tokens);
            draft.part(LayerId::L1, origin, text);
        }
        let entries = self.library.entries().iter().filter(|entry| entry.place == Place::Library);
        for (at, entry) in entries.enumerate() {
            let origin = Origin::Item(entry.version.id.clone());
            if at == 0 {
                // The heading belongs to the first item: it comes and goes with it.
                draft.part(LayerId::L2, origin.clone(), LIBRARY_HEADING);
            }
            l2.push(&[&entry.block], entry.tokens);
            draft.part(LayerId::L2, origin, Arc::clone(&entry.block));
        }
        if draft.pieces.is_empty() {
            return;
        }
        for (layer, sum) in [(LayerId::L1, &mut l1), (LayerId::L2, &mut l2)] {
            let whole: Tokens = draft.pieces.iter().filter(|piece| piece.layer == layer).map(|piece| piece.tokens).sum();
            sum.add_frame(whole - sum.tokens());
        }
        let message = Arc::new(Message::text(Role::System, draft.pieces));
        self.append(&message);
        (self.epoch.l1, self.epoch.l2) = (l1, l2);
    }

    fn append_past(&mut self) {
        let end = self.current_user().unwrap_or(self.history.units.len());
        let shown = self.epoch.shown;
        // A plan at work is kept through a cut: its call, and one line for each of its results.
        let pinned = self.pinned_plan().filter(|unit| *unit < end);
        let mut messages: Vec<Arc<Message>> =
            pinned.map(|unit| self.history.units[unit].messages(usize::MAX)).unwrap_or_default();
        for unit in shown.cut.min(end)..end {
            messages.extend(self.history.past_messages(unit, shown.stubs_before, self.message_chars(), &*self.tokenizer));
        }
        self.note_what_is_shorter(shown.cut.min(end)..end);
        let summary = if !self.window_has_room(messages.len()) {
            None
        } else if shown.no_summary {
            self.pinned_message(shown.cut)
        } else {
            self.summary_message(shown.cut)
        };
        for message in summary.into_iter().chain(messages) {
            self.append(&message);
            push_message(&mut self.epoch.past, &message);
        }
    }

    /// Adds a note about messages of the history that are shortened.
    fn note_what_is_shorter(&mut self, shown: Range<usize>) {
        let stubs_before = self.epoch.shown.stubs_before;
        let units = &self.history.units[shown];
        let outputs = units.iter().filter_map(|unit| if let Unit::Calls(_, outputs) = unit { Some(outputs) } else { None });
        let stubs = outputs.flatten().filter(|output| Arc::ptr_eq(output.message(stubs_before), &output.stub)).count();
        let longer = |limit| move |message: &Arc<Message>| message.content().chars().count() > limit;
        let cut = self
            .message_chars()
            .map_or(0, |limit| units.iter().flat_map(|unit| unit.messages(stubs_before)).filter(longer(limit)).count());
        if stubs > 0 {
            let text = format!("earlier tool outputs that stand as one line with a pointer to the whole: {stubs}");
            self.note("stubbed", None, text);
        }
        if cut > 0 {
            let text = format!("earlier messages that were cut to the size that the history setting allows: {cut}");
            self.note("capped", None, text);
        }
    }

    /// The unit of the current plan, if it is before the cut.
    fn pinned_plan(&self) -> Option<usize> {
        self.history.plan.as_ref().map(|(_, unit)| *unit).filter(|unit| *unit < self.epoch.shown.cut)
    }

    /// Whether a summary fits the history window beside `past` messages and the current turn.
    fn window_has_room(&self, past: usize) -> bool {
        let HistoryPolicy::Window { messages, .. } = self.settings.history else { return true };
        let steps = self.current_user().map_or(0, |user| {
            let from = (user + 1).max(self.epoch.shown.cut).min(self.history.units.len());
            self.history.units[from..].iter().map(|unit| unit.messages(0).len()).sum()
        });
        past + 1 + steps < messages
    }

    /// Appends the user message of the running turn and its steps.
    pub(super) fn append_running(&mut self) {
        let Some(message) = self.turn.as_ref().and_then(|turn| turn.message.clone()) else { return };
        self.append(&message);
        let Some(user) = self.current_user() else { return };
        let shown = self.epoch.shown;
        for message in self
            .pinned_plan()
            .filter(|unit| *unit > user)
            .map(|unit| self.history.units[unit].messages(usize::MAX))
            .unwrap_or_default()
        {
            self.append_step(&message);
        }
        for unit in shown.cut.max(user + 1)..self.history.units.len() {
            for message in self.history.units[unit].messages(shown.stubs_before) {
                self.append_step(&message);
            }
        }
        self.restate_directive();
    }

    /// Repeats the current step if the line with it is no longer shown.
    fn restate_directive(&mut self) {
        if self.turn.as_ref().is_some_and(|turn| turn.plan_suspended) {
            return;
        }
        let Some(directive) = self.history.plan.as_ref().map(|(plan, _)| plan.directive()) else { return };
        let told_by = |message: &Arc<Message>| {
            message.pieces.iter().any(|piece| piece.origin == Origin::Engine("directive") && *piece.text == *directive)
        };
        let answered = self.epoch.messages.last().is_some_and(|message| message.role == Role::Tool);
        if answered && !self.epoch.messages.iter().any(told_by) {
            let message = self.plain(Role::User, Origin::Engine("directive"), directive);
            self.append_step(&message);
        }
    }

    pub(super) fn message_chars(&self) -> Option<usize> {
        match self.settings.history {
            HistoryPolicy::Window { message_chars, .. } => Some(message_chars),
            _ => None,
        }
    }

    pub(super) fn summary_cap(&self) -> Tokens {
        match self.settings.history {
            HistoryPolicy::Strip { summary_tokens, .. } => summary_tokens,
            _ => self.settings.summary_tokens.min(Tokens(self.settings.budget.low_water_mark().0 / 4).max(LEAST_SUMMARY)),
        }
    }

    /// The cut that the history policy asks for, if the layout can move it every turn.
    pub(super) fn policy_cut(&self) -> usize {
        let now = self.epoch.shown.cut;
        now.max(match &self.settings.history {
            HistoryPolicy::Window { messages, chars, message_chars } => {
                // In `log` a cut costs an epoch, so it makes room for a while.
                let share = if self.settings.layout == Layout::Log { 2 } else { 1 };
                self.history.window_cut(messages / share, chars / share, *message_chars)
            }
            HistoryPolicy::Strip { keep_runs, .. } => self.history.runs_back(*keep_runs),
            HistoryPolicy::Managed { passthrough_runs, .. } if self.is_managed() => {
                let covers = self.written.as_ref().and_then(|written| written.covers);
                covers.unwrap_or_else(|| self.history.runs_back(*passthrough_runs)).min(self.history.runs_back(0))
            }
            HistoryPolicy::Full | HistoryPolicy::Managed { .. } => 0,
        })
    }

    /// Whether the history exceeds its window and can still be cut.
    pub(super) fn over_window(&self) -> bool {
        let HistoryPolicy::Window { messages, chars, message_chars } = self.settings.history else { return false };
        let running = self.running_at();
        let others = self.epoch.messages.iter().enumerate().filter(|(at, _)| Some(*at) != running);
        let history = others.map(|(_, message)| message).filter(|message| message.role != Role::System);
        let (count, size) =
            history.fold((1, 0), |(count, size), message| (count + 1, size + window_chars(message).min(message_chars)));
        let shown = self.history.units.len() - self.epoch.shown.cut.min(self.history.units.len());
        shown > 1 && (count > messages || size > chars)
    }
}

fn use_tool() -> ToolSpec {
    ToolSpec {
        id: None,
        name: USE_TOOL.to_owned(),
        description: "Runs one of the tools whose definitions stand in the conversation as <tool> blocks.".to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The name of the tool, as its block gives it."},
                "arguments": {"type": "object", "description": "Arguments that fit the tool's schema."},
            },
            "required": ["name", "arguments"],
        }),
    }
}

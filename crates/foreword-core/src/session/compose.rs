//! Steps 3 and 4 for one turn: each item gets its text or a line that refers to it, and the user message is put together.

use std::sync::Arc;

use super::draft::{Draft, JOIN};
use super::{Session, Turn, Wanted, push_message};
use crate::budget::{Candidate, Limit, Mandatory, Share, plan};
use crate::catalog::Include;
use crate::envelope::{ContextEntry, FoldReason, Form, Inclusion, LeftOut};
use crate::item::{ItemId, Kind};
use crate::layer::LayerId;
use crate::library::{Place, Standing};
use crate::message::{Image, Message, Origin, Role};
use crate::prompt::ToolStyle;
use crate::select::Reason;
use crate::settings::Layout;
use crate::tokens::Tokens;
use crate::version::{RenderOptions, Version};
use foreword_text::diff::{unified, without_end_marks};
use foreword_text::fence::one_line;
use foreword_text::output::cap_tokens;

const RESULTS_HEADING: &str = "# Additional context:";
const REFERENCES_HEADING: &str = "Context attached to this message:";
const QUERY_HEADING: &str = "---\n\n[User query]:\n";

/// Where the model finds what a line refers to.
fn find_them(layout: Layout) -> &'static str {
    match layout {
        Layout::Library => "Find them in the Context Library in the system prompt above.",
        Layout::Log => "Find them in the Context Library in the system prompt above, or above in this conversation.",
    }
}

/// How an item is shown in this turn.
#[derive(Clone, Debug)]
pub(super) enum How {
    /// A line that refers to it.
    Reference(Arc<str>),
    /// Its text, or what changed in it.
    Text { block: Arc<str>, form: Form, cut: bool },
    /// In the tool list.
    Listed,
}

/// An item with its place in this turn.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) wanted: Wanted,
    pub(super) how: How,
    pub(super) tokens: Tokens,
}

impl Session {
    /// A Version's block, cut to `cap`.
    pub(super) fn capped_block(&mut self, version: &Version, dress: RenderOptions, cap: Tokens) -> (Arc<str>, Tokens, bool) {
        let whole = version.block(&mut self.fence, &version.content, dress);
        let tokens = self.count(&whole);
        if tokens <= cap {
            return (whole.into(), tokens, false);
        }
        let frame = version.block(&mut self.fence, "", dress);
        let mut room = cap - self.count(&frame);
        let tokenizer = Arc::clone(&self.tokenizer);
        // Escaping can lengthen a text, so the room for it is found by trying.
        for _ in 0..8 {
            let Some(capped) = cap_tokens(&version.content, room, &*tokenizer, &version.id.to_string()) else { break };
            let block = version.block(&mut self.fence, &capped.text, dress);
            let tokens = self.count(&block);
            if tokens <= cap {
                return (block.into(), tokens, true);
            }
            room = room - (tokens - cap) - Tokens(1);
        }
        let tokens = self.count(&frame);
        (frame.into(), tokens, true)
    }

    /// How an item is shown, given what the prompt already contains.
    pub(super) fn place_item(&mut self, wanted: &Wanted, active: Option<&ItemId>, cap: Tokens) -> Placed {
        let version = Arc::clone(&wanted.version);
        let placed = |how, tokens| Placed { wanted: wanted.clone(), how, tokens };
        if version.id.kind() == Kind::Tool && self.settings.tools != ToolStyle::UseTool {
            return placed(How::Listed, Tokens::ZERO);
        }
        if let Some((number, of)) = self.library.find(&version.id, version.hash) {
            let name = one_line(version.id.name());
            let line = if number == of {
                format!("- {name}")
            } else {
                format!("- {name} (version {number} of {of} above is current again)")
            };
            let tokens = self.count(&line);
            return placed(How::Reference(line.into()), tokens);
        }
        let newest = self.library.newest(&version.id).cloned();
        let dress = RenderOptions { active: active == Some(&version.id), supersedes: newest.is_some() };
        let (block, tokens, cut) = self.capped_block(&version, dress, cap);
        if let (Layout::Log, Some(old)) = (self.settings.layout, newest.filter(|old| !old.cut && !cut)) {
            let name = one_line(version.id.name());
            if let Some(diff) = unified(&old.version.content, &version.content, &name) {
                let diff = format!(
                    "<note_diff>\n<path>{name}</path>\n<content>\n{}\n</content>\n</note_diff>",
                    self.fence.escape(&without_end_marks(&diff))
                );
                let diff_tokens = self.count(&diff);
                if diff_tokens < tokens {
                    return placed(How::Text { block: diff.into(), form: Form::Diff, cut: false }, diff_tokens);
                }
            }
        }
        placed(How::Text { block, form: Form::Full, cut }, tokens)
    }

    /// How all items of this turn are shown, each with at most `cap` tokens: attachments first, then selected ones.
    pub(super) fn place_items(&mut self, turn: &Turn, cap: Tokens) -> Vec<Placed> {
        let wanted = turn.attached.iter().chain(&turn.chosen);
        wanted.map(|wanted| self.place_item(wanted, turn.active.as_ref(), cap)).collect()
    }

    /// The candidates of a turn in order of priority: attachments, results, selected items. The first candidate under a heading
    /// pays for the heading.
    pub(super) fn turn_candidates(&self, turn: &Turn, placed: &[Placed]) -> Vec<Candidate> {
        let frames = self.turn_frames(turn, placed);
        let item = |placed: &Placed| (placed.tokens, matches!(placed.how, How::Text { form: Form::Full, .. }));
        let (attached, chosen) = placed.split_at(turn.attached.len());
        let results = turn.results.iter().map(|block| (block.tokens(), false));
        let asked = attached.iter().map(item).chain(results).chain(chosen.iter().map(item));
        let candidate = |((tokens, cuttable), frame): ((Tokens, bool), &Tokens)| Candidate {
            layer: LayerId::L3,
            tokens: tokens + *frame,
            cuttable,
            limit: Limit::Budget,
        };
        asked.zip(&frames).map(candidate).collect()
    }

    /// The frame of each candidate: a blank line and the headings that it is the first to need.
    fn turn_frames(&self, turn: &Turn, placed: &[Placed]) -> Vec<Tokens> {
        let join = self.count(JOIN);
        let refers = |placed: &Placed| matches!(placed.how, How::Reference(_));
        let (attached, chosen) = placed.split_at(turn.attached.len());
        let kinds = attached.iter().map(|placed| (refers(placed), false));
        let kinds =
            kinds.chain(turn.results.iter().map(|_| (false, true))).chain(chosen.iter().map(|placed| (refers(placed), false)));
        let mut references = self.count(REFERENCES_HEADING) + self.count(find_them(self.settings.layout)) + join + join;
        let mut results = self.count(RESULTS_HEADING) + join;
        let mut query = if turn.has_frame() { Tokens::ZERO } else { self.count(QUERY_HEADING) + join };
        let frame = |(is_reference, is_result): (bool, bool)| {
            let mut frame = join + std::mem::take(&mut query);
            if is_reference {
                // Its line begins with a line break of its own.
                frame += std::mem::take(&mut references) + Tokens(1);
            }
            if is_result {
                frame += std::mem::take(&mut results);
            }
            frame
        };
        kinds.map(frame).collect()
    }

    /// The minimum room for the user's words and the lines around them.
    pub(super) fn turn_mandatory(&self, turn: &Turn) -> Mandatory {
        let join = self.count(JOIN);
        let directive = turn.directive.as_ref().map(|directive| self.count(directive) + join);
        let query = if turn.has_frame() { self.count(QUERY_HEADING) + join } else { Tokens::ZERO };
        let notices: Tokens = turn.notices.iter().map(|notice| notice.tokens + join).sum();
        Mandatory {
            l5: self.count(&turn.words) + query + notices,
            directive: directive.unwrap_or_default(),
            ..Mandatory::default()
        }
    }

    /// The turn's images that are not in an earlier message, each with its size.
    fn new_images<'a>(&'a self, turn: &'a Turn) -> impl Iterator<Item = (&'a Image, Tokens)> {
        let sized = turn.images.iter().filter_map(|image| Some((image, self.settings.images.of(image)?)));
        sized.filter(|(image, _)| {
            let mut standing = self.epoch.messages.iter().flat_map(|message| &message.images);
            standing.all(|standing| standing.data != image.data)
        })
    }

    /// The size of all images of a turn; a fold drops those of earlier turns.
    pub(super) fn image_tokens(&self, turn: &Turn) -> Tokens {
        turn.images.iter().filter_map(|image| self.settings.images.of(image)).sum()
    }

    /// Places the turn after the existing prompt. Returns the reason if a fold is needed.
    pub(super) fn place(&mut self) -> Option<FoldReason> {
        self.settle_past();
        let turn = self.turn.clone()?;
        let cap = self.settings.budget.item_cap();
        let mut placed = self.place_items(&turn, cap);
        let candidates = self.turn_candidates(&turn, &placed);
        self.epoch.tools = Some(self.tool_plan(&chosen_tools(&turn), self.epoch.tools.as_ref()));
        let images: Tokens = self.new_images(&turn).map(|(_, tokens)| tokens).sum();
        let words = self.turn_mandatory(&turn);
        let mandatory = Mandatory { standing: self.total(), l5: words.l5 + images, ..words };
        if self.lacks_a_tool() {
            return Some(FoldReason::ToolsChanged);
        }
        if self.over_layer_cap() {
            return Some(FoldReason::Budget);
        }
        let Ok(mut shares) = plan(&self.settings.budget, mandatory, &candidates) else { return Some(FoldReason::Budget) };
        if shares.iter().any(|share| *share != Share::Full) {
            if self.epoch.messages.len() > 1 || !self.library.entries().is_empty() {
                return Some(FoldReason::Budget);
            }
            // There is nothing to fold: the turn's own items have to share the room.
            placed = self.place_items(&turn, self.settings.budget.tight_item_cap());
            let candidates = self.turn_candidates(&turn, &placed);
            shares = plan(&self.settings.budget, mandatory, &candidates).unwrap_or(shares);
        }
        if self.settings.layout == Layout::Log && self.over_window() {
            return Some(FoldReason::Window);
        }
        self.commit(placed, &shares, cap);
        None
    }

    /// Whether L2 or L4 exceeds its limit.
    pub(super) fn over_layer_cap(&self) -> bool {
        let over = |layer, size: Tokens| self.settings.budget.layers.get(&layer).is_some_and(|cap| size > *cap);
        over(LayerId::L2, self.epoch.l2.tokens()) || over(LayerId::L4, self.epoch.now.tokens())
    }

    /// Before a turn is placed: `library` lays the prompt out again; `log` keeps the last turn in the history as it was sent.
    pub(super) fn settle_past(&mut self) {
        match self.settings.layout {
            Layout::Library => {
                self.library.promote(self.turn.as_ref().map_or(self.turns, |turn| turn.number));
                self.epoch.shown.cut = self.policy_cut();
                self.lay_out();
            }
            Layout::Log => {
                for message in &self.epoch.messages[self.epoch.absorbed..] {
                    push_message(&mut self.epoch.past, message);
                }
                self.epoch.absorbed = self.epoch.messages.len();
                self.epoch.now = self.epoch.past.clone();
            }
        }
    }

    /// Builds the user message from the planner's shares and appends it.
    pub(super) fn commit(&mut self, placed: Vec<Placed>, shares: &[Share], cap: Tokens) {
        let Some(mut turn) = self.turn.take() else { return };
        turn.context.clear();
        turn.left_out_for_room.clear();
        let (shown, results) = self.share_out(&mut turn, placed, shares);
        let message = self.user_message(&turn, &shown, &results);
        let message = match turn.message.take() {
            // The same bytes stay the same message, so that what was cached of it still counts.
            Some(old) if *old == message => old,
            _ => Arc::new(message),
        };
        self.rent_starts_turn(turn.number);
        let before = self.total();
        let notices = turn.notices.clone();
        for (notice, version) in notices.iter().filter_map(|notice| Some((notice, notice.version.as_ref()?))) {
            turn.context.push(in_turn(&version.id, Form::Full, notice.tokens));
            let standing = self.standing(version, Include::Manual, turn.number, cap);
            self.library.push(Standing { place: Place::Message, promotable: false, since: turn.number, at: before, ..standing });
        }
        for placed in shown {
            self.enter(&mut turn, placed, before, cap);
        }
        for (block, _) in turn.results.iter().zip(&results).filter(|(_, shown)| **shown) {
            if block.found().next().is_none() {
                let entry = in_turn(&block.id, Form::Full, block.tokens());
                turn.context.push(ContextEntry { include: Inclusion::Tool, ..entry });
            }
            for (item, score, tokens) in block.found() {
                // What is attached as well is sent once.
                if turn.context.iter().all(|entry| entry.item != *item) {
                    let entry = in_turn(item, Form::Passage, tokens);
                    turn.context.push(ContextEntry { include: Inclusion::Agent, score: Some(score), ..entry });
                }
            }
        }
        for image in &message.images {
            let tokens = self.settings.images.of(image).unwrap_or_default();
            turn.context.push(in_turn(&image.id, Form::Full, tokens));
        }
        turn.message = Some(Arc::clone(&message));
        self.turn = Some(turn);
        self.append_running();
    }

    /// Applies the planner's shares: cuts or omits items. Returns which results stay.
    fn share_out(&mut self, turn: &mut Turn, placed: Vec<Placed>, shares: &[Share]) -> (Vec<Placed>, Vec<bool>) {
        let frames = self.turn_frames(turn, &placed);
        let attached = turn.attached.len();
        let results = turn.results.len();
        let of_results: Vec<bool> = shares[attached..attached + results].iter().map(|share| *share == Share::Full).collect();
        for (block, _) in turn.results.iter().zip(&of_results).filter(|(_, shown)| !**shown) {
            if block.found().next().is_none() {
                turn.left_out_for_room.push(LeftOut { item: block.id.clone(), reason: Reason::OverBudget, score: None });
            }
            let found = block.found().map(|(item, score, _)| (item.clone(), Some(score)));
            let out = found.map(|(item, score)| LeftOut { item, reason: Reason::OverBudget, score });
            turn.left_out_for_room.extend(out);
        }
        let of_items = shares[..attached].iter().chain(&shares[attached + results..]);
        let frames = frames[..attached].iter().chain(&frames[attached + results..]);
        let mut shown = Vec::new();
        for ((mut placed, share), frame) in placed.into_iter().zip(of_items).zip(frames) {
            let version = Arc::clone(&placed.wanted.version);
            match share {
                Share::Full => {}
                Share::Cut(room) => {
                    let active = turn.active.as_ref() == Some(&version.id);
                    let supersedes = self.library.contains(&version.id);
                    let (block, tokens, cut) = self.capped_block(&version, RenderOptions { active, supersedes }, *room - *frame);
                    placed.tokens = tokens;
                    placed.how = How::Text { block, form: Form::Full, cut };
                }
                Share::Out => {
                    let left_out = LeftOut { item: version.id.clone(), reason: Reason::OverBudget, score: placed.wanted.score };
                    turn.left_out_for_room.push(left_out);
                    continue;
                }
            }
            if let How::Text { cut: true, .. } = placed.how {
                self.note("capped", Some(version.id.clone()), format!("{} was cut to {} tokens", version.id, placed.tokens));
            }
            shown.push(placed);
        }
        (shown, of_results)
    }

    /// The user message: notices, results, references, new texts, the current step and the user's words.
    fn user_message(&self, turn: &Turn, shown: &[Placed], results: &[bool]) -> Message {
        let mut draft = Draft::new(&*self.tokenizer);
        for notice in &turn.notices {
            let origin = notice.version.as_ref().map_or(Origin::Engine("notice"), |version| Origin::Item(version.id.clone()));
            draft.part(LayerId::L3, origin, Arc::clone(&notice.text));
        }
        let mut results = turn.results.iter().zip(results).filter(|(_, shown)| **shown).map(|(block, _)| block).peekable();
        if results.peek().is_some() {
            draft.part(LayerId::L3, Origin::Engine("heading"), RESULTS_HEADING);
        }
        for block in results {
            let search = block.found().next().is_some();
            for (at, part) in block.parts.iter().enumerate() {
                let origin = match &part.found {
                    Some((item, _)) => Origin::Item(item.clone()),
                    None if search => Origin::Engine("search"),
                    None => Origin::Item(block.id.clone()),
                };
                if at == 0 {
                    draft.part(LayerId::L3, origin, Arc::clone(&part.text));
                } else {
                    draft.push(LayerId::L3, origin, Arc::clone(&part.text));
                }
            }
        }
        let lines = shown.iter().filter_map(|placed| match &placed.how {
            How::Reference(line) => Some((placed.wanted.version.id.clone(), line)),
            _ => None,
        });
        let lines: Vec<_> = lines.collect();
        if !lines.is_empty() {
            draft.part(LayerId::L3, Origin::Engine("heading"), REFERENCES_HEADING);
            for (id, line) in lines {
                draft.push(LayerId::L3, Origin::Item(id.clone()), "\n");
                draft.push(LayerId::L3, Origin::Item(id), Arc::clone(line));
            }
            draft.part(LayerId::L3, Origin::Engine("heading"), find_them(self.settings.layout));
        }
        for placed in shown {
            if let How::Text { block, .. } = &placed.how {
                draft.part(LayerId::L3, Origin::Item(placed.wanted.version.id.clone()), Arc::clone(block));
            }
        }
        if let Some(directive) = &turn.directive {
            draft.part(LayerId::L3, Origin::Engine("directive"), directive.as_str());
        }
        if !draft.pieces.is_empty() {
            draft.part(LayerId::L3, Origin::Engine("heading"), QUERY_HEADING);
        }
        if !turn.words.is_empty() {
            draft.push(LayerId::L5, Origin::User, Arc::clone(&turn.words));
        }
        let mut message = Message::text(Role::User, draft.pieces);
        for (image, tokens) in self.new_images(turn) {
            message.images.push(image.clone());
            message.extra_tokens += tokens;
        }
        message
    }

    /// Records an item in the library and in the turn.
    fn enter(&mut self, turn: &mut Turn, placed: Placed, at: Tokens, cap: Tokens) {
        let Placed { wanted, how, tokens } = placed;
        let id = wanted.version.id.clone();
        self.seen.insert(id.clone());
        let entry = |layer, form| ContextEntry {
            item: id.clone(),
            include: wanted.include.into(),
            score: wanted.score,
            layer,
            form,
            tokens,
        };
        match how {
            How::Reference(_) => {
                self.library.touch(&id, wanted.version.hash, turn.number);
                if wanted.include != Include::Agent {
                    let promotable = self.is_promotable(&wanted);
                    self.library.adopt(&id, wanted.version.hash, wanted.include, promotable);
                }
                turn.context.push(entry(Some(LayerId::L3), Form::Reference));
            }
            How::Listed => {
                let size = self
                    .tool_specs()
                    .iter()
                    .find(|spec| spec.id.as_ref() == Some(&id))
                    .map_or(Tokens::ZERO, |spec| self.spec_tokens(spec));
                turn.context.push(ContextEntry { tokens: size, ..entry(None, Form::Full) });
            }
            How::Text { block, form, cut } => {
                turn.context.push(entry(Some(LayerId::L3), form));
                self.rent_superseded(&id);
                let supersedes = self.library.contains(&id);
                // Once its turn is over a note is a note like any other.
                let was_active = turn.active.as_ref() == Some(&id) && form == Form::Full && !cut;
                let (block, tokens) = if was_active {
                    let (block, tokens, _) = self.capped_block(&wanted.version, RenderOptions::superseding(supersedes), cap);
                    (block, tokens)
                } else {
                    (block, tokens)
                };
                self.library.push(Standing {
                    version: Arc::clone(&wanted.version),
                    block,
                    tokens,
                    include: wanted.include,
                    form,
                    place: Place::Message,
                    promotable: self.is_promotable(&wanted),
                    since: turn.number,
                    last_used: turn.number,
                    cut,
                    plain: form == Form::Full && !cut && !supersedes,
                    at,
                });
            }
        }
    }

    /// Whether an item may move to L2 after its turn.
    fn is_promotable(&self, wanted: &Wanted) -> bool {
        let version = &wanted.version;
        let of_kind = match version.id.kind() {
            Kind::Note => !version.has_images(),
            Kind::Url | Kind::Reference | Kind::Query => true,
            Kind::Selection => self.settings.promote_selections,
            Kind::Tool => self.settings.tools == ToolStyle::UseTool,
            _ => false,
        };
        of_kind && wanted.include != Include::Agent
    }
}

/// The context entry of an item that the user attached.
fn in_turn(item: &ItemId, form: Form, tokens: Tokens) -> ContextEntry {
    ContextEntry { item: item.clone(), include: Inclusion::Manual, score: None, layer: Some(LayerId::L3), form, tokens }
}

/// The tools that the search selected for a turn.
pub(super) fn chosen_tools(turn: &Turn) -> Vec<ItemId> {
    let tools = turn.chosen.iter().map(|wanted| &wanted.version.id).filter(|id| id.kind() == Kind::Tool);
    tools.cloned().collect()
}

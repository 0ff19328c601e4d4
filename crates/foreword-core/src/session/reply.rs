//! Handles incoming events: user messages, model replies, tool results and plans.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::draft::Draft;
use super::input::{Due, TurnInput, TurnResult};
use super::{Notice, ResultBlock, ResultPart, Session, Turn, Wanted};
use crate::catalog::Include;
use crate::envelope::{ContextEntry, Form, Inclusion, LeftOut};
use crate::hash::Hash;
use crate::history::{MessageId, Output, Unit};
use crate::item::{ItemId, Kind};
use crate::layer::LayerId;
use crate::message::{Image, Message, Opaque, Origin, Role, ToolCall};
use crate::pairing::{Answer, CallOutput, OpenCalls};
use crate::passage::Passage;
use crate::plan::{ACTION_PROMPT, Plan};
use crate::prompt::ToolStyle;
use crate::select::{Reason, select};
use crate::settings::Layout;
use crate::summary::{Effect, Run};
use crate::tokens::Tokens;
use crate::version::{Version, tool_result_block};
use foreword_text::fence::one_line;

impl Session {
    /// Begins a turn: closes open calls, selects items and adds the user's words to the history.
    pub(super) fn begin_turn(&mut self, input: TurnInput) {
        self.begin_turn_from(input, self.message_id());
    }

    /// The same for a user message with a given ID.
    pub(super) fn begin_turn_from(&mut self, input: TurnInput, id: MessageId) {
        self.close_open_calls();
        self.keep_unsent_words();
        self.add_mentioned(&input.words);
        let words: Arc<str> = Arc::from(input.words.as_str());
        let unit = self.history.units.len();
        self.summary.asked(unit, id, &words);
        for version in input.refreshed.iter().chain(&input.attached) {
            self.summary.read(unit, id, &version.id, version.hash);
        }
        let mut draft = Draft::new(&*self.tokenizer);
        if !words.is_empty() {
            draft.push(LayerId::L4, Origin::User, Arc::clone(&words));
        }
        let message = Arc::new(Message::text(Role::User, draft.pieces));
        self.history.current_user = Some(self.push_unit_from(Unit::User(message), id));
        self.history.directive = None;

        let (mut chosen, mut left_out) = self.choose(&input);
        for version in &input.refreshed {
            let text = format!("{} changed in the vault since it was sent; this request brings its new text", version.id);
            self.note("note_changed", Some(version.id.clone()), text);
        }
        for id in input.gone {
            self.note_gone(id);
        }
        let mut attached = self.attached(input.refreshed, input.attached);
        for wanted in &attached {
            self.removed.remove(&wanted.version.id);
            self.pending_notices.retain(|notice| notice.version.is_some() || notice.item != wanted.version.id);
        }
        let mut images: Vec<Image> = Vec::new();
        for version in attached.iter().map(|wanted| &wanted.version) {
            if input.active_note.as_ref() == Some(&version.id) || version.is_image() {
                for image in &version.images {
                    // The same picture may have several names.
                    if images.iter().all(|known| known.data != image.data) {
                        images.push(image.clone());
                    }
                }
            } else {
                let out = |image: &Image| LeftOut { item: image.id.clone(), reason: Reason::ImageNotActive, score: None };
                left_out.extend(version.images.iter().map(out));
            }
        }
        for passage in input.results.iter().flat_map(|result| &result.found) {
            if let Some(wanted) = attached.iter_mut().find(|wanted| wanted.version.id == passage.item) {
                wanted.score = Some(passage.score);
            } else if let Some(entry) = self.library.newest(&passage.item).filter(|_| passage.stands) {
                let version = Arc::clone(&entry.version);
                chosen.push(Wanted { version, include: Include::Agent, score: Some(passage.score) });
            }
        }
        for remark in input.results.iter().flat_map(|result| &result.remarks) {
            self.note("search", None, remark.clone());
        }
        let results = input.results.iter().map(|result| self.result_block(result, &mut left_out)).collect();
        if self.settings.tools == ToolStyle::UseTool {
            // A tool that is chosen at once is shown as such.
            self.pending_notices.retain(|notice| !chosen.iter().any(|wanted| wanted.version.id == notice.item));
        }
        self.turn = Some(Turn {
            number: self.turns,
            words,
            active: input.active_note,
            attached,
            results,
            chosen,
            notices: std::mem::take(&mut self.pending_notices),
            directive: self.history.plan.as_ref().map(|(plan, _)| plan.directive()).filter(|_| !input.plan_suspended),
            plan_suspended: input.plan_suspended,
            images,
            found: Vec::new(),
            left_out,
            message: None,
            context: Vec::new(),
            left_out_for_room: Vec::new(),
        });
        self.turns += 1;
    }

    /// Keeps the words of a turn that could not be sent in the history.
    fn keep_unsent_words(&mut self) {
        let unsent = self.turn.as_ref().is_some_and(|turn| turn.message.is_none());
        if unsent
            && self.settings.layout == Layout::Log
            && let Some(Unit::User(words)) = self.current_user().and_then(|at| self.history.units.get(at)).cloned()
        {
            self.append_step(&words);
        }
    }

    /// Adds the items that the user mentions as `@rule:x` and `@ref:y` to the session. The text is unchanged.
    fn add_mentioned(&mut self, words: &str) {
        for (at, _) in words.match_indices('@') {
            let rest = &words[at + 1..];
            let named = [("rule:", Kind::Rule), ("ref:", Kind::Reference)];
            let Some((rest, kind)) = named.iter().find_map(|(word, kind)| Some((rest.strip_prefix(word)?, *kind))) else {
                continue;
            };
            let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(rest.len());
            let id = ItemId::new(kind, &rest[..end]);
            if self.agent.find(&id).is_none() {
                self.note("unknown_mention", Some(id.clone()), format!("the agent has no {id}; the words were left as they are"));
            } else if !self.is_member(&id) {
                self.add(&id);
            }
        }
    }

    /// A note of the prompt is no longer in the vault. The model is told once; the text stays until a fold.
    fn note_gone(&mut self, id: ItemId) {
        if !self.removed.insert(id.clone()) {
            return;
        }
        self.note("note_gone", Some(id.clone()), format!("{id} is no longer in the vault; the prompt still holds its last text"));
        let name = one_line(&id.to_string());
        let text =
            format!("<engine_notice>\nNo longer in the vault, so its text above may be out of date: {name}\n</engine_notice>");
        let tokens = self.count(&text);
        self.pending_notices.push(Notice { item: id, version: None, text: text.into(), tokens });
    }

    /// Items of this turn: those that joined the session since the last one, those that changed, then the attached. The last of an item
    /// counts.
    fn attached(&mut self, refreshed: Vec<Version>, versions: Vec<Version>) -> Vec<Wanted> {
        let joined = std::mem::take(&mut self.pending_members).into_iter().filter_map(|id| {
            let include = self.members.iter().find(|(member, _)| *member == id).map_or(Include::Manual, |(_, include)| *include);
            Some((Version::catalogued(&self.agent.find(&id)?), include))
        });
        let mut joined: Vec<(Version, Include)> = joined.collect();
        for version in refreshed {
            let include = self.library.current(&version.id).map_or(Include::Manual, |standing| standing.include);
            joined.push((version, include));
        }
        let mut attached: Vec<Wanted> = Vec::new();
        for (version, include) in joined.into_iter().chain(versions.into_iter().map(|version| (version, Include::Manual))) {
            let wanted = Wanted { version: Arc::new(version), include, score: None };
            match attached.iter_mut().find(|earlier| earlier.version.id == wanted.version.id) {
                Some(earlier) => *earlier = wanted,
                None => attached.push(wanted),
            }
        }
        attached
    }

    /// Selects items of the agent by their search scores.
    fn choose(&mut self, input: &TurnInput) -> (Vec<Wanted>, Vec<LeftOut>) {
        let items = self.agent.items();
        let members: BTreeSet<&ItemId> = self.members().collect();
        let searched = items.iter().filter(|item| item.include == Include::Agent && !members.contains(&item.id));
        let (removed, waiting): (Vec<_>, Vec<_>) = searched.partition(|item| self.removed.contains(&item.id));
        let candidates: Vec<_> =
            waiting.iter().map(|item| (item.id.clone(), input.scores.get(&item.id).cloned().unwrap_or_default())).collect();
        let room = self.room_for_chosen(input);
        // Tools may have settings of their own; else they compete with the rules and references.
        let (tools, others): (Vec<_>, Vec<_>) = match self.settings.select_tools {
            Some(_) => candidates.into_iter().partition(|(id, _)| id.kind() == Kind::Tool),
            None => (Vec::new(), candidates),
        };
        let selection = select(&self.settings.select.within(room), &others);
        let of_tools = select(&self.settings.select_tools.unwrap_or_default().within(room), &tools);
        let mut chosen: Vec<_> = selection
            .chosen
            .into_iter()
            .chain(of_tools.chosen)
            .filter_map(|(id, score)| Some((waiting.iter().find(|item| item.id == id)?, score)))
            .collect();
        chosen.sort_by(|(a, score_a), (b, score_b)| {
            a.priority.cmp(&b.priority).then(score_b.total_cmp(score_a)).then(a.id.cmp(&b.id))
        });
        let chosen = chosen.into_iter().map(|(item, score)| Wanted {
            version: Arc::new(Version::catalogued(item)),
            include: Include::Agent,
            score: Some(score),
        });
        let left_out = selection.left_out.into_iter().chain(of_tools.left_out);
        let left_out = left_out.map(|(item, reason, score)| LeftOut { item, reason, score: Some(score) });
        let removed = removed.into_iter().map(|item| LeftOut { item: item.id.clone(), reason: Reason::Removed, score: None });
        (chosen.collect(), left_out.chain(removed).collect())
    }

    /// The room for selected items: the budget minus tools, L1 and this turn's content, by estimated sizes. Content of earlier
    /// turns does not count, because it can be removed.
    pub fn room_for_chosen(&self, input: &TurnInput) -> Tokens {
        let texts = input.attached.iter().map(|version| version.content.len());
        let texts = texts.chain(input.results.iter().map(|result| result.output.len())).chain([input.words.len()]);
        let tools = self.epoch.tools.as_ref().map_or(Tokens::ZERO, |tools| tools.tokens);
        self.settings.budget.prompt - tools - self.epoch.l1.tokens() - Tokens(texts.sum::<usize>() as u64 / 4)
    }

    fn result_block(&mut self, result: &TurnResult, left_out: &mut Vec<LeftOut>) -> ResultBlock {
        let part = |session: &Self, found, text: &str| ResultPart { found, tokens: session.count(text), text: text.into() };
        if result.found.is_empty() {
            let (id, output) = self.settle_output(&result.tool, &result.output, None);
            let block = tool_result_block(&mut self.fence, &result.tool, &result.attributes, &output);
            return ResultBlock { id, parts: vec![part(self, None, &block)] };
        }
        let (output, found) = self.fitted(result, left_out);
        let block = tool_result_block(&mut self.fence, &result.tool, &result.attributes, &output);
        let mut parts = Vec::new();
        let mut rest = block.as_str();
        for passage in found {
            let text = self.fence.escape(passage.block(&result.output)).into_owned();
            // Passages stand in the order in which they were found.
            let Some(at) = rest.find(&text).filter(|_| !text.is_empty()) else { continue };
            if at > 0 {
                parts.push(part(self, None, &rest[..at]));
            }
            parts.push(part(self, Some((passage.item.clone(), passage.score)), &text));
            rest = &rest[at + text.len()..];
        }
        if !rest.is_empty() {
            parts.push(part(self, None, rest));
        }
        ResultBlock { id: ItemId::output(Hash::of(&result.output)), parts }
    }

    /// The passages of a search output that fit, the best first.
    fn fitted<'a>(&mut self, result: &'a TurnResult, left_out: &mut Vec<LeftOut>) -> (Cow<'a, str>, &'a [Passage]) {
        let limit = self.settings.budget.output_cap(&result.tool);
        let mut output = Cow::Borrowed(result.output.as_str());
        let mut found = &result.found[..];
        while let [before @ .., last] = found
            && self.fence.escape(&output).chars().count() > limit
        {
            let out = last.start..last.end;
            if output.get(out.clone()).is_none() {
                break;
            }
            output.to_mut().replace_range(out, "");
            left_out.push(LeftOut { item: last.item.clone(), reason: Reason::OverBudget, score: Some(last.score) });
            found = before;
        }
        if found.len() < result.found.len() {
            self.keep_whole(&ItemId::output(Hash::of(&result.output)), &result.output);
        }
        (output, found)
    }

    /// Records the notes that a tool of the running turn found.
    pub(super) fn found(&mut self, output: &str, found: &[Passage]) {
        let id = ItemId::output(Hash::of(output));
        let entries = found.iter().map(|passage| {
            let tokens = if passage.stands { Tokens::ZERO } else { self.count(passage.block(output)) };
            let (item, score) = (passage.item.clone(), Some(passage.score));
            let entry =
                ContextEntry { item, include: Inclusion::Agent, score, layer: Some(LayerId::L4), form: Form::Passage, tokens };
            (id.clone(), entry)
        });
        let entries: Vec<_> = entries.collect();
        if let Some(turn) = &mut self.turn {
            turn.found.extend(entries);
        }
    }

    /// Whether the prompt already contains this passage of a note, given the attachments.
    pub fn holds(&self, note: &ItemId, attached: &[Version], passage: &str) -> bool {
        match attached.iter().find(|version| version.id == *note) {
            Some(version) => self.count(&version.content) <= self.settings.budget.item_cap(),
            None => self.library.newest(note).is_some_and(|entry| !entry.cut && entry.version.content.contains(passage)),
        }
    }

    /// Handles a reply of the model.
    pub(super) fn assistant(&mut self, text: &str, calls: &[ToolCall], opaque: Vec<Opaque>) -> Due {
        self.close_open_calls();
        let opaque = self.take_opaque(opaque);
        if text.is_empty() && calls.is_empty() {
            self.note("empty_reply", None, "the model answered nothing; the message is not sent again");
            return Due::Nothing;
        }
        let (message, open) = self.calling(text, calls, opaque);
        if calls.is_empty() {
            let unit = self.push_unit(Unit::PastMessage(Arc::clone(&message)));
            let id = self.message_id();
            self.summary.answered(unit, id, text);
            self.append_step(&message);
        } else {
            self.history.open = Some((message, open));
            self.history.open_id = self.message_id();
        }
        Due::Nothing
    }

    /// Adds a reply and opens its calls.
    pub(super) fn calling(&mut self, text: &str, calls: &[ToolCall], opaque: Vec<Opaque>) -> (Arc<Message>, OpenCalls) {
        let open = OpenCalls::new(calls, &mut self.history.used_ids);
        let mut draft = Draft::new(&*self.tokenizer);
        if !text.is_empty() {
            draft.push(LayerId::L4, Origin::Model, text);
        }
        let mut message = Message::text(Role::Assistant, draft.pieces);
        message.calls = open.calls().cloned().collect();
        message.opaque = opaque;
        message.extra_tokens = self.wordless_tokens(&message);
        (Arc::new(message), open)
    }

    /// Handles a tool result.
    pub(super) fn tool_result(&mut self, id: &str, output: CallOutput) -> Due {
        let answer = self.history.open.as_mut().map_or(Answer::Unasked, |(_, open)| open.answer(id, output));
        match answer {
            Answer::Taken => Due::Nothing,
            Answer::Complete => {
                self.close_open_calls();
                Due::Request
            }
            Answer::Unasked => {
                let kind = if self.history.used_ids.contains(id) { "duplicate_result" } else { "orphan_result" };
                let shown: String = id.chars().map(|c| if c.is_control() { ' ' } else { c }).take(80).collect();
                self.note(kind, None, format!("a result for call {shown:?} was not asked for or came before; it is not sent"));
                Due::Nothing
            }
        }
    }

    /// Closes open calls, with a placeholder for each missing result.
    pub(super) fn close_open_calls(&mut self) {
        let Some((assistant, open)) = self.history.open.take() else { return };
        let outputs = self.settled_calls(open, self.history.open_id);
        self.append_step(&assistant);
        for output in &outputs {
            self.rent_output(output);
            self.append_step(&output.full);
        }
        self.push_unit(Unit::Calls(assistant, outputs));
        if let Some(directive) = self.history.directive.take() {
            self.engine_says("directive", &directive);
        }
    }

    /// The outputs of calls, with a placeholder for each missing result, as part of the message `from`.
    pub(super) fn settled_calls(&mut self, open: OpenCalls, from: MessageId) -> Vec<Output> {
        if !open.is_complete() {
            self.note("interrupted", None, "calls without a result were answered with a placeholder");
        }
        let unit = self.history.units.len();
        let mut outputs = Vec::new();
        for (call, output) in open.close() {
            let effect = if self.is_read_only(&call.name) { Effect::Reads } else { Effect::Changes };
            let arguments = crate::json::to_string(&call.arguments);
            let run = Run { tool: &call.name, arguments: &arguments, output: &output.text, effect };
            self.summary.ran(unit, from, &run);
            outputs.push(self.output_of(&call, &output));
        }
        outputs
    }

    fn is_read_only(&self, name: &str) -> bool {
        self.agent.tools.iter().any(|tool| tool.read_only && tool.name == name)
    }

    fn engine_says(&mut self, what: &'static str, text: &str) {
        let message = self.plain(Role::User, Origin::Engine(what), text);
        self.append_step(&message);
        self.push_unit(Unit::Engine(message));
    }

    /// Answers the call that submitted a plan or completed a step, unless the caller does. If it is already answered, the text is
    /// sent as an engine message.
    fn answer_or_say(&mut self, call: Option<String>, answered: bool, result: &str) -> Due {
        match (call, self.history.directive.take()) {
            (None, Some(directive)) => self.say_now("directive", &directive),
            (call, directive) => {
                self.history.directive = directive;
                call.filter(|_| !answered).map_or(Due::Nothing, |call| self.tool_result(&call, CallOutput::done(result)))
            }
        }
    }

    /// Sends an engine message between two model messages, if a turn is running.
    fn say_now(&mut self, what: &'static str, text: &str) -> Due {
        if self.turn.as_ref().is_some_and(|turn| turn.message.is_some()) {
            self.engine_says(what, text);
        }
        Due::Nothing
    }

    /// Handles a plan. The directive for its current step follows the tool results.
    pub(super) fn plan(&mut self, steps: &[String], answered: bool) -> Due {
        let unit = self.history.units.len();
        let call = self
            .history
            .open
            .as_ref()
            .and_then(|(_, open)| open.open_call("plan").or_else(|| open.last_open()))
            .map(str::to_owned);
        let plan = match Plan::new(steps, self.settings.plan) {
            Ok(plan) => plan,
            Err(refused) => {
                let reason = refused.to_string();
                self.note("plan_refused", None, reason.clone());
                return match call {
                    Some(call) => self.tool_result(&call, CallOutput::failed(reason)),
                    None => self.say_now("notice", &reason),
                };
            }
        };
        let id = self.message_id();
        self.summary.planned(unit, id, plan.steps().len());
        self.history.directive = Some(plan.directive());
        if let Some(turn) = &mut self.turn {
            turn.plan_suspended = false;
        }
        let accepted = plan.accepted();
        self.history.plan = Some((plan, unit));
        self.answer_or_say(call, answered, &accepted)
    }

    /// The plan ends where it is; its steps stay in the call that brought them.
    pub(super) fn cancel_plan(&mut self) {
        let kind = if self.history.plan.take().is_some() { "plan_cancelled" } else { "no_plan" };
        self.history.directive = None;
        self.note(kind, None, if kind == "no_plan" { "there is no plan to cancel" } else { "the user cancelled the plan" });
    }

    /// The current step is done.
    pub(super) fn task_complete(&mut self, answered: bool) -> Due {
        let unit = self.history.units.len();
        let Some((plan, plan_unit)) = self.history.plan.take() else {
            self.note("no_plan", None, "a step was completed where no plan is at work");
            return Due::Nothing;
        };
        let (step, of) = plan.position();
        let id = self.message_id();
        self.summary.finished(unit, id, step, of);
        let next = plan.advance();
        self.history.directive = next.as_ref().map(Plan::directive);
        self.history.plan = next.map(|plan| (plan, plan_unit));
        let call = self
            .history
            .open
            .as_ref()
            .and_then(|(_, open)| open.open_call("task_complete").or_else(|| open.last_open()))
            .map(str::to_owned);
        self.answer_or_say(call, answered, &format!("Step {step} of {of} is complete."))
    }

    /// Asks the model once to call a tool; repeated only after it has called one.
    pub(super) fn action_prompt(&mut self) -> Due {
        let since_calls = self.history.units.iter().rev().take_while(|unit| !matches!(unit, Unit::Calls(..) | Unit::User(_)));
        let told =
            since_calls.into_iter().any(|unit| matches!(unit, Unit::Engine(message) if *message.content() == *ACTION_PROMPT));
        if told || self.history.open.is_some() || self.turn.is_none() {
            self.note("action_prompt_skipped", None, "the model was told to act already, or calls are open");
            return Due::Nothing;
        }
        self.engine_says("action_prompt", ACTION_PROMPT);
        Due::Request
    }

    /// Size of what the newest calls of the running turn need at the least, and the unit they are.
    pub(super) fn newest_calls(&self) -> Option<(usize, Tokens)> {
        let user = self.current_user()?;
        let last = self.history.units.iter().rposition(|unit| !matches!(unit, Unit::Engine(_)))?;
        // What the engine said since, right behind the user's words or behind the newest calls, goes with them.
        let at = last.max(user + 1);
        if at >= self.history.units.len() {
            return None;
        }
        let stubs_before = usize::MAX;
        let units = &self.history.units[at..];
        Some((at, units.iter().map(|unit| unit.tokens(stubs_before)).sum()))
    }
}

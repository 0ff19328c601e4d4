//! A session: one conversation, processed in steps 2 to 5.
//!
//! A [`Session`] receives [`Input`]s and returns an [`Envelope`] whenever a request is due. It owns all state. The same inputs give
//! the same bytes on every machine, so a fork is a replay.

mod checkpoint;
mod compose;
mod draft;
mod fold;
mod fold_plan;
mod input;
mod managed;
mod members;
mod model;
mod opaque;
mod past;
mod rent;
mod reply;
mod system;
mod view;

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use self::checkpoint::NotACheckpoint;
pub use self::input::{Due, Input, InputError, PastMessage, Pin, TurnInput, TurnResult, Unpin};
pub use self::managed::{FoldPreview, SidePrompt, Spoken};
pub use self::view::{LayerView, SegmentView};
use crate::budget::{Mandatory, OverBudget};
use crate::catalog::{Agent, Include};
use crate::envelope::{ContextEntry, Envelope, FoldReason, Form, LayerSum, LeftOut, Note};
use crate::hash::Hash;
use crate::history::{History, MessageId, Shown, Unit};
use crate::image_tokens::ImageTokens;
use crate::item::{ItemId, Kind};
use crate::layer::LayerId;
use crate::library::Library;
use crate::message::{Image, Message};
use crate::pairing::CallOutput;
use crate::plan::Plan;
use crate::prompt::{Prompt, ToolPlan, ToolStyle};
use crate::select::Reason;
use crate::settings::{HistoryPolicy, Layout, Settings};
use crate::summary::{RollingSummary, Written};
use crate::tokens::{Tokenizer, Tokens};
use crate::version::Version;
use foreword_text::fence::Fence;

/// An item that a turn asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Wanted {
    version: Arc<Version>,
    include: Include,
    score: Option<f64>,
}

/// A tool output inside the user message.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ResultBlock {
    id: ItemId,
    parts: Vec<ResultPart>,
}

impl ResultBlock {
    fn tokens(&self) -> Tokens {
        self.parts.iter().map(|part| part.tokens).sum()
    }

    /// The notes that a search found, with their scores.
    fn found(&self) -> impl Iterator<Item = (&ItemId, f64, Tokens)> {
        self.parts.iter().filter_map(|part| part.found.as_ref().map(|(item, score)| (item, *score, part.tokens)))
    }
}

/// A part of a tool output: a passage that a search found, or the text around it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ResultPart {
    found: Option<(ItemId, f64)>,
    text: Arc<str>,
    tokens: Tokens,
}

/// An engine-written block before a turn, in the `log` layout.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Notice {
    item: ItemId,
    /// The text it introduces, or `None` if it is only a message.
    version: Option<Arc<Version>>,
    text: Arc<str>,
    tokens: Tokens,
}

/// The running turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Turn {
    number: usize,
    words: Arc<str>,
    active: Option<ItemId>,
    attached: Vec<Wanted>,
    results: Vec<ResultBlock>,
    chosen: Vec<Wanted>,
    notices: Vec<Notice>,
    /// The plan's current step when the turn began.
    directive: Option<String>,
    /// Whether the plan rests while this turn runs.
    plan_suspended: bool,
    images: Vec<Image>,
    /// Passages found by the model's own searches: the output that contains them, and their context entry.
    found: Vec<(ItemId, ContextEntry)>,
    left_out: Vec<LeftOut>,
    /// The user message as sent; `None` before the first request of the turn.
    message: Option<Arc<Message>>,
    context: Vec<ContextEntry>,
    left_out_for_room: Vec<LeftOut>,
}

impl Turn {
    /// Whether the user's words have a heading in any case.
    fn has_frame(&self) -> bool {
        !self.notices.is_empty() || self.directive.is_some()
    }
}

/// A series of requests in which the prompt prefix only grows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Epoch {
    number: usize,
    /// The reason for the epoch, until its first request is sent.
    began: Option<FoldReason>,
    shown: Shown,
    /// The messages of the request.
    messages: Vec<Arc<Message>>,
    /// The number of messages at the start of the epoch.
    base: usize,
    /// Size of all messages.
    total: Tokens,
    l1: LayerSum,
    l2: LayerSum,
    l1_context: Vec<ContextEntry>,
    l1_segments: Vec<SegmentView>,
    /// L4 up to the user message of this turn, including the steps after it.
    past: LayerSum,
    now: LayerSum,
    /// The number of messages that `past` includes.
    absorbed: usize,
    tools: Option<ToolPlan>,
    rent: rent::Rent,
}

/// One conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    settings: Settings,
    #[serde(skip, default = "checkpoint::no_tokenizer")]
    tokenizer: Arc<dyn Tokenizer>,
    agent: Agent,
    members: Vec<(ItemId, Include)>,
    /// What the user removed, and what is no longer in the vault: the search may not bring it back.
    removed: BTreeSet<ItemId>,
    /// Every item that was ever part of a request.
    seen: BTreeSet<ItemId>,
    fence: Fence,
    history: History,
    summary: RollingSummary,
    library: Library,
    epoch: Epoch,
    turn: Option<Turn>,
    turns: usize,
    requests: usize,
    pending_fold: Option<FoldReason>,
    pending_notices: Vec<Notice>,
    pending_members: Vec<ItemId>,
    undo: Option<Box<fold::Undo>>,
    /// Items that the last fold left out.
    dropped: Vec<LeftOut>,
    outbox: Vec<(ItemId, Arc<str>)>,
    notes: Vec<Note>,
    idle_s: u64,
    /// Items that every fold keeps.
    pinned: BTreeSet<ItemId>,
    /// The number of inputs so far.
    inputs: u64,
    written: Option<Written>,
    /// A new summary exists that no fold has put into the prompt yet.
    summary_waits: bool,
    account: rent::Account,
}

impl Session {
    /// Begins a session with the agent's `always` items.
    pub fn new(agent: Agent, settings: Settings, tokenizer: Arc<dyn Tokenizer>) -> Result<Self, InputError> {
        agent.check()?;
        let mut fence = Fence::new();
        for tool in &agent.tools {
            fence.know_tool(&tool.name);
        }
        let always = agent.items().into_iter().filter(|item| item.include == Include::Always);
        let members = always.map(|item| (item.id, Include::Always)).collect();
        let written = match &settings.history {
            HistoryPolicy::Managed { summary: Some(text), .. } => Some(Written { text: text.clone(), covers: None }),
            _ => None,
        };
        let mut session = Self {
            settings,
            tokenizer,
            agent,
            members,
            removed: BTreeSet::new(),
            seen: BTreeSet::new(),
            fence,
            history: History::default(),
            summary: RollingSummary::default(),
            library: Library::default(),
            epoch: Epoch::default(),
            turn: None,
            turns: 0,
            requests: 0,
            pending_fold: None,
            pending_notices: Vec::new(),
            pending_members: Vec::new(),
            undo: None,
            dropped: Vec::new(),
            outbox: Vec::new(),
            notes: Vec::new(),
            idle_s: 0,
            pinned: BTreeSet::new(),
            inputs: 0,
            written,
            summary_waits: false,
            account: rent::Account::default(),
        };
        session.seat_members();
        session.lay_out();
        Ok(session)
    }

    /// Applies an input. Returns whether a request is due.
    pub fn apply(&mut self, input: Input) -> Result<Due, InputError> {
        self.check(&input)?;
        let due = self.take_in(input);
        self.inputs += 1;
        Ok(due)
    }

    fn take_in(&mut self, input: Input) -> Due {
        match input {
            Input::Turn(turn) => {
                self.begin_turn(turn);
                Due::Request
            }
            Input::Assistant { text, calls, opaque } => self.assistant(&text, &calls, opaque),
            Input::ToolResult { id, output, failed, found } => {
                self.found(&output, &found);
                self.tool_result(&id, CallOutput { text: output, failed })
            }
            Input::Plan { steps, answered } => self.plan(&steps, answered),
            Input::TaskComplete { answered } => self.task_complete(answered),
            Input::ActionPrompt => self.action_prompt(),
            Input::CancelPlan => {
                self.cancel_plan();
                Due::Nothing
            }
            Input::Interrupt => {
                self.close_open_calls();
                Due::Nothing
            }
            Input::Add(id) => {
                self.add(&id);
                Due::Nothing
            }
            Input::Remove(id) => {
                self.remove(&[id]);
                Due::Nothing
            }
            Input::Agent(agent) => {
                self.change_agent(*agent);
                Due::Nothing
            }
            Input::Summary(summary) => {
                self.written = summary.map(|text| Written { text, covers: None });
                Due::Nothing
            }
            Input::Managed { summary, covers } => {
                self.written = Some(Written { text: summary, covers: Some(covers) });
                self.summary_waits = true;
                Due::Nothing
            }
            Input::Pin(pin) => {
                self.pin(&pin);
                Due::Nothing
            }
            Input::Unpin(unpin) => {
                self.unpin(&unpin);
                Due::Nothing
            }
            Input::Idle(seconds) => {
                self.idle_s = self.idle_s.saturating_add(seconds);
                Due::Nothing
            }
            Input::Fold => {
                self.pending_fold = self.pending_fold.or(Some(FoldReason::Asked));
                Due::Nothing
            }
            Input::UndoFold => {
                self.undo_fold();
                Due::Nothing
            }
            Input::Past(said) => self.past(said),
            Input::Library(versions) => {
                self.stock_library(versions);
                Due::Nothing
            }
            Input::Forked { epoch } => {
                self.epoch.number = epoch;
                self.epoch.began = Some(FoldReason::Forked);
                Due::Nothing
            }
        }
    }

    /// The ID of the message that the current input adds.
    fn message_id(&self) -> MessageId {
        MessageId::of_input(self.inputs)
    }

    /// Whether there is a fold to take back: one that was made, or one that was asked for and is still to come.
    pub fn can_undo_fold(&self) -> bool {
        self.undo.is_some() || self.pending_fold == Some(FoldReason::Asked)
    }

    /// Whether an input refers only to what is there. One that passes can be applied.
    pub fn check(&self, input: &Input) -> Result<(), InputError> {
        match input {
            Input::Turn(turn) => {
                let items = if turn.scores.is_empty() { BTreeMap::new() } else { self.agent.by_id() };
                let unknown = turn.scores.keys().find(|id| !items.contains_key(id));
                unknown.map_or(Ok(()), |id| Err(InputError::UnknownItem(id.clone())))
            }
            Input::Add(id) | Input::Remove(id) => {
                let known = self.agent.find(id).is_some() || self.seen.contains(id) || self.is_member(id);
                if known { Ok(()) } else { Err(InputError::UnknownItem(id.clone())) }
            }
            Input::Agent(agent) => Ok(agent.check()?),
            Input::Pin(pin) => self.check_pin(pin),
            Input::Unpin(unpin) => self.check_unpin(unpin),
            Input::Past(_) | Input::Library(_) if self.turn.is_some() || self.requests > 0 => Err(InputError::TooLate),
            _ => Ok(()),
        }
    }

    /// Builds the request that is due. After an error the turn is still pending.
    pub fn request(&mut self) -> Result<Envelope, OverBudget> {
        if self.epoch.tools.is_none() {
            self.epoch.tools = Some(self.tool_plan(&[], None));
        }
        let asked = self.pending_fold;
        let sent = self.sent();
        let reason = match self.fold_reason() {
            Some(reason) => Some(reason),
            None if self.is_placed() => self.outgrown(),
            // Parts that were planned one by one may be larger once they are joined; a fold keeps room for that.
            None => self.place().or_else(|| (self.total() > self.settings.budget.prompt).then_some(FoldReason::Budget)),
        };
        let planned = self.fold_in_part(reason);
        if let Some(reason) = reason {
            // What asked for a fold still does when there was no room for it.
            self.fold(reason, Tokens::ZERO, planned.as_ref()).inspect_err(|_| self.pending_fold = asked)?;
            let missing = self.total() - self.settings.budget.prompt;
            if missing > Tokens::ZERO {
                // Sizes are planned before the parts are joined, and this tokenizer finds more at the seams.
                self.fold(reason, missing, None)?;
            }
        }
        if self.total() > self.settings.budget.prompt {
            // What may never be given up fits part by part, but not once it is joined.
            let (tools, l1) = (self.total() - self.epoch.total, self.l1_tokens());
            let mandatory = Mandatory { tools, l1, standing: self.epoch.total - l1, ..Mandatory::default() };
            return Err(OverBudget { mandatory, budget: self.settings.budget.prompt });
        }
        self.pay(sent, reason, planned.as_ref());
        Ok(self.record())
    }

    /// The size of the request, including tools.
    fn total(&self) -> Tokens {
        self.epoch.total + self.epoch.tools.as_ref().map_or(Tokens::ZERO, |tools| tools.tokens)
    }

    /// The size of the last request, tools included, with what was said since.
    pub fn prompt_tokens(&self) -> Tokens {
        self.total()
    }

    /// Where the running turn's user message stands.
    fn running_at(&self) -> Option<usize> {
        let running = self.turn.as_ref()?.message.as_ref()?;
        self.epoch.messages.iter().rposition(|message| Arc::ptr_eq(running, message) || running == message)
    }

    fn is_placed(&self) -> bool {
        self.turn.as_ref().is_none_or(|turn| turn.message.is_some())
    }

    fn record(&mut self) -> Envelope {
        let (mut l3, mut l5) = (LayerSum::default(), LayerSum::default());
        let message = self.turn.as_ref().and_then(|turn| turn.message.clone());
        for (layer, sum) in [(LayerId::L3, &mut l3), (LayerId::L5, &mut l5)] {
            let pieces = message.iter().flat_map(|message| &message.pieces).filter(|piece| piece.layer == layer);
            let (texts, tokens): (Vec<&str>, Vec<Tokens>) = pieces.map(|piece| (&*piece.text, piece.tokens)).unzip();
            if !texts.is_empty() {
                sum.push(&texts, tokens.into_iter().sum());
            }
        }
        l3.add_frame(message.as_ref().map_or(Tokens::ZERO, |message| message.extra_tokens));
        let layers = [&self.epoch.l1, &self.epoch.l2, &l3, &self.epoch.now, &l5].map(LayerSum::record);
        let tools = self.epoch.tools.clone().unwrap_or_else(|| self.tool_plan(&[], None));
        let turn_context = self.turn_context();
        let left_out = self.left_out();
        let envelope = Envelope {
            index: self.requests,
            turn: self.turn.as_ref().map_or(0, |turn| turn.number),
            epoch: self.epoch.number,
            began: self.epoch.began.take(),
            layers,
            combined: Envelope::combine(&layers),
            messages: self.epoch.messages.len(),
            settled: self.settled(),
            tokens: self.total(),
            tools,
            cut: self.epoch.shown.cut,
            turn_context,
            left_out,
            notes: std::mem::take(&mut self.notes),
        };
        self.requests += 1;
        self.history.answerable = true;
        self.idle_s = 0;
        envelope
    }

    /// The items of the turn, including those found by the model's searches.
    fn turn_context(&self) -> Vec<ContextEntry> {
        let Some(turn) = &self.turn else { return Vec::new() };
        let mut context = turn.context.clone();
        for (output, entry) in &turn.found {
            if let Some(known) = context.iter_mut().find(|known| known.item == entry.item) {
                known.score = known.score.or(entry.score);
                continue;
            }
            let mut messages = self.epoch.messages.iter().rev();
            let shown = messages.find(|message| view::output_of(message) == Some(output));
            if let Some(message) = shown.filter(|_| entry.tokens > Tokens::ZERO) {
                let form = if view::is_stub(message) { Form::Stub } else { entry.form };
                context.push(ContextEntry { form, ..entry.clone() });
            }
        }
        context
    }

    /// The items that are not in this request because of the search or the budget, and session items without room.
    fn left_out(&mut self) -> Vec<LeftOut> {
        let dropped = std::mem::take(&mut self.dropped);
        let turn = self.turn.as_ref();
        let mut left_out = turn.map(|turn| [&turn.left_out[..], &turn.left_out_for_room[..]].concat()).unwrap_or_default();
        let announced = self.pending_notices.iter().filter(|notice| notice.version.is_some()).map(|notice| &notice.item);
        let waiting = self.pending_members.iter().chain(announced);
        left_out.extend(waiting.map(|item| LeftOut { item: item.clone(), reason: Reason::NextTurn, score: None }));
        if self.settings.images == ImageTokens::None {
            let images = turn.into_iter().flat_map(|turn| &turn.images);
            let out = |image: &Image| LeftOut { item: image.id.clone(), reason: Reason::ImagesNotTaken, score: None };
            left_out.extend(images.map(out));
        }
        let roomless =
            self.members.iter().map(|(id, _)| id).filter(|id| self.stands_in_library(id) && !self.library.contains(id));
        let roomless = roomless.map(|item| LeftOut { item: item.clone(), reason: Reason::OverBudget, score: None });
        let mut known: BTreeSet<ItemId> = left_out.iter().map(|left_out| left_out.item.clone()).collect();
        for missing in roomless.collect::<Vec<_>>().into_iter().chain(dropped) {
            if known.insert(missing.item.clone()) {
                left_out.push(missing);
            }
        }
        // What came in after all, by whatever way, is not left out.
        let is_in = |item: &ItemId| {
            let by_turn = turn.is_some_and(|turn| turn.context.iter().any(|entry| entry.item == *item));
            by_turn || self.library.newest(item).is_some_and(|entry| entry.include != Include::Agent)
        };
        left_out.retain(|left_out| !is_in(&left_out.item));
        left_out
    }

    /// Whether a session item belongs into L2.
    fn stands_in_library(&self, id: &ItemId) -> bool {
        match id.kind() {
            Kind::Reference => true,
            Kind::Tool => self.settings.tools == ToolStyle::UseTool,
            _ => false,
        }
    }

    /// The number of messages that the next turn's request shares if nothing else changes.
    fn settled(&self) -> usize {
        let sheds = |turn: &Turn| {
            turn.message.as_ref().is_some_and(|message| message.pieces.iter().any(|piece| piece.layer == LayerId::L3))
        };
        let rewritten = self.settings.layout == Layout::Library && self.turn.as_ref().is_some_and(sheds);
        if rewritten { self.epoch.absorbed } else { self.epoch.messages.len() }
    }

    /// The messages of the last request.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.epoch.messages
    }

    /// The last request as a prompt, for step 6.
    pub fn prompt<'a>(&'a self, envelope: &'a Envelope) -> Prompt<'a> {
        Prompt {
            messages: &self.epoch.messages,
            tools: &envelope.tools,
            settled: envelope.settled,
            session: &self.settings.session,
            l1: envelope.layers[LayerId::L1.index()].hash,
            l2: envelope.layers[LayerId::L2.index()].hash,
            reply_tokens: self.settings.budget.reply,
        }
    }

    /// The full tool outputs since the last call, for the outbox.
    pub fn take_outbox(&mut self) -> Vec<(ItemId, Arc<str>)> {
        std::mem::take(&mut self.outbox)
    }

    /// The session's agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The session's items and how each was included.
    pub fn included(&self) -> &[(ItemId, Include)] {
        &self.members
    }

    /// The session's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The session's tokenizer.
    pub fn tokenizer(&self) -> &Arc<dyn Tokenizer> {
        &self.tokenizer
    }

    /// The current plan.
    pub fn current_plan(&self) -> Option<&Plan> {
        self.history.plan.as_ref().map(|(plan, _)| plan)
    }

    /// Whether an item was removed: by the user, or because it is no longer in the vault.
    pub fn is_removed(&self, id: &ItemId) -> bool {
        self.removed.contains(id)
    }

    /// The current versions of the notes that the prompt holds.
    pub fn notes_in_prompt(&self) -> Vec<&Version> {
        let of_turn = self.turn.iter().flat_map(|turn| &turn.attached).map(|wanted| &*wanted.version);
        let of_turn = of_turn.filter(|version| self.library.current(&version.id).is_none());
        let standing = self.library.current_versions().into_iter().map(|entry| &*entry.version);
        standing.chain(of_turn).filter(|version| version.id.kind() == Kind::Note).collect()
    }

    /// What is in the session, by the agent's word or by the user's hand.
    pub fn members(&self) -> impl Iterator<Item = &ItemId> {
        self.members.iter().map(|(id, _)| id)
    }

    /// The number of turns.
    pub fn turns(&self) -> usize {
        self.turns
    }

    /// The number of the current epoch.
    pub fn epoch(&self) -> usize {
        self.epoch.number
    }

    /// Creates a session by replaying inputs. A request that did not fit its budget then is skipped, as it was the first time.
    pub fn replay<'a>(
        agent: Agent,
        settings: Settings,
        tokenizer: Arc<dyn Tokenizer>,
        inputs: impl IntoIterator<Item = &'a Input>,
    ) -> Result<Self, InputError> {
        let mut session = Self::new(agent, settings, tokenizer)?;
        for input in inputs {
            session.repeat(input.clone())?;
        }
        Ok(session)
    }

    /// Replays one input and rebuilds the request that it made due.
    pub fn repeat(&mut self, input: Input) -> Result<Option<Envelope>, InputError> {
        let due = self.apply(input)?;
        Ok(if due == Due::Request { self.request().ok() } else { None })
    }

    fn note(&mut self, kind: &'static str, item: Option<ItemId>, text: impl Into<String>) {
        self.notes.push(Note { kind: kind.into(), item, text: text.into() });
    }

    fn count(&self, text: &str) -> Tokens {
        self.tokenizer.count(text)
    }

    fn is_member(&self, id: &ItemId) -> bool {
        self.members.iter().any(|(member, _)| member == id)
    }

    /// The history unit of the running turn's user message.
    fn current_user(&self) -> Option<usize> {
        self.history.current_user
    }

    fn push_unit(&mut self, unit: Unit) -> usize {
        let id = if matches!(unit, Unit::Calls(..)) { self.history.open_id } else { self.message_id() };
        self.push_unit_from(unit, id)
    }

    fn push_unit_from(&mut self, unit: Unit, id: MessageId) -> usize {
        self.history.ids.push(id);
        self.history.units.push(unit);
        self.history.units.len() - 1
    }

    /// Appends a message to the request.
    fn append(&mut self, message: &Arc<Message>) {
        self.history.answerable = false;
        let place = self.end_place();
        self.epoch.rent.appended(message, place);
        self.epoch.total += message.tokens();
        self.epoch.messages.push(Arc::clone(message));
    }

    /// Appends a message of the running turn after its user message.
    fn append_step(&mut self, message: &Arc<Message>) {
        self.append(message);
        push_message(&mut self.epoch.now, message);
    }
}

/// Adds a whole message to a layer as one segment.
fn push_message(sum: &mut LayerSum, message: &Message) {
    let rest = wordless_texts(message);
    sum.push(&message_parts(message, &rest), message.tokens());
}

/// The hash of a message: its text, calls and opaque blocks.
fn message_hash(message: &Message) -> Hash {
    let rest = wordless_texts(message);
    Hash::of(message_parts(message, &rest).concat())
}

fn wordless_texts(message: &Message) -> Vec<String> {
    message.calls.iter().map(draft::call_text).chain(message.opaque.iter().map(opaque::opaque_text)).collect()
}

fn message_parts<'a>(message: &'a Message, rest: &'a [String]) -> Vec<&'a str> {
    message.pieces.iter().map(|piece| &*piece.text).chain(rest.iter().map(String::as_str)).collect()
}

//! The ways in which the same conversation can be put to a model, turn by turn.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use foreword_core::catalog::Agent;
use foreword_core::message::Role;
use foreword_core::session::TurnInput;
use foreword_core::tokens::Tokens;
use foreword_core::version::{RenderOptions, Version};
use foreword_engine::Layout;
use foreword_engine::session::{
    CancellationToken, ChatModel, NoHands, Outgoing, Question, RecordedSession, Reply, ReplyStream, Setup, SpeakError, Spent,
    Sqlite, receive, whole_reply,
};
use foreword_models::chat_model::{Chat, ChatModel as LocalModel, Prompt, Sampling};
use foreword_prompt_cache::CacheSim;
use foreword_text::fence::Fence;

use crate::talk::Turn;

/// Only the start of an answer is waited for.
const WRITTEN: usize = 1;

/// What one turn took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    /// Until the first token was there.
    pub(crate) first: Duration,
    /// Tokens of the prompt.
    pub(crate) prompt: u64,
    /// Those that whoever answered says it did not have to evaluate.
    pub(crate) cached: u64,
    /// Those that the prompt begins with in common with what had been evaluated before, counted here.
    pub(crate) common: u64,
    /// Whether all of the prompt before stands at its start.
    pub(crate) appended: bool,
    /// What the cache simulator says was cached.
    pub(crate) simulated: u64,
}

impl Took {
    pub(crate) fn evaluated(&self) -> u64 {
        self.prompt - self.cached
    }

    /// How far the simulator is off, in parts of what is reported.
    pub(crate) fn off(&self) -> f64 {
        self.simulated.abs_diff(self.cached) as f64 / self.cached.max(1) as f64
    }
}

/// A conversation that is under way.
pub(crate) trait Way {
    /// Says the next thing and waits for the answer to begin.
    fn say(&mut self, turn: &Turn, note: Option<&Version>) -> Result<Took>;
}

/// Compares prompts token by token, apart from whoever evaluates them.
struct Watch {
    model: Arc<LocalModel>,
    /// The prompt before, then what was written.
    before: Vec<u32>,
    /// Tokens of that prompt.
    prompt: usize,
}

impl Watch {
    fn new(model: &Arc<LocalModel>) -> Self {
        Self { model: Arc::clone(model), before: Vec::new(), prompt: 0 }
    }

    /// How many tokens `prompt` begins with in common with the one before and what was written then, and whether the one before stands there whole.
    fn look(&mut self, prompt: &Prompt, written: &str) -> (u64, bool) {
        let ids = prompt.ids();
        let common = self.before.iter().zip(ids).take_while(|(before, now)| before == now).count();
        let appended = common >= self.prompt;
        self.before = ids.to_vec();
        self.before.extend(self.model.tokenizer().encode(written));
        self.prompt = ids.len();
        (common.min(ids.len().saturating_sub(1)) as u64, appended)
    }
}

/// Everything anew in every turn: the history as it was typed, then all notes so far together with the question.
pub(crate) struct Glue {
    system: String,
    chat: Chat,
    model: Arc<LocalModel>,
    said: Vec<(Role, String)>,
    notes: String,
    watch: Watch,
}

impl Glue {
    pub(crate) fn new(agent: &Agent, model: &Arc<LocalModel>) -> Self {
        Self {
            system: agent.system_prompt.clone(),
            chat: Chat::new(Arc::clone(model)),
            model: Arc::clone(model),
            said: Vec::new(),
            notes: String::new(),
            watch: Watch::new(model),
        }
    }
}

impl Way for Glue {
    fn say(&mut self, turn: &Turn, note: Option<&Version>) -> Result<Took> {
        if let Some(note) = note {
            self.notes += &note.block(&mut Fence::new(), &note.content, RenderOptions::default());
            self.notes += "\n";
        }
        let start = Instant::now();
        let glued = format!("{}{}", self.notes, turn.words);
        let said = self.said.iter().map(|(role, text)| (*role, text.as_str()));
        let messages: Vec<_> =
            std::iter::once((Role::System, self.system.as_str())).chain(said).chain([(Role::User, glued.as_str())]).collect();
        let prompt = self.model.prompt(&messages);
        let read = start.elapsed();
        let sampling = Sampling { max_tokens: WRITTEN, ..Sampling::default() };
        let answer = self.chat.answer(&prompt, &sampling, &|| false, &mut |_| {});
        let (common, appended) = self.watch.look(&prompt, &answer.text);
        self.said.push((Role::User, turn.words.to_owned()));
        self.said.push((Role::Assistant, turn.answer.to_owned()));
        Ok(Took {
            first: read + answer.time_to_first.context("the model did not begin to answer")?,
            prompt: prompt.tokens().0,
            cached: answer.cached_tokens.0,
            common,
            appended,
            simulated: 0,
        })
    }
}

/// A session of the engine.
pub(crate) struct Session {
    kept: RecordedSession,
    recorder: Recorder,
    clock: i64,
}

/// Lets a speaker begin its answer, takes down what that took, and says what stands in the script.
struct Recorder {
    speaker: Box<dyn ChatModel>,
    model: Arc<LocalModel>,
    watch: Watch,
    cache: CacheSim,
    answer: &'static str,
    took: Took,
}

impl Session {
    pub(crate) fn new(
        agent: &Agent,
        layout: Layout,
        models: &Path,
        model: &Arc<LocalModel>,
        speaker: Box<dyn ChatModel>,
        cache: CacheSim,
    ) -> Result<Self> {
        let mut setup = Setup::new("bench", None, layout, 0, Some(models))?;
        setup.settings.budget.reply = Tokens(WRITTEN as u64);
        let kept = RecordedSession::begin(Box::new(Sqlite::in_memory()?), "bench", agent, &setup, Some(models), None, 0)?;
        let watch = Watch::new(model);
        let recorder = Recorder { speaker, model: Arc::clone(model), watch, cache, answer: "", took: Took::default() };
        Ok(Self { kept, recorder, clock: 0 })
    }

    /// What the provider's cache remembers, by its simulator.
    pub(crate) fn into_cache(self) -> CacheSim {
        self.recorder.cache
    }
}

impl Way for Session {
    fn say(&mut self, turn: &Turn, note: Option<&Version>) -> Result<Took> {
        self.recorder.answer = turn.answer;
        self.clock += 1000;
        let clock = self.clock;
        let input =
            TurnInput { words: turn.words.to_owned(), attached: note.into_iter().cloned().collect(), ..TurnInput::default() };
        let question = Question { turn: input, ..Question::default() };
        self.kept.send(question, &mut self.recorder, &mut NoHands, &|| clock, &mut |_| {})?;
        Ok(self.recorder.took)
    }
}

impl ChatModel for Recorder {
    fn answer(&mut self, request: Arc<Outgoing>, stop: CancellationToken) -> ReplyStream {
        whole_reply(self.measure(&request, stop))
    }
}

impl Recorder {
    fn measure(&mut self, request: &Arc<Outgoing>, stop: CancellationToken) -> Result<Reply, SpeakError> {
        let start = Instant::now();
        let mut first = None;
        let reply = receive(self.speaker.answer(Arc::clone(request), stop), &mut |_| {
            first.get_or_insert_with(|| start.elapsed());
        })?;
        let first = first.unwrap_or_else(|| start.elapsed());
        let spent = reply.spent.ok_or_else(|| SpeakError::new("no usage came with the answer"))?;
        let texts: Vec<_> = request.messages.iter().map(|message| (message.role, message.content())).collect();
        let messages: Vec<_> = texts.iter().map(|(role, text)| (*role, &**text)).collect();
        let (common, appended) = self.watch.look(&self.model.prompt(&messages), &reply.text);
        let seconds = u64::try_from(request.at_ms / 1000).unwrap_or_default();
        let simulated = self.cache.request(seconds, &request.body.prompt, &request.model);
        self.took = Took {
            first,
            prompt: spent.prompt.total().0,
            cached: spent.prompt.read.0,
            common,
            appended,
            simulated: simulated.read.0,
        };
        Ok(Reply { text: self.answer.to_owned(), spent: Some(Spent { output: WRITTEN as u64, ..spent }), ..Reply::default() })
    }
}

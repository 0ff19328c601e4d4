//! A model in use: what it has evaluated so far, and replies that go on from there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use foreword_core::tokens::Tokens;

use super::cache::Cache;
use super::endings::Endings;
use super::layers::{Machine, Want};
use super::pace::{Crew, Pace};
use super::sampling::{Sampler, Sampling, goes_round};
use super::stream::Characters;
use super::{ChatModel, Prompt};

/// Tokens of a prompt that are evaluated at once: more would not stay in a core's own cache, fewer would read the weights more often. Also how
/// long it takes at most until a stop is noticed: some tenths of a second.
const BATCH: usize = 120;

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The model was done.
    Done,
    /// It has as many tokens as were asked for.
    Length,
    /// It repeated itself.
    Repeating,
    /// The caller stopped it.
    Stopped,
    /// The model's context is full.
    Context,
}

/// A reply, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// Tokens of the prompt that had been evaluated before.
    pub cached_tokens: Tokens,
    /// Tokens of the prompt that were evaluated for it.
    pub new_tokens: Tokens,
    /// Tokens of the reply.
    pub output_tokens: Tokens,
    /// Why it ended.
    pub end: End,
    /// How long it took until the first token was chosen, if one was.
    pub time_to_first: Option<Duration>,
}

/// A model with what it remembers. A prompt that starts like the last one goes on from where they part.
pub struct Chat {
    model: Arc<ChatModel>,
    cache: Cache,
    /// The tokens that the cache has.
    pub(super) evaluated: Vec<u32>,
    pace: Pace,
}

impl Chat {
    /// Remembers nothing yet. Each token that it will remember takes 46 kB with the model in use.
    pub fn new(model: Arc<ChatModel>) -> Self {
        Self { cache: Cache::new(&model.shape, model.arch), model, evaluated: Vec::new(), pace: Pace::default() }
    }

    /// The tokens of `prompt` that need not be evaluated again. The last one always is: it tells what comes next.
    pub fn cached(&self, prompt: &Prompt) -> Tokens {
        Tokens(self.common(&prompt.0) as u64)
    }

    fn common(&self, tokens: &[u32]) -> usize {
        let common = self.evaluated.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        common.min(tokens.len().saturating_sub(1))
    }

    /// Replies to `prompt`. `on_text` is given the text in parts as it comes; `stop` is asked before each token, and every so many
    /// tokens of the prompt. The same prompt, sampling and model make the same reply, whatever was evaluated before.
    pub fn answer(
        &mut self,
        prompt: &Prompt,
        sampling: &Sampling,
        stop: &dyn Fn() -> bool,
        on_text: &mut dyn FnMut(&str),
    ) -> Answer {
        let start = Instant::now();
        let cached = self.common(&prompt.0);
        let mut answer = Answer {
            text: String::new(),
            cached_tokens: Tokens(cached as u64),
            new_tokens: Tokens::ZERO,
            output_tokens: Tokens::ZERO,
            end: End::Context,
            time_to_first: None,
        };
        if prompt.0.len() > self.model.shape.context {
            return answer;
        }
        self.evaluated.truncate(cached);
        let Some(mut scores) = self.read(&prompt.0[cached..], stop) else {
            answer.new_tokens = Tokens((self.evaluated.len() - cached) as u64);
            answer.end = End::Stopped;
            return answer;
        };
        answer.new_tokens = Tokens((self.evaluated.len() - cached) as u64);

        let mut sampler = Sampler::new(*sampling);
        let mut characters = Characters::default();
        let mut tell = |text: &str| {
            answer.text.push_str(text);
            if !text.is_empty() {
                on_text(text);
            }
        };
        let mut said = Vec::new();
        let mut endings = Endings::new(sampling.endings);
        answer.end = loop {
            if endings.is_over() {
                break End::Done;
            }
            if said.len() == sampling.max_tokens {
                break End::Length;
            }
            if goes_round(&said) {
                break End::Repeating;
            }
            if stop() {
                break End::Stopped;
            }
            let token = sampler.choose(&scores);
            answer.time_to_first.get_or_insert_with(|| start.elapsed());
            if self.model.template.ends(token) {
                break End::Done;
            }
            said.push(token);
            tell(&endings.push(&characters.push(self.model.bpe.bytes_of(token))));
            if self.evaluated.len() == self.model.shape.context {
                break End::Context;
            }
            scores = self.go_on(token);
        };
        tell(&endings.push(characters.finish()));
        tell(&endings.finish());
        answer.output_tokens = Tokens(said.len() as u64);
        answer
    }

    /// Evaluates the rest of a prompt and gives the scores of what comes next; none if it was stopped.
    fn read(&mut self, tokens: &[u32], stop: &dyn Fn() -> bool) -> Option<Vec<f32>> {
        let mut scores = Vec::new();
        let mut batches = tokens.chunks(BATCH).peekable();
        while let Some(batch) = batches.next() {
            if stop() {
                return None;
            }
            scores = self.evaluate(batch, if batches.peek().is_some() { Want::Memory } else { Want::Next });
        }
        Some(scores)
    }

    /// Evaluates one token with as many threads as are of use.
    fn go_on(&mut self, token: u32) -> Vec<f32> {
        let crew = self.pace.next();
        let threads = if crew == Crew::One { 1 } else { self.model.threads.get() };
        let start = Instant::now();
        let scores = self.evaluate_on(threads, &[token], Want::Next);
        self.pace.took(crew, start.elapsed());
        scores
    }

    /// Evaluates tokens that follow on those before.
    pub(super) fn evaluate(&mut self, tokens: &[u32], want: Want) -> Vec<f32> {
        self.evaluate_on(self.model.threads.get(), tokens, want)
    }

    fn evaluate_on(&mut self, threads: usize, tokens: &[u32], want: Want) -> Vec<f32> {
        let ChatModel { shape, weights, arch, .. } = &*self.model;
        let machine = Machine { shape, weights, arch: *arch, threads };
        let scores = machine.evaluate(&mut self.cache, tokens, self.evaluated.len(), want);
        self.evaluated.extend(tokens);
        scores
    }
}

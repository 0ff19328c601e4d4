//! No other legal placement of marks reads more over the following requests.
#![allow(clippy::unwrap_used, clippy::panic)] // tests: a panic is how they fail

use std::sync::Arc;

use foreword_core::hash::Hash;
use foreword_core::layer::LayerId;
use foreword_core::message::{Message, Origin, Piece, Role, ToolCall};
use foreword_core::prompt::{Prompt, ToolPlan, ToolStyle};
use proptest::prelude::*;

use foreword_core::tokens::Tokens;
use foreword_prompt_cache::CacheSim;
use foreword_provider::dialect::Dialect;
use foreword_provider::model::{CacheRules, Model};
use foreword_provider::render::{BodyOptions, Next, Renderer};
use foreword_provider::stream::{Mark, PromptStream, Ttl, common_prefix};
use foreword_provider::table::ModelTable;

fn message(role: Role, origin: Origin, layer: LayerId, text: &str, tokens: u64) -> Message {
    Message::text(role, vec![Piece { layer, origin, text: Arc::from(text), tokens: Tokens(tokens) }])
}

/// A tool loop: each request brings so many calls, with results of so many tokens; some fold what is older than the newest results.
#[derive(Clone, Debug)]
struct Loop {
    steps: Vec<(Vec<u64>, bool)>,
}

/// A request as the engine would have it.
struct Asked {
    messages: Vec<Arc<Message>>,
    /// The first message that the next fold will change.
    fold_len: Option<usize>,
}

impl Loop {
    fn requests(&self) -> Vec<Asked> {
        let system = message(Role::System, Origin::Engine("system_prompt"), LayerId::L1, "Be brief.", 600);
        let user = message(Role::User, Origin::User, LayerId::L5, "Go on.", 50);
        let mut messages = vec![Arc::new(system), Arc::new(user)];
        let mut requests = Vec::new();
        let mut full: Vec<usize> = Vec::new();
        for (step, (results, folds)) in self.steps.iter().enumerate() {
            if *folds {
                for at in full.drain(..) {
                    let stub = message(Role::Tool, Origin::Engine("stub"), LayerId::L4, "[Output]", 5);
                    messages[at] = Arc::new(Message { answers: messages[at].answers.clone(), ..stub });
                }
            }
            let mut calls = message(Role::Assistant, Origin::Model, LayerId::L4, "Well.", 20);
            let name = |at: usize| format!("c{step}-{at}");
            let call = |at| ToolCall { id: name(at), name: "read".to_owned(), arguments: serde_json::json!({}) };
            calls.calls = (0..results.len()).map(call).collect();
            messages.push(Arc::new(calls));
            for (at, tokens) in results.iter().enumerate() {
                let result = message(Role::Tool, Origin::Engine("output"), LayerId::L4, &format!("{step}.{at}"), *tokens);
                full.push(messages.len());
                messages.push(Arc::new(Message { answers: Some(name(at)), ..result }));
            }
            requests.push(Asked { messages: messages.clone(), fold_len: full.first().copied() });
        }
        requests
    }
}

fn model(lookback: usize) -> Model {
    let mut model = ModelTable::builtin().unwrap().find("claude-opus-5-5").unwrap();
    model.cache = CacheRules::Marks { minimum: 512, lifetime_s: 300, long_lifetime_s: 3600, lookback, marks: 4 };
    model
}

/// The prompts of a loop with our marks.
fn prompts(requests: &[Asked], model: &Model) -> Vec<PromptStream> {
    let tools = ToolPlan { style: ToolStyle::Native, list: Arc::new(Vec::new()), allowed: Vec::new(), tokens: Tokens::ZERO };
    let mut renderer = Renderer::new(Dialect::Anthropic);
    let mut last: &[Arc<Message>] = &[];
    let mut prompts = Vec::new();
    for request in requests {
        let same = last.iter().zip(&request.messages).take_while(|(before, now)| before == now).count();
        last = &request.messages;
        let hash = Hash::of("");
        let prompt = Prompt {
            messages: &request.messages,
            tools: &tools,
            settled: request.messages.len(),
            session: "s",
            l1: hash,
            l2: hash,
            reply_tokens: Tokens(1000),
        };
        let options = BodyOptions {
            previous_len: Some(same).filter(|len| *len > 0),
            fold_len: request.fold_len,
            next: Next::Step,
            ..BodyOptions::default()
        };
        prompts.push(renderer.render(model, &prompt, &options).prompt);
    }
    prompts
}

/// The most that any placement of marks can read of these prompts, one after the other.
fn most(cache: &CacheSim, prompts: &[PromptStream], model: &Model) -> u64 {
    let Some((first, rest)) = prompts.split_first() else { return 0 };
    let blocks = first.blocks().count();
    let mut best = 0;
    for places in 0..1_u32 << blocks {
        if places.count_ones() > 4 {
            continue;
        }
        let marks = (0..blocks).filter(|block| places & (1 << block) != 0).map(|block| Mark { block, ttl: Ttl::Short });
        let mut cache = cache.clone();
        let read = cache.request(0, &first.clone().with_marks(marks.collect()), model).read.0;
        best = best.max(read + most(&cache, rest, model));
    }
    best
}

fn read(prompts: &[PromptStream], model: &Model) -> Vec<u64> {
    let mut cache = CacheSim::new();
    prompts.iter().map(|prompt| cache.request(0, prompt, model).read.0).collect()
}

#[test]
fn no_other_placement_reads_more() {
    let check = |lookback: usize, steps: &[(&[u64], bool)]| {
        let steps = steps.iter().map(|(results, folds)| (results.to_vec(), *folds)).collect();
        let model = model(lookback);
        let prompts = prompts(&Loop { steps }.requests(), &model);
        let ours: u64 = read(&prompts, &model).iter().sum();
        assert_eq!(ours, most(&CacheSim::new(), &prompts, &model), "lookback {lookback}");
    };
    for lookback in [2, 20] {
        // Steps alone.
        check(lookback, &[(&[100], false), (&[100], false)]);
        // A fold, and a step behind it.
        check(lookback, &[(&[100], false), (&[100], true)]);
        check(lookback, &[(&[300], false), (&[10], true), (&[10], false)]);
        // Calls at once.
        check(lookback, &[(&[100, 100], false), (&[50], true)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Nothing can read more than what a prompt has in common with one before it, in whole blocks.
    #[test]
    fn all_that_is_the_same_is_read(steps in proptest::collection::vec((proptest::collection::vec(1..400_u64, 1..4), prop::bool::weighted(0.2)), 1..30)) {
        let model = model(20);
        let prompts = prompts(&Loop { steps }.requests(), &model);
        let read = read(&prompts, &model);
        for (at, prompt) in prompts.iter().enumerate() {
            let whole = |earlier: &PromptStream| {
                let same = common_prefix(earlier, prompt).blocks;
                prompt.blocks().take(same).map(|block| block.tokens.0).sum::<u64>()
            };
            let most = prompts[..at].iter().map(whole).max().unwrap_or(0);
            prop_assert_eq!(read[at], if most < 512 { 0 } else { most }, "request {}", at);
        }
    }
}

//! Invariant 5 at the wire, and what providers refuse: random worlds in every dialect, and from one to another.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../foreword-core/tests/world/mod.rs"]
#[allow(dead_code)]
mod world;

use foreword_core::message::Message;
use foreword_mock_provider::rules::{Endpoint, validate};
use foreword_prompt_cache::CacheSim;
use foreword_provider::dialect::Dialect;
use foreword_provider::render::{BodyOptions, Next, Renderer, body};
use foreword_provider::stream::Ttl;
use foreword_provider::table::ModelTable;
use proptest::prelude::*;
use std::sync::{Arc, LazyLock};
use world::{World, config, run, world};

/// Reading it takes longer than most worlds do.
static TABLE: LazyLock<ModelTable> = LazyLock::new(|| ModelTable::builtin().unwrap());

const MODELS: [(Dialect, &str); 7] = [
    (Dialect::OpenAiChat, "deepseek-chat"),
    (Dialect::OpenAiChat, "gpt-5.4"),
    (Dialect::OpenAiResponses, "gpt-6.1-sol"),
    (Dialect::Anthropic, "claude-opus-5-5"),
    (Dialect::Anthropic, "claude-haiku-4-5"),
    (Dialect::Gemini, "gemini-3.8-flash"),
    (Dialect::LlamaCpp, "llama.cpp"),
];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn invariant_5_recorded_is_sent(world in world(), at in 0..MODELS.len()) {
        // The model it begins with, and two others that it may go on with.
        let table = &*TABLE;
        let models: Vec<_> = (0..3).map(|turn| {
            let (dialect, name) = MODELS[(at + 3 * turn) % MODELS.len()];
            (dialect, table.find(name).unwrap())
        }).collect();
        let world = World { models: models.iter().map(|(dialect, model)| dialect.author(model)).collect(), ..world };
        let mut renderer = Renderer::new(models[0].0);
        let mut cache = CacheSim::new();
        let mut last: Vec<Arc<Message>> = Vec::new();
        let mut failure = None;
        let _ = run(&world, |session, sent| {
            let (dialect, model) = &models[sent.model];
            if renderer.dialect() != *dialect {
                renderer = Renderer::new(*dialect);
            }
            let common = last.iter().zip(&sent.messages).take_while(|(before, now)| before == now).count();
            let options = BodyOptions {
                message_ttl: if sent.envelope.turn.is_multiple_of(3) { Ttl::Long } else { Ttl::Short },
                previous_len: Some(common).filter(|len| *len > 0),
                fold_len: session.before_next_fold(),
                next: if sent.envelope.index.is_multiple_of(2) { Next::Turn } else { Next::Step },
                compare_with: sent.envelope.index.is_multiple_of(3).then(|| "resp_1".to_owned()),
                ..BodyOptions::default()
            };
            let prompt = session.prompt(&sent.envelope);
            let kept = renderer.render(model, &prompt, &options);
            let fresh = body(*dialect, model, &prompt, &options);
            if kept.bytes != fresh.bytes || kept.sha256() != fresh.sha256() {
                failure = Some(format!("request {} is not rendered again as it was sent", sent.envelope.index));
            }
            if let Err(refusal) = validate(*dialect, Endpoint::of(model), &serde_json::from_slice(&kept.bytes).unwrap()) {
                failure = Some(format!("{refusal}\n{}", String::from_utf8_lossy(&kept.bytes)));
            }
            let used = cache.request(0, &kept.prompt, model);
            // A message that is blank in the provider's eyes is not sent.
            let blank = sent.messages.iter().any(|message| message.content().trim().is_empty());
            if used.total() > sent.envelope.tokens || (used.total() < sent.envelope.tokens && !blank) {
                failure = Some(format!("the cache counts {} tokens, the envelope {}", used.total(), sent.envelope.tokens));
            }
            last.clone_from(&sent.messages);
        });
        prop_assert!(failure.is_none(), "{}", failure.unwrap_or_default());
    }
}

//! What requests cost under the rules of a cache.

use std::sync::Arc;

use foreword_core::hash::Hash;
use foreword_core::message::Message;
use foreword_core::prompt::{Prompt, ToolPlan, ToolStyle};
use foreword_core::tokens::Tokens;
use foreword_prompt_cache::CacheSim;
use foreword_provider::cost::cost;
use foreword_provider::render::{BodyOptions, Next, Renderer};

use crate::rules::Rules;

/// A request of a conversation, as some policy has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) messages: Vec<Arc<Message>>,
    /// How many of the messages the next turn begins with.
    pub(crate) settled: usize,
    /// How many of them the next fold leaves as they are.
    pub(crate) fold_len: Option<usize>,
}

/// Sums up requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bill {
    pub(crate) cost: f64,
    /// How often a request did not begin with the one before it.
    pub(crate) rewrites: usize,
}

/// What requests cost by rules.
pub(crate) fn bill(requests: &[Request], rules: &Rules) -> Bill {
    let tools = ToolPlan { style: ToolStyle::Native, list: Arc::new(Vec::new()), allowed: Vec::new(), tokens: Tokens::ZERO };
    let mut renderer = Renderer::new(rules.dialect());
    let mut cache = CacheSim::new();
    let mut last: &[Arc<Message>] = &[];
    let mut bill = Bill::default();
    for request in requests {
        let shared = common(last, &request.messages);
        bill.rewrites += usize::from(shared < last.len());
        last = &request.messages;
        let Some(model) = &rules.model else {
            let (read, total) = (size(&request.messages[..shared]), size(&request.messages));
            bill.cost += rules.price(read, total);
            continue;
        };
        let prompt = Prompt {
            messages: &request.messages,
            tools: &tools,
            settled: request.settled,
            session: "bench",
            l1: Hash::of(""),
            l2: Hash::of(""),
            reply_tokens: Tokens(4096),
        };
        let next = if request.settled < request.messages.len() { Next::Turn } else { Next::Step };
        let previous_len = Some(shared).filter(|len| *len > 0);
        let options = BodyOptions { previous_len, fold_len: request.fold_len, next, ..BodyOptions::default() };
        let body = renderer.render(model, &prompt, &options);
        bill.cost += cost(model, &cache.request(0, &body.prompt, model));
    }
    bill
}

/// The size of some messages.
pub(crate) fn size(messages: &[Arc<Message>]) -> Tokens {
    messages.iter().map(|message| message.tokens()).sum()
}

/// How many messages two requests begin with in common.
pub(crate) fn common(before: &[Arc<Message>], now: &[Arc<Message>]) -> usize {
    before.iter().zip(now).take_while(|(before, now)| Arc::ptr_eq(before, now) || is_same(before, now)).count()
}

/// Whether two messages are the same bytes; which layer a piece of them is counted to is not sent.
fn is_same(one: &Message, other: &Message) -> bool {
    one.role == other.role && one.content() == other.content() && one.calls == other.calls && one.answers == other.answers
}

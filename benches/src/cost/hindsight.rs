//! The cheapest times for whole folds, known afterwards: dynamic programming over the last fold, by the rules of a cache, as if its marks
//! stood wherever they are needed.

use std::sync::Arc;

use anyhow::{Context, Result};
use foreword_core::message::{Message, Role};
use foreword_core::tokens::Tokens;

use crate::bill::{common, size};
use crate::data::Conversation;
use crate::replay::{round, start_unfolded};
use crate::rules::Rules;

/// What a fold's prompt begins with in common with the request before it.
#[derive(Clone, Copy, Default)]
struct Shared {
    tokens: Tokens,
    /// Up to the end of what a user or a tool says.
    ended: Tokens,
}

/// A conversation as one log, with every fold it could have had.
pub(crate) struct Folds {
    /// Size of the log at each request.
    log: Vec<Tokens>,
    /// Size of each request if it were folded there.
    folded: Vec<Tokens>,
    /// What a fold at a request (the outer place) shares with the request before it, whose last fold was none or at an earlier request.
    shared: Vec<Vec<Shared>>,
}

/// The way to the cheapest requests so far whose last fold is a given one.
#[derive(Clone, Default)]
pub(crate) struct Way {
    pub(crate) cost: f64,
    pub(crate) folds: Vec<usize>,
    /// Size of its last request.
    size: Tokens,
}

fn shared(before: &[Arc<Message>], now: &[Arc<Message>]) -> Shared {
    let prefix = &now[..common(before, now)];
    let ends = prefix.iter().rposition(|message| matches!(message.role, Role::User | Role::Tool | Role::System));
    Shared { tokens: size(prefix), ended: ends.map_or(Tokens::ZERO, |last| size(&prefix[..=last])) }
}

impl Folds {
    /// Tells the conversation to a log that is not folded, and tries a fold at every request.
    pub(crate) fn of(conversation: &Conversation, output_chars: usize) -> Result<Self> {
        let mut session = start_unfolded(conversation, output_chars)?;
        let mut lens = Vec::new();
        let mut prompts: Vec<Vec<Arc<Message>>> = Vec::new();
        for inputs in &conversation.rounds {
            round(&mut session, inputs)?;
            let folded = session
                .folded(&session.settings().budget)
                .with_context(|| format!("{}: a fold does not fit", conversation.name))?;
            lens.push(session.messages().len());
            prompts.push(folded.messages().to_vec());
        }
        let log = session.messages();
        let of_fold = |at: usize| {
            let before = |fold: usize| [&prompts[fold], &log[lens[fold]..lens[at - 1]]].concat();
            let unfolded = std::iter::once(shared(&log[..lens[at.max(1) - 1]], &prompts[at]));
            unfolded.chain((1..at).map(|fold| shared(&before(fold), &prompts[at]))).collect()
        };
        Ok(Self {
            log: lens.iter().map(|len| size(&log[..*len])).collect(),
            folded: prompts.iter().map(|prompt| size(prompt)).collect(),
            shared: (0..lens.len()).map(of_fold).collect(),
        })
    }

    /// The fold times with the least cost, and that cost.
    pub(crate) fn best(&self, rules: &Rules) -> Way {
        let mut ways = vec![Way::default()];
        for at in 0..self.log.len() {
            let new = if at == 0 { self.log[0] } else { self.log[at] - self.log[at - 1] };
            let mut folded: Option<Way> = None;
            for way in &mut ways {
                if at > 0 {
                    let last = way.folds.last().copied().unwrap_or(0);
                    let Shared { tokens, ended } = self.shared[at][last];
                    let total = self.folded[at];
                    let cost = way.cost + rules.price(rules.readable(tokens, ended, total), total);
                    if folded.as_ref().is_none_or(|best| cost < best.cost) {
                        let folds = way.folds.iter().copied().chain([at]).collect();
                        folded = Some(Way { cost, folds, size: total });
                    }
                }
                let total = way.size + new;
                way.cost += rules.price(rules.readable(way.size, way.size, total), total);
                way.size = total;
            }
            ways.extend(folded);
        }
        ways.into_iter().min_by(|a, b| a.cost.total_cmp(&b.cost)).unwrap_or_default()
    }
}

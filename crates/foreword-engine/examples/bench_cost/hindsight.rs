//! The cheapest fold times, known afterwards: dynamic programming over the last fold.

use std::sync::Arc;

use anyhow::{Context, Result};
use foreword_core::message::Message;

use crate::bill::{common, price};
use crate::data::Conversation;
use crate::replay::{round, start_unfolded};

/// A request of a log that is never folded.
struct Request {
    /// How many messages the log has.
    len: usize,
    /// What it would be if it were folded here.
    folded: Vec<Arc<Message>>,
}

/// A conversation as one log, with every fold it could have had.
pub(crate) struct Folds {
    log: Vec<Arc<Message>>,
    requests: Vec<Request>,
}

/// The way to the cheapest requests so far whose last fold is a given one.
#[derive(Clone, Default)]
pub(crate) struct Way {
    pub(crate) cost: f64,
    pub(crate) folds: Vec<usize>,
}

impl Folds {
    /// Tells the conversation to a log that is not folded, and tries a fold at every request.
    pub(crate) fn of(conversation: &Conversation, output_chars: usize) -> Result<Self> {
        let mut session = start_unfolded(conversation, output_chars)?;
        let mut requests = Vec::new();
        for inputs in &conversation.rounds {
            round(&mut session, inputs)?;
            let folded = session
                .folded(&session.settings().budget)
                .with_context(|| format!("{}: a fold does not fit", conversation.name))?;
            requests.push(Request { len: session.messages().len(), folded: folded.messages().to_vec() });
        }
        Ok(Self { log: session.messages().to_vec(), requests })
    }

    /// The request at a place, if the last fold was at `fold`.
    fn request(&self, fold: Option<usize>, at: usize) -> Vec<Arc<Message>> {
        let len = self.requests[at].len;
        match fold {
            None => self.log[..len].to_vec(),
            Some(fold) => [&self.requests[fold].folded, &self.log[self.requests[fold].len..len]].concat(),
        }
    }

    /// The fold times with the least cost, and that cost.
    pub(crate) fn best(&self) -> Way {
        let mut ways = vec![Way { cost: 0.0, folds: Vec::new() }];
        for at in 0..self.requests.len() {
            let here = self.request(Some(at), at);
            let mut folded: Option<Way> = None;
            for way in &mut ways {
                let last = way.folds.last().copied();
                let before = at.checked_sub(1).map(|before| self.request(last, before)).unwrap_or_default();
                let by_fold = way.cost + price(&here, common(&before, &here));
                if at > 0 && folded.as_ref().is_none_or(|best| by_fold < best.cost) {
                    let folds = way.folds.iter().copied().chain([at]).collect();
                    folded = Some(Way { cost: by_fold, folds });
                }
                way.cost += price(&self.request(last, at), before.len());
            }
            ways.extend(folded);
        }
        ways.into_iter().min_by(|a, b| a.cost.total_cmp(&b.cost)).unwrap_or_default()
    }
}

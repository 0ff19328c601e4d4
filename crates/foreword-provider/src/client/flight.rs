//! Avoids duplicate cache writes: of several requests with the same prefix, only the first is sent at once. The others wait until
//! its answer begins, because only then can they read the prefix from the provider's cache.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foreword_core::tokens::Tokens;
use tokio::sync::watch;
use tokio::time::Instant;

use super::lock;
use crate::model::{CacheRules, Model};
use crate::stream::{PromptStream, common_prefix};

/// The smallest shared prefix worth waiting for.
const WORTH_WAITING: Tokens = Tokens(1024);
/// The number of prompts remembered as cached; beyond it, a request may wait without need.
const MAX_WARM: usize = 32;
/// The longest wait, in case the first request is stalled.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Pending requests, and prompts in the provider's cache.
#[derive(Debug, Default)]
pub(super) struct Flights {
    next: u64,
    ahead: Vec<Ahead>,
    warm: VecDeque<Warm>,
}

#[derive(Debug)]
struct Ahead {
    id: u64,
    model: String,
    prompt: PromptStream,
    ended: watch::Receiver<()>,
}

#[derive(Debug)]
struct Warm {
    model: String,
    prompt: PromptStream,
    at: Instant,
}

impl Flights {
    /// The pending request with the longest shared prefix, if it is worth waiting for.
    fn ahead(&self, model: &Model, prompt: &PromptStream, now: Instant) -> Option<watch::Receiver<()>> {
        if matches!(model.cache, CacheRules::None {}) {
            return None;
        }
        let life = model.cache.lifetime_s().map(Duration::from_secs);
        let warm = self
            .warm
            .iter()
            .filter(|warm| warm.model == model.name && life.is_none_or(|life| now.duration_since(warm.at) < life))
            .map(|warm| common_prefix(&warm.prompt, prompt).tokens)
            .max()
            .unwrap_or_default();
        let least = WORTH_WAITING.max(Tokens(model.cache.minimum()));
        self.ahead
            .iter()
            .filter(|ahead| ahead.model == model.name)
            .map(|ahead| (common_prefix(&ahead.prompt, prompt).tokens, ahead))
            .filter(|(common, _)| *common >= least && *common - warm >= WORTH_WAITING)
            .max_by_key(|(common, _)| *common)
            .map(|(_, ahead)| ahead.ended.clone())
    }
}

/// A pending request. Dropping it releases the waiting ones.
#[derive(Debug)]
pub(super) struct Flight {
    flights: Arc<Mutex<Flights>>,
    id: u64,
    /// Dropped last, after the list no longer contains this request.
    _ending: watch::Sender<()>,
}

impl Flight {
    /// Waits for a pending request with the same prefix. Small prompts do not wait.
    pub(super) async fn take_off(flights: &Arc<Mutex<Flights>>, model: &Model, prompt: &PromptStream) -> Option<Self> {
        if prompt.tokens() < WORTH_WAITING {
            return None;
        }
        let until = Instant::now() + MAX_WAIT;
        loop {
            let mut ended = {
                let mut all = lock(flights);
                let now = Instant::now();
                let ahead = if now < until { all.ahead(model, prompt, now) } else { None };
                let Some(ended) = ahead else {
                    let (ending, ended) = watch::channel(());
                    let id = all.next;
                    all.next += 1;
                    all.ahead.push(Ahead { id, model: model.name.clone(), prompt: prompt.clone(), ended });
                    return Some(Self { flights: Arc::clone(flights), id, _ending: ending });
                };
                ended
            };
            // What it waits for is an error: the one ahead is gone.
            let _ = tokio::time::timeout_at(until, ended.changed()).await;
        }
    }

    /// Marks the answer as begun: the prompt can now be read from the cache.
    pub(super) fn begun(self) {
        let mut all = lock(&self.flights);
        if let Some(at) = all.ahead.iter().position(|ahead| ahead.id == self.id) {
            let Ahead { model, prompt, .. } = all.ahead.swap_remove(at);
            // A prompt that continues another one takes its place.
            all.warm.retain(|warm| warm.model != model || common_prefix(&warm.prompt, &prompt).previous.is_some());
            if all.warm.len() >= MAX_WARM {
                all.warm.pop_front();
            }
            all.warm.push_back(Warm { model, prompt, at: Instant::now() });
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut all = lock(&self.flights);
        let id = self.id;
        all.ahead.retain(|ahead| ahead.id != id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use foreword_core::message::{Origin, Role};

    use super::*;
    use crate::stream::{Block, BlockKind, BlockList, Path, Source, Tag};
    use crate::table::ModelTable;

    /// A prompt of texts, each with a number of tokens.
    fn prompt(texts: &[(&str, u64)]) -> PromptStream {
        let mut list = BlockList::default();
        for (text, tokens) in texts {
            let tag = Tag { kind: BlockKind::Text, role: Role::User, opens: true };
            let source = Source::Own(Arc::from(*text), Origin::User);
            list.push(Block::new(tag, Path::new("", 0, 0), source, Tokens(*tokens), true));
        }
        PromptStream::new(Arc::default(), Arc::default(), &list)
    }

    #[test]
    fn who_waits_for_whom() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let table = ModelTable::builtin().unwrap();
        let model = |name: &str| table.find(name).unwrap();
        let (opus, haiku) = (model("claude-opus-5-5"), model("claude-haiku-4-5"));
        let (warm, ahead) = (prompt(&[("a", 5000)]), prompt(&[("a", 5000), ("b", 5000), ("c", 10)]));
        let check = |model: &Model, texts: &[(&str, u64)], waits: bool| {
            runtime.block_on(async {
                let flights = Arc::default();
                Flight::take_off(&flights, &opus, &warm).await.unwrap().begun();
                let first = Flight::take_off(&flights, &opus, &ahead).await;
                let next = prompt(texts);
                let mut behind = std::pin::pin!(Flight::take_off(&flights, model, &next));
                let went = tokio::time::timeout(Duration::from_millis(1), &mut behind).await.is_ok();
                assert_eq!(went, !waits, "{texts:?}");
                drop(first);
                if waits {
                    behind.await;
                }
            });
        };
        check(&opus, &[("a", 5000), ("b", 5000), ("d", 10)], true);
        // All that they share is warm already, or next to nothing, or another model's.
        check(&opus, &[("a", 5000), ("d", 5000)], false);
        check(&opus, &[("a", 5000), ("b", 1000), ("d", 5000)], false);
        check(&opus, &[("d", 5000)], false);
        check(&haiku, &[("a", 5000), ("b", 5000)], false);
    }
}

//! What a client's session would have cost otherwise: its requests again, as they are on record, by the rules of the provider's cache.

use foreword_prompt_cache::{CacheSim, body_prompt};
use foreword_provider::cost::{cost, uncached_cost};
use foreword_provider::model::Model;
use foreword_provider::usage::CacheUse;
use foreword_store::{Result, Store, StoreError};
use serde::Serialize;

use super::assist::{Additions, plan, without};
use super::conversation::Conversation;
use super::endpoint::Endpoint;
use super::forward::About;
use super::sessions::{Names, Sessions};
use foreword_engine::config::{Config, Server};

/// What the prompts of a session cost in one way of sending them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClientCost {
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Those that were read from the cache.
    pub cached_tokens: u64,
    /// Those that were written to it.
    pub written_tokens: u64,
    /// In USD, without replies.
    pub cost: f64,
}

impl ClientCost {
    fn add(&mut self, used: &CacheUse, cost: f64) {
        self.prompt_tokens += used.total().0;
        self.cached_tokens += used.read.0;
        self.written_tokens += used.write.0;
        self.cost += cost;
    }
}

/// A session of a client, as it was and otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientWhatIf {
    /// The session.
    pub session: String,
    /// The model by whose rules it is computed: that of the last request, where no other is asked for.
    pub model: String,
    /// Requests that were answered.
    pub requests: u64,
    /// As the provider counted.
    pub was: ClientCost,
    /// Without a cache.
    pub uncached: ClientCost,
    /// With nothing but what the client sets.
    pub observe: ClientCost,
    /// With what `assist` adds.
    pub assist: ClientCost,
}

/// A client's session by the rules of its models, or of another one.
pub fn client_what_if(store: &dyn Store, id: &str, config: &Config, other: Option<&Model>) -> Result<ClientWhatIf> {
    let (sessions, names) = (Sessions::default(), Names { session: Some(id.to_owned()), ..Names::default() });
    let (mut observe, mut assist) = (CacheSim::new(), CacheSim::new());
    let none = ClientCost::default();
    let mut found = ClientWhatIf {
        session: id.to_owned(),
        model: String::new(),
        requests: 0,
        was: none,
        uncached: none,
        observe: none,
        assist: none,
    };
    for row in store.forwarded_of(id)? {
        let Some(dialect) = Endpoint::of_record(&row.front) else { continue };
        if !row.status.is_some_and(|status| (200..300).contains(&status)) {
            continue;
        }
        let known = || config.choose(Some(&row.usage.model), Server::default()).ok().map(|chosen| chosen.model);
        let Some(model) = other.cloned().or_else(known) else { continue };
        let about = About::read(row.about.as_deref());
        let body = without(&store.forwarded_body(row.number)?, &about.added);
        let Some(asked) = Conversation::read(dialect, &body) else { continue };
        let recognised = sessions.recognise(&names, &asked, row.at_ms, || id.to_owned());
        let additions = plan(dialect, &model, (&body, &asked), &recognised.before, (id, recognised.rate, row.at_ms));
        let additions = additions.unwrap_or_else(|_| Additions::default());
        let at_s = u64::try_from(row.at_ms / 1000).unwrap_or(0);
        let run = |cache: &mut CacheSim, body: &str, sum: &mut ClientCost| {
            let prompt = body_prompt::read(dialect, &serde_json::from_str(body).unwrap_or_default(), &model);
            let used = cache.request(at_s, &prompt, &model);
            sum.add(&used, cost(&model, &used));
            used
        };
        let used = run(&mut observe, &body, &mut found.observe);
        run(&mut assist, &additions.apply(&body).0, &mut found.assist);
        sessions.answered(&recognised, &additions, row.at_ms);
        let without_cache = CacheUse { uncached: used.total(), ..CacheUse::default() };
        found.uncached.add(&without_cache, uncached_cost(&model, used.total()));
        let usage = &row.usage;
        found.was.prompt_tokens += usage.read + usage.write + usage.uncached;
        found.was.cached_tokens += usage.read;
        found.was.written_tokens += usage.write;
        found.was.cost += usage.cost;
        found.requests += 1;
        found.model = model.name;
    }
    if found.requests == 0 {
        return Err(StoreError::Refused(format!("the session {id} has no request that was answered and can be computed again")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use foreword_store::{Answered, NewForwarded, Sqlite, Usage};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_loop_would_have_cost_less_with_marks() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Sqlite::open(&folder.path().join("store.db")).unwrap();
        let mut messages = vec![json!({"role": "user", "content": "word ".repeat(3000)})];
        for step in 0..6 {
            let body = json!({"model": "claude-sonnet-5", "max_tokens": 9, "messages": messages}).to_string();
            let new = NewForwarded {
                at_ms: step * 5000,
                front: "messages".to_owned(),
                model: "claude-sonnet-5".to_owned(),
                session: Some("s".to_owned()),
                body,
                about: None,
            };
            let number = store.sent(new).unwrap();
            let usage = Usage { model: "claude-sonnet-5".to_owned(), uncached: 1000, output: 5, cost: 0.01, ..Usage::default() };
            // One that failed counts for nothing.
            let status = if step == 2 { 529 } else { 200 };
            store.answered(number, &Answered { status: Some(status), usage, about: None }).unwrap();
            messages.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": format!("toolu_{step}"), "name": "f", "input": {}}]}));
            messages.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": format!("toolu_{step}"), "content": "x"}]}));
        }
        let config = Config::read("").unwrap();
        let found = client_what_if(&store, "s", &config, None).unwrap();
        assert_eq!((found.requests, found.was.prompt_tokens, found.model.as_str()), (5, 5000, "claude-sonnet-5"));
        assert!((found.observe.cost - found.uncached.cost).abs() < 1e-9, "{found:?}");
        assert!(found.assist.cost < found.observe.cost * 0.8 && found.assist.cached_tokens > 0, "{found:?}");
        // Another model has other rules: this one's provider caches by itself.
        let other = config.choose(Some("gpt-5.4"), Server::default()).unwrap().model;
        let found = client_what_if(&store, "s", &config, Some(&other)).unwrap();
        assert!(found.observe.cost < found.uncached.cost, "{found:?}");
        assert!(client_what_if(&store, "unknown", &config, None).is_err());
    }
}

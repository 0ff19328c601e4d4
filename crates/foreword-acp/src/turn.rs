//! A turn: the events of a session become updates for the client, until the turn ends.

use serde_json::{Value, json};

use crate::backend::{Vault, text};
use crate::tool_calls;

/// The largest number of steps of a plan that are shown.
const MOST_STEPS: usize = 100;

/// What follows from an event.
pub(crate) enum Step {
    /// The client is told.
    Tell(Value),
    /// The client is asked whether a tool may run.
    Ask {
        /// The number of the question.
        approval: u64,
        /// The tool call that waits.
        call: String,
        /// The question.
        question: Value,
    },
    /// The turn ended, with its stop reason and the usage of its last request.
    Done(&'static str, Value),
    /// The turn failed.
    Failed(String),
}

/// What is known of the turn that runs.
pub(crate) struct Turn {
    vault: Vault,
    /// The calls of this turn.
    steps: Vec<Call>,
    searches: usize,
}

/// A tool call of the turn, as a step of its plan.
struct Call {
    id: String,
    title: String,
    ended: bool,
}

/// A part of a message: `agent_message_chunk`, `agent_thought_chunk` or `user_message_chunk`.
pub(crate) fn chunk(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

impl Turn {
    pub(crate) fn new(vault: &Vault) -> Self {
        Self { vault: vault.clone(), steps: Vec::new(), searches: 0 }
    }

    /// What follows from an event of the session.
    pub(crate) fn take(&mut self, name: &str, data: Value) -> Vec<Step> {
        let root = self.vault.root();
        match name {
            "part" => vec![Step::Tell(chunk("agent_message_chunk", text(&data, "text")))],
            "note" | "cache_cold" => vec![Step::Tell(chunk("agent_thought_chunk", &format!("{}\n", text(&data, "text"))))],
            "sources" => {
                self.searches += 1;
                vec![Step::Tell(tool_calls::found(&format!("sources-{}", self.searches), &data["sources"], root))]
            }
            "call" => {
                let call = tool_calls::begun(&data, root);
                if self.steps.len() < MOST_STEPS {
                    let (id, title) = (text(&data, "id").to_owned(), text(&call, "title").to_owned());
                    self.steps.push(Call { id, title, ended: false });
                }
                vec![Step::Tell(call), Step::Tell(self.plan())]
            }
            "result" => {
                let id = text(&data, "id");
                self.steps.iter_mut().filter(|call| call.id == id).for_each(|call| call.ended = true);
                vec![Step::Tell(tool_calls::ended(&data)), Step::Tell(self.plan())]
            }
            "approval" => {
                let approval = data["approval"].as_u64().unwrap_or_default();
                let waits = self.steps.iter().rev().find(|call| !call.ended);
                let call = waits.map_or_else(|| format!("approval-{approval}"), |call| call.id.clone());
                vec![Step::Ask { approval, call, question: data }]
            }
            "done" => {
                let reason = if data["out_of_steps"] == json!(true) { "max_turn_requests" } else { "end_turn" };
                vec![Step::Done(reason, data["usage"].clone())]
            }
            "problem" => vec![Step::Failed(text(&data, "detail").to_owned())],
            "lost" => vec![Step::Failed("events of this turn were lost; load the session again to see its answer".to_owned())],
            _ => Vec::new(),
        }
    }

    fn plan(&self) -> Value {
        let entries = self.steps.iter().map(|call| {
            let status = if call.ended { "completed" } else { "in_progress" };
            json!({"content": call.title, "priority": "medium", "status": status})
        });
        json!({"sessionUpdate": "plan", "entries": entries.collect::<Vec<_>>()})
    }
}

/// The size of the context, the cost of the session and the share of the prompt that came from the cache.
pub(crate) async fn usage(vault: &Vault, session: &str, last: &Value, window: u64) -> Option<Value> {
    let tokens = |name: &str| last[name].as_u64().unwrap_or_default();
    let prompt = tokens("read") + tokens("write") + tokens("uncached");
    let sum = vault.ledger(session).await.ok()?;
    let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
    let read = sum["read"].as_u64().unwrap_or_default();
    let all = read + sum["fresh"].as_u64().unwrap_or_default();
    Some(json!({
        "sessionUpdate": "usage_update", "used": prompt + tokens("output"), "size": window,
        "cost": {"amount": sum["cost"].as_f64().unwrap_or_default(), "currency": "USD"},
        "_meta": {"foreword": {"cachedShare": share(tokens("read"), prompt), "sessionCachedShare": share(read, all)}},
    }))
}

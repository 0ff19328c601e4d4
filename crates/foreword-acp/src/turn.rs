//! A turn: the events of a session become updates for the client, until the turn ends.

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Cost, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, SessionUpdate, StopReason, TextContent,
    UsageUpdate,
};
use serde_json::{Map, Value, json};

use crate::backend::{Vault, text};
use crate::tool_calls;

/// The largest number of steps of a plan that are shown.
const MOST_STEPS: usize = 100;

/// What follows from an event.
pub(crate) enum Step {
    /// The client is told.
    Tell(SessionUpdate),
    /// The client is asked whether a tool may run.
    Ask {
        /// The number of the question.
        approval: u64,
        /// The tool call that waits.
        call: String,
        /// The question.
        question: Value,
    },
    /// The turn ended; with the usage of its last request.
    Done(StopReason, Value),
    /// The turn failed.
    Failed(String),
}

/// What is known of the turn that runs.
pub(crate) struct Turn {
    vault: Vault,
    /// The calls of this turn and whether they have ended.
    steps: Vec<(String, PlanEntry)>,
    searches: usize,
}

/// A text of the agent.
pub(crate) fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::Text(TextContent::new(text)))
}

impl Turn {
    pub(crate) fn new(vault: &Vault) -> Self {
        Self { vault: vault.clone(), steps: Vec::new(), searches: 0 }
    }

    /// What follows from an event of the session.
    pub(crate) fn take(&mut self, name: &str, data: Value) -> Vec<Step> {
        let root = self.vault.root();
        match name {
            "part" => vec![Step::Tell(SessionUpdate::AgentMessageChunk(chunk(text(&data, "text"))))],
            "note" => vec![Step::Tell(SessionUpdate::AgentThoughtChunk(chunk(&format!("{}\n", text(&data, "text")))))],
            "cache_cold" => vec![Step::Tell(SessionUpdate::AgentThoughtChunk(chunk(&format!("{}\n", text(&data, "text")))))],
            "sources" => {
                self.searches += 1;
                let call = tool_calls::found(&format!("sources-{}", self.searches), &data["sources"], root);
                vec![Step::Tell(SessionUpdate::ToolCall(call))]
            }
            "call" => {
                let call = tool_calls::begun(&data, root);
                if self.steps.len() < MOST_STEPS {
                    let entry = PlanEntry::new(call.title.clone(), PlanEntryPriority::Medium, PlanEntryStatus::InProgress);
                    self.steps.push((text(&data, "id").to_owned(), entry));
                }
                vec![Step::Tell(SessionUpdate::ToolCall(call)), Step::Tell(self.plan())]
            }
            "result" => {
                let id = text(&data, "id");
                for (_, entry) in self.steps.iter_mut().filter(|(call, _)| call == id) {
                    entry.status = PlanEntryStatus::Completed;
                }
                vec![Step::Tell(SessionUpdate::ToolCallUpdate(tool_calls::ended(&data))), Step::Tell(self.plan())]
            }
            "approval" => {
                let waits = |(_, entry): &&(String, PlanEntry)| entry.status == PlanEntryStatus::InProgress;
                let call = self.steps.iter().rev().find(waits).map(|(call, _)| call.clone());
                let approval = data["approval"].as_u64().unwrap_or_default();
                let call = call.unwrap_or_else(|| format!("approval-{approval}"));
                vec![Step::Ask { approval, call, question: data }]
            }
            "done" => {
                let reason =
                    if data["out_of_steps"] == Value::Bool(true) { StopReason::MaxTurnRequests } else { StopReason::EndTurn };
                vec![Step::Done(reason, data["usage"].clone())]
            }
            "problem" => vec![Step::Failed(text(&data, "detail").to_owned())],
            "lost" => vec![Step::Failed("events of this turn were lost; load the session again to see its answer".to_owned())],
            _ => Vec::new(),
        }
    }

    fn plan(&self) -> SessionUpdate {
        SessionUpdate::Plan(Plan::new(self.steps.iter().map(|(_, entry)| entry.clone()).collect()))
    }
}

/// The size of the context, the cost of the session and the share of the prompt that came from the cache.
pub(crate) async fn usage(vault: &Vault, session: &str, last: &Value, window: u64) -> Option<SessionUpdate> {
    let tokens = |name: &str| last[name].as_u64().unwrap_or_default();
    let prompt = tokens("read") + tokens("write") + tokens("uncached");
    let mut update = UsageUpdate::new(prompt + tokens("output"), window);
    let sum = vault.ledger(session).await.ok()?;
    update.cost = Some(Cost::new(sum["cost"].as_f64().unwrap_or_default(), "USD"));
    let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
    let read = sum["read"].as_u64().unwrap_or_default();
    let all = read + sum["fresh"].as_u64().unwrap_or_default();
    let mut meta = Map::new();
    meta.insert(
        "foreword".to_owned(),
        json!({"cachedShare": share(tokens("read"), prompt), "sessionCachedShare": share(read, all)}),
    );
    update.meta = Some(meta);
    Some(SessionUpdate::UsageUpdate(update))
}

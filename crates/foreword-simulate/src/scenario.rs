//! The scenario file: plain values as they are written, and errors that say where and what.

use std::collections::BTreeMap;
use std::fmt;

use foreword_core::catalog::{Agent, Entry, Project, Server, Tool};
use foreword_core::item::ItemId;
use foreword_core::select::Select;
use foreword_core::settings::Layout;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use foreword_engine::settings::{BudgetSettings, HistorySettings, ToolSetting};

/// One conversation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Version of the format: 1.
    pub version: u32,
    /// Its name, and the session's.
    #[serde(default)]
    pub name: String,
    /// A folder that attachments without content are read from, relative to the scenario file.
    #[serde(default)]
    pub vault: Option<String>,
    /// The agent.
    #[serde(default)]
    pub agent: Agent,
    /// The settings.
    #[serde(default)]
    pub settings: ScenarioSettings,
    /// What happens, in order.
    #[serde(default)]
    pub events: Vec<Event>,
}

/// The settings of a scenario.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioSettings {
    /// `library` or `log`.
    pub layout: Layout,
    /// A dialect.
    pub provider: Option<String>,
    /// `stable` or `native`.
    pub tools: ToolSetting,
    /// A row of the model table.
    pub model: Option<String>,
    /// Room.
    pub budget: BudgetSettings,
    /// `chars4`, `o200k`, `cl100k` …
    pub tokenizer: Option<String>,
    /// What L4 holds.
    pub history: HistorySettings,
    /// How items are chosen.
    pub select: Select,
    /// How tools are chosen, where they do not compete with rules and references for the same places.
    pub select_tools: Option<Select>,
    /// How many tool outputs stay whole through a fold.
    pub keep_outputs: Option<usize>,
    /// Whether selections join the library.
    pub promote_selections: bool,
    /// Limits of a plan.
    pub plan: foreword_core::plan::PlanLimits,
    /// How long cache marks ask for: `5m` or `1h`.
    pub cache_ttl: Option<String>,
}

/// Something that happens.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// The user sends a message.
    Turn(TurnEvent),
    /// The model answers.
    Assistant(AssistantEvent),
    /// A tool answers.
    ToolResult(ToolResultEvent),
    /// The user adds or removes items.
    Session(SessionEvent),
    /// The agent changes: fields that are given take the place of the old.
    Agent(Box<AgentPatch>),
    /// The model handed over a plan.
    Plan(PlanEvent),
    /// The current step is done.
    TaskComplete(Empty),
    /// The model is told to act.
    ActionPrompt(Empty),
    /// A summary for the `managed` history.
    Summary(SummaryEvent),
    /// Seconds pass.
    IdleS(u64),
    /// The user stops the run.
    Interrupt(Empty),
    /// The user asks for a fold.
    Fold(Empty),
    /// The user takes it back.
    UndoFold(Empty),
    /// The session goes on from the end of an earlier turn.
    Fork(ForkEvent),
}

/// `{}`
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// A turn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnEvent {
    /// The user's words.
    pub user: String,
    /// What is attached.
    #[serde(default)]
    pub attach: Vec<AttachEvent>,
    /// The note that is open.
    #[serde(default)]
    pub active_note: Option<String>,
    /// Outputs of tools that ran before.
    #[serde(default)]
    pub tool_results: Vec<TurnToolResult>,
    /// What the search would have given.
    #[serde(default)]
    pub scores: BTreeMap<ItemId, Scores>,
}

/// What kind of thing is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachKind {
    /// A note.
    Note,
    /// A page.
    Url,
    /// Lines of a note.
    Selection,
    /// A query block.
    Query,
}

/// An attachment; which fields it needs depends on its kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachEvent {
    /// What it is.
    pub kind: AttachKind,
    /// Path in the vault.
    #[serde(default)]
    pub path: Option<String>,
    /// Address of a page.
    #[serde(default)]
    pub url: Option<String>,
    /// First and last line of a selection.
    #[serde(default)]
    pub lines: Option<[u32; 2]>,
    /// The query.
    #[serde(default)]
    pub query: Option<String>,
    /// Its title.
    #[serde(default)]
    pub title: Option<String>,
    /// Its text; read from the vault where it is left out.
    #[serde(default)]
    pub content: Option<String>,
    /// Images of a note.
    #[serde(default)]
    pub images: Vec<ImageEvent>,
}

/// An image of a note.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageEvent {
    /// Its path.
    pub name: String,
    /// For example `image/png`.
    pub media_type: String,
    /// Base64.
    pub data: String,
}

/// An output that comes with a turn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnToolResult {
    /// The tool.
    pub tool: String,
    /// Attributes of its block, in the order they are written.
    #[serde(default)]
    pub attributes: Attributes,
    /// What it gave back.
    pub output: String,
}

/// Attributes in the order they are written.
#[derive(Clone, Debug, Default)]
pub struct Attributes(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Attributes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts, numbers or booleans")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Attributes, A::Error> {
                let mut pairs = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    let value = match value {
                        Value::String(text) => text,
                        Value::Number(number) => number.to_string(),
                        Value::Bool(flag) => flag.to_string(),
                        other => {
                            return Err(de::Error::custom(format!(
                                "attribute {name:?} is {other}; expected a text, a number or a boolean"
                            )));
                        }
                    };
                    pairs.push((name, value));
                }
                Ok(Attributes(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// One score, or one for each chunk.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a number or a list of numbers")]
pub enum Scores {
    /// Of the item.
    One(f64),
    /// Of its chunks.
    Chunks(Vec<f64>),
}

impl Scores {
    /// As chunk scores.
    pub fn into_chunks(self) -> Vec<f64> {
        match self {
            Self::One(score) => vec![score],
            Self::Chunks(scores) => scores,
        }
    }
}

/// The model's answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssistantEvent {
    /// Its words.
    #[serde(default)]
    pub text: Option<String>,
    /// Its calls.
    #[serde(default)]
    pub tool_calls: Vec<CallEvent>,
}

/// A call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallEvent {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    #[serde(default = "empty_object")]
    pub arguments: Value,
}

fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}

/// A tool's answer to a call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResultEvent {
    /// The call.
    pub id: String,
    /// What it gave back.
    pub output: String,
}

/// Items that join or leave.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionEvent {
    /// Join.
    pub add: Vec<ItemId>,
    /// Leave.
    pub remove: Vec<ItemId>,
}

/// What changes in an agent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentPatch {
    /// The system prompt.
    pub system_prompt: Option<String>,
    /// The memory; `null` takes it away.
    #[serde(deserialize_with = "given")]
    pub memory: Option<Option<String>>,
    /// The project; `null` takes it away.
    #[serde(deserialize_with = "given")]
    pub project: Option<Option<Project>>,
    /// The rules.
    pub rules: Option<Vec<Entry>>,
    /// The references.
    pub references: Option<Vec<Entry>>,
    /// The servers.
    pub servers: Option<Vec<Server>>,
    /// The tools.
    pub tools: Option<Vec<Tool>>,
}

/// Tells a field that is `null` from one that is not there.
#[allow(clippy::option_option)]
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl AgentPatch {
    /// The agent with these changes.
    pub fn apply(self, agent: &Agent) -> Agent {
        let old = agent.clone();
        Agent {
            system_prompt: self.system_prompt.unwrap_or(old.system_prompt),
            memory: self.memory.unwrap_or(old.memory),
            project: self.project.unwrap_or(old.project),
            rules: self.rules.unwrap_or(old.rules),
            references: self.references.unwrap_or(old.references),
            servers: self.servers.unwrap_or(old.servers),
            tools: self.tools.unwrap_or(old.tools),
        }
    }
}

/// A plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanEvent {
    /// Its steps.
    pub steps: Vec<String>,
}

/// A summary from outside.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummaryEvent {
    /// The text; `null` takes it away.
    pub text: Option<String>,
}

/// A fork.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForkEvent {
    /// The last turn that is kept, from 0.
    pub at_turn: usize,
}

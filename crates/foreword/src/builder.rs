//! The builder of a session. All settings have defaults, most of them from the model.

use std::sync::Arc;

use foreword_core::catalog::{Agent, Project};
use foreword_core::settings::{HistoryPolicy, Layout, Settings};
use foreword_core::tokens::Tokenizer;
use foreword_provider::dialect::Dialect;
use foreword_provider::model::Model;
use foreword_provider::stream::Ttl;
use foreword_provider::table::ModelTable;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::session::Setup;
use crate::{Error, Reference, Rule, Session, Tool};

/// How the choice of tools is sent to the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// Every tool is in the list of every request, unless a search chooses tools or there are more than 64: then as `Stable`.
    #[default]
    Listed,
    /// The list stays the same while the choice changes, so that the cache is kept.
    Stable,
    /// The list is the choice.
    Native,
}

/// How long the provider is asked to remember the system message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CacheLifetime {
    /// Five minutes.
    #[default]
    #[serde(rename = "5m")]
    Short,
    /// One hour, where the provider supports it.
    #[serde(rename = "1h")]
    Long,
}

/// Builds a [`Session`].
///
/// ```
/// use foreword::{Rule, Session};
/// # fn main() -> Result<(), foreword::Error> {
/// let session = Session::builder("claude-sonnet-5")
///     .system("You are a baker.")
///     .rule(Rule::new("short", "Answer in one sentence."))
///     .adjust(|settings| settings.keep_outputs = 3)
///     .build()?;
/// assert_eq!(session.model().name, "claude-sonnet-5");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct SessionBuilder {
    model: String,
    table: Option<ModelTable>,
    dialect: Option<Dialect>,
    name: Option<String>,
    agent: Agent,
    layout: Option<Layout>,
    tools: ToolChoice,
    ttl: CacheLifetime,
    stream: bool,
    tokenizer: Option<Arc<dyn Tokenizer>>,
    history: Option<HistoryPolicy>,
    patch: Option<Value>,
    adjust: Adjust,
}

/// Changes of the settings, in order.
#[derive(Default)]
struct Adjust(Vec<Change>);

type Change = Box<dyn FnOnce(&mut Settings) + Send + Sync>;

impl std::fmt::Debug for Adjust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} changes", self.0.len())
    }
}

impl SessionBuilder {
    pub(crate) fn new(model: impl Into<String>) -> Self {
        Self { model: model.into(), ..Self::default() }
    }

    /// The system prompt.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.agent.system_prompt = text.into();
        self
    }

    /// What the model shall know about the user in every session.
    pub fn memory(mut self, text: impl Into<String>) -> Self {
        self.agent.memory = Some(text.into());
        self
    }

    /// A project: its instructions and its context, which follow the system prompt.
    pub fn project(mut self, instructions: impl Into<String>, context: impl Into<String>) -> Self {
        self.agent.project = Some(Project { system_prompt: Some(instructions.into()), context: Some(context.into()) });
        self
    }

    /// Adds a rule.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.agent.rules.push(rule.0);
        self
    }

    /// Adds a reference.
    pub fn reference(mut self, reference: Reference) -> Self {
        self.agent.references.push(reference.0);
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.agent.tools.push(tool.0);
        self
    }

    /// Takes the system prompt and all items from an agent.
    pub fn agent(mut self, agent: Agent) -> Self {
        self.agent = agent;
        self
    }

    /// Names the session. OpenAI's caches use the name, so give each conversation its own. The default is `session`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How prompts are laid out. The default, `Layout::Log`, only appends.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = Some(layout);
        self
    }

    /// The provider's request format, if it is not the model's own.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = Some(dialect);
        self
    }

    /// How the choice of tools is sent.
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tools = choice;
        self
    }

    /// How long the provider is asked to remember the system message.
    pub fn cache_lifetime(mut self, lifetime: CacheLifetime) -> Self {
        self.ttl = lifetime;
        self
    }

    /// How older messages are sent.
    pub fn history(mut self, history: HistoryPolicy) -> Self {
        self.history = Some(history);
        self
    }

    /// Requests ask for a streamed answer.
    pub fn stream(mut self) -> Self {
        self.stream = true;
        self
    }

    /// Counts tokens with this tokenizer instead of the model's.
    pub fn tokenizer(mut self, tokenizer: Arc<dyn Tokenizer>) -> Self {
        self.tokenizer = Some(tokenizer);
        self
    }

    /// Looks the model up in this table instead of the built-in one.
    pub fn models(mut self, table: ModelTable) -> Self {
        self.table = Some(table);
        self
    }

    /// Changes settings, which have the model's defaults at this point.
    pub fn adjust(mut self, change: impl FnOnce(&mut Settings) + Send + Sync + 'static) -> Self {
        self.adjust.0.push(Box::new(change));
        self
    }

    /// Sets some of the settings from JSON, for example `{"budget": {"prompt": 20000}}`. Unknown fields are refused.
    pub fn settings(mut self, json: Value) -> Self {
        self.patch = Some(json);
        self
    }

    /// Builds the session.
    pub fn build(self) -> Result<Session, Error> {
        let table = self.table.map_or_else(ModelTable::builtin, Ok)?;
        let model = table.find(&self.model)?;
        let dialect = self.dialect.unwrap_or(model.dialect);
        let name = self.name.as_deref().unwrap_or("session");
        let mut settings = defaults(&model, name, dialect, self.layout.unwrap_or(Layout::Log), self.tools, &self.agent);
        if let Some(history) = self.history {
            settings.history = history;
        }
        if let Some(patch) = self.patch {
            settings = patched(&settings, patch)?;
        }
        for change in self.adjust.0 {
            change(&mut settings);
        }
        let tokenizer = self.tokenizer.unwrap_or_else(|| Arc::new(model.tokenizer.tokenizer()));
        let ttl = match self.ttl {
            CacheLifetime::Short => Ttl::Short,
            CacheLifetime::Long => Ttl::Long,
        };
        let setup = Setup { model, dialect, settings, agent: self.agent, tools: self.tools, ttl, stream: self.stream };
        Session::begin(setup, tokenizer)
    }
}

/// The settings that a model has by default.
pub(crate) fn defaults(
    model: &Model,
    name: &str,
    dialect: Dialect,
    layout: Layout,
    tools: ToolChoice,
    agent: &Agent,
) -> Settings {
    let mut settings = model.settings(name, dialect, layout, agent.tools.len());
    settings.tools = match tools {
        ToolChoice::Listed => dialect.tool_style_of(model, false, agent),
        ToolChoice::Stable => dialect.tool_style(model, false, agent.tools.len()),
        ToolChoice::Native => dialect.tool_style(model, true, agent.tools.len()),
    };
    settings
}

/// The settings with some of their fields replaced.
fn patched(settings: &Settings, patch: Value) -> Result<Settings, Error> {
    let wrong = |path: &str, what: &dyn std::fmt::Display| Error::Setting { path: path.to_owned(), what: what.to_string() };
    let mut all = serde_json::to_value(settings).map_err(|error| wrong("", &error))?;
    merge(&mut all, patch, "")?;
    serde_json::from_value(all).map_err(|error| wrong("", &error))
}

/// Fields whose members are names that the caller chooses.
const OPEN: [&str; 2] = ["budget.output_chars_by_tool", "budget.layers"];

fn merge(old: &mut Value, new: Value, path: &str) -> Result<(), Error> {
    let (fields, patch) = match (old, new) {
        (Value::Object(fields), Value::Object(patch)) => (fields, patch),
        (old, new) => {
            *old = new;
            return Ok(());
        }
    };
    // An enum with fields is replaced as a whole.
    if path == "history" || path == "images" {
        *fields = patch;
        return Ok(());
    }
    for (name, value) in patch {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let is_open = OPEN.iter().any(|open| path.strip_prefix(open).is_some_and(|rest| rest.starts_with('.')));
        match fields.get_mut(&name) {
            Some(old) => merge(old, value, &path)?,
            None if is_open => drop(fields.insert(name, value)),
            None => return Err(Error::Setting { path, what: format!("unknown; expected one of {}", names(fields)) }),
        }
    }
    Ok(())
}

fn names(fields: &Map<String, Value>) -> String {
    fields.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

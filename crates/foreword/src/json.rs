//! Sessions from JSON: for configuration files, and for the libraries in other languages, which are thin layers over this one.

use foreword_core::catalog::{Agent, Entry, Include, Permission, Priority, Project};
use foreword_core::settings::Layout;
use foreword_provider::dialect::Dialect;
use foreword_provider::model::TokenizerName;
use foreword_provider::reply::Stop;
use foreword_provider::table::ModelTable;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Attachment, CacheLifetime, Error, Reply, Session, SessionBuilder, ToolChoice};

/// The fields of [`SessionBuilder::from_json`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    system: Option<String>,
    #[serde(default)]
    memory: Option<String>,
    #[serde(default)]
    project: Option<Project>,
    #[serde(default)]
    rules: Vec<NamedText>,
    #[serde(default)]
    references: Vec<NamedText>,
    #[serde(default)]
    tools: Vec<Function>,
    #[serde(default)]
    agent: Option<Agent>,
    #[serde(default)]
    layout: Option<Layout>,
    #[serde(default)]
    dialect: Option<Dialect>,
    #[serde(default)]
    tool_choice: ToolChoice,
    #[serde(default)]
    cache_lifetime: CacheLifetime,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    settings: Option<Value>,
    #[serde(default)]
    tokenizer: Option<String>,
    #[serde(default)]
    models: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedText {
    name: String,
    text: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default = "always")]
    include: Include,
    #[serde(default)]
    priority: Priority,
}

fn always() -> Include {
    Include::Always
}

impl From<NamedText> for Entry {
    fn from(NamedText { name, text, description, include, priority }: NamedText) -> Self {
        Self { name, description, text, priority, include }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    schema: Value,
    #[serde(default = "app")]
    server: String,
    #[serde(default)]
    include: Option<Include>,
    #[serde(default)]
    permission: Option<Permission>,
    #[serde(default)]
    read_only: bool,
}

fn app() -> String {
    "app".to_owned()
}

impl From<Function> for foreword_core::catalog::Tool {
    fn from(function: Function) -> Self {
        let Function { name, description, schema, server, include, permission, read_only } = function;
        Self { server, name, description, schema, include, permission, read_only }
    }
}

fn wrong(path: &str, what: impl std::fmt::Display) -> Error {
    Error::Setting { path: path.to_owned(), what: what.to_string() }
}

impl SessionBuilder {
    /// A builder with the options of a JSON object: `model`, `name`, `system`, `memory`, `project`, `rules`, `references`, `tools`,
    /// `agent`, `layout`, `dialect`, `tool_choice`, `cache_lifetime`, `stream`, `settings`, `tokenizer` (a name) and `models` (rows
    /// for the model table, in TOML). Without `model` it is the dialect's default one. Unknown fields are refused.
    ///
    /// ```
    /// use foreword::SessionBuilder;
    /// # fn main() -> Result<(), foreword::Error> {
    /// let session = SessionBuilder::from_json(serde_json::json!({
    ///     "model": "claude-sonnet-5",
    ///     "system": "You are a baker.",
    ///     "rules": [{"name": "short", "text": "Answer in one sentence."}],
    /// }))?.build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_json(config: Value) -> Result<Self, Error> {
        let config: Config = serde_json::from_value(config).map_err(|error| wrong("session", error))?;
        let mut table = ModelTable::builtin()?;
        if let Some(rows) = &config.models {
            table.merge_toml(rows)?;
        }
        let model = match (config.model, config.dialect) {
            (Some(model), _) => model,
            (None, Some(dialect)) => table.default_for(dialect)?.name,
            (None, None) => return Err(wrong("model", "missing; name a model, for example claude-sonnet-5")),
        };
        let mut agent = config.agent.unwrap_or_default();
        if let Some(system) = config.system {
            agent.system_prompt = system;
        }
        agent.memory = config.memory.or(agent.memory);
        agent.project = config.project.or(agent.project);
        agent.rules.extend(config.rules.into_iter().map(Entry::from));
        agent.references.extend(config.references.into_iter().map(Entry::from));
        agent.tools.extend(config.tools.into_iter().map(foreword_core::catalog::Tool::from));
        let mut builder = Session::builder(model).agent(agent).models(table).tool_choice(config.tool_choice);
        builder = builder.cache_lifetime(config.cache_lifetime);
        if let Some(name) = config.name {
            builder = builder.name(name);
        }
        if let Some(layout) = config.layout {
            builder = builder.layout(layout);
        }
        if let Some(dialect) = config.dialect {
            builder = builder.dialect(dialect);
        }
        if config.stream {
            builder = builder.stream();
        }
        if let Some(settings) = config.settings {
            builder = builder.settings(settings);
        }
        if let Some(name) = config.tokenizer {
            let tokenizer: TokenizerName = name.parse().map_err(|error| wrong("tokenizer", error))?;
            builder = builder.tokenizer(std::sync::Arc::new(tokenizer.tokenizer()));
        }
        Ok(builder)
    }
}

/// The fields of [`Session::turn_json`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenTurn {
    text: String,
    #[serde(default)]
    attach: Vec<Value>,
    #[serde(default)]
    active_note: Option<String>,
    #[serde(default)]
    results: Vec<GivenResult>,
    #[serde(default)]
    scores: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenResult {
    tool: String,
    #[serde(default)]
    attributes: Vec<(String, String)>,
    output: String,
}

impl Session {
    /// Begins a turn from a JSON object: `text`, and where there are any `attach` (as for [`Attachment::from_json`]), `active_note`,
    /// `results` (`tool`, `attributes`, `output`) and `scores` (by item). Build its request with [`Session::request`].
    pub fn turn_json(&mut self, turn: Value) -> Result<(), Error> {
        let given: GivenTurn = serde_json::from_value(turn).map_err(|error| Error::Attachment(error.to_string()))?;
        let attached: Result<Vec<Attachment>, Error> = given.attach.into_iter().map(Attachment::from_json).collect();
        let mut turn = self.turn(given.text).attach_all(attached?);
        if let Some(path) = given.active_note {
            turn = turn.active_note(&path);
        }
        for result in given.results {
            let attributes: Vec<(&str, &str)> =
                result.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            turn = turn.result(&result.tool, &attributes, &result.output);
        }
        for (item, scores) in &given.scores {
            let chunks = scores.as_array().map_or(std::slice::from_ref(scores), Vec::as_slice);
            turn = turn.score(item, chunks.iter().filter_map(Value::as_f64));
        }
        turn.apply()
    }

    /// Applies an input of the core from JSON, for example `"fold"`, `{"idle": 300}` or `{"summary": "…"}`. Returns whether a request
    /// is due.
    pub fn apply_json(&mut self, input: Value) -> Result<bool, Error> {
        let input = serde_json::from_value(input).map_err(|error| wrong("input", error))?;
        self.apply(input)
    }
}

impl Reply {
    /// The reply as a JSON object: `text`, `calls`, `stop`, `usage` and `cost`.
    pub fn to_json(&self) -> Value {
        let stop = self.stop.as_ref().map(|stop| match stop {
            Stop::End => "end",
            Stop::Sequence(_) => "stop_sequence",
            Stop::Calls => "calls",
            Stop::Length => "length",
            Stop::Window => "window",
            Stop::Refused => "refused",
            Stop::Paused => "paused",
            Stop::Other(other) => other,
        });
        let usage = self.usage.map(|usage| {
            json!({"input": usage.input, "cache_read": usage.cache_read, "cache_write": usage.cache_write,
                "output": usage.output, "reasoning": usage.reasoning})
        });
        json!({"text": self.text, "calls": self.calls, "stop": stop, "usage": usage, "cost": self.cost})
    }
}

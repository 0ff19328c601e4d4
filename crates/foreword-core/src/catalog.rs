//! The agent: the rules, references and tools that its sessions may use.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::item::{ItemId, Kind};

/// The include mode: how an item can come into a request, or how it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Include {
    /// Part of every session from its creation.
    Always,
    /// Added to a session by the user.
    Manual,
    /// Added to single requests by the search.
    Agent,
}

/// Whether a tool needs approval before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Approval is required.
    Required,
    /// The tool runs without approval.
    NotRequired,
}

/// The position in the order of items: 0 is first, 999 last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Priority(u16);

impl Priority {
    /// The default.
    pub const DEFAULT: Self = Self(500);

    /// The number.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl From<Priority> for u16 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

impl TryFrom<u16> for Priority {
    type Error = String;

    fn try_from(number: u16) -> Result<Self, String> {
        if number > 999 { Err(format!("a priority must be an integer from 0 to 999, not {number}")) } else { Ok(Self(number)) }
    }
}

fn manual() -> Include {
    Include::Manual
}

/// A rule or a reference: a named text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name, unique per kind.
    pub name: String,
    /// A description for the search.
    #[serde(default)]
    pub description: Option<String>,
    /// The text for the model.
    pub text: String,
    /// Its position in the order.
    #[serde(default)]
    pub priority: Priority,
    /// Its include mode.
    #[serde(default = "manual")]
    pub include: Include,
}

/// A tool server with defaults for its tools.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name, unique per agent.
    pub name: String,
    /// The default include mode of its tools.
    #[serde(default)]
    pub include: Option<Include>,
    /// The default permission of its tools.
    #[serde(default)]
    pub permission: Option<Permission>,
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The name of its server.
    pub server: String,
    /// Its name, unique per server.
    pub name: String,
    /// Its description for the model.
    #[serde(default)]
    pub description: Option<String>,
    /// The JSON schema of its arguments.
    #[serde(default, with = "crate::json::value")]
    pub schema: Value,
    /// Its include mode, or `None` for the server's default.
    #[serde(default)]
    pub include: Option<Include>,
    /// Its permission, or `None` for the server's default.
    #[serde(default)]
    pub permission: Option<Permission>,
    /// Whether it is read-only. Outputs of read-only tools are not listed in the session summary.
    #[serde(default)]
    pub read_only: bool,
}

impl Tool {
    /// `tool:server/name`
    pub fn id(&self) -> ItemId {
        ItemId::tool(&self.server, &self.name)
    }

    /// The schema, or one without arguments if the tool has none.
    pub fn schema(&self) -> Value {
        match &self.schema {
            Value::Object(schema) if !schema.is_empty() => self.schema.clone(),
            _ => serde_json::json!({"type": "object", "properties": {}}),
        }
    }

    fn is(&self, id: &ItemId) -> bool {
        let name = id.name().strip_prefix(self.server.as_str()).and_then(|name| name.strip_prefix('/'));
        name == Some(self.name.as_str())
    }
}

/// A project, which adds to L1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Project {
    /// Its instructions.
    pub system_prompt: Option<String>,
    /// Its context, if any.
    pub context: Option<String>,
}

/// An agent: the starting point of every session.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Agent {
    /// The system prompt.
    pub system_prompt: String,
    /// The user's memory.
    pub memory: Option<String>,
    /// The session's project.
    pub project: Option<Project>,
    /// Rules.
    pub rules: Vec<Entry>,
    /// References.
    pub references: Vec<Entry>,
    /// Tool servers.
    pub servers: Vec<Server>,
    /// Tools.
    pub tools: Vec<Tool>,
}

/// An invalid agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// Two items of one kind have the same name.
    #[error("{0} is defined twice; names must be unique per kind")]
    Twice(String),
    /// A name is empty.
    #[error("a {0} has an empty name")]
    Nameless(&'static str),
}

/// An item of the agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogued<'a> {
    /// Its ID.
    pub id: ItemId,
    /// Its include mode, with defaults applied.
    pub include: Include,
    /// Its position in the order; tools have the default.
    pub priority: Priority,
    /// The rule, reference or tool.
    pub body: CatalogBody<'a>,
}

/// The body of a catalog item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CatalogBody<'a> {
    /// A rule.
    Rule(&'a Entry),
    /// A reference.
    Reference(&'a Entry),
    /// A tool.
    Tool(&'a Tool),
}

impl Agent {
    /// Checks that names are present and unique.
    pub fn check(&self) -> Result<(), AgentError> {
        let mut seen = BTreeSet::new();
        for server in &self.servers {
            if server.name.is_empty() {
                return Err(AgentError::Nameless("server"));
            }
            if !seen.insert(format!("server {}", server.name)) {
                return Err(AgentError::Twice(format!("server {}", server.name)));
            }
        }
        for item in self.items() {
            let (name, kind) = match item.body {
                CatalogBody::Rule(entry) => (&entry.name, "rule"),
                CatalogBody::Reference(entry) => (&entry.name, "reference"),
                CatalogBody::Tool(tool) => (&tool.name, "tool"),
            };
            if name.is_empty() {
                return Err(AgentError::Nameless(kind));
            }
            if !seen.insert(item.id.to_string()) {
                return Err(AgentError::Twice(item.id.to_string()));
            }
        }
        Ok(())
    }

    /// All items: references, rules, then tools; each sorted by priority, then name (tools by server, then name).
    pub fn items(&self) -> Vec<Catalogued<'_>> {
        let references = self.references.iter().map(CatalogBody::Reference);
        let rules = self.rules.iter().map(CatalogBody::Rule);
        let tools = self.tools.iter().map(CatalogBody::Tool);
        let mut items: Vec<_> = references.chain(rules).chain(tools).map(|body| self.catalogued(body)).collect();
        let rank = |item: &Catalogued<'_>| match item.body {
            CatalogBody::Reference(_) => 0,
            CatalogBody::Rule(_) => 1,
            CatalogBody::Tool(_) => 2,
        };
        items.sort_by(|a, b| (rank(a), a.priority, &a.id).cmp(&(rank(b), b.priority, &b.id)));
        items
    }

    /// Finds an item by ID.
    pub fn find(&self, id: &ItemId) -> Option<Catalogued<'_>> {
        let named = |entry: &&Entry| entry.name == id.name();
        let body = match id.kind() {
            Kind::Rule => self.rules.iter().find(named).map(CatalogBody::Rule),
            Kind::Reference => self.references.iter().find(named).map(CatalogBody::Reference),
            Kind::Tool => self.tools.iter().find(|tool| tool.is(id)).map(CatalogBody::Tool),
            _ => None,
        };
        body.map(|body| self.catalogued(body))
    }

    /// All items by ID.
    pub fn by_id(&self) -> BTreeMap<ItemId, Catalogued<'_>> {
        self.items().into_iter().map(|item| (item.id.clone(), item)).collect()
    }

    fn catalogued<'a>(&'a self, body: CatalogBody<'a>) -> Catalogued<'a> {
        let (id, include, priority) = match body {
            CatalogBody::Rule(entry) => (ItemId::new(Kind::Rule, &entry.name), entry.include, entry.priority),
            CatalogBody::Reference(entry) => (ItemId::new(Kind::Reference, &entry.name), entry.include, entry.priority),
            CatalogBody::Tool(tool) => (tool.id(), self.tool_include(tool), Priority::DEFAULT),
        };
        Catalogued { id, include, priority, body }
    }

    /// A tool's include mode: its own, its server's, or `always`.
    pub fn tool_include(&self, tool: &Tool) -> Include {
        tool.include.or_else(|| self.server(&tool.server)?.include).unwrap_or(Include::Always)
    }

    /// A tool's permission: its own, its server's, or required.
    pub fn tool_permission(&self, tool: &Tool) -> Permission {
        tool.permission.or_else(|| self.server(&tool.server)?.permission).unwrap_or(Permission::Required)
    }

    fn server(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.name == name)
    }

    /// The names of the tools in requests: the tool's own name if it is unique, or `server_name`.
    pub fn wire_names(&self) -> BTreeMap<ItemId, String> {
        let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
        for tool in &self.tools {
            *holders.entry(&tool.name).or_default() += 1;
        }
        let wire = |tool: &Tool| match holders.get(tool.name.as_str()) {
            Some(1) => tool.name.clone(),
            _ => format!("{}_{}", tool.server, tool.name),
        };
        self.tools.iter().map(|tool| (tool.id(), wire(tool))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn agent(value: Value) -> Agent {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn tool_mode_is_the_tools_then_the_servers_then_always() {
        let agent = agent(json!({
            "servers": [{"name": "fs", "include": "agent", "permission": "not_required"}, {"name": "db"}],
            "tools": [
                {"server": "fs", "name": "a"}, {"server": "fs", "name": "b", "include": "manual", "permission": "required"},
                {"server": "db", "name": "c"}, {"server": "nowhere", "name": "d"}],
        }));
        let modes: Vec<_> = agent.tools.iter().map(|tool| (agent.tool_include(tool), agent.tool_permission(tool))).collect();
        assert_eq!(
            modes,
            [
                (Include::Agent, Permission::NotRequired),
                (Include::Manual, Permission::Required),
                (Include::Always, Permission::Required),
                (Include::Always, Permission::Required),
            ]
        );
    }

    #[test]
    fn order_is_priority_then_name() {
        let agent = agent(json!({"rules": [
            {"name": "b", "text": "x"}, {"name": "a", "text": "x"}, {"name": "z", "text": "x", "priority": 1}]}));
        let names: Vec<_> = agent.items().iter().map(|item| item.id.name().to_owned()).collect();
        assert_eq!(names, ["z", "a", "b"]);
    }

    #[test]
    fn wire_names_name_the_server_only_where_they_must() {
        let agent = agent(json!({"tools": [
            {"server": "fs", "name": "read"}, {"server": "db", "name": "read"}, {"server": "db", "name": "query"}]}));
        let names: Vec<_> = agent.wire_names().into_values().collect();
        assert_eq!(names, ["query", "db_read", "fs_read"]);
    }

    #[test]
    fn contradictions_are_refused() {
        let twice = agent(json!({"rules": [{"name": "a", "text": "x"}, {"name": "a", "text": "y"}]}));
        assert_eq!(twice.check(), Err(AgentError::Twice("rule:a".into())));
        assert!(serde_json::from_value::<Agent>(json!({"rules": [{"name": "a", "text": "x", "priority": 1000}]})).is_err());
    }
}

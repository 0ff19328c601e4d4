//! What a session starts with: rules, references and tools.

use foreword_core::catalog::{Entry, Priority};
use serde_json::Value;

pub use foreword_core::catalog::Include;

/// The server under whose name a program's own tools stand.
const SERVER: &str = "app";

/// A rule that the model must follow. It is part of the system message.
///
/// ```
/// use foreword::Rule;
/// let rule = Rule::new("language", "Answer in the language of the question.").priority(10);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rule(pub(crate) Entry);

/// A text that the model may need. It is always included, on request, or when a search finds it.
///
/// ```
/// use foreword::{Include, Reference};
/// let style = Reference::new("style", "We write dates as 2026-11-19.").description("how we write").include(Include::Agent);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Reference(pub(crate) Entry);

fn entry(name: String, text: String, include: Include) -> Entry {
    Entry { name, description: None, text, priority: Priority::default(), include }
}

impl Rule {
    /// A rule that every request contains.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self(entry(name.into(), text.into(), Include::Always))
    }

    /// How it comes into a request.
    #[must_use]
    pub fn include(mut self, include: Include) -> Self {
        self.0.include = include;
        self
    }

    /// Its position among the rules: 0 is first, 999 last. The default is 500.
    #[must_use]
    pub fn priority(mut self, priority: u16) -> Self {
        self.0.priority = at_most(priority);
        self
    }

    /// What it is about, for the search.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.0.description = Some(description.into());
        self
    }
}

impl Reference {
    /// A reference that every session begins with.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self(entry(name.into(), text.into(), Include::Always))
    }

    /// How it comes into a request.
    #[must_use]
    pub fn include(mut self, include: Include) -> Self {
        self.0.include = include;
        self
    }

    /// Its position among the references: 0 is first, 999 last. The default is 500.
    #[must_use]
    pub fn priority(mut self, priority: u16) -> Self {
        self.0.priority = at_most(priority);
        self
    }

    /// What it is about, for the search.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.0.description = Some(description.into());
        self
    }
}

/// The nearest priority there is.
fn at_most(priority: u16) -> Priority {
    Priority::try_from(priority.min(999)).unwrap_or_default()
}

/// A tool that the model may call. The program runs it.
///
/// ```
/// use foreword::Tool;
/// use serde_json::json;
/// let tool = Tool::new("weather", "The weather of a city", json!({
///     "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
/// }))
/// .read_only();
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tool(pub(crate) foreword_core::catalog::Tool);

impl Tool {
    /// A tool with a JSON schema of its arguments.
    pub fn new(name: impl Into<String>, description: impl Into<String>, schema: Value) -> Self {
        Self(foreword_core::catalog::Tool {
            server: SERVER.to_owned(),
            name: name.into(),
            description: Some(description.into()),
            schema,
            include: None,
            permission: None,
            read_only: false,
        })
    }

    /// It changes nothing, so summaries of the session need not mention its calls.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.0.read_only = true;
        self
    }

    /// How it comes into a request; tools are always included unless this says otherwise.
    #[must_use]
    pub fn include(mut self, include: Include) -> Self {
        self.0.include = Some(include);
        self
    }

    /// The server that it comes from. The default is `app`.
    #[must_use]
    pub fn server(mut self, server: impl Into<String>) -> Self {
        self.0.server = server.into();
        self
    }
}

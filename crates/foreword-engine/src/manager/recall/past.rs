//! What was said, message by message, from the log of a session.

use foreword_core::history::MessageId;
use foreword_core::message::Role;
use foreword_core::prompt::USE_TOOL;
use foreword_store::{Logged, Store, StoreError};
use serde_json::Value;

use crate::session::is_input;

/// The tool's own name: looking back is nothing to look back at.
pub(super) const NAME: &str = "recall";

/// A message of the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Its id.
    pub id: MessageId,
    /// Whose it is.
    pub role: Role,
    /// The run it belongs to, from 0.
    pub run: u64,
    /// What it says.
    pub text: String,
}

impl Remark {
    /// The word for whoever said it.
    pub fn who(&self) -> &'static str {
        match self.role {
            Role::User => "User",
            Role::Assistant => "Assistant",
            Role::Tool => "Tool output",
            Role::System => "System",
        }
    }
}

/// Where the past comes from.
pub trait Past: Send {
    /// What was said since it was last asked.
    fn news(&mut self) -> Result<Vec<Remark>, String>;

    /// A message, whole.
    fn read(&mut self, id: MessageId) -> Result<Option<String>, String>;
}

/// Opens a store to read from.
pub type OpenStore = Box<dyn Fn() -> Result<Box<dyn Store>, StoreError> + Send>;

/// The past of a session in a store.
pub struct StoredPast {
    open: OpenStore,
    /// Once it was needed.
    store: Option<Box<dyn Store>>,
    session: String,
    /// The next entry to be read.
    next: u64,
    /// The entry of each input.
    entry_of: Vec<u64>,
    /// The newest message's calls of the tool itself.
    own_calls: Vec<String>,
}

impl StoredPast {
    /// Over a store that is opened when it is first needed.
    pub fn new(open: OpenStore, session: &str) -> Self {
        Self { open, store: None, session: session.to_owned(), next: 0, entry_of: Vec::new(), own_calls: Vec::new() }
    }

    fn log(&mut self, from: u64) -> Result<(Vec<Logged>, &dyn Store), StoreError> {
        let store = match self.store.take() {
            Some(store) => store,
            None => (self.open)()?,
        };
        let store = &**self.store.insert(store);
        Ok((store.log_packed(&self.session, from)?, store))
    }

    fn read_news(&mut self) -> Result<Vec<Remark>, StoreError> {
        let (mut next, mut inputs) = (self.next, self.entry_of.len() as u64);
        let (mut news, mut entries) = (Vec::new(), Vec::new());
        let mut own_calls = std::mem::take(&mut self.own_calls);
        let (log, store) = self.log(next)?;
        for entry in log {
            next = entry.number + 1;
            if is_input(&entry.kind) {
                let is_own_result = entry.kind == "tool_result"
                    && entry.body.get("id").and_then(Value::as_str).is_some_and(|id| own_calls.iter().any(|own| own == id));
                if entry.kind == "assistant" {
                    own_calls = calls(store, &entry)?.iter().filter(|call| is_own(call)).filter_map(id).collect();
                }
                if !is_own_result {
                    news.extend(remarks(store, &entry, inputs)?);
                }
                entries.push(entry.number);
                inputs += 1;
            }
        }
        self.next = next;
        self.own_calls = own_calls;
        self.entry_of.extend(entries);
        Ok(news)
    }

    fn read_one(&mut self, id: MessageId) -> Result<Option<String>, StoreError> {
        let entry = usize::try_from(id.input).ok().and_then(|at| self.entry_of.get(at)).copied();
        let Some(number) = entry else { return Ok(None) };
        let (log, store) = self.log(number)?;
        let Some(entry) = log.first() else { return Ok(None) };
        let remarks = remarks(store, entry, id.input)?;
        Ok(remarks.into_iter().find(|remark| remark.id == id).map(|remark| remark.text))
    }
}

impl Past for StoredPast {
    fn news(&mut self) -> Result<Vec<Remark>, String> {
        self.read_news().map_err(|error| format!("the session's record cannot be read: {error}"))
    }

    fn read(&mut self, id: MessageId) -> Result<Option<String>, String> {
        self.read_one(id).map_err(|error| format!("the session's record cannot be read: {error}"))
    }
}

/// The calls of a message of the model.
fn calls(store: &dyn Store, entry: &Logged) -> Result<Vec<Value>, StoreError> {
    let calls = entry.body.get("calls").and_then(Value::as_array).into_iter().flatten();
    calls.map(|call| store.unpack(call.clone())).collect()
}

fn id(call: &Value) -> Option<String> {
    Some(call.get("id")?.as_str()?.to_owned())
}

/// Whether a call is one of the tool itself, by whatever name the model knows it.
fn is_own(call: &Value) -> bool {
    let named = |value: &Value| {
        value.get("name").and_then(Value::as_str).is_some_and(|name| name.rsplit(['_', '/']).next() == Some(NAME))
    };
    named(call)
        || call.get("arguments").is_some_and(|given| call.get("name").is_some_and(|name| name == USE_TOOL) && named(given))
}

/// What an entry of the log says.
fn remarks(store: &dyn Store, entry: &Logged, input: u64) -> Result<Vec<Remark>, StoreError> {
    let id = MessageId::of_input(input);
    let text = |value: Option<&Value>| -> Result<String, StoreError> {
        let whole = value.map(|value| store.unpack(value.clone())).transpose()?;
        Ok(whole.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned())
    };
    let one = |role, text: String| vec![Remark { id, role, run: entry.run, text }];
    let remarks = match entry.kind.as_str() {
        "turn" => one(Role::User, text(entry.body.get("words"))?),
        "tool_result" => one(Role::Tool, text(entry.body.get("output"))?),
        "assistant" => {
            let mut said = text(entry.body.get("text"))?;
            for call in calls(store, entry)?.into_iter().filter(|call| !is_own(call)) {
                let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
                let arguments = call.get("arguments").map(foreword_core::json::to_string).unwrap_or_default();
                said = format!("{said}\n{name}({arguments})");
            }
            one(Role::Assistant, said.trim().to_owned())
        }
        "imported" => {
            let mut lines = Vec::new();
            for (line, said) in (0..).zip(entry.body.as_array().into_iter().flatten()) {
                let by_user = said.get("role").and_then(Value::as_str).is_some_and(|role| role.eq_ignore_ascii_case("user"));
                let role = if by_user { Role::User } else { Role::Assistant };
                lines.push(Remark { id: MessageId { line, ..id }, role, run: entry.run, text: text(said.get("text"))? });
            }
            lines
        }
        _ => Vec::new(),
    };
    Ok(remarks.into_iter().filter(|remark| !remark.text.is_empty()).collect())
}

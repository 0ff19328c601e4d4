//! What was said, message by message, from the log of a session.

use foreword_core::history::MessageId;
use foreword_core::message::Role;
use foreword_store::{Logged, Store, StoreError};
use serde_json::Value;

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

/// The past of a session in a store.
#[derive(Debug)]
pub struct StoredPast {
    store: Box<dyn Store>,
    session: String,
    /// Entries that were read, and how many of them were inputs.
    entries: u64,
    inputs: u64,
    /// The entry of each input.
    entry_of: Vec<u64>,
}

/// Entries that a session is not told of.
const UNTOLD: &str = "edited";

impl StoredPast {
    /// Over a store of its own: it only reads.
    pub fn new(store: Box<dyn Store>, session: &str) -> Self {
        Self { store, session: session.to_owned(), entries: 0, inputs: 0, entry_of: Vec::new() }
    }

    fn remarks(&self, entry: &Logged, input: u64) -> Result<Vec<Remark>, StoreError> {
        let id = MessageId::of_input(input);
        let text = |value: Option<&Value>| -> Result<String, StoreError> {
            let whole = value.map(|value| self.store.unpack(value.clone())).transpose()?;
            Ok(whole.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned())
        };
        let one = |role, text: String| vec![Remark { id, role, run: entry.run, text }];
        let remarks = match entry.kind.as_str() {
            "turn" => one(Role::User, text(entry.body.get("words"))?),
            "tool_result" => one(Role::Tool, text(entry.body.get("output"))?),
            "assistant" => {
                let mut said = text(entry.body.get("text"))?;
                for call in entry.body.get("calls").and_then(Value::as_array).into_iter().flatten() {
                    let call = self.store.unpack(call.clone())?;
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
}

impl Past for StoredPast {
    fn news(&mut self) -> Result<Vec<Remark>, String> {
        let wrong = |error: StoreError| format!("the session's record cannot be read: {error}");
        let mut news = Vec::new();
        for entry in self.store.log_packed(&self.session, self.entries).map_err(wrong)? {
            self.entries = entry.number + 1;
            if entry.kind == UNTOLD {
                continue;
            }
            news.extend(self.remarks(&entry, self.inputs).map_err(wrong)?);
            self.entry_of.push(entry.number);
            self.inputs += 1;
        }
        Ok(news)
    }

    fn read(&mut self, id: MessageId) -> Result<Option<String>, String> {
        let wrong = |error: StoreError| format!("the session's record cannot be read: {error}");
        let entry = usize::try_from(id.input).ok().and_then(|at| self.entry_of.get(at)).copied();
        let Some(number) = entry else { return Ok(None) };
        let entries = self.store.log_packed(&self.session, number).map_err(wrong)?;
        let Some(entry) = entries.into_iter().next() else { return Ok(None) };
        let remarks = self.remarks(&entry, id.input).map_err(wrong)?;
        Ok(remarks.into_iter().find(|remark| remark.id == id).map(|remark| remark.text))
    }
}

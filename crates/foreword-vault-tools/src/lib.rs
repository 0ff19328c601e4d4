//! The built-in tools of a session over a vault: finding and reading notes, web pages and earlier outputs, and writing notes.
//!
//! Each tool has its own file. A tool's description says when to use it and when not. Its output is plain text within the session's
//! limit, and says what was left out and how to get it; the core escapes it. The tool's own lines are placed where no text of a
//! note can be: above the note, or outside of its quote.

pub mod agents;
pub mod catalog;
pub mod chats;
pub mod corpus;
mod desk;
pub mod embedding;
mod file_tree;
pub mod find;
mod local_search;
pub mod pages;
mod read_note;
pub mod read_output;
mod time_range;
pub mod vectors;
mod web_fetch;
pub mod weights;
mod write_note;

#[cfg(test)]
mod tests;

pub use desk::VaultTools;
pub use foreword_tools::write::{Change, Draft, NoteFolder, hidden_character, is_instruction};
pub use foreword_tools::{
    Approval, Approve, Asking, Decision, PinnedTool, Pins, Sandbox, ServerConfig, SessionPins, Toolbox, Unattended, sandbox,
};
pub use read_note::{NotOneNote, one_note};
pub use read_output::{Outputs, outputs_of};

use foreword_core::catalog::{Include, Permission, Tool};
use foreword_text::fence::is_line_end;
use foreword_tools::{Builtin, OWN_SERVER, Output};
use serde::Deserialize;
use serde_json::{Value, json};

/// All tools of a session over a vault; `outputs` returns earlier tool outputs.
pub fn own_tools(desk: &VaultTools, outputs: Outputs) -> Vec<Box<dyn Builtin>> {
    vec![
        Box::new(local_search::LocalSearch::new(desk.clone())),
        Box::new(read_note::ReadNote::new(desk.clone())),
        Box::new(file_tree::FileTree::new(desk.clone())),
        Box::new(time_range::TimeRange::new(desk.clone())),
        Box::new(web_fetch::WebFetch::new(desk.clone())),
        Box::new(read_output::ReadOutput::new(outputs, desk.page())),
        Box::new(write_note::WriteNote::new(desk.clone())),
    ]
}

/// What a tool does to the world, which decides whether a person is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// It reads what the session may read anyway.
    Reads,
    /// It reads, and contacts another server.
    ReadsOutside,
    /// It changes the vault.
    Writes,
}

/// How the catalog knows a tool with these parameters, of which the `required` ones must be given.
fn described(name: &str, reach: Reach, description: &str, parameters: &Value, required: &[&str]) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": parameters,
        "required": required,
        "additionalProperties": false,
    });
    Tool {
        server: OWN_SERVER.to_owned(),
        name: name.to_owned(),
        description: Some(description.to_owned()),
        schema,
        include: Some(Include::Always),
        permission: Some(if reach == Reach::Reads { Permission::NotRequired } else { Permission::Required }),
        read_only: reach != Reach::Writes,
    }
}

/// Parses the arguments of a call. The toolbox has checked them already; other callers get an error.
fn read<'a, T: Deserialize<'a>>(arguments: &'a Value) -> Result<T, String> {
    T::deserialize(arguments).map_err(|error| {
        format!("The arguments do not fit this tool: {error}. Call it again with arguments as its schema has them.")
    })
}

/// A tool's output. Errors may quote an argument, so they are limited to a few lines.
fn output(outcome: Result<String, String>) -> Output {
    const MOST_FAULT_BYTES: usize = 2_000;
    match outcome {
        Ok(text) => Output::done(text),
        Err(mut fault) => {
            fault.truncate(fault.floor_char_boundary(MOST_FAULT_BYTES));
            Output::failed(fault)
        }
    }
}

/// A text on one line.
fn one_line(text: &str) -> String {
    text.replace(|c: char| is_line_end(c) || c.is_control(), " ")
}

/// A title or a remark on one line, no longer than one.
fn brief(text: &str) -> String {
    const MOST_CHARS: usize = 300;
    one_line(text).chars().take(MOST_CHARS).collect()
}

/// An argument that says something: some models fill in what they do not need with nothing.
fn said(argument: Option<&str>) -> Option<&str> {
    argument.map(str::trim).filter(|argument| !argument.is_empty())
}

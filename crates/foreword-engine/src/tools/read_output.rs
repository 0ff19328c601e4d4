//! `readOutput`: an earlier output of a tool, of which the prompt shows a part or a Stub.

use foreword_core::catalog::Tool;
use foreword_core::hash::Hash;
use foreword_core::item::ItemId;
use foreword_tools::{Builtin, Output, outbox};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Reach, brief, described, output, said};

/// The whole outputs of a session, by their hash: what this session's tools gave back, and nothing else.
pub type Outputs = Box<dyn Fn(Hash) -> Option<String> + Send>;

pub(super) struct ReadOutput {
    outputs: Outputs,
    /// How many bytes one output shows.
    page: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    id: String,
    offset: Option<usize>,
    grep: Option<String>,
}

impl ReadOutput {
    pub(super) fn new(outputs: Outputs, page: usize) -> Self {
        Self { outputs, page }
    }
}

/// What a call gives back: at most about `page` bytes.
pub(crate) fn read(arguments: &Value, page: usize, outputs: &dyn Fn(Hash) -> Option<String>) -> Output {
    output(answer(arguments, page, outputs))
}

fn answer(arguments: &Value, page: usize, outputs: &dyn Fn(Hash) -> Option<String>) -> Result<String, String> {
    let Arguments { id, offset, grep } = super::read(arguments)?;
    let hash =
        hash(&id).ok_or_else(|| format!("`{}` is no id of an output. Copy it whole: `output:` and 64 digits.", brief(&id)))?;
    let whole = outputs(hash);
    let whole = whole.ok_or_else(|| format!("No tool of this session gave back {}.", ItemId::output(hash)))?;
    match (said(grep.as_deref()), offset) {
        (None, offset) => Ok(outbox::page(&whole, offset.unwrap_or(0), page)),
        (Some(pattern), None) => outbox::grep(&whole, pattern, page).map_err(|error| error.to_string()),
        (Some(_), Some(_)) => {
            Err("Give either an offset or grep, not both: one reads on, the other searches all of it.".to_owned())
        }
    }
}

/// As a catalog has it.
pub(crate) fn tool() -> Tool {
    described(
        "readOutput",
        Reach::Reads,
        "Read again what a tool gave back earlier in this session, whole. Use it where an output was cut or left out and says so with an id \
             (`output:…`), and you need what is missing. Give grep to find lines, or offset to read on; without them it begins at the start.",
        &json!({
            "id": {"type": "string", "description": "The id as it stands in the prompt: `output:` and 64 digits."},
            "offset": {"type": "integer", "minimum": 0, "description": "The byte to begin with, as an earlier page or a match names it."},
            "grep": {
                "type": "string",
                "description": "A regular expression; gives the lines that match, with their numbers and the lines around them. `(?i)` in \
                                front ignores case."
            }
        }),
        &["id"],
    )
}

impl Builtin for ReadOutput {
    fn tool(&self) -> Tool {
        tool()
    }

    fn run(&mut self, arguments: &Value) -> Output {
        read(arguments, self.page, &*self.outputs)
    }
}

fn hash(id: &str) -> Option<Hash> {
    let id = id.trim();
    let hash = id.strip_prefix("output:").unwrap_or(id);
    Hash::deserialize(&Value::from(hash)).ok()
}

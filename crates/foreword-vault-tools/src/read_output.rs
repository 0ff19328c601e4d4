//! `readOutput`: an earlier output of a tool, of which the prompt shows a part or a Stub.

use foreword_core::catalog::Tool;
use foreword_core::hash::Hash;
use foreword_core::item::ItemId;
use foreword_store::{Store, StoreError};
use foreword_tools::{Builtin, Output, outbox};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Reach, brief, described, output, said};

/// The whole outputs of a session whose hash begins with some hex digits: what this session's tools gave back, and nothing else.
pub type Outputs = Box<dyn Fn(&str) -> Vec<(Hash, String)> + Send>;

/// A summary names an output by so many digits.
const LEAST_DIGITS: usize = 8;

/// So many outputs of one beginning are named.
const MOST_NAMED: usize = 4;

/// What the tools of a session in a store gave back, where its hash begins with these hex digits.
pub fn outputs_of(store: &dyn Store, session: &str, digits: &str) -> Vec<(Hash, String)> {
    // Whatever cannot be read is not there.
    let whole = whole_hash(digits).and_then(|hash| Some((hash, store.text(hash).ok()?)));
    whole.map_or_else(|| logged_outputs(store, session, digits).unwrap_or_default(), |found| vec![found])
}

fn logged_outputs(store: &dyn Store, session: &str, digits: &str) -> Result<Vec<(Hash, String)>, StoreError> {
    let mut found: Vec<(Hash, String)> = Vec::new();
    for mut logged in store.log_packed(session, 0)? {
        let outputs = match logged.kind.as_str() {
            "tool_result" => logged.body.get_mut("output").map(Value::take).into_iter().collect(),
            "turn" => {
                let results = logged.body.get_mut("results").and_then(Value::as_array_mut).into_iter().flatten();
                results.filter_map(|result| result.get_mut("output").map(Value::take)).collect::<Vec<_>>()
            }
            _ => Vec::new(),
        };
        for output in outputs {
            let Value::String(text) = store.unpack(output)? else { continue };
            let hash = Hash::of(&text);
            if hash.to_string().starts_with(digits) && found.iter().all(|(known, _)| *known != hash) {
                found.push((hash, text));
            }
        }
    }
    Ok(found)
}

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
pub fn read(arguments: &Value, page: usize, outputs: &dyn Fn(&str) -> Vec<(Hash, String)>) -> Output {
    output(answer(arguments, page, outputs))
}

fn answer(arguments: &Value, page: usize, outputs: &dyn Fn(&str) -> Vec<(Hash, String)>) -> Result<String, String> {
    let Arguments { id, offset, grep } = super::read(arguments)?;
    let digits = digits(&id).ok_or_else(|| {
        format!(
            "`{}` is no id of an output. Copy it: `output:` and its digits, of which there are {LEAST_DIGITS} to 64.",
            brief(&id)
        )
    })?;
    let mut found = outputs(&digits);
    let whole = match found.pop() {
        Some((_, whole)) if found.is_empty() => whole,
        Some(last) => {
            let names: Vec<_> =
                found.iter().chain([&last]).take(MOST_NAMED).map(|(hash, _)| ItemId::output(*hash).to_string()).collect();
            return Err(format!("{digits} is the beginning of several outputs: {}. Give one of them whole.", names.join(", ")));
        }
        None => return Err(format!("No tool of this session gave back output:{digits}.")),
    };
    match (said(grep.as_deref()), offset) {
        (None, offset) => Ok(outbox::page(&whole, offset.unwrap_or(0), page)),
        (Some(pattern), None) => outbox::grep(&whole, pattern, page).map_err(|error| error.to_string()),
        (Some(_), Some(_)) => {
            Err("Give either an offset or grep, not both: one reads on, the other searches all of it.".to_owned())
        }
    }
}

/// As a catalog has it.
pub fn tool() -> Tool {
    described(
        "readOutput",
        Reach::Reads,
        "Read again what a tool gave back earlier in this session, whole. Use it where an output was cut or left out and says so with an id \
             (`output:…`), and you need what is missing. Give grep to find lines, or offset to read on; without them it begins at the start.",
        &json!({
            "id": {"type": "string", "description": "The id as it stands in the prompt: `output:` and its digits, or the digits alone."},
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

/// The digits of an id.
fn digits(id: &str) -> Option<String> {
    let id = id.trim().trim_end_matches('…');
    let digits = id.strip_prefix("output:").unwrap_or(id);
    let is_some = (LEAST_DIGITS..=64).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_some.then(|| digits.to_ascii_lowercase())
}

fn whole_hash(digits: &str) -> Option<Hash> {
    Hash::deserialize(&Value::from(digits)).ok()
}

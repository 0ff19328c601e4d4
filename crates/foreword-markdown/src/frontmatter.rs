//! Parses the YAML between the first two `---` lines. Handwritten frontmatter is often not valid YAML: errors are reported, and all
//! readable keys are kept.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Location, Options, Spanned};

use crate::note::Frontmatter;

#[cfg(test)]
mod tests;

/// Larger frontmatter is read line by line instead of as YAML.
const YAML_LIMIT: usize = 256 << 10;
/// The deepest YAML; deeper nesting could overflow the stack.
pub const MAX_DEPTH: usize = 16;
/// The largest number of keys read from invalid YAML.
const SAVED_KEYS: usize = 10_000;
/// The longest part of a YAML error that is shown.
const FAULT_CHARS: usize = 200;

/// Parses the frontmatter of a note, which must be at its very start.
pub fn read(text: &str) -> Frontmatter {
    let Some((yaml_start, yaml_end, end)) = find(text) else { return Frontmatter::default() };
    let yaml = text.get(yaml_start..yaml_end).unwrap_or_default();
    let (fields, fault) = match parse(yaml) {
        Ok(fields) => (fields, None),
        Err(fault) => (save(yaml), Some(fault)),
    };
    Frontmatter { range: 0..end, fields, fault }
}

/// The start and end of the YAML, and the end of the whole block.
fn find(text: &str) -> Option<(usize, usize, usize)> {
    let mut at = 0;
    let mut start = None;
    for line in text.split_inclusive('\n') {
        let is_fence = line.strip_prefix("---").is_some_and(|rest| rest.trim_end().is_empty());
        match start {
            None if is_fence => start = Some(at + line.len()),
            None => return None,
            Some(start) if is_fence => return Some((start, at, at + line.len())),
            Some(_) => {}
        }
        at += line.len();
    }
    None
}

fn parse(yaml: &str) -> Result<Vec<(String, Value)>, String> {
    if yaml.len() > YAML_LIMIT {
        return Err(format!(
            "the frontmatter is larger than {} KiB and was read line by line; move data into the note or another file",
            YAML_LIMIT >> 10
        ));
    }
    match document(yaml).map_err(|error| explain(&error))? {
        Node::Map(entries) => Ok(unique(entries.into_iter().map(|(key, node)| (key, value(node, yaml))))),
        Node::Scalar(Value::Null) => Ok(Vec::new()),
        Node::Scalar(_) => Err("the frontmatter is a single value; write `key: value` lines".to_owned()),
        Node::List(_) => Err("the frontmatter is a list; write `key: value` lines".to_owned()),
    }
}

fn document(yaml: &str) -> Result<Node, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options::<Node>(yaml, options())
}

fn options() -> Options {
    serde_saphyr::options! {
        strict_booleans: true, // `no` is an answer, not false
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        with_snippet: false,
        budget: serde_saphyr::budget! { max_events: 200_000, max_nodes: 100_000, max_depth: MAX_DEPTH, max_documents: 1, max_total_scalar_bytes: 4 << 20 },
    }
}

/// A one-line YAML error with its line in the file.
fn explain(error: &serde_saphyr::Error) -> String {
    let message = error.without_snippet().to_string();
    let message = message.lines().next().unwrap_or_default();
    // Its own position counts from the line after the `---`.
    let message = message.split(" at line ").next().unwrap_or_default().trim_start_matches("error: ");
    let message: String = message.chars().take(FAULT_CHARS).collect();
    let line = error.location().map_or(1, |location| location.line()).max(1) + 1;
    format!("line {line} is not valid YAML: {message}; quote the value, or check indentation and brackets")
}

/// Removes duplicate keys; the last value is used at the first position.
fn unique(entries: impl Iterator<Item = (String, Value)>) -> Vec<(String, Value)> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut fields: Vec<(String, Value)> = Vec::new();
    for (key, value) in entries {
        if let Some(field) = places.get(&key).and_then(|place| fields.get_mut(*place)) {
            field.1 = value;
        } else {
            places.insert(key.clone(), fields.len());
            fields.push((key, value));
        }
    }
    fields
}

/// Splits invalid YAML at the lines that begin a key, so that an error affects only one key.
fn save(yaml: &str) -> Vec<(String, Value)> {
    let mut fields = Vec::new();
    let mut at = 0;
    let mut open: Option<(usize, &str)> = None;
    for line in yaml.split_inclusive('\n').chain(["end:"]) {
        if let Some(key) = begun_key(line) {
            if let Some((start, key)) = open.replace((at, key)) {
                fields.push((bare(key).to_owned(), save_one(yaml.get(start..at).unwrap_or_default())));
            }
            if fields.len() >= SAVED_KEYS {
                break;
            }
        }
        at += line.len();
    }
    unique(fields.into_iter())
}

/// The key that a line begins.
fn begun_key(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let is_key = !key.is_empty() && !key.starts_with([' ', '\t', '#', '-']);
    (is_key && (rest.is_empty() || rest.starts_with([' ', '\t', '\n']))).then_some(key)
}

/// The value of one key: YAML if valid, otherwise list items or the text after the colon.
fn save_one(lines: &str) -> Value {
    if lines.len() <= YAML_LIMIT
        && let Ok(Node::Map(entries)) = document(lines)
        && entries.len() == 1
        && let Some((_, node)) = entries.into_iter().next()
        && !matches!(&node.value, Node::Map(_))
    // such as `{{title}}`
    {
        return value(node, lines);
    }
    let (first, rest) = lines.split_once('\n').unwrap_or((lines, ""));
    let first = bare(first.split_once(':').map_or("", |(_, value)| value));
    let items = || rest.lines().filter_map(|line| line.trim_start().strip_prefix('-')).map(bare).filter(|item| !item.is_empty());
    if first.is_empty() && items().next().is_some() {
        return Value::Array(items().map(Value::from).collect());
    }
    if first.is_empty() { Value::Null } else { Value::from(first) }
}

/// A scalar without surrounding spaces and quotes.
fn bare(text: &str) -> &str {
    let text = text.trim();
    let inner = ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
    inner.unwrap_or(text)
}

/// A YAML value with its location.
enum Node {
    Scalar(Value),
    List(Vec<Spanned<Node>>),
    Map(Vec<(String, Spanned<Node>)>),
}

/// The value of a node. A number that would change when written back (`007`, a long ID) stays text.
fn value(node: Spanned<Node>, yaml: &str) -> Value {
    match node.value {
        Node::Scalar(Value::Number(number)) => {
            let written = source(yaml, node.defined).unwrap_or_default();
            let digits = written.trim_start_matches(['-', '+']);
            let padded = digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
            let rounded = number.is_f64() && !digits.contains(['.', 'e', 'E']);
            if padded || (rounded && !written.is_empty()) { Value::from(written) } else { Value::Number(number) }
        }
        Node::Scalar(value) => value,
        Node::List(nodes) => nodes.into_iter().map(|node| value(node, yaml)).collect(),
        Node::Map(entries) => {
            Value::Object(entries.into_iter().map(|(key, node)| (key, value(node, yaml))).collect::<Map<_, _>>())
        }
    }
}

fn source(yaml: &str, location: Location) -> Option<&str> {
    let start = usize::try_from(location.span().byte_offset()?).ok()?;
    let end = start.checked_add(usize::try_from(location.span().byte_len()?).ok()?)?;
    yaml.get(start..end).map(str::trim)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = access.next_element()? {
            nodes.push(node);
        }
        Ok(Node::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
}

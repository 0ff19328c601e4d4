//! Splits items and notes into chunks that are short enough for one embedding.
//!
//! There are two ways to split an item: [`seed_chunks`] is the plain format of the `semantic` strategy; [`item_chunks`] is for
//! `hybrid`: names as words, a tool's parameters, no chunk longer than the model's input. The chunker's ID is part of an
//! embedding's key, so change the ID below with every change of the result.

use std::ops::Range;

use foreword_core::item::Kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::words::spoken;

mod note;

pub use note::note_chunks;

/// The id of [`seed_chunks`].
pub const SEED_CHUNKER: &str = "seed-1";
/// The id of [`item_chunks`].
pub const ITEM_CHUNKER: &str = "item-3";
/// The id of [`note_chunks`].
pub const NOTE_CHUNKER: &str = "note-1";

/// About how many characters a chunk has.
pub const CHUNK_CHARS: usize = 500;

/// More parameters than this are not described, nor are those nested deeper.
const MAX_PARAMETERS: usize = 64;
const MAX_DEPTH: usize = 4;

/// One stretch of a text, as it is indexed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// The text to embed and to index.
    pub text: String,
    /// Its byte range in the source; empty if there is no source.
    pub range: Range<usize>,
    /// Its name or heading path, whose words have a higher weight.
    pub context: String,
    /// Further words to be found by, which are not embedded and count less.
    pub detail: String,
    /// Whether it is another view of the chunk before it: embedded, but not found by itself; the two cosines are averaged.
    pub view: bool,
}

/// What an item is cut from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its name, without the server.
    pub name: &'a str,
    /// What it is for; may be empty.
    pub description: &'a str,
    /// Its text; tools have none.
    pub text: &'a str,
    /// A tool's JSON schema.
    pub parameters: Option<&'a Value>,
}

/// The seed's chunks: `name: description`, for other items than tools a blank line and the text; cut at blank lines, and longer paragraphs
/// at sentences. A single long sentence stays whole.
pub fn seed_chunks(source: &Source<'_>) -> Vec<Chunk> {
    let head =
        if source.description.is_empty() { source.name.to_owned() } else { format!("{}: {}", source.name, source.description) };
    let whole = if source.kind == Kind::Tool { head } else { format!("{head}\n\n{}", source.text) };
    let mut chunks = Vec::new();
    for paragraph in paragraphs(&whole) {
        let text = &whole[paragraph];
        if text.chars().count() <= CHUNK_CHARS {
            chunks.push(plain(text, source.name));
            continue;
        }
        let mut packed = String::new();
        let mut length = 0;
        for sentence in sentences(text) {
            let sentence = text[sentence].trim();
            let chars = sentence.chars().count();
            if length > 0 && length + 1 + chars > CHUNK_CHARS {
                chunks.push(plain(&packed, source.name));
                packed.clear();
                length = 0;
            }
            if length > 0 {
                packed.push(' ');
                length += 1;
            }
            packed.push_str(sentence);
            length += chars;
        }
        if !packed.is_empty() {
            chunks.push(plain(&packed, source.name));
        }
    }
    chunks
}

fn plain(text: &str, name: &str) -> Chunk {
    Chunk { text: text.to_owned(), context: name.to_owned(), ..Chunk::default() }
}

/// The chunks `hybrid` searches. A tool has two views, what it does and what it takes. Of another item each stretch of text is a chunk, with
/// the name where the name says something.
pub fn item_chunks(source: &Source<'_>) -> Vec<Chunk> {
    if source.kind == Kind::Tool {
        return tool_chunks(source);
    }
    let name = spoken(source.name);
    let head = match (says_something(&name), source.description.is_empty()) {
        (true, true) => name,
        (true, false) => format!("{name}: {}", source.description),
        (false, _) => source.description.to_owned(),
    };
    let mut chunks: Vec<Chunk> = Vec::new();
    for range in pack(source.text, paragraphs(source.text)) {
        let body = &source.text[range.clone()];
        let text = if head.is_empty() { body.to_owned() } else { format!("{head}\n{body}") };
        chunks.push(Chunk { text, range, context: source.name.to_owned(), ..Chunk::default() });
    }
    if chunks.is_empty() && !head.is_empty() {
        chunks.push(plain(&head, source.name));
    }
    chunks
}

/// One vector for both views would be about neither: parameters outnumber the words that say what a tool is for.
fn tool_chunks(source: &Source<'_>) -> Vec<Chunk> {
    let name = spoken(source.name);
    let text = if source.description.is_empty() { name.clone() } else { format!("{name}: {}", source.description) };
    let parameters = source.parameters.map(parameters).unwrap_or_default();
    if parameters.is_empty() {
        return vec![plain(&text, source.name)];
    }
    let mut takes = format!("{name}: ");
    let mut detail = String::new();
    for (at, parameter) in parameters.iter().enumerate() {
        let separator = if at == 0 { "" } else { "; " };
        let colon = if parameter.description.is_empty() { "" } else { ": " };
        takes.extend([separator, &spoken(&parameter.name), colon, &parameter.description]);
        detail.extend([&parameter.name, " ", &parameter.description, " ", &parameter.values, " "]);
    }
    let takes = takes.chars().take(CHUNK_CHARS).collect();
    vec![Chunk { detail, ..plain(&text, source.name) }, Chunk { text: takes, view: true, ..Chunk::default() }]
}

/// Whether a name has a word; `D1:3` and `2024-05` are codes, and would only blur the meaning of the text.
fn says_something(spoken: &str) -> bool {
    spoken.split_whitespace().any(|word| word.chars().filter(|c| c.is_alphabetic()).count() >= 2)
}

struct Parameter {
    name: String,
    description: String,
    values: String,
}

fn parameters(schema: &Value) -> Vec<Parameter> {
    let mut found = Vec::new();
    gather(schema, 0, &mut found);
    found
}

fn gather(schema: &Value, depth: usize, found: &mut Vec<Parameter>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let (Some(properties), true) = (properties, depth < MAX_DEPTH) {
        for (name, schema) in properties {
            if found.len() >= MAX_PARAMETERS {
                return;
            }
            let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
            let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
            let values: Vec<&str> = values.filter_map(Value::as_str).take(MAX_PARAMETERS).collect();
            found.push(Parameter {
                name: name.clone(),
                description: description.chars().take(CHUNK_CHARS).collect(),
                values: values.join(" "),
            });
            gather(schema, depth + 1, found);
        }
    }
    if let (Some(items), true) = (schema.get("items"), depth < MAX_DEPTH) {
        gather(items, depth + 1, found);
    }
}

/// The stretches between blank lines, without the white space around them.
fn paragraphs(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut open: Option<Range<usize>> = None;
    for (start, line) in lines(text) {
        if line.trim().is_empty() {
            found.extend(open.take());
        } else {
            let end = start + line.trim_end().len();
            let first = start + (line.len() - line.trim_start().len());
            open = Some(open.map_or(first, |open| open.start)..end);
        }
    }
    found.extend(open);
    found
}

/// Lines with the offset at which each begins.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line)
    })
}

/// Sentences: a stretch up to and with `.`, `!` or `?` before white space.
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut ended = false;
    for (at, c) in text.char_indices() {
        if ended && c.is_whitespace() {
            found.push(start..at);
            start = at;
        }
        ended = matches!(c, '.' | '!' | '?');
    }
    found.push(start..text.len());
    found.retain(|range| !text[range.clone()].trim().is_empty());
    found
}

/// Joins neighbouring stretches up to [`CHUNK_CHARS`] and cuts longer ones.
fn pack(text: &str, stretches: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut packed: Vec<Range<usize>> = Vec::new();
    let mut open: Option<(Range<usize>, usize)> = None;
    for stretch in stretches {
        let chars = text[stretch.clone()].chars().count();
        if let Some((range, length)) = &mut open
            && *length + chars < CHUNK_CHARS
        {
            range.end = stretch.end;
            *length += chars + 2;
            continue;
        }
        packed.extend(open.take().map(|(range, _)| range));
        if chars > CHUNK_CHARS { cut(text, stretch, &mut packed) } else { open = Some((stretch, chars)) }
    }
    packed.extend(open.map(|(range, _)| range));
    packed
}

/// Splits a long text: at the end of a line or sentence, or between words, or anywhere between two characters.
fn cut(text: &str, stretch: Range<usize>, into: &mut Vec<Range<usize>>) {
    let mut at = stretch.start;
    while at < stretch.end {
        let rest = &text[at..stretch.end];
        let room = rest.char_indices().nth(CHUNK_CHARS).map_or(rest.len(), |(end, _)| end);
        let mut end = room;
        if room < rest.len() {
            let window = &rest[..room];
            let sentence = sentences(window).last().map(|last| last.start).filter(|start| *start > 0);
            let line = window.rfind('\n');
            let word = window.rfind(char::is_whitespace).filter(|at| *at > 0);
            end = sentence.max(line).filter(|end| *end > room / 3).or(word).unwrap_or(room);
        }
        let piece = &rest[..end];
        let first = at + (piece.len() - piece.trim_start().len());
        let last = at + piece.trim_end().len();
        if first < last {
            into.push(first..last);
        }
        at += end;
    }
}

#[cfg(test)]
mod tests;

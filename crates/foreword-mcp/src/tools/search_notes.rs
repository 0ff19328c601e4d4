//! `search_notes`: the best passages for a question, each with its score and why it was found.

use foreword_engine::search::Kind;
use foreword_vault_tools::find::{self, Detail, MOST_SOURCES, NOTES, Query, SOURCE_BYTES, Select, Source, find};
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Definition, Effect, MOST_BYTES, nullable, one_line, read};
use crate::notes::Notes;

pub(super) const DEFINITION: Definition = Definition {
    name: "search_notes",
    title: "Search notes",
    description: "Search the user's notes by meaning and by keyword. Returns the best passages with their note, heading, line, score and the \
                  reason they were found. A time in the query (`last week`, `in March 2026`) limits the search to notes of that time. \
                  Read more of a note with read_note.",
    arguments,
    required: &["query"],
    answer,
    effect: Effect::Reads,
    run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    query: String,
    limit: Option<usize>,
    kinds: Option<Vec<ItemKind>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ItemKind {
    Note,
    Rule,
    Reference,
}

/// The largest query in bytes.
const MOST_QUERY: usize = 4 << 10;

fn arguments() -> Value {
    json!({
        "query": {"type": "string", "minLength": 1, "maxLength": MOST_QUERY, "description": "A question or keywords."},
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST_SOURCES, "description": "The largest number of results; 5 by default."},
        "kinds": {
            "type": "array", "items": {"enum": ["note", "rule", "reference"]}, "description": "What to search; notes by default.",
        },
    })
}

fn answer() -> Value {
    json!({
        "results": {"type": "array", "items": {
            "type": "object",
            "required": ["number", "title", "path", "heading", "line", "score", "reason", "text"],
            "properties": {
                "number": {"type": "integer"},
                "title": {"type": "string"},
                "path": {"type": "string", "description": "For read_note."},
                "heading": {"type": "string", "description": "For read_note; empty at the top of a note."},
                "line": nullable("integer", "The line at which the passage begins in the file."),
                "score": {"type": "number", "description": "From 0 to 1; below 0.2 is noise."},
                "reason": {"type": "string"},
                "text": {"type": "string"},
            },
        }},
        "remarks": {"type": "array", "items": {"type": "string"}, "description": "What the search did not cover."},
    })
}

fn run(notes: &Notes, arguments: JsonObject) -> Result<Answer, String> {
    let Arguments { query, limit, kinds } = read(arguments)?;
    if query.trim().is_empty() || query.len() > MOST_QUERY {
        return Err(format!("a query must have 1 to {MOST_QUERY} bytes"));
    }
    let kinds: Vec<Kind> = kinds.unwrap_or_default().into_iter().map(Kind::from).collect();
    let limit = limit.unwrap_or(NOTES.top_n).clamp(1, MOST_SOURCES);
    let corpus = notes.corpus()?;
    let model = notes.model();
    let found = find(
        &corpus,
        model,
        &Query {
            text: &query,
            period: None,
            today: Notes::now().date(),
            select: Select { top_n: limit, ..NOTES },
            kinds: if kinds.is_empty() { &[Kind::Note] } else { &kinds },
            source_bytes: SOURCE_BYTES.min(MOST_BYTES / limit),
        },
    );
    drop(corpus);
    let mut remarks = found.remarks;
    if model.is_none() {
        remarks.push("search by meaning is not ready yet; a later search may find more".to_owned());
    }
    let words = words(&query);
    let mut text = String::new();
    for remark in &remarks {
        text.extend(["(", remark, ")\n"]);
    }
    let shown = find::render(&mut text, &found.sources, Detail::All, MOST_BYTES).len();
    if found.sources.is_empty() {
        text.push_str("Nothing fits. Try other words, or list_notes.");
    }
    let results = found.sources.into_iter().take(shown).map(|source| {
        let reason = reason(&source, &words);
        let Source { number, title, path, heading, line, score, text, .. } = source;
        let score = rounded(score);
        json!({
            "number": number, "title": title, "path": path, "heading": heading, "line": line, "score": score, "reason": reason, "text": text,
        })
    });
    let structured = json!({"results": results.collect::<Vec<_>>(), "remarks": remarks});
    Ok(Answer { text, structured })
}

impl From<ItemKind> for Kind {
    fn from(kind: ItemKind) -> Self {
        match kind {
            ItemKind::Note => Self::Note,
            ItemKind::Rule => Self::Rule,
            ItemKind::Reference => Self::Reference,
        }
    }
}

fn rounded(score: f64) -> f64 {
    (score * 1000.0).round() / 1000.0
}

/// The words of a query that can be looked for in a passage.
fn words(query: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in query.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase) {
        if word.chars().count() > 2 && !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// Why a passage was found.
fn reason(source: &Source, words: &[String]) -> String {
    let text = [&source.title, &source.heading, &source.text].map(|text| text.to_lowercase()).join("\n");
    let has = words.iter().filter(|word| text.contains(*word)).map(|word| one_line(word)).collect::<Vec<_>>();
    let meaning = source.semantic.map(|similarity| format!("similar in meaning ({similarity:.2})"));
    let weight = source.keyword.map(|share| format!(" ({:.0} % of the query's weight)", share * 100.0)).unwrap_or_default();
    let words = (!has.is_empty()).then(|| format!("contains {}{weight}", has.join(", ")));
    let reasons: Vec<String> = [meaning, words].into_iter().flatten().collect();
    if reasons.is_empty() { "word forms of the query".to_owned() } else { reasons.join("; ") }
}

//! `context_for`: what Foreword would put into a prompt for a question, within a limit of tokens.

use foreword_engine::search::Kind;
use foreword_engine::session::Version;
use foreword_engine::tokens::{OpenAi, Tokenizer as _, Tokens};
use foreword_vault_tools::find::{self, Detail, MOST_SOURCES, NOTES, Query, SOURCE_BYTES, Select, find};
use foreword_vault_tools::one_note;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Definition, Effect, one_line, read};
use crate::notes::Notes;

pub(super) const DEFINITION: Definition = Definition {
    name: "context_for",
    title: "Context for a question",
    description: "Build the context that Foreword would attach for a question, ready to be put into a prompt: the notes that the question links \
                  to ([[Bread]]), then the best passages, within a limit of tokens. Each passage has a number to cite.",
    arguments,
    required: &["question"],
    answer,
    effect: Effect::Reads,
    run,
};

const USUAL_TOKENS: u64 = 2_000;
const MOST_TOKENS: u64 = 32_000;
const LEAST_TOKENS: u64 = 50;

/// The number of links of a question that are followed.
const MOST_LINKS: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    question: String,
    max_tokens: Option<u64>,
}

fn arguments() -> Value {
    json!({
        "question": {"type": "string", "minLength": 1, "description": "The question that the context is for."},
        "max_tokens": {
            "type": "integer", "minimum": LEAST_TOKENS, "maximum": MOST_TOKENS,
            "description": format!("The limit, in o200k tokens; {USUAL_TOKENS} by default."),
        },
    })
}

fn answer() -> Value {
    json!({
        "context": {"type": "string"},
        "tokens": {"type": "integer", "description": "Its size in o200k tokens."},
        "sources": {"type": "array", "items": {
            "type": "object",
            "required": ["path", "heading", "number"],
            "properties": {
                "path": {"type": "string"},
                "heading": {"type": "string"},
                "number": {"type": ["integer", "null"], "description": "The number to cite; null for a note that the question links to."},
            },
        }},
        "left_out": {"type": "array", "items": {"type": "string"}, "description": "What did not fit, and why."},
    })
}

fn run(notes: &Notes, arguments: JsonObject) -> Result<Answer, String> {
    let Arguments { question, max_tokens } = read(arguments)?;
    let limit = Tokens(max_tokens.unwrap_or(USUAL_TOKENS).clamp(LEAST_TOKENS, MOST_TOKENS));
    let corpus = notes.corpus()?;
    let (mut context, mut sources, mut left_out) = (String::new(), Vec::new(), Vec::new());
    for link in links(&question) {
        let found = match one_note(corpus.vault(), &link, None, &Notes::now()) {
            Ok(found) => found,
            Err(error) => {
                left_out.push(format!("{}: {error}", one_line(&link)));
                continue;
            }
        };
        let Some(version) = found.versions.first() else {
            left_out.push(format!("{}: there is no such note", one_line(&link)));
            continue;
        };
        let block = block(version);
        if fits(&context, &block, limit) {
            context.push_str(&block);
            sources.push(json!({"path": version.id.name(), "heading": "", "number": null}));
        } else {
            left_out.push(format!("{}: too long for the limit", one_line(version.id.name())));
        }
    }
    let found = find(
        &corpus,
        notes.model(),
        &Query {
            text: &question,
            period: None,
            today: Notes::now().date(),
            select: Select { top_n: MOST_SOURCES, ..NOTES },
            kinds: &[Kind::Note],
            source_bytes: SOURCE_BYTES,
        },
    );
    drop(corpus);
    for source in found.sources {
        let mut block = String::new();
        find::render(&mut block, std::slice::from_ref(&source), Detail::All, SOURCE_BYTES * 2);
        if fits(&context, &block, limit) {
            context.push_str(&block);
            sources.push(json!({"path": source.path, "heading": source.heading, "number": source.number}));
        } else {
            left_out.push(format!("{}: too long for what is left of the limit", one_line(&source.path)));
        }
    }
    let context = context.trim_end().to_owned();
    let tokens = OpenAi::O200K.count(&context).0;
    let text =
        if context.is_empty() { "Nothing in the notes fits the question within the limit.".to_owned() } else { context.clone() };
    Ok(Answer { text, structured: json!({"context": context, "tokens": tokens, "sources": sources, "left_out": left_out}) })
}

/// Whether a block still fits behind the context.
fn fits(context: &str, block: &str, limit: Tokens) -> bool {
    OpenAi::O200K.count(&format!("{context}{block}")) <= limit
}

/// A note as it is put into a prompt.
fn block(version: &Version) -> String {
    foreword_engine::attach::block(version) + "\n\n"
}

/// The `[[links]]` of a question.
fn links(question: &str) -> Vec<String> {
    let inner = question.split("[[").skip(1).filter_map(|after| after.split_once("]]")).map(|(link, _)| link);
    let links = inner.filter(|link| !link.trim().is_empty() && !link.contains('\n')).take(MOST_LINKS);
    links.map(|link| format!("[[{link}]]")).collect()
}

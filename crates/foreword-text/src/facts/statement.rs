//! Finds sentences with goals, decisions and open questions by a few key phrases.

use crate::summary_line::sentences;

use super::FactKind;

/// A sentence that must not be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What it states.
    pub kind: FactKind,
    /// On one line.
    pub text: String,
}

/// Longer sentences are cut here: they state more than one thing.
const MAX_CHARS: usize = 300;

/// The longest part of a text or line to search.
const MAX_TEXT: usize = 64 * 1024;
const MAX_LINE: usize = 2_000;

/// The largest number of statements in one text.
const MOST: usize = 32;

const GOALS: [&str; 6] = ["the goal is", "my goal", "our goal", "goal:", "the aim is", "objective:"];

const DECISIONS: [&str; 14] = [
    "decided",
    "decision:",
    "agreed to",
    "agreed that",
    "we agree",
    "let's use",
    "let us use",
    "let's go with",
    "we will use",
    "we'll use",
    "we chose",
    "settled on",
    "from now on",
    "going with",
];

const OPEN: [&str; 8] = ["open question", "still open", "todo:", "to do:", "tbd", "to be decided", "[ ]", "not decided"];

/// The sentences of a text that state a goal, a decision, or something open. Code says nothing.
pub fn statements(text: &str) -> Vec<Statement> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in start(text, MAX_TEXT).lines() {
        let line = start(line, MAX_LINE);
        let bare = line.trim_start();
        if bare.starts_with("```") || bare.starts_with("~~~") {
            fenced = !fenced;
        }
        if fenced || bare.is_empty() {
            continue;
        }
        for sentence in sentences(line) {
            let lower = sentence.to_lowercase();
            let says = |words: &[&str]| words.iter().any(|words| lower.contains(words));
            let kind = match () {
                () if says(&OPEN) => FactKind::Question,
                () if says(&GOALS) => FactKind::Goal,
                () if says(&DECISIONS) => FactKind::Decision,
                () => continue,
            };
            found.push(Statement { kind, text: one_line(sentence) });
            if found.len() == MOST {
                return found;
            }
        }
    }
    found
}

/// The question that a text ends with.
pub fn closing_question(text: &str) -> Option<String> {
    let line = text.trim_end().lines().next_back()?;
    let line = &line[line.floor_char_boundary(line.len().saturating_sub(MAX_LINE))..];
    let sentence = sentences(line).last()?.trim();
    sentence.ends_with(['?', '？']).then(|| one_line(sentence))
}

fn start(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

fn one_line(sentence: &str) -> String {
    let line = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

//! `localSearch`: what the vault says about a question.

use std::fmt::Write as _;

use foreword_core::catalog::Tool;
use foreword_core::item::Kind;
use foreword_core::select::Select;
use foreword_tools::{Builtin, Output};
use serde::Deserialize;
use serde_json::{Value, json};

use super::find::{Detail, Found, MOST_SOURCES, Query, SOURCE_BYTES, render};
use super::{Reach, VaultTools, brief, described, output, read, said, time_range};

/// About what a result takes beside its text.
const HEAD_BYTES: usize = 150;

/// A shorter text tells nothing; rather are there fewer results.
const LEAST_BYTES: usize = 300;

pub(super) struct LocalSearch {
    desk: VaultTools,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    query: String,
    time_range: Option<String>,
    limit: Option<usize>,
    kinds: Option<Vec<Searched>>,
}

/// What can be searched.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Searched {
    Note,
    Reference,
    Rule,
}

impl From<Searched> for Kind {
    fn from(searched: Searched) -> Self {
        match searched {
            Searched::Note => Self::Note,
            Searched::Reference => Self::Reference,
            Searched::Rule => Self::Rule,
        }
    }
}

impl LocalSearch {
    pub(super) fn new(desk: VaultTools) -> Self {
        Self { desk }
    }

    fn answer(&self, arguments: &Value) -> Result<Output, String> {
        let Arguments { query, time_range, limit, kinds } = read(arguments)?;
        let query = said(Some(&query)).ok_or("The query is empty. Say what to look for.")?;
        let today = self.desk.now().date();
        let period = match said(time_range.as_deref()) {
            Some(phrase) => Some(time_range::days(phrase, today).ok_or_else(|| time_range::unknown(phrase))?),
            None => None,
        };
        let mut kinds: Vec<Kind> = kinds.unwrap_or_default().into_iter().map(Kind::from).collect();
        if kinds.is_empty() {
            kinds.push(Kind::Note);
        }
        let usual = self.desk.select();
        let select = limit.map_or(usual, |limit| Select { top_n: limit, include_score: f64::INFINITY, ..usual });
        let page = self.desk.page();
        let source_bytes =
            (page / select.top_n.clamp(1, MOST_SOURCES)).saturating_sub(HEAD_BYTES).clamp(LEAST_BYTES, SOURCE_BYTES);
        let found = self.desk.find(&Query { text: query, period, today, select, kinds: &kinds, source_bytes });
        Ok(shown(query, &found, page))
    }
}

impl Builtin for LocalSearch {
    fn tool(&self) -> Tool {
        described(
            "localSearch",
            Reach::Reads,
            "Search the user's own notes on this machine, by words and by meaning. Use it whenever the answer may stand in them: what the user \
             wrote, decided, planned, did, read or owns, people and dates of their life, anything called \"my\" or \"our\". Do not use it for \
             general knowledge, nor for a note whose text is in front of you. Gives numbered results with title, path, heading, the part of \
             the text that fits best, and a similarity from 0 to 1 (from 0.5 on it is hardly an accident). readNote shows a whole note.",
            &json!({
                "query": {
                    "type": "string",
                    "description": "What to look for, in the language of the notes: a question, or the words that the note would use. One thing \
                                    at a time; search again for another. Times go into timeRange."
                },
                "timeRange": {
                    "type": "string",
                    "description": "Only notes of this time, by their date, their name or their last change: `last week`, `yesterday`, \
                                    `in March 2026`, `since Monday`, `2026-11-01 to 2026-11-07`. Only where the user names a time."
                },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": MOST_SOURCES,
                    "description": format!("How many results at most; {} where it is left out.", self.desk.select().top_n)
                },
                "kinds": {
                    "type": "array", "items": {"type": "string", "enum": ["note", "reference", "rule"]},
                    "description": "What to search: `note` (also canvases and PDFs) where it is left out; `reference` and `rule` are texts of \
                                    the vault's agents."
                }
            }),
            &["query"],
        )
    }

    fn run(&mut self, arguments: &Value) -> Output {
        self.answer(arguments).unwrap_or_else(|fault| output(Err(fault)))
    }
}

/// An answer for a model: the sources, what should be known about them, and how to go on.
fn shown(query: &str, found: &Found, page: usize) -> Output {
    let mut out = String::new();
    let query = brief(query);
    // Writing to a string cannot fail.
    let _ = match found.sources.len() {
        0 => writeln!(out, "Nothing in the vault fits \"{query}\"."),
        1 => writeln!(out, "One result for \"{query}\":"),
        count => writeln!(out, "{count} results for \"{query}\", the best first:"),
    };
    out.push('\n');
    let passages = render(&mut out, &found.sources, Detail::All, page);
    let left_out = found.sources.len() - passages.len();
    if left_out > 0 {
        let _ = writeln!(out, "({left_out} further results had no room; a narrower query or a timeRange brings others up.)\n");
    }
    for remark in &found.remarks {
        let _ = writeln!(out, "Note: {remark}.");
    }
    out.push_str(if found.sources.is_empty() {
        "Guidance: try other words, fewer of them, or no timeRange; getFileTree shows what there is. Where the notes do not say it, say so."
    } else {
        "Guidance: answer from these results as far as they say it, and name the note as [[path]]; where they do not, say so. A result shows a \
         part of its note: readNote with its path reads the whole, with its heading too that section. To narrow down, search with other words \
         or a timeRange."
    });
    Output { text: out, failed: false, found: passages }
}

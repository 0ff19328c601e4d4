//! Finds numbered sources for a question: the best passages of notes.
//!
//! Chunks are made for searching, not for reading: a source is the whole note if it is short, otherwise the largest section around
//! the chunk that fits, so that the surrounding sentences are included.

use std::fmt::Write as _;
use std::ops::Range;

use foreword_core::hash::Hash;
use foreword_core::item::{ItemId, Kind};
use foreword_core::passage::Passage;
use foreword_core::select;
pub use foreword_core::select::Select;
use foreword_search::Embedder;
use foreword_search::index::{self, Answer, Hit, KeywordOnly};
use foreword_search::period::{self, Period};
use foreword_text::fence::is_line_end;
use foreword_vault::index::Listed;
use jiff::civil::{Date, Weekday};

use super::time_range::span;
use super::{brief, one_line};
use crate::corpus::Corpus;

pub use super::time_range::Days;

/// The default selection of notes: a fixed number of the best, without irrelevant ones.
pub const NOTES: Select =
    Select { strategy: select::Strategy::Hybrid, top_k: 20, top_n: 5, include_score: f64::INFINITY, floor: Some(0.2) };

/// The largest number of sources.
pub const MOST_SOURCES: usize = 20;

/// The default size of a source.
pub const SOURCE_BYTES: usize = 1_600;

/// The number of sources to return even if none has a good score, because a paraphrase may score low.
const NEAREST: usize = 3;

/// A query.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The question.
    pub text: &'a str,
    /// Only notes of this time; by default a time named in the question.
    pub period: Option<Days>,
    /// The current date.
    pub today: Date,
    /// The selection; at most [`MOST_SOURCES`].
    pub select: Select,
    /// Only these kinds; all if empty.
    pub kinds: &'a [Kind],
    /// The largest size of one source in bytes, for example [`SOURCE_BYTES`].
    pub source_bytes: usize,
}

/// A passage of the vault that answers a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its number, from 1, the best first.
    pub number: usize,
    /// What it is called.
    pub title: String,
    /// Its path in the vault; for items without a file, their ID.
    pub path: String,
    /// The headings above it, joined by ` > `; empty at the top of a note.
    pub heading: String,
    /// The text.
    pub text: String,
    /// The line of the note at which the matching passage begins, from 1; `None` if the note changed since it was indexed.
    pub line: Option<usize>,
    /// The relevance, from 0 to 1.
    pub score: f64,
    /// The embedding similarity, if the passage is embedded.
    pub semantic: Option<f64>,
    /// The share of the question's words in the passage, weighted by rarity.
    pub keyword: Option<f64>,
    /// The meaning of the score.
    pub measure: Measure,
    /// Its item.
    pub item: ItemId,
}

/// The meaning of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Embedding similarity and keywords.
    Similarity,
    /// Keywords only.
    KeywordMatch,
}

impl Measure {
    /// The name in prompts and for display.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Similarity => "similarity",
            Self::KeywordMatch => "keyword match",
        }
    }
}

/// The strategy of the search index.
pub fn strategy(strategy: select::Strategy) -> index::Strategy {
    match strategy {
        select::Strategy::Semantic => index::Strategy::Semantic,
        select::Strategy::Hybrid => index::Strategy::Hybrid,
        select::Strategy::Keyword => index::Strategy::Keyword,
    }
}

/// The search results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The sources, the best first.
    pub sources: Vec<Source>,
    /// Remarks about the search.
    pub remarks: Vec<String>,
    /// Why only keywords were searched, if so.
    pub words_only: Option<String>,
}

/// Finds sources in `corpus`, by meaning too if there is a `model`.
///
/// If nothing matches the requested time, any time is searched, with a remark.
pub fn find(corpus: &Corpus, model: Option<&dyn Embedder>, query: &Query<'_>) -> Found {
    let named = if query.period.is_none() { period::find(query.text, query.today, Weekday::Monday) } else { None };
    let period = query.period.or_else(|| named.as_ref().map(|named| (named.first, named.last)));
    let without_time = named.map_or_else(|| query.text.to_owned(), |named| without(query.text, &named));
    let select = query.select;
    let limit = select.top_n.clamp(1, MOST_SOURCES);
    let asked = index::Query {
        embedder: model,
        strategy: strategy(select.strategy),
        kinds: query.kinds,
        top_n: limit,
        top_k: select.top_k.max(4 * limit),
        include_score: select.include_score,
        floor: Some(0.0),
        ..index::Query::new(query.text)
    };
    let floor = select.floor.unwrap_or(0.0);

    let mut remarks = Vec::new();
    let mut answer = corpus.index().search(&index::Query { text: &without_time, period, ..asked });
    match period {
        // Who asks for a time may say little else: all of that time is an answer.
        Some(days) if !answer.hits.is_empty() => remarks.push(format!("only what is dated {}", span(days))),
        Some(days) => {
            remarks.push(format!("nothing that fits is dated {}; this is from any time", span(days)));
            answer = corpus.index().search(&asked);
            remarks.extend(without_noise(&mut answer, floor));
        }
        None => remarks.extend(without_noise(&mut answer, floor)),
    }
    answer.hits.truncate(MOST_SOURCES);
    remarks.extend(how_far(&answer));
    let measure = if answer.keyword_only.is_some() { Measure::KeywordMatch } else { Measure::Similarity };
    // Who wants it so need not be told.
    let words_only = answer.keyword_only.as_ref().filter(|why| **why != KeywordOnly::Asked).map(ToString::to_string);
    let sources = (1..).zip(&answer.hits);
    let sources = sources.map(|(number, hit)| source(corpus, query.source_bytes, number, hit, measure)).collect();
    Found { sources, remarks, words_only }
}

/// Removes irrelevant results, or keeps only the nearest ones with a remark.
fn without_noise(answer: &mut Answer, floor: f64) -> Option<String> {
    let good = answer.hits.iter().take_while(|hit| hit.score >= floor).count();
    let none = good == 0 && !answer.hits.is_empty();
    answer.hits.truncate(if none { NEAREST } else { good });
    none.then(|| "nothing fits well; this comes nearest and may be beside the question".to_owned())
}

/// A remark if some chunks are not embedded.
fn how_far(answer: &Answer) -> Option<String> {
    let Answer { chunks, embedded, keyword_only, .. } = answer;
    match keyword_only {
        Some(KeywordOnly::Asked) => None,
        Some(why) => Some(why.to_string()),
        None if embedded < chunks => {
            Some(format!("{} of {chunks} parts of the vault are found by their words only so far", chunks - embedded))
        }
        None => None,
    }
}

/// The question without the words that name a time, unless no words would be left.
fn without(text: &str, named: &Period) -> String {
    let before = text.get(..named.words.start).unwrap_or_default().trim_end();
    let after = text.get(named.words.end..).unwrap_or_default().trim_start();
    let rest = format!("{before} {after}").trim().to_owned();
    if rest.is_empty() { text.to_owned() } else { rest }
}

fn source(corpus: &Corpus, most: usize, number: usize, hit: &Hit, measure: Measure) -> Source {
    let is_file = hit.id.kind() == Kind::Note;
    let path = if is_file { hit.id.name().to_owned() } else { hit.id.to_string() };
    let listed = if is_file { corpus.vault().get(&path) } else { None };
    // The chunk stands under its title and the headings.
    let title = listed.map(|listed| listed.given_title().unwrap_or(&listed.title).to_owned());
    let title = title.unwrap_or_else(|| hit.id.name().rsplit('/').next().unwrap_or_default().to_owned());
    let heading = hit.chunk.context.strip_prefix(&title).and_then(|rest| rest.strip_prefix(" > ")).unwrap_or_default().to_owned();
    let around = listed.and_then(|listed| around(corpus, most, listed, &hit.chunk.range));
    let (text, line) = match around {
        Some((text, line)) => (text, Some(line)),
        None => (cut(&hit.chunk.text, most).to_owned(), None),
    };
    let Hit { id, score, semantic, keyword, .. } = hit.clone();
    Source { number, title, path, heading, text, line, score, semantic, keyword, measure, item: id }
}

/// The text around a chunk and the line of the chunk, if the note has not changed since it was indexed.
fn around(corpus: &Corpus, most: usize, listed: &Listed, chunk: &Range<usize>) -> Option<(String, usize)> {
    let text = corpus.vault().read(&listed.facts.path).ok()?.text;
    if Hash::of(&text) != listed.hash {
        return None;
    }
    let body = listed.note.frontmatter.range.end..text.len();
    let sections = listed.note.headings.iter().map(|heading| heading.section.clone());
    let holds = |part: &Range<usize>| part.start <= chunk.start && chunk.end <= part.end;
    let fits = |part: &Range<usize>| part.len() <= most && holds(part);
    // Properties are facts too, where there is room for all of the note.
    let whole = [0..text.len(), body].into_iter().chain(sections).filter(fits).max_by_key(ExactSizeIterator::len);
    let shown = match whole {
        Some(part) => text.get(part)?,
        None => cut(text.get(chunk.start..)?, most),
    };
    let line = text.get(..chunk.start)?.matches('\n').count() + 1;
    Some((shown.trim().to_owned(), line))
}

/// The start of a text, cut at the end of a line if possible.
fn cut(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let start = &text[..text.floor_char_boundary(most)];
    start.rfind('\n').filter(|end| *end > most / 2).map_or(start, |end| &start[..end])
}

/// How a source is presented to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// With title, path, heading and similarity.
    All,
    /// With its name only: a small model is distracted by more, and continues quote marks.
    Name,
}

/// Appends sources for a model, at most `most` bytes, and returns the range of each. With all details, each line is quoted, so that
/// a note cannot end its own source or begin another.
pub fn render(out: &mut String, sources: &[Source], detail: Detail, most: usize) -> Vec<Passage> {
    let begin = out.len();
    let mut found = Vec::new();
    for source in sources {
        let block = block(source, detail);
        if out.len() - begin + block.len() > most && !found.is_empty() {
            break;
        }
        let start = out.len();
        out.push_str(&block);
        let Source { number, title, heading, score, item, .. } = source.clone();
        found.push(Passage { item, number, title, heading, score, start, end: out.len(), stands: false });
    }
    found
}

fn block(source: &Source, detail: Detail) -> String {
    let Source { number, title, path, heading, text, score, measure, .. } = source;
    if detail == Detail::Name {
        return format!("{}\n{}\n\n", brief(title), text.replace("\r\n", "\n"));
    }
    let mut out = format!("[{number}] {}\npath: {}\n", brief(title), one_line(path));
    if !heading.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "heading: {}", brief(heading));
    }
    let _ = writeln!(out, "{}: {score:.2}", measure.as_str());
    push_quote(&mut out, text);
    out
}

fn push_quote(out: &mut String, text: &str) {
    for line in text.replace("\r\n", "\n").split(is_line_end) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "> {line}");
    }
    out.push('\n');
}

//! Finds the source messages of each sentence in a summary by shared words.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::MessageId;
use foreword_text::summary_line::sentences;

/// A message, or a part of an earlier summary, that a summary was made from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The message.
    pub id: MessageId,
    /// What it says.
    pub text: &'a str,
}

/// A summary whose every sentence names its sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cited {
    /// The summary.
    pub text: String,
    /// Removed sentences that share no word with any source.
    pub unfounded: Vec<String>,
}

/// The largest number of sources per sentence.
const MOST_NAMED: usize = 3;

/// Sources need at least this share of the best score.
const NEAR: f64 = 0.6;

/// The longest part of a source to compare, in bytes.
const MAX_SOURCE: usize = 16 * 1024;

/// Puts behind each sentence the ids of the messages it came from. Ids that the text has already stay if they are a source's.
pub fn cite(summary: &str, sources: &[Source<'_>]) -> Cited {
    let index = Words::of(sources);
    let mut cited = Cited::default();
    let mut lines = Vec::new();
    for line in summary.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let bare = line.trim();
        // A heading is no sentence.
        if bare.is_empty() || bare.starts_with('#') || (bare.ends_with(':') && sentences(bare).count() == 1) {
            lines.push(line.trim_end().to_owned());
            continue;
        }
        let mut out = Vec::new();
        for (words, named) in with_ids(bare) {
            let named: Vec<MessageId> = named.into_iter().filter(|id| index.ids.contains(id)).collect();
            let ids = if named.is_empty() { index.best(&words) } else { named };
            if ids.is_empty() {
                cited.unfounded.push(words);
            } else {
                let ids: Vec<String> = ids.iter().take(MOST_NAMED).map(ToString::to_string).collect();
                out.push(format!("{words} [{}]", ids.join(", ")));
            }
        }
        if !out.is_empty() {
            lines.push(format!("{indent}{}", out.join(" ")));
        }
    }
    lines.join("\n").trim().clone_into(&mut cited.text);
    cited
}

/// The sentences of a line without the `[m3, m7]` in and behind them, and these.
fn with_ids(line: &str) -> Vec<(String, Vec<MessageId>)> {
    let mut found: Vec<(String, Vec<MessageId>)> = Vec::new();
    for sentence in sentences(line) {
        let mut words = String::new();
        let mut ids = Vec::new();
        let mut rest = sentence;
        while let Some((before, behind)) = rest.split_once('[') {
            words.push_str(before);
            let inside = behind.split_once(']').and_then(|(inside, after)| {
                let ids: Result<Vec<MessageId>, _> = inside.split(',').map(|id| id.trim().parse()).collect();
                Some((ids.ok()?, after))
            });
            rest = if let Some((named, after)) = inside {
                words.truncate(words.trim_end().len());
                match found.last_mut() {
                    // What stands in front of a sentence belongs to the one before it.
                    Some((_, before)) if words.is_empty() => before.extend(named),
                    _ => ids.extend(named),
                }
                after
            } else {
                words.push('[');
                behind
            };
        }
        words.push_str(rest);
        let words = words.trim();
        if words.contains(char::is_alphanumeric) {
            found.push((words.to_owned(), ids));
        }
    }
    found
}

/// Which sources have which words.
struct Words {
    ids: BTreeSet<MessageId>,
    order: Vec<MessageId>,
    by_word: BTreeMap<String, Vec<u32>>,
}

impl Words {
    fn of(sources: &[Source<'_>]) -> Self {
        let mut by_word: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (at, source) in (0..u32::MAX).zip(sources) {
            let text = &source.text[..source.text.floor_char_boundary(MAX_SOURCE)];
            for word in content_words(text) {
                by_word.entry(word).or_default().push(at);
            }
        }
        let order: Vec<MessageId> = sources.iter().map(|source| source.id).collect();
        Self { ids: order.iter().copied().collect(), order, by_word }
    }

    /// The sources that share the most, rare words counting more; in the order of the conversation.
    fn best(&self, sentence: &str) -> Vec<MessageId> {
        let mut scores: BTreeMap<u32, f64> = BTreeMap::new();
        for word in content_words(sentence) {
            let Some(sources) = self.by_word.get(&word) else { continue };
            let weight = (1.0 + self.order.len() as f64 / sources.len() as f64).ln();
            for at in sources {
                *scores.entry(*at).or_default() += weight;
            }
        }
        let best = scores.values().copied().fold(0.0, f64::max);
        let mut near: Vec<(u32, f64)> = scores.into_iter().filter(|(_, score)| *score >= best * NEAR).collect();
        near.sort_by(|(a, score_a), (b, score_b)| score_b.total_cmp(score_a).then(a.cmp(b)));
        let ids = near.into_iter().take(MOST_NAMED).filter_map(|(at, _)| self.order.get(at as usize).copied());
        ids.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Words that say something, in lower case, each once. Short ones say little, unless they have a digit.
fn content_words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let telling = |word: &&str| word.chars().count() > 3 || word.contains(|c: char| c.is_numeric()) || !word.is_ascii();
    words.filter(telling).map(str::to_lowercase).filter(|word| !COMMON.contains(&word.as_str())).collect()
}

const COMMON: [&str; 40] = [
    "about",
    "after",
    "again",
    "also",
    "answer",
    "asked",
    "assistant",
    "been",
    "before",
    "being",
    "could",
    "does",
    "each",
    "from",
    "have",
    "into",
    "just",
    "like",
    "more",
    "only",
    "other",
    "said",
    "should",
    "some",
    "such",
    "than",
    "that",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "this",
    "user",
    "were",
    "what",
    "which",
    "will",
    "with",
];

//! One search: probes, scores per document, the choice, and an account of what was left out.

use foreword_core::item::{ItemId, Kind};
use foreword_core::select::{self, Reason, Select, select};
use jiff::civil::Date;

use super::{Entry, Index};
use crate::chunk::{Chunk, sentences};
use crate::fuse::{Probe, calibrate, combine};
use crate::{EmbedError, Embedder, Vector};

/// More sentences than this are searched as one text only: each costs a pass over all vectors.
const MAX_SENTENCES: usize = 8;
/// What is behind this many bytes of a query is not looked at.
const MAX_QUERY_BYTES: usize = 16 * 1024;
/// How much of its neighbours' score an item in a series gets.
const NEIGHBOUR_SHARE: f32 = 0.15;
/// How many documents are looked at closely; the others are counted.
const MAX_CANDIDATES: usize = 200;

/// How to search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// By meaning alone, as the seed has it.
    Semantic,
    /// By meaning and by words.
    #[default]
    Hybrid,
    /// By words alone.
    Keyword,
}

/// What is asked.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// The words.
    pub text: &'a str,
    /// What makes vectors; without it the search is by words.
    pub embedder: Option<&'a dyn Embedder>,
    /// How.
    pub strategy: Strategy,
    /// How many items are wanted.
    pub top_n: usize,
    /// How many matches are looked at; at least `top_n`.
    pub top_k: usize,
    /// Items with at least this score come in even beyond `top_n`.
    pub include_score: f64,
    /// Items below this score stay out; the strategy's own where it is left out.
    pub floor: Option<f64>,
    /// Only these kinds; all where it is empty.
    pub kinds: &'a [Kind],
    /// Only documents dated from the first to the last of these days.
    pub period: Option<(Date, Date)>,
}

impl<'a> Query<'a> {
    /// A query with the usual settings.
    pub fn new(text: &'a str) -> Self {
        let Select { top_k, top_n, include_score, .. } = Select::default();
        Self {
            text,
            embedder: None,
            strategy: Strategy::Hybrid,
            top_n,
            top_k,
            include_score,
            floor: None,
            kinds: &[],
            period: None,
        }
    }

    fn wants(&self, id: &ItemId, entry: &Entry) -> bool {
        let kind = self.kinds.is_empty() || self.kinds.contains(&id.kind());
        kind && self.period.is_none_or(|(first, last)| entry.date.is_some_and(|date| first <= date && date <= last))
    }
}

/// An item that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Which.
    pub id: ItemId,
    /// How well it fits, from 0 to 1.
    pub score: f64,
    /// The cosine of its best chunk, where that has a vector.
    pub semantic: Option<f64>,
    /// The share of the query's words found in its best chunk, rare words counting more.
    pub keyword: Option<f64>,
    /// The chunk that fits best.
    pub chunk: Chunk,
}

/// An item that was not chosen.
pub type LeftOut = (ItemId, Reason, f64);

/// Why vectors took no part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeywordOnly {
    /// Keywords were asked for.
    #[error("the search was asked to go by words alone")]
    Asked,
    /// There is no model.
    #[error("no embedding model is at hand, so the search went by words alone")]
    NoModel,
    /// There are no vectors yet.
    #[error("nothing is embedded yet, so the search went by words alone")]
    NothingEmbedded,
    /// The model failed.
    #[error("embedding the query failed ({0}), so the search went by words alone")]
    Failed(EmbedError),
}

/// What a search gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The chosen items, best first.
    pub hits: Vec<Hit>,
    /// The best of the others, with the reason.
    pub left_out: Vec<LeftOut>,
    /// How many others there are.
    pub left_out_count: usize,
    /// How many chunks there are.
    pub chunks: usize,
    /// How many of them have a vector.
    pub embedded: usize,
    /// Set where vectors took no part.
    pub keyword_only: Option<KeywordOnly>,
}

/// A document's scores.
struct Candidate<'a> {
    id: &'a ItemId,
    rows: &'a [u32],
    best_row: u32,
    score: f32,
}

impl Index {
    /// Searches what is ready.
    pub fn search(&self, query: &Query<'_>) -> Answer {
        let text = &query.text[..query.text.floor_char_boundary(MAX_QUERY_BYTES)];
        let texts = probe_texts(text, query.strategy);
        let (vectors, keyword_only) = match self.embed(query, &texts) {
            Ok(vectors) => (Some(vectors), None),
            Err(reason) => (None, Some(reason)),
        };
        let by_words = query.strategy != Strategy::Semantic || vectors.is_none();
        let wanted: Vec<(&ItemId, &Entry)> = self.documents.iter().filter(|(id, entry)| query.wants(id, entry)).collect();
        let rows: Vec<u32> = wanted.iter().flat_map(|(_, entry)| entry.rows.iter().copied()).collect();
        let mut ideal = 0.0;
        let mut probes = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            let semantic = vectors.as_ref().and_then(|vectors| vectors.get(at)).map(|vector| self.cosines(vector));
            let mut keyword = Vec::new();
            if by_words {
                let scores = self.keyword.scores(text);
                keyword = scores.rows;
                if at == 0 {
                    ideal = scores.ideal;
                }
            }
            probes.push(Probe::new(semantic, keyword, &rows));
        }

        let mut candidates: Vec<Candidate<'_>> = wanted.iter().filter_map(|(id, entry)| candidate(&probes, id, entry)).collect();
        let total = wanted.len();
        let evidence = evidence(&probes, &candidates, ideal);
        let by_score = |a: &Candidate<'_>, b: &Candidate<'_>| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(b.id));
        let most = MAX_CANDIDATES.max(query.top_k).max(query.top_n.saturating_mul(4));
        if candidates.len() > most {
            candidates.select_nth_unstable_by(most, by_score);
            candidates.truncate(most);
        }
        if query.strategy == Strategy::Hybrid {
            self.share_with_neighbours(&probes, query, &mut candidates);
        }
        candidates.sort_by(by_score);
        let best = candidates.first().map_or(0.0, |candidate| candidate.score);
        let score = |fused: f32| if by_words { calibrate(fused, best, evidence) } else { f64::from(fused) };
        let scored: Vec<(ItemId, Vec<f64>)> = candidates
            .iter()
            .map(|candidate| {
                let scores = match query.strategy {
                    Strategy::Semantic if !by_words => {
                        candidate.rows.iter().map(|row| f64::from(combine(&probes, *row as usize))).collect()
                    }
                    _ => vec![score(candidate.score)],
                };
                (candidate.id.clone(), scores)
            })
            .collect();
        let selection = select(&settings(query, by_words), &scored);
        let hits = selection.chosen.iter().filter_map(|(id, score)| {
            let candidate = candidates.iter().find(|candidate| candidate.id == id)?;
            self.hit(candidate, *score, &probes, ideal)
        });
        let hits: Vec<Hit> = hits.collect();
        let (chunks, embedded) = self.chunks();
        Answer { left_out_count: total - hits.len(), hits, left_out: selection.left_out, chunks, embedded, keyword_only }
    }

    fn embed(&self, query: &Query<'_>, texts: &[&str]) -> Result<Vec<Vector>, KeywordOnly> {
        if query.strategy == Strategy::Keyword {
            return Err(KeywordOnly::Asked);
        }
        let embedder = query.embedder.ok_or(KeywordOnly::NoModel)?;
        if self.chunks().1 == 0 {
            return Err(KeywordOnly::NothingEmbedded);
        }
        embedder.embed(texts).map_err(KeywordOnly::Failed)
    }

    /// The cosine of every row, 0 where there is no vector yet.
    fn cosines(&self, vector: &Vector) -> Vec<f32> {
        let scores = self.vectors.scores(vector);
        let score = |row: &super::Row| row.vector.and_then(|at| scores.get(at as usize)).copied();
        self.rows.iter().map(|row| row.as_ref().and_then(score).unwrap_or_default()).collect()
    }

    fn share_with_neighbours(&self, probes: &[Probe], query: &Query<'_>, candidates: &mut [Candidate<'_>]) {
        for candidate in candidates {
            let entries = self.series.neighbours(candidate.id).filter_map(|id| self.documents.get_key_value(id));
            let entries = entries.filter(|(id, entry)| query.wants(id, entry));
            let scores = entries.filter_map(|(id, entry)| super::search::candidate(probes, id, entry)).map(|found| found.score);
            candidate.score += NEIGHBOUR_SHARE * scores.sum::<f32>();
        }
    }

    fn hit(&self, candidate: &Candidate<'_>, score: f64, probes: &[Probe], ideal: f32) -> Option<Hit> {
        let row = self.row(candidate.best_row)?;
        let at = candidate.best_row as usize;
        let whole = probes.first()?;
        let semantic = whole.semantic.as_ref().filter(|_| row.vector.is_some()).and_then(|scores| scores.get(at));
        let keyword = whole.keyword.get(at).map(|keyword| f64::from(share(*keyword, ideal)));
        Some(Hit {
            id: candidate.id.clone(),
            score,
            semantic: semantic.map(|score| f64::from(*score)),
            keyword,
            chunk: row.chunk.clone(),
        })
    }
}

/// The whole query, and its sentences where there are a few.
fn probe_texts(text: &str, strategy: Strategy) -> Vec<&str> {
    let mut texts = vec![text];
    if strategy == Strategy::Hybrid {
        let parts: Vec<&str> =
            text.lines().flat_map(|line| sentences(line).into_iter().map(|range| line[range].trim())).collect();
        if (2..=MAX_SENTENCES).contains(&parts.len()) {
            texts.extend(parts);
        }
    }
    texts
}

fn candidate<'a>(probes: &[Probe], id: &'a ItemId, entry: &'a Entry) -> Option<Candidate<'a>> {
    let scores = entry.rows.iter().map(|row| (*row, combine(probes, *row as usize)));
    let (best_row, score) = scores.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    Some(Candidate { id, rows: &entry.rows, best_row, score })
}

/// How good the best answer can be said to be, by the whole query.
fn evidence(probes: &[Probe], candidates: &[Candidate<'_>], ideal: f32) -> f32 {
    let Some(whole) = probes.first() else { return 0.0 };
    let rows = candidates.iter().map(|candidate| candidate.best_row as usize);
    let cosines = whole.semantic.as_ref().map(|scores| rows.filter_map(|row| scores.get(row)).copied().fold(0.0, f32::max));
    cosines.unwrap_or_default().max(share(whole.best_keyword(), ideal))
}

fn share(keyword: f32, ideal: f32) -> f32 {
    if ideal > 0.0 { (keyword / ideal).min(1.0) } else { 0.0 }
}

fn settings(query: &Query<'_>, by_words: bool) -> Select {
    let strategy = match query.strategy {
        Strategy::Semantic if !by_words => select::Strategy::Semantic,
        _ => select::Strategy::Hybrid,
    };
    Select {
        strategy,
        top_k: query.top_k.max(query.top_n),
        top_n: query.top_n,
        include_score: query.include_score,
        floor: query.floor,
    }
}

//! A search: probes, scores per document, the selection, and what was left out.

use std::collections::{BTreeMap, BTreeSet};

use foreword_core::item::{ItemId, Kind};
use foreword_core::select::{self, Reason, Select, select};
use jiff::civil::Date;

use super::{Entry, Index};
use crate::chunk::{Chunk, sentences};
use crate::fuse::{Best, Evidence, combine, confidence};
use crate::keyword::KeywordScores;
use crate::{EmbedError, Embedder, Vector};

/// Queries with more sentences than this are searched only as one text, because each sentence needs an embedding.
const MAX_SENTENCES: usize = 8;
/// The largest part of a query that is used, in bytes.
const MAX_QUERY_BYTES: usize = 16 * 1024;
/// The number of chunks to consider for their embeddings, and as many for their keywords. They are found with the whole query;
/// single sentences only affect their order.
const MIN_PROMISING: usize = 256;
/// The share of its neighbours' score that an item in a series gets.
const NEIGHBOUR_SHARE: f32 = 0.15;
/// The largest number of rejected documents to list.
const MAX_CANDIDATES: usize = 200;
/// The largest score for a query without meaningful words, which is below the noise level.
const MAX_IDLE_SCORE: f64 = 0.15;

/// A search strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Embeddings only.
    Semantic,
    /// Embeddings and keywords.
    #[default]
    Hybrid,
    /// Keywords only.
    Keyword,
}

/// A search query.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// The text.
    pub text: &'a str,
    /// The embedding model; without it, only keywords are searched.
    pub embedder: Option<&'a dyn Embedder>,
    /// The strategy.
    pub strategy: Strategy,
    /// The number of items to select.
    pub top_n: usize,
    /// The number of matches to consider; at least `top_n`.
    pub top_k: usize,
    /// Items with at least this score are selected even beyond `top_n`.
    pub include_score: f64,
    /// Items below this score are never selected. Default: the strategy's floor.
    pub floor: Option<f64>,
    /// Only items of these kinds; all if empty.
    pub kinds: &'a [Kind],
    /// Only documents with a date in this range.
    pub period: Option<(Date, Date)>,
}

impl<'a> Query<'a> {
    /// A query with default settings.
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

    fn wanted(&self) -> Filter<'a> {
        Filter { kinds: self.kinds, period: self.period }
    }
}

/// Which documents a query is about.
#[derive(Clone, Copy)]
struct Filter<'a> {
    kinds: &'a [Kind],
    period: Option<(Date, Date)>,
}

impl Filter<'_> {
    fn all(&self) -> bool {
        self.kinds.is_empty() && self.period.is_none()
    }

    fn has(&self, id: &ItemId, entry: &Entry) -> bool {
        let kind = self.kinds.is_empty() || self.kinds.contains(&id.kind());
        kind && self.period.is_none_or(|(first, last)| entry.date.is_some_and(|date| first <= date && date <= last))
    }
}

/// A selected item.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The item's ID.
    pub id: ItemId,
    /// Its relevance, from 0 to 1.
    pub score: f64,
    /// The cosine similarity of its best chunk, if it is embedded.
    pub semantic: Option<f64>,
    /// The share of the query's words in its best chunk, weighted by rarity.
    pub keyword: Option<f64>,
    /// The best chunk.
    pub chunk: Chunk,
}

/// An item that was not selected.
pub type LeftOut = (ItemId, Reason, f64);

/// Why only keywords were searched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeywordOnly {
    /// Keyword search was requested.
    #[error("the search was asked to go by words alone")]
    Asked,
    /// There is no embedding model.
    #[error("no embedding model is at hand, so the search went by words alone")]
    NoModel,
    /// There are no embeddings yet.
    #[error("nothing is embedded yet, so the search went by words alone")]
    NothingEmbedded,
    /// The embedding model failed.
    #[error("embedding the query failed ({0}), so the search went by words alone")]
    Failed(EmbedError),
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The selected items, the best first.
    pub hits: Vec<Hit>,
    /// The best of the others, with the reason.
    pub left_out: Vec<LeftOut>,
    /// The number of the others.
    pub left_out_count: usize,
    /// The number of chunks.
    pub chunks: usize,
    /// The number of embedded chunks.
    pub embedded: usize,
    /// Why only keywords were searched, if so.
    pub keyword_only: Option<KeywordOnly>,
}

/// The whole query, or one sentence of it.
struct Probe {
    vector: Option<Vector>,
    keyword: KeywordScores,
}

/// A chunk that may be an answer.
struct Promising<'a> {
    id: &'a ItemId,
    row: u32,
    /// What speaks for it, probe by probe.
    evidence: Vec<Evidence>,
}

/// A document's scores.
struct Candidate<'a> {
    id: &'a ItemId,
    /// Those of its promising chunks.
    scores: Vec<f32>,
    /// The best of these chunks.
    best: &'a Promising<'a>,
    score: f32,
}

impl Index {
    /// Searches the index.
    pub fn search(&self, query: &Query<'_>) -> Answer {
        self.answer(query).0
    }

    /// Scores of all items, for callers that select themselves: per chunk for `semantic`, otherwise per item.
    pub fn scores(&self, query: &Query<'_>) -> Vec<(ItemId, Vec<f64>)> {
        self.answer(query).1
    }

    /// The result and the scores used for the selection.
    fn answer(&self, query: &Query<'_>) -> (Answer, Vec<(ItemId, Vec<f64>)>) {
        let text = &query.text[..query.text.floor_char_boundary(MAX_QUERY_BYTES)];
        let texts = probe_texts(text, query.strategy);
        let (vectors, keyword_only) = match self.embed(query, &texts) {
            Ok(vectors) => (vectors, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let by_meaning_alone = query.strategy == Strategy::Semantic && keyword_only.is_none();
        let words = |text: &str| if by_meaning_alone { KeywordScores::default() } else { self.keyword.scores(text) };
        let probe = |(at, text): (usize, &&str)| Probe { vector: vectors.get(at).copied(), keyword: words(text) };
        let probes: Vec<Probe> = texts.iter().enumerate().map(probe).collect();
        let most = MAX_CANDIDATES.max(query.top_k).max(query.top_n.saturating_mul(4));
        let wanted = query.wanted();
        let ideal = probes.first().map_or(0.0, |whole| whole.keyword.ideal);
        let says_nothing = probes.first().is_some_and(|whole| whole.keyword.says_nothing);
        let promising = self.promising(&probes, wanted, most.max(MIN_PROMISING));
        let mut candidates = candidates(&promising, probes.len());
        if query.strategy == Strategy::Hybrid {
            self.share_with_neighbours(&mut candidates);
        }
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(b.id)));
        candidates.truncate(most);
        let scored: Vec<(ItemId, Vec<f64>)> = if by_meaning_alone {
            let scores = |candidate: &Candidate<'_>| candidate.scores.iter().map(|score| f64::from(*score)).collect();
            candidates.iter().map(|candidate| (candidate.id.clone(), scores(candidate))).collect()
        } else {
            calibrated(&candidates, ideal, if says_nothing { MAX_IDLE_SCORE } else { 1.0 })
        };
        let selection = select(&settings(query, by_meaning_alone), &scored);
        let hits = selection.chosen.iter().filter_map(|(id, score)| {
            let candidate = candidates.iter().find(|candidate| candidate.id == id)?;
            self.hit(candidate.best, *score, (!by_meaning_alone).then_some(ideal))
        });
        let hits: Vec<Hit> = hits.collect();
        let count = || self.documents.iter().filter(|(id, entry)| wanted.has(id, entry)).count();
        let total = if wanted.all() { self.documents.len() } else { count() };
        let (chunks, embedded) = self.chunks();
        let mut left_out = selection.left_out;
        let looked_at: BTreeSet<&ItemId> = scored.iter().map(|(id, _)| id).collect();
        let rest = self.documents.iter().filter(|(id, entry)| wanted.has(id, entry) && !looked_at.contains(id));
        // Nothing of the query is in these: not one of its words, and by meaning others are nearer.
        left_out.extend(rest.take(most.saturating_sub(left_out.len())).map(|(id, _)| (id.clone(), Reason::BelowFloor, 0.0)));
        (Answer { left_out_count: total - hits.len(), hits, left_out, chunks, embedded, keyword_only }, scored)
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

    /// The wanted chunks among the best `most` by meaning or by words, in the order of their documents' ids.
    fn promising(&self, probes: &[Probe], wanted: Filter<'_>, most: usize) -> Vec<Promising<'_>> {
        let Some(whole) = probes.first() else { return Vec::new() };
        let wants = |row: u32| {
            wanted.all() || {
                let document = self.row(row).and_then(|row| self.documents.get_key_value(&row.owner));
                document.is_some_and(|(id, entry)| wanted.has(id, entry))
            }
        };
        let row_of = |vector: u32| self.row_by_vector.get(vector as usize).copied().unwrap_or(u32::MAX);
        let by_meaning = whole.vector.map(|vector| self.vectors.top(&vector, most, &|vector| wants(row_of(vector))));
        let scores = (0..).zip(&whole.keyword.rows).filter(|(row, score)| **score > 0.0 && wants(*row));
        let mut by_words: Vec<(u32, f32)> = scores.map(|(row, score)| (row, *score)).collect();
        if by_words.len() > most {
            by_words.select_nth_unstable_by(most, |a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            by_words.truncate(most);
        }
        let rows =
            by_meaning.into_iter().flatten().map(|(vector, _)| row_of(vector)).chain(by_words.into_iter().map(|(row, _)| row));
        let found: BTreeSet<(&ItemId, u32)> = rows
            .filter_map(|at| {
                let row = self.row(at)?;
                Some((&row.owner, if row.chunk.view { row.pair? } else { at }))
            })
            .collect();
        let evidence = |row: u32| probes.iter().map(|probe| self.evidence(probe, row)).collect();
        found.into_iter().map(|(id, row)| Promising { id, row, evidence: evidence(row) }).collect()
    }

    /// The cosine is that of both views, where there are two.
    fn evidence(&self, probe: &Probe, row: u32) -> Evidence {
        let cosine = |row: u32| {
            let vector = self.row(row)?.vector?;
            Some(self.vectors.score(vector, probe.vector.as_ref()?))
        };
        let view = self.row(row).and_then(|row| row.pair).and_then(cosine);
        let semantic = match (cosine(row), view) {
            (Some(one), Some(other)) => Some(f32::midpoint(one, other)),
            (one, other) => one.or(other),
        };
        Evidence { semantic, keyword: probe.keyword.rows.get(row as usize).copied().unwrap_or_default() }
    }

    /// An answer is often spread over items that follow each other, so a promising neighbour speaks for an item.
    fn share_with_neighbours(&self, candidates: &mut [Candidate<'_>]) {
        let scores: BTreeMap<&ItemId, f32> = candidates.iter().map(|candidate| (candidate.id, candidate.score)).collect();
        for candidate in candidates {
            let neighbours = self.series.neighbours(candidate.id).filter_map(|id| scores.get(id));
            candidate.score += NEIGHBOUR_SHARE * neighbours.sum::<f32>();
        }
    }

    fn hit(&self, found: &Promising<'_>, score: f64, ideal: Option<f32>) -> Option<Hit> {
        let Evidence { semantic, keyword } = found.evidence.first()?;
        Some(Hit {
            id: found.id.clone(),
            score,
            semantic: semantic.map(f64::from),
            keyword: ideal.map(|ideal| f64::from(share(*keyword, ideal))),
            chunk: self.row(found.row)?.chunk.clone(),
        })
    }
}

/// The documents of the promising chunks, in the same order; each is as good as its best chunk.
fn candidates<'a>(promising: &'a [Promising<'a>], probes: usize) -> Vec<Candidate<'a>> {
    let bests: Vec<Best> =
        (0..probes).map(|probe| Best::of(promising.iter().filter_map(|chunk| chunk.evidence.get(probe).copied()))).collect();
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for chunk in promising {
        let score = combine(&bests, &chunk.evidence);
        match candidates.last_mut().filter(|last| last.id == chunk.id) {
            Some(last) => {
                last.scores.push(score);
                if score > last.score {
                    (last.score, last.best) = (score, chunk);
                }
            }
            None => candidates.push(Candidate { id: chunk.id, scores: vec![score], best: chunk, score }),
        }
    }
    candidates
}

/// Scores that mean the same for every query: the best candidate's is our confidence in it, the others stand in proportion. None is above
/// `most`.
fn calibrated(candidates: &[Candidate<'_>], ideal: f32, most: f64) -> Vec<(ItemId, Vec<f64>)> {
    let Some((best, evidence)) = candidates.first().and_then(|best| Some((best, best.best.evidence.first()?))) else {
        return Vec::new();
    };
    let confidence = confidence(evidence.semantic, share(evidence.keyword, ideal)) * most;
    let score = |fused: f32| if best.score > 0.0 { f64::from(fused) / f64::from(best.score) * confidence } else { 0.0 };
    candidates.iter().map(|candidate| (candidate.id.clone(), vec![score(candidate.score)])).collect()
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

fn share(keyword: f32, ideal: f32) -> f32 {
    if ideal > 0.0 { (keyword / ideal).min(1.0) } else { 0.0 }
}

fn settings(query: &Query<'_>, by_meaning_alone: bool) -> Select {
    Select {
        strategy: if by_meaning_alone { select::Strategy::Semantic } else { select::Strategy::Hybrid },
        top_k: query.top_k.max(query.top_n),
        top_n: query.top_n,
        include_score: query.include_score,
        floor: query.floor,
    }
}

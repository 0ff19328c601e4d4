//! Selects `agent`-mode items for a request by their search scores.

use serde::{Deserialize, Serialize};

use crate::item::ItemId;
use crate::tokens::Tokens;

/// The selection strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The best `top_k` chunks, then the best chunk per item.
    Semantic,
    /// The best chunk per item, then the best `top_k` items; none below the floor.
    #[default]
    Hybrid,
    /// The same, where scores come from words alone.
    Keyword,
}

/// The minimum room for each further item.
const ITEM_TOKENS: u64 = 256;
/// The minimum room for each further match.
const MATCH_TOKENS: u64 = 64;

/// Selection settings.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Select {
    /// The strategy.
    pub strategy: Strategy,
    /// The number of matches to consider.
    pub top_k: usize,
    /// The number of items to select.
    pub top_n: usize,
    /// Items with at least this score are selected even beyond `top_n`.
    pub include_score: f64,
    /// Items below this score are never selected. `None` uses the strategy's floor.
    pub floor: Option<f64>,
}

impl Default for Select {
    fn default() -> Self {
        Self { strategy: Strategy::Hybrid, top_k: 20, top_n: 5, include_score: 0.7, floor: None }
    }
}

impl Select {
    /// The embedding model scores unrelated texts up to about 0.15, and related ones 0.3 or more.
    const HYBRID_FLOOR: f64 = 0.2;

    /// Limits the selection to the available room: at most one item per 256 tokens and one match per 64, because more would be cut
    /// or left out again.
    #[must_use]
    pub fn within(self, room: Tokens) -> Self {
        let most = |tokens: u64| usize::try_from(room.0 / tokens).unwrap_or(usize::MAX).max(1);
        let top_n = self.top_n.min(most(ITEM_TOKENS));
        Self { top_n, top_k: self.top_k.min(most(MATCH_TOKENS)).max(top_n.min(self.top_k)), ..self }
    }

    fn floor(&self) -> f64 {
        self.floor.unwrap_or(match self.strategy {
            Strategy::Semantic => 0.0,
            Strategy::Hybrid | Strategy::Keyword => Self::HYBRID_FLOOR,
        })
    }
}

/// Why a candidate is not in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Its score is zero or below the floor.
    BelowFloor,
    /// Other matches filled `top_k`.
    OutsideTopK,
    /// Better items filled `top_n`.
    OutsideTopN,
    /// The budget had no room.
    OverBudget,
    /// It was added during a turn and will be included in the next one.
    NextTurn,
    /// A fold that the user asked for removed it, because no recent turn used it.
    Unused,
    /// The user removed it.
    Removed,
    /// Its images are omitted because it is not the active note.
    ImageNotActive,
    /// The model does not support images.
    ImagesNotTaken,
}

/// The selected and rejected items.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Selected items with their scores, the best first.
    pub chosen: Vec<(ItemId, f64)>,
    /// Rejected items, in the order of the candidates.
    pub left_out: Vec<(ItemId, Reason, f64)>,
}

/// Selects from `candidates`, each with the scores of its chunks (no chunks: score 0). Ties go to the earlier candidate.
pub fn select(settings: &Select, candidates: &[(ItemId, Vec<f64>)]) -> Selection {
    let passes = |score: f64| score > 0.0 && score >= settings.floor();
    let best = |scores: &[f64]| scores.iter().copied().reduce(f64::max).unwrap_or(0.0);

    let mut matches: Vec<(usize, f64)> = match settings.strategy {
        Strategy::Semantic => {
            let chunks = candidates.iter().enumerate().flat_map(|(at, (_, scores))| scores.iter().map(move |score| (at, *score)));
            chunks.filter(|(_, score)| passes(*score)).collect()
        }
        Strategy::Hybrid | Strategy::Keyword => {
            let items = candidates.iter().enumerate().map(|(at, (_, scores))| (at, best(scores)));
            items.filter(|(_, score)| passes(*score)).collect()
        }
    };
    matches.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    matches.truncate(settings.top_k);

    let mut ranked: Vec<(usize, f64)> = Vec::new();
    for (at, score) in matches {
        if !ranked.iter().any(|(seen, _)| *seen == at) {
            ranked.push((at, score));
        }
    }
    let looked_at = ranked.clone();
    let mut rank = 0;
    ranked.retain(|(_, score)| {
        rank += 1;
        *score >= settings.include_score || rank <= settings.top_n
    });

    let chosen = ranked.iter().map(|(at, score)| (candidates[*at].0.clone(), *score)).collect();
    let left_out = candidates.iter().enumerate().filter(|(at, _)| !ranked.iter().any(|(kept, _)| kept == at));
    let left_out = left_out.map(|(at, (id, scores))| {
        let score = best(scores);
        let reason = if !passes(score) {
            Reason::BelowFloor
        } else if looked_at.iter().any(|(seen, _)| *seen == at) {
            Reason::OutsideTopN
        } else {
            Reason::OutsideTopK
        };
        (id.clone(), reason, score)
    });
    Selection { left_out: left_out.collect(), chosen }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: Select, scores: &[(&str, &[f64])], chosen: &[&str], left_out: &[(&str, Reason)]) {
        let id = |name: &str| format!("rule:{name}").parse::<ItemId>().unwrap();
        let candidates: Vec<_> = scores.iter().map(|(name, scores)| (id(name), scores.to_vec())).collect();
        let selection = select(&settings, &candidates);
        let names: Vec<_> = selection.chosen.iter().map(|(id, _)| id.name().to_owned()).collect();
        assert_eq!(names, chosen);
        let out: Vec<_> = selection.left_out.iter().map(|(id, reason, _)| (id.name().to_owned(), *reason)).collect();
        let expected: Vec<_> = left_out.iter().map(|(name, reason)| ((*name).to_owned(), *reason)).collect();
        assert_eq!(out, expected);
    }

    fn semantic() -> Select {
        Select { strategy: Strategy::Semantic, ..Select::default() }
    }

    #[test]
    fn best_per_item_then_filled_to_top_n() {
        check(
            Select { top_n: 2, ..semantic() },
            &[("a", &[0.1, 0.5]), ("b", &[0.4]), ("c", &[0.3]), ("d", &[])],
            &["a", "b"],
            &[("c", Reason::OutsideTopN), ("d", Reason::BelowFloor)],
        );
    }

    #[test]
    fn high_scores_exceed_top_n() {
        check(
            Select { top_n: 1, ..semantic() },
            &[("a", &[0.7]), ("b", &[0.9]), ("c", &[0.69])],
            &["b", "a"],
            &[("c", Reason::OutsideTopN)],
        );
    }

    #[test]
    fn semantic_lets_one_item_take_all_chunks_and_hybrid_does_not() {
        let scores: &[(&str, &[f64])] = &[("long", &[0.6, 0.59, 0.58]), ("short", &[0.57])];
        check(Select { top_k: 3, ..semantic() }, scores, &["long"], &[("short", Reason::OutsideTopK)]);
        check(Select { top_k: 3, ..Select::default() }, scores, &["long", "short"], &[]);
    }

    #[test]
    fn hybrid_has_a_floor() {
        let scores: &[(&str, &[f64])] = &[("a", &[0.3]), ("b", &[0.14])];
        check(Select::default(), scores, &["a"], &[("b", Reason::BelowFloor)]);
        check(semantic(), scores, &["a", "b"], &[]);
        check(Select { floor: Some(0.31), ..semantic() }, scores, &[], &[("a", Reason::BelowFloor), ("b", Reason::BelowFloor)]);
    }

    #[test]
    fn less_room_takes_fewer_items() {
        let check = |room: u64, expect: (usize, usize)| {
            let select = Select::default().within(Tokens(room));
            assert_eq!((select.top_k, select.top_n), expect, "{room}");
        };
        check(100_000, (20, 5));
        check(1_280, (20, 5));
        check(1_279, (19, 4));
        check(600, (9, 2));
        check(100, (1, 1));
        check(0, (1, 1));
        let none = Select { top_k: 0, top_n: 0, ..Select::default() }.within(Tokens(5000));
        assert_eq!((none.top_k, none.top_n), (0, 0));
    }

    #[test]
    fn ties_go_to_the_earlier_candidate() {
        check(Select { top_n: 1, ..semantic() }, &[("a", &[0.5]), ("b", &[0.5])], &["a"], &[("b", Reason::OutsideTopN)]);
    }
}

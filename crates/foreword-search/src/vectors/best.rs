//! The k best of many.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Keeps the `k` best rows it is offered: higher scores first, equal ones by row. Scores are numbers.
#[derive(Clone)]
pub(super) struct Best {
    k: usize,
    /// The worst on top.
    heap: BinaryHeap<Reverse<Ranked>>,
}

#[derive(Clone, Copy, PartialEq)]
struct Ranked {
    score: f32,
    row: u32,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.row.cmp(&self.row))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Ranked {}

impl Best {
    pub(super) fn new(k: usize) -> Self {
        Self { k, heap: BinaryHeap::new() }
    }

    /// The score that none of the k best is below: minus infinity until there are k.
    pub(super) fn floor(&self) -> f32 {
        if self.heap.len() < self.k { f32::NEG_INFINITY } else { self.heap.peek().map_or(f32::INFINITY, |worst| worst.0.score) }
    }

    pub(super) fn offer(&mut self, row: u32, score: f32) {
        self.insert(Ranked { score, row });
    }

    pub(super) fn merge(&mut self, other: Self) {
        other.heap.into_iter().for_each(|Reverse(ranked)| self.insert(ranked));
    }

    /// Best first.
    pub(super) fn into_sorted(self) -> Vec<(u32, f32)> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(ranked)| (ranked.row, ranked.score)).collect()
    }

    fn insert(&mut self, ranked: Ranked) {
        if self.heap.len() < self.k {
            self.heap.push(Reverse(ranked));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && ranked > worst.0
        {
            *worst = Reverse(ranked);
        }
    }
}

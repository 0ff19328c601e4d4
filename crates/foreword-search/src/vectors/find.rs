//! The two ways to the same rows: all of them in full, or the coded ones first.

use super::best::Best;
use super::code::{Code, CodedQuery};
use super::kernel::{self, Row};
use super::{Found, Keep, PIECE, Vectors, number, threads};
use crate::Vector;

/// Rows scored together: as many coded ones as fit the first cache, so that several queries read memory once.
const TILE: usize = 64;
/// When more than one row in this many would be read in full, out of order, the plain scan is quicker.
const PLAIN_FROM: usize = 8;

impl Vectors {
    pub(super) fn find_plain(&self, queries: &[Vector], k: usize, keep: Keep) -> Vec<Found> {
        let start = || vec![Best::new(k); queries.len()];
        let parts = threads::share(0..self.pieces(), self.threads_for(size_of::<Row>()), start, |bests, piece| {
            let (block, range) = self.piece(piece);
            let mut scores = [0.0; TILE];
            for (tile, rows) in block.rows[range].chunks(TILE).enumerate() {
                let first = piece * PIECE + tile * TILE;
                for (query, best) in queries.iter().zip(bests.iter_mut()) {
                    kernel::dots(rows, query, &mut scores);
                    for (row, score) in (first..first + rows.len()).map(number).zip(scores) {
                        if score >= best.floor() && keep(row) {
                            best.offer(row, score);
                        }
                    }
                }
            }
        });
        let mut bests = start();
        for part in parts {
            bests.iter_mut().zip(part).for_each(|(best, part)| best.merge(part));
        }
        bests.into_iter().map(|best| Found { rows: best.into_sorted(), read: self.rows() }).collect()
    }

    pub(super) fn find_coded(&self, queries: &[Vector], k: usize, keep: Keep) -> Vec<Found> {
        let coded: Vec<_> = queries.iter().map(CodedQuery::of).collect();
        let start = || vec![Shortlist::new(k); queries.len()];
        let parts = threads::share(0..self.pieces(), self.threads_for(size_of::<Code>()), start, |lists, piece| {
            let (block, range) = self.piece(piece);
            let tiles = block.codes[range.clone()].chunks(TILE).zip(block.fits[range].chunks(TILE));
            let mut products = [0; TILE];
            for (tile, (codes, fits)) in tiles.enumerate() {
                let first = piece * PIECE + tile * TILE;
                for (query, list) in coded.iter().zip(lists.iter_mut()) {
                    kernel::coded_dots(codes, &query.code, &mut products);
                    for ((row, product), fit) in (first..).map(number).zip(products).zip(fits) {
                        let bounds = query.bounds(product, fit);
                        if bounds.high >= list.lows.floor() && keep(row) {
                            list.lows.offer(row, bounds.low);
                            list.rows.push((row, bounds.high));
                        }
                    }
                }
            }
        });
        let mut lists = start();
        for part in parts {
            lists.iter_mut().zip(part).for_each(|(list, part)| list.merge(part));
        }
        queries.iter().zip(lists).map(|(query, list)| self.settle(query, k, list, keep)).collect()
    }

    /// Reads in full the rows that can be among the best, the most promising first.
    fn settle(&self, query: &Vector, k: usize, list: Shortlist, keep: Keep) -> Found {
        let floor = list.lows.floor();
        let mut rows = list.rows;
        rows.retain(|(_, high)| *high >= floor);
        if rows.len() > k.max(self.rows() / PLAIN_FROM) {
            return self.find_plain(&[*query], k, keep).pop().unwrap_or_default();
        }
        rows.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let (mut best, mut read) = (Best::new(k), 0);
        for (row, high) in rows {
            if high < best.floor() {
                break;
            }
            best.offer(row, self.full_score(row, query));
            read += 1;
        }
        Found { rows: best.into_sorted(), read }
    }
}

/// The rows whose upper bound reached the k-th best lower bound known by then.
#[derive(Clone)]
struct Shortlist {
    lows: Best,
    rows: Vec<(u32, f32)>,
}

impl Shortlist {
    fn new(k: usize) -> Self {
        Self { lows: Best::new(k), rows: Vec::new() }
    }

    fn merge(&mut self, other: Self) {
        self.lows.merge(other.lows);
        self.rows.extend(other.rows);
    }
}

//! Semantic search: vectors in memory, with exact nearest neighbours.
//!
//! Scores are dot products, which are cosine similarities for vectors of length 1. A search first reads an 8-bit copy of the
//! vectors, a quarter of the memory, which gives each row a lower and an upper bound of its score. Only rows whose upper bound
//! reaches the k-th best lower bound are read in full (`code.rs` has the proof). The result is bit for bit that of a full scan, at
//! about the cost of reading the copy. Scores do not depend on the CPU or the number of threads.

mod best;
mod code;
mod find;
mod kernel;
mod threads;

use std::fmt;
use std::ops::Range;
use std::slice;

use self::code::{Code, Fit};
use self::kernel::Row;
use crate::Vector;

/// Rows of one allocation: growing never copies more than this, and small sets take no more than they need.
const BLOCK: usize = 16_384;
/// Rows that a thread takes at a time; a divisor of `BLOCK`, so that they are neighbours in memory.
const PIECE: usize = 1024;
/// Below this many bytes to read, starting a thread costs more than it saves.
const BYTES_PER_THREAD: usize = 2 << 20;

/// Which rows a search may return. It is asked by several threads, only about rows that could be among the best, and maybe twice.
pub type Keep<'a> = &'a (dyn Fn(u32) -> bool + Sync);

/// How a search reads the rows; the results are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Every row in full.
    Plain,
    /// The coded copy, then in full the rows that can be among the best.
    Coded,
}

/// What one query found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Rows and scores, best first, equal scores by row.
    pub rows: Vec<(u32, f32)>,
    /// How many rows were read in full.
    pub read: usize,
}

/// Vectors by row number, searched exactly.
#[derive(Clone)]
pub struct Vectors {
    blocks: Vec<Block>,
    /// For each row, whether it holds a vector.
    live: Vec<bool>,
    /// Rows without one, to be used again; the last goes first.
    free: Vec<u32>,
    threads: usize,
}

#[derive(Clone, Default)]
struct Block {
    rows: Vec<Row>,
    codes: Vec<Code>,
    fits: Vec<Fit>,
}

impl fmt::Debug for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vectors").field("len", &self.len()).field("rows", &self.rows()).finish_non_exhaustive()
    }
}

impl Default for Vectors {
    fn default() -> Self {
        Self::new()
    }
}

impl Vectors {
    /// No vectors yet.
    pub fn new() -> Self {
        Self { blocks: Vec::new(), live: Vec::new(), free: Vec::new(), threads: threads::available() }
    }

    /// How many vectors there are.
    pub fn len(&self) -> usize {
        self.live.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One more than the highest row number ever given.
    pub fn rows(&self) -> usize {
        self.live.len()
    }

    /// Adds a vector and says in which row: a removed one, where there is one.
    pub fn push(&mut self, vector: &Vector) -> u32 {
        if let Some(row) = self.free.pop() {
            self.live[row as usize] = true;
            self.write(row as usize, vector);
            return row;
        }
        let row = self.live.len();
        if row.is_multiple_of(BLOCK) {
            // The first block grows as it fills; whoever needs a second one is likely to fill it.
            let room = if row == 0 { 0 } else { BLOCK };
            let (rows, codes, fits) = (Vec::with_capacity(room), Vec::with_capacity(room), Vec::with_capacity(room));
            self.blocks.push(Block { rows, codes, fits });
        }
        if let Some(block) = self.blocks.last_mut() {
            let (code, fit) = code::encode(vector);
            block.rows.push(Row(*vector));
            block.codes.push(code);
            block.fits.push(fit);
        }
        self.live.push(true);
        number(row)
    }

    /// Puts another vector into a row; `false` if the row has none.
    pub fn replace(&mut self, row: u32, vector: &Vector) -> bool {
        let live = self.holds(row);
        if live {
            self.write(row as usize, vector);
        }
        live
    }

    /// Takes a row's vector away; `false` if it has none.
    pub fn remove(&mut self, row: u32) -> bool {
        let live = self.holds(row);
        if live {
            self.live[row as usize] = false;
            self.free.push(row);
        }
        live
    }

    /// The score of one row; minus infinity for a row without a vector, and where a vector is not a number.
    pub fn score(&self, row: u32, query: &Vector) -> f32 {
        if self.holds(row) { self.full_score(row, query) } else { f32::NEG_INFINITY }
    }

    /// The scores of all rows, by row number.
    pub fn scores(&self, query: &Vector) -> Vec<f32> {
        let mut scores = vec![f32::NEG_INFINITY; self.live.len()];
        let pieces = scores.chunks_mut(PIECE).enumerate();
        threads::share(
            pieces,
            self.threads_for(size_of::<Row>()),
            || (),
            |(), (piece, scores)| {
                let (block, range) = self.piece(piece);
                kernel::dots(&block.rows[range], query, scores);
                for (score, live) in scores.iter_mut().zip(&self.live[piece * PIECE..]) {
                    if !live {
                        *score = f32::NEG_INFINITY;
                    }
                }
            },
        );
        scores
    }

    /// The `k` best rows among those that `keep` lets through: best first, equal scores by row.
    pub fn top(&self, query: &Vector, k: usize, keep: Keep) -> Vec<(u32, f32)> {
        self.top_many(slice::from_ref(query), k, keep).pop().unwrap_or_default()
    }

    /// [`top`](Self::top) for several queries; the rows come from memory once for all of them.
    pub fn top_many(&self, queries: &[Vector], k: usize, keep: Keep) -> Vec<Vec<(u32, f32)>> {
        self.find(queries, k, Scan::Coded, keep).into_iter().map(|found| found.rows).collect()
    }

    /// [`top_many`](Self::top_many), read in a chosen way, with what it took.
    pub fn find(&self, queries: &[Vector], k: usize, scan: Scan, keep: Keep) -> Vec<Found> {
        let k = k.min(self.len());
        if k == 0 {
            return vec![Found::default(); queries.len()];
        }
        let keep = |row: u32| self.holds(row) && keep(row);
        match scan {
            Scan::Plain => self.find_plain(queries, k, &keep),
            Scan::Coded => self.find_coded(queries, k, &keep),
        }
    }

    fn holds(&self, row: u32) -> bool {
        self.live.get(row as usize).is_some_and(|live| *live)
    }

    fn full_score(&self, row: u32, query: &Vector) -> f32 {
        let row = row as usize;
        kernel::dot(&self.blocks[row / BLOCK].rows[row % BLOCK], query)
    }

    fn write(&mut self, row: usize, vector: &Vector) {
        let (block, at) = (&mut self.blocks[row / BLOCK], row % BLOCK);
        block.rows[at] = Row(*vector);
        (block.codes[at], block.fits[at]) = code::encode(vector);
    }

    fn pieces(&self) -> usize {
        self.live.len().div_ceil(PIECE)
    }

    /// The block of a piece, and the part of the block that the piece is.
    fn piece(&self, piece: usize) -> (&Block, Range<usize>) {
        let (block, start) = (&self.blocks[piece * PIECE / BLOCK], piece * PIECE % BLOCK);
        (block, start..block.rows.len().min(start + PIECE))
    }

    fn threads_for(&self, row_bytes: usize) -> usize {
        (self.live.len() * row_bytes / BYTES_PER_THREAD).clamp(1, self.threads)
    }
}

/// Rows are numbered in 32 bits; 2^32 of them would be 6 TB.
#[allow(clippy::cast_possible_truncation)]
fn number(row: usize) -> u32 {
    row as u32
}

#[cfg(test)]
mod tests;

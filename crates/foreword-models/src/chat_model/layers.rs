//! From tokens to how likely each next one is: the layers, over one or many tokens at once, on one or many threads.
//!
//! Each thread keeps the state of all tokens and makes its share of the columns of each product; what others need is handed over in
//! [`Shared`]. Every number is made by the same steps whatever the shares and whatever tokens are evaluated together, so the result is the same to
//! the bit.

use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pulp::Arch;

use super::cache::{CHUNK, Cache, Head};
use super::packed::{Left, Packed, PackedProduct};
use super::shape::Shape;
use super::weights::{Layer, Weights};
use crate::compute::aligned::Rows;
use crate::compute::matmul::{Into, Product};
use crate::compute::pointwise::{GatedSilu, RmsNorm, Softmax};
use crate::compute::team::{Meeting, on_threads};

/// Tokens that a head looks from at once: their scores stay in a core's own cache.
const TILE: usize = 12;

/// What a model computes with.
#[derive(Clone, Copy)]
pub(super) struct Machine<'a> {
    /// Its sizes.
    pub(super) shape: &'a Shape,
    /// Its weights.
    pub(super) weights: &'a Weights,
    /// The instructions that there are.
    pub(super) arch: Arch,
    /// The threads that may be used.
    pub(super) threads: usize,
}

/// What is wanted of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Only that the tokens are remembered.
    Memory,
    /// Also how likely each token is to come next.
    Next,
}

impl Machine<'_> {
    /// Evaluates `tokens` that stand from position `at` on, where all before them are in `cache`. What is wanted of the last one is given back: a
    /// score for each word of the vocabulary, or nothing.
    pub(super) fn evaluate(&self, cache: &mut Cache, tokens: &[u32], at: usize, want: Want) -> Vec<f32> {
        cache.reserve(at + tokens.len());
        let shape = self.shape;
        // More would have nothing to do.
        let threads = self.threads.min(self.weights.layers.first().map_or(1, |layer| layer.down.panels())).max(1);
        let rows = |count: usize, width: usize| (0..count).map(|_| RwLock::new(Rows::zeros(tokens.len(), width))).collect();
        let part = |packed: fn(&Layer) -> &Packed| {
            let layer = self.weights.layers.first().map(packed);
            let width = |thread| layer.map_or(0, |packed| share(packed.panels(), thread, threads).len() * packed.panel());
            (0..threads).map(|thread| RwLock::new(Rows::zeros(tokens.len(), width(thread)))).collect()
        };
        let shared = Shared {
            meeting: Meeting::new(threads),
            queries: rows(shape.heads, shape.head),
            heads: rows(shape.heads, shape.head),
            inner: part(|layer| &layer.up),
            out: part(|layer| &layer.down),
        };
        let turns = turns(shape, at, tokens.len());
        let work = |thread: usize| {
            let _guard = shared.meeting.guard();
            let member = Member {
                machine: self,
                cache: &*cache,
                shared: &shared,
                thread,
                threads,
                at,
                count: tokens.len(),
                turns: &turns,
                state: Rows::zeros(tokens.len(), shape.width),
                left: Left::zeros(tokens.len(), shape.width),
                inner: Left::zeros(tokens.len(), shape.inner),
                scores: Rows::zeros(0, 0),
            };
            member.run(tokens, want)
        };
        let mut scores = on_threads(threads, work).concat();
        scores.truncate(if want == Want::Next { shape.words } else { 0 });
        scores
    }
}

/// The sine and cosine of each angle by which a head's numbers are turned, token by token.
fn turns(shape: &Shape, at: usize, count: usize) -> Vec<(f32, f32)> {
    let pairs = shape.head / 2;
    let speed: Vec<f64> = (0..pairs).map(|pair| shape.angles.powf(-(pair as f64) / pairs as f64)).collect();
    let turn = |at: usize, speed: &f64| {
        let (sine, cosine) = (at as f64 * speed).sin_cos();
        #[expect(clippy::cast_possible_truncation, reason = "rounded to what is computed with")]
        (sine as f32, cosine as f32)
    };
    (at..at + count).flat_map(|at| speed.iter().map(move |speed| turn(at, speed))).collect()
}

/// The share of thread `thread` of `threads` in `total` things.
fn share(total: usize, thread: usize, threads: usize) -> Range<usize> {
    total * thread / threads..total * (thread + 1) / threads
}

/// What threads hand each other. Each part is written by one thread; the others read it after a meeting.
struct Shared {
    meeting: Meeting,
    /// What each head asks.
    queries: Vec<RwLock<Rows>>,
    /// What each head found.
    heads: Vec<RwLock<Rows>>,
    /// Each thread's part of the inner layer.
    inner: Vec<RwLock<Rows>>,
    /// Each thread's columns of what is added to the state.
    out: Vec<RwLock<Rows>>,
}

fn read(lock: &RwLock<Rows>) -> RwLockReadGuard<'_, Rows> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(lock: &RwLock<Rows>) -> RwLockWriteGuard<'_, Rows> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// One thread of an evaluation.
struct Member<'a> {
    machine: &'a Machine<'a>,
    cache: &'a Cache,
    shared: &'a Shared,
    thread: usize,
    threads: usize,
    at: usize,
    count: usize,
    turns: &'a [(f32, f32)],
    state: Rows,
    left: Left,
    inner: Left,
    scores: Rows,
}

impl Member<'_> {
    fn run(mut self, tokens: &[u32], want: Want) -> Vec<f32> {
        let weights = self.machine.weights;
        for (row, token) in tokens.iter().enumerate() {
            weights.tokens.row(*token as usize, self.state.row_mut(row));
        }
        for (layer, heads) in weights.layers.iter().zip(self.cache.layers()) {
            self.normalise(&layer.attention_norm, 0..self.count);
            self.project(layer, heads);
            self.shared.meeting.meet();
            self.attend(heads);
            self.shared.meeting.meet();
            gather(self.machine.arch, &self.shared.heads, &mut self.left, self.count);
            self.give(&layer.attention, &self.left);
            self.shared.meeting.meet();
            self.take();
            self.normalise(&layer.inner_norm, 0..self.count);
            self.think(layer);
            self.shared.meeting.meet();
            gather(self.machine.arch, &self.shared.inner, &mut self.inner, self.count);
            self.give(&layer.down, &self.inner);
            self.shared.meeting.meet();
            self.take();
        }
        if want == Want::Memory {
            return Vec::new();
        }
        let last = self.count.saturating_sub(1);
        self.normalise(&weights.norm, last..self.count);
        let panels = self.share(&weights.tokens);
        let mut out = Rows::zeros(1, panels.len() * weights.tokens.panel());
        self.multiply(&self.left, last..self.count, &weights.tokens, panels, &mut out);
        out.row(0).to_vec()
    }

    /// The panels of `packed` that are this thread's.
    fn share(&self, packed: &Packed) -> Range<usize> {
        share(packed.panels(), self.thread, self.threads)
    }

    fn multiply(&self, left: &Left, span: Range<usize>, right: &Packed, panels: Range<usize>, out: &mut Rows) {
        self.machine.arch.dispatch(PackedProduct { left, span, right, panels, out });
    }

    /// The state, normalised, becomes the left side.
    fn normalise(&mut self, weight: &[f32], span: Range<usize>) {
        let (arch, epsilon) = (self.machine.arch, self.machine.shape.epsilon);
        for row in span {
            arch.dispatch(RmsNorm { row: self.state.row(row), weight, epsilon, out: self.left.rows.row_mut(row) });
            self.left.sum_up(arch, row);
        }
    }

    /// Queries, keys and values of this thread's heads.
    fn project(&mut self, layer: &Layer, cache: &[Head]) {
        let &Shape { heads, key_heads, head, .. } = self.machine.shape;
        let mut out = Rows::zeros(self.count, head);
        for unit in share(heads + 2 * key_heads, self.thread, self.threads) {
            let (packed, index) = match unit {
                query if query < heads => (&layer.query, query),
                key if key < heads + key_heads => (&layer.key, key - heads),
                value => (&layer.value, value - heads - key_heads),
            };
            let panels = head / packed.panel();
            self.multiply(&self.left, 0..self.count, packed, index * panels..(index + 1) * panels, &mut out);
            if unit < heads {
                let scale = (head as f32).sqrt().recip();
                self.turn(&mut out, scale);
                let mut query = write(&self.shared.queries[index]);
                (0..self.count).for_each(|row| query.row_mut(row).copy_from_slice(out.row(row)));
            } else if unit < heads + key_heads {
                self.turn(&mut out, 1.0);
                cache[index].set_keys(self.at, (0..self.count).map(|row| out.row(row)));
            } else {
                cache[index].set_values(self.at, (0..self.count).map(|row| out.row(row)));
            }
        }
    }

    /// Turns each pair of numbers of a head by an angle that tells the position, and scales it.
    fn turn(&self, rows: &mut Rows, scale: f32) {
        let pairs = self.machine.shape.head / 2;
        for (row, turns) in self.turns.chunks_exact(pairs).enumerate() {
            for (pair, (sine, cosine)) in rows.row_mut(row).as_chunks_mut::<2>().0.iter_mut().zip(turns) {
                let [x, y] = *pair;
                *pair = [(x * cosine - y * sine) * scale, (x * sine + y * cosine) * scale];
            }
        }
    }

    /// What this thread's heads find.
    fn attend(&mut self, cache: &[Head]) {
        let group = self.machine.shape.heads / self.machine.shape.key_heads;
        for head in share(self.machine.shape.heads, self.thread, self.threads) {
            let (keys, values) = (cache[head / group].keys(), cache[head / group].values());
            let query = read(&self.shared.queries[head]);
            let mut out = write(&self.shared.heads[head]);
            for first in (0..self.count).step_by(TILE) {
                let rows = TILE.min(self.count - first);
                let chunks = (self.at + first + rows).div_ceil(CHUNK);
                self.scores.reset(rows, chunks * CHUNK);
                let stride = self.scores.stride();
                for (chunk, right) in keys[..chunks].iter().enumerate() {
                    let scores = self.scores.part_mut(0, chunk * CHUNK);
                    let (left, left_stride) = (query.part(first, 0), query.stride());
                    let product =
                        Product { left, left_stride, rows, right, out: scores, out_stride: stride, into: Into::Replace };
                    self.machine.arch.dispatch(product);
                }
                let mut inverse = [0.0; TILE];
                for (row, inverse) in inverse[..rows].iter_mut().enumerate() {
                    // A token sees itself and what came before.
                    let width = self.at + first + row + 1;
                    let scores = self.scores.row_mut(row);
                    let stride = scores.len();
                    self.machine.arch.dispatch(Softmax { scores, stride, width, inverse: std::slice::from_mut(inverse) });
                    self.scores.row_mut(row)[width..].fill(0.0);
                }
                let out_stride = out.stride();
                for (chunk, right) in values[..chunks].iter().enumerate() {
                    let left = self.scores.part(0, chunk * CHUNK);
                    let into = if chunk == 0 { Into::Replace } else { Into::Add };
                    let product =
                        Product { left, left_stride: stride, rows, right, out: out.part_mut(first, 0), out_stride, into };
                    self.machine.arch.dispatch(product);
                }
                for (row, inverse) in inverse[..rows].iter().enumerate() {
                    out.row_mut(first + row).iter_mut().for_each(|value| *value *= inverse);
                }
            }
        }
    }

    /// This thread's part of the inner layer.
    fn think(&mut self, layer: &Layer) {
        let panels = self.share(&layer.up);
        let mut gate = write(&self.shared.inner[self.thread]);
        let mut up = Rows::zeros(self.count, panels.len() * layer.up.panel());
        self.multiply(&self.left, 0..self.count, &layer.gate, panels.clone(), &mut gate);
        self.multiply(&self.left, 0..self.count, &layer.up, panels, &mut up);
        for row in 0..self.count {
            self.machine.arch.dispatch(GatedSilu { gate: gate.row_mut(row), value: up.row(row) });
        }
    }

    /// This thread's columns of what is added to the state.
    fn give(&self, packed: &Packed, left: &Left) {
        let mut out = write(&self.shared.out[self.thread]);
        self.multiply(left, 0..self.count, packed, self.share(packed), &mut out);
    }

    /// Adds what all threads gave to the state.
    fn take(&mut self) {
        let mut column = 0;
        for part in &self.shared.out {
            let part = read(part);
            let width = part.width();
            for row in 0..self.count {
                let place = self.state.row_mut(row)[column..].iter_mut();
                place.zip(part.row(row)).for_each(|(value, add)| *value += add);
            }
            column += width;
        }
    }
}

/// Puts parts side by side.
fn gather(arch: Arch, parts: &[RwLock<Rows>], left: &mut Left, count: usize) {
    let mut column = 0;
    for part in parts {
        let part = read(part);
        for row in 0..count {
            left.rows.row_mut(row)[column..][..part.width()].copy_from_slice(part.row(row));
        }
        column += part.width();
    }
    (0..count).for_each(|row| left.sum_up(arch, row));
}

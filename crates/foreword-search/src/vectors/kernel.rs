//! Dot products, as fast as memory delivers the rows.
//!
//! The loops are plain Rust over arrays of fixed length, compiled once for each instruction set that [`pulp`] can tell apart at
//! run time. Sums are kept in 32 lanes and joined in one fixed order, without fused multiply-add, so that a score has the same
//! bits on every machine; the scan waits for memory either way.

use std::ops::Deref;

use crate::{DIMENSIONS, Vector};

const LANES: usize = 32;
const _: () = assert!(DIMENSIONS.is_multiple_of(LANES));

/// How many roundings at most lie on the way from a component to a score: its product, the sums of its lane, the joining.
pub(super) const ROUNDINGS: usize = 1 + DIMENSIONS / LANES + LANES.ilog2() as usize;

/// A vector that begins where a cache line does.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Row(pub(super) Vector);

impl Deref for Row {
    type Target = Vector;

    fn deref(&self) -> &Vector {
        &self.0
    }
}

/// The score of one row.
pub(super) fn dot(row: &Vector, query: &Vector) -> f32 {
    pulp::Arch::new().dispatch(|| dot_here(row, query))
}

/// The scores of neighbouring rows, as many as both slices have.
pub(super) fn dots(rows: &[Row], query: &Vector, scores: &mut [f32]) {
    pulp::Arch::new().dispatch(|| {
        for (row, score) in rows.iter().zip(scores) {
            *score = dot_here(row, query);
        }
    });
}

/// The products of coded rows with a coded query, as many as both slices have.
pub(super) fn coded_dots(rows: &[[i8; DIMENSIONS]], query: &[i16; DIMENSIONS], products: &mut [i32]) {
    pulp::Arch::new().dispatch(|| {
        for (row, product) in rows.iter().zip(products) {
            *product = row.iter().zip(query).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
        }
    });
}

// Must become part of the dispatched closure: only there may the compiler use the wide instructions.
#[allow(clippy::inline_always)]
#[inline(always)]
fn dot_here(row: &Vector, query: &Vector) -> f32 {
    let mut sums = [0.0; LANES];
    for (a, b) in row.as_chunks::<LANES>().0.iter().zip(query.as_chunks::<LANES>().0) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
        half /= 2;
    }
    // A score that is no number would have no place in the order.
    if sums[0].is_nan() { f32::NEG_INFINITY } else { sums[0] }
}

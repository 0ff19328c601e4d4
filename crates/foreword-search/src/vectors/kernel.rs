//! Dot products, as fast as memory delivers the rows.
//!
//! The loops are compiled once for each instruction set that [`pulp`] tells apart at run time. Sums are kept in 32 lanes and
//! joined in one fixed order, without fused multiply-add, so that a score has the same bits on every machine; the scan waits for
//! memory either way.

use pulp::{Simd, WithSimd};

use super::code::Code;
use crate::{DIMENSIONS, Vector};

const LANES: usize = 32;
const _: () = assert!(DIMENSIONS.is_multiple_of(LANES));

/// How many roundings at most lie on the way from a component to a score: its product, the sums of its lane, the joining.
pub(super) const ROUNDINGS: usize = 1 + DIMENSIONS / LANES + LANES.ilog2() as usize;

/// A vector that begins where a cache line does.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Row(pub(super) Vector);

/// The score of one row.
pub(super) fn dot(row: &Row, query: &Vector) -> f32 {
    let mut score = [0.0];
    dots(std::slice::from_ref(row), query, &mut score);
    score[0]
}

/// The scores of neighbouring rows, as many as both slices have.
pub(super) fn dots(rows: &[Row], query: &Vector, scores: &mut [f32]) {
    pulp::Arch::new().dispatch(Dots { rows, query, scores });
}

/// The products of coded rows with a coded query, as many as both slices have.
pub(super) fn coded_dots(rows: &[Code], query: &[i16; DIMENSIONS], products: &mut [i32]) {
    pulp::Arch::new().dispatch(CodedDots { rows, query, products });
}

struct Dots<'a> {
    rows: &'a [Row],
    query: &'a Vector,
    scores: &'a mut [f32],
}

// `inline(always)` here and below: only what becomes part of the dispatched function may use the wide instructions.
#[allow(clippy::inline_always)]
impl WithSimd for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (row, score) in self.rows.iter().zip(self.scores) {
            *score = join(lanes(simd, &row.0, self.query));
        }
    }
}

struct CodedDots<'a> {
    rows: &'a [Code],
    query: &'a [i16; DIMENSIONS],
    products: &'a mut [i32],
}

#[allow(clippy::inline_always)]
impl WithSimd for CodedDots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        // A copy of its own: nothing that is written here can lie over it, so the loop can be unrolled.
        let query = *self.query;
        for (row, product) in self.rows.iter().zip(self.products) {
            // The compiler makes this one instruction for 16 pairs; it does not for sums of `f32`, whose order it must keep.
            *product = row.iter().zip(&query).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
        }
    }
}

/// Lane `i` is the sum of the products at `i`, `i + LANES` and so on, in that order, however many of them a register holds.
#[allow(clippy::inline_always)]
#[inline(always)]
fn lanes<S: Simd>(simd: S, row: &Vector, query: &Vector) -> [f32; LANES] {
    let registers = LANES / S::F32_LANES;
    let (row, query) = (S::as_simd_f32s(row).0, S::as_simd_f32s(query).0);
    let mut sums = [simd.splat_f32s(0.0); LANES];
    for (a, b) in row.chunks_exact(registers).zip(query.chunks_exact(registers)) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum = simd.add_f32s(*sum, simd.mul_f32s(*a, *b));
        }
    }
    let mut lanes = [0.0; LANES];
    S::as_mut_simd_f32s(&mut lanes).0.iter_mut().zip(sums).for_each(|(lanes, sum)| *lanes = sum);
    lanes
}

#[allow(clippy::inline_always)]
#[inline(always)]
fn join(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    // A score that is no number would have no place in the order.
    if lanes[0].is_nan() { f32::NEG_INFINITY } else { lanes[0] }
}

#[cfg(test)]
mod tests {
    use pulp::{Scalar, Scalar128b, Scalar256b, Scalar512b};

    use super::*;
    use crate::vectors::tests::Dice;

    fn check<S: Simd>(simd: S) {
        let mut dice = Dice(9);
        let (rows, query): (Vec<Row>, _) = ((0..20).map(|_| Row(dice.vector())).collect(), dice.vector());
        let (mut scores, mut expected) = ([0.0; 20], [0.0; 20]);
        Dots { rows: &rows, query: &query, scores: &mut scores }.with_simd(simd);
        dots(&rows, &query, &mut expected);
        assert_eq!(scores.map(f32::to_bits), expected.map(f32::to_bits));
        for (row, score) in rows.iter().zip(scores) {
            let exact: f64 = row.0.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(b)).sum();
            assert!((exact - f64::from(score)).abs() < 1e-4, "{exact} {score}");
        }
    }

    #[test]
    fn scores_have_the_same_bits_with_every_register_width() {
        check(Scalar);
        check(Scalar128b);
        check(Scalar256b);
        check(Scalar512b);
    }

    #[test]
    fn the_largest_codes_do_not_overflow() {
        for (row, query) in [(i8::MAX, i16::MAX), (-i8::MAX, i16::MAX), (-i8::MAX, -i16::MAX)] {
            let mut products = [0];
            coded_dots(&[[row; DIMENSIONS]], &[query; DIMENSIONS], &mut products);
            assert_eq!(i64::from(products[0]), i64::from(row) * i64::from(query) * 384);
        }
    }
}

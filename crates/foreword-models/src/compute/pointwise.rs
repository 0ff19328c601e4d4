//! What is done to numbers one by one or row by row between the products: activations, softmax, normalisation.

#![allow(clippy::inline_always, reason = "what is not inlined into the dispatched function is compiled without its instructions")]

#[cfg(test)]
pub(crate) mod tests;

use pulp::{Simd, WithSimd};

/// `erf(x / √2) / x` for `|x| <= 5`, as a polynomial in `2x²/25 - 1`; fitted so that GELU is within 4e-7, f32's own
/// rounding aside.
/// In the shifted variable nothing cancels, which a polynomial in `x²` would suffer from.
const ERF: [f32; 13] = [
    0.282_727_58,
    -0.140_593_3,
    0.103_042_84,
    -0.080_865_905,
    0.062_852_46,
    -0.046_673_447,
    0.032_995_31,
    -0.021_946_518,
    0.012_330_882,
    -0.005_831_273,
    0.004_003_678,
    -0.003_028_343,
    0.000_985_963_5,
];

/// Beyond this, the error function is one, to within 3e-7 of it.
const ERF_END: f32 = 5.0;

/// The activation `x · Φ(x)`, exact form.
#[inline(always)]
pub(crate) fn gelu<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let near = simd.max_f32s(simd.min_f32s(x, simd.splat_f32s(ERF_END)), simd.splat_f32s(-ERF_END));
    let shifted = simd.mul_add_f32s(simd.mul_f32s(near, near), simd.splat_f32s(2.0 / (ERF_END * ERF_END)), simd.splat_f32s(-1.0));
    let mut erf = simd.splat_f32s(ERF[ERF.len() - 1]);
    for coefficient in ERF.iter().rev().skip(1) {
        erf = simd.mul_add_f32s(erf, shifted, simd.splat_f32s(*coefficient));
    }
    let half = simd.mul_f32s(x, simd.splat_f32s(0.5));
    simd.mul_add_f32s(half, simd.mul_f32s(near, erf), half)
}

/// Taylor's coefficients of `2^x`, from the constant on: within one rounding of f32 for `|x| <= 0.5`.
const EXP2: [f32; 7] = [1.0, std::f32::consts::LN_2, 0.240_226_5, 0.055_504_11, 0.009_618_129, 0.001_333_355_8, 0.000_154_035_3];

/// Adding this rounds to a whole number, which then stands in the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// `e^x` for `x <= 0`; below -87 it is about 1e-38 and not less.
#[inline(always)]
fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let power = simd.mul_f32s(simd.max_f32s(x, simd.splat_f32s(-87.0)), simd.splat_f32s(std::f32::consts::LOG2_E));
    let marked = simd.add_f32s(power, simd.splat_f32s(ROUND));
    let fraction = simd.sub_f32s(power, simd.sub_f32s(marked, simd.splat_f32s(ROUND)));
    let mut value = simd.splat_f32s(EXP2[EXP2.len() - 1]);
    for coefficient in EXP2.iter().rev().skip(1) {
        value = simd.mul_add_f32s(value, fraction, simd.splat_f32s(*coefficient));
    }
    let exponent = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(marked), simd.splat_u32s(23));
    simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(value), exponent))
}

/// Turns each row of scores into weights that are not yet divided by their sum; the sums' inverses go to `inverse`.
pub(crate) struct Softmax<'a> {
    /// The scores, from the first row on; rows are padded to whole registers.
    pub(crate) scores: &'a mut [f32],
    /// The distance between rows.
    pub(crate) stride: usize,
    /// Scores in a row. The padding of a row becomes zero.
    pub(crate) width: usize,
    /// One over the sum of each row's weights.
    pub(crate) inverse: &'a mut [f32],
}

impl WithSimd for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Softmax { scores, stride, width, inverse } = self;
        for (row, inverse) in scores.chunks_mut(stride).zip(inverse) {
            let (row, padding) = row.split_at_mut(width.next_multiple_of(S::F32_LANES));
            row[width..].fill(f32::NEG_INFINITY);
            let row = S::as_mut_simd_f32s(row).0;
            let mut most = simd.splat_f32s(f32::NEG_INFINITY);
            for value in row.iter() {
                most = simd.max_f32s(most, *value);
            }
            let most = simd.splat_f32s(simd.reduce_max_f32s(most));
            let mut sum = simd.splat_f32s(0.0);
            for value in row.iter_mut() {
                *value = exp(simd, simd.sub_f32s(*value, most));
                sum = simd.add_f32s(sum, *value);
            }
            *inverse = simd.reduce_sum_f32s(sum).recip();
            padding.fill(0.0);
        }
    }
}

/// `row = normalised(row + add) × weight + bias`.
pub(crate) struct LayerNorm<'a> {
    /// The row, of whole registers.
    pub(crate) row: &'a mut [f32],
    /// What is added before; may be empty.
    pub(crate) add: [&'a [f32]; 2],
    /// The scale.
    pub(crate) weight: &'a [f32],
    /// The shift.
    pub(crate) bias: &'a [f32],
    /// Added to the variance.
    pub(crate) epsilon: f32,
}

impl WithSimd for LayerNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let LayerNorm { row, add, weight, bias, epsilon } = self;
        let count = row.len() as f32;
        let row = S::as_mut_simd_f32s(row).0;
        for add in add {
            for (value, add) in row.iter_mut().zip(S::as_simd_f32s(add).0) {
                *value = simd.add_f32s(*value, *add);
            }
        }
        let mut sum = simd.splat_f32s(0.0);
        for value in row.iter() {
            sum = simd.add_f32s(sum, *value);
        }
        let mean = simd.splat_f32s(simd.reduce_sum_f32s(sum) / count);
        let mut squares = simd.splat_f32s(0.0);
        for value in row.iter_mut() {
            *value = simd.sub_f32s(*value, mean);
            squares = simd.mul_add_f32s(*value, *value, squares);
        }
        let scale = simd.splat_f32s((simd.reduce_sum_f32s(squares) / count + epsilon).sqrt().recip());
        let shape = S::as_simd_f32s(weight).0.iter().zip(S::as_simd_f32s(bias).0);
        for (value, (weight, bias)) in row.iter_mut().zip(shape) {
            *value = simd.mul_add_f32s(simd.mul_f32s(*value, scale), *weight, *bias);
        }
    }
}

/// `out = row / √(mean square + epsilon) × weight`.
pub(crate) struct RmsNorm<'a> {
    /// The row, of whole registers.
    pub(crate) row: &'a [f32],
    /// The scale.
    pub(crate) weight: &'a [f32],
    /// Added to the mean square.
    pub(crate) epsilon: f32,
    /// The result.
    pub(crate) out: &'a mut [f32],
}

impl WithSimd for RmsNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let RmsNorm { row, weight, epsilon, out } = self;
        let count = row.len() as f32;
        let (row, weight, out) = (S::as_simd_f32s(row).0, S::as_simd_f32s(weight).0, S::as_mut_simd_f32s(out).0);
        let mut squares = simd.splat_f32s(0.0);
        for value in row {
            squares = simd.mul_add_f32s(*value, *value, squares);
        }
        let scale = simd.splat_f32s((simd.reduce_sum_f32s(squares) / count + epsilon).sqrt().recip());
        for (out, (value, weight)) in out.iter_mut().zip(row.iter().zip(weight)) {
            *out = simd.mul_f32s(simd.mul_f32s(*value, scale), *weight);
        }
    }
}

/// `gate = gate · σ(gate) · value`.
pub(crate) struct GatedSilu<'a> {
    /// How far values are let through; becomes the result. A row of whole registers.
    pub(crate) gate: &'a mut [f32],
    /// The values.
    pub(crate) value: &'a [f32],
}

impl WithSimd for GatedSilu<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (zero, one) = (simd.splat_f32s(0.0), simd.splat_f32s(1.0));
        for (gate, value) in S::as_mut_simd_f32s(self.gate).0.iter_mut().zip(S::as_simd_f32s(self.value).0) {
            // σ from e^-|x|, which cannot overflow.
            let small = exp(simd, simd.sub_f32s(zero, simd.abs_f32s(*gate)));
            let above = simd.select_f32s(simd.greater_than_or_equal_f32s(*gate, zero), one, small);
            let sigmoid = simd.div_f32s(above, simd.add_f32s(one, small));
            *gate = simd.mul_f32s(simd.mul_f32s(*gate, sigmoid), *value);
        }
    }
}

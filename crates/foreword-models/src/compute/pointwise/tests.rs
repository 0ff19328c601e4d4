//! GELU, softmax and layer normalisation against plain versions in 64 bits, with each set of instructions that this machine has.

use proptest::prelude::*;
use pulp::{Arch, Simd, WithSimd};

use super::super::arches;
use super::{GatedSilu, LayerNorm, RmsNorm, Softmax};

/// The error function by a series whose terms all have one sign, so nothing cancels.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let mut term = x;
    let mut sum = x;
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    sum * (-x * x).exp() * 2.0 / std::f64::consts::PI.sqrt()
}

pub(in super::super) fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))
}

/// Applies a function of registers to numbers.
struct Each<'a>(&'a mut [f32]);

impl WithSimd for Each<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (whole, rest) = S::as_mut_simd_f32s(self.0);
        assert!(rest.is_empty());
        for value in whole {
            *value = super::gelu(simd, *value);
        }
    }
}

fn fast_gelu(arch: Arch, values: &[f32]) -> Vec<f32> {
    let mut found = values.to_vec();
    found.resize(values.len().next_multiple_of(64), 0.0);
    arch.dispatch(Each(&mut found));
    found.truncate(values.len());
    found
}

#[test]
fn gelu_is_the_exact_form_within_single_precision() {
    let values: Vec<f32> = (-80_000..=80_000).map(|step| step as f32 / 10_000.0).collect();
    for arch in arches() {
        for (x, found) in values.iter().zip(fast_gelu(arch, &values)) {
            let expect = gelu(f64::from(*x));
            assert!(
                (f64::from(found) - expect).abs() < 5e-7 * (1.0 + f64::from(x.abs())),
                "{arch:?} gelu({x}): {found}, not {expect}"
            );
        }
    }
}

#[test]
fn gelu_far_out_is_nothing_or_the_number_itself() {
    for arch in arches() {
        let found = fast_gelu(arch, &[100.0, 1e30, -100.0, -1e30, 0.0, -0.0, f32::MIN_POSITIVE]);
        // The two halves of the sum cancel, or add up, to the last bits of the number.
        let expect = [100.0, 1e30, 0.0, 0.0, 0.0, 0.0, 0.0];
        let size = [100.0, 1e30, 100.0, 1e30, 0.0, 0.0, 1e-30];
        for ((found, expect), size) in found.iter().zip(expect).zip(size) {
            assert!((found - expect).abs() <= 5e-7 * size, "{arch:?}: {found}, not {expect}");
        }
    }
}

fn check_softmax(rows: usize, width: usize, scores: &[f32]) {
    for arch in arches() {
        let stride = width.next_multiple_of(16) + 16;
        let mut found = vec![3.0; rows * stride];
        for (row, scores) in found.chunks_mut(stride).zip(scores.chunks(width)) {
            row[..width].copy_from_slice(scores);
        }
        let mut inverse = vec![0.0; rows];
        arch.dispatch(Softmax { scores: &mut found, stride, width, inverse: &mut inverse });
        for row in 0..rows {
            let scores = &scores[row * width..][..width];
            let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let weights: Vec<f64> = scores.iter().map(|score| (f64::from(*score) - f64::from(most)).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let found = &found[row * stride..][..stride];
            for (column, weight) in weights.iter().enumerate() {
                let share = f64::from(found[column]) * f64::from(inverse[row]);
                assert!(
                    (share - weight / sum).abs() < 1e-6,
                    "{arch:?} {rows}x{width} at {row},{column}: {share}, not {}",
                    weight / sum
                );
            }
            assert!(found[width..].iter().all(|padding| *padding < 1e-30), "{arch:?} {rows}x{width}: {found:?}");
        }
    }
}

fn check_norm(row: &[f32], add: &[f32], more: &[f32]) {
    let count = row.len();
    let weight: Vec<f32> = (0..count).map(|at| 0.5 + at as f32 / count as f32).collect();
    let bias: Vec<f32> = (0..count).map(|at| at as f32 / 100.0 - 0.3).collect();
    let at = |values: &[f32], at: usize| values.get(at).map_or(0.0, |value| f64::from(*value));
    let sums: Vec<f64> = (0..count).map(|column| at(row, column) + at(add, column) + at(more, column)).collect();
    let mean = sums.iter().sum::<f64>() / count as f64;
    let variance = sums.iter().map(|sum| (sum - mean) * (sum - mean)).sum::<f64>() / count as f64;
    for arch in arches() {
        let mut found = row.to_vec();
        arch.dispatch(LayerNorm { row: &mut found, add: [add, more], weight: &weight, bias: &bias, epsilon: 1e-12 });
        for column in 0..count {
            let expect = (sums[column] - mean) / (variance + 1e-12).sqrt() * at(&weight, column) + at(&bias, column);
            let found = f64::from(found[column]);
            assert!((found - expect).abs() < 1e-4, "{arch:?}, {count} numbers, at {column}: {found}, not {expect}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn softmax_of_any_scores(rows in 1..5_usize, width in 1..70_usize, spread in 0.0..60.0_f32, seed in prop::collection::vec(-1.0..1.0_f32, 280)) {
        let scores: Vec<f32> = seed[..rows * width].iter().map(|value| value * spread).collect();
        check_softmax(rows, width, &scores);
    }

    #[test]
    fn layer_norm_of_any_row(lines in 1..8_usize, parts in 0..3_usize, values in prop::collection::vec(-4.0..4.0_f32, 3 * 7 * 16)) {
        // Rows are whole registers of the widest kind.
        let count = lines * 16;
        let part = |index: usize| if index <= parts { &values[index * count..][..count] } else { &[] };
        check_norm(part(0), part(1), part(2));
    }
}

#[test]
fn softmax_of_scores_that_are_far_apart_or_all_the_same() {
    check_softmax(1, 3, &[1e30, 0.0, -1e30]);
    check_softmax(1, 5, &[-1e30; 5]);
    check_softmax(2, 1, &[5.0, -5.0]);
    check_softmax(1, 256, &[0.0; 256]);
}

#[test]
fn layer_norm_of_a_row_of_equals_is_the_shift() {
    for arch in arches() {
        let mut row = vec![2.0; 32];
        arch.dispatch(LayerNorm { row: &mut row, add: [&[], &[]], weight: &[1.0; 32], bias: &[0.5; 32], epsilon: 1e-12 });
        assert!(row == [0.5; 32], "{arch:?}: {row:?}");
    }
}

#[test]
fn gated_silu_is_within_single_precision() {
    let gates: Vec<f32> = (-3_200..3_200).map(|step| step as f32 / 32.0).collect();
    let values: Vec<f32> = (0..6_400).map(|step| (step % 7) as f32 - 3.0).collect();
    for arch in arches() {
        let mut found = gates.clone();
        arch.dispatch(GatedSilu { gate: &mut found, value: &values });
        for ((gate, value), found) in gates.iter().zip(&values).zip(found) {
            let (gate, value) = (f64::from(*gate), f64::from(*value));
            let expect = gate / (1.0 + (-gate).exp()) * value;
            assert!((f64::from(found) - expect).abs() <= 1e-6 * expect.abs() + 1e-12, "{arch:?} {gate}: {found}, not {expect}");
        }
    }
}

#[test]
fn rms_norm_is_within_single_precision() {
    for scale in [1e-3_f32, 1.0, 300.0] {
        let row: Vec<f32> = (0..576).map(|at| ((at * 37 % 101) as f32 - 50.0) * scale).collect();
        let weight: Vec<f32> = (0..576).map(|at| 0.5 + at as f32 / 576.0).collect();
        let mean: f64 = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / 576.0;
        for arch in arches() {
            let mut out = vec![0.0; 576];
            arch.dispatch(RmsNorm { row: &row, weight: &weight, epsilon: 1e-5, out: &mut out });
            for ((value, weight), found) in row.iter().zip(&weight).zip(out) {
                let expect = f64::from(*value) / (mean + 1e-5).sqrt() * f64::from(*weight);
                assert!((f64::from(found) - expect).abs() < 2e-6, "{arch:?}: {found}, not {expect}");
            }
        }
    }
}

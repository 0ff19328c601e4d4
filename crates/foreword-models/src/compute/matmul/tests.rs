//! The product against the plain one in 64 bits, over odd sizes, with each set of instructions that this machine has.

use proptest::prelude::*;

use super::super::aligned::Rows;
use super::super::arches;
use super::{Into, Panels, Product};

/// Numbers between -1 and 1 that depend on `seed`.
fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 * 2.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn gelu(x: f64) -> f64 {
    super::super::pointwise::tests::gelu(x)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Replace,
    Add,
    Bias,
    BiasGelu,
}

/// One product of `rows` × `inner` by `inner` × `columns`, by columns or by rows laid out, on every set of instructions.
fn check(rows: usize, inner: usize, columns: usize, kind: Kind, seed: u32) {
    let left = numbers(seed, rows * inner);
    let right = numbers(seed ^ 0x5555, inner * columns);
    let bias = numbers(seed ^ 0x3333, columns);
    let before = 0.25;
    for arch in arches() {
        let by_columns = Panels::from_columns(arch, inner, columns, |column| &right[column * inner..][..inner]);
        let mut by_rows = Panels::zeros(arch, inner, columns);
        for row in 0..inner {
            let values: Vec<f32> = (0..columns).map(|column| right[column * inner + row]).collect();
            by_rows.set_row(row, &values);
        }
        let width = by_columns.columns();
        assert!(width >= columns);
        let mut padded = bias.clone();
        padded.resize(width, 0.0);
        // The left side is as wide as the padded inner dimension; what is beyond `inner` must not matter, so it is not zero.
        let mut sides = Rows::zeros(rows, inner.next_multiple_of(super::STEP));
        for row in 0..rows {
            sides.row_mut(row).fill(7.0);
            sides.row_mut(row)[..inner].copy_from_slice(&left[row * inner..][..inner]);
        }
        for right_side in [&by_columns, &by_rows] {
            let mut out = Rows::zeros(rows, width);
            (0..rows).for_each(|row| out.row_mut(row).fill(before));
            let into = match kind {
                Kind::Replace => Into::Replace,
                Kind::Add => Into::Add,
                Kind::Bias => Into::Bias(&padded),
                Kind::BiasGelu => Into::BiasGelu(&padded),
            };
            let (left_stride, out_stride) = (sides.stride(), out.stride());
            let product = Product {
                left: sides.part(0, 0),
                left_stride,
                rows,
                right: right_side,
                out: out.part_mut(0, 0),
                out_stride,
                into,
            };
            arch.dispatch(product);
            for row in 0..rows {
                for column in 0..columns {
                    let pairs = left[row * inner..][..inner].iter().zip(&right[column * inner..][..inner]);
                    let sum: f64 = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    let expect = match kind {
                        Kind::Replace => sum,
                        Kind::Add => sum + f64::from(before),
                        Kind::Bias => sum + f64::from(bias[column]),
                        Kind::BiasGelu => gelu(sum + f64::from(bias[column])),
                    };
                    let found = f64::from(out.row(row)[column]);
                    let tolerance = 1e-6 * (1.0 + (inner as f64).sqrt());
                    assert!(
                        (found - expect).abs() < tolerance,
                        "{arch:?} {rows}x{inner}x{columns} {kind:?} at {row},{column}: {found}, not {expect}"
                    );
                }
            }
        }
    }
}

const KINDS: [Kind; 4] = [Kind::Replace, Kind::Add, Kind::Bias, Kind::BiasGelu];

#[test]
fn every_number_of_rows_that_a_tile_can_have() {
    for rows in 1..=26 {
        for kind in KINDS {
            check(rows, 8, 33, kind, 11);
        }
    }
}

#[test]
fn the_models_own_sizes() {
    for (inner, columns) in [(384, 288), (96, 384), (384, 384)] {
        check(13, inner, columns, Kind::Add, 5);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sizes(rows in 1..40_usize, inner in 1..70_usize, columns in 1..100_usize, kind in 0..4_usize, seed: u32) {
        check(rows, inner, columns, KINDS[kind], seed);
    }
}

#[test]
fn a_rows_result_does_not_depend_on_the_rows_with_it() {
    let (inner, columns) = (40, 50);
    let (left, right) = (numbers(3, 29 * inner), numbers(4, inner * columns));
    for arch in arches() {
        let panels = Panels::from_columns(arch, inner, columns, |column| &right[column * inner..][..inner]);
        let width = panels.columns();
        let run = |first: usize, rows: usize| {
            let mut out = vec![0.0; rows * width];
            let product = Product {
                left: &left[first * inner..],
                left_stride: inner,
                rows,
                right: &panels,
                out: &mut out,
                out_stride: width,
                into: Into::Replace,
            };
            arch.dispatch(product);
            out
        };
        let all = run(0, 29);
        for row in 0..29 {
            assert!(run(row, 1) == all[row * width..][..width], "{arch:?}, row {row}");
        }
    }
}

//! The matrix product that all the time goes into: rows of activations times weights that were laid out for it once.
//!
//! The right side is cut into panels as wide as two registers; within a panel the numbers lie in the order in which they are
//! read. A tile of the result (up to twelve rows of one panel) stays in registers while the inner dimension runs by. Each number of the
//! result is one chain of fused multiply-adds over the inner dimension, whatever the tile it is in: a row's result does
//! not depend on how many rows there are.

#![allow(clippy::inline_always, reason = "what is not inlined into the dispatched function is compiled without its instructions")]

#[cfg(test)]
mod tests;

use pulp::{Arch, Simd, WithSimd};

use super::aligned::{Aligned, LINE};
use super::pointwise::gelu;

/// Registers side by side in a tile.
const WIDE: usize = 2;
/// Steps of the inner dimension between two looks at the bounds; inner dimensions are padded to a multiple of it.
pub(crate) const STEP: usize = 4;

/// The right side of a product, `inner` × `columns`, in panels.
pub(crate) struct Panels {
    values: Aligned,
    inner: usize,
    panel: usize,
}

/// How wide a panel is on this processor.
pub(crate) fn panel_width(arch: Arch) -> usize {
    struct Lanes;
    impl WithSimd for Lanes {
        type Output = usize;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> usize {
            S::F32_LANES
        }
    }
    arch.dispatch(Lanes) * WIDE
}

impl Panels {
    /// Room for `inner` × `columns` numbers, all zero; both sides are padded with zeros to what the product works in.
    pub(crate) fn zeros(arch: Arch, inner: usize, columns: usize) -> Self {
        let panel = panel_width(arch);
        let inner = inner.next_multiple_of(STEP);
        Self { values: Aligned::zeros(inner * columns.next_multiple_of(panel)), inner, panel }
    }

    /// Makes it `inner` × `columns` zeros, in the same memory where that is enough.
    pub(crate) fn reset(&mut self, inner: usize, columns: usize) {
        self.inner = inner.next_multiple_of(STEP);
        self.values.reset(self.inner * columns.next_multiple_of(self.panel));
    }

    /// Panels of a matrix whose row `column` is `row_of(column)`: the columns of the right side, as weights are stored.
    pub(crate) fn from_columns<'a>(arch: Arch, inner: usize, columns: usize, row_of: impl Fn(usize) -> &'a [f32]) -> Self {
        let mut panels = Self::zeros(arch, inner, columns);
        let Self { values, inner: padded, panel } = &mut panels;
        // Blocks, because a whole column at a time would touch a cache line for each number.
        for (index, values) in values.chunks_exact_mut(*padded * *panel).enumerate() {
            let first = index * *panel;
            let sources: Vec<&[f32]> = (first..columns.min(first + *panel)).map(&row_of).collect();
            for (block, values) in values.chunks_mut(LINE * *panel).enumerate() {
                for (column, source) in sources.iter().enumerate() {
                    let source = source.iter().skip(block * LINE);
                    values[column..].iter_mut().step_by(*panel).zip(source).for_each(|(slot, value)| *slot = *value);
                }
            }
        }
        panels
    }

    /// Columns, padding included.
    pub(crate) fn columns(&self) -> usize {
        self.values.len() / self.inner.max(1)
    }

    /// Writes one column, from the first row on.
    pub(crate) fn set_column(&mut self, column: usize, values: &[f32]) {
        let start = column / self.panel * self.panel * self.inner + column % self.panel;
        for (slot, value) in self.values[start..].iter_mut().step_by(self.panel).zip(values) {
            *slot = *value;
        }
    }

    /// Writes one row, from the first column on.
    pub(crate) fn set_row(&mut self, row: usize, values: &[f32]) {
        for (panel, values) in values.chunks(self.panel).enumerate() {
            self.values[panel * self.panel * self.inner + row * self.panel..][..values.len()].copy_from_slice(values);
        }
    }
}

/// What the product does to its result.
#[derive(Clone, Copy)]
pub(crate) enum Into<'a> {
    /// It is written.
    Replace,
    /// It is added to what is there.
    Add,
    /// It is written with a number added to each column.
    Bias(&'a [f32]),
    /// So, and then GELU is applied, while the numbers are still near.
    BiasGelu(&'a [f32]),
}

/// One product: `out = left × right`, or added to `out`.
pub(crate) struct Product<'a> {
    /// The left side, from its first row on.
    pub(crate) left: &'a [f32],
    /// The distance between its rows.
    pub(crate) left_stride: usize,
    /// Rows of the left side and the result.
    pub(crate) rows: usize,
    /// The right side.
    pub(crate) right: &'a Panels,
    /// The result, from its first row on; each row has room for whole panels.
    pub(crate) out: &'a mut [f32],
    /// The distance between its rows.
    pub(crate) out_stride: usize,
    /// What is done with what is there.
    pub(crate) into: Into<'a>,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // A tile takes two registers a row, and a few are needed beside it.
        if S::REGISTER_COUNT >= 32 { run::<S, 12>(simd, self) } else { run::<S, 6>(simd, self) }
    }
}

#[inline(always)]
fn run<S: Simd, const ROWS: usize>(simd: S, product: Product<'_>) {
    let Product { left, left_stride, rows, right, out, out_stride, into } = product;
    let panel = WIDE * S::F32_LANES;
    for (index, right_panel) in right.values.chunks_exact(right.inner * panel).enumerate() {
        let right_panel = S::as_simd_f32s(right_panel).0;
        let mut row = 0;
        while row < rows {
            let here = (rows - row).min(ROWS);
            let left = &Left { values: &left[row * left_stride..], stride: left_stride, inner: right.inner };
            let out = &mut Out {
                values: &mut out[row * out_stride + index * panel..],
                stride: out_stride,
                column: index * panel,
                into,
            };
            match here {
                1 => tile::<S, 1>(simd, left, right_panel, out),
                2 => tile::<S, 2>(simd, left, right_panel, out),
                3 => tile::<S, 3>(simd, left, right_panel, out),
                4 => tile::<S, 4>(simd, left, right_panel, out),
                5 => tile::<S, 5>(simd, left, right_panel, out),
                7 => tile::<S, 7>(simd, left, right_panel, out),
                8 => tile::<S, 8>(simd, left, right_panel, out),
                9 => tile::<S, 9>(simd, left, right_panel, out),
                10 => tile::<S, 10>(simd, left, right_panel, out),
                11 => tile::<S, 11>(simd, left, right_panel, out),
                _ if ROWS == 6 || here == 6 => tile::<S, 6>(simd, left, right_panel, out),
                _ => tile::<S, 12>(simd, left, right_panel, out),
            }
            row += here;
        }
    }
}

struct Left<'a> {
    values: &'a [f32],
    stride: usize,
    inner: usize,
}

struct Out<'a> {
    values: &'a mut [f32],
    stride: usize,
    column: usize,
    into: Into<'a>,
}

#[inline(always)]
fn tile<S: Simd, const ROWS: usize>(simd: S, left: &Left<'_>, right: &[S::f32s], out: &mut Out<'_>) {
    let rows: [&[[f32; STEP]]; ROWS] = std::array::from_fn(|row| left.values[row * left.stride..][..left.inner].as_chunks().0);
    let zero = simd.splat_f32s(0.0);
    let start = match out.into {
        Into::Replace | Into::Add => [zero; WIDE],
        Into::Bias(bias) | Into::BiasGelu(bias) => {
            let bias = S::as_simd_f32s(&bias[out.column..][..WIDE * S::F32_LANES]).0;
            std::array::from_fn(|wide| bias[wide])
        }
    };
    let mut sums = [start; ROWS];
    for (step, right) in right.as_chunks::<{ STEP * WIDE }>().0.iter().enumerate() {
        let left: [&[f32; STEP]; ROWS] = std::array::from_fn(|row| &rows[row][step]);
        for inner in 0..STEP {
            for row in 0..ROWS {
                let factor = simd.splat_f32s(left[row][inner]);
                for wide in 0..WIDE {
                    sums[row][wide] = simd.mul_add_f32s(factor, right[inner * WIDE + wide], sums[row][wide]);
                }
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        let place = S::as_mut_simd_f32s(&mut out.values[row * out.stride..][..WIDE * S::F32_LANES]).0;
        for (place, sum) in place.iter_mut().zip(sums) {
            *place = if let Into::Add = out.into { simd.add_f32s(*place, *sum) } else { *sum };
        }
    }
    if let Into::BiasGelu(_) = out.into {
        for row in 0..ROWS {
            for value in S::as_mut_simd_f32s(&mut out.values[row * out.stride..][..WIDE * S::F32_LANES]).0 {
                *value = gelu(simd, *value);
            }
        }
    }
}

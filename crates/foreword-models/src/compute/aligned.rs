//! Rows of numbers that start on a cache line: an unaligned 64-byte load or store touches two lines and takes twice as long.

use std::ops::{Deref, DerefMut};

/// Numbers in a cache line.
pub(crate) const LINE: usize = 16;

/// A fixed number of four-byte numbers whose first one starts a cache line.
pub(crate) struct Aligned<T = f32> {
    values: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy + Default> Aligned<T> {
    /// `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        let values = vec![T::default(); len + LINE];
        // An address that cannot be aligned would only cost speed.
        let start = values.as_ptr().align_offset(LINE * size_of::<T>()).min(LINE);
        Self { values, start, len }
    }

    /// Makes it `len` zeros, in the same memory where that is enough.
    pub(crate) fn reset(&mut self, len: usize) {
        if self.start + len <= self.values.len() {
            self.len = len;
            self.fill(T::default());
        } else {
            *self = Self::zeros(len);
        }
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values[self.start..self.start + self.len]
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[self.start..self.start + self.len]
    }
}

/// A matrix by rows. Rows lie an odd number of cache lines apart, so that the same column of many rows does not compete for
/// the same few places of the first-level cache.
pub(crate) struct Rows {
    values: Aligned,
    stride: usize,
    width: usize,
}

impl Rows {
    /// `rows` rows of `width` zeros.
    pub(crate) fn zeros(rows: usize, width: usize) -> Self {
        Self { values: Aligned::zeros(rows * stride(width)), stride: stride(width), width }
    }

    /// Makes it `rows` rows of `width` zeros, in the same memory where that is enough.
    pub(crate) fn reset(&mut self, rows: usize, width: usize) {
        self.width = width;
        self.stride = stride(width);
        self.values.reset(rows * self.stride);
    }

    /// The distance between the starts of two rows.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Numbers in a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// All from row `row` on, from column `column` on.
    pub(crate) fn part(&self, row: usize, column: usize) -> &[f32] {
        &self.values[row * self.stride + column..]
    }

    /// All from row `row` on, from column `column` on, to write.
    pub(crate) fn part_mut(&mut self, row: usize, column: usize) -> &mut [f32] {
        &mut self.values[row * self.stride + column..]
    }

    /// One row.
    pub(crate) fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.stride..][..self.width]
    }

    /// One row, to write.
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.values[row * self.stride..][..self.width]
    }
}

fn stride(width: usize) -> usize {
    (width.div_ceil(LINE) | 1) * LINE
}

//! Rows of numbers that start on a cache line: an unaligned 64-byte load or store touches two lines and takes twice as long.

use std::ops::{Deref, DerefMut};

/// Numbers in a cache line.
pub(super) const LINE: usize = 16;

/// A fixed number of floats whose first one starts a cache line.
pub(super) struct Aligned {
    values: Vec<f32>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// `len` zeros.
    pub(super) fn zeros(len: usize) -> Self {
        let values = vec![0.0; len + LINE];
        // An address that cannot be aligned would only cost speed.
        let start = values.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        Self { values, start, len }
    }

    /// Makes it `len` zeros, in the same memory where that is enough.
    pub(super) fn reset(&mut self, len: usize) {
        if self.start + len <= self.values.len() {
            self.len = len;
            self.fill(0.0);
        } else {
            *self = Self::zeros(len);
        }
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[self.start..self.start + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[self.start..self.start + self.len]
    }
}

/// A matrix by rows. Rows lie an odd number of cache lines apart, so that the same column of many rows does not compete for
/// the same few places of the first-level cache.
pub(super) struct Rows {
    values: Aligned,
    stride: usize,
    width: usize,
}

impl Rows {
    /// `rows` rows of `width` zeros.
    pub(super) fn zeros(rows: usize, width: usize) -> Self {
        Self { values: Aligned::zeros(rows * stride(width)), stride: stride(width), width }
    }

    /// Makes it `rows` rows of `width` zeros, in the same memory where that is enough.
    pub(super) fn reset(&mut self, rows: usize, width: usize) {
        self.width = width;
        self.stride = stride(width);
        self.values.reset(rows * self.stride);
    }

    /// The distance between the starts of two rows.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// All from row `row` on, from column `column` on.
    pub(super) fn part(&self, row: usize, column: usize) -> &[f32] {
        &self.values[row * self.stride + column..]
    }

    /// All from row `row` on, from column `column` on, to write.
    pub(super) fn part_mut(&mut self, row: usize, column: usize) -> &mut [f32] {
        &mut self.values[row * self.stride + column..]
    }

    /// One row.
    pub(super) fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.stride..][..self.width]
    }

    /// One row, to write.
    pub(super) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.values[row * self.stride..][..self.width]
    }
}

fn stride(width: usize) -> usize {
    (width.div_ceil(LINE) | 1) * LINE
}

//! Matrices in the few bits a number that the file has, laid out once so that a product reads them from front to back.
//!
//! A panel is as many rows of the matrix (columns of the result) as two registers have places. Within a panel, block after block of 32 numbers a
//! row, lies first a word a row with the block's scale, then words with the numbers themselves: the same place of a register is always
//! the same row.
//!
//! A number is put into the upper bits of the fraction of a float between 1 and 2, which takes a shift and a mask; scale and offset of a block
//! are applied to the sum over the block. Each number of the result is made by the same steps whatever the tile that it is in: a row's
//! result depends neither on the rows with it nor on how panels are shared out between threads.

#![allow(clippy::inline_always, reason = "what is not inlined into the dispatched function is compiled without its instructions")]

#[cfg(test)]
mod tests;

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::compute::aligned::{Aligned, Rows};
use crate::compute::matmul::panel_width;
use crate::gguf::Encoding;

/// Numbers that share a scale.
pub(super) const BLOCK: usize = 32;
/// Registers side by side in a tile.
const WIDE: usize = 2;
/// The bits of 1.0.
const ONE: u32 = 0x3f80_0000;
/// A 16-bit float whose exponent and fraction are moved where a 32-bit one has them is too small by this.
const HALF: f32 = f32::from_bits((127 + 112) << 23);

/// A matrix whose rows are the columns of a product.
pub(super) struct Packed {
    words: Aligned<u32>,
    bits: Bits,
    rows: usize,
    blocks: usize,
    panel: usize,
}

/// How many bits a number has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    Four,
    Eight,
}

impl Bits {
    /// Words that a block takes: its scale, and its numbers.
    fn words(self) -> usize {
        match self {
            Self::Four => 1 + BLOCK / 8,
            Self::Eight => 1 + BLOCK / 4,
        }
    }
}

impl Packed {
    /// Lays out `rows` rows of `inner` numbers (a multiple of 32) from the bytes of a file. None if `bytes` are not so many, if the encoding
    /// is not one of these, or if a scale is not finite.
    pub(super) fn new(arch: Arch, encoding: Encoding, rows: usize, inner: usize, bytes: &[u8]) -> Option<Self> {
        let bits = match encoding {
            Encoding::Q4_1 => Bits::Four,
            Encoding::Q8_0 => Bits::Eight,
            Encoding::F32 | Encoding::Other(_) => return None,
        };
        let size = usize::try_from(encoding.block()?.1).ok()?;
        let blocks = inner / BLOCK;
        if !inner.is_multiple_of(BLOCK) || rows.checked_mul(blocks)?.checked_mul(size)? != bytes.len() || bytes.is_empty() {
            return None;
        }
        let panel = panel_width(arch);
        let mut packed =
            Self { words: Aligned::zeros(rows.next_multiple_of(panel) * blocks * bits.words()), bits, rows, blocks, panel };
        let mut finite = true;
        for (row, bytes) in bytes.chunks_exact(blocks * size).enumerate() {
            let start = row / panel * panel * blocks * bits.words() + row % panel;
            let mut places = packed.words[start..].iter_mut().step_by(panel);
            for block in bytes.chunks_exact(size) {
                let (scale, words) = match bits {
                    Bits::Four => four(block),
                    Bits::Eight => eight(block),
                };
                finite &= scale.is_some();
                for word in std::iter::once(scale.unwrap_or_default()).chain(words.into_iter().take(bits.words() - 1)) {
                    if let Some(place) = places.next() {
                        *place = word;
                    }
                }
            }
        }
        finite.then_some(packed)
    }

    /// Panels, the last one perhaps not full.
    pub(super) fn panels(&self) -> usize {
        self.rows.div_ceil(self.panel)
    }

    /// Rows in a panel.
    pub(super) fn panel(&self) -> usize {
        self.panel
    }

    /// Writes the numbers of one row to `out`; a row that is not there is all zeros.
    pub(super) fn row(&self, row: usize, out: &mut [f32]) {
        if row >= self.rows {
            out.fill(0.0);
            return;
        }
        let words = self.bits.words();
        let start = row / self.panel * self.panel * self.blocks * words + row % self.panel;
        let mut places = self.words[start..].iter().step_by(self.panel);
        for out in out.as_chunks_mut::<BLOCK>().0 {
            let scale = places.next().copied().unwrap_or_default();
            match self.bits {
                Bits::Four => {
                    let (scale, least) = (half(scale), half(scale >> 16));
                    for (out, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(&mut places) {
                        for (nibble, out) in (0..).step_by(4).zip(out) {
                            *out = (word >> nibble & 0xf) as f32 * scale + least;
                        }
                    }
                }
                Bits::Eight => {
                    let scale = f32::from_bits(scale);
                    for (out, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(&mut places) {
                        for (byte, out) in word.to_le_bytes().iter().zip(out) {
                            *out = (f32::from(*byte) - 128.0) * scale;
                        }
                    }
                }
            }
        }
    }
}

/// A block of `Q4_1`: the word of its scale (scale below, minimum above) and those of its numbers, eight in each, the first one lowest.
fn four(block: &[u8]) -> (Option<u32>, [u32; BLOCK / 4]) {
    let mut words = [0; BLOCK / 4];
    let (scale, numbers) = block.split_at(4);
    for (at, byte) in numbers.iter().enumerate() {
        // A byte has a number of the first half of the block below, and one of the second half above.
        words[at / 8] |= u32::from(byte & 0xf) << (at % 8 * 4);
        words[2 + at / 8] |= u32::from(byte >> 4) << (at % 8 * 4);
    }
    let scale = scale.try_into().map(u32::from_le_bytes).ok();
    (scale.filter(|scale| half(*scale).is_finite() && half(scale >> 16).is_finite()), words)
}

/// A block of `Q8_0`: the word of its scale and those of its numbers, four in each, moved from -128..128 to 0..256.
fn eight(block: &[u8]) -> (Option<u32>, [u32; BLOCK / 4]) {
    let (scale, numbers) = block.split_at(2);
    let mut words = [0; BLOCK / 4];
    for (word, bytes) in words.iter_mut().zip(numbers.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes) ^ 0x8080_8080;
    }
    let scale = scale.try_into().map(|bytes| half(u16::from_le_bytes(bytes).into())).ok();
    (scale.filter(|scale| scale.is_finite()).map(f32::to_bits), words)
}

/// The 16-bit float in the lower half of a word.
fn half(word: u32) -> f32 {
    let (sign, rest) = ((word & 0x8000) << 16, word & 0x7fff);
    // The exponent of what is infinite or no number.
    let size = if rest >= 0x7c00 { f32::INFINITY } else { f32::from_bits(rest << 13) * HALF };
    f32::from_bits(size.to_bits() | sign)
}

/// The left side of products: rows of numbers, and what each block of them sums up to.
pub(super) struct Left {
    /// The rows.
    pub(super) rows: Rows,
    sums: Rows,
}

impl Left {
    /// `rows` rows of `inner` zeros.
    pub(super) fn zeros(rows: usize, inner: usize) -> Self {
        Self { rows: Rows::zeros(rows, inner), sums: Rows::zeros(rows, inner.div_ceil(BLOCK)) }
    }

    /// To be called for a row after it was written.
    pub(super) fn sum_up(&mut self, arch: Arch, row: usize) {
        arch.dispatch(Sums { row: self.rows.row(row), sums: self.sums.row_mut(row) });
    }
}

struct Sums<'a> {
    row: &'a [f32],
    sums: &'a mut [f32],
}

impl WithSimd for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (block, sum) in self.row.as_chunks::<BLOCK>().0.iter().zip(self.sums) {
            let mut total = simd.splat_f32s(0.0);
            for values in S::as_simd_f32s(block).0 {
                total = simd.add_f32s(total, *values);
            }
            *sum = simd.reduce_sum_f32s(total);
        }
    }
}

/// One product: some rows of the left side times some panels of the right.
pub(super) struct PackedProduct<'a> {
    /// The left side.
    pub(super) left: &'a Left,
    /// Its rows.
    pub(super) span: Range<usize>,
    /// The right side.
    pub(super) right: &'a Packed,
    /// Its panels.
    pub(super) panels: Range<usize>,
    /// The result: a row for each of the left side, with room for whole panels.
    pub(super) out: &'a mut Rows,
}

impl WithSimd for PackedProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match (self.right.bits, S::REGISTER_COUNT >= 32) {
            (Bits::Four, true) => run::<S, Four, 8, 12>(simd, self),
            (Bits::Four, false) => run::<S, Four, 8, 6>(simd, self),
            (Bits::Eight, true) => run::<S, Eight, 4, 12>(simd, self),
            (Bits::Eight, false) => run::<S, Eight, 4, 6>(simd, self),
        }
    }
}

/// How numbers come out of words, `PER` of each.
trait Format<const PER: usize> {
    const WORDS: usize = 1 + BLOCK / PER;

    /// Scale and offset of a block, for numbers as `number` gives them.
    fn scale<S: Simd>(simd: S, word: S::u32s) -> (S::f32s, S::f32s);

    /// One of the numbers of a word, as a float from 1 up to 2.
    fn number<S: Simd>(simd: S, word: S::u32s, index: u32) -> S::f32s;
}

struct Four;

impl Format<8> for Four {
    #[inline(always)]
    fn scale<S: Simd>(simd: S, word: S::u32s) -> (S::f32s, S::f32s) {
        let scale = simd.mul_f32s(upper_half(simd, shift_left(simd, word, 16)), simd.splat_f32s(16.0 * HALF));
        // minimum + scale × number = 16 scale × (1 + number / 16) + minimum - 16 scale
        let least = simd.mul_f32s(upper_half(simd, word), simd.splat_f32s(HALF));
        (scale, simd.sub_f32s(least, scale))
    }

    #[inline(always)]
    fn number<S: Simd>(simd: S, word: S::u32s, index: u32) -> S::f32s {
        float(simd, move_to(simd, word, 4 * index, 19), 0xf << 19)
    }
}

/// The 16-bit float in the upper half of a word, too small by [`HALF`].
#[inline(always)]
fn upper_half<S: Simd>(simd: S, word: S::u32s) -> S::f32s {
    let sign = simd.and_u32s(word, simd.splat_u32s(0x8000_0000));
    let rest = shift_right(simd, simd.and_u32s(word, simd.splat_u32s(0x7fff_0000)), 3);
    simd.transmute_f32s_u32s(simd.or_u32s(sign, rest))
}

struct Eight;

impl Format<4> for Eight {
    #[inline(always)]
    fn scale<S: Simd>(simd: S, word: S::u32s) -> (S::f32s, S::f32s) {
        // scale × (number - 128) = 256 scale × (1 + number / 256) - 384 scale
        let scale = simd.transmute_f32s_u32s(word);
        (simd.mul_f32s(scale, simd.splat_f32s(256.0)), simd.mul_f32s(scale, simd.splat_f32s(-384.0)))
    }

    #[inline(always)]
    fn number<S: Simd>(simd: S, word: S::u32s, index: u32) -> S::f32s {
        float(simd, move_to(simd, word, 8 * index, 15), 0xff << 15)
    }
}

/// 1 plus the fraction that stands in the bits of `mask`.
#[inline(always)]
fn float<S: Simd>(simd: S, bits: S::u32s, mask: u32) -> S::f32s {
    simd.transmute_f32s_u32s(simd.or_u32s(simd.and_u32s(bits, simd.splat_u32s(mask)), simd.splat_u32s(ONE)))
}

#[inline(always)]
fn move_to<S: Simd>(simd: S, word: S::u32s, from: u32, to: u32) -> S::u32s {
    if from <= to { shift_left(simd, word, to - from) } else { shift_right(simd, word, from - to) }
}

#[inline(always)]
fn shift_left<S: Simd>(simd: S, word: S::u32s, by: u32) -> S::u32s {
    simd.wrapping_dyn_shl_u32s(word, simd.splat_u32s(by))
}

#[inline(always)]
fn shift_right<S: Simd>(simd: S, word: S::u32s, by: u32) -> S::u32s {
    simd.wrapping_dyn_shr_u32s(word, simd.splat_u32s(by))
}

#[inline(always)]
fn run<S: Simd, F: Format<PER>, const PER: usize, const MOST: usize>(simd: S, product: PackedProduct<'_>) {
    let PackedProduct { left, span, right, panels, out } = product;
    let size = right.blocks * F::WORDS * right.panel;
    for (index, panel) in panels.enumerate() {
        let words = S::as_simd_u32s(&right.words[panel * size..][..size]).0;
        let column = index * right.panel;
        let mut row = span.start;
        while row < span.end {
            let here = (span.end - row).min(MOST);
            let place = (row - span.start, column);
            match here {
                1 => tile::<S, F, PER, 1>(simd, left, row, words, out, place),
                2 => tile::<S, F, PER, 2>(simd, left, row, words, out, place),
                3 => tile::<S, F, PER, 3>(simd, left, row, words, out, place),
                4 => tile::<S, F, PER, 4>(simd, left, row, words, out, place),
                5 => tile::<S, F, PER, 5>(simd, left, row, words, out, place),
                7 => tile::<S, F, PER, 7>(simd, left, row, words, out, place),
                8 => tile::<S, F, PER, 8>(simd, left, row, words, out, place),
                9 => tile::<S, F, PER, 9>(simd, left, row, words, out, place),
                10 => tile::<S, F, PER, 10>(simd, left, row, words, out, place),
                11 => tile::<S, F, PER, 11>(simd, left, row, words, out, place),
                _ if MOST == 6 || here == 6 => tile::<S, F, PER, 6>(simd, left, row, words, out, place),
                _ => tile::<S, F, PER, 12>(simd, left, row, words, out, place),
            }
            row += here;
        }
    }
}

#[inline(always)]
fn tile<S: Simd, F: Format<PER>, const PER: usize, const ROWS: usize>(
    simd: S,
    left: &Left,
    first: usize,
    words: &[S::u32s],
    out: &mut Rows,
    place: (usize, usize),
) {
    let rows: [&[[f32; BLOCK]]; ROWS] = std::array::from_fn(|row| left.rows.row(first + row).as_chunks().0);
    let block_sums: [&[f32]; ROWS] = std::array::from_fn(|row| left.sums.row(first + row));
    let zero = simd.splat_f32s(0.0);
    let mut totals = [[zero; WIDE]; ROWS];
    for (block, words) in words.chunks_exact(F::WORDS * WIDE).enumerate() {
        let (scales, words) = words.as_chunks::<WIDE>().0.split_at(1);
        let left: [&[[f32; PER]]; ROWS] = std::array::from_fn(|row| rows[row][block].as_chunks().0);
        let mut sums = [[zero; WIDE]; ROWS];
        for (at, word) in words.iter().enumerate() {
            let left: [&[f32; PER]; ROWS] = std::array::from_fn(|row| &left[row][at]);
            for (index, inner) in (0..).zip(0..PER) {
                let mut numbers = [zero; WIDE];
                for wide in 0..WIDE {
                    numbers[wide] = F::number(simd, word[wide], index);
                }
                for row in 0..ROWS {
                    let factor = simd.splat_f32s(left[row][inner]);
                    for wide in 0..WIDE {
                        sums[row][wide] = simd.mul_add_f32s(factor, numbers[wide], sums[row][wide]);
                    }
                }
            }
        }
        for wide in 0..WIDE {
            let (scale, offset) = F::scale(simd, scales[0][wide]);
            for row in 0..ROWS {
                let total = simd.mul_add_f32s(scale, sums[row][wide], totals[row][wide]);
                totals[row][wide] = simd.mul_add_f32s(offset, simd.splat_f32s(block_sums[row][block]), total);
            }
        }
    }
    let (row, column) = place;
    for (at, totals) in totals.iter().enumerate() {
        let place = S::as_mut_simd_f32s(&mut out.row_mut(row + at)[column..][..WIDE * S::F32_LANES]).0;
        place.copy_from_slice(totals);
    }
}

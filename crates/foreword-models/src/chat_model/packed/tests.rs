//! The product against the plain one in 64 bits over what the file's bytes mean, with each set of instructions that this machine has.

use proptest::prelude::*;

use super::{BLOCK, Left, Packed, PackedProduct, half};
use crate::compute::aligned::Rows;
use crate::compute::arches;
use crate::gguf::Encoding;

/// Bytes that depend on `seed`.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..count).map(|_| next()).collect()
}

/// A matrix as a file has it: random numbers, and scales of which each kind is there: normal, negative, zero, very small.
fn matrix(encoding: Encoding, rows: usize, inner: usize, seed: u64) -> Vec<u8> {
    let scales = [0x2c00_u16, 0xa801, 0x0000, 0x0003, 0x1555];
    let size = usize::try_from(encoding.block().unwrap().1).unwrap();
    let mut bytes = noise(seed, rows * inner / BLOCK * size);
    for (at, block) in bytes.chunks_exact_mut(size).enumerate() {
        block[..2].copy_from_slice(&scales[at % 5].to_le_bytes());
        if encoding == Encoding::Q4_1 {
            block[2..4].copy_from_slice(&scales[(at + 1) % 5].to_le_bytes());
        }
    }
    bytes
}

fn plain_half(bytes: &[u8]) -> f64 {
    let bits = u16::from_le_bytes([bytes[0], bytes[1]]);
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff) / 1024.0);
    let size = if exponent == 0 { fraction * 2_f64.powi(-14) } else { (1.0 + fraction) * 2_f64.powi(exponent - 15) };
    if bits >> 15 == 1 { -size } else { size }
}

/// The numbers that the bytes of a matrix mean, by the book.
fn plain(encoding: Encoding, bytes: &[u8]) -> Vec<f64> {
    let size = usize::try_from(encoding.block().unwrap().1).unwrap();
    let block = |block: &[u8]| -> Vec<f64> {
        let scale = plain_half(block);
        if encoding == Encoding::Q8_0 {
            return block[2..].iter().map(|byte| f64::from(byte.cast_signed()) * scale).collect();
        }
        let least = plain_half(&block[2..]);
        let low = block[4..].iter().map(|byte| byte & 0xf);
        low.chain(block[4..].iter().map(|byte| byte >> 4)).map(|number| f64::from(number) * scale + least).collect()
    };
    bytes.chunks_exact(size).flat_map(block).collect()
}

fn left(rows: usize, inner: usize, seed: u64, arch: pulp::Arch) -> Left {
    let mut left = Left::zeros(rows, inner);
    let noise = noise(seed, rows * inner);
    for row in 0..rows {
        for (place, byte) in left.rows.row_mut(row).iter_mut().zip(&noise[row * inner..]) {
            *place = f32::from(*byte) / 64.0 - 2.0;
        }
        left.sum_up(arch, row);
    }
    left
}

fn check(encoding: Encoding, rows: usize, inner: usize, columns: usize, seed: u64) {
    let bytes = matrix(encoding, columns, inner, seed);
    let numbers = plain(encoding, &bytes);
    for arch in arches() {
        let packed = Packed::new(arch, encoding, columns, inner, &bytes).unwrap();
        let mut row = vec![0.0; inner];
        for (column, numbers) in numbers.chunks_exact(inner).enumerate() {
            packed.row(column, &mut row);
            for (found, expect) in row.iter().zip(numbers) {
                assert!(
                    (f64::from(*found) - expect).abs() <= 1e-6 * expect.abs(),
                    "{arch:?} {encoding:?}: {found}, not {expect}"
                );
            }
        }
        packed.row(columns, &mut row);
        assert!(row.iter().all(|number| *number == 0.0));

        let left = left(rows, inner, seed ^ 5, arch);
        let product = |span: std::ops::Range<usize>, panels: std::ops::Range<usize>| {
            let mut out = Rows::zeros(span.len(), panels.len() * packed.panel());
            arch.dispatch(PackedProduct { left: &left, span, right: &packed, panels, out: &mut out });
            out
        };
        let all = product(0..rows, 0..packed.panels());
        for row in 0..rows {
            for (column, numbers) in numbers.chunks_exact(inner).enumerate() {
                let pairs = left.rows.row(row).iter().zip(numbers);
                let expect: f64 = pairs.clone().map(|(a, b)| f64::from(*a) * b).sum();
                let size: f64 = pairs.map(|(a, b)| (f64::from(*a) * b).abs()).sum();
                let found = f64::from(all.row(row)[column]);
                // What the offset takes away again is a few times larger than the numbers.
                assert!(
                    (found - expect).abs() < 1e-5 * (size + 0.1),
                    "{arch:?} {encoding:?} {row},{column}: {found}, not {expect}"
                );
            }
        }
        // To the bit the same, whatever rows and panels come together.
        for row in 0..rows {
            for panel in 0..packed.panels() {
                let alone = product(row..row + 1, panel..panel + 1);
                let place = panel * packed.panel();
                assert!(alone.row(0) == &all.row(row)[place..place + packed.panel()], "{arch:?} {row},{panel}");
            }
        }
    }
}

#[test]
fn every_number_of_rows_that_a_tile_can_have() {
    for rows in 1..=25 {
        check(Encoding::Q4_1, rows, 64, 40, 3);
        check(Encoding::Q8_0, rows, 64, 40, 3);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sizes(rows in 1..30_usize, blocks in 1..8_usize, columns in 1..80_usize, seed: u64) {
        check(Encoding::Q4_1, rows, blocks * BLOCK, columns, seed);
        check(Encoding::Q8_0, rows, blocks * BLOCK, columns, seed);
    }
}

#[test]
fn what_cannot_be_packed() {
    fn check(encoding: Encoding, rows: usize, inner: usize, bytes: &[u8], expect: bool) {
        assert_eq!(Packed::new(pulp::Arch::new(), encoding, rows, inner, bytes).is_some(), expect, "{encoding:?} {rows} {inner}");
    }
    check(Encoding::Q4_1, 1, 32, &[0; 20], true);
    check(Encoding::Q4_1, 1, 32, &[0; 19], false);
    check(Encoding::Q4_1, 1, 48, &[0; 20], false);
    check(Encoding::Q4_1, 0, 32, &[], false);
    check(Encoding::Q4_1, usize::MAX, 64, &[0; 20], false);
    check(Encoding::F32, 1, 32, &[0; 128], false);
    check(Encoding::Other(2), 1, 32, &[0; 18], false);
    check(Encoding::Q8_0, 1, 32, &[0; 34], true);
    let (infinite, none) = ([0x00, 0x7c], [0x01, 0xfe]);
    for bad in [infinite, none] {
        let mut bytes = [0; 34];
        bytes[..2].copy_from_slice(&bad);
        check(Encoding::Q8_0, 1, 32, &bytes, false);
        let mut bytes = [0; 20];
        bytes[2..4].copy_from_slice(&bad);
        check(Encoding::Q4_1, 1, 32, &bytes, false);
    }
}

#[test]
fn every_half_is_exact() {
    for bits in 0..=u16::MAX {
        let found = half(bits.into());
        if bits & 0x7c00 == 0x7c00 {
            assert!(!found.is_finite(), "{bits:#x}");
        } else {
            assert!((f64::from(found) - plain_half(&bits.to_le_bytes())).abs() < 1e-300, "{bits:#x}: {found}");
        }
    }
}

//! A row in bytes, and how far its score can be from what the bytes say.
//!
//! A row x is coded as x' = scale * c with whole c in -127..=127, and the query q as q' in the same way with 16 bits. By
//! Cauchy-Schwarz
//!
//! ```text
//! |x·q - x'·q'|  =  |(x - x')·q + x'·(q - q')|  <=  |x - x'| |q| + |x'| |q - q'|
//! ```
//!
//! All of these lengths are known: `error` is |x - x'|, `reach` is at least |x| and |x'|. What floating point adds, in the score
//! itself and in the bounds, is a few roundings relative to |x| |q|. Lengths are rounded up. Where a length is not a number or so
//! large that a sum could overflow, the bounds are infinite, and the row is simply read in full.

use super::kernel;
use crate::{DIMENSIONS, Vector};

/// One rounding to `f32`, relative.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;
/// The roundings of a score, and as many again and some for those of the bounds.
const SLACK: f64 = ROUNDING * (2 * kernel::ROUNDINGS + 16) as f64;
/// Products of two lengths up to this are far from overflow.
const LONGEST: f64 = 1e18;

const ROW_STEPS: i8 = i8::MAX;
const QUERY_STEPS: i16 = i16::MAX;
// The sum of the products must fit its type.
const _: () = assert!(ROW_STEPS as u64 * QUERY_STEPS as u64 * DIMENSIONS as u64 <= i32::MAX as u64);

/// The bytes of a coded row.
pub(super) type Code = [i8; DIMENSIONS];

/// How a coded row relates to the full one.
#[derive(Clone, Copy)]
pub(super) struct Fit {
    scale: f32,
    error: f32,
    reach: f32,
}

/// A score is not below `low` nor above `high`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) low: f32,
    pub(super) high: f32,
}

/// Codes a row.
pub(super) fn encode(vector: &Vector) -> (Code, Fit) {
    let (steps, scale) = steps(vector, f32::from(ROW_STEPS));
    #[allow(clippy::cast_possible_truncation)] // `steps` are within the type
    let code = steps.map(|step| step as i8);
    let Lengths { full, error } = Lengths::of(vector, &code.map(f64::from), scale);
    (code, Fit { scale, error: upward(error), reach: upward(full + error) })
}

/// A query, coded.
pub(super) struct CodedQuery {
    pub(super) code: [i16; DIMENSIONS],
    scale: f32,
    length: f32,
    /// What a row of reach 1 may be off by, besides its own error.
    slack: f32,
}

impl CodedQuery {
    /// Codes a query.
    pub(super) fn of(query: &Vector) -> Self {
        let (steps, scale) = steps(query, f32::from(QUERY_STEPS));
        #[allow(clippy::cast_possible_truncation)] // `steps` are within the type
        let code = steps.map(|step| step as i16);
        let Lengths { full, error } = Lengths::of(query, &code.map(f64::from), scale);
        Self { code, scale, length: upward(full), slack: upward(error + SLACK * full) }
    }

    /// The bounds of a row's score, from the product of the codes.
    pub(super) fn bounds(&self, product: i32, fit: &Fit) -> Bounds {
        let middle = product as f32 * fit.scale * self.scale;
        let margin = fit.error * self.length + fit.reach * self.slack + f32::MIN_POSITIVE;
        if margin < f32::INFINITY {
            Bounds { low: middle - margin, high: middle + margin }
        } else {
            Bounds { low: f32::NEG_INFINITY, high: f32::INFINITY }
        }
    }
}

/// The components in whole steps of the scale, at most `most` of them.
fn steps(vector: &Vector, most: f32) -> (Vector, f32) {
    let largest = vector.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
    let scale = largest / most;
    (vector.map(|x| (x / scale).round().clamp(-most, most)), scale)
}

struct Lengths {
    full: f64,
    /// Of the difference between the vector and its code.
    error: f64,
}

impl Lengths {
    fn of(vector: &Vector, code: &[f64; DIMENSIONS], scale: f32) -> Self {
        let (mut full, mut error) = (0.0, 0.0);
        for (x, step) in vector.iter().zip(code) {
            let x = f64::from(*x);
            let off = x - step * f64::from(scale);
            full += x * x;
            error += off * off;
        }
        Self { full: full.sqrt(), error: error.sqrt() }
    }
}

/// A length as `f32`, never shorter; endless where it is too long to reckon with, or not a number.
fn upward(length: f64) -> f32 {
    #[allow(clippy::cast_possible_truncation)] // rounding is what the factor and the step up are for
    let up = ((length * (1.0 + 8.0 * ROUNDING)) as f32).next_up();
    if length < LONGEST { up } else { f32::INFINITY }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::vectors::kernel::Row;
    use crate::vectors::tests::{Dice, KINDS, make, unit};

    fn check(row: &Vector, query: &Vector) {
        let (code, fit) = encode(row);
        let coded = CodedQuery::of(query);
        let mut product = [0];
        kernel::coded_dots(&[code], &coded.code, &mut product);
        let bounds = coded.bounds(product[0], &fit);
        let score = kernel::dot(&Row(*row), query);
        assert!(bounds.low <= score && score <= bounds.high, "{score} is not in {bounds:?}");
    }

    /// What the code leaves of a row.
    fn rest(row: &Vector) -> Vector {
        let (code, fit) = encode(row);
        std::array::from_fn(|i| row[i] - f32::from(code[i]) * fit.scale)
    }

    proptest! {
        #[test]
        fn bounds_hold_the_score(seed: u64, kind in prop::sample::select(&KINDS), asked in prop::sample::select(&KINDS)) {
            let mut dice = Dice(seed);
            let (row, query) = (make(kind, 1, &mut dice)[0], make(asked, 1, &mut dice)[0]);
            check(&row, &query);
            // The query that the error of the code matters most to: the bound is reached, not only kept.
            let worst = unit(&rest(&row));
            check(&row, &worst);
            check(&row, &worst.map(|x| -x));
        }
    }

    #[test]
    fn a_row_without_error_has_close_bounds() {
        let row = std::array::from_fn(|i| f32::from(i8::try_from(i % 128).unwrap()) / 128.0);
        assert_eq!(rest(&row).map(f32::to_bits), [0; DIMENSIONS]);
        let (code, fit) = encode(&row);
        let coded = CodedQuery::of(&row);
        let mut product = [0];
        kernel::coded_dots(&[code], &coded.code, &mut product);
        let Bounds { low, high } = coded.bounds(product[0], &fit);
        assert!((high - low) / high < 1e-4, "{low} {high}");
    }
}

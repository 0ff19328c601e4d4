//! Money as people and programs read it: in USD with six decimals, everywhere by these functions.

/// Decimals of a dollar that are told.
const PARTS: f64 = 1_000_000.0;

/// An amount with six decimals, as a number for programs. There is no negative zero.
pub fn usd(amount: f64) -> f64 {
    let rounded = (amount * PARTS).round() / PARTS;
    if rounded == 0.0 { 0.0 } else { rounded }
}

/// The same as text: `$0.001187`.
pub fn dollars(amount: f64) -> String {
    let rounded = usd(amount);
    if rounded < 0.0 { format!("-${:.6}", -rounded) } else { format!("${rounded:.6}") }
}

/// What a cache saved; what it cost where writing it was dearer than what was read from it.
pub fn saved(amount: f64) -> String {
    let rounded = usd(amount);
    if rounded < 0.0 {
        format!("cost {} more than without a cache", dollars(-rounded))
    } else {
        format!("{} saved by the cache", dollars(rounded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        let check = |amount: f64, number: &str, text: &str, of_cache: &str| {
            assert_eq!((usd(amount).to_string().as_str(), dollars(amount).as_str()), (number, text));
            assert_eq!(saved(amount), of_cache);
        };
        check(0.0, "0", "$0.000000", "$0.000000 saved by the cache");
        check(-0.0, "0", "$0.000000", "$0.000000 saved by the cache");
        check(-0.000_000_2, "0", "$0.000000", "$0.000000 saved by the cache");
        check(0.013_418_300_000_000_001, "0.013418", "$0.013418", "$0.013418 saved by the cache");
        check(-0.001_187, "-0.001187", "-$0.001187", "cost $0.001187 more than without a cache");
        check(12.5, "12.5", "$12.500000", "$12.500000 saved by the cache");
    }
}

//! What the tests need before they can run. All of it belongs here, so that a fresh clone needs no other command: today that
//! is a few variables, and a file that a test has to download would be fetched here.

use std::num::NonZeroU32;

/// The environment variables that the tests run with, beside those that are set already.
///
/// Without a number of cases the property tests go the same way every time, so that a red run means a changed program. Who asks
/// for a number searches anew.
pub(crate) fn variables(cases: Option<NonZeroU32>) -> Vec<(&'static str, String)> {
    vec![match cases {
        Some(cases) => ("PROPTEST_CASES", cases.to_string()),
        None => ("PROPTEST_RNG_SEED", "1".to_owned()),
    }]
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::variables;

    #[test]
    fn cases_reach_the_property_tests() {
        assert_eq!(variables(None), [("PROPTEST_RNG_SEED", "1".to_owned())]);
        assert_eq!(variables(NonZeroU32::new(64)), [("PROPTEST_CASES", "64".to_owned())]);
    }
}

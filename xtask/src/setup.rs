//! What the tests need before they can run. All of it belongs here, so that a fresh clone needs no other command: today that
//! is a few variables, and a file that a test has to download would be fetched here.

use std::num::NonZeroU32;

/// The environment variables that the tests run with, beside those that are set already.
pub(crate) fn variables(cases: Option<NonZeroU32>) -> Vec<(&'static str, String)> {
    cases.map(|cases| ("PROPTEST_CASES", cases.to_string())).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::variables;

    #[test]
    fn cases_reach_the_property_tests() {
        assert_eq!(variables(None), []);
        assert_eq!(variables(NonZeroU32::new(64)), [("PROPTEST_CASES", "64".to_owned())]);
    }
}

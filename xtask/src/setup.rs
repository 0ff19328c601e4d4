//! What the tests need before they can run. All of it belongs here, so that a fresh clone needs no other command: the weights of the
//! models, fetched once, and a few variables.

use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cargo::Cargo;
use crate::step::Steps;

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

/// Fetches the models that are not here yet, through the product itself, built as `profile` says; the folder that holds them.
pub(crate) fn models(cargo: &Cargo, steps: &mut Steps, profile: &str) -> Result<Option<PathBuf>> {
    let foreword = ["run", "--quiet", "--profile", profile, "--package", "foreword", "--", "models"];
    steps.run(cargo.command(foreword).args(["fetch", "--all", "--quiet"]))?;
    if !steps.all_passed() {
        return Ok(None);
    }
    let listed = cargo.command(foreword).arg("--json").output().context("cannot ask where the models are")?;
    let rows = String::from_utf8_lossy(&listed.stdout);
    let rows = rows.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut folders = rows.filter_map(|row| row.get("folder")?.as_str().map(PathBuf::from));
    Ok(folders.find_map(|folder| folder.parent().map(PathBuf::from)))
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

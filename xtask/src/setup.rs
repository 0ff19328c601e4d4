//! What the tests need before they can run. All of it belongs here, so that a fresh clone needs no other command: the weights of the
//! models, the tool servers from npm, a browser and the sandbox from the system's packages, fetched once, and a few variables.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cargo::{self, Cargo};
use crate::step::Steps;

/// What tests run from npm: tool servers whose answers are tested word by word, clients of MCP and ACP, and a program that counts the
/// same logs as `foreword audit`.
const NPM: [(&str, &str); 7] = [
    ("@modelcontextprotocol/server-everything", "2026.8.31"),
    ("@modelcontextprotocol/server-filesystem", "2026.8.31"),
    ("@modelcontextprotocol/inspector", "0.15.0"),
    ("@agentclientprotocol/sdk", "2.4.0"),
    ("acpx", "0.19.1"),
    ("@anthropic-ai/claude-code", "2.1.197"),
    ("ccusage", "20.0.24"),
];

/// The version of cargo-deny that `deny.toml` is written for.
const DENY_VERSION: &str = "0.20.2";

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
    let foreword = ["run", "--quiet", "--profile", profile, "--package", "foreword-cli", "--", "models"];
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

/// Installs the packages from npm that are not here yet; the folder that holds them, beside what cargo builds.
pub(crate) fn npm_packages(steps: &mut Steps) -> Result<PathBuf> {
    let own = env::current_exe().context("cannot tell where this program is")?;
    let target = own.ancestors().nth(2).context("this program is not in cargo's target folder")?;
    let folder = target.join("npm");
    if !NPM.iter().all(|(package, version)| is_there(&folder, package, version)) {
        // What a package would run when it is installed is not needed, so it is not run.
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", "--prefix"]).arg(&folder);
        steps.run(npm.args(NPM.map(|(package, version)| format!("{package}@{version}"))))?;
    }
    Ok(folder)
}

/// The program that checks the dependencies, installed beside what cargo builds where it is not here yet.
pub(crate) fn cargo_deny(cargo: &Cargo, steps: &mut Steps) -> Result<PathBuf> {
    let own = env::current_exe().context("cannot tell where this program is")?;
    let target = own.ancestors().nth(2).context("this program is not in cargo's target folder")?;
    let folder = target.join("tools");
    let program = folder.join("bin").join(if cfg!(windows) { "cargo-deny.exe" } else { "cargo-deny" });
    if !program.exists() {
        // It runs for seconds, so it is not worth the minutes that an optimised build takes.
        let mut install = cargo.command(["install", "cargo-deny", "--locked", "--debug", "--version", DENY_VERSION, "--root"]);
        steps.run(install.arg(&folder).env("CARGO_PROFILE_DEV_DEBUG", "false"))?;
    }
    Ok(program)
}

/// Installs what the tests need from the system's packages where it is not here yet (Debian's packages; elsewhere a person has to):
/// Chromium and its driver, and what makes the sandboxes of tool servers.
pub(crate) fn system_packages(steps: &mut Steps) -> Result<()> {
    let mut missing: Vec<&str> = Vec::new();
    if !cargo::is_installed("chromedriver") {
        missing.extend(["chromium", "chromium-driver"]);
    }
    if cfg!(target_os = "linux") && !cargo::is_installed("bwrap") {
        missing.push("bubblewrap");
    }
    if !missing.is_empty() {
        let install = ["install", "--yes", "--no-install-recommends"];
        steps.run(Command::new("apt-get").args(["update", "--quiet"]))?;
        steps.run(Command::new("apt-get").args(install).args(missing).env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    Ok(())
}

/// Builds the program as the tests run it; where it is.
pub(crate) fn debug_program(cargo: &Cargo, steps: &mut Steps) -> Result<PathBuf> {
    steps.run(&mut cargo.command(["build", "--package", "foreword-cli"]))?;
    ensure!(steps.all_passed(), "the program was not built, so the docs were not checked");
    debug_program_path()
}

/// Where cargo puts the program as the tests run it.
pub(crate) fn debug_program_path() -> Result<PathBuf> {
    let own = env::current_exe().context("cannot tell where this program is")?;
    Ok(own.with_file_name(if cfg!(windows) { "foreword.exe" } else { "foreword" }))
}

/// Builds the program as people run it; where it is.
pub(crate) fn program(cargo: &Cargo, steps: &mut Steps) -> Result<PathBuf> {
    steps.run(&mut cargo.command(["build", "--release", "--package", "foreword-cli"]))?;
    let own = env::current_exe().context("cannot tell where this program is")?;
    let target = own.ancestors().nth(2).context("this program is not in cargo's target folder")?;
    Ok(target.join("release").join(if cfg!(windows) { "foreword.exe" } else { "foreword" }))
}

fn is_there(folder: &Path, package: &str, version: &str) -> bool {
    let manifest = fs::read_to_string(folder.join("node_modules").join(package).join("package.json"));
    let manifest = manifest.ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    manifest.is_some_and(|manifest| manifest.get("version").and_then(Value::as_str) == Some(version))
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

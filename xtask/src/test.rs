//! `cargo xtask test`: all tests of the workspace, and the commands that the docs show.

use std::env;
use std::num::NonZeroU32;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo::Cargo;
use crate::python;
use crate::setup;
use crate::step::Steps;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many cases each property test tries, from a new seed; without it, the test's own number from a fixed one
    #[arg(long, value_name = "N")]
    cases: Option<NonZeroU32>,

    /// How many generated exchanges pass the gateway at the level `observe` and are compared byte by byte; 300 without it
    #[arg(long, value_name = "N")]
    exchanges: Option<NonZeroU32>,
}

/// Sets up what the tests need and runs them all, past the first failure.
pub(crate) fn run(args: &Args, cargo: &Cargo, steps: &mut Steps) -> Result<()> {
    let mut variables = setup::variables(args.cases);
    variables.extend(args.exchanges.map(|exchanges| ("FOREWORD_EXCHANGES", exchanges.to_string())));
    if let Some(models) = setup::models(cargo, steps, "dev")? {
        variables.push(("FOREWORD_MODELS", models.display().to_string()));
    }
    variables.push(("FOREWORD_NPM", setup::npm_packages(steps)?.display().to_string()));
    setup::system_packages(steps)?;
    let python = python::with("python", &python::CLIENTS, steps)?;
    variables.push(("FOREWORD_TEST_PYTHON", python.display().to_string()));
    let commands: &[&[&str]] = if cargo.has("nextest") {
        // nextest does not know doc tests. They go first, so that the last lines on the screen are the summary of the many.
        // Benches and examples: clippy sees that they compile, and linking them takes longer than the tests.
        &[
            &["test", "--workspace", "--doc", "--no-fail-fast"],
            &["nextest", "run", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"],
        ]
    } else {
        &[&["test", "--workspace", "--no-fail-fast"]]
    };
    for &command in commands {
        steps.run(cargo.command(command).envs(variables.iter().map(|(name, value)| (*name, value))))?;
    }
    // With the program that the tests have built.
    let mut docs = Command::new(env::current_exe().context("cannot tell where this program is")?);
    docs.args(["docs", "--check", "--bin"]).arg(setup::debug_program_path()?);
    steps.run(docs.envs(variables.iter().map(|(name, value)| (*name, value))))
}

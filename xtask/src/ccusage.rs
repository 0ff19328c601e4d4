//! `cargo xtask ccusage`: the totals of `foreword audit` against those of ccusage, on logs that are too large or too private for tests.

use std::path::PathBuf;

use anyhow::Result;

use crate::cargo::Cargo;
use crate::setup;
use crate::step::Steps;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Home folders with logs
    #[arg(value_name = "HOME", required = true)]
    homes: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args, cargo: &Cargo, steps: &mut Steps) -> Result<()> {
    let modules = setup::npm_packages(steps)?;
    let mut command = cargo.command(["run", "--quiet", "--package", "foreword-audit", "--example", "compare_ccusage", "--"]);
    steps.run(command.arg(modules).args(&args.homes))
}

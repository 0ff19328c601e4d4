//! `cargo xtask crash`: the crash tests of the engine and of the server, as often as asked.

use std::num::NonZeroU32;

use anyhow::Result;

use crate::cargo::Cargo;
use crate::step::Steps;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often the process is killed
    #[arg(long, value_name = "N", default_value = "500")]
    times: NonZeroU32,

    /// Where the moments of the kills and what the process does begin
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
}

/// Runs the tests with their own numbers.
pub(crate) fn run(args: &Args, cargo: &Cargo, steps: &mut Steps) -> Result<()> {
    for package in ["foreword-engine", "foreword-server"] {
        let mut command = cargo.command(["test", "--package", package, "--test", "crash", "--", "--nocapture"]);
        let variables = [("FOREWORD_CRASHES", args.times.to_string()), ("FOREWORD_CRASH_SEED", args.seed.to_string())];
        steps.run(command.envs(variables))?;
    }
    Ok(())
}

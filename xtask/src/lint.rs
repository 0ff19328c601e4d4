//! `cargo xtask lint`: what the compiler does not insist on, but the project does.

use anyhow::Result;

use crate::cargo::Cargo;
use crate::setup;
use crate::step::Steps;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also check the dependencies for known vulnerabilities; this downloads the advisory database
    #[arg(long)]
    advisories: bool,
}

/// Checks the formatting, the lints, the documentation and the dependencies.
pub(crate) fn run(args: &Args, cargo: &Cargo, steps: &mut Steps) -> Result<()> {
    steps.run(&mut cargo.command(["fmt", "--all", "--check"]))?;
    steps.run(&mut cargo.command(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    steps
        .run(cargo.command(["doc", "--workspace", "--no-deps", "--document-private-items"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    let deny = setup::cargo_deny(cargo, steps)?;
    for checked in [&["bans", "licenses", "sources"][..], &["advisories"]].into_iter().take(1 + usize::from(args.advisories)) {
        steps.run(std::process::Command::new(&deny).current_dir(cargo.root()).args(["--workspace", "check"]).args(checked))?;
    }
    Ok(())
}

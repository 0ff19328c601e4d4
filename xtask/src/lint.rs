//! `cargo xtask lint`: what the compiler does not insist on, but the project does.

use anyhow::{Result, bail};

use crate::cargo::Cargo;
use crate::step::Steps;

const INSTALL: &str = "install it with `cargo install cargo-deny --locked`";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also check the dependencies for known vulnerabilities; this downloads the advisory database
    #[arg(long)]
    advisories: bool,
}

/// Checks formatting and lints, and the dependencies where cargo-deny is there to do it.
pub(crate) fn run(args: &Args, cargo: &Cargo, steps: &mut Steps) -> Result<()> {
    let deny = cargo.has("deny");
    if args.advisories && !deny {
        bail!("--advisories needs cargo-deny, which is not installed: {INSTALL}");
    }
    steps.run(&mut cargo.command(["fmt", "--all", "--check"]))?;
    steps.run(&mut cargo.command(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    if deny {
        steps.run(&mut cargo.command(["deny", "--workspace", "check", "bans", "licenses", "sources"]))?;
    } else {
        steps.note(&format!("the dependencies were not checked, because cargo-deny is not installed: {INSTALL}"))?;
    }
    if args.advisories {
        steps.run(&mut cargo.command(["deny", "--workspace", "check", "advisories"]))?;
    }
    Ok(())
}

//! The project's own chores, so that testing, linting and measuring are one command each on any machine.

mod bench;
mod callgrind;
mod cargo;
mod ccusage;
mod clients;
mod crash;
mod docs;
mod fuzz;
mod lint;
mod picture;
mod python;
mod setup;
mod step;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::cargo::Cargo;
use crate::step::Steps;

/// The project's own chores: test, lint, docs, bench, fuzz, picture
///
/// Each chore prints every command before it runs it, so that any of them can be repeated by hand. A chore goes on after a
/// failed step and names all that failed at the end; it then exits with 1. Only `docs` and `picture` write files, each in one go, so
/// Ctrl-C is safe at any point.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run all tests of the workspace, doc tests included
    ///
    /// Uses cargo-nextest where it is installed and `cargo test` where it is not.
    #[command(
        after_help = "Examples:\n  cargo xtask test\n  cargo xtask test --cases 50000   a longer search for counterexamples"
    )]
    Test(test::Args),

    /// Check formatting, lints, and the dependencies' licences and sources
    ///
    /// The dependencies are checked against deny.toml where cargo-deny is installed.
    #[command(after_help = "Examples:\n  cargo xtask lint\n  cargo xtask lint --advisories   also ask for known vulnerabilities")]
    Lint(lint::Args),

    /// Build a benchmark in release mode and run it
    ///
    /// After `core`, where valgrind is installed, the instructions that one more envelope takes are counted in sessions of 100,
    /// 1,000 and 10,000 turns. Instructions, unlike seconds, are the same whatever else the machine is doing.
    #[command(
        after_help = "Examples:\n  cargo xtask bench core\n  cargo xtask bench cost -- --help   the benchmark's own options"
    )]
    Bench(bench::Args),

    /// Search for inputs that break the readers of notes, frontmatter and links
    ///
    /// Builds the fuzz targets with coverage on and runs each for a while. An input that breaks one is kept in fuzz/target/finds, and the
    /// command that repeats it is printed.
    #[command(
        after_help = "Examples:\n  cargo xtask fuzz\n  cargo xtask fuzz markdown --seconds 600   one target for ten minutes"
    )]
    Fuzz(fuzz::Args),

    /// Kill a process that keeps sessions, again and again, and check that nothing it acknowledged is lost
    #[command(
        after_help = "Examples:\n  cargo xtask crash --times 500\n  cargo xtask crash --times 500 --seed 7   other moments"
    )]
    Crash(crash::Args),

    /// Run the commands that README and docs show, and write their output
    ///
    /// With --check nothing is written, and an output that differs is an error; `cargo xtask test` does that too. It also names links and
    /// file names that lead nowhere.
    #[command(after_help = "Examples:\n  cargo xtask docs --check\n  cargo xtask docs docs/search.md   one page")]
    Docs(docs::Args),
    /// Run real clients (Claude Code, Codex, opencode, aider …) through the gateway
    ///
    /// Each makes three turns with a tool, at the levels `observe` and `assist`, without a failure, with an overloaded provider and with a
    /// stream that is cut, and the same without the gateway. What arrives at the provider is compared with what the client sent.
    #[command(after_help = "Examples:\n  cargo xtask clients\n  cargo xtask clients claude codex   only those")]
    Clients(clients::Args),

    /// Compare what `foreword audit` counts with what ccusage counts
    ///
    /// HOME is a home folder with the logs of coding agents. Sessions that are not counted alike are named with the reason; one without a
    /// known reason is a failure.
    #[command(after_help = "Example:\n  cargo xtask ccusage ~")]
    Ccusage(ccusage::Args),

    /// Draw the README's picture anew: one conversation in both layouts
    Picture,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not by returning it from `main`: that would add a backtrace for whoever has them on, and bury the message.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let cargo = Cargo::from_environment()?;
    let mut steps = Steps::on_stderr();
    match &cli.chore {
        Chore::Test(args) => test::run(args, &cargo, &mut steps)?,
        Chore::Lint(args) => lint::run(args, &cargo, &mut steps)?,
        Chore::Bench(args) => bench::run(args, &cargo, &mut steps)?,
        Chore::Fuzz(args) => fuzz::run(args, &cargo, &mut steps)?,
        Chore::Crash(args) => crash::run(args, &cargo, &mut steps)?,
        Chore::Docs(args) => docs::run(args, &cargo, &mut steps)?,
        Chore::Clients(args) => clients::run(args, &cargo, &mut steps)?,
        Chore::Ccusage(args) => ccusage::run(args, &cargo, &mut steps)?,
        Chore::Picture => picture::run(&cargo)?,
    }
    steps.finish()
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    fn check(line: &str, accepted: bool) {
        assert_eq!(Cli::try_parse_from(line.split(' ')).is_ok(), accepted, "{line}");
    }

    #[test]
    fn command_line() {
        Cli::command().debug_assert();
        check("xtask test", true);
        check("xtask test --cases 64", true);
        check("xtask test --cases 0", false);
        check("xtask lint --advisories", true);
        check("xtask bench core", true);
        check("xtask bench cost -- --anything 3", true);
        check("xtask bench cost --anything", false);
        check("xtask fuzz", true);
        check("xtask fuzz links --seconds 5", true);
        check("xtask fuzz nothing", false);
        check("xtask fuzz --seconds 0", false);
        check("xtask docs", true);
        check("xtask docs --check --bin foreword docs/search.md", true);
        check("xtask docs --bin", false);
        check("xtask ccusage home other", true);
        check("xtask ccusage", false);
        check("xtask clients", true);
        check("xtask clients claude codex", true);
        check("xtask bench", false);
        check("xtask", false);
    }
}

//! The command line: the only place that knows the terminal.

mod simulate;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Everything that is said to the model before it answers.
#[derive(Parser)]
#[command(
    name = "foreword",
    version,
    arg_required_else_help = true,
    after_help = "Begin with:\n  foreword simulate examples/scenarios/*.json"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run conversations offline: what would be sent, why, and what a provider's prompt cache would make of it
    #[command(long_about = simulate::LONG_ABOUT, after_help = simulate::AFTER_HELP)]
    Simulate(simulate::Args),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Simulate(args) => simulate::main(&args),
    }
}

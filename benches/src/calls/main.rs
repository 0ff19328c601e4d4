//! `cargo xtask bench calls`: what cache lifetimes and keep-alives would have cost over logged calls of coding agents, and how far the cache
//! simulators are from what providers reported there.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // counts and seconds are small

mod calibration;
mod data;
mod policies;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Parser;
use foreword_prompt_cache::lifetime::Terms;
use foreword_provider::table::ModelTable;

use calibration::{Life, Since};
use data::Chain;
use policies::{Memory, Policy};

/// Relative to the root of the workspace.
const DATA: &str = "../shared/data";
const FILE: &str = "agent-calls-dev.jsonl.gz";

/// Cache lifetimes and keep-alives over logged calls, and the simulators against what was reported.
#[derive(Parser)]
struct Args {
    /// The folder of the data set
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// The file in it
    #[arg(long, value_name = "FILE", default_value = FILE)]
    file: String,
}

const POLICIES: [(&str, Policy); 8] = [
    ("as logged", Policy::Logged),
    ("always 5 minutes", Policy::Short),
    ("always 1 hour", Policy::Long),
    ("1 hour in the main thread", Policy::LongInMain),
    ("5 minutes, 3 keep-alives", Policy::Pings(3)),
    ("chosen", Policy::Chosen),
    ("chosen, with keep-alive", Policy::KeptAlive),
    ("the next pause is known", Policy::Oracle),
];

fn main() -> Result<()> {
    let args = Args::parse();
    let data = args.data.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(DATA));
    let file = data.join(&args.file);
    if !file.is_file() {
        println!("nothing was measured: {} is not there (name its folder with `-- --data DIR`)", file.display());
        return Ok(());
    }
    let chains = data::read(&file)?;
    let claude: Vec<&Chain> = chains.iter().filter(|chain| chain.calls[0].agent == "claude").collect();
    let table = ModelTable::builtin()?;
    print_policies(&claude, &table)?;
    print_lifetimes(&claude);
    print_errors(&chains, &table);
    Ok(())
}

fn print_policies(claude: &[&Chain], table: &ModelTable) -> Result<()> {
    let calls: usize = claude.iter().map(|chain| chain.calls.len()).sum();
    println!("{calls} calls of Claude Code in {} chains: input cost as a share of always 5 minutes,", claude.len());
    println!("and in brackets the worst log of at least 20 calls; by price of a read as a share of input.");
    for (memory, title) in [
        (Memory::Marks, "a mark's entry lives as long as the mark says, as documented"),
        (Memory::Parts, "a prefix lives only as long as the part of it that lives shortest"),
    ] {
        println!("\n  {title}\n  {:<28}{:>18}{:>18}{:>18}", "", "0.1", "0.05", "0.025");
        for (name, policy) in POLICIES {
            print!("  {name:<28}");
            for read in [0.1, 0.05, 0.025] {
                let (ratio, worst) = policies::ratio(claude, policy, &terms(table, read)?, memory);
                print!("{:>18}", format!("{ratio:.3} ({worst:.3})"));
            }
            println!();
        }
    }
    print!("  {:<28}", "the better one for each log");
    for read in [0.1, 0.05, 0.025] {
        print!("{:>18}", format!("{:.3}        ", policies::better_of_both(claude, &terms(table, read)?)));
    }
    println!();
    Ok(())
}

/// Anthropic's rules, with a price of reading.
fn terms(table: &ModelTable, read: f64) -> Result<Terms> {
    let terms = Terms::of(&table.find("claude-opus-5")?).context("there is no lifetime to choose")?;
    Ok(Terms { input: 1.0, read, write: 1.25, write_long: 2.0, ..terms })
}

fn print_lifetimes(claude: &[&Chain]) {
    println!("\nLifetimes: reads after pauses of a minute and more that they foretell wrongly.");
    println!("  {:<44}{:>8}{:>14}{:>14}", "", "calls", "gone before", "alive after");
    for (name, short_s, long_s, since) in [
        ("300 s and 3,600 s from the last request", 300.0, 3600.0, Since::Start),
        ("305 s and 3,605 s from the last request", 305.0, 3605.0, Since::Start),
        ("310 s and 3,610 s from the last request", 310.0, 3610.0, Since::Start),
        ("315 s and 3,615 s from the last request", 315.0, 3615.0, Since::Start),
        ("320 s and 3,620 s from the last request", 320.0, 3620.0, Since::Start),
        ("300 s and 3,600 s from the end of its answer", 300.0, 3600.0, Since::End),
        ("305 s and 3,605 s from the end of its answer", 305.0, 3605.0, Since::End),
        ("310 s and 3,610 s from the end of its answer", 310.0, 3610.0, Since::End),
        ("315 s and 3,615 s from the end of its answer", 315.0, 3615.0, Since::End),
        ("320 s and 3,620 s from the end of its answer", 320.0, 3620.0, Since::End),
    ] {
        let (all, lapsed, kept) = calibration::lifetime_errors(claude, Life { short_s, long_s, since });
        println!("  {name:<44}{all:>8}{lapsed:>14}{kept:>14}");
    }
}

fn print_errors(chains: &[Chain], table: &ModelTable) {
    println!("\nSimulator against report: error of the tokens read, as a share of the prompt.");
    println!("  {:<36}{:<14}{:>7}{:>9}{:>9}{:>20}", "rules", "cause in log", "calls", "median", "p90", "foretold / reported");
    for ((group, cause), errors) in calibration::errors(chains, table) {
        let share = errors.foretold as f64 / errors.reported.max(1) as f64;
        println!(
            "  {group:<36}{cause:<14}{:>7}{:>8.2}%{:>8.2}%{share:>20.3}",
            errors.calls(),
            errors.quantile(0.5) * 100.0,
            errors.quantile(0.9) * 100.0
        );
    }
}

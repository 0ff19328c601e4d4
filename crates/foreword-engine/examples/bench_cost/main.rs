//! `cargo xtask bench cost`: what long conversations cost with a prompt cache, policy by policy, on public agent runs.

mod bill;
mod data;
mod hindsight;
mod replay;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Parser;

use bill::Bill;
use data::{Conversation, Observations};
use hindsight::Folds;
use replay::Policy;

/// Relative to the root of the workspace.
const DATA: &str = "../shared/data";

/// What conversations cost with a prompt cache, relative to the same without one.
#[derive(Parser)]
struct Args {
    /// The folder of the data sets
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Show every conversation
    #[arg(long)]
    detail: bool,
}

/// A data set and how long a tool output may be.
struct Set {
    title: &'static str,
    file: &'static str,
    observations: Observations,
    output_chars: usize,
}

/// No output is ever cut.
const UNCAPPED: usize = usize::MAX;

const SETS: [Set; 3] = [
    Set {
        title: "SWE-agent, outputs as they came",
        file: "swe-agent-dev.jsonl.gz",
        observations: Observations::AsUser,
        output_chars: UNCAPPED,
    },
    Set {
        title: "SWE-agent, outputs of at most 8,000 characters",
        file: "swe-agent-dev.jsonl.gz",
        observations: Observations::AsUser,
        output_chars: 8_000,
    },
    Set {
        title: "tau-bench airline, outputs of at most 8,000 characters",
        file: "tau-airline-dev.jsonl.gz",
        observations: Observations::AsTool,
        output_chars: 8_000,
    },
];

// Places in `POLICIES`.
const APPEND_ONLY: usize = 1;
const LOG: usize = 6;
const OPTIMUM: usize = 7;

const POLICIES: [&str; 8] = [
    "glue everything into the last message",
    "append only",
    "mask every turn",
    "fold every 10 requests",
    "fold every 20 requests",
    "library",
    "log",
    "optimum in hindsight",
];

/// One conversation under every policy.
struct Row {
    name: String,
    requests: usize,
    bills: [Bill; POLICIES.len()],
    best: Vec<usize>,
}

impl Row {
    /// Cost of a policy, in parts of what the unshortened conversation costs without a cache.
    fn relative(&self, policy: usize) -> f64 {
        self.bills[policy].cost / self.bills[APPEND_ONLY].uncached
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let data = args.data.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(DATA));
    let missing = SETS.iter().map(|set| set.file).find(|file| !data.join(file).is_file());
    if let Some(file) = missing {
        println!("nothing was measured: {} is not there (name its folder with `-- --data DIR`)", data.join(file).display());
        return Ok(());
    }
    println!("Cost relative to no caching: a token read from the cache costs 0.1, one written to it 1.25; chars4 tokens.");
    for set in SETS {
        let conversations = data::read(&data.join(set.file), set.observations)?;
        let rows: Vec<Row> = conversations.iter().map(|one| row(one, set.output_chars)).collect::<Result<_>>()?;
        println!("\n{}: {} conversations, {} requests", set.title, rows.len(), sum(&rows, |row| row.requests));
        print_policies(&rows);
        if args.detail {
            print_rows(&rows);
        }
    }
    Ok(())
}

fn row(conversation: &Conversation, output_chars: usize) -> Result<Row> {
    let best = Folds::of(conversation, output_chars)?.best();
    let bill = |policy| replay::bill(conversation, output_chars, &policy);
    let bills = [
        bill(Policy::Glued)?,
        bill(Policy::Folded(&|_| false))?,
        bill(Policy::Folded(&|_| true))?,
        bill(Policy::Folded(&|at| at.is_multiple_of(10)))?,
        bill(Policy::Folded(&|at| at.is_multiple_of(20)))?,
        bill(Policy::Library)?,
        bill(Policy::Log)?,
        bill(Policy::Folded(&|at| best.folds.contains(&at)))?,
    ];
    check(&conversation.name, &bills, best.cost)?;
    Ok(Row { name: conversation.name.clone(), requests: conversation.rounds.len(), bills, best: best.folds })
}

/// The optimum is one only if its folds are those of the sessions: then it costs what was expected, and nothing costs less.
fn check(name: &str, bills: &[Bill], expected: f64) -> Result<()> {
    let slack = expected * 1e-9;
    let replayed = bills[OPTIMUM].cost;
    ensure!((replayed - expected).abs() <= slack, "{name}: the best folds cost {replayed}, expected were {expected}");
    for (policy, bill) in POLICIES.iter().zip(bills) {
        ensure!(bill.cost >= expected - slack, "{name}: `{policy}` costs {}, less than the optimum {expected}", bill.cost);
    }
    Ok(())
}

fn sum<T: std::iter::Sum>(rows: &[Row], what: impl Fn(&Row) -> T) -> T {
    rows.iter().map(what).sum()
}

fn print_policies(rows: &[Row]) {
    let uncached: f64 = sum(rows, |row| row.bills[APPEND_ONLY].uncached);
    let cost = |policy: usize| sum::<f64>(rows, |row| row.bills[policy].cost) / uncached;
    println!("  {:<38}{:>8}{:>10}{:>12}", "policy", "cost", "rewrites", "to optimum");
    for (policy, name) in POLICIES.iter().enumerate() {
        let rewrites: usize = sum(rows, |row| row.bills[policy].rewrites);
        let over = (cost(policy) / cost(OPTIMUM) - 1.0) * 100.0;
        println!("  {name:<38}{:>8.4}{rewrites:>10}{over:>+10.1} %", cost(policy));
    }
}

fn print_rows(rows: &[Row]) {
    println!("\n  {:<40}{:>9}{:>9}{:>8}{:>8}{:>9}  best folds", "conversation", "requests", "append", "log", "best", "excess");
    for row in rows {
        let [append, log, best] = [APPEND_ONLY, LOG, OPTIMUM].map(|policy| row.relative(policy));
        println!(
            "  {:<40}{:>9}{append:>9.4}{log:>8.4}{best:>8.4}{:>+7.1} %  {:?}",
            row.name,
            row.requests,
            (log / best - 1.0) * 100.0,
            row.best
        );
    }
}

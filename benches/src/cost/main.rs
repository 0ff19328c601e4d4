//! `cargo xtask bench cost`: what long conversations cost with a prompt cache, policy by policy and by the rules of each provider, on public
//! agent runs.

mod bill;
mod data;
mod hindsight;
mod replay;
mod rules;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Parser;

use bill::{Bill, bill};
use data::{Conversation, Observations};
use hindsight::Folds;
use replay::{Policy, requests};
use rules::Rules;

/// Relative to the root of the workspace.
const DATA: &str = "../shared/data";

/// What conversations cost with a prompt cache, relative to the same as one log that is never folded.
#[derive(Parser)]
struct Args {
    /// The folder of the data sets
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Show every conversation by the rules of this column
    #[arg(long, value_name = "RULES")]
    detail: Option<String>,

    /// Only these columns
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    rules: Vec<String>,
}

/// A data set and how long a tool output may be.
struct Set {
    title: &'static str,
    file: &'static str,
    observations: Observations,
    output_chars: usize,
    /// So many conversations, one behind the other, are one.
    chained: usize,
}

/// No output is ever cut.
const UNCAPPED: usize = usize::MAX;

const SWE: Set =
    Set { title: "", file: "swe-agent-dev.jsonl.gz", observations: Observations::AsUser, output_chars: 8_000, chained: 1 };

const SETS: [Set; 5] = [
    Set { title: "SWE-agent, outputs as they came", output_chars: UNCAPPED, ..SWE },
    Set { title: "SWE-agent, outputs of at most 8,000 characters", ..SWE },
    Set {
        title: "tau-bench airline, outputs of at most 8,000 characters",
        file: "tau-airline-dev.jsonl.gz",
        observations: Observations::AsTool,
        ..SWE
    },
    Set { title: "SWE-agent, outputs as they came, four runs in a row", output_chars: UNCAPPED, chained: 4, ..SWE },
    Set { title: "SWE-agent, outputs of at most 8,000 characters, four runs in a row", chained: 4, ..SWE },
];

// Places in `POLICIES`.
const APPEND_ONLY: usize = 1;
const LOG: usize = 6;
const REPLAYED: usize = 7;

const POLICIES: [&str; 8] = [
    "glue all into one message",
    "append only",
    "mask every turn",
    "fold every 10 requests",
    "fold every 20 requests",
    "library",
    "log",
    "best times for whole folds",
];

/// One conversation by the rules of one provider.
struct Cell {
    bills: [Bill; POLICIES.len()],
    /// The least that whole folds at the best times could cost, with marks wherever they are needed.
    bound: f64,
    best: Vec<usize>,
}

/// One conversation.
struct Row {
    name: String,
    requests: usize,
    cells: Vec<Cell>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let data = args.data.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(DATA));
    let missing = SETS.iter().map(|set| set.file).find(|file| !data.join(file).is_file());
    if let Some(file) = missing {
        println!("nothing was measured: {} is not there (name its folder with `-- --data DIR`)", data.join(file).display());
        return Ok(());
    }
    let mut rules = rules::all()?;
    rules.retain(|rules| args.rules.is_empty() || args.rules.iter().any(|wanted| wanted == rules.title));
    ensure!(!rules.is_empty(), "no such rules: {}", args.rules.join(", "));
    println!(
        "Cost of the prompts as a share of appending only, by the rules and prices of each model; tokens of four characters."
    );
    println!("ideal: a token read costs 0.1, one written 1.25. llama.cpp, vllm: tokens evaluated.");
    for set in SETS {
        let conversations = data::chained(data::read(&data.join(set.file), set.observations)?, set.chained);
        let rows = rows(&conversations, &set, &rules)?;
        println!(
            "\n{}: {} conversations, {} requests",
            set.title,
            rows.len(),
            rows.iter().map(|row| row.requests).sum::<usize>()
        );
        print_policies(&rows, &rules);
        if let Some(column) = args.detail.as_ref().and_then(|name| rules.iter().position(|rules| rules.title == name)) {
            print_rows(&rows, column);
        }
    }
    Ok(())
}

/// Half of the conversations on each of two threads.
fn rows(conversations: &[Conversation], set: &Set, rules: &[Rules]) -> Result<Vec<Row>> {
    let part = |part: &[Conversation]| part.iter().map(|one| row(one, set.output_chars, rules)).collect::<Result<Vec<Row>>>();
    let (first, second) = conversations.split_at(conversations.len() / 2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| part(second));
        let mut rows = part(first)?;
        rows.extend(other.join().map_err(|_| anyhow::anyhow!("a thread of the bench ended"))??);
        Ok(rows)
    })
}

fn row(conversation: &Conversation, output_chars: usize, rules: &[Rules]) -> Result<Row> {
    let folds = Folds::of(conversation, output_chars)?;
    let of = |policy: Policy<'_>| requests(conversation, output_chars, &policy);
    let same = [
        of(Policy::Glued)?,
        of(Policy::Folded(&|_| false))?,
        of(Policy::Folded(&|_| true))?,
        of(Policy::Folded(&|at| at.is_multiple_of(10)))?,
        of(Policy::Folded(&|at| at.is_multiple_of(20)))?,
        of(Policy::Library)?,
    ];
    let mut cells = Vec::new();
    for rules in rules {
        let best = folds.best(rules);
        let mut bills = [Bill::default(); POLICIES.len()];
        for (bill_of, requests) in bills.iter_mut().zip(&same) {
            *bill_of = bill(requests, rules);
        }
        bills[LOG] = bill(&of(Policy::Log(rules.prices()))?, rules);
        bills[REPLAYED] = bill(&of(Policy::Folded(&|at| best.folds.contains(&at)))?, rules);
        let cell = Cell { bills, bound: best.cost, best: best.folds };
        check(&conversation.name, rules.title, &cell)?;
        cells.push(cell);
    }
    Ok(Row { name: conversation.name.clone(), requests: conversation.rounds.len(), cells })
}

/// The bound is one only if no policy that makes whole folds costs less.
fn check(name: &str, rules: &str, cell: &Cell) -> Result<()> {
    for policy in [APPEND_ONLY, 2, 3, 4, REPLAYED] {
        let (cost, bound) = (cell.bills[policy].cost, cell.bound);
        let what = POLICIES[policy];
        ensure!(cost >= bound * (1.0 - 1e-9), "{name}, {rules}: `{what}` costs {cost}, less than the bound {bound}");
    }
    Ok(())
}

fn print_policies(rows: &[Row], rules: &[Rules]) {
    let sum = |column: usize, what: &dyn Fn(&Cell) -> f64| rows.iter().map(|row| what(&row.cells[column])).sum::<f64>();
    let cost = |column: usize, policy: usize| sum(column, &|cell| cell.bills[policy].cost);
    print!("  {:<27}", "");
    for rules in rules {
        print!("{:>10}", rules.title);
    }
    println!();
    let line = |name: &str, value: &dyn Fn(usize) -> f64| {
        print!("  {name:<27}");
        (0..rules.len()).for_each(|column| print!("{:>10.4}", value(column)));
        println!();
    };
    for (policy, name) in POLICIES.iter().enumerate() {
        line(name, &|column| cost(column, policy) / cost(column, APPEND_ONLY));
    }
    let bound = |column| sum(column, &|cell| cell.bound);
    line("bound: marks at will", &|column| bound(column) / cost(column, APPEND_ONLY));
    line("log / bound", &|column| cost(column, LOG) / bound(column));
    print!("  {:<27}", "folds of log");
    (0..rules.len()).for_each(|column| print!("{:>10}", sum(column, &|cell| cell.bills[LOG].rewrites as f64)));
    println!();
}

fn print_rows(rows: &[Row], column: usize) {
    println!("\n  {:<40}{:>9}{:>8}{:>8}{:>9}{:>7}  best folds", "conversation", "requests", "log", "best", "excess", "folds");
    for row in rows {
        let cell = &row.cells[column];
        let append = cell.bills[APPEND_ONLY].cost;
        let (log, best) = (cell.bills[LOG].cost / append, cell.bound / append);
        println!(
            "  {:<40}{:>9}{log:>8.4}{best:>8.4}{:>+7.1} %{:>7}  {:?}",
            row.name,
            row.requests,
            (log / best - 1.0) * 100.0,
            cell.bills[LOG].rewrites,
            cell.best
        );
    }
}

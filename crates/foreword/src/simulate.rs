//! `foreword simulate`.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args as ClapArgs, ValueEnum};
use foreword_engine::simulate::report::Report;
use foreword_engine::simulate::{Loaded, Overrides, ScenarioError, load, run};
use foreword_engine::{Layout, PROVIDERS};

use crate::paint::Paint;
use crate::table;
use crate::terminal::{self, Stream};

pub(crate) const LONG_ABOUT: &str = "\
Run conversations offline: what would be sent, why, and what a provider's prompt cache would make of it.

A scenario is a JSON file: an agent, settings, and events (turns, answers, tool results, time that passes). No model is \
called and nothing leaves this machine. For every request the table shows its tokens by layer (tools, L1 system, L2 library, \
L4 history, L3 this turn, L5 the user's words), what the cache would serve, the price, and where and why the cached prefix broke.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword simulate examples/scenarios/*.json             one table a scenario
  foreword simulate --compare chat.json                   both layouts side by side
  foreword simulate --provider anthropic chat.json        the same conversation somewhere else
  foreword simulate --json chat.json | jq .totals         for machines: one object a line

FOREWORD_MODELS names a folder with local models; the embedded model's tokenizer is read from there.
Exit codes: 0 all ran; 1 a request did not fit its budget; 2 a scenario cannot be read or a flag is wrong.";

/// Options of `foreword simulate`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Scenario files: .json with one scenario, .jsonl with one a line
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON object a scenario instead of a table
    #[arg(long)]
    json: bool,
    /// Use this layout instead of the file's
    #[arg(long, value_enum, conflicts_with = "compare")]
    layout: Option<LayoutArg>,
    /// Use this provider's dialect and cache rules instead of the file's
    #[arg(long, value_name = "P", value_parser = clap::builder::PossibleValuesParser::new(PROVIDERS))]
    provider: Option<String>,
    /// Use this row of the model table instead of the file's
    #[arg(long, value_name = "M")]
    model: Option<String>,
    /// Run every layout and show them side by side
    #[arg(long)]
    compare: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum LayoutArg {
    Library,
    Log,
}

impl From<LayoutArg> for Layout {
    fn from(layout: LayoutArg) -> Self {
        match layout {
            LayoutArg::Library => Self::Library,
            LayoutArg::Log => Self::Log,
        }
    }
}

pub(crate) fn main(args: &Args) -> ExitCode {
    // Everything is read and run before anything is printed, so that an error leaves nothing half said.
    let reports = match all(args) {
        Ok(reports) => reports,
        Err(failure) => {
            eprintln!("error: {failure}");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = print(args, &reports)
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("error: the result cannot be written: {error}");
        return ExitCode::from(2);
    }
    let mut code = ExitCode::SUCCESS;
    for error in reports.iter().flatten().filter_map(|report| report.error.as_ref()) {
        eprintln!("error: {error}");
        code = ExitCode::from(1);
    }
    code
}

/// For each scenario, one report a layout.
fn all(args: &Args) -> Result<Vec<Vec<Report>>, ScenarioError> {
    let mut scenarios: Vec<Loaded> = Vec::new();
    for file in &args.files {
        scenarios.extend(load(file)?);
    }
    let layouts: Vec<Option<Layout>> =
        if args.compare { Layout::ALL.map(Some).to_vec() } else { vec![args.layout.map(Into::into)] };
    let models = std::env::var_os("FOREWORD_MODELS").map(PathBuf::from);
    let mut progress = Progress::new(scenarios.len());
    let mut reports = Vec::with_capacity(scenarios.len());
    for scenario in &scenarios {
        progress.step(&scenario.file);
        let mut row = Vec::new();
        for layout in &layouts {
            let overrides =
                Overrides { layout: *layout, provider: args.provider.clone(), model: args.model.clone(), models: models.clone() };
            row.push(run(scenario, &overrides)?);
        }
        reports.push(row);
    }
    progress.clear();
    Ok(reports)
}

fn print(args: &Args, reports: &[Vec<Report>]) -> io::Result<()> {
    let paint = Paint::stdout();
    let mut out = BufWriter::new(terminal::stdout());
    if args.json {
        for report in reports.iter().flatten() {
            serde_json::to_writer(&mut out, report)?;
            writeln!(out)?;
        }
    } else if args.compare {
        table::compare(&mut out, paint, reports)?;
    } else {
        for report in reports.iter().flatten() {
            table::report(&mut out, paint, report)?;
        }
        table::totals(&mut out, paint, reports.iter().flatten())?;
    }
    out.flush()
}

/// A line on the terminal that says which scenario is running; nothing where nobody watches.
struct Progress {
    total: usize,
    done: usize,
    started: std::time::Instant,
    shown: bool,
}

impl Progress {
    fn new(total: usize) -> Self {
        Self { total, done: 0, started: std::time::Instant::now(), shown: false }
    }

    fn step(&mut self, name: &str) {
        self.done += 1;
        if Stream::Stderr.is_terminal() && self.started.elapsed().as_millis() > 500 {
            terminal::rewrite_line(&format!("{}/{} {name}", self.done, self.total));
            self.shown = true;
        }
    }

    fn clear(&self) {
        if self.shown {
            terminal::rewrite_line("");
        }
    }
}

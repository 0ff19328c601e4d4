//! `foreword simulate`.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args as ClapArgs, ValueEnum};
use foreword_engine::session::{Dump, Point, Sqlite, Store as _};
use foreword_engine::{Layout, PROVIDERS};
use foreword_simulate::report::Report;
use foreword_simulate::stored::{self, Otherwise};
use foreword_simulate::{Loaded, Overrides, load, run};

use crate::kept::Vault;
use crate::paint::{Paint, shown_lines};
use crate::places::places;
use crate::table;
use crate::terminal::{self, Stream};

pub(crate) const LONG_ABOUT: &str = "\
Run conversations offline: show each request, why it looks as it does, and what a provider's prompt cache would serve.

A scenario is a JSON file with an agent, settings, and events (turns, answers, tool results, elapsed time). No model is \
called and nothing leaves this machine. For each request, the table shows tokens by layer (tools, L1 system, L2 library, \
L4 history, L3 this turn, L5 the user's words), expected cache hits, cost, and where and why the cached prefix broke.";

pub(crate) const AFTER_HELP: &str = "\
Instead of a scenario you can name a stored session (its ID, a prefix of it, or `last`) or a file from `foreword export`.

Examples:
  foreword simulate examples/scenarios/*.json             one table per scenario
  foreword simulate --compare chat.json                   both layouts side by side
  foreword simulate --provider anthropic chat.json        the same conversation with another provider
  foreword simulate --json chat.json | jq .totals         one JSON object per line

FOREWORD_MODELS names the folder with downloaded models; the embedded model's tokenizer is read from there.
Exit codes: 0 success; 1 a request did not fit its budget; 2 a scenario or an argument is wrong.";

/// Options of `foreword simulate`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Scenario files (.json with one scenario, .jsonl with one per line), exported sessions, or session IDs
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    vault: Vault,
    /// Print one JSON object per scenario instead of a table
    #[arg(long)]
    json: bool,
    /// Override the prompt layout
    #[arg(long, value_enum, conflicts_with = "compare")]
    layout: Option<LayoutArg>,
    /// Override the provider (its request format and cache rules)
    #[arg(long, value_name = "P", value_parser = clap::builder::PossibleValuesParser::new(PROVIDERS))]
    provider: Option<String>,
    /// Override the model (a name from the model table)
    #[arg(long, value_name = "M")]
    model: Option<String>,
    /// Run both layouts and show them side by side
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
    // Everything is run before anything is printed, so that an error leaves no partial output.
    let reports = match all(args) {
        Ok(reports) => reports,
        Err(failure) => {
            eprintln!("error: {}", shown_lines(&format!("{failure:#}")));
            return ExitCode::from(2);
        }
    };
    if let Err(error) = print(args, &reports)
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("error: Failed to write the result: {error}");
        return ExitCode::from(2);
    }
    let mut code = ExitCode::SUCCESS;
    for error in reports.iter().flatten().filter_map(|report| report.error.as_ref()) {
        eprintln!("error: {error}");
        code = ExitCode::from(1);
    }
    code
}

/// One report per scenario and layout.
fn all(args: &Args) -> Result<Vec<Vec<Report>>> {
    let mut sources: Vec<Source> = Vec::new();
    for file in &args.files {
        sources.extend(Source::of(file, &args.vault)?);
    }
    let layouts: Vec<Option<Layout>> =
        if args.compare { Layout::ALL.map(Some).to_vec() } else { vec![args.layout.map(Into::into)] };
    let models = std::env::var_os("FOREWORD_MODELS").map(PathBuf::from);
    let mut progress = Progress::new(sources.len());
    let mut reports = Vec::with_capacity(sources.len());
    for source in &sources {
        progress.step(source.name());
        let mut row = Vec::new();
        for layout in &layouts {
            let overrides =
                Overrides { layout: *layout, provider: args.provider.clone(), model: args.model.clone(), models: models.clone() };
            row.push(source.run(&overrides)?);
        }
        reports.push(row);
    }
    progress.clear();
    Ok(reports)
}

/// A conversation to run.
enum Source {
    Scenario(Box<Loaded>),
    /// A session in a store.
    Stored(Sqlite, String),
}

impl Source {
    /// The scenarios of a file, or the session with this name if there is no such file.
    fn of(file: &Path, vault: &Vault) -> Result<Vec<Self>> {
        if !file.exists()
            && let Some(point) = file.to_str().and_then(|name| name.parse::<Point>().ok())
            && !file.extension().is_some_and(|ending| ending == "json" || ending == "jsonl")
        {
            let named = vault.store().and_then(|store| Ok((point.session(&store)?, store)));
            let (id, store) =
                named.with_context(|| format!("{} is neither a file nor a session of this vault", file.display()))?;
            return Ok(vec![Self::Stored(store, id)]);
        }
        if let Some(dump) = exported(file) {
            let mut store = Sqlite::in_memory()?;
            store.load(&dump)?;
            return Ok(vec![Self::Stored(store, dump.id)]);
        }
        Ok(load(file)?.into_iter().map(|loaded| Self::Scenario(Box::new(loaded))).collect())
    }

    fn name(&self) -> &str {
        match self {
            Self::Scenario(loaded) => &loaded.file,
            Self::Stored(_, id) => id,
        }
    }

    fn run(&self, overrides: &Overrides) -> Result<Report> {
        Ok(match self {
            Self::Scenario(loaded) => run(loaded, overrides)?,
            Self::Stored(store, id) => {
                let models = places()?.models;
                stored::run(store, id, &Otherwise::of(overrides)?, Some(&models))?
            }
        })
    }
}

/// The session in a file from `foreword export`; `None` for other files.
fn exported(file: &Path) -> Option<Dump> {
    let facts = fs::metadata(file).ok()?;
    let is_json = file.extension().is_some_and(|ending| ending == "json");
    let is_small = facts.is_file() && facts.len() <= MOST_EXPORTED;
    (is_json && is_small).then(|| serde_json::from_slice(&fs::read(file).ok()?).ok()).flatten()
}

/// The largest exported session that is read.
const MOST_EXPORTED: u64 = 1 << 30;

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

/// A progress line on the terminal.
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

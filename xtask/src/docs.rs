//! `cargo xtask docs`: the commands that README and docs show are run with the real program, and their output is written or checked.
//!
//! A fenced block that begins with `console` is run: each `$ foreword …` line is a command, the lines below it are its output, and a line
//! `› words` is what a person types into `foreword chat`. A line `…` stands for any number of lines, and `…` at the end of a line for the rest
//! of it. All blocks of a file run one after the other in the same copy of `examples`, so a block can use what the ones above it left.
//! `console exit=1` expects another exit code. `console skip: REASON` is not run, and the reason is printed.

mod block;
mod compare;
mod links;
mod world;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::cargo::Cargo;
use crate::setup;
use crate::step::Steps;
use block::{Block, Kind};
use world::World;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change nothing; fail if a shown output is not what the program prints
    #[arg(long)]
    check: bool,
    /// Run this program instead of building one
    #[arg(long, value_name = "FILE")]
    bin: Option<PathBuf>,
    /// Only these files; else README.md and every file in docs
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Whether an output that differs is written into the page or reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Write,
    Check,
}

/// What the commands of all pages run with.
struct Setting<'a> {
    root: &'a Path,
    bin: PathBuf,
    models: Option<PathBuf>,
    cache: &'a Path,
    task: Task,
}

/// Runs the shown commands, and writes or checks their output.
pub(crate) fn run(args: &Args, cargo: &Cargo, steps: &mut Steps) -> Result<()> {
    let bin = match &args.bin {
        Some(bin) => bin.clone(),
        None => setup::debug_program(cargo, steps)?,
    };
    let bin = bin.canonicalize().with_context(|| format!("the program {} cannot be run", bin.display()))?;
    let models = match std::env::var_os("FOREWORD_MODELS") {
        Some(models) => Some(PathBuf::from(models)),
        None => setup::models(cargo, steps, "dev")?,
    };
    let cache = tempfile::Builder::new().prefix("foreword-docs-cache").tempdir().context("a cache cannot be made")?;
    let task = if args.check { Task::Check } else { Task::Write };
    let setting = Setting { root: cargo.root(), bin, models, cache: cache.path(), task };
    let files = if args.files.is_empty() { documents(cargo.root())? } else { args.files.clone() };
    let mut wrong = Vec::new();
    for file in &files {
        page(file, &setting, steps, &mut wrong)?;
    }
    ensure!(
        wrong.is_empty(),
        "the docs are wrong in these places; `cargo xtask docs` updates outputs, links have to be corrected by hand:\n{}",
        wrong.join("\n")
    );
    Ok(())
}

/// Runs the commands of one page, and adds what is wrong with it to the list.
fn page(file: &Path, setting: &Setting<'_>, steps: &mut Steps, wrong: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let name = file.strip_prefix(setting.root).unwrap_or(file).display().to_string();
    wrong.extend(links::broken(setting.root, file, &text).into_iter().map(|what| format!("{name}:{what}")));
    let blocks = block::blocks(&text).with_context(|| format!("{name} cannot be understood"))?;
    if blocks.is_empty() {
        return Ok(());
    }
    let world = World::new(setting.root, &setting.bin, setting.models.as_deref(), setting.cache)?;
    let mut printed = Vec::new();
    for block in &blocks {
        match &block.kind {
            Kind::Skipped(reason) => steps.note(&format!("{name}:{}: not run: {reason}", block.line))?,
            Kind::Run { exit } => printed.extend(block.runs.iter().zip(outputs(&world, block, *exit, &name, wrong)?)),
        }
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut is_changed = false;
    // From the last to the first: a new output may have another number of lines.
    for (run, output) in printed.into_iter().rev().filter(|(run, output)| !compare::matches(&run.expected, output)) {
        match setting.task {
            Task::Check => wrong.push(format!("{name}:{}: {}", run.line, compare::difference(&run.expected, &output))),
            Task::Write => {
                lines.splice(run.output.clone(), compare::rewritten(&run.expected, &output));
                is_changed = true;
            }
        }
    }
    if is_changed {
        fs::write(file, lines.join("\n") + "\n").with_context(|| format!("{name} cannot be written"))?;
        steps.note(&format!("{name}: written; read what changed before you commit it"))?;
    }
    Ok(())
}

/// What each command of a block prints.
fn outputs(world: &World, block: &Block, exit: i32, file: &str, wrong: &mut Vec<String>) -> Result<Vec<Vec<String>>> {
    let mut all = Vec::new();
    for run in &block.runs {
        let done = world.run(&run.command, &run.typed)?;
        if done.exit != exit {
            let last = done.output.last().map(String::as_str).unwrap_or_default();
            wrong.push(format!(
                "{file}:{}: `{}` exits with {}, not with {exit}; its last line: {last}",
                run.line, run.command, done.exit
            ));
        }
        all.push(done.output);
    }
    Ok(all)
}

/// README.md, the other pages beside it, and every page in docs, in order.
fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in [root.to_owned(), root.join("docs"), root.join("docs/decisions")] {
        let listed = fs::read_dir(&folder).with_context(|| format!("{} cannot be listed", folder.display()))?;
        let mut here: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
        here.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
        here.sort();
        files.extend(here);
    }
    Ok(files)
}

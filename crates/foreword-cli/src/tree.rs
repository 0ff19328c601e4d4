//! `foreword tree`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use foreword_engine::vault::{Show, Vault};

use crate::paint::{note, shown};
use crate::places::places;
use crate::terminal;

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword tree examples/vault
  foreword tree examples/vault --under Garden --json
  foreword tree --depth 2 --folders";

/// Options of `foreword tree`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The folder of notes
    #[arg(default_value = ".")]
    vault: PathBuf,
    /// Show only this subfolder
    #[arg(long, value_name = "FOLDER", default_value = "")]
    under: String,
    /// Depth of subfolders
    #[arg(long, value_name = "N", default_value_t = 32)]
    depth: usize,
    /// Show folders only, with their number of notes
    #[arg(long)]
    folders: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let vault = open(&args.vault)?;
    let show = if args.folders { Show::Folders } else { Show::Files };
    let Some(tree) = vault.tree(args.under.trim_end_matches('/'), args.depth, show) else {
        bail!("no folder {:?} with notes in this vault; list folders with `foreword tree --folders`", args.under);
    };
    for problem in vault.problems() {
        note(shown(&problem.to_string()));
    }
    let mut out = terminal::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&tree)?)?;
    } else {
        for line in tree.text().lines() {
            writeln!(out, "{}", shown(line))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the vault at `root`, using the cached listing if it is still valid.
pub(crate) fn open(root: &Path) -> Result<Vault> {
    let places = places()?;
    Ok(foreword_engine::vault::open(root, &places)?)
}

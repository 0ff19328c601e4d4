//! The command line: the only place that knows the terminal, the environment and the home folder.

#[macro_use]
mod terminal;

mod acp;
mod answer;
mod approve;
mod ask;
mod attach;
mod audit;
mod chat;
mod clients;
mod config;
mod doctor;
mod embed;
mod equip;
mod export;
mod index;
mod inspect;
mod kept;
mod keys;
mod log;
mod markdown;
mod mcp;
mod model;
mod models;
mod paint;
mod places;
mod preview;
mod progress;
mod run;
mod search;
mod serve;
mod sessions;
mod settings;
mod setup;
mod shell;
mod simulate;
mod summary;
mod table;
mod templates;
mod tree;
mod trust;
mod verify;
mod what_if;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::paint::Paint;
use crate::terminal::{Failure, Stream};

/// Server requests begin on one thread and are stored on another; mimalloc handles that well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A context engine for LLM chat and agents: choose, lay out and inspect what is sent to the model
#[derive(Parser)]
#[command(
    name = "foreword",
    version,
    arg_required_else_help = true,
    after_help = format!("Get started:\n  foreword chat examples/vault\n  foreword search examples/vault \"why was the loaf flat\"\n  foreword simulate examples/scenarios/*.json\n\n{}", places::HELP)
)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    log: log::LogArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Search notes, rules and references by keyword and by meaning
    #[command(long_about = search::LONG_ABOUT, after_help = search::AFTER_HELP, override_usage = search::USAGE)]
    Search(search::Args),

    /// Index a vault for search and report files that could not be read
    #[command(long_about = index::LONG_ABOUT, after_help = index::AFTER_HELP)]
    Index(index::Args),

    /// Show what an attachment adds to a prompt: a note, tag, folder, line range or web page
    #[command(long_about = attach::LONG_ABOUT, after_help = attach::AFTER_HELP, override_usage = "foreword attach [OPTIONS] [VAULT] --show <WHAT>...")]
    Attach(attach::Args),

    /// List the folders and notes of a vault
    #[command(after_help = tree::AFTER_HELP)]
    Tree(tree::Args),

    /// Compute embeddings for texts
    #[command(long_about = embed::LONG_ABOUT, after_help = embed::AFTER_HELP)]
    Embed(embed::Args),

    /// List models with their context windows, prices and cache rules, or download local models
    #[command(long_about = models::LONG_ABOUT, after_help = models::after_help())]
    Models(models::Args),

    /// Chat about a folder of notes in the terminal
    #[command(long_about = chat::LONG_ABOUT, after_help = chat::AFTER_HELP)]
    Chat(chat::Args),

    /// Ask one question about a folder of notes
    #[command(long_about = ask::LONG_ABOUT, after_help = ask::AFTER_HELP)]
    Ask(ask::Args),

    /// Run the web interface, the HTTP API and the gateway (a proxy for OpenAI and Anthropic clients)
    #[command(long_about = serve::LONG_ABOUT, after_help = serve::AFTER_HELP)]
    Serve(serve::Args),

    /// Offer a folder of notes to other programs over the Model Context Protocol (MCP)
    #[command(long_about = mcp::LONG_ABOUT, after_help = mcp::AFTER_HELP)]
    Mcp(mcp::Args),

    /// Run as an agent in an editor over the Agent Client Protocol (ACP)
    #[command(long_about = acp::LONG_ABOUT, after_help = acp::AFTER_HELP)]
    Acp(acp::Args),

    /// Run an agent or another program with the gateway between it and its provider, and tell what it used
    #[command(long_about = run::LONG_ABOUT, after_help = run::AFTER_HELP)]
    Run(run::Args),

    /// Keys for `foreword serve`: an address for the browser, keys for programs
    #[command(long_about = keys::LONG_ABOUT, after_help = keys::AFTER_HELP)]
    Keys(keys::Args),

    /// List, search, show, fork, rewind, edit, compact and delete sessions (conversations)
    #[command(after_help = sessions::AFTER_HELP)]
    Sessions(sessions::Args),

    /// Show what a past request contained and why, or print its exact bytes
    #[command(long_about = inspect::LONG_ABOUT, after_help = inspect::AFTER_HELP)]
    Inspect(inspect::Args),

    /// Compare two requests: first differing byte, item, cause and cost
    #[command(after_help = inspect::DIFF_AFTER_HELP)]
    Diff(inspect::DiffArgs),

    /// Set Foreword up, and add it to the editors and agent programs on this machine
    #[command(long_about = setup::LONG_ABOUT, after_help = setup::AFTER_HELP)]
    Setup(setup::Args),

    /// Print completions for a shell
    #[command(after_help = shell::COMPLETIONS_AFTER_HELP)]
    Completions(shell::CompletionArgs),

    /// Print the manual page, or write those of all commands
    #[command(after_help = shell::MAN_AFTER_HELP)]
    Man(shell::ManArgs),

    /// Review what a folder asks to do: tool servers, web pages, templates, instructions, state
    #[command(long_about = trust::LONG_ABOUT, after_help = trust::AFTER_HELP)]
    Trust(trust::Args),

    /// Check models, keys, providers, tool servers, vault and store
    #[command(long_about = doctor::LONG_ABOUT, after_help = doctor::AFTER_HELP)]
    Doctor(doctor::Args),

    /// Check the integrity of all stored sessions
    #[command(long_about = verify::LONG_ABOUT, after_help = verify::AFTER_HELP)]
    Verify(verify::Args),

    /// Copy the store to one file, even while it is in use
    #[command(after_help = verify::BACKUP_AFTER_HELP)]
    Backup(verify::BackupArgs),

    /// Export a session as JSON, as a transcript or as messages
    #[command(after_help = export::AFTER_HELP)]
    Export(export::Args),

    /// Import chats from other programs, transcripts and exported sessions
    #[command(long_about = export::IMPORT_LONG_ABOUT, after_help = export::IMPORT_AFTER_HELP)]
    Import(export::ImportArgs),

    /// Manage context templates, which control how older messages are summarized
    #[command(long_about = templates::LONG_ABOUT, after_help = templates::AFTER_HELP)]
    Templates(templates::Args),

    /// Run conversations offline and show each request, its prompt-cache hits and its cost
    #[command(long_about = simulate::LONG_ABOUT, after_help = simulate::AFTER_HELP)]
    Simulate(simulate::Args),

    /// Run a stored session again with other settings and compare the cost
    #[command(long_about = what_if::LONG_ABOUT, after_help = what_if::AFTER_HELP)]
    WhatIf(what_if::Args),

    /// What coding agents' prompts cost, why, and what would be cheaper, from the logs they keep
    #[command(long_about = audit::LONG_ABOUT, after_help = audit::AFTER_HELP)]
    Audit(audit::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return told(&error),
    };
    log::begin(&cli.log, matches!(cli.command, Command::Serve(_)));
    let outcome = match cli.command {
        Command::Search(args) => search::main(&args),
        Command::Index(args) => index::main(&args),
        Command::Attach(args) => attach::main(&args),
        Command::Tree(args) => tree::main(&args),
        Command::Embed(args) => embed::main(&args),
        Command::Models(args) => models::main(&args),
        Command::Chat(args) => chat::main(&args),
        Command::Ask(args) => ask::main(&args),
        Command::Serve(args) => serve::main(&args),
        Command::Mcp(args) => mcp::main(&args),
        Command::Acp(args) => acp::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Keys(args) => keys::main(&args),
        Command::Sessions(args) => sessions::main(&args),
        Command::Inspect(args) => inspect::main(&args),
        Command::Diff(args) => inspect::diff_main(&args),
        Command::Setup(args) => setup::main(&args),
        Command::Completions(args) => shell::completions(&args, Cli::command()),
        Command::Man(args) => shell::man(&args, Cli::command()),
        Command::Trust(args) => trust::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Verify(args) => verify::main(&args),
        Command::Backup(args) => verify::backup_main(&args),
        Command::Export(args) => export::main(&args),
        Command::Import(args) => export::import_main(&args),
        Command::Templates(args) => templates::main(&args),
        Command::Simulate(args) => Ok(simulate::main(&args)),
        Command::WhatIf(args) => what_if::main(&args),
        Command::Audit(args) => audit::main(&args),
    };
    match terminal::failure() {
        Some(Failure::Other(why)) => {
            eprintln!("{} not all of the output was written: {why}", Paint::stderr().with("31", "error:"));
            ExitCode::from(1)
        }
        // Whoever stopped reading has seen enough.
        Some(Failure::ReaderGone) => outcome.unwrap_or(ExitCode::SUCCESS),
        None => outcome.unwrap_or_else(|error| failed(&error)),
    }
}

/// Prints help or a usage error.
fn told(error: &clap::Error) -> ExitCode {
    let stream = if error.use_stderr() { Stream::Stderr } else { Stream::Stdout };
    let text = error.render();
    let text = if Paint::new(stream.is_terminal()).is_on() { text.ansi().to_string() } else { text.to_string() };
    let mut out = if error.use_stderr() { terminal::stderr() } else { terminal::stdout() };
    // A closed output is not an error.
    let _ = out.write_all(text.as_bytes());
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn failed(error: &anyhow::Error) -> ExitCode {
    // A message that already tells its cause is not followed by it again.
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    eprintln!("{} {}", Paint::stderr().with("31", "error:"), paint::shown_lines(&said));
    ExitCode::from(2)
}

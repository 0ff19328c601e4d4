//! The command line: the only place that knows the terminal, the environment and the home folder.

#[macro_use]
mod terminal;

mod answer;
mod approve;
mod ask;
mod attach;
mod audit;
mod chat;
mod config;
mod doctor;
mod embed;
mod equip;
mod export;
mod index;
mod inspect;
mod kept;
mod keys;
mod markdown;
mod model;
mod models;
mod paint;
mod places;
mod preview;
mod progress;
mod search;
mod serve;
mod sessions;
mod settings;
mod simulate;
mod summary;
mod table;
mod templates;
mod tree;
mod trust;
mod verify;
mod what_if;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::paint::Paint;
use crate::terminal::Stream;

/// A server's requests begin on one thread and are stored by another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Everything that is said to the model before it answers.
#[derive(Parser)]
#[command(
    name = "foreword",
    version,
    arg_required_else_help = true,
    after_help = format!("Begin with:\n  foreword chat examples/vault\n  foreword search examples/vault \"why was the loaf flat\"\n  foreword simulate examples/scenarios/*.json\n\n{}", places::HELP)
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find the notes, rules and references that answer a question, by words and by meaning
    #[command(long_about = search::LONG_ABOUT, after_help = search::AFTER_HELP, override_usage = search::USAGE)]
    Search(search::Args),

    /// Read a vault and make all of it searchable; name what could not be read
    #[command(long_about = index::LONG_ABOUT, after_help = index::AFTER_HELP)]
    Index(index::Args),

    /// Show what an attachment would put into a prompt: a note, a tag, a folder, lines, a page
    #[command(long_about = attach::LONG_ABOUT, after_help = attach::AFTER_HELP, override_usage = "foreword attach [OPTIONS] [VAULT] --show <WHAT>...")]
    Attach(attach::Args),

    /// The folders and notes of a vault
    #[command(after_help = tree::AFTER_HELP)]
    Tree(tree::Args),

    /// Turn texts into vectors
    #[command(long_about = embed::LONG_ABOUT, after_help = embed::AFTER_HELP)]
    Embed(embed::Args),

    /// The models that can be used, with windows, prices and cache rules; fetching those that run on this machine
    #[command(long_about = models::LONG_ABOUT, after_help = models::after_help())]
    Models(models::Args),

    /// Chat over a folder of notes; everything said is kept
    #[command(long_about = chat::LONG_ABOUT, after_help = chat::AFTER_HELP)]
    Chat(chat::Args),

    /// Ask a question about a folder of notes; everything said is kept
    #[command(long_about = ask::LONG_ABOUT, after_help = ask::AFTER_HELP)]
    Ask(ask::Args),

    /// A web page to chat and to see what the model was given, and a gateway for other programs
    #[command(long_about = serve::LONG_ABOUT, after_help = serve::AFTER_HELP)]
    Serve(serve::Args),

    /// Keys for `foreword serve`: an address for the browser, keys for programs
    #[command(long_about = keys::LONG_ABOUT, after_help = keys::AFTER_HELP)]
    Keys(keys::Args),

    /// The sessions that are kept: list, search, show, fork, rewind, edit, delete
    #[command(after_help = sessions::AFTER_HELP)]
    Sessions(sessions::Args),

    /// What a past request held and why, from its record; its exact bytes
    #[command(long_about = inspect::LONG_ABOUT, after_help = inspect::AFTER_HELP)]
    Inspect(inspect::Args),

    /// Where two requests part: the byte, the item, the cause, the price
    #[command(after_help = inspect::DIFF_AFTER_HELP)]
    Diff(inspect::DiffArgs),

    /// What a folder may do beyond being read: tool servers, pages, templates, instructions, state
    #[command(long_about = trust::LONG_ABOUT, after_help = trust::AFTER_HELP)]
    Trust(trust::Args),

    /// Check models, keys, providers, servers, vault and store, and say what to do
    #[command(long_about = doctor::LONG_ABOUT, after_help = doctor::AFTER_HELP)]
    Doctor(doctor::Args),

    /// Check everything that is kept and name what is broken
    #[command(long_about = verify::LONG_ABOUT, after_help = verify::AFTER_HELP)]
    Verify(verify::Args),

    /// Copy everything that is kept into one file, also while it is in use
    #[command(after_help = verify::BACKUP_AFTER_HELP)]
    Backup(verify::BackupArgs),

    /// A session as one file: all of it, its transcript, or its messages
    #[command(after_help = export::AFTER_HELP)]
    Export(export::Args),

    /// Take in chats of other programs, transcripts and exported sessions
    #[command(long_about = export::IMPORT_LONG_ABOUT, after_help = export::IMPORT_AFTER_HELP)]
    Import(export::ImportArgs),

    /// Context templates, by which a managed history keeps what matters: list, show, check, new
    #[command(long_about = templates::LONG_ABOUT, after_help = templates::AFTER_HELP)]
    Templates(templates::Args),

    /// Run conversations offline: what would be sent, why, and what a provider's prompt cache would make of it
    #[command(long_about = simulate::LONG_ABOUT, after_help = simulate::AFTER_HELP)]
    Simulate(simulate::Args),

    /// A stored session under other settings: what it would have cost, beside what it did cost
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
        Command::Keys(args) => keys::main(&args),
        Command::Sessions(args) => sessions::main(&args),
        Command::Inspect(args) => inspect::main(&args),
        Command::Diff(args) => inspect::diff_main(&args),
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
    outcome.unwrap_or_else(|error| failed(&error))
}

/// Prints help, or what is wrong with the arguments.
fn told(error: &clap::Error) -> ExitCode {
    let stream = if error.use_stderr() { Stream::Stderr } else { Stream::Stdout };
    let text = error.render();
    let text = if Paint::new(stream.is_terminal()).is_on() { text.ansi().to_string() } else { text.to_string() };
    let mut out = if error.use_stderr() { terminal::stderr() } else { terminal::stdout() };
    let _ = out.write_all(text.as_bytes());
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Whoever stopped reading has seen enough; everything else is said.
fn failed(error: &anyhow::Error) -> ExitCode {
    let closed = error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if closed {
        return ExitCode::SUCCESS;
    }
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

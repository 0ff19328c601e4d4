//! `foreword attach`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args as ClapArgs;
use foreword_engine::attach::{Pages, Shown, attach};
use serde_json::json;

use crate::paint::{count, note};
use crate::places::places;
use crate::terminal;
use crate::tree::open;
use crate::trust;

pub(crate) const LONG_ABOUT: &str = "\
Show what an attachment adds to a prompt, block by block, with embedded notes expanded, query blocks answered and images loaded. \
Rules for the attached files (Cursor's globs, an AGENTS.md in their folder) are included.

Nothing is sent to a model. URLs are fetched, but only from the public internet, unless `[web] allow = [\"host\"]` in the vault's \
foreword.toml allows the host.";

pub(crate) const AFTER_HELP: &str = "\
Attachments:
  \"Piano Lessons/Lesson 4.md\"  \"Lesson 4\"  \"[[Lesson 4]]\"      a note, by path or name; also a canvas, a PDF, an image
  \"Bread#When it fails\"  \"Compost#^cold-heap\"               a section, a block
  \"#garden\"  Garden/  \"Garden/**/*.md\"                      notes by tag, folder, pattern
  link:Beds  link:Beds~2                                      a note and the notes linked with it, up to N links away
  since:7d  since:2026-11-01  since:yesterday                 notes changed since then
  \"Kitchen/Bread.md#L5-L9\"  Kitchen/Bread.md:5-9            lines
  https://…                                                   a web page, as markdown

Examples:
  foreword attach examples/vault --show \"Practice plan\"
  foreword attach examples/vault --show \"#garden\" since:7d --json
Exit codes: 0 success; 1 an attachment was not found; 2 an argument or the vault is wrong.";

/// Options of `foreword attach`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The folder of notes
    #[arg(default_value = ".")]
    vault: PathBuf,
    /// What to attach
    #[arg(long, required = true, num_args = 1.., value_name = "WHAT")]
    show: Vec<String>,
    /// Fetch pages again, even if a recent copy is cached
    #[arg(long)]
    refresh: bool,
    /// Print one JSON object per item
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let vault = open(&args.vault)?;
    trust::note_restricted(&vault);
    let attachments = args.show.iter().map(|what| vault.attachment(what)).collect::<Result<Vec<_>, _>>()?;
    let pages = if args.refresh { Pages::Fresh } else { Pages::RecordedSession };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shown = runtime.block_on(attach(&vault, &attachments, &places()?, &foreword_engine::clock::zoned(), pages))?;
    let mut out = terminal::plain_stdout();
    for Shown { id, hash, block, tokens, images } in &shown.items {
        if args.json {
            writeln!(out, "{}", json!({"item": id, "hash": hash, "tokens": tokens, "images": images, "block": block}))?;
        } else {
            // As it would be sent.
            writeln!(out, "{block}\n")?;
        }
    }
    for problem in &shown.problems {
        note(crate::paint::shown(&problem.to_string()));
    }
    if !args.json {
        let tokens: u64 = shown.items.iter().map(|item| item.tokens).sum();
        let images: usize = shown.items.iter().map(|item| item.images.len()).sum();
        eprintln!("{}, about {tokens} tokens, {}", count(shown.items.len(), "item"), count(images, "image"));
    }
    Ok(ExitCode::from(u8::from(shown.empty > 0)))
}

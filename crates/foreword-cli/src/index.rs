//! `foreword index`.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Instant;

use anyhow::Result;
use clap::Args as ClapArgs;
use foreword_engine::vault::{Changes, Watched, Watcher};
use foreword_vault_tools::corpus::Corpus;
use foreword_vault_tools::embedding::EmbeddingModel;
use serde_json::json;

use crate::paint::{count, note, shown};
use crate::places::places;
use crate::progress::{self, Bar};
use crate::search::Offline;
use crate::terminal;

pub(crate) const LONG_ABOUT: &str = "\
Index a vault for search: notes, canvases, PDFs and the items of agents, by keyword and by meaning.

Only files that changed since the last run are read and embedded; a renamed note keeps its embeddings. The index is stored in the cache folder, \
never in the vault. Files that could not be read are listed.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword index examples/vault
  foreword index ~/notes --watch      update the index until Ctrl-C
  foreword index --json --offline     keyword search only, JSON output";

/// Options of `foreword index`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The folder of notes
    #[arg(default_value = ".")]
    vault: PathBuf,
    /// Keep running and update the index after every change
    #[arg(long)]
    watch: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    offline: Offline,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let started = Instant::now();
    let places = places()?;
    let meaning = EmbeddingModel::new(&places.models, args.offline.fetch()?);
    let mut corpus = Corpus::open(&args.vault, &places, foreword_engine::clock::zoned().time_zone().clone())?;
    // Watching begins before embedding, so that no change is missed.
    let (tell, told) = mpsc::channel();
    let _watcher =
        if args.watch { Some(Watcher::new(corpus.vault().root(), move |watched| drop(tell.send(watched)))?) } else { None };
    let mut notes = fill(&mut corpus, &meaning);
    notes.extend(corpus.not_kept().iter().cloned());
    report(args, &corpus, started, &notes)?;
    if args.watch {
        for watched in told {
            let started = Instant::now();
            let known = corpus.problems();
            let changes = match watched {
                Watched::Paths(paths) => corpus.refresh_paths(&paths.into_iter().collect::<Vec<_>>()),
                Watched::All => corpus.refresh(),
            };
            if !changes.is_empty() {
                fill(&mut corpus, &meaning).iter().for_each(note);
                corpus.save();
                followed(args, &changes, started)?;
            }
            for problem in corpus.problems().iter().filter(|problem| !known.contains(problem)) {
                note(shown(&problem.to_string()));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads and embeds files that are not in the index yet; returns messages for the user.
fn fill(corpus: &mut Corpus, meaning: &EmbeddingModel) -> Vec<String> {
    let left = read_files(corpus, None);
    left.into_iter().chain(embed(corpus, meaning)).collect()
}

/// Reads canvases and PDFs until the deadline; returns a message for the user.
pub(crate) fn read_files(corpus: &mut Corpus, until: Option<Instant>) -> Option<String> {
    let mut bar = Bar::of_things("reading canvases and PDFs");
    let left = corpus.read_files(until, &mut |done, total| bar.at(done as u64, total as u64));
    (left > 0).then(|| format!("{} not indexed yet; run `foreword index`", count(left, "canvas or PDF file")))
}

fn embed(corpus: &mut Corpus, meaning: &EmbeddingModel) -> Vec<String> {
    let model = match meaning.load(&mut progress::fetching("the embedding model")) {
        Ok(model) => model,
        Err(error) => return vec![format!("{error}. Using keyword search only.")],
    };
    let mut bar = Bar::of_things("embedding");
    let made = corpus.embed(model, &mut |done, total| {
        bar.at(done as u64, total as u64);
        ControlFlow::Continue(())
    });
    [made.failed.map(|error| error.to_string()), made.not_kept].into_iter().flatten().collect()
}

fn report(args: &Args, corpus: &Corpus, started: Instant, notes: &[String]) -> Result<()> {
    let extent = corpus.extent();
    let mut out = terminal::stdout();
    if args.json {
        let problems: Vec<_> =
            corpus.problems().iter().map(|problem| json!({"path": problem.path, "what": problem.what})).collect();
        let line = json!({
            "notes": extent.notes, "files": extent.files, "items": extent.items, "chunks": extent.chunks, "embedded": extent.embedded,
            "problems": problems, "remarks": notes,
        });
        writeln!(out, "{line}")?;
        return Ok(());
    }
    for problem in &corpus.problems() {
        note(shown(&problem.to_string()));
    }
    notes.iter().for_each(note);
    writeln!(
        out,
        "{}, {}, {} of agents, {}, {} of them embedded ({:.1} s)",
        count(extent.notes, "note"),
        count(extent.files, "canvas or PDF file"),
        count(extent.items, "item"),
        count(extent.chunks, "chunk"),
        extent.embedded,
        started.elapsed().as_secs_f64()
    )?;
    Ok(())
}

fn followed(args: &Args, changes: &Changes, started: Instant) -> io::Result<()> {
    let mut out = terminal::stdout();
    if args.json {
        let renamed: Vec<_> = changes.renamed.iter().map(|renamed| json!({"from": renamed.from, "to": renamed.to})).collect();
        let line = json!({"added": changes.added, "changed": changes.changed, "removed": changes.removed, "renamed": renamed});
        return writeln!(out, "{line}");
    }
    let mut said = |mark: &str, name: &str| writeln!(out, "{mark} {}", shown(name));
    changes.added.iter().try_for_each(|path| said("+", path))?;
    changes.changed.iter().try_for_each(|path| said("~", path))?;
    changes.removed.iter().try_for_each(|path| said("-", path))?;
    changes.renamed.iter().try_for_each(|renamed| said(">", &format!("{} renamed to {}", renamed.from, renamed.to)))?;
    writeln!(out, "  updated in {} ms", started.elapsed().as_millis())
}

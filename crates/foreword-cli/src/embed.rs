//! `foreword embed`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use foreword_vault_tools::embedding::EmbeddingModel;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::places::places;
use crate::progress;
use crate::search::Offline;
use crate::terminal;

pub(crate) const LONG_ABOUT: &str = "\
Compute the embeddings that semantic search compares: one vector for the `text` of each row of a JSON Lines file, in order.

A vector has 384 dimensions and length 1, so the dot product of two vectors is their cosine similarity. Texts are cut at 256 tokens.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword embed texts.jsonl --json     one {\"id\": …, \"vector\": [384 numbers]} per row, with the row's `id` if it has one
  foreword embed texts.jsonl            one line per row: its length and first numbers";

/// Rows per batch, which bounds the memory that a long file needs.
const BATCH: usize = 1024;

/// Options of `foreword embed`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// A JSON Lines file with rows like {"text": "…"}, or `-` for standard input
    #[arg(value_name = "FILE.jsonl")]
    file: PathBuf,
    /// Print one JSON object per row
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    offline: Offline,
}

#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    id: Option<Value>,
    text: String,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let name = args.file.display();
    let input: Box<dyn BufRead> = if args.file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(&args.file).with_context(|| format!("Failed to open {name}"))?))
    };
    let meaning = EmbeddingModel::new(&places()?.models, args.offline.fetch()?);
    let mut out = BufWriter::new(terminal::stdout());
    let mut batch = Vec::new();
    for (at, line) in input.lines().enumerate() {
        let line = line.with_context(|| format!("Failed to read {name}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let row: Row = serde_json::from_str(&line)
            .with_context(|| format!("{name}, line {}: expected a JSON object with a string `text`", at + 1))?;
        batch.push(row);
        if batch.len() == BATCH {
            print(args, &meaning, &mut out, &std::mem::take(&mut batch))?;
        }
    }
    print(args, &meaning, &mut out, &batch)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn print(args: &Args, meaning: &EmbeddingModel, out: &mut impl Write, rows: &[Row]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let model = meaning.load(&mut progress::fetching("the embedding model"))?;
    let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
    for (row, vector) in rows.iter().zip(model.embed(&texts)?) {
        if args.json {
            let mut line = json!({"vector": vector.as_slice()});
            if let (Some(id), Value::Object(line)) = (&row.id, &mut line) {
                line.insert("id".to_owned(), id.clone());
            }
            writeln!(out, "{line}")?;
        } else {
            let first: Vec<String> = vector.iter().take(6).map(|number| format!("{number:+.4}")).collect();
            writeln!(out, "{} numbers  {} …", vector.len(), first.join(" "))?;
        }
    }
    Ok(())
}

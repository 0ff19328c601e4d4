//! `foreword embed`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use foreword_engine::meaning::Meaning;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::places::places;
use crate::progress;
use crate::search::Offline;
use crate::terminal;

pub(crate) const LONG_ABOUT: &str = "\
The vectors that searching by meaning compares: one for the `text` of each row of a JSON Lines file, in order.

A vector has 384 numbers and length 1; the product of two is their cosine. Texts are cut at 256 word pieces, as the model asks.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword embed texts.jsonl --json     {\"id\": …, \"vector\": [384 numbers]} a row; `id` is the row's, where it has one
  foreword embed texts.jsonl            a line a row: its length and first numbers";

/// Rows are embedded in batches of so many, which bounds what is held of a long file.
const BATCH: usize = 1024;

/// Options of `foreword embed`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Rows like {"text": "…"}; `-` for stdin
    #[arg(value_name = "FILE.jsonl")]
    file: PathBuf,
    /// Print one JSON object a row
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
        Box::new(BufReader::new(File::open(&args.file).with_context(|| format!("cannot open {name}"))?))
    };
    let meaning = Meaning::new(&places()?.models, args.offline.fetch()?);
    let mut out = BufWriter::new(terminal::stdout());
    let mut batch = Vec::new();
    for (at, line) in input.lines().enumerate() {
        let line = line.with_context(|| format!("cannot read {name}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let row: Row = serde_json::from_str(&line)
            .with_context(|| format!("{name}, line {}: a row is a JSON object with a string `text`", at + 1))?;
        batch.push(row);
        if batch.len() == BATCH {
            print(args, &meaning, &mut out, &std::mem::take(&mut batch))?;
        }
    }
    print(args, &meaning, &mut out, &batch)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn print(args: &Args, meaning: &Meaning, out: &mut impl Write, rows: &[Row]) -> Result<()> {
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

//! How many of the right items the search finds: by words, by meaning, by both. Needs the data sets; nothing of them is in this tree.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Parser;
use flate2::read::GzDecoder;
use foreword_engine::search::{Embedder, Query, Strategy};
use foreword_trust::places::Places;
use foreword_vault_tools::catalog::{Catalog, Row, RowKind};
use foreword_vault_tools::embedding::{EmbeddingModel, Fetch};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Beside the checkout.
const DATA: &str = "../shared/data";

/// How many of the right items the search finds
#[derive(Parser)]
struct Args {
    /// The folder of the data sets
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where model weights are, or go; `FOREWORD_MODELS` where it is left out
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    description: String,
    parameters: Value,
}

#[derive(Deserialize)]
struct ToolQuery {
    gold: Vec<String>,
    query: String,
}

#[derive(Deserialize)]
struct Talk {
    questions: Vec<Question>,
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    id: String,
    speaker: String,
    text: String,
}

#[derive(Deserialize)]
struct Question {
    category: u8,
    evidence: Vec<String>,
    #[serde(rename = "question")]
    words: String,
}

/// The data set's number for questions whose answer is spread over several turns.
const MULTI_HOP: u8 = 1;

/// A question, the names of the right items, and whether they are several.
struct Asked {
    words: String,
    right: Vec<String>,
    multi_hop: bool,
}

/// A catalog and the questions about it.
struct Set {
    rows: Vec<Row>,
    asked: Vec<Asked>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let data = args.data.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(DATA));
    if !data.join("bfcl-tools.jsonl.gz").is_file() {
        println!("nothing was measured: the data is not in {} (name its folder with `-- --data DIR`)", data.display());
        return Ok(());
    }
    let cache = std::env::temp_dir().join("foreword-bench");
    let named = args.models.or_else(|| std::env::var_os("FOREWORD_MODELS").map(PathBuf::from));
    let models = named.unwrap_or_else(|| cache.join("models"));
    let places = Places { state: cache.join("state"), cache, models };
    let meaning = EmbeddingModel::new(&places.models, Fetch::Allowed { mirror: None });
    let model = meaning.load(&mut |_| ControlFlow::Continue(()))?;

    let tools = [bfcl(&data)?];
    let talks = locomo(&data)?;
    println!(
        "BFCL: {} tools, {} queries. LoCoMo: {} talks, {} turns, {} questions.\n",
        tools[0].rows.len(),
        tools[0].asked.len(),
        talks.len(),
        talks.iter().map(|talk| talk.rows.len()).sum::<usize>(),
        talks.iter().map(|talk| talk.asked.len()).sum::<usize>()
    );
    println!("| strategy | BFCL R@5 | R@10 | LoCoMo R@10 | multi-hop R@10 | ms a query |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (name, strategy) in [("keyword", Strategy::Keyword), ("semantic", Strategy::Semantic), ("**hybrid**", Strategy::Hybrid)] {
        let (tool, tool_ms) = measure(&tools, strategy, model, &places)?;
        let (talk, talk_ms) = measure(&talks, strategy, model, &places)?;
        let queries = (tools.iter().chain(&talks)).map(|set| set.asked.len()).sum::<usize>() as f64;
        println!(
            "| {name} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
            tool.at(5, false),
            tool.at(10, false),
            talk.at(10, false),
            talk.at(10, true),
            (tool_ms + talk_ms) / queries
        );
    }
    Ok(())
}

/// Recall of each question, by how many results were looked at.
#[derive(Default)]
struct Recall(BTreeMap<usize, Vec<(f64, bool)>>);

impl Recall {
    fn at(&self, top: usize, only_multi_hop: bool) -> f64 {
        let found = self.0.get(&top).into_iter().flatten().filter(|(_, multi_hop)| *multi_hop || !only_multi_hop);
        let found: Vec<f64> = found.map(|(recall, _)| *recall).collect();
        found.iter().sum::<f64>() / found.len() as f64 * 100.0
    }
}

/// As `foreword search --catalog` does it.
fn measure(sets: &[Set], strategy: Strategy, model: &dyn Embedder, places: &Places) -> Result<(Recall, f64)> {
    let mut recall = Recall::default();
    let mut spent = 0.0;
    for set in sets {
        let mut catalog = Catalog::new(&set.rows, strategy)?;
        catalog.embed(places, model, &mut |_, _| ControlFlow::Continue(()));
        for asked in &set.asked {
            let query = Query {
                embedder: Some(model),
                strategy,
                top_n: 10,
                top_k: 40,
                floor: Some(0.0),
                include_score: f64::INFINITY,
                ..Query::new(&asked.words)
            };
            let started = Instant::now();
            let answer = catalog.index().search(&query);
            spent += started.elapsed().as_secs_f64() * 1000.0;
            let names: Vec<&str> = answer.hits.iter().map(|hit| hit.id.name()).collect();
            for top in [5, 10] {
                let found = asked.right.iter().filter(|right| names.iter().take(top).any(|name| name == right)).count();
                recall.0.entry(top).or_default().push((found as f64 / asked.right.len() as f64, asked.multi_hop));
            }
        }
    }
    Ok((recall, spent))
}

fn bfcl(data: &Path) -> Result<Set> {
    let tools: Vec<Tool> = read(&data.join("bfcl-tools.jsonl.gz"))?;
    let queries: Vec<ToolQuery> = read(&data.join("bfcl-queries-dev.jsonl.gz"))?;
    let row = |tool: Tool| row(RowKind::Tool, tool.name, Some(tool.description), None, tool.parameters);
    let asked = queries.into_iter().map(|query| Asked { words: query.query, right: query.gold, multi_hop: false });
    Ok(Set { rows: tools.into_iter().map(row).collect(), asked: asked.collect() })
}

fn locomo(data: &Path) -> Result<Vec<Set>> {
    let talks: Vec<Talk> = read(&data.join("locomo-dev.jsonl.gz"))?;
    let set = |talk: Talk| {
        let turn = |turn: Turn| row(RowKind::Note, turn.id, None, Some(format!("{}: {}", turn.speaker, turn.text)), Value::Null);
        let asked = talk.questions.into_iter().filter(|question| !question.evidence.is_empty()).map(|question| Asked {
            words: question.words,
            right: question.evidence,
            multi_hop: question.category == MULTI_HOP,
        });
        Set { rows: talk.turns.into_iter().map(turn).collect(), asked: asked.collect() }
    };
    Ok(talks.into_iter().map(set).collect())
}

fn row(kind: RowKind, name: String, description: Option<String>, text: Option<String>, parameters: Value) -> Row {
    Row { kind, name, server: None, description, text, parameters }
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<Vec<T>> {
    let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let lines = BufReader::new(GzDecoder::new(opened)).lines();
    lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

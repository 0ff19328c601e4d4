//! How many of the messages that hold the answer `recall` finds in a long conversation. Needs the data set; nothing of it is in this tree.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};
use clap::Parser;
use flate2::read::GzDecoder;
use foreword_core::history::MessageId;
use foreword_core::message::Role;
use foreword_engine::manager::{Past, Recall, Remark};
use foreword_trust::places::Places;
use foreword_vault_tools::embedding::{EmbeddingModel, Fetch};
use serde::Deserialize;

/// Beside the checkout.
const DATA: &str = "../shared/data";

/// What is looked at of the results.
const TOP: usize = 10;

/// How many of the messages that hold the answer `recall` finds
#[derive(Parser)]
struct Args {
    /// The folder of the data set
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where model weights are, or go; `FOREWORD_MODELS` where it is left out
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
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
    evidence: Vec<String>,
    #[serde(rename = "question")]
    words: String,
}

/// A conversation that is over.
struct Over(Vec<Remark>);

impl Past for Over {
    fn news(&mut self) -> Result<Vec<Remark>, String> {
        Ok(std::mem::take(&mut self.0))
    }

    fn read(&mut self, _: MessageId) -> Result<Option<String>, String> {
        Ok(None)
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let data = args.data.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(DATA));
    let file = data.join("locomo-dev.jsonl.gz");
    if !file.is_file() {
        println!("nothing was measured: the data is not in {} (name its folder with `-- --data DIR`)", data.display());
        return Ok(());
    }
    let cache = std::env::temp_dir().join("foreword-bench");
    let given = args.models.or_else(|| std::env::var_os("FOREWORD_MODELS").map(PathBuf::from));
    let models = given.unwrap_or_else(|| cache.join("models"));
    let places = Places { state: cache.join("state"), cache, models };
    let meaning = Arc::new(EmbeddingModel::new(&places.models, Fetch::Allowed { mirror: None }));
    println!("| recall | R@{TOP} | ms a question |\n| --- | --- | --- |");
    for (name, by_meaning) in [("by words", false), ("**by words and meaning**", true)] {
        let (mut shares, mut ms) = (Vec::new(), 0.0);
        for line in
            BufReader::new(GzDecoder::new(File::open(&file).with_context(|| format!("cannot open {}", file.display()))?)).lines()
        {
            let talk: Talk = serde_json::from_str(&line?)?;
            let ids: Vec<String> = talk.turns.iter().map(|turn| turn.id.clone()).collect();
            let remarks = (0..).zip(talk.turns).map(|(input, turn)| Remark {
                id: MessageId::of_input(input),
                role: Role::User,
                run: input,
                text: format!("{}: {}", turn.speaker, turn.text),
            });
            let meaning = by_meaning.then(|| (Arc::clone(&meaning), places.embeddings()));
            let mut recall = Recall::new(Box::new(Over(remarks.collect())), meaning);
            recall.search("warm up", TOP).map_err(|error| anyhow!(error))?;
            for question in talk.questions.iter().filter(|question| !question.evidence.is_empty()) {
                let started = Instant::now();
                let found = recall.search(&question.words, TOP).map_err(|error| anyhow!(error))?;
                ms += started.elapsed().as_secs_f64() * 1000.0;
                let name = |id: MessageId| usize::try_from(id.input).ok().and_then(|at| ids.get(at));
                let names: Vec<&String> = found.iter().filter_map(|found| name(found.id)).collect();
                let right = question.evidence.iter().filter(|right| names.contains(right)).count();
                shares.push(right as f64 / question.evidence.len() as f64);
            }
        }
        let recall = shares.iter().sum::<f64>() / shares.len() as f64 * 100.0;
        println!("| {name} | {recall:.1} | {:.1} |", ms / shares.len() as f64);
    }
    Ok(())
}

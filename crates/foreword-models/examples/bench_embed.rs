//! How fast texts become vectors, beside onnxruntime with the same weights in the same minute.
//!
//! `FOREWORD_MODELS=folder cargo run --release -p foreword-models --example bench_embed`
//!
//! `FOREWORD_ORT_PYTHON` names a Python that has onnx, onnxruntime, numpy and tokenizers; without it that column is left out.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use foreword_models::minilm::MiniLm;
use foreword_models::weights::MINILM;
use serde_json::{Value, json};

type Fault = Box<dyn std::error::Error>;

const QUERY: &str = "How do I keep basil alive in winter?";
const CHUNKS: usize = 128;
const CHUNK_CHARS: usize = 500;
const ROUNDS: usize = 3;

fn main() -> Result<(), Fault> {
    let cache = std::env::var_os("FOREWORD_MODELS").ok_or("FOREWORD_MODELS does not name the folder of the models")?;
    let folder = MINILM.present(Path::new(&cache)).ok_or("the folder of the models does not have the embedding model")?;
    let chunks = chunks();
    let texts: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let reference = reference(&folder, &texts)?;
    let beside = |threads: &str, field: &str| reference.as_ref().and_then(|all| all[threads][field].as_f64());

    println!("{:<44} {:>9} {:>12} {:>7}", "", "ours", "onnxruntime", "ratio");
    let (model, load) = open(&folder)?;
    print_row("load, ms", load, beside("2", "load_ms"));
    let mut model = model;
    for count in [1, 2] {
        model = model.with_threads(NonZeroUsize::new(count).ok_or("no threads")?);
        let name = count.to_string();
        let chunk = least(ROUNDS, || model.embed(&texts)) / CHUNKS as f64;
        print_row(&format!("{CHUNKS} chunks of {CHUNK_CHARS}, {count} thread(s), ms a chunk"), chunk, beside(&name, "chunk_ms"));
        let query = least(10 * ROUNDS, || model.embed(&[QUERY]));
        print_row(&format!("one short query, {count} thread(s), ms"), query, beside(&name, "query_ms"));
    }
    if reference.is_none() {
        println!("\nFor onnxruntime's times: pip install onnx onnxruntime numpy tokenizers, FOREWORD_ORT_PYTHON=that python.");
    }
    Ok(())
}

fn open(folder: &Path) -> Result<(MiniLm, f64), Fault> {
    let mut best = f64::INFINITY;
    let mut model = None;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        model = Some(MiniLm::open(folder)?);
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok((model.ok_or("not opened")?, best))
}

/// The least time of several rounds, in milliseconds: what else runs on the machine only ever adds.
fn least<T>(rounds: usize, work: impl Fn() -> T) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        std::hint::black_box(work());
        least = least.min(start.elapsed().as_secs_f64() * 1e3);
    }
    least
}

fn print_row(name: &str, ours: f64, theirs: Option<f64>) {
    match theirs {
        Some(theirs) => println!("{name:<44} {ours:>9.2} {theirs:>12.2} {:>6.2}x", theirs / ours),
        None => println!("{name:<44} {ours:>9.2}"),
    }
}

/// Prose of a kind: common words in an order that repeats late.
fn chunks() -> Vec<String> {
    let words = "the garden was quiet when we came back from market with two baskets of pears and a letter nobody had opened because \
                 it rained all afternoon she read about tides while he repaired an old accordion for friends who were travelling north \
                 through villages where winter starts early and people keep bees under slate roofs near slow rivers";
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut state = 1_usize;
    let mut word = || {
        state = (state * 1_103 + 12_345) % 65_521;
        words[state % words.len()]
    };
    let mut chunk = || {
        let mut chunk = String::new();
        while chunk.len() < CHUNK_CHARS {
            chunk.push_str(word());
            chunk.push(' ');
        }
        chunk
    };
    (0..CHUNKS).map(|_| chunk()).collect()
}

/// What the Python script beside this file measures.
fn reference(folder: &Path, texts: &[&str]) -> Result<Option<Value>, Fault> {
    let Some(python) = std::env::var_os("FOREWORD_ORT_PYTHON") else { return Ok(None) };
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/bench_embed_ort.py");
    let mut child =
        Command::new(python).arg("-B").arg(script).arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let task = json!({"texts": texts, "query": QUERY, "rounds": ROUNDS});
    child.stdin.take().ok_or("no input")?.write_all(task.to_string().as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err("the script for onnxruntime failed; its words are above".into());
    }
    Ok(Some(serde_json::from_slice(&output.stdout)?))
}

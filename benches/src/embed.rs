//! How fast texts become vectors, beside onnxruntime with the same weights in the same minute.
//!
//! `FOREWORD_MODELS=folder cargo run --release -p foreword-models --example bench_embed`
//!
//! `FOREWORD_ORT_PYTHON` names a Python that has onnx, onnxruntime, numpy and tokenizers; without it that column is left out.

use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use foreword_models::minilm::MiniLm;
use foreword_models::weights::MINILM;
use serde_json::{Value, json};

type Fault = Box<dyn std::error::Error>;

const QUERY: &str = "How do I keep basil alive in winter?";
const CHUNKS: usize = 128;
const CHUNK_CHARS: usize = 500;

/// How often each is measured, in turns: all chunks, and a few queries at a time. The least time counts: what else runs on the machine
/// only ever adds.
const CHUNK_ROUNDS: usize = 4;
const QUERY_ROUNDS: (usize, usize) = (25, 5);
/// Onnxruntime's threads look for more work for a while, which would be taken from us.
const PAUSE: Duration = Duration::from_millis(30);

fn main() -> Result<(), Fault> {
    let cache = std::env::var_os("FOREWORD_MODELS").ok_or("FOREWORD_MODELS does not name the folder of the models")?;
    let folder = MINILM.present(Path::new(&cache)).ok_or("the folder of the models does not have the embedding model")?;
    let chunks = chunks();
    let texts: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let mut other = Other::start(&folder, &texts)?;

    println!("{:<44} {:>9} {:>12} {:>7}", "", "ours", "onnxruntime", "ratio");
    let mut load = f64::INFINITY;
    for _ in 0..2 * CHUNK_ROUNDS {
        load = load.min(timed(|| MiniLm::open(&folder)));
    }
    print_row("load, ms", load, other.as_ref().map(|other| other.load));

    let mut model = MiniLm::open(&folder)?;
    for threads in [1, 2] {
        model = model.with_threads(NonZeroUsize::new(threads).ok_or("no threads")?);
        for (what, name, (rounds, times)) in
            [("chunks", "one of 128 chunks of 500", (CHUNK_ROUNDS, 1)), ("query", "one short query", QUERY_ROUNDS)]
        {
            let texts = if what == "query" { &[QUERY][..] } else { &texts };
            let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..rounds {
                for _ in 0..times {
                    ours = ours.min(timed(|| model.embed(texts)));
                }
                for _ in 0..times {
                    if let Some(other) = &mut other {
                        theirs = theirs.min(other.time(what, threads)?);
                    }
                }
                std::thread::sleep(PAUSE);
            }
            let count = texts.len() as f64;
            let theirs = other.as_ref().map(|_| theirs / count);
            print_row(&format!("{name}, {threads} thread(s), ms"), ours / count, theirs);
        }
    }
    match other {
        Some(other) => other.stop()?,
        None => {
            println!(
                "\nFor onnxruntime's times: pip install onnx onnxruntime numpy tokenizers, FOREWORD_ORT_PYTHON=that python."
            );
        }
    }
    Ok(())
}

/// How long `work` takes, in milliseconds.
fn timed<T>(work: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    std::hint::black_box(work());
    start.elapsed().as_secs_f64() * 1e3
}

fn print_row(name: &str, ours: f64, theirs: Option<f64>) {
    match theirs {
        Some(theirs) => println!("{name:<44} {ours:>9.2} {theirs:>12.2} {:>6.2}x", ours / theirs),
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

/// The Python script beside this file, which runs onnxruntime when asked.
struct Other {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    load: f64,
}

impl Other {
    fn start(folder: &Path, chunks: &[&str]) -> Result<Option<Self>, Fault> {
        let Some(python) = std::env::var_os("FOREWORD_ORT_PYTHON") else { return Ok(None) };
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/embed_ort.py");
        let mut command = Command::new(python);
        let mut child = command.arg("-B").arg(script).arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut other = Self { child, input, output, load: 0.0 };
        let about: Value = serde_json::from_str(&other.ask(&json!({"chunks": chunks, "query": QUERY}).to_string())?)?;
        println!("onnxruntime {}", about["version"].as_str().unwrap_or("?"));
        other.load = about["load_ms"].as_f64().ok_or("no time")?;
        Ok(Some(other))
    }

    fn ask(&mut self, line: &str) -> Result<String, Fault> {
        writeln!(self.input, "{line}")?;
        let mut answer = String::new();
        if self.output.read_line(&mut answer)? == 0 {
            return Err("the script for onnxruntime failed; its words are above".into());
        }
        Ok(answer)
    }

    fn time(&mut self, what: &str, threads: usize) -> Result<f64, Fault> {
        Ok(self.ask(&format!("{what} {threads}"))?.trim().parse()?)
    }

    fn stop(self) -> Result<(), Fault> {
        let Self { mut child, input, .. } = self;
        drop(input);
        child.wait()?;
        Ok(())
    }
}

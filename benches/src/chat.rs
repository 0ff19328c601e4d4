//! How fast the embedded chat model is, beside llama.cpp on the same file and threads, in turns: the ratios hold on a busy machine too.
//!
//! `cargo xtask bench chat`. `FOREWORD_MODELS` names the folder of the models, `FOREWORD_LLAMA_PYTHON` a Python that has the package `xllamacpp`;
//! without one that column is left out. Ready built, that package uses AVX2 at most; built on the spot (`pip install --no-binary :all:`) it uses all
//! that the processor has.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use foreword_core::message::Role;
use foreword_models::chat_model::{Chat, ChatModel, Prompt, Sampling};
use foreword_models::weights::SMOLLM2;
use serde_json::{Value, json};

/// Tokens that are written after each prompt.
const WRITTEN: usize = 32;
/// The best of so many rounds counts.
const ROUNDS: usize = 3;
/// Words of the prompts.
const WORDS: [usize; 2] = [5, 50];

type Fault = Box<dyn std::error::Error>;

fn main() -> Result<(), Fault> {
    let models = std::env::var_os("FOREWORD_MODELS").ok_or("FOREWORD_MODELS does not name the folder of the models")?;
    let folder = SMOLLM2.present(Path::new(&models)).ok_or("the folder of the models does not have the chat model")?;
    let path = folder.join(SMOLLM2.files[0].file_name());
    let mut model = ChatModel::open(&path)?;
    println!("{:<48} {:>8} {:>10} {:>7}", "", "ours", "llama.cpp", "ratio");
    for threads in [1, 2] {
        model = model.with_threads(NonZeroUsize::new(threads).ok_or("no threads")?);
        let shared = Arc::new(model);
        let mut other = Other::start(&path, threads)?;
        for words in WORDS {
            let prompt = shared.prompt(&[(Role::User, &text(words))]);
            let (mut ours, mut theirs) = ((f64::INFINITY, f64::INFINITY), (f64::INFINITY, f64::INFINITY));
            for _ in 0..ROUNDS {
                ours = least(ours, time(&shared, &prompt));
                if let Some(other) = &mut other {
                    theirs = least(theirs, other.time(&prompt)?);
                }
            }
            let theirs = other.as_ref().map(|_| theirs);
            let count = prompt.tokens().0 as f64;
            row(
                &format!("read {count} tokens, {threads} thread(s), tokens/s"),
                count / ours.0,
                theirs.map(|theirs| count / theirs.0),
            );
            let count = WRITTEN as f64;
            row(
                &format!("write after them, {threads} thread(s), tokens/s"),
                count / ours.1,
                theirs.map(|theirs| count / theirs.1),
            );
        }
        if let Some(other) = other {
            other.stop()?;
        }
        model = Arc::into_inner(shared).ok_or("the model is still in use")?;
    }
    Ok(())
}

fn least(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.min(b.1))
}

fn row(name: &str, ours: f64, theirs: Option<f64>) {
    match theirs {
        Some(theirs) => println!("{name:<48} {ours:>8.0} {theirs:>10.0} {:>6.2}x", ours / theirs),
        None => println!("{name:<48} {ours:>8.0}"),
    }
}

/// Seconds to read the prompt, and to write.
fn time(model: &Arc<ChatModel>, prompt: &Prompt) -> (f64, f64) {
    let mut chat = Chat::new(Arc::clone(model));
    let start = Instant::now();
    let sampling = Sampling { temperature: 0.0, max_tokens: WRITTEN, ..Sampling::default() };
    let answer = chat.answer(prompt, &sampling, &|| false, &mut |_| {});
    let (all, read) = (start.elapsed().as_secs_f64(), answer.time_to_first.unwrap_or_default().as_secs_f64());
    (read, (all - read) / answer.output_tokens.0 as f64 * WRITTEN as f64)
}

/// Numbered things, so that nothing repeats early.
fn text(words: usize) -> String {
    let mut text = "Tell a story with all of these: ".to_owned();
    let things = ["garden", "river", "letter", "bridge", "winter", "lamp", "violin", "market", "island", "coat", "train"];
    for (word, thing) in (0..words).zip(things.iter().cycle()) {
        // Writing to a text cannot fail.
        let _ = write!(text, "the {thing} of house {word}, ");
    }
    text.truncate(text.trim_end_matches(", ").len());
    text
}

/// The Python script beside this file, which runs llama.cpp when asked.
struct Other {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Other {
    fn start(model: &Path, threads: usize) -> Result<Option<Self>, Fault> {
        let Some(python) = std::env::var_os("FOREWORD_LLAMA_PYTHON") else { return Ok(None) };
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/chat_llama.py");
        let mut command = Command::new(python);
        let command = command.arg("-B").arg(script).arg(model).arg(threads.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Some(Self { child, input, output }))
    }

    fn time(&mut self, prompt: &Prompt) -> Result<(f64, f64), Fault> {
        writeln!(self.input, "{}", json!({"prompt": prompt.ids(), "write": WRITTEN}))?;
        let mut answer = String::new();
        if self.output.read_line(&mut answer)? == 0 {
            return Err("the script for llama.cpp failed: run bench_chat_llama.py by hand to see why".into());
        }
        let answer: Value = serde_json::from_str(&answer)?;
        let seconds = |what: &str| answer[what].as_f64().ok_or("no time");
        Ok((seconds("read")?, seconds("write")?))
    }

    fn stop(self) -> Result<(), Fault> {
        let Self { mut child, input, .. } = self;
        drop(input);
        child.wait()?;
        Ok(())
    }
}

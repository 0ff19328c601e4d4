//! Questions about the example vault, asked of the small model: whether what answers them is on the screen, whether the model says it, whether
//! its reply goes round in circles, and how long it takes.
//!
//! `cargo xtask bench answers`. `FOREWORD_BIN` names the program, `FOREWORD_MODELS` the folder of the models.

use std::path::Path;
use std::process::Command;
use std::time::Instant;
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use tempfile::TempDir;

const LABEL: &str = "Answer of the small model";

/// So many words in the same order twice in one reply are a circle.
const CIRCLE: usize = 8;

#[derive(Deserialize)]
struct Question {
    question: String,
    fact: String,
}

fn main() -> Result<()> {
    let program = env::var_os("FOREWORD_BIN").context("FOREWORD_BIN does not name the program")?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let questions = fs::read_to_string(here.join("tests/questions/vault.jsonl"))?;
    let questions = questions.lines().map(serde_json::from_str).collect::<serde_json::Result<Vec<Question>>>()?;
    let state = TempDir::new()?;
    let vault = state.path().join("vault");
    copy(&here.join("../examples/vault"), &vault)?;
    let (mut shown, mut said, mut circles, mut words_of_all) = (0, 0, 0, 0);
    let start = Instant::now();
    for Question { question, fact } in &questions {
        let output = Command::new(&program)
            .arg("ask")
            .arg(&vault)
            .args([question, "--mode", "qa"])
            .env("FOREWORD_STATE", state.path().join("state"))
            .env("FOREWORD_CACHE", state.path().join("cache"))
            .env("XDG_CONFIG_HOME", state.path().join("config"))
            .output()?;
        ensure!(output.status.success(), "{question}: {}", String::from_utf8_lossy(&output.stderr));
        let screen = String::from_utf8(output.stdout)?;
        let (above, below) = screen.split_once(LABEL).context("the answer is not labelled")?;
        let reply = below.split_once('\n').map_or("", |(_, reply)| reply).trim();
        let (on_screen, in_reply) = (flat(above).contains(&flat(fact)), flat(reply).contains(&flat(fact)));
        let words: Vec<&str> = reply.split_whitespace().collect();
        let in_circles = (0..words.len().saturating_sub(CIRCLE)).any(|at| {
            let run = &words[at..at + CIRCLE];
            words[at + 1..].windows(CIRCLE).any(|later| later == run)
        });
        shown += usize::from(on_screen);
        said += usize::from(in_reply);
        circles += usize::from(in_circles);
        words_of_all += words.len();
        let mark = |yes: bool| if yes { "+" } else { "-" };
        println!("{}{} {question}\n     {}", mark(on_screen), mark(in_reply), words.join(" "));
    }
    let (count, seconds) = (questions.len(), start.elapsed().as_secs_f64());
    println!("on the screen: {shown} of {count}; in the model's words: {said}; replies that go round in circles: {circles}");
    println!("{:.1} words a reply, {:.1} s a question", words_of_all as f64 / count as f64, seconds / count as f64);
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() { copy(&from, &to)? } else { fs::copy(&from, &to).map(drop)? }
    }
    Ok(())
}

/// A text on one line without quote marks, in lower case.
fn flat(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_start_matches("> "));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ").to_lowercase()
}

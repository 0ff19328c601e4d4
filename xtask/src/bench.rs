//! `cargo xtask bench`: which benchmark is run, and how. What it measures is the benchmark's own affair.

use std::io::{self, Write};

use anyhow::Result;
use clap::ValueEnum;

use crate::callgrind;
use crate::cargo::{self, Cargo};
use crate::python;
use crate::setup;
use crate::step::Steps;

/// Each ten times the one before: work that grows with the session shows as a factor near ten.
const SESSION_LENGTHS: [u32; 3] = [100, 1_000, 10_000];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which benchmark to run
    #[arg(value_name = "BENCH")]
    bench: Bench,

    /// Options for the benchmark itself, after `--`
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Bench {
    /// The time and the instructions that the engine's own work takes
    Core,
    /// What sessions cost at the providers' prices, layout by layout
    Cost,
    /// What cache lifetimes and keep-alives would have cost over logged calls, and how far the simulators are from what was reported
    Calls,
    /// How fast request bodies are written in each dialect
    Bodies,
    /// How many of the right items the search finds: by words, by meaning, by both
    Retrieval,
    /// How many of the messages that hold the answer `recall` finds in a long conversation
    Recall,
    /// How fast texts become vectors, beside onnxruntime with the same weights
    Embed,
    /// How fast the nearest vectors are found, beside reading them once
    Vectors,
    /// How fast a vault of 10,000 notes is opened, reopened and kept current
    Vault,
    /// What keeping a turn costs in sessions of 10 to 10,000 turns, beside three appends that reach the disk
    Store,
    /// What the engine adds to a request, without model and network
    Overhead,
    /// How long the first token takes, turn by turn: everything glued anew, `library`, `log`; and a llama.cpp server beside its simulator
    Prefix,
    /// How fast the embedded chat model reads and writes, beside llama.cpp on the same file
    Chat,
    /// Whether what answers a question is on the screen, what the small model says, and how long that takes
    Answers,
    /// What the gateway adds to a request, beside `TensorZero`, `LiteLLM` and headroom, and what a thousand streams take
    Gateway,
    /// How fast a gigabyte of agents' logs is read, and with how much memory
    Audit,
}

impl Bench {
    /// Its program in the package `foreword-benches`.
    fn program(self) -> &'static str {
        match self {
            Self::Core => "bench_core",
            Self::Cost => "bench_cost",
            Self::Calls => "bench_calls",
            Self::Bodies => "bench_bodies",
            Self::Retrieval => "bench_retrieval",
            Self::Recall => "bench_recall",
            Self::Embed => "bench_embed",
            Self::Vectors => "bench_vectors",
            Self::Vault => "bench_vault",
            Self::Store => "bench_store",
            Self::Overhead => "bench_overhead",
            Self::Prefix => "bench_prefix",
            Self::Chat => "bench_chat",
            Self::Answers => "bench_answers",
            Self::Gateway => "bench_gateway",
            Self::Audit => "bench_audit",
        }
    }

    /// Whether it works with the models' weights.
    fn needs_models(self) -> bool {
        matches!(self, Self::Embed | Self::Prefix | Self::Chat | Self::Answers)
    }

    /// Whether llama.cpp stands beside us in it.
    fn needs_llama(self) -> bool {
        matches!(self, Self::Prefix | Self::Chat)
    }
}

/// Runs one benchmark, and for `core` counts instructions as well.
pub(crate) fn run(args: &Args, cargo: &Cargo, steps: &mut Steps) -> Result<()> {
    let program = args.bench.program();
    let mut command = cargo.command(["run", "--release", "--package", "foreword-benches", "--bin", program, "--"]);
    command.args(&args.args);
    if args.bench.needs_models() {
        let Some(models) = setup::models(cargo, steps, "release")? else { return Ok(()) };
        command.env("FOREWORD_MODELS", models);
    }
    if args.bench.needs_llama() {
        command.env("FOREWORD_LLAMA_PYTHON", python::with("llama.cpp", &python::LLAMA, steps)?);
    }
    if matches!(args.bench, Bench::Gateway) {
        command.env("FOREWORD_LITELLM", python::with("litellm", &python::LITELLM, steps)?);
        command.env("FOREWORD_TENSORZERO", python::with("tensorzero", &python::TENSORZERO, steps)?);
        command.env("FOREWORD_HEADROOM", python::with("headroom", &python::HEADROOM, steps)?);
    }
    if matches!(args.bench, Bench::Gateway | Bench::Answers) {
        command.env("FOREWORD_BIN", setup::program(cargo, steps)?);
    }
    steps.run(&mut command)?;
    match args.bench {
        Bench::Core if steps.all_passed() => count_instructions(program, cargo, steps),
        _ => Ok(()),
    }
}

fn count_instructions(program: &str, cargo: &Cargo, steps: &Steps) -> Result<()> {
    if !cargo::is_installed("valgrind") {
        return steps.note(
            "instructions were not counted, because valgrind is not installed: \
             install your system's package `valgrind`, for example with `apt-get install valgrind`",
        );
    }
    let mut counts = Vec::new();
    for turns in SESSION_LENGTHS {
        let title = format!("instructions for one more envelope after {turns} turns (callgrind)");
        let steps_of = turns.to_string();
        let count = || callgrind::instructions(cargo, program, "measured_next_envelope", &["--steps", &steps_of]);
        counts.push((turns, steps.work(&title, count)?));
    }
    io::stdout().write_all(table(&counts).as_bytes())?;
    let turns = SESSION_LENGTHS[0].to_string();
    let body = |marks: &str| callgrind::instructions(cargo, program, "measured_body", &["--steps", &turns, "--marks", marks]);
    let title = format!("instructions for one more body after {turns} turns, with and without cache marks (callgrind)");
    let (with, without) = steps.work(&title, || Ok((body("true")?, body("false")?)))?;
    let (_, envelope) = counts[0];
    io::stdout().write_all(share_of_marks(envelope, with, without).as_bytes())?;
    Ok(())
}

/// What cache marks take of an envelope with its body.
fn share_of_marks(envelope: u64, with: u64, without: u64) -> String {
    let marks = with.saturating_sub(without);
    let share = marks as f64 / (envelope + without).max(1) as f64 * 100.0;
    format!("cache marks: {} instructions, {share:.2} % of an envelope with its body\n", grouped(marks))
}

fn table(counts: &[(u32, u64)]) -> String {
    let mut text = format!("{:>8}  {:>16}  {:>12}\n", "turns", "instructions", "growth");
    let mut before = None;
    for &(turns, count) in counts {
        let growth = before.map_or_else(String::new, |before: u64| format!("x {:.2}", count as f64 / before as f64));
        let row = format!("{:>8}  {:>16}  {growth:>12}", grouped(turns.into()), grouped(count));
        text.push_str(row.trim_end());
        text.push('\n');
        before = Some(count);
    }
    text
}

/// A number with a comma before every third digit from the right.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{grouped, share_of_marks, table};

    #[test]
    fn marks_are_a_share_of_the_rest() {
        let check = |with, expect: &str| assert_eq!(share_of_marks(600_000, with, 400_000), expect);
        check(410_000, "cache marks: 10,000 instructions, 1.00 % of an envelope with its body\n");
        check(400_000, "cache marks: 0 instructions, 0.00 % of an envelope with its body\n");
    }

    #[test]
    fn digits_are_grouped_by_three() {
        let check = |number, expect: &str| assert_eq!(grouped(number), expect);
        check(0, "0");
        check(999, "999");
        check(1_000, "1,000");
        check(1_234_567, "1,234,567");
    }

    #[test]
    fn growth_is_relative_to_the_row_above() {
        let expect = "   turns      instructions        growth\n     \
                      100         1,000,000\n   \
                      1,000         1,250,000        x 1.25\n";
        assert_eq!(table(&[(100, 1_000_000), (1_000, 1_250_000)]), expect);
    }
}

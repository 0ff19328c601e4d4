//! `cargo xtask fuzz`: the fuzz targets, with the coverage that stable Rust can give, so that no other toolchain is needed.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::{Cargo, is_installed};
use crate::step::Steps;

const TARGETS: [&str; 16] = [
    "markdown",
    "frontmatter",
    "links",
    "query",
    "transcript",
    "import",
    "session",
    "front",
    "audit_claude",
    "audit_codex",
    "audit_gemini",
    "audit_qwen",
    "audit_pi",
    "audit_copilot",
    "audit_opencode",
    "audit_aider",
];

/// What makes the compiler count which branches an input takes.
const COVERAGE: &str = "-Cpasses=sancov-module -Ccodegen-units=1 -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which target to run; without it, all of them
    #[arg(value_parser = TARGETS)]
    target: Option<String>,

    /// How long each target runs
    #[arg(long, value_name = "N", default_value = "20")]
    seconds: NonZeroU32,
}

/// Builds the targets and runs them, each from the checked-in corpus, the example vault and what earlier runs found.
pub(crate) fn run(args: &Args, cargo: &Cargo, steps: &mut Steps) -> Result<()> {
    // Told here, because the build would end in the middle of other lines, and speak of `c++` only.
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    if !is_installed(&compiler) {
        bail!(
            "fuzzing needs a C++ compiler, and `{compiler} --version` does not run; install g++ or clang, or name yours in CXX"
        );
    }
    let triple = host(cargo)?;
    let target_folder = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| cargo.root().join("fuzz/target"), |folder| PathBuf::from(folder).join("fuzz"));
    // An explicit target keeps the coverage out of build scripts, which are not linked with the fuzzer.
    let mut build = cargo.command(["build", "--release", "--bins", "--manifest-path", "fuzz/Cargo.toml", "--target", &triple]);
    steps.run(build.env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", &target_folder))?;
    if !steps.all_passed() {
        return Ok(());
    }
    let targets = TARGETS.iter().filter(|target| args.target.as_deref().is_none_or(|wanted| wanted == **target));
    for target in targets {
        let program = target_folder.join(&triple).join("release").join(target);
        let finds = target_folder.join("finds").join(target);
        fs::create_dir_all(finds.join("corpus"))
            .with_context(|| format!("cannot make the folder {} for new inputs", finds.display()))?;
        steps.run(&mut fuzz(&program, &finds, args.seconds, &seeds(cargo.root(), target)))?;
        say_how_to_repeat(steps, &program, &finds)?;
    }
    Ok(())
}

/// The run of one target. New inputs go to the first folder, crashes next to it.
fn fuzz(program: &Path, finds: &Path, seconds: NonZeroU32, seeds: &[PathBuf]) -> Command {
    let mut command = Command::new(program);
    command.arg(format!("-max_total_time={seconds}")).args(["-max_len=4096", "-timeout=5", "-rss_limit_mb=2048", "-verbosity=0"]);
    command.arg(format!("-artifact_prefix={}{}", finds.display(), std::path::MAIN_SEPARATOR));
    command.arg(finds.join("corpus")).args(seeds);
    command
}

fn seeds(root: &Path, target: &str) -> Vec<PathBuf> {
    [root.join("fuzz/corpus").join(target), root.join("examples/vault")].into_iter().filter(|folder| folder.is_dir()).collect()
}

/// Names every input that broke the target, with the command that runs it alone.
fn say_how_to_repeat(steps: &Steps, program: &Path, finds: &Path) -> Result<()> {
    let entries = fs::read_dir(finds).with_context(|| format!("cannot list {}", finds.display()))?;
    let mut inputs: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
    inputs.sort();
    for input in inputs {
        steps.note(&format!(
            "this input broke it; repeat with `{} {}`, and delete it once a test holds it",
            program.display(),
            input.display()
        ))?;
    }
    Ok(())
}

/// The triple of this machine, as its compiler names it.
fn host(cargo: &Cargo) -> Result<String> {
    let output = cargo.command(["--version", "--verbose"]).output().context("cannot ask cargo for its version")?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().find_map(|line| line.strip_prefix("host: ")) {
        Some(triple) => Ok(triple.to_owned()),
        None => bail!("cannot tell this machine's target: `cargo --version --verbose` has no line `host: …`"),
    }
}

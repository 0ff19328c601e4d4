//! Programs that the tests of the server are done with: a browser from the system's packages, and the clients of OpenAI and Anthropic
//! from `PyPI`, installed once.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result};

use crate::step::Steps;

/// The clients, with their versions: another version may send something else.
const CLIENTS: [&str; 2] = ["openai==3.49.0", "anthropic==2.8.0"];

/// Installs Chromium and its driver where they are not here yet (Debian's packages; elsewhere a person has to).
pub(crate) fn browser(steps: &mut Steps) -> Result<()> {
    let there = Command::new("chromedriver").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        steps.run(Command::new("apt-get").args([
            "install",
            "--yes",
            "--no-install-recommends",
            "chromium",
            "chromium-driver",
        ]))?;
    }
    Ok(())
}

/// A Python with the clients in it, beside what cargo builds.
pub(crate) fn python(steps: &mut Steps) -> Result<PathBuf> {
    let own = env::current_exe().context("cannot tell where this program is")?;
    let target = own.ancestors().nth(2).context("this program is not in cargo's target folder")?;
    let (folder, done) = (target.join("python"), target.join("python/clients"));
    let python = folder.join("bin/python");
    if fs::read_to_string(&done).unwrap_or_default() != CLIENTS.join("\n") {
        steps.run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        steps
            .run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(CLIENTS))?;
        if steps.all_passed() {
            fs::write(&done, CLIENTS.join("\n")).with_context(|| format!("cannot write {}", done.display()))?;
        }
    }
    Ok(python)
}

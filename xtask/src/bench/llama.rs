//! llama.cpp, to compare with: a package that brings it ready built, server included, installed once beside what cargo builds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use crate::cargo::Cargo;
use crate::step::Steps;

/// The version is fixed, so that what is compared with is the same tomorrow.
const PACKAGE: &str = "xllamacpp==2026.10.11549";

/// The Python that `FOREWORD_LLAMA_PYTHON` names, or one of our own that has the package.
pub(super) fn python(cargo: &Cargo, steps: &Steps) -> Result<OsString> {
    if let Some(named) = env::var_os("FOREWORD_LLAMA_PYTHON").filter(|named| !named.is_empty()) {
        return Ok(named);
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| cargo.root().join("target"), PathBuf::from);
    let folder = target.join("llama.cpp");
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let stamp = folder.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == PACKAGE) {
        return Ok(python.into());
    }
    steps.work(&format!("pip install {PACKAGE} (into {})", folder.display()), || install(&folder, &python, &stamp))?;
    Ok(python.into())
}

fn install(folder: &Path, python: &Path, stamp: &Path) -> Result<()> {
    run(Command::new(if cfg!(windows) { "python" } else { "python3" }).args(["-m", "venv", "--clear"]).arg(folder))?;
    run(Command::new(python).args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:", PACKAGE]))?;
    fs::write(stamp, PACKAGE).with_context(|| format!("cannot write {}", stamp.display()))
}

fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command
        .status()
        .with_context(|| format!("cannot run {shown}: install Python 3.10 or newer with its modules venv and pip"))?;
    ensure!(status.success(), "{shown} failed; its words are above");
    Ok(())
}

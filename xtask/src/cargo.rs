//! How cargo and its optional helpers are called: always the cargo that started us, always from the workspace's root.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// The cargo that runs this program, and the workspace it runs in.
pub(crate) struct Cargo {
    program: OsString,
    root: PathBuf,
}

impl Cargo {
    /// Reads what `cargo run` tells the programs it starts.
    ///
    /// The root is read when we run, not when we are compiled: a checkout that was moved may still hold the old binary.
    pub(crate) fn from_environment() -> Result<Self> {
        let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let root = package.as_deref().and_then(|folder| folder.parent());
        let root = root.context("cannot tell where the workspace is: start this program as `cargo xtask`")?;
        let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        Ok(Self { program, root: root.to_owned() })
    }

    /// The workspace's root.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A cargo command in the workspace's root, ready to be run.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(&self.root);
        command
    }

    /// Whether a cargo subcommand that does not come with Rust is installed.
    pub(crate) fn has(&self, subcommand: &str) -> bool {
        // Asking cargo, not PATH: cargo also looks in its own folder.
        answers(&mut self.command([subcommand, "--version"]))
    }
}

/// Whether a program is installed, by asking for its version.
pub(crate) fn is_installed(program: &str) -> bool {
    answers(Command::new(program).arg("--version"))
}

fn answers(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

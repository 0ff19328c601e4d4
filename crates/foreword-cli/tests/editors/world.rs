//! A copy of the example vault, and what runs clients against it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use tempfile::TempDir;

pub(crate) const FOREWORD: &str = env!("CARGO_BIN_EXE_foreword");

/// A copy of the example vault beside a file that must not be read, with one session in its store.
pub(crate) struct World {
    pub(crate) folder: TempDir,
}

impl World {
    /// Without sessions.
    pub(crate) fn empty() -> Self {
        let world = Self { folder: TempDir::new().unwrap() };
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vault"), &world.vault());
        fs::write(world.folder.path().join("secret.md"), "hunter2").unwrap();
        world
    }

    /// With one session.
    pub(crate) fn new() -> Self {
        let world = Self::empty();
        let script = world.folder.path().join("script.json");
        fs::write(&script, r#"{"replies": [{"text": "The flat loaf proved too long."}]}"#).unwrap();
        let asked =
            world.foreword().arg("ask").arg(world.vault()).args(["Why was the loaf flat?", "--script"]).arg(&script).output();
        let asked = asked.unwrap();
        assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
        world
    }

    pub(crate) fn vault(&self) -> PathBuf {
        self.folder.path().join("vault")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join("messages.jsonl")
    }

    pub(crate) fn of(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        for (variable, folder) in [("CACHE", "cache"), ("STATE", "state")] {
            command.env(format!("FOREWORD_{variable}"), self.folder.path().join(folder));
        }
        let config = self.folder.path().join("config.toml");
        fs::write(&config, "").unwrap();
        command.env("FOREWORD_CONFIG", config).env_remove("FOREWORD_MODELS");
        command
    }

    pub(crate) fn foreword(&self) -> Command {
        self.of(FOREWORD)
    }

    /// Checks the recorded messages against the schema of a protocol.
    pub(crate) fn check_messages(&self, protocol: &[&str]) {
        let mut check = self.of(python());
        check.arg(script("check_messages.py")).arg(protocol[0]).arg(self.log()).args(&protocol[1..]);
        succeeded(&check.output().unwrap());
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// The folder in which `cargo xtask test` puts what tests need.
pub(crate) fn installed(variable: &str, name: &str) -> PathBuf {
    std::env::var_os(variable)
        .map_or_else(|| std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join(name), PathBuf::from)
}

pub(crate) fn python() -> PathBuf {
    installed("FOREWORD_TEST_PYTHON", "python/bin/python")
}

pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/editors").join(name)
}

pub(crate) fn succeeded(output: &Output) -> String {
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{error}");
    out.into_owned()
}

/// Ends a program when a test ends, however it does.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

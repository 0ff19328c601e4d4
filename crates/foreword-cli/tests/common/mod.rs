//! What the tests of the command line share: running the real binary, and finding the example scenarios.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The folder of the example scenarios.
pub(crate) fn scenarios_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios")
}

/// Every example scenario, in the order of their names; those that end with an error stand in a folder of their own.
pub(crate) fn scenario_files() -> Vec<PathBuf> {
    let json_in = |folder: PathBuf| {
        let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let files = files.map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
        files.sort();
        files
    };
    let folder = scenarios_folder();
    [json_in(folder.clone()), json_in(folder.join("errors"))].concat()
}

/// Runs `foreword simulate` with these arguments.
pub(crate) fn simulate<I, S>(arguments: I) -> Output
where
    I: IntoIterator<Item = S>,
    S: AsRef<std::ffi::OsStr>,
{
    Command::new(env!("CARGO_BIN_EXE_foreword")).arg("simulate").args(arguments).output().unwrap()
}

/// The JSON objects a run printed, one a line.
pub(crate) fn objects(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// SHA-256 as hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

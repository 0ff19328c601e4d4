//! Reading scenario files. An error says which file, where in it, and what was expected there.

use std::fs;
use std::path::{Path, PathBuf};

use super::objects::misplaced_list;
use super::scenario::Scenario;

/// A scenario that cannot be run as it is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {path}: {message}")]
pub struct ScenarioError {
    /// The file, and its line in a `.jsonl` file.
    pub file: String,
    /// Where in the scenario.
    pub path: String,
    /// What was found and what was expected.
    pub message: String,
}

/// A scenario and where it came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The file, and its line in a `.jsonl` file.
    pub file: String,
    /// The folder that relative paths start from.
    pub folder: PathBuf,
    /// The scenario.
    pub scenario: Scenario,
}

impl Loaded {
    /// An error at a place in this scenario.
    pub fn error(&self, path: impl Into<String>, message: impl std::fmt::Display) -> ScenarioError {
        ScenarioError { file: self.file.clone(), path: path.into(), message: message.to_string() }
    }
}

/// Reads all scenarios of a file: one in a `.json` file, one a line in a `.jsonl` file.
pub fn load(file: &Path) -> Result<Vec<Loaded>, ScenarioError> {
    let name = file.display().to_string();
    let whole = |message: String| ScenarioError { file: name.clone(), path: ".".to_owned(), message };
    let bytes = fs::read(file).map_err(|error| whole(format!("cannot be read: {error}")))?;
    let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
    if file.extension().is_some_and(|ending| ending == "jsonl") {
        let lines = bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
        lines.map(|(at, line)| parse(format!("{name}:{}", at + 1), &folder, line)).collect()
    } else {
        Ok(vec![parse(name, &folder, &bytes)?])
    }
}

fn parse(file: String, folder: &Path, bytes: &[u8]) -> Result<Loaded, ScenarioError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut deserializer);
    let scenario: Scenario = parsed.map_err(|error| ScenarioError {
        file: file.clone(),
        path: error.path().to_string(),
        message: error.inner().to_string(),
    })?;
    deserializer.end().map_err(|error| ScenarioError { file: file.clone(), path: ".".to_owned(), message: error.to_string() })?;
    let loaded = Loaded { file, folder: folder.to_path_buf(), scenario };
    let list = serde_json::from_slice(bytes).ok().and_then(|value| misplaced_list(&value));
    if let Some(path) = list {
        return Err(loaded.error(path, "invalid type: a list, expected an object"));
    }
    if loaded.scenario.version != 1 {
        return Err(loaded.error("version", format!("expected 1, found {}", loaded.scenario.version)));
    }
    Ok(loaded)
}

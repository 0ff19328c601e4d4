//! What the user has decided about one vault, as it is kept outside of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use foreword_core::hash::Hash;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Claim;
use crate::places::Places;
use crate::private;

/// The version of the file format.
const VERSION: u32 = 1;

/// What a tool server's program may reach beyond the vault and its own folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Grants {
    /// The network.
    pub network: bool,
    /// The user's home folder.
    pub home: bool,
    /// Everything, because there was no sandbox on the machine when the user decided, and the question said so.
    pub unconfined: bool,
}

/// The user's answer to one claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Whether the claim may have its effect.
    pub allowed: bool,
    /// The hash of the content that was shown. Other content is another question.
    pub sha256: Hash,
    /// That content, to show what changed.
    pub content: String,
    /// When the user decided.
    pub at: Timestamp,
    /// For a tool server that is a program.
    #[serde(default)]
    pub grants: Grants,
}

/// The tools of a server as the user accepted them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedServer {
    /// The hash of the server's entry.
    pub entry: Hash,
    /// The text of each tool, by name: name, description and schema.
    pub tools: BTreeMap<String, String>,
}

impl PinnedServer {
    pub(super) fn new(entry: Hash) -> Self {
        Self { entry, tools: BTreeMap::new() }
    }
}

/// All decisions about one vault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Of the file format.
    version: u32,
    /// The vault's folder.
    pub vault: PathBuf,
    /// By the id of the claim.
    #[serde(default)]
    pub decisions: BTreeMap<String, Decision>,
    /// The mark of the `.foreword` folder that belongs to this user: one that we made, or one that the user trusts.
    #[serde(default)]
    pub state_id: Option<String>,
    /// By agent and server.
    #[serde(default)]
    pub pins: BTreeMap<String, PinnedServer>,
}

/// Why decisions cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file.
    #[error("Failed to read or write the trust decisions in {}: {error}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Its content.
    #[error("{} is not a valid file of trust decisions ({error}); move it away and decide again with `foreword trust`", file.display())]
    Damaged {
        /// Which.
        file: PathBuf,
        /// What is wrong.
        error: String,
    },
    /// Sessions that were kept outside of the vault.
    #[error("cannot move the sessions from {}: {error}", folder.display())]
    Sessions {
        /// Where they are.
        folder: PathBuf,
        /// Why.
        error: String,
    },
    /// The vault changed while the user was looking at it.
    #[error("{0} changed after it was shown, so no decision was saved; review it again")]
    Changed(String),
}

/// The folder of all records.
pub(super) fn folder(places: &Places) -> PathBuf {
    places.state.join("trust")
}

/// The file of a vault's record.
pub(super) fn file(places: &Places, root: &Path) -> PathBuf {
    let name = places.vault(root);
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    folder(places).join(format!("{name}.json"))
}

impl Record {
    pub(super) fn new(root: &Path) -> Self {
        Self { version: VERSION, vault: root.to_owned(), ..Self::default() }
    }

    /// The record of a vault; an empty one where nothing has been decided.
    pub(super) fn load(file: &Path, root: &Path) -> Result<Self, TrustError> {
        let text = private::read(file).map_err(|error| TrustError::File { file: file.to_owned(), error })?;
        let Some(text) = text else { return Ok(Self::new(root)) };
        let damaged = |error: String| TrustError::Damaged { file: file.to_owned(), error };
        let record: Self = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if record.version > VERSION {
            return Err(damaged(format!("format {}; this version supports {VERSION}", record.version)));
        }
        // Two vaults whose names have one hash would share a file; each sees only its own decisions.
        Ok(if record.vault == root { record } else { Self::new(root) })
    }

    /// Changes the record while no other process does, and keeps it.
    pub(super) fn update<T>(file: &Path, root: &Path, change: impl FnOnce(&mut Self) -> T) -> Result<(Self, T), TrustError> {
        let failed = |error| TrustError::File { file: file.to_owned(), error };
        let _lock = lock(file).map_err(failed)?;
        let mut record = Self::load(file, root)?;
        let outcome = change(&mut record);
        let text = serde_json::to_string_pretty(&record).map_err(|error| failed(io::Error::other(error)))?;
        private::write(file, &text).map_err(failed)?;
        Ok((record, outcome))
    }

    /// The decision about exactly this claim.
    pub fn decision(&self, claim: &Claim) -> Option<&Decision> {
        self.decisions.get(&claim.id).filter(|decision| decision.sha256 == claim.hash())
    }
}

/// Held while the file is changed; it ends with the process.
fn lock(file: &Path) -> io::Result<File> {
    let lock = file.with_extension("lock");
    private::touch(&lock)?;
    let opened = File::open(&lock)?;
    opened.lock()?;
    Ok(opened)
}

//! The user's decisions about a vault, stored outside of it.

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

/// What a tool server's program may access besides the vault and its own folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Grants {
    /// The network.
    pub network: bool,
    /// The user's home folder.
    pub home: bool,
    /// Everything, because there was no sandbox when the user decided and the question said so.
    pub unconfined: bool,
}

/// The user's decision about a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// The hash of the content that was shown. Other content needs another decision.
    pub sha256: Hash,
    /// The content that was shown, for displaying changes.
    pub content: String,
    /// When the user decided.
    pub at: Timestamp,
    /// The permissions of a tool server's program.
    #[serde(default)]
    pub grants: Grants,
}

/// The tools of a server as the user accepted them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedServer {
    /// The hash of the server's configuration.
    pub entry: Hash,
    /// The tools by name: name, description and schema as text.
    pub tools: BTreeMap<String, String>,
}

impl PinnedServer {
    pub(super) fn new(entry: Hash) -> Self {
        Self { entry, tools: BTreeMap::new() }
    }
}

/// All decisions about a vault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The version of the file format.
    version: u32,
    /// The vault's path.
    pub vault: PathBuf,
    /// The decisions by claim ID.
    #[serde(default)]
    pub decisions: BTreeMap<String, Decision>,
    /// The ID of the trusted `.foreword` folder: one that we created, or that the user allowed.
    #[serde(default)]
    pub state_id: Option<String>,
    /// Accepted tools by agent and server.
    #[serde(default)]
    pub pins: BTreeMap<String, PinnedServer>,
}

/// Why decisions cannot be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file cannot be read or written.
    #[error("Failed to read or write the trust decisions in {}: {error}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The file is invalid.
    #[error("{} is not a valid file of trust decisions ({error}); move it away and decide again with `foreword trust`", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The error.
        error: String,
    },
    /// Sessions outside of the vault cannot be moved.
    #[error("cannot move the sessions from {}: {error}", folder.display())]
    Sessions {
        /// Their folder.
        folder: PathBuf,
        /// The cause.
        error: String,
    },
    /// The vault changed after the claims were shown.
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

    /// Loads a vault's record, or creates an empty one.
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

    /// Changes and stores the record under a lock.
    pub(super) fn update<T>(file: &Path, root: &Path, change: impl FnOnce(&mut Self) -> T) -> Result<(Self, T), TrustError> {
        let failed = |error| TrustError::File { file: file.to_owned(), error };
        let _lock = lock(file).map_err(failed)?;
        let mut record = Self::load(file, root)?;
        let outcome = change(&mut record);
        let text = serde_json::to_string_pretty(&record).map_err(|error| failed(io::Error::other(error)))?;
        private::write(file, &text).map_err(failed)?;
        Ok((record, outcome))
    }

    /// The decision about this claim with this content.
    pub fn decision(&self, claim: &Claim) -> Option<&Decision> {
        self.decisions.get(&claim.id).filter(|decision| decision.sha256 == claim.hash())
    }
}

/// A lock on the file.
fn lock(file: &Path) -> io::Result<File> {
    let lock = file.with_extension("lock");
    private::touch(&lock)?;
    let opened = File::open(&lock)?;
    opened.lock()?;
    Ok(opened)
}

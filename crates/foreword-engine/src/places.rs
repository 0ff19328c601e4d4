//! Where the engine may keep things on this machine. Who starts it decides; the engine never looks at the environment.

use std::path::{Path, PathBuf};

use foreword_core::hash::Hash;

/// Folders outside the vault.
#[derive(Clone, Debug)]
pub struct Places {
    /// Indexes, vectors and pages. Everything in it can be made again.
    pub cache: PathBuf,
    /// Weights of local models. They can be fetched again.
    pub models: PathBuf,
    /// Trust decisions, keys and the audit log. Only the user may read it, and nothing in it can be made again.
    pub state: PathBuf,
}

impl Places {
    /// What is kept of one vault: told apart by where it is, so that two vaults of one name do not mix.
    pub fn vault(&self, root: &Path) -> PathBuf {
        let name = root.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let name: String = name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).take(40).collect();
        let hash = Hash::of(root.as_os_str().as_encoded_bytes()).short();
        self.cache.join("vaults").join(format!("{name}-{hash}"))
    }

    /// Vectors, of every vault and catalog.
    pub fn embeddings(&self) -> PathBuf {
        self.cache.join("embeddings")
    }

    /// Fetched pages.
    pub fn pages(&self) -> PathBuf {
        self.cache.join("pages")
    }
}

//! The folders that the engine uses. The caller chooses them; the engine never reads the environment.

use std::path::{Path, PathBuf};

use foreword_core::hash::Hash;

/// Folders outside of the vault.
#[derive(Clone, Debug)]
pub struct Places {
    /// Indexes, embeddings and fetched pages. All of it can be recreated.
    pub cache: PathBuf,
    /// The files of local models. They can be downloaded again.
    pub models: PathBuf,
    /// Trust decisions, keys and the audit log. Only the user can read them, and they cannot be recreated.
    pub state: PathBuf,
}

impl Places {
    /// The cache folder of one vault, derived from its path.
    pub fn vault(&self, root: &Path) -> PathBuf {
        let name = root.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let name: String = name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).take(40).collect();
        let hash = Hash::of(root.as_os_str().as_encoded_bytes()).short();
        self.cache.join("vaults").join(format!("{name}-{hash}"))
    }

    /// The embeddings of all vaults and catalogs.
    pub fn embeddings(&self) -> PathBuf {
        self.cache.join("embeddings")
    }

    /// Fetched pages.
    pub fn pages(&self) -> PathBuf {
        self.cache.join("pages")
    }
}

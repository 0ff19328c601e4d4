//! A vault, as the command line needs it.

use std::path::Path;

pub use foreword_vault::attach::Attachment;
pub use foreword_vault::folder::{OpenError, Problem};
pub use foreword_vault::index::{Changes, Vault};
pub use foreword_vault::tree::{Show, Tree};
pub use foreword_vault::watch::{WatchError, Watched, Watcher};

use crate::places::Places;

/// Opens the vault at `root`: what did not change since the last time is not read again.
pub fn open(root: &Path, places: &Places) -> Result<Vault, OpenError> {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let opened = Vault::open(&root, Some(&places.vault(&root)))?;
    // Where the listing cannot be kept, opening takes longer the next time: nothing to stop for.
    let _ = opened.vault.save();
    Ok(opened.vault)
}

//! The index on disk, beside what the vault keeps. It can always be made again, so a fault in it is no fault of the search.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use foreword_core::hash::Hash;
use foreword_search::index::Index;

use super::files::Indexed;

/// Changes when the bytes below, the chunks or the words mean something else: an older file is then made anew.
const VERSION: &[u8] = b"foreword search index 2\n";

#[derive(Debug)]
pub(super) struct CachedNotes {
    file: PathBuf,
}

/// The index, and which notes and files it is of.
#[derive(Default)]
pub(super) struct Stored {
    pub(super) index: Index,
    pub(super) texts: BTreeMap<String, Hash>,
    pub(super) files: BTreeMap<String, Indexed>,
}

impl CachedNotes {
    pub(super) fn new(folder: &Path) -> Self {
        Self { file: folder.join("search.index") }
    }

    /// What was kept; nothing where there is none that can be used.
    pub(super) fn load(&self) -> Stored {
        self.read().unwrap_or_default()
    }

    fn read(&self) -> Option<Stored> {
        let bytes = fs::read(&self.file).ok()?;
        let body = bytes.strip_prefix(VERSION)?;
        let (sum, body) = body.split_at_checked(32)?;
        if Hash::of(body).bytes() != sum {
            return None;
        }
        let ((texts, files), index) = postcard::take_from_bytes(body).ok()?;
        Some(Stored { index: Index::load(index).ok()?, texts, files })
    }

    /// Replaces what was kept, all at once.
    pub(super) fn save(
        &self,
        index: &Index,
        texts: &BTreeMap<String, Hash>,
        files: &BTreeMap<String, Indexed>,
    ) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot save the index to {}: {error}", self.file.display());
        let mut body = postcard::to_stdvec(&(texts, files)).map_err(|error| failed(&error))?;
        body.extend(index.save());
        let bytes = [VERSION, Hash::of(&body).bytes(), &body].concat();
        let written = || {
            fs::create_dir_all(self.file.parent().unwrap_or(Path::new(".")))?;
            let aside = self.file.with_extension(format!("{}.tmp", std::process::id()));
            fs::write(&aside, bytes)?;
            fs::rename(&aside, &self.file)
        };
        written().map_err(|error: std::io::Error| failed(&error))
    }
}

//! The index on disk: what was read, so that an unchanged vault opens at the cost of listing it.
//!
//! The file is nobody's only copy of anything: whatever is wrong with it, the vault is read anew.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use foreword_core::hash::Hash;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Listed, OtherFile};

/// Raised whenever notes are read differently or stored differently.
const FORMAT: u32 = 3;

/// A larger file is not an index.
const MOST_BYTES: u64 = 4 << 30;

/// Notes are stored in so many parts, which are read side by side.
const PARTS: usize = 4;

/// Why the index was not stored.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The system refused.
    #[error("cannot save the index of the vault to {}: {error}; the vault will be read again next time", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// It cannot be written in this form.
    #[error("cannot save the index of the vault: {0}")]
    Encode(#[from] postcard::Error),
}

/// An index as it was stored.
#[derive(Default)]
pub(super) struct Stored {
    pub(super) notes: Vec<Listed>,
    pub(super) files: Vec<OtherFile>,
}

/// What the file holds behind its first line.
#[derive(Serialize, Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    notes: Vec<&'a [u8]>,
    #[serde(borrow)]
    files: &'a [u8],
}

/// Where the index of the vault at `root` stands in the folder `cache`.
pub(super) fn file(cache: &Path, root: &Path) -> PathBuf {
    cache.join(format!("vault-{}.index", Hash::of(root.as_os_str().as_encoded_bytes()).short()))
}

/// The first line: what it is, and the hash of all that follows.
fn head(body: &[u8]) -> String {
    format!("foreword vault index {FORMAT} {} {}\n", env!("CARGO_PKG_VERSION"), Hash::of(body))
}

/// The stored index; none where there is none, or none of this version, or a broken one.
pub(super) fn load(path: &Path) -> Option<Stored> {
    if fs::metadata(path).ok()?.len() > MOST_BYTES {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')? + 1;
    let (first, body) = bytes.split_at(end);
    if first != head(body).as_bytes() {
        return None;
    }
    let body: Body<'_> = postcard::from_bytes(body).ok()?;
    let notes = thread::scope(|scope| {
        let parts: Vec<_> = body.notes.iter().map(|part| scope.spawn(|| decode::<Listed>(part))).collect();
        parts.into_iter().map(|part| part.join().ok().flatten()).collect::<Option<Vec<_>>>()
    })?;
    Some(Stored { notes: notes.into_iter().flatten().collect(), files: decode(body.files)? })
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<Vec<T>> {
    postcard::from_bytes(bytes).ok()
}

/// Stores the index; a reader sees the old file or the new one, never a part.
pub(super) fn save(
    path: &Path,
    notes: &BTreeMap<Arc<str>, Listed>,
    files: &BTreeMap<Arc<str>, OtherFile>,
) -> Result<(), CacheError> {
    let notes: Vec<&Listed> = notes.values().collect();
    let parts = notes.chunks(notes.len().div_ceil(PARTS).max(1)).map(postcard::to_stdvec).collect::<Result<Vec<_>, _>>()?;
    let files = postcard::to_stdvec(&files.values().collect::<Vec<_>>())?;
    let body = postcard::to_stdvec(&Body { notes: parts.iter().map(Vec::as_slice).collect(), files: &files })?;
    let io = |error| CacheError::Io { path: path.to_owned(), error };
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(io)?;
    // Two programs may have the same vault open.
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let mut bytes = head(&body).into_bytes();
    bytes.extend(body);
    fs::write(&part, bytes).and_then(|()| fs::rename(&part, path)).map_err(|error| {
        // What is left over is in nobody's way.
        let _ = fs::remove_file(&part);
        io(error)
    })
}

//! The file of a Session, wherever its owner has put it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Component, Path};

use foreword_core::hash::Hash;
use foreword_vault::folder::{Folder, MOST_NOTE_BYTES, ReadError};
use foreword_vault::transcript::{self, Identity, Transcript};

use super::disk::Place;
use super::{ChatError, FOLDER, Saved};

/// Of each file, so much is looked at: the frontmatter and the first line of our comment are far shorter.
const START_BYTES: u64 = 64 << 10;

/// A note that does not begin like a chat is left after so many bytes.
const GLANCE_BYTES: u64 = 256;

/// Files beyond so many are not looked at.
const MOST_FILES: usize = 1_000_000;

/// Folders deeper than this are not entered.
const MOST_DEPTH: usize = 64;

/// A file as it is now.
pub(super) struct Found {
    /// In the vault.
    pub(super) path: String,
    pub(super) place: Place,
    pub(super) bytes: Vec<u8>,
    pub(super) hash: Hash,
}

impl Found {
    /// Whether it says that it is the file of `ours`.
    pub(super) fn is_of(&self, ours: &Transcript) -> bool {
        self.identity().is_some_and(|identity| identity.is_of(ours))
    }

    fn identity(&self) -> Option<Identity> {
        transcript::identify(&String::from_utf8_lossy(&self.bytes))
    }
}

/// The file at `path`, if there is one.
pub(super) fn look(vault: &Folder, path: &str) -> Result<Option<Found>, ChatError> {
    let gone = |kind| matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    let refused = |error: ReadError| match error {
        ReadError::Io { error, .. } if gone(error.kind()) => Ok(None),
        ReadError::NotInside { .. } | ReadError::NotAFile { .. } => Ok(None),
        ReadError::Leaves { path } => Err(ChatError::Leaves { path }),
        error => Err(ChatError::Read(error)),
    };
    // A store may be damaged.
    if path.contains('\0') || !Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(None);
    }
    // Before it is read: what is written to it meanwhile shows.
    let place = match Place::of(&vault.root().join(path)) {
        Ok(place) if place.is_below(vault.root()) => place,
        Ok(_) => return Err(ChatError::Leaves { path: path.to_owned() }),
        Err(error) if gone(error.kind()) => return Ok(None),
        Err(error) => return Err(ChatError::new(path, error)),
    };
    match vault.read_bytes(path, MOST_NOTE_BYTES) {
        Ok(bytes) => Ok(Some(Found { path: path.to_owned(), place, hash: Hash::of(&bytes), bytes })),
        Err(error) => refused(error),
    }
}

/// The file of `ours`: where it was, unless another Session's file is there now; else in the folder of the Sessions; else anywhere in the
/// vault. None where it is gone.
pub(super) fn find(vault: &Folder, ours: &Transcript, known: &Saved) -> Result<Option<Found>, ChatError> {
    if let Some(found) = look(vault, &known.path)? {
        let is_ours = found.hash == known.hash || found.identity().is_none_or(|identity| identity.is_of(ours));
        if is_ours {
            return Ok(Some(found));
        }
    }
    for folder in [FOLDER, ""] {
        let mut first = None;
        for path in notes_below(vault.root(), folder) {
            if !start_of(&vault.root().join(&path)).is_some_and(|identity| identity.is_of(ours)) {
                continue;
            }
            let Some(found) = look(vault, &path)? else { continue };
            // A file that was only moved is surer than one that may be somebody's copy.
            if found.hash == known.hash {
                return Ok(Some(found));
            }
            first = first.or(Some(found));
        }
        if first.is_some() {
            return Ok(first);
        }
    }
    Ok(None)
}

/// Whose chat the file says it is, by its first bytes.
fn start_of(file: &Path) -> Option<Identity> {
    let mut file = File::open(file).ok()?;
    let mut start = Vec::new();
    file.by_ref().take(GLANCE_BYTES).read_to_end(&mut start).ok()?;
    let text = String::from_utf8_lossy(&start);
    let text = text.trim_start_matches('\u{feff}');
    if !text.starts_with("---") && !text.trim_start().starts_with("<!--") {
        return None;
    }
    file.take(START_BYTES).read_to_end(&mut start).ok()?;
    transcript::identify(&String::from_utf8_lossy(&start))
}

/// The paths of the notes below a folder of the vault, in order. What is hidden or behind a symbolic link is passed over.
pub(super) fn notes_below(root: &Path, folder: &str) -> Vec<String> {
    let mut notes = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let (Some(name), Ok(kind)) = (name.to_str(), entry.file_type()) else { continue };
            if name.starts_with('.') {
                continue;
            }
            seen += 1;
            if seen > MOST_FILES {
                break;
            }
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            if kind.is_dir() && depth < MOST_DEPTH {
                folders.push((path, depth + 1));
            } else if kind.is_file() && is_note(name) {
                notes.push(path);
            }
        }
    }
    notes.sort();
    notes
}

fn is_note(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md"))
}

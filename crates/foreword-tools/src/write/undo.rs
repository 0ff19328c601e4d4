//! Taking a change back. Before a note is written, what it held is kept in a folder of records, a few changes deep.
//!
//! A record is one file: a line of JSON (the note's path, the hash of the text before and after; none where there was no note), then the text before. It is there before
//! the note changes, so a crash leaves at worst a record of something that did not happen; its hashes tell.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use foreword_core::hash::Hash;
use serde_json::{Value, json};

use super::path::{NotePath, make_folders};
use super::{MAX_NOTE, WriteError, replace, sync_folder, temporary};

/// How many changes of a note can be taken back.
const KEPT: usize = 20;

/// The longest first line of a record, in bytes.
const MAX_HEAD: u64 = 8 * 1024;

/// What became of a note whose last change was undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It holds what it held before.
    Restored,
    /// It had been new, and is gone.
    Removed,
}

struct Record {
    file: PathBuf,
    /// The hash of the text before; nothing where there was no note.
    before: Option<String>,
    /// The same of the text after.
    after: Option<String>,
    text: String,
}

/// Takes back the last change of a note, unless somebody else has changed it since.
pub(super) fn undo(root: &Path, kept: &Path, path: &str) -> Result<Undone, WriteError> {
    let path = NotePath::parse(path)?;
    let failed = |error: io::Error| WriteError::io("undo the change of", &path, &error);
    let now = path.read(root)?;
    let now_hash = now.as_deref().map(hash);
    if !kept.join(hash(path.as_str())).exists() {
        return Err(WriteError::NothingToUndo { path: path.to_string() });
    }
    for file in records(&folder(kept, &path).map_err(failed)?).map_err(failed)?.into_iter().rev() {
        let Some(record) = read(file, &path).map_err(failed)? else { continue };
        if now_hash == record.after {
            let undone = if record.before.is_some() {
                replace(root, &path, now.is_some(), &record.text)?;
                Undone::Restored
            } else {
                fs::remove_file(path.under(root)).map_err(failed)?;
                Undone::Removed
            };
            fs::remove_file(record.file).map_err(failed)?;
            return Ok(undone);
        }
        if now_hash != record.before {
            return Err(WriteError::Changed { path: path.to_string() });
        }
        // The change was about to be made and never was: the one before it is the last.
        fs::remove_file(record.file).map_err(failed)?;
    }
    Err(WriteError::NothingToUndo { path: path.to_string() })
}

/// Keeps what a note holds before it changes.
pub(super) fn keep(kept: &Path, path: &NotePath, old: Option<&str>, new: Option<&str>) -> Result<(), WriteError> {
    let failed = |error: io::Error| WriteError::io("keep the old text of", path, &error);
    let folder = folder(kept, path).map_err(failed)?;
    let files = records(&folder).map_err(failed)?;
    let number = files.last().and_then(|file| file.file_name()?.to_str()?.parse::<u64>().ok()).unwrap_or(0) + 1;
    let head = json!({"path": path.as_str(), "before": old.map(hash), "after": new.map(hash)});
    let mut record = temporary(&folder).map_err(failed)?;
    write!(record, "{head}\n{}", old.unwrap_or_default()).map_err(failed)?;
    record.as_file().sync_all().map_err(failed)?;
    record.persist_noclobber(folder.join(format!("{number:010}"))).map_err(|error| failed(error.error))?;
    sync_folder(&folder);
    let too_many = (files.len() + 1).saturating_sub(KEPT);
    for file in files.into_iter().take(too_many) {
        fs::remove_file(file).map_err(failed)?;
    }
    Ok(())
}

/// Where a note's records are, made where it was missing. The folder of state can be one in the vault, so it must not be a link either.
fn folder(kept: &Path, path: &NotePath) -> io::Result<PathBuf> {
    let state = kept.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let name = |folder: &Path| folder.file_name().map(OsStr::to_owned).ok_or(io::ErrorKind::InvalidInput);
    let (names, place) = ([name(state)?, name(kept)?, hash(path.as_str()).into()], state.parent().unwrap_or(state));
    make_folders(place, names.iter().map(OsString::as_os_str))
}

/// The records of a note, oldest first.
fn records(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_ours =
            entry.file_name().to_str().is_some_and(|name| name.len() == 10 && name.bytes().all(|byte| byte.is_ascii_digit()));
        if is_ours && entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// A record; nothing where the file is not one of this note.
fn read(file: PathBuf, path: &NotePath) -> io::Result<Option<Record>> {
    let mut whole = String::new();
    File::open(&file)?.take(MAX_NOTE as u64 + MAX_HEAD).read_to_string(&mut whole)?;
    let Some((head, text)) = whole.split_once('\n') else { return Ok(None) };
    let head: Value = serde_json::from_str(head).unwrap_or_default();
    let field = |name: &str| head.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    let (before, after) = (field("before"), field("after"));
    let whole = before.as_ref().is_none_or(|before| *before == hash(text));
    // What was removed has no text after; what was made has none before.
    let is_change = head.get("after").is_some() && before != after && whole && field("path").as_deref() == Some(path.as_str());
    Ok(is_change.then(|| Record { file, before, after, text: text.to_owned() }))
}

fn hash(text: &str) -> String {
    Hash::of(text).to_string()
}

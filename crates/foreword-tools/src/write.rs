//! Writing notes safely: a change is first a [`Draft`] with a diff that a person can look at; applied, the file is the old one or the new
//! one and nothing between; and it can be undone.
//!
//! Paths come from a model. They lead to a note inside the folder or they are refused: see [`path`].

mod change;
mod error;
mod instructions;
mod path;
#[cfg(test)]
mod tests;
mod undo;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use foreword_core::text::diff;

pub use change::Change;
pub use error::WriteError;
pub use instructions::{hidden_character, is_instruction};
pub use undo::Undone;

use path::NotePath;

/// The largest note that is written, in bytes.
pub const MAX_NOTE: usize = 4 * 1024 * 1024;

/// The longest diff that a person can be asked to read, in bytes.
const MAX_DIFF: usize = 512 * 1024;

/// A folder of notes that can be changed.
#[derive(Clone, Debug)]
pub struct NoteFolder {
    root: PathBuf,
    /// What notes held before they were changed.
    undo: PathBuf,
}

/// A change that was thought through and not made yet.
#[derive(Clone, Debug)]
pub struct Draft {
    folder: NoteFolder,
    path: NotePath,
    /// What the note holds now; nothing where it is new.
    old: Option<String>,
    new: String,
    /// Nothing where it is too large.
    diff: Option<String>,
}

impl NoteFolder {
    /// The notes under `root`. What they held before a change is kept in the folder `undo` inside `state`.
    pub fn new(root: &Path, state: &Path) -> Self {
        Self { root: root.to_owned(), undo: state.join("undo") }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Works out what `change` would make of the note at `path`, which is relative to the folder.
    pub fn prepare(&self, path: &str, change: &Change<'_>) -> Result<Draft, WriteError> {
        let path = NotePath::parse(path)?;
        let old = path.read(&self.root)?;
        if old.is_none() {
            path.check_is_free(&self.root)?;
        }
        let new = change.applied(&path, old.as_deref())?;
        let diff = diff::unified(old.as_deref().unwrap_or_default(), &new, path.as_str()).filter(|diff| diff.len() <= MAX_DIFF);
        Ok(Draft { folder: self.clone(), path, old, new, diff })
    }

    /// Removes the note at `path`, unless it no longer holds `old`. It can be undone.
    pub fn remove(&self, path: &str, old: &str) -> Result<(), WriteError> {
        let path = NotePath::parse(path)?;
        match path.read(&self.root)? {
            None => return Err(WriteError::Missing { path: path.to_string() }),
            Some(now) if now != old => return Err(WriteError::Changed { path: path.to_string() }),
            Some(_) => {}
        }
        undo::keep(&self.undo, &path, Some(old), None)?;
        let target = path.under(&self.root);
        fs::remove_file(&target).map_err(|error| WriteError::io("remove", &path, &error))?;
        sync_folder(target.parent().unwrap_or(&self.root));
        Ok(())
    }

    /// Takes back the last change of a note, unless somebody else has changed it since.
    pub fn undo(&self, path: &str) -> Result<Undone, WriteError> {
        undo::undo(&self.root, &self.undo, path)
    }
}

impl Draft {
    /// The note, relative to its root.
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    /// What the note holds before the change; nothing where it is new.
    pub fn before(&self) -> Option<&str> {
        self.old.as_deref()
    }

    /// Whether the note is a new one.
    pub fn is_new(&self) -> bool {
        self.old.is_none()
    }

    /// All that would change, as a unified diff. Text from a model: a terminal must not get it raw. A change that is too large to be shown
    /// whole is an error, because nobody can approve what they have not seen.
    pub fn diff(&self) -> Result<&str, WriteError> {
        self.diff.as_deref().ok_or_else(|| WriteError::TooLargeToShow { path: self.path.to_string() })
    }

    /// Makes the change, unless the note is no longer what the diff was made from.
    pub fn apply(self) -> Result<(), WriteError> {
        let NoteFolder { root, undo } = &self.folder;
        if self.path.read(root)? != self.old {
            return Err(WriteError::Changed { path: self.path.to_string() });
        }
        self.path.make_folders(root)?;
        undo::keep(undo, &self.path, self.old.as_deref(), Some(&self.new))?;
        replace(root, &self.path, self.old.is_some(), &self.new)
    }
}

/// Puts `new` in the place of a file of settings, unless it no longer holds `old`. Such a file may hold keys, so no copy of it is kept: it cannot
/// be undone.
pub fn replace_settings(root: &Path, path: &str, old: &str, new: &str) -> Result<(), WriteError> {
    let path = NotePath::settings(path)?;
    match path.read(root)? {
        None => Err(WriteError::Missing { path: path.to_string() }),
        Some(now) if now != old => Err(WriteError::Changed { path: path.to_string() }),
        Some(_) => replace(root, &path, true, new),
    }
}

/// Puts `text` in the place of the note in one step: whoever reads sees all of the old text or all of the new one, also after a crash.
fn replace(root: &Path, path: &NotePath, exists: bool, text: &str) -> Result<(), WriteError> {
    let failed = |error: io::Error| WriteError::io("write", path, &error);
    let target = path.under(root);
    let folder = target.parent().unwrap_or(root);
    let mut draft = temporary(folder).map_err(failed)?;
    draft.write_all(text.as_bytes()).map_err(failed)?;
    if exists {
        let permissions = fs::metadata(&target).map_err(failed)?.permissions();
        draft.as_file().set_permissions(permissions).map_err(failed)?;
    }
    draft.as_file().sync_all().map_err(failed)?;
    if exists {
        draft.persist(&target).map_err(|error| failed(error.error))?;
    } else {
        // Whatever came there in the meantime is not ours to replace.
        draft.persist_noclobber(&target).map_err(|error| failed(error.error))?;
    }
    sync_folder(folder);
    Ok(())
}

fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".foreword-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // What any program asks for when it makes a file; the user's mask is applied to it.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

/// So that the new name survives a power cut. Not every system lets a folder be synced; the file itself was.
fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        drop(folder.sync_all());
    }
}

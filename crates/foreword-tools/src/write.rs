//! Writes notes safely: a change is first a [`Draft`] with a diff that the user can review; it is applied atomically and can be
//! undone.
//!
//! Paths come from a model and are rejected if they do not lead to a note inside the folder: see `path`.

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

use foreword_text::diff;

pub use change::Change;
pub use error::WriteError;
pub use instructions::{hidden_character, is_instruction};
pub use undo::Undone;

use path::NotePath;

/// The largest note in bytes.
pub const MAX_NOTE: usize = 4 * 1024 * 1024;

/// The largest diff in bytes.
const MAX_DIFF: usize = 512 * 1024;

/// A folder of writable notes.
#[derive(Clone, Debug)]
pub struct NoteFolder {
    root: PathBuf,
    /// The folder with old versions of changed notes.
    undo: PathBuf,
}

/// A change that is not applied yet.
#[derive(Clone, Debug)]
pub struct Draft {
    folder: NoteFolder,
    path: NotePath,
    /// The note's current text; `None` if it is new.
    old: Option<String>,
    new: String,
    /// `None` if the change is too large.
    diff: Option<String>,
}

impl NoteFolder {
    /// The notes under `root`. Old versions are stored in the folder `undo` inside `state`.
    pub fn new(root: &Path, state: &Path) -> Self {
        Self { root: root.to_owned(), undo: state.join("undo") }
    }

    /// The folder's path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Prepares a change of the note at `path`, relative to the folder.
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

    /// Deletes the note at `path` if its text is still `old`. It can be undone.
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

    /// Undoes the last change of a note, unless someone else has changed it since.
    pub fn undo(&self, path: &str) -> Result<Undone, WriteError> {
        undo::undo(&self.root, &self.undo, path)
    }
}

impl Draft {
    /// The note's path, relative to the root.
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    /// The note's text before the change; `None` if it is new.
    pub fn before(&self) -> Option<&str> {
        self.old.as_deref()
    }

    /// Whether the note is new.
    pub fn is_new(&self) -> bool {
        self.old.is_none()
    }

    /// The complete change as a unified diff. It contains text of a model, so it must be sanitized for terminals. A change that is
    /// too large to be shown completely is an error, because it cannot be reviewed.
    pub fn diff(&self) -> Result<&str, WriteError> {
        self.diff.as_deref().ok_or_else(|| WriteError::TooLargeToShow { path: self.path.to_string() })
    }

    /// Applies the change if the note has not changed since.
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

/// Replaces a settings file if its text is still `old`. It cannot be undone: the file may contain keys, so no copy is kept.
pub fn replace_settings(root: &Path, path: &str, old: &str, new: &str) -> Result<(), WriteError> {
    let path = NotePath::settings(path)?;
    match path.read(root)? {
        None => Err(WriteError::Missing { path: path.to_string() }),
        Some(now) if now != old => Err(WriteError::Changed { path: path.to_string() }),
        Some(_) => replace(root, &path, true, new),
    }
}

/// Replaces the note's text atomically.
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

/// Makes the new name survive a power failure, if the system supports it.
fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        drop(folder.sync_all());
    }
}

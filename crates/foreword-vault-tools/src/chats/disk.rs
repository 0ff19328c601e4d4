//! Files written in one step: a new file beside the old one, made safe on the disk, then put in its place.

use std::fs::{self, Metadata};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;

use super::ChatError;

/// Names of files that are not in their place yet. Nobody shows or indexes a hidden file.
const TEMPORARY: (&str, &str) = (".foreword-", ".tmp");

/// No file takes so long to write.
const OLD: Duration = Duration::from_hours(1);

/// What tells that a file was changed.
type Stamp = (u64, Option<SystemTime>, u64);

/// Where a file really is.
#[derive(Debug)]
pub(super) struct Place {
    real: PathBuf,
    stamp: Stamp,
}

/// What became of the old file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replaced {
    Done,
    /// Someone wrote to it since it was looked at; it is as they left it.
    Changed,
}

impl Place {
    /// Where `path` leads, symbolic links followed.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let real = fs::canonicalize(path)?;
        let stamp = stamp(&fs::metadata(&real)?);
        Ok(Self { real, stamp })
    }

    /// Whether it is below `folder`.
    pub(super) fn is_below(&self, folder: &Path) -> bool {
        self.real.starts_with(folder)
    }

    /// Puts `text` in place of the file.
    pub(super) fn replace(&self, text: &str) -> io::Result<Replaced> {
        let folder = self.real.parent().ok_or(io::ErrorKind::InvalidFilename)?;
        let file = write(folder, text)?;
        let facts = match fs::metadata(&self.real) {
            Ok(facts) if stamp(&facts) == self.stamp => facts,
            Ok(_) => return Ok(Replaced::Changed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Replaced::Changed),
            Err(error) => return Err(error),
        };
        // What its owner allows others stays allowed; a file without it is still better than none.
        let _ = file.as_file().set_permissions(facts.permissions());
        file.persist(&self.real)?;
        Ok(Replaced::Done)
    }
}

/// Writes `text` to a new file in `folder`; an error where the name is taken, whatever has it.
pub(super) fn create(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    write(folder, text)?.persist_noclobber(folder.join(name))?;
    Ok(())
}

/// A file with `text` that is safe on the disk and has no name of its own yet. Dropped, it is gone.
fn write(folder: &Path, text: &str) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY.0).suffix(TEMPORARY.1);
    // As any file: what the person's mask leaves.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_data()?;
    Ok(file)
}

/// The folder at `path` below `root`, made where it is missing.
pub(super) fn make_folder(root: &Path, path: &str) -> Result<PathBuf, ChatError> {
    let mut folder = root.to_owned();
    for name in path.split('/') {
        folder.push(name);
        if !folder.is_dir()
            && let Err(error) = fs::create_dir(&folder)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(ChatError::new(path, error));
        }
        // At each step, so that nothing is made behind a link that leaves.
        folder = fs::canonicalize(&folder).map_err(|error| ChatError::new(path, error))?;
        if !folder.starts_with(root) {
            return Err(ChatError::Leaves { path: path.to_owned() });
        }
    }
    Ok(folder)
}

/// Removes what a program that was killed has left at `path` below `root`. Where that fails, nothing is worse than before.
pub(super) fn sweep(root: &Path, path: &str) {
    let Ok(folder) = fs::canonicalize(root.join(path)) else { return };
    if !folder.starts_with(root) {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1));
        let age = |facts: Metadata| facts.modified().ok()?.elapsed().ok();
        if is_ours && entry.metadata().ok().filter(Metadata::is_file).and_then(age).is_some_and(|age| age > OLD) {
            // The next start tries again.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn stamp(facts: &Metadata) -> Stamp {
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(facts);
    #[cfg(not(unix))]
    let number = 0;
    (facts.len(), facts.modified().ok(), number)
}

//! What `foreword setup` has written, so that `--undo` can take it back. Only the user can read it: configuration files hold keys.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use foreword_trust::private;
use serde::{Deserialize, Serialize};

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    /// The file.
    pub(super) file: PathBuf,
    /// Its text before; `None` if it was not there.
    pub(super) before: Option<String>,
    /// Its text after.
    pub(super) after: String,
}

fn record(state: &Path) -> PathBuf {
    state.join("setup.json")
}

/// Remembers what is about to be written.
pub(super) fn remember(state: &Path, written: &[Written]) -> io::Result<()> {
    private::write(&record(state), &(serde_json::to_string_pretty(written)? + "\n"))
}

/// What the last setup wrote; nothing if there was none.
pub(super) fn last(state: &Path) -> io::Result<Vec<Written>> {
    let Some(text) = private::read(&record(state))? else { return Ok(Vec::new()) };
    Ok(serde_json::from_str(&text)?)
}

/// Forgets it.
pub(super) fn forget(state: &Path) -> io::Result<()> {
    fs::remove_file(record(state))
}

/// The text of a file; `None` if it is not there.
pub(super) fn read(file: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces a file at once, or makes it. A link stays a link: the file behind it is replaced. Its permissions stay.
pub(super) fn replace(file: &Path, text: &str) -> io::Result<()> {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let draft = folder.join(format!(".{name}.foreword-{}", std::process::id()));
    let written = || {
        // New files may come to hold keys.
        private::create(&draft, text)?;
        if let Ok(found) = fs::metadata(&file) {
            fs::set_permissions(&draft, found.permissions())?;
        }
        fs::rename(&draft, &file)
    };
    written().inspect_err(|_| drop(fs::remove_file(&draft)))
}

/// Takes one file back. Says why not, if somebody has changed it since.
pub(super) fn restore(written: &Written) -> Result<(), String> {
    let Written { file, before, after } = written;
    let failed = |error: io::Error| error.to_string();
    match read(file).map_err(failed)? {
        now if now == *before => Ok(()),
        Some(now) if now == *after => match before {
            Some(before) => replace(file, before).map_err(failed),
            None => fs::remove_file(file).map_err(failed),
        },
        _ => Err("it was changed since; take Foreword's entries out by hand".to_owned()),
    }
}

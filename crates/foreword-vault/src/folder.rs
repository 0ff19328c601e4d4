//! Safe access to the files of a vault: nothing outside of its folder is read, and no file can block a reader or fill the memory.
//!
//! Paths are relative to the vault, with `/` between folders, in Unicode's composed form (NFC) on all systems.

mod list;
mod text;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

pub use list::{Exclude, Found, Listing};
pub use text::Text;

use foreword_markdown::note::FileFacts;

/// The largest note that is read.
pub const MOST_NOTE_BYTES: u64 = 256 << 20;

/// A problem with a file, for the user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file's path, or the requested name.
    pub path: String,
    /// The problem and its effect.
    pub what: String,
}

impl Problem {
    /// A problem with a file.
    pub fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

/// The kind of a file, from its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum FileKind {
    /// `.md`, `.markdown`
    Note,
    /// `.canvas`
    Canvas,
    /// `.pdf`
    Pdf,
    /// An image.
    Image,
    /// Any other file: it can be the target of a link, but is never read.
    Other,
}

impl FileKind {
    /// The kind of the file at `path`.
    pub fn of(path: &str) -> Self {
        let ending = name_of(path).rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
        match ending.as_str() {
            "md" | "markdown" => Self::Note,
            "canvas" => Self::Canvas,
            "pdf" => Self::Pdf,
            "png" | "jpg" | "jpeg" | "gif" | "webp" | "bmp" | "svg" | "avif" => Self::Image,
            _ => Self::Other,
        }
    }
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The path is not a valid path in the vault.
    #[error("cannot read {path:?}: paths must be relative to the vault, without `..`, a drive or a leading `/`")]
    NotInside {
        /// The given path.
        path: String,
    },
    /// A symbolic link leads out of the vault.
    #[error("cannot read {path:?}: a symbolic link leads out of the vault; copy the file into the vault")]
    Leaves {
        /// The given path.
        path: String,
    },
    /// The path is not a regular file.
    #[error("cannot read {path:?}: it is not a regular file")]
    NotAFile {
        /// The given path.
        path: String,
    },
    /// The file is too large.
    #[error("cannot read {path:?}: it has {size} bytes, more than the limit of {most}; split it")]
    TooLarge {
        /// The given path.
        path: String,
        /// Its size.
        size: u64,
        /// The limit.
        most: u64,
    },
    /// The system returned an error.
    #[error("cannot read {path:?}: {error}")]
    Io {
        /// The given path.
        path: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

/// A folder cannot be opened as a vault.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the vault {}: {error}; give the path of a folder of notes", path.display())]
pub struct OpenError {
    path: PathBuf,
    #[source]
    error: io::Error,
}

/// The folder of a vault.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The canonical path.
    root: PathBuf,
}

impl Folder {
    /// Opens the folder at `root`.
    pub fn open(root: &Path) -> Result<Self, OpenError> {
        let found = fs::canonicalize(root).and_then(|real| {
            let is_folder = fs::metadata(&real)?.is_dir();
            if is_folder { Ok(real) } else { Err(io::Error::from(io::ErrorKind::NotADirectory)) }
        });
        match found {
            Ok(root) => Ok(Self { root }),
            Err(error) => Err(OpenError { path: root.to_owned(), error }),
        }
    }

    /// The canonical path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads the text of a file.
    pub fn read(&self, path: &str) -> Result<Text, ReadError> {
        self.read_bytes(path, MOST_NOTE_BYTES).map(Text::decode)
    }

    /// Reads a file of at most `most` bytes.
    pub fn read_bytes(&self, path: &str, most: u64) -> Result<Vec<u8>, ReadError> {
        let io = |error| ReadError::Io { path: path.to_owned(), error };
        if !is_inside(path) {
            return Err(ReadError::NotInside { path: path.to_owned() });
        }
        let direct = self.root.join(path);
        match self.read_at(&direct, path, most) {
            // The disk may have the name in another Unicode form.
            Err(ReadError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound && !path.is_ascii() => {
                self.read_at(&self.on_disk(path).map_err(io)?, path, most)
            }
            done => done,
        }
    }

    /// Reads the text of a listed file, whose name on disk is known.
    pub(crate) fn read_found(&self, found: &Found) -> Result<Text, ReadError> {
        self.read_at(&found.disk, &found.facts.path, MOST_NOTE_BYTES).map(Text::decode)
    }

    /// Reads the file at `disk`, which has the path `path` in the vault.
    fn read_at(&self, disk: &Path, path: &str, most: u64) -> Result<Vec<u8>, ReadError> {
        let io = |error| ReadError::Io { path: path.to_owned(), error };
        let file = open_without_waiting(disk).map_err(io)?;
        let facts = file.metadata().map_err(io)?;
        if !facts.is_file() {
            return Err(ReadError::NotAFile { path: path.to_owned() });
        }
        // Asked after opening: whoever swaps the file for a link between the two must have had it opened inside the vault.
        let real = fs::canonicalize(disk).map_err(io)?;
        if !real.starts_with(&self.root) || !is_same_file(&facts, &fs::metadata(&real).map_err(io)?) {
            return Err(ReadError::Leaves { path: path.to_owned() });
        }
        let too_large = |size| ReadError::TooLarge { path: path.to_owned(), size, most };
        if facts.len() > most {
            return Err(too_large(facts.len()));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(facts.len()).unwrap_or(0));
        // It may grow while it is read.
        file.take(most + 1).read_to_end(&mut bytes).map_err(io)?;
        match u64::try_from(bytes.len()) {
            Ok(size) if size <= most => Ok(bytes),
            _ => Err(too_large(most + 1)),
        }
    }

    /// The location of `path` on a disk that uses another Unicode form.
    fn on_disk(&self, path: &str) -> io::Result<PathBuf> {
        path.split('/').try_fold(self.root.clone(), |folder, name| Ok(folder.join(disk_name(&folder, name)?)))
    }
}

/// The name on disk of the file `name`.
fn disk_name(folder: &Path, name: &str) -> io::Result<OsString> {
    match fs::symlink_metadata(folder.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !name.is_ascii() => {}
        Err(error) => return Err(error),
        Ok(_) => return Ok(name.into()),
    }
    for entry in fs::read_dir(folder)? {
        let found = entry?.file_name();
        if found.to_str().is_some_and(|found| nfc(found) == name) {
            return Ok(found);
        }
    }
    Err(io::Error::from(io::ErrorKind::NotFound))
}

/// Whether `path` is a valid path in a vault: plain names separated by `/`.
fn is_inside(path: &str) -> bool {
    let drive = cfg!(windows) && path.contains([':', '\\']);
    !drive && !path.contains('\0') && path.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

/// Opens a file without waiting, because opening a pipe would block.
fn open_without_waiting(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
    options.open(path)
}

#[cfg(unix)]
fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    (a.len(), a.modified().ok(), a.created().ok()) == (b.len(), b.modified().ok(), b.created().ok())
}

/// The composed Unicode form (NFC), in which names are compared.
pub(crate) fn nfc(name: &str) -> Cow<'_, str> {
    let composed = name.is_ascii() || is_nfc_quick(name.chars()) == IsNormalized::Yes;
    if composed { Cow::Borrowed(name) } else { Cow::Owned(name.nfc().collect()) }
}

/// The file name of a path.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The folder of a path; empty at the top.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The file name without extension, which Obsidian shows as the title.
pub(crate) fn stem_of(path: &str) -> &str {
    let name = name_of(path);
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() && FileKind::of(name) == FileKind::Note => stem,
        _ => name,
    }
}

/// Identifies an unchanged or renamed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stamp {
    /// The modification time in nanoseconds since 1970, which programs can set.
    pub(crate) modified: i64,
    /// The change time, which programs cannot set; if unknown, the same as `modified`.
    pub(crate) touched: i64,
    /// The inode number and creation time in nanoseconds, if both are known.
    pub(crate) identity: Option<(u64, i64)>,
}

/// Reads the metadata of a file.
fn facts(path: String, metadata: &Metadata) -> (FileFacts, Stamp) {
    const NANOS_PER_MILLI: i64 = 1_000_000;
    let modified = metadata.modified().map_or(0, nanos);
    let created = metadata.created().map(nanos).ok();
    let facts = FileFacts {
        path,
        size: metadata.len(),
        modified: modified.div_euclid(NANOS_PER_MILLI),
        created: created.unwrap_or(modified).div_euclid(NANOS_PER_MILLI),
    };
    let (number, touched) = inode(metadata);
    (facts, Stamp { modified, touched: touched.unwrap_or(modified), identity: number.zip(created) })
}

/// The inode number and change time, on systems that have them.
#[cfg(unix)]
fn inode(metadata: &Metadata) -> (Option<u64>, Option<i64>) {
    use std::os::unix::fs::MetadataExt;
    let touched = metadata.ctime().saturating_mul(1_000_000_000).saturating_add(metadata.ctime_nsec());
    (Some(metadata.ino()), Some(touched))
}

#[cfg(not(unix))]
fn inode(_metadata: &Metadata) -> (Option<u64>, Option<i64>) {
    (None, None)
}

/// Nanoseconds since 1970, limited to 292 years.
pub(crate) fn nanos(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    }
}

#[cfg(test)]
mod tests;

//! Saved chats taken in: files and folders that a person names, read one after the other. A file that is no chat is said and skipped.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use foreword_core::hash::Hash;
use foreword_vault::index::Vault;
use foreword_vault::transcript::{self, Notes, Source, Transcript, Warning};
use jiff::tz::TimeZone;

use super::Saved;
use super::find::notes_below;

/// A larger file is no chat.
const MOST_BYTES: u64 = 64 << 20;

/// Files beyond so many are skipped.
const MOST_FILES: usize = 100_000;

/// A chat as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The file, as it was named.
    pub file: String,
    /// Which program wrote it.
    pub source: Source,
    /// What it says, with the notes that the vault has.
    pub transcript: Transcript,
    /// What its reader should know.
    pub warnings: Vec<Warning>,
    /// What to remember: its head, and where it is one of our own in this vault, its path, so that its Session goes on in the same file.
    pub saved: Saved,
}

impl Imported {
    /// A conversation that another program recorded; that program's file is left alone.
    pub fn of(file: String, source: Source, transcript: Transcript) -> Self {
        let saved = Saved::new(String::new(), &transcript, Hash::of(""));
        Self { file, source, transcript, warnings: Vec::new(), saved }
    }
}

/// A file that was not taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("skipped {file}: {why}")]
pub struct Skipped {
    /// The file, as it was named.
    pub file: String,
    /// The reason.
    pub why: String,
}

impl Skipped {
    fn new(file: &Path, why: impl Into<String>) -> Self {
        Self { file: file.display().to_string(), why: why.into() }
    }
}

/// What a person's paths stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Each once, in the order of the paths; those of a folder in the order of their names.
    pub files: Vec<PathBuf>,
    /// What is not there.
    pub skipped: Vec<Skipped>,
}

/// The files at `paths`: a folder stands for the `.md` files in it and below. A path that leads nowhere from here is tried from `root`, the
/// top of the vault.
pub fn files(paths: &[PathBuf], root: &Path) -> Files {
    let mut found = Files::default();
    let mut seen = BTreeSet::new();
    for path in paths {
        // An empty path is a slip, not the whole vault.
        let here = [path.clone(), root.join(path)].into_iter().find(|here| here.exists() && !path.as_os_str().is_empty());
        let Some(here) = here else {
            found.skipped.push(Skipped::new(path, format!("no such file or folder, also not in {}", root.display())));
            continue;
        };
        let files =
            if here.is_dir() { notes_below(&here, "").into_iter().map(|note| here.join(note)).collect() } else { vec![here] };
        if files.is_empty() {
            found.skipped.push(Skipped::new(path, "no .md files in this folder"));
        }
        found.files.extend(files.into_iter().filter(|file| seen.insert(file.clone())));
    }
    if let Some(over) = found.files.len().checked_sub(MOST_FILES).filter(|over| *over > 0) {
        found.files.truncate(MOST_FILES);
        let why = format!("{over} files more than the limit of {MOST_FILES}; import fewer folders at once");
        found.skipped.push(Skipped { file: "the last files".to_owned(), why });
    }
    found
}

/// Reads chats for one vault.
#[derive(Clone, Debug)]
pub struct Importer {
    root: PathBuf,
    notes: Notes,
    tz: TimeZone,
}

impl Importer {
    /// For `vault`. Times without a zone are meant in `tz`.
    pub fn new(vault: &Vault, tz: TimeZone) -> Self {
        let notes = vault.notes().map(|listed| &listed.facts).chain(vault.files().map(|file| &file.facts));
        let notes = Notes::new(notes.map(|facts| facts.path.as_str()));
        Self { root: vault.root().to_owned(), notes, tz }
    }

    /// The chat in `file`.
    pub fn import(&self, file: &Path) -> Result<Imported, Skipped> {
        let bytes = read(file).map_err(|error| Skipped::new(file, format!("cannot read the file: {error}")))?;
        let hash = Hash::of(&bytes);
        let found = transcript::import(bytes, &self.notes, &self.tz).map_err(|error| Skipped::new(file, error.to_string()))?;
        let ours = (found.source == Source::Foreword).then(|| self.path(file)).flatten();
        // The file of another program is not ours to write to: it has no path.
        let saved = Saved::new(ours.unwrap_or_default(), &found.transcript, hash);
        let file = file.display().to_string();
        Ok(Imported { file, source: found.source, transcript: found.transcript, warnings: found.warnings, saved })
    }

    /// Where `file` is in the vault, if it is there.
    fn path(&self, file: &Path) -> Option<String> {
        let real = fs::canonicalize(file).ok()?;
        let names: Option<Vec<&str>> = real.strip_prefix(&self.root).ok()?.iter().map(|name| name.to_str()).collect();
        Some(names?.join("/"))
    }
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    // A pipe would keep us waiting.
    let facts = fs::metadata(file)?;
    if !facts.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {MOST_BYTES} bytes"));
    if facts.len() > MOST_BYTES {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    File::open(file)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES { Err(too_large()) } else { Ok(bytes) }
}

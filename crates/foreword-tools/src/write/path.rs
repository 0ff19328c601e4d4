//! The path of a note to be written: one that every system takes, that stays inside the folder, and that names a note.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::{MAX_NOTE, WriteError};

/// The longest path, and the longest name in it, in bytes. File systems stop at 255; the rest is for what programs append.
const MAX_PATH: usize = 900;
const MAX_NAME: usize = 200;

/// Most entries that are looked at for a name that differs by case alone.
const MAX_ENTRIES: usize = 100_000;

/// What Windows does not allow in names; a vault is often shared with one.
const REFUSED: [char; 8] = ['<', '>', ':', '"', '|', '?', '*', '\\'];
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// A checked relative path, with `/` between its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotePath(String);

impl std::fmt::Display for NotePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl NotePath {
    pub(super) fn parse(written: &str) -> Result<Self, WriteError> {
        match refusal(written) {
            Some(why) => Err(WriteError::Path { path: written.chars().take(MAX_PATH).collect(), why }),
            None => Ok(Self(written.to_owned())),
        }
    }

    /// The path of a file of settings, which is no note.
    pub(super) fn settings(written: &str) -> Result<Self, WriteError> {
        let refused = |why: &str| WriteError::Path { path: written.chars().take(MAX_PATH).collect(), why: why.to_owned() };
        if Path::new(written).extension().is_none_or(|extension| extension != "json") {
            return Err(refused("it is no .json file"));
        }
        // Everything else that a path must not be is the same.
        Self::parse(&format!("{written}.md"))?;
        Ok(Self(written.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn under(&self, root: &Path) -> PathBuf {
        self.0.split('/').fold(root.to_owned(), |folder, name| folder.join(name))
    }

    /// The names of the folders it is in.
    fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.rsplit_once('/').into_iter().flat_map(|(folders, _)| folders.split('/'))
    }

    /// What the note holds; nothing where it is not there.
    pub(super) fn read(&self, root: &Path) -> Result<Option<String>, WriteError> {
        self.check_links(root)?;
        let target = self.under(root);
        let failed = |error: io::Error| WriteError::io("read", self, &error);
        let not_a_note = |why| WriteError::NotANote { path: self.to_string(), why };
        let file = match fs::symlink_metadata(&target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
            Ok(metadata) if !metadata.is_file() => return Err(not_a_note("it is not a file")),
            Ok(_) => fs::File::open(&target).map_err(failed)?,
        };
        let mut text = Vec::new();
        file.take(MAX_NOTE as u64 + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() > MAX_NOTE {
            return Err(not_a_note("it is too large to be changed here"));
        }
        String::from_utf8(text).map(Some).map_err(|_| not_a_note("it is not UTF-8 text"))
    }

    /// No folder on the way, and not the note itself, is a link: where those lead is not ours to say.
    fn check_links(&self, root: &Path) -> Result<(), WriteError> {
        let mut place = root.to_owned();
        for name in self.0.split('/') {
            place.push(name);
            match fs::symlink_metadata(&place) {
                Ok(metadata) if metadata.is_symlink() => {
                    return Err(WriteError::Link { path: self.0.clone(), link: name.to_owned() });
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => break,
                Err(error) => return Err(WriteError::io("look at", self, &error)),
            }
        }
        Ok(())
    }

    /// That no name on the way differs from one that is there by case alone: elsewhere the two would be one.
    pub(super) fn check_is_free(&self, root: &Path) -> Result<(), WriteError> {
        let mut folder = root.to_owned();
        for name in self.0.split('/') {
            let there = folder.join(name);
            if fs::symlink_metadata(&there).is_err() {
                let alike = |other: &String| other.to_lowercase() == name.to_lowercase();
                let entries = fs::read_dir(&folder).into_iter().flatten().take(MAX_ENTRIES);
                let mut names: Vec<_> =
                    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).filter(alike).collect();
                names.sort();
                return match names.into_iter().next() {
                    Some(existing) => Err(WriteError::Exists { path: self.0.clone(), existing }),
                    None => Ok(()),
                };
            }
            folder = there;
        }
        Ok(())
    }

    /// Makes the folders that are missing.
    pub(super) fn make_folders(&self, root: &Path) -> Result<(), WriteError> {
        make_folders(root, self.folders().map(OsStr::new)).map_err(|error| WriteError::io("make the folder of", self, &error))?;
        Ok(())
    }
}

/// Makes folders inside one another, none of which is a link.
pub(super) fn make_folders<'a>(root: &Path, names: impl Iterator<Item = &'a OsStr>) -> io::Result<PathBuf> {
    let mut folder = root.to_owned();
    for name in names {
        folder.push(name);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ if fs::symlink_metadata(&folder)?.is_dir() => {}
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::NotADirectory,
                    format!("{} is not a folder", Path::new(name).display()),
                ));
            }
        }
    }
    Ok(folder)
}

/// Why a path is not taken.
fn refusal(path: &str) -> Option<String> {
    if path.is_empty() {
        return Some("the path is empty".to_owned());
    }
    if path.len() > MAX_PATH {
        return Some(format!("the path has {} bytes, and {MAX_PATH} are the most", path.len()));
    }
    if path.starts_with('/') {
        return Some("the path is absolute".to_owned());
    }
    if let Some(why) = path.split('/').find_map(name_refusal) {
        return Some(why);
    }
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let is_note = ["md", "txt"].iter().any(|known| extension.eq_ignore_ascii_case(known));
    (!is_note).then(|| "only .md and .txt files are written".to_owned())
}

fn name_refusal(name: &str) -> Option<String> {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let numbered = |device: &str| stem.strip_prefix(device).is_some_and(|rest| matches!(rest.as_bytes(), [b'0'..=b'9']));
    let why = if name.is_empty() {
        "a name in it is empty"
    } else if name == ".." || name == "." {
        "it holds \".\" or \"..\""
    } else if name.starts_with('.') {
        "a name in it begins with a dot, and hidden files and folders are not written"
    } else if name.len() > MAX_NAME {
        "a name in it is too long"
    } else if name.chars().any(|char| char.is_control() || REFUSED.contains(&char)) {
        "a name in it holds a character that not every system takes: < > : \" | ? * \\ or a control character"
    } else if name.ends_with([' ', '.']) || name.starts_with(' ') {
        "a name in it begins with a blank or ends with a blank or a dot"
    } else if DEVICES.contains(&stem.as_str()) || numbered("com") || numbered("lpt") {
        "a name in it is that of a device on Windows"
    } else {
        return None;
    };
    Some(why.to_owned())
}

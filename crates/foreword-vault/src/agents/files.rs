//! How agent files are reached: a trait of two questions, and its answer for a folder on disk.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The largest agent file that is read. `TsAgent` keeps vectors in its files, which makes them large.
pub const MAX_FILE_BYTES: u64 = 16 << 20;
const MAX_LISTED: usize = 5_000;

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its name, without the path.
    pub name: String,
    /// Whether it is a folder.
    pub folder: bool,
}

/// Where agent files come from. Paths have `/` between folders and never lead outside.
pub trait Files {
    /// The text of a file.
    fn read(&self, path: &str) -> io::Result<String>;

    /// What is in a folder, sorted by name; hidden names too.
    fn list(&self, folder: &str) -> io::Result<Vec<Listed>>;
}

/// A folder on disk that cannot be left, not by `..` and not by a symlink.
#[derive(Clone, Debug)]
pub struct OnDisk {
    root: PathBuf,
}

impl OnDisk {
    /// The folder at `root`.
    pub fn new(root: &Path) -> io::Result<Self> {
        Ok(Self { root: root.canonicalize()? })
    }

    fn resolve(&self, path: &str) -> io::Result<PathBuf> {
        let resolved = self.root.join(path).canonicalize()?;
        if resolved.starts_with(&self.root) {
            Ok(resolved)
        } else {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is outside of the vault"))
        }
    }
}

impl Files for OnDisk {
    fn read(&self, path: &str) -> io::Result<String> {
        let path = self.resolve(path)?;
        if !fs::metadata(&path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {MAX_FILE_BYTES} bytes")));
        }
        String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text"))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Listed>> {
        let mut listed = Vec::new();
        for entry in fs::read_dir(self.resolve(folder)?)?.take(MAX_LISTED) {
            let entry = entry?;
            // A name that is no Unicode cannot be written in a path of ours.
            if let Ok(name) = entry.file_name().into_string() {
                listed.push(Listed { folder: entry.path().is_dir(), name });
            }
        }
        listed.sort();
        Ok(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn nothing_outside_is_read() {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("secret"), "x").unwrap();
        let inner = outer.path().join("vault");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("a.md"), "inside").unwrap();
        std::os::unix::fs::symlink(outer.path().join("secret"), inner.join("link.md")).unwrap();
        let files = OnDisk::new(&inner).unwrap();
        assert_eq!(files.read("a.md").unwrap(), "inside");
        for path in ["../secret", "link.md", "/etc/hostname", "a.md/../../secret"] {
            assert!(files.read(path).is_err(), "{path}");
        }
        assert!(files.list("..").is_err());
        let names: Vec<_> = files.list("").unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["a.md", "link.md"]);
    }
}

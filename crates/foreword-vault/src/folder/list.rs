//! Which files a vault has. Whether a file is listed depends on its own path and on the folders above it alone, so that one changed
//! file can be looked at without walking the whole folder, with the same outcome.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{FileKind, Folder, Problem, Stamp, disk_name, facts, is_inside, nfc};
use foreword_markdown::note::FileFacts;

/// Files beyond so many are not listed.
const MOST_FILES: usize = 1_000_000;

/// Folders deeper than this are not entered.
const MOST_DEPTH: usize = 64;

/// Of an ignore file, no more is read.
const MOST_IGNORE_BYTES: u64 = 1 << 20;

/// Past this, problems are counted and no longer told.
const MOST_PROBLEMS: usize = 1_000;

/// A file of the vault.
#[derive(Clone, Debug)]
pub struct Found {
    /// What the system tells about it.
    pub facts: FileFacts,
    /// What it is.
    pub kind: FileKind,
    pub(crate) stamp: Stamp,
    /// Where it is on disk.
    pub(crate) disk: PathBuf,
}

/// The files of a vault in the order of their paths, and what is wrong with others.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Each with its own path.
    pub files: Vec<Found>,
    /// Files and folders that were left out although their owner may expect them.
    pub problems: Vec<Problem>,
}

/// What a vault's owner wants to be left out.
#[derive(Clone, Debug)]
pub struct Exclude {
    rules: Gitignore,
}

impl Exclude {
    /// From lines as in a `.gitignore`; those that are none are told.
    pub fn new(lines: &[String]) -> (Self, Vec<String>) {
        let (rules, faults) = ignore_rules("", lines.iter().map(String::as_str));
        (Self { rules }, faults)
    }
}

impl Folder {
    /// All files.
    pub fn list(&self, exclude: &Exclude) -> Listing {
        let mut walk = Walk::new(self, exclude);
        let top = walk.top();
        walk.below(top);
        walk.finish()
    }

    /// The file at `path`, or the files below it where it is a folder; none where it is gone or left out.
    pub fn list_at(&self, path: &str, exclude: &Exclude) -> Listing {
        let mut walk = Walk::new(self, exclude);
        if !is_inside(path) {
            return walk.finish();
        }
        let mut place = walk.top();
        for name in path.split('/') {
            let step = disk_name(&place.disk, name).and_then(|name| {
                let kind = fs::symlink_metadata(place.disk.join(&name))?.file_type();
                Ok((name, kind))
            });
            let Ok((name, kind)) = step else { return walk.finish() };
            // Only a name that is not composed can be in the way of another one.
            let beside = if name.to_str().is_some_and(|name| nfc(name) != name) { names(&place.disk) } else { BTreeSet::new() };
            match walk.enter(&place, &name, kind, &beside) {
                Some(next) => place = next,
                None => return walk.finish(),
            }
        }
        walk.below(place);
        walk.finish()
    }
}

fn names(folder: &Path) -> BTreeSet<OsString> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
}

/// A folder on the way.
struct Place {
    disk: PathBuf,
    /// Without symbolic links.
    real: PathBuf,
    /// In the vault; empty for the top.
    path: String,
    depth: usize,
    /// Whether it was reached by a symbolic link.
    linked: bool,
    /// The ignore files here and above.
    ignore: Option<Arc<Level>>,
}

/// The rules of one ignore file, and those above.
struct Level {
    rules: Gitignore,
    up: Option<Arc<Level>>,
}

struct Walk<'a> {
    root: &'a Folder,
    exclude: &'a Exclude,
    found: Listing,
    untold: usize,
}

impl<'a> Walk<'a> {
    fn new(root: &'a Folder, exclude: &'a Exclude) -> Self {
        Self { root, exclude, found: Listing::default(), untold: 0 }
    }

    fn finish(mut self) -> Listing {
        self.found.files.sort_by(|a, b| a.facts.path.cmp(&b.facts.path));
        self.found.problems.sort();
        if self.untold > 0 {
            self.found.problems.push(Problem::new("", format!("{} more files have problems", self.untold)));
        }
        self.found
    }

    fn problem(&mut self, path: &str, what: impl Into<String>) {
        if self.found.problems.len() < MOST_PROBLEMS {
            self.found.problems.push(Problem::new(path, what));
        } else {
            self.untold += 1;
        }
    }

    fn top(&mut self) -> Place {
        let disk = self.root.root().to_owned();
        let mut top = Place { real: disk.clone(), disk, path: String::new(), depth: 0, linked: false, ignore: None };
        top.ignore = self.ignore_at(&top);
        top
    }

    /// Lists everything below `top`.
    fn below(&mut self, top: Place) {
        let mut places = vec![top];
        while let Some(place) = places.pop() {
            let entries = match fs::read_dir(&place.disk).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
                Ok(entries) => entries,
                Err(error) => {
                    self.problem(&place.path, format!("cannot list this folder: {error}"));
                    continue;
                }
            };
            let mut entries: Vec<_> =
                entries.into_iter().filter_map(|entry| Some((entry.file_name(), entry.file_type().ok()?))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let plain = entries.iter().all(|(name, _)| name.to_str().is_some_and(|name| nfc(name) == name));
            let beside = if plain { BTreeSet::new() } else { entries.iter().map(|(name, _)| name.clone()).collect() };
            for (name, kind) in &entries {
                if self.found.files.len() >= MOST_FILES {
                    self.problem(&place.path, format!("the vault has more than {MOST_FILES} files; the others are ignored"));
                    return;
                }
                places.extend(self.enter(&place, name, *kind, &beside));
            }
        }
    }

    /// Lists `name` where it is a file, and gives the place where it is a folder to go into.
    fn enter(&mut self, place: &Place, name: &OsStr, kind: FileType, beside: &BTreeSet<OsString>) -> Option<Place> {
        let Some(text) = name.to_str() else {
            let path = inside(&place.path, &name.to_string_lossy());
            self.problem(&path, "ignored: its name is not Unicode; rename it");
            return None;
        };
        if text.starts_with('.') {
            return None;
        }
        let composed = nfc(text);
        let mut path = inside(&place.path, &composed);
        if composed != text && beside.contains(OsStr::new(composed.as_ref())) {
            path = inside(&place.path, text);
            self.problem(&path, "another file has the same name after Unicode normalization; rename one of them");
        }
        let disk = place.disk.join(name);
        let (target, kind) = if kind.is_symlink() {
            let (target, kind) = self.follow(place, &disk, &path)?;
            (Some(target), kind)
        } else {
            (None, kind)
        };
        if self.is_left_out(place, &path, kind.is_dir()) {
            return None;
        }
        if kind.is_dir() {
            if place.depth >= MOST_DEPTH {
                self.problem(&path, format!("folders deeper than {MOST_DEPTH} levels are ignored"));
                return None;
            }
            let linked = place.linked || target.is_some();
            let real = target.unwrap_or_else(|| place.real.join(name));
            let mut next = Place { disk, real, path, depth: place.depth + 1, linked, ignore: place.ignore.clone() };
            next.ignore = self.ignore_at(&next);
            return Some(next);
        }
        self.file(path, disk, kind);
        None
    }

    fn file(&mut self, path: String, disk: PathBuf, kind: FileType) {
        if !kind.is_file() {
            self.problem(&path, "ignored: neither a file nor a folder");
            return;
        }
        match fs::metadata(&disk) {
            Ok(metadata) => {
                let (facts, stamp) = facts(path, &metadata);
                self.found.files.push(Found { kind: FileKind::of(&facts.path), facts, stamp, disk });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.problem(&path, format!("ignored: cannot read its metadata: {error}")),
        }
    }

    /// Where a symbolic link leads, if it may be followed.
    fn follow(&mut self, place: &Place, disk: &Path, path: &str) -> Option<(PathBuf, FileType)> {
        let found = fs::canonicalize(disk).and_then(|real| Ok((fs::metadata(&real)?.file_type(), real)));
        let (kind, real) = match found {
            Ok(found) => found,
            Err(error) => {
                self.problem(path, format!("ignored: broken symbolic link: {error}"));
                return None;
            }
        };
        let Ok(target) = real.strip_prefix(self.root.root()) else {
            self.problem(path, "ignored: this symbolic link leads out of the vault");
            return None;
        };
        let refusal = if target.iter().any(|name| name.as_encoded_bytes().starts_with(b".")) {
            "ignored: this symbolic link leads to a hidden file or folder"
        } else if kind.is_dir() && place.real.starts_with(&real) {
            "ignored: this symbolic link leads to a parent folder"
        } else if kind.is_dir() && place.linked {
            "ignored: a symbolic link to a folder inside another linked folder"
        } else {
            return Some((real, kind));
        };
        self.problem(path, refusal);
        None
    }

    fn is_left_out(&self, place: &Place, path: &str, is_folder: bool) -> bool {
        if place.ignore.is_none() && self.exclude.rules.is_empty() {
            return false;
        }
        let path = rooted(path);
        let mut level = place.ignore.as_deref();
        while let Some(Level { rules, up }) = level {
            match rules.matched(&path, is_folder) {
                ignore::Match::None => level = up.as_deref(),
                ignore::Match::Ignore(_) => return true,
                ignore::Match::Whitelist(_) => break,
            }
        }
        self.exclude.rules.matched(&path, is_folder).is_ignore()
    }

    /// The rules that hold in `place`: those above, and those of its own ignore file.
    fn ignore_at(&mut self, place: &Place) -> Option<Arc<Level>> {
        const NAME: &str = ".gitignore";
        let above = place.ignore.clone();
        let disk = place.disk.join(NAME);
        if fs::symlink_metadata(&disk).is_err() {
            return above;
        }
        let path = inside(&place.path, NAME);
        let text = match self.root.read_at(&disk, &path, MOST_IGNORE_BYTES) {
            Ok(bytes) => super::Text::decode(bytes).text,
            Err(error) => {
                self.problem(&path, format!("its rules are ignored: {error}"));
                return above;
            }
        };
        let (rules, faults) = ignore_rules(&place.path, text.lines());
        for fault in faults {
            self.problem(&path, fault);
        }
        Some(Arc::new(Level { rules, up: above }))
    }
}

/// `path` from a made-up root, so that rules see where it begins.
fn rooted(path: &str) -> String {
    format!("/{path}")
}

fn inside(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn ignore_rules<'a>(folder: &str, lines: impl Iterator<Item = &'a str>) -> (Gitignore, Vec<String>) {
    let mut builder = GitignoreBuilder::new(rooted(folder));
    let mut faults = Vec::new();
    for line in lines {
        if let Err(error) = builder.add_line(None, &nfc(line)) {
            faults.push(format!("the rule {line:?} is ignored: {error}"));
        }
    }
    let rules = builder.build().unwrap_or_else(|error| {
        faults.push(format!("its rules are ignored: {error}"));
        Gitignore::empty()
    });
    (rules, faults)
}

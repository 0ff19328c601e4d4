//! An index of a vault's notes with a cache: a file is read again only after it changed, even across restarts.

mod cache;
mod changes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::SystemTime;

use foreword_core::hash::Hash;
use serde::{Deserialize, Serialize};

pub use cache::CacheError;
pub use changes::{Changes, Renamed};

use crate::config::{self, Config};
use crate::folder::{Exclude, FileKind, Folder, Found, Listing, OpenError, Problem, ReadError, Stamp, Text, nanos, stem_of};
use crate::links::{Graph, Names};
use changes::Tally;
use foreword_markdown as markdown;
use foreword_markdown::note::{FileFacts, Note};

/// A file that was modified this shortly before it was read may change again without a new modification time.
const RACY_NANOS: i64 = 2_000_000_000;

/// For more changed paths than this, the whole vault is checked.
const WORTH_A_WALK: usize = 256;

/// The largest number of reader threads.
const MOST_READERS: usize = 8;

/// An indexed note.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// The file's metadata.
    pub facts: FileFacts,
    /// The parsed note.
    pub note: Note,
    /// The hash of its text.
    pub hash: Hash,
    /// The file name without extension.
    pub title: String,
    /// Problems with its encoding.
    fault: Option<String>,
    stamp: Stamp,
    /// Whether its modification time is reliable.
    settled: bool,
}

impl Listed {
    /// The title in its frontmatter, if it differs.
    pub fn given_title(&self) -> Option<&str> {
        self.note.frontmatter.get("title").and_then(|title| title.as_str()).filter(|title| *title != self.title)
    }
}

/// A file that is not a note, or a note that could not be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherFile {
    /// The file's metadata.
    pub facts: FileFacts,
    /// The file's kind.
    pub kind: FileKind,
    /// Changes whenever the file changes.
    pub stamp: Stamp,
}

/// An opened vault.
#[derive(Debug)]
pub struct Opened {
    /// The vault.
    pub vault: Vault,
    /// The changes since the vault was last opened with the same cache; without a cache, all files are added.
    pub changes: Changes,
    /// Problems to show to the user.
    pub problems: Vec<Problem>,
}

/// The notes of a folder and the links between them.
#[derive(Debug)]
pub struct Vault {
    folder: Folder,
    config: Config,
    exclude: Exclude,
    cache: Option<PathBuf>,
    notes: BTreeMap<Arc<str>, Listed>,
    files: BTreeMap<Arc<str>, OtherFile>,
    pub(crate) names: Names,
    /// The link graph, created on first use.
    pub(crate) graph: OnceLock<Graph>,
    /// Problems with settings, folders and unreadable files.
    problems: Vec<Problem>,
    config_problems: Vec<Problem>,
}

impl Vault {
    /// Opens the folder at `root`. Files that are unchanged in the `cache` folder are not read again.
    ///
    /// Only an invalid `root` is an error; other problems are in [`Opened::problems`].
    pub fn open(root: &Path, cache: Option<&Path>) -> Result<Opened, OpenError> {
        let folder = Folder::open(root)?;
        let cache = cache.map(|cache| cache::file(cache, folder.root()));
        let (exclude, _) = Exclude::new(&[]);
        let mut vault = Self {
            folder,
            config: Config::default(),
            exclude,
            cache,
            notes: BTreeMap::new(),
            files: BTreeMap::new(),
            names: Names::default(),
            graph: OnceLock::new(),
            problems: Vec::new(),
            config_problems: Vec::new(),
        };
        vault.read_config();
        let (listing, stored) = thread::scope(|scope| {
            let stored = scope.spawn(|| vault.cache.as_deref().and_then(cache::load));
            let listing = vault.folder.list(&vault.exclude);
            (listing, stored.join().ok().flatten())
        });
        let stored = stored.unwrap_or_default();
        vault.notes = stored.notes.into_iter().map(|note| (Arc::from(note.facts.path.as_str()), note)).collect();
        vault.files = stored.files.into_iter().map(|file| (Arc::from(file.facts.path.as_str()), file)).collect();
        for (path, note) in &vault.notes {
            vault.names.add(path, &note.note.aliases);
        }
        for path in vault.files.keys() {
            vault.names.add(path, &[]);
        }
        let tally = vault.take_in(listing, None);
        let stale = tally.is_stale();
        let changes = tally.finish();
        let mut problems = vault.problems();
        if stale && let Err(error) = vault.save() {
            problems.push(Problem::new("", error.to_string()));
        }
        Ok(Opened { vault, changes, problems })
    }

    /// Saves the cache. Opening a vault saves it too; call this after many refreshes.
    pub fn save(&self) -> Result<(), CacheError> {
        match &self.cache {
            Some(cache) => cache::save(cache, &self.notes, &self.files),
            None => Ok(()),
        }
    }

    /// Checks all files for changes.
    pub fn refresh(&mut self) -> Changes {
        self.read_config();
        let listing = self.folder.list(&self.exclude);
        self.take_in(listing, None).finish()
    }

    /// Checks `paths` for changes: files, folders with their content, or deleted ones.
    pub fn refresh_paths<P: AsRef<str>>(&mut self, paths: &[P]) -> Changes {
        let mut listing = Listing::default();
        let mut scope: Vec<&str> = paths.iter().map(AsRef::as_ref).collect();
        let rules = scope.iter().any(|path| *path == config::FILE || path.ends_with(".gitignore"));
        if rules || scope.len() > WORTH_A_WALK {
            return self.refresh();
        }
        scope.sort_unstable();
        scope.dedup_by(|path, above| is_within(path, above));
        for path in &scope {
            let part = self.folder.list_at(path, &self.exclude);
            listing.files.extend(part.files);
            listing.problems.extend(part.problems);
        }
        self.take_in(listing, Some(&scope)).finish()
    }

    /// The vault's path.
    pub fn root(&self) -> &Path {
        self.folder.root()
    }

    /// The vault's files on disk.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The vault's settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// All notes, sorted by path.
    pub fn notes(&self) -> impl ExactSizeIterator<Item = &Listed> {
        self.notes.values()
    }

    /// The note at exactly this path. For names as written by the user, use [`Vault::resolve`].
    pub fn get(&self, path: &str) -> Option<&Listed> {
        self.notes.get(path)
    }

    /// All other files, sorted by path.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &OtherFile> {
        self.files.values()
    }

    /// The file at exactly this path, if it is not a note.
    pub fn file(&self, path: &str) -> Option<&OtherFile> {
        self.files.get(path)
    }

    /// The stored path of a file in the vault.
    pub(crate) fn path(&self, path: &str) -> Option<&str> {
        let note = self.notes.get_key_value(path).map(|(path, _)| path);
        note.or_else(|| self.files.get_key_value(path).map(|(path, _)| path)).map(|path| &**path)
    }

    /// Reads the current text of a file.
    pub fn read(&self, path: &str) -> Result<Text, ReadError> {
        self.folder.read(path)
    }

    /// Reads and parses the current text of a note.
    pub fn read_note(&self, path: &str) -> Result<(String, Note), ReadError> {
        let text = self.folder.read(path)?.text;
        let known = self.get(path).filter(|listed| listed.hash == Hash::of(&text));
        let note = known.map_or_else(|| markdown::read(&text), |listed| listed.note.clone());
        Ok((text, note))
    }

    /// Problems to show to the user, sorted by path.
    pub fn problems(&self) -> Vec<Problem> {
        let faults = self.notes.iter().flat_map(|(path, listed)| {
            let yaml = listed.note.frontmatter.fault.as_ref();
            listed.fault.iter().chain(yaml).map(|fault| Problem::new(&**path, fault.as_str()))
        });
        let mut problems: Vec<_> = self.config_problems.iter().chain(&self.problems).cloned().chain(faults).collect();
        problems.sort();
        problems
    }

    fn read_config(&mut self) {
        const MOST_BYTES: u64 = 1 << 20;
        let (config, mut faults) = match self.folder.read_bytes(config::FILE, MOST_BYTES) {
            Ok(bytes) => Config::read(&Text::decode(bytes).text),
            Err(ReadError::Io { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => Default::default(),
            Err(error) => (Config::default(), vec![error.to_string()]),
        };
        let (exclude, wrong) = Exclude::new(&config.exclude);
        faults.extend(wrong);
        self.config = config;
        self.exclude = exclude;
        self.config_problems = faults.into_iter().map(|fault| Problem::new(config::FILE, fault)).collect();
    }

    /// Updates the index from a listing, of everything or of the paths in `scope`.
    fn take_in(&mut self, listing: Listing, scope: Option<&[&str]>) -> Tally {
        let in_scope = |path: &str| scope.is_none_or(|scope| scope.iter().any(|above| is_within(path, above)));
        let mut tally = Tally::default();
        self.problems.retain(|problem| !in_scope(&problem.path));
        self.problems.extend(listing.problems);

        for path in self.gone(&listing.files, scope) {
            self.remove(&path, &mut tally);
        }
        let (notes, others): (Vec<_>, Vec<_>) = listing.files.into_iter().partition(|found| found.kind == FileKind::Note);
        for found in others {
            self.put_file(found, &mut tally);
        }
        let stale: Vec<Found> = notes.into_iter().filter(|found| !self.is_current(found)).collect();
        let read = read_all(&self.folder, &stale);
        for (found, outcome) in stale.into_iter().zip(read) {
            match outcome {
                Ok(listed) => self.put_note(listed, &mut tally),
                Err(ReadError::Io { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {
                    self.remove(&found.facts.path, &mut tally);
                }
                Err(error) => {
                    self.problems.push(Problem::new(found.facts.path.as_str(), error.to_string()));
                    self.put_file(found, &mut tally);
                }
            }
        }
        tally
    }

    /// Known paths in `scope` that are not in `files`.
    fn gone(&self, files: &[Found], scope: Option<&[&str]>) -> Vec<Arc<str>> {
        let mut listed: Vec<&str> = files.iter().map(|found| found.facts.path.as_str()).collect();
        listed.sort_unstable();
        let is_gone = |path: &&Arc<str>| listed.binary_search(&&***path).is_err();
        let Some(scope) = scope else {
            return self.notes.keys().chain(self.files.keys()).filter(is_gone).cloned().collect();
        };
        let mut gone = Vec::new();
        for above in scope {
            let below = format!("{above}/");
            for path in
                [self.notes.get_key_value(*above).map(|(path, _)| path), self.files.get_key_value(*above).map(|(path, _)| path)]
            {
                gone.extend(path.filter(is_gone).cloned());
            }
            let from = || (std::ops::Bound::Included(below.as_str()), std::ops::Bound::Unbounded);
            let notes = self.notes.range::<str, _>(from()).map(|(path, _)| path);
            let files = self.files.range::<str, _>(from()).map(|(path, _)| path);
            gone.extend(notes.take_while(|path| path.starts_with(&below)).filter(is_gone).cloned());
            gone.extend(files.take_while(|path| path.starts_with(&below)).filter(is_gone).cloned());
        }
        gone
    }

    fn is_current(&self, found: &Found) -> bool {
        self.get(&found.facts.path).is_some_and(|listed| {
            let same = |stamp: Stamp| (stamp.modified, stamp.touched);
            listed.settled && listed.facts.size == found.facts.size && same(listed.stamp) == same(found.stamp)
        })
    }

    fn remove(&mut self, path: &str, tally: &mut Tally) {
        if let Some((path, note)) = self.notes.remove_entry(path) {
            self.names.remove(&path, &note.note.aliases);
            self.graph = OnceLock::new();
            tally.removed(&path, Some(note.hash), note.stamp, note.facts.size);
        }
        if let Some((path, file)) = self.files.remove_entry(path) {
            self.names.remove(&path, &[]);
            self.graph = OnceLock::new();
            tally.removed(&path, None, file.stamp, file.facts.size);
        }
    }

    fn put_note(&mut self, listed: Listed, tally: &mut Tally) {
        let path: Arc<str> = Arc::from(listed.facts.path.as_str());
        if self.files.contains_key(&path) {
            self.remove(&path, tally);
        }
        match self.notes.get_mut(&path) {
            Some(known) if known.hash == listed.hash && known.note == listed.note => {
                tally.touched();
                *known = listed;
            }
            Some(known) => {
                let same_names = known.note.aliases == listed.note.aliases;
                let old = std::mem::replace(known, listed);
                tally.changed(&path);
                if !same_names {
                    self.names.remove(&path, &old.note.aliases);
                    self.names.add(&path, &self.notes[&path].note.aliases);
                    self.graph = OnceLock::new();
                } else if let Some(mut graph) = self.graph.take() {
                    graph.put(&path, self.targets(&path));
                    self.graph = OnceLock::from(graph);
                }
            }
            None => {
                tally.added(&path, Some(listed.hash), listed.stamp, listed.facts.size);
                self.names.add(&path, &listed.note.aliases);
                self.graph = OnceLock::new();
                self.notes.insert(path, listed);
            }
        }
    }

    fn put_file(&mut self, found: Found, tally: &mut Tally) {
        let path: Arc<str> = Arc::from(found.facts.path.as_str());
        if self.notes.contains_key(&path) {
            self.remove(&path, tally);
        }
        let file = OtherFile { facts: found.facts, kind: found.kind, stamp: found.stamp };
        match self.files.get_mut(&path) {
            Some(known) if *known == file => {}
            Some(known) => {
                tally.changed(&path);
                *known = file;
            }
            None => {
                tally.added(&path, None, file.stamp, file.facts.size);
                self.names.add(&path, &[]);
                self.graph = OnceLock::new();
                self.files.insert(path, file);
            }
        }
    }
}

/// Whether `path` is `above` or below it.
fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reads files in parallel; the results are in the order of the files.
fn read_all(folder: &Folder, files: &[Found]) -> Vec<Result<Listed, ReadError>> {
    /// The smallest number of files per thread.
    const WORTH_A_THREAD: usize = 64;
    let readers = thread::available_parallelism().map_or(1, usize::from).min(MOST_READERS).min(files.len() / WORTH_A_THREAD + 1);
    let next = AtomicUsize::new(0);
    let read_some = || {
        let mut done = Vec::new();
        while let Some((at, found)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, files.get(at)?))) {
            done.push((at, read_one(folder, found)));
        }
        done
    };
    let mut all = thread::scope(|scope| {
        let others: Vec<_> = (1..readers).map(|_| scope.spawn(read_some)).collect();
        let mut all = read_some();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

fn read_one(folder: &Folder, found: &Found) -> Result<Listed, ReadError> {
    let now = nanos(SystemTime::now());
    let Text { text, fault } = folder.read_found(found)?;
    Ok(Listed {
        facts: found.facts.clone(),
        note: markdown::read(&text),
        hash: Hash::of(&text),
        title: stem_of(&found.facts.path).to_owned(),
        fault: fault.map(str::to_owned),
        stamp: found.stamp,
        settled: found.stamp.modified.max(found.stamp.touched) < now.saturating_sub(RACY_NANOS),
    })
}

#[cfg(test)]
mod tests;

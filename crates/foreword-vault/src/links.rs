//! Resolves links by Obsidian's rules and builds the link graph.
//!
//! A link names a file by its path from the top of the vault, by the end of that path, or relative to its note (`./`, `../`). Case
//! and the extension `.md` are ignored. If several files match, a full path wins; then files below the note's folder are preferred,
//! then the shortest path. Aliases are used if no file matches.

mod graph;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use graph::Graph;

use crate::folder::{FileKind, folder_of, name_of, nfc};
use crate::index::Vault;
use foreword_markdown as markdown;
use foreword_markdown::note::{Link, Note, Part};

/// Extensions that a link may omit.
const ENDINGS: [&str; 3] = ["", ".md", ".markdown"];

/// The largest number of candidates to list.
const MOST_CANDIDATES: usize = 64;

/// The target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved<'a> {
    /// A note.
    Note(&'a str),
    /// Another file of the vault.
    File(&'a str),
    /// Several files match.
    Ambiguous {
        /// The file that Obsidian would open.
        chosen: &'a str,
        /// All matching files, the best first, including `chosen`.
        candidates: Vec<&'a str>,
    },
    /// There is no such file in the vault.
    Missing,
    /// A URL.
    External(&'a str),
}

impl<'a> Resolved<'a> {
    /// The file in the vault, if there is one.
    pub fn path(&self) -> Option<&'a str> {
        match self {
            Self::Note(path) | Self::File(path) | Self::Ambiguous { chosen: path, .. } => Some(path),
            Self::Missing | Self::External(_) => None,
        }
    }
}

/// The paths of a vault by the names that links use. Keys are in lower case.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// By file name, including the extension.
    files: HashMap<String, Vec<Named>>,
    aliases: HashMap<String, Vec<Arc<str>>>,
}

/// A path with one of its names.
#[derive(Debug)]
struct Named {
    path: Arc<str>,
    /// The path in lower case, if it differs.
    lower: Option<Box<str>>,
}

impl Named {
    fn new(path: &Arc<str>) -> Self {
        let lower = path.to_lowercase();
        Self { path: path.clone(), lower: (lower != **path).then(|| lower.into_boxed_str()) }
    }

    fn lower(&self) -> &str {
        self.lower.as_deref().unwrap_or(&self.path)
    }
}

impl Names {
    pub(crate) fn add(&mut self, path: &Arc<str>, aliases: &[String]) {
        self.files.entry(key(name_of(path))).or_default().push(Named::new(path));
        for alias in aliases {
            self.aliases.entry(key(alias)).or_default().push(path.clone());
        }
    }

    pub(crate) fn remove(&mut self, path: &Arc<str>, aliases: &[String]) {
        forget(&mut self.files, &key(name_of(path)), |named| named.path == *path);
        for alias in aliases {
            forget(&mut self.aliases, &key(alias), |named| named == path);
        }
    }

    /// The files that match `target`, the best first, and whether the first is a definite match.
    fn find(&self, target: &str, from: &str) -> (Vec<&Arc<str>>, Sure) {
        let folder = folder_of(from);
        let relative = matches!(target.split('/').next(), Some("." | ".."));
        let whole = if relative { joined(folder, target) } else { target.strip_prefix('/').map(str::to_owned) };
        if relative && whole.is_none() {
            return (Vec::new(), Sure::No);
        }
        let target = nfc(whole.as_deref().unwrap_or(target));
        let mut lower = target.to_lowercase();
        let bare = lower.len();
        for ending in ENDINGS {
            lower.truncate(bare);
            lower.push_str(ending);
            let Some(named) = self.files.get(name_of(&lower)) else { continue };
            let is_written = |path: &str| path.strip_suffix(ending).is_some_and(|path| path == target);
            let mut exact: Vec<&Arc<str>> =
                named.iter().filter(|named| named.lower() == lower).map(|named| &named.path).collect();
            if !exact.is_empty() {
                exact.sort_by_key(|path| (!is_written(path), *path));
                let sure = exact.len() == 1 || exact.first().is_some_and(|path| is_written(path));
                return (exact, if sure { Sure::Yes } else { Sure::No });
            }
            if whole.is_none() {
                let fitting = named.iter().filter(|named| ends_with(named.lower(), &lower)).map(|named| &named.path).collect();
                if let (fitting, Some(sure)) = ranked(fitting, folder) {
                    return (fitting, sure);
                }
            }
        }
        lower.truncate(bare);
        let named = if whole.is_none() { self.aliases.get(&lower) } else { None };
        let (named, sure) = ranked(named.into_iter().flatten().collect(), folder);
        (named, sure.unwrap_or(Sure::No))
    }
}

/// Whether the match is definite.
#[derive(Clone, Copy, PartialEq)]
enum Sure {
    Yes,
    No,
}

/// The paths in Obsidian's order for a note in `folder`.
fn ranked<'a>(mut paths: Vec<&'a Arc<str>>, folder: &str) -> (Vec<&'a Arc<str>>, Option<Sure>) {
    paths.sort_by_key(|path| (!is_below(path, folder), path.len(), *path));
    paths.dedup();
    let sure = match paths.len() {
        0 => None,
        1 => Some(Sure::Yes),
        _ => Some(Sure::No),
    };
    (paths, sure)
}

fn forget<T>(names: &mut HashMap<String, Vec<T>>, key: &str, is_gone: impl Fn(&T) -> bool) {
    if let Some(named) = names.get_mut(key) {
        named.retain(|known| !is_gone(known));
        if named.is_empty() {
            names.remove(key);
        }
    }
}

fn key(name: &str) -> String {
    nfc(name).to_lowercase()
}

/// Whether the path ends with the names in `end`, both in lower case.
fn ends_with(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// `target` relative to `folder`; `None` if it is outside of the vault.
fn joined(folder: &str, target: &str) -> Option<String> {
    let mut names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop()?;
            }
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// Whether a link's target is a URL.
pub(crate) fn is_external(target: &str) -> bool {
    const WITHOUT_SLASHES: [&str; 5] = ["mailto", "tel", "data", "obsidian", "javascript"];
    let Some((scheme, rest)) = target.split_once(':') else { return false };
    let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    named && (rest.starts_with("//") || WITHOUT_SLASHES.iter().any(|known| scheme.eq_ignore_ascii_case(known)))
}

/// Whether a note has the part that a link names.
pub fn has_part(text: &str, note: &Note, part: &Part) -> bool {
    match part {
        Part::Heading(path) => markdown::section(text, note, path).is_some(),
        Part::Block(id) => markdown::block(text, note, id).is_some(),
    }
}

impl Vault {
    /// The target of a link in the note at `from`. An empty target is the note itself.
    pub fn resolve<'a>(&'a self, target: &'a str, from: &str) -> Resolved<'a> {
        let target = target.trim();
        if is_external(target) {
            return Resolved::External(target);
        }
        let target = if target.is_empty() { from } else { target };
        let (candidates, sure) = self.names.find(target, from);
        match candidates.first() {
            None => Resolved::Missing,
            Some(path) if sure == Sure::Yes => self.found(path),
            Some(chosen) => {
                let told = candidates.iter().take(MOST_CANDIDATES).map(|path| &***path).collect();
                Resolved::Ambiguous { chosen, candidates: told }
            }
        }
    }

    fn found<'a>(&self, path: &'a str) -> Resolved<'a> {
        if self.get(path).is_some() { Resolved::Note(path) } else { Resolved::File(path) }
    }

    /// The broken links of a note: their file, or the named part of it, does not exist.
    pub fn broken_links(&self, path: &str) -> Vec<&Link> {
        let Some(listed) = self.get(path) else { return Vec::new() };
        let broken = |link: &&Link| match (self.resolve(&link.target, path), &link.part) {
            (Resolved::Missing, _) => true,
            (Resolved::Note(to), Some(part)) => {
                self.get(to).is_some_and(|to| FileKind::of(&to.facts.path) == FileKind::Note && !has_part("", &to.note, part))
            }
            _ => false,
        };
        listed.note.links.iter().filter(broken).collect()
    }

    /// The files that a note links to or embeds, sorted by path.
    pub fn outgoing(&self, path: &str) -> impl ExactSizeIterator<Item = &str> {
        self.graph().outgoing(path).iter().map(|path| &**path)
    }

    /// The notes that link to or embed a file, sorted by path.
    pub fn incoming(&self, path: &str) -> impl ExactSizeIterator<Item = &str> {
        self.graph().incoming(path).iter().map(|path| &**path)
    }

    fn graph(&self) -> &Graph {
        self.graph.get_or_init(|| {
            Graph::new(self.notes().map(|listed| {
                let path: Arc<str> = Arc::from(listed.facts.path.as_str());
                let targets = self.targets(&path);
                (path, targets)
            }))
        })
    }

    /// The targets of a note's links, except itself.
    pub(crate) fn targets(&self, path: &str) -> Vec<Arc<str>> {
        let links = self.get(path).map_or(&[][..], |listed| &listed.note.links);
        let own = |link: &&Link| !link.target.is_empty() && !is_external(&link.target);
        let found = links.iter().filter(own).filter_map(|link| self.names.find(link.target.trim(), path).0.first().copied());
        let mut found: Vec<Arc<str>> = found.filter(|to| ***to != *path).cloned().collect();
        found.sort();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests;

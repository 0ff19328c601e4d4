//! Where links lead, as Obsidian has it, and which notes they join.
//!
//! A link names a file by its path from the top of the vault, by the end of that path, or relative to the note it stands in
//! (`./`, `../`). Case does not matter, and neither does `.md`. Where several files fit, one whose whole path is written wins; else those
//! below the folder of the note are preferred, then the one with the shortest path. Aliases count where no file fits.

mod graph;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use graph::Graph;

use crate::folder::{FileKind, folder_of, name_of, nfc};
use crate::index::Vault;
use crate::markdown;
use crate::note::{Link, Note, Part};

/// What a link may leave out at its end.
const ENDINGS: [&str; 3] = ["", ".md", ".markdown"];

/// Candidates beyond so many are not told.
const MOST_CANDIDATES: usize = 64;

/// Where a link leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved<'a> {
    /// A note.
    Note(&'a str),
    /// Another file of the vault.
    File(&'a str),
    /// Several files fit.
    Ambiguous {
        /// The one that Obsidian would open.
        chosen: &'a str,
        /// All of them, best first, `chosen` included.
        candidates: Vec<&'a str>,
    },
    /// Nothing of that name is in the vault.
    Missing,
    /// An address outside of the vault.
    External(&'a str),
}

impl<'a> Resolved<'a> {
    /// The file of the vault, if it is one.
    pub fn path(&self) -> Option<&'a str> {
        match self {
            Self::Note(path) | Self::File(path) | Self::Ambiguous { chosen: path, .. } => Some(path),
            Self::Missing | Self::External(_) => None,
        }
    }
}

/// The paths of a vault by what links call them. Keys are in lower case.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// By file name, its ending included.
    files: HashMap<String, Vec<Arc<str>>>,
    aliases: HashMap<String, Vec<Arc<str>>>,
}

impl Names {
    pub(crate) fn add(&mut self, path: &Arc<str>, aliases: &[String]) {
        self.files.entry(key(name_of(path))).or_default().push(path.clone());
        for alias in aliases {
            self.aliases.entry(key(alias)).or_default().push(path.clone());
        }
    }

    pub(crate) fn remove(&mut self, path: &Arc<str>, aliases: &[String]) {
        forget(&mut self.files, &key(name_of(path)), path);
        for alias in aliases {
            forget(&mut self.aliases, &key(alias), path);
        }
    }

    /// The files that `target` can mean, best first, and whether the first one is meant beyond doubt.
    fn find(&self, target: &str, from: &str) -> (Vec<&str>, bool) {
        let folder = folder_of(from);
        let relative = matches!(target.split('/').next(), Some("." | ".."));
        let whole = if relative { joined(folder, target) } else { target.strip_prefix('/').map(str::to_owned) };
        if relative && whole.is_none() {
            return (Vec::new(), true);
        }
        let only_whole = whole.is_some();
        let target = nfc(whole.as_deref().unwrap_or(target)).into_owned();
        let lower = target.to_lowercase();
        for ending in ENDINGS {
            let lower = format!("{lower}{ending}");
            let Some(named) = self.files.get(name_of(&lower)) else { continue };
            let mut exact: Vec<&str> = named.iter().map(|path| &**path).filter(|path| path.to_lowercase() == lower).collect();
            if !exact.is_empty() {
                let written = format!("{target}{ending}");
                exact.sort_by_key(|path| (*path != written, *path));
                let sure = exact.len() == 1 || exact.first().is_some_and(|path| *path == written);
                return (exact, sure);
            }
            if only_whole {
                continue;
            }
            let mut fitting: Vec<&str> = named.iter().map(|path| &**path).filter(|path| ends_with(path, &lower)).collect();
            if !fitting.is_empty() {
                fitting.sort_by_key(|path| (!is_below(path, folder), path.len(), *path));
                let sure = fitting.len() == 1;
                return (fitting, sure);
            }
        }
        let named = if only_whole { None } else { self.aliases.get(&lower) };
        let mut named: Vec<&str> = named.into_iter().flatten().map(|path| &**path).collect();
        named.sort_by_key(|path| (!is_below(path, folder), path.len(), *path));
        named.dedup();
        let sure = named.len() == 1;
        (named, sure)
    }
}

fn forget(names: &mut HashMap<String, Vec<Arc<str>>>, key: &str, path: &Arc<str>) {
    if let Some(paths) = names.get_mut(key) {
        paths.retain(|known| known != path);
        if paths.is_empty() {
            names.remove(key);
        }
    }
}

fn key(name: &str) -> String {
    nfc(name).to_lowercase()
}

/// Whether the path ends with the names of `end`, which is in lower case.
fn ends_with(path: &str, end: &str) -> bool {
    let path = path.to_lowercase();
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// `target` from `folder`; none where it leaves the vault.
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

/// Whether a link's target is an address and not a file.
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
    /// Where a link with this target leads when it stands in the note at `from`. An empty target is the note itself.
    pub fn resolve<'a>(&'a self, target: &'a str, from: &str) -> Resolved<'a> {
        let target = target.trim();
        if is_external(target) {
            return Resolved::External(target);
        }
        let target = if target.is_empty() { from } else { target };
        let (mut candidates, sure) = self.names.find(target, from);
        match candidates.first() {
            None => Resolved::Missing,
            Some(path) if sure => self.found(path),
            Some(chosen) => {
                let chosen = *chosen;
                candidates.truncate(MOST_CANDIDATES);
                Resolved::Ambiguous { chosen, candidates }
            }
        }
    }

    fn found<'a>(&self, path: &'a str) -> Resolved<'a> {
        if self.get(path).is_some() { Resolved::Note(path) } else { Resolved::File(path) }
    }

    /// The links of the note at `path` that lead nowhere: to no file, or to a part that its file does not have.
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

    /// The files that the note at `path` links to or embeds, in the order of their paths.
    pub fn outgoing(&self, path: &str) -> impl ExactSizeIterator<Item = &str> {
        self.graph().outgoing(path).iter().map(|path| &**path)
    }

    /// The notes that link to the file at `path` or embed it, in the order of their paths.
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

    /// The files that a note's links lead to, itself aside.
    pub(crate) fn targets(&self, path: &str) -> Vec<Arc<str>> {
        let links = self.get(path).map_or(&[][..], |listed| &listed.note.links);
        let found = links.iter().filter_map(|link| self.resolve(&link.target, path).path());
        let mut found: Vec<Arc<str>> = found.filter(|to| *to != path).map(Arc::from).collect();
        found.sort();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests;

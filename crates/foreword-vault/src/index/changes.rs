//! What is different after a refresh. A file that went and one that came are told as one rename where they are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foreword_core::hash::Hash;

use crate::folder::{Stamp, name_of};

/// What is different in a vault. All in the order of their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// New files.
    pub added: Vec<String>,
    /// Files with another content; a file that was renamed and changed is named here by its new path.
    pub changed: Vec<String>,
    /// Files that are gone.
    pub removed: Vec<String>,
    /// Files that have another path now.
    pub renamed: Vec<Renamed>,
}

/// A file that has another path now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Renamed {
    /// Its path before.
    pub from: String,
    /// Its path now.
    pub to: String,
}

impl Changes {
    /// Whether nothing is different.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is known of a file that came or went.
#[derive(Clone, Copy)]
struct Trace {
    /// Of a note that was read.
    hash: Option<Hash>,
    stamp: Stamp,
    size: u64,
}

/// Changes while they are collected.
#[derive(Default)]
pub(super) struct Tally {
    added: BTreeMap<Arc<str>, Trace>,
    changed: BTreeSet<Arc<str>>,
    removed: BTreeMap<Arc<str>, Trace>,
    touched: bool,
}

impl Tally {
    pub(super) fn added(&mut self, path: &Arc<str>, hash: Option<Hash>, stamp: Stamp, size: u64) {
        // A file that could not be read and now can is not a new one.
        if self.removed.remove(path).is_some() {
            self.changed.insert(path.clone());
        } else {
            self.added.insert(path.clone(), Trace { hash, stamp, size });
        }
    }

    pub(super) fn removed(&mut self, path: &Arc<str>, hash: Option<Hash>, stamp: Stamp, size: u64) {
        self.removed.insert(path.clone(), Trace { hash, stamp, size });
    }

    pub(super) fn changed(&mut self, path: &Arc<str>) {
        self.changed.insert(path.clone());
    }

    /// A file was read and found to be the same.
    pub(super) fn touched(&mut self) {
        self.touched = true;
    }

    /// Whether the stored index is no longer what is known.
    pub(super) fn is_stale(&self) -> bool {
        self.touched || !(self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty())
    }

    pub(super) fn finish(mut self) -> Changes {
        let mut renamed = Vec::new();
        // The same file on the disk, then the same name in another folder, then the same text.
        self.pair(|_, trace| trace.stamp.identity, &mut renamed);
        self.pair(|path, trace| Some((text(trace)?, name_of(path).to_owned())), &mut renamed);
        self.pair(|_, trace| text(trace), &mut renamed);
        renamed.sort();
        let paths = |paths: &mut dyn Iterator<Item = &Arc<str>>| paths.map(ToString::to_string).collect();
        Changes {
            added: paths(&mut self.added.keys()),
            changed: paths(&mut self.changed.iter()),
            removed: paths(&mut self.removed.keys()),
            renamed,
        }
    }

    /// Pairs what went with what came by `key`; of several with the same key, the first with the first.
    fn pair<K: Ord>(&mut self, key: impl Fn(&str, &Trace) -> Option<K>, renamed: &mut Vec<Renamed>) {
        if self.added.is_empty() || self.removed.is_empty() {
            return;
        }
        let mut came: BTreeMap<K, Vec<Arc<str>>> = BTreeMap::new();
        for (path, trace) in self.added.iter().rev() {
            if let Some(key) = key(path, trace) {
                came.entry(key).or_default().push(path.clone());
            }
        }
        let went: Vec<_> =
            self.removed.iter().filter_map(|(path, trace)| Some((path.clone(), *trace, key(path, trace)?))).collect();
        for (from, old, key) in went {
            let Some(to) = came.get_mut(&key).and_then(Vec::pop) else { continue };
            self.removed.remove(&from);
            // Renaming touches a file.
            let content = |trace: &Trace| (trace.size, trace.stamp.modified, trace.stamp.identity);
            if let Some(new) = self.added.remove(&to)
                && (new.hash != old.hash || (new.hash.is_none() && content(&new) != content(&old)))
            {
                self.changed.insert(to.clone());
            }
            renamed.push(Renamed { from: from.to_string(), to: to.to_string() });
        }
    }
}

/// The hash of a text; that of nothing says nothing.
fn text(trace: &Trace) -> Option<Hash> {
    trace.hash.filter(|_| trace.size > 0)
}

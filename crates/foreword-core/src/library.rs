//! The library: all Versions in the prompt of the current epoch, in order of first appearance.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::Include;
use crate::envelope::Form;
use crate::hash::Hash;
use crate::item::ItemId;
use crate::tokens::Tokens;
use crate::version::Version;

/// The location of a Version's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the system message.
    Library,
    /// In a message: of this turn, or, in `log`, of an earlier one.
    Message,
}

/// A Version in the prompt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Standing {
    /// Which.
    pub version: Arc<Version>,
    /// The text as rendered.
    pub block: Arc<str>,
    /// Its size.
    pub tokens: Tokens,
    /// How it came in.
    pub include: Include,
    /// As a text or as a diff.
    pub form: Form,
    /// Where.
    pub place: Place,
    /// Whether it may go to L2.
    pub promotable: bool,
    /// The turn that brought it.
    pub since: usize,
    /// The last turn that asked for it.
    pub last_used: usize,
    /// Whether part of the text was left out.
    pub cut: bool,
    /// Whether the block is the one any fold would make of it.
    pub plain: bool,
    /// Size of the prompt before it: what stays cached if it changes.
    pub at: Tokens,
}

/// All Versions that stand, oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Library {
    entries: Vec<Standing>,
    by_item: BTreeMap<ItemId, Vec<usize>>,
}

impl Library {
    /// Adds a Version.
    pub fn push(&mut self, standing: Standing) {
        self.by_item.entry(standing.version.id.clone()).or_default().push(self.entries.len());
        self.entries.push(standing);
    }

    /// All entries in order.
    pub fn entries(&self) -> &[Standing] {
        &self.entries
    }

    /// The newest Version of an item.
    pub fn newest(&self, id: &ItemId) -> Option<&Standing> {
        self.by_item.get(id)?.last().map(|at| &self.entries[*at])
    }

    /// Which of an item's Versions (from 1, of how many) has this hash.
    pub fn find(&self, id: &ItemId, hash: Hash) -> Option<(usize, usize)> {
        let versions = self.by_item.get(id)?;
        let at = versions.iter().position(|at| self.entries[*at].version.hash == hash)?;
        Some((at + 1, versions.len()))
    }

    /// Marks a Version as asked for.
    pub fn touch(&mut self, id: &ItemId, hash: Hash, turn: usize) {
        for at in self.by_item.get(id).into_iter().flatten() {
            let entry = &mut self.entries[*at];
            if entry.version.hash == hash {
                entry.last_used = turn;
            }
        }
    }

    /// Lets a Version that came in by the search stay, now that somebody asked for it by name.
    pub fn adopt(&mut self, id: &ItemId, hash: Hash, include: Include, promotable: bool) {
        for at in self.by_item.get(id).into_iter().flatten() {
            let entry = &mut self.entries[*at];
            if entry.version.hash == hash {
                (entry.include, entry.promotable) = (include, promotable);
            }
        }
    }

    /// The Version of an item that was asked for last: the current one. Ties go to the newest.
    pub fn current(&self, id: &ItemId) -> Option<&Standing> {
        let versions = self.by_item.get(id)?.iter().map(|at| &self.entries[*at]);
        versions.max_by_key(|entry| entry.last_used)
    }

    /// Whether it holds the item.
    pub fn contains(&self, id: &ItemId) -> bool {
        self.by_item.contains_key(id)
    }

    /// The current Version of every item, in order of the items' first appearance.
    pub fn current_versions(&self) -> Vec<&Standing> {
        let mut firsts: Vec<(usize, &ItemId)> = self.by_item.iter().filter_map(|(id, at)| Some((*at.first()?, id))).collect();
        firsts.sort_unstable();
        firsts.into_iter().filter_map(|(_, id)| self.current(id)).collect()
    }

    /// Leaves out an item.
    pub fn remove(&mut self, id: &ItemId) {
        self.retain(|entry| entry.version.id != *id);
    }

    /// Keeps the entries `keep` says.
    pub fn retain(&mut self, keep: impl Fn(&Standing) -> bool) {
        let entries = std::mem::take(&mut self.entries);
        self.by_item.clear();
        for entry in entries.into_iter().filter(keep) {
            self.push(entry);
        }
    }

    /// Lets everything from before `turn` that may go to L2 stand there; the rest of it leaves.
    pub fn promote(&mut self, turn: usize) {
        self.retain(|entry| entry.promotable || entry.since >= turn);
        for entry in self.entries.iter_mut().filter(|entry| entry.since < turn) {
            entry.place = Place::Library;
        }
    }
}

//! Which file links to which, both ways. Kept up when one note changes; made anew when names change, because then any link may lead
//! elsewhere.

use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// Each list in the order of the paths.
    outgoing: HashMap<Arc<str>, Vec<Arc<str>>>,
    incoming: HashMap<Arc<str>, Vec<Arc<str>>>,
}

impl Graph {
    /// From every note with its targets. Notes come in the order of their paths.
    pub(super) fn new(notes: impl Iterator<Item = (Arc<str>, Vec<Arc<str>>)>) -> Self {
        let mut graph = Self::default();
        for (path, targets) in notes {
            for to in &targets {
                graph.incoming.entry(to.clone()).or_default().push(path.clone());
            }
            graph.outgoing.insert(path, targets);
        }
        graph
    }

    /// The note at `path` now has these targets.
    pub(crate) fn put(&mut self, path: &Arc<str>, targets: Vec<Arc<str>>) {
        let old = self.outgoing.remove(path).unwrap_or_default();
        for to in old.iter().filter(|to| targets.binary_search(to).is_err()) {
            if let Some(from) = self.incoming.get_mut(to) {
                from.retain(|from| from != path);
            }
        }
        for to in &targets {
            let from = self.incoming.entry(to.clone()).or_default();
            if let Err(at) = from.binary_search(path) {
                from.insert(at, path.clone());
            }
        }
        self.outgoing.insert(path.clone(), targets);
    }

    pub(super) fn outgoing(&self, path: &str) -> &[Arc<str>] {
        self.outgoing.get(path).map_or(&[], Vec::as_slice)
    }

    pub(super) fn incoming(&self, path: &str) -> &[Arc<str>] {
        self.incoming.get(path).map_or(&[], Vec::as_slice)
    }
}

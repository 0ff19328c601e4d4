//! What rendering a note asks of the rest of the vault: answers to its queries, and the text of files that are not markdown.

use std::cell::RefCell;

use jiff::Zoned;

use crate::index::Vault;
use crate::note::QueryBlock;
use crate::query::{self, Fingerprint, Limit, PageRef, Pages};
use crate::render::{Answer, Helpers};
use crate::{canvas, pdf};

/// The vault's own helpers, at one moment: query answers are kept as long as they hold.
#[derive(Debug)]
pub struct Own {
    now: Zoned,
    answers: RefCell<query::Cache>,
    vault: Fingerprint,
}

impl Own {
    /// Helpers for `vault` as it is `now`.
    pub fn new(vault: &Vault, now: Zoned) -> Self {
        let vault = Fingerprint::of(vault.notes().map(|listed| (&listed.facts, listed.hash)));
        Self { now, answers: RefCell::default(), vault }
    }
}

impl Helpers for Own {
    fn answer(&self, vault: &Vault, path: &str, query: &QueryBlock) -> Answer {
        let mut answers = self.answers.borrow_mut();
        match answers.answer(&query.text, path, vault, self.vault, &self.now, Limit::default()) {
            Ok(answer) => Answer::Result { text: answer.markdown, read: answer.read },
            Err(unanswered) => Answer::Unanswered(unanswered.to_string()),
        }
    }

    fn pdf(&self, bytes: &[u8]) -> Result<String, String> {
        pdf::text(bytes).map_err(|error| error.to_string())
    }

    fn canvas(&self, json: &str) -> Result<String, String> {
        canvas::text(json).map(|canvas| canvas.text).map_err(|error| error.to_string())
    }
}

impl Pages for Vault {
    fn paths(&self) -> Vec<&str> {
        self.notes().map(|listed| listed.facts.path.as_str()).collect()
    }

    fn page(&self, path: &str) -> Option<PageRef<'_>> {
        self.get(path).map(|listed| PageRef { facts: &listed.facts, note: &listed.note })
    }

    fn resolve(&self, target: &str, from: &str) -> Option<String> {
        Self::resolve(self, target, from).path().map(str::to_owned)
    }

    fn incoming(&self, path: &str) -> Vec<String> {
        Self::incoming(self, path).map(str::to_owned).collect()
    }

    fn outgoing(&self, path: &str) -> Vec<String> {
        Self::outgoing(self, path).map(str::to_owned).collect()
    }
}

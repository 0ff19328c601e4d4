//! What rendering a note asks of the rest of the vault: answers to its queries, and the text of files that are not markdown.

use std::cell::RefCell;

use jiff::Zoned;

use crate::index::Vault;
use crate::render::{Answer, Helpers};
use foreword_dataview::{self as query, Fingerprint, Limit, PageRef, Pages};
use foreword_documents::{canvas, pdf};
use foreword_markdown::note::{QueryBlock, QueryLanguage};

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
        if query.language == QueryLanguage::JavaScript {
            return Answer::Unanswered("a query in JavaScript (dataviewjs) is not supported".to_owned());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataviewjs_block_was_left_without_a_note() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("n.md"), "```dataviewjs\nlet x = 1\n```\nb").unwrap();
        let vault = Vault::open(dir.path(), None).unwrap().vault;
        let rendered = vault.render("n.md", &Own::new(&vault, "2025-09-10T12:00:00+00:00[UTC]".parse().unwrap()));
        let note = "> [query not answered: a query in JavaScript (dataviewjs) is not supported]";
        assert_eq!(rendered.text, format!("```dataviewjs\nlet x = 1\n```\n{note}\nb"));
    }
}

//! Searches the items of a file with queries of another file, so that users can measure the search on their own items.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use foreword_core::item::{ItemId, Kind};
use foreword_search::Embedder;
use foreword_search::chunk::{Source, item_chunks, seed_chunks};
use foreword_search::index::{Document, Index, Strategy};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::vectors::{self, Embedding};
use foreword_trust::places::Places;

/// An item of a catalog file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Row {
    /// Its kind.
    pub kind: RowKind,
    /// Its name, unique among its kind (and server).
    pub name: String,
    /// The server of a tool.
    #[serde(default)]
    pub server: Option<String>,
    /// Its description.
    #[serde(default)]
    pub description: Option<String>,
    /// Its text.
    #[serde(default)]
    pub text: Option<String>,
    /// The JSON schema of a tool's arguments.
    #[serde(default)]
    pub parameters: Value,
}

/// The kinds of items in a catalog file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// A rule.
    Rule,
    /// A reference.
    Reference,
    /// A tool.
    Tool,
    /// A note.
    Note,
}

impl Row {
    /// `tool:server/name`, `rule:name` …
    pub fn id(&self) -> ItemId {
        match (self.kind, self.server.as_deref()) {
            (RowKind::Tool, Some(server)) => ItemId::tool(server, &self.name),
            (RowKind::Tool, None) => ItemId::new(Kind::Tool, &self.name),
            (RowKind::Rule, _) => ItemId::new(Kind::Rule, &self.name),
            (RowKind::Reference, _) => ItemId::new(Kind::Reference, &self.name),
            (RowKind::Note, _) => ItemId::note(&self.name),
        }
    }
}

/// A query of a query file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct QueryRow {
    /// Returned with the answer.
    #[serde(default)]
    pub id: Value,
    /// The query's text.
    pub query: String,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// The file cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is invalid.
    #[error("{file}, line {line}: {what}")]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The error.
        what: String,
    },
}

/// Reads a JSON Lines file; blank lines are skipped.
pub fn read<T: DeserializeOwned>(file: &Path) -> Result<Vec<T>, RowsError> {
    let failed = |source| RowsError::Read { file: file.to_owned(), source };
    let mut rows = Vec::new();
    for (at, line) in BufReader::new(File::open(file).map_err(failed)?).lines().enumerate() {
        let line = line.map_err(failed)?;
        let line = line.strip_prefix('\u{feff}').unwrap_or(&line);
        if line.trim().is_empty() {
            continue;
        }
        let json = &mut serde_json::Deserializer::from_str(line);
        rows.push(serde_path_to_error::deserialize(json).map_err(|error| {
            let at_field = match error.path().to_string() {
                path if path == "." => String::new(),
                path => format!("field `{path}`: "),
            };
            RowsError::Line { file: file.to_owned(), line: at + 1, what: format!("{at_field}{}", error.inner()) }
        })?);
    }
    Ok(rows)
}

/// Two items have the same name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("duplicate item {0} in the catalog; names must be unique per kind (and server)")]
pub struct Twice(ItemId);

/// The items of a catalog file, ready to be searched.
pub struct Catalog {
    index: Index,
}

impl Catalog {
    /// Chunks the items for a search strategy.
    pub fn new(rows: &[Row], strategy: Strategy) -> Result<Self, Twice> {
        let mut index = Index::new();
        let mut seen = BTreeSet::new();
        for row in rows {
            let id = row.id();
            if !seen.insert(id.clone()) {
                return Err(Twice(id));
            }
            let source = Source {
                kind: id.kind(),
                name: &row.name,
                description: row.description.as_deref().unwrap_or_default(),
                text: row.text.as_deref().unwrap_or_default(),
                parameters: Some(&row.parameters).filter(|parameters| !parameters.is_null()),
            };
            let chunks = match strategy {
                Strategy::Semantic => seed_chunks(&source),
                Strategy::Hybrid | Strategy::Keyword => item_chunks(&source),
            };
            index.put(Document { id, date: None, chunks });
        }
        Ok(Self { index })
    }

    /// The search index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Computes embeddings, unless `watch` stops it.
    pub fn embed(
        &mut self,
        places: &Places,
        model: &dyn Embedder,
        watch: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Embedding {
        vectors::embed(&mut self.index, &places.embeddings(), model, watch)
    }
}

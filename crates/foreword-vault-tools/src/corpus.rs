//! The searchable content of a vault: notes, canvases, PDFs and agents' items. Keyword search is available at once, semantic search
//! once embeddings exist.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use foreword_core::catalog::{Agent, CatalogBody};
use foreword_core::hash::Hash;
use foreword_core::item::ItemId;
use foreword_markdown::note::FileFacts;
use foreword_search::Embedder;
use foreword_search::chunk::{Source, item_chunks, note_chunks};
use foreword_search::index::{Document, Index, MAX_EMBEDDED_CHUNKS};
use foreword_vault::agents::{self, Loaded, OnDisk};
use foreword_vault::folder::{OpenError, Problem};
use foreword_vault::index::{Changes, Listed, Vault};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::vectors::{self, Embedding};
use foreword_trust::places::Places;

mod files;
mod kept;

use files::Indexed;
use kept::{CachedNotes, Stored};

/// A vault with its search index.
pub struct Corpus {
    vault: Vault,
    index: Index,
    /// The indexed text of each note.
    texts: BTreeMap<String, Hash>,
    /// The indexed canvases and PDFs.
    files: BTreeMap<String, Indexed>,
    /// The indexed items of agents.
    items: BTreeSet<ItemId>,
    kept: CachedNotes,
    embeddings: PathBuf,
    zone: TimeZone,
    /// Notes that could not be read.
    unread: BTreeMap<String, String>,
    /// Problems in agent files.
    agent_problems: Vec<Problem>,
    not_kept: Vec<String>,
}

/// The size of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Notes.
    pub notes: usize,
    /// Canvases and PDFs.
    pub files: usize,
    /// Rules and references of agents.
    pub items: usize,
    /// All chunks.
    pub chunks: usize,
    /// Chunks with embeddings.
    pub embedded: usize,
}

impl Corpus {
    /// Opens the vault at `root`. Only changed files are read again.
    pub fn open(root: &Path, places: &Places, zone: TimeZone) -> Result<Self, OpenError> {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let folder = places.vault(&root);
        let opened = Vault::open(&root, Some(&folder))?;
        let kept = CachedNotes::new(&folder);
        let Stored { index, texts, files } = kept.load();
        let mut corpus = Self {
            vault: opened.vault,
            index,
            texts,
            files,
            items: BTreeSet::new(),
            kept,
            embeddings: places.embeddings(),
            zone,
            unread: BTreeMap::new(),
            agent_problems: Vec::new(),
            not_kept: Vec::new(),
        };
        let differs = corpus.follow();
        corpus.load_agents();
        if differs {
            corpus.save();
        }
        Ok(corpus)
    }

    /// Checks all files for changes.
    pub fn refresh(&mut self) -> Changes {
        let changes = self.vault.refresh();
        self.after(changes)
    }

    /// Checks the given files for changes.
    pub fn refresh_paths(&mut self, paths: &[String]) -> Changes {
        let changes = self.vault.refresh_paths(paths);
        self.after(changes)
    }

    fn after(&mut self, changes: Changes) -> Changes {
        if self.follow() {
            self.load_agents();
        }
        changes
    }

    /// Saves the index for the next time. A failure only costs time and is reported.
    pub fn save(&mut self) {
        let index = self.kept.save(&self.index, &self.texts, &self.files).err();
        let vault = self.vault.save().err().map(|error| error.to_string());
        self.not_kept = [index, vault].into_iter().flatten().collect();
    }

    /// The vault.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// The search index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Files that could not be read completely.
    pub fn problems(&self) -> Vec<Problem> {
        let of_files = self.files.iter().filter_map(|(path, indexed)| Some((path, indexed.fault.as_ref()?)));
        let unread = self.unread.iter().chain(of_files).map(|(path, what)| Problem::new(path, what));
        let long = self.index.long().iter().map(|(id, chunks)| {
            let what = format!(
                "too long to be embedded completely: only the first {MAX_EMBEDDED_CHUNKS} of {chunks} chunks have embeddings; keyword search \
                 finds all of it. Split it into several notes"
            );
            Problem::new(id.name(), what)
        });
        self.vault.problems().into_iter().chain(unread).chain(long).chain(self.agent_problems.iter().cloned()).collect()
    }

    /// Why parts of the index could not be saved.
    pub fn not_kept(&self) -> &[String] {
        &self.not_kept
    }

    /// The size of the index.
    pub fn extent(&self) -> Extent {
        let (chunks, embedded) = self.index.chunks();
        Extent { notes: self.texts.len(), files: self.files.len(), items: self.items.len(), chunks, embedded }
    }

    /// Computes embeddings: first from the cache, then with the model, until done or `watch` stops it. `watch` receives the number
    /// of finished chunks and of all chunks.
    pub fn embed(&mut self, model: &dyn Embedder, watch: &mut dyn FnMut(usize, usize) -> ControlFlow<()>) -> Embedding {
        vectors::embed(&mut self.index, &self.embeddings, model, watch)
    }

    /// Updates the index from the vault. Returns whether anything changed. Embeddings are cached by text, so renamed notes need no
    /// care here.
    fn follow(&mut self) -> bool {
        let mut differs = false;
        self.unread.retain(|path, _| self.vault.get(path).is_some());
        let gone: Vec<String> = self.texts.keys().filter(|path| self.vault.get(path).is_none()).cloned().collect();
        for path in gone {
            self.index.remove(&ItemId::note(&path));
            self.texts.remove(&path);
            differs = true;
        }
        let gone: Vec<String> = self.files.keys().filter(|path| self.vault.file(path).is_none()).cloned().collect();
        for path in gone {
            self.index.remove(&ItemId::note(&path));
            self.files.remove(&path);
            differs = true;
        }
        let stale =
            |listed: &&Listed| is_searched(&listed.facts.path) && self.texts.get(&listed.facts.path) != Some(&listed.hash);
        let stale: Vec<String> = self.vault.notes().filter(stale).map(|listed| listed.facts.path.clone()).collect();
        for path in stale {
            match self.document(&path) {
                Ok((document, hash)) => {
                    self.index.put(document);
                    self.unread.remove(&path);
                    self.texts.insert(path, hash);
                    differs = true;
                }
                Err(what) => drop(self.unread.insert(path, what)),
            }
        }
        differs
    }

    fn document(&self, path: &str) -> Result<(Document, Hash), String> {
        let listed = self.vault.get(path).ok_or("the file was deleted")?;
        let text = self.vault.read(path).map_err(|error| error.to_string())?.text;
        let title = listed.given_title().unwrap_or(&listed.title);
        let document = Document { id: ItemId::note(path), date: date_of(listed, &self.zone), chunks: note_chunks(title, &text) };
        Ok((document, listed.hash))
    }

    /// Reads the items of all agents, each time, because there are few.
    fn load_agents(&mut self) {
        let Ok(files) = OnDisk::new(self.vault.root()) else { return };
        let mut items = BTreeSet::new();
        self.agent_problems.clear();
        let mut all: Vec<(String, Loaded)> =
            agents::list(&files).into_iter().map(|found| (found.path.clone(), agents::load(&files, &found))).collect();
        // What other programs left for their agents stands last, so that the vault's own agents win.
        let mut imported = Loaded::default();
        imported.join(agents::import(&files, self.vault.notes().map(|listed| listed.facts.path.as_str())));
        all.push((String::new(), imported));
        for (path, loaded) in all {
            self.agent_problems.extend(loaded.problems.into_iter().map(|problem| Problem::new(problem.file, problem.what)));
            for document in agent_documents(&loaded.agent) {
                if items.insert(document.id.clone()) {
                    self.index.put(document);
                } else {
                    let what = format!("another agent also has {}; only the first is searched", document.id);
                    self.agent_problems.push(Problem::new(path.clone(), what));
                }
            }
        }
        for gone in self.items.difference(&items) {
            self.index.remove(gone);
        }
        self.items = items;
    }
}

/// Agent files are indexed as items, not as notes.
fn is_searched(path: &str) -> bool {
    let named = |name: &str| path.strip_suffix(name).is_some_and(|folder| folder.is_empty() || folder.ends_with('/'));
    let in_agents = path.strip_prefix(agents::FOLDER).is_some_and(|rest| rest.starts_with('/'));
    // What was said about the notes is no note; `foreword sessions search` finds it.
    let in_chats = path.strip_prefix(crate::chats::FOLDER).is_some_and(|rest| rest.starts_with('/'));
    !in_agents && !in_chats && !named("AGENTS.md") && !named("SKILL.md")
}

/// The items of an agent as search documents.
pub fn agent_documents(agent: &Agent) -> Vec<Document> {
    let items = agent.items().into_iter().map(|item| {
        let source = match item.body {
            CatalogBody::Rule(entry) | CatalogBody::Reference(entry) => Source {
                kind: item.id.kind(),
                name: &entry.name,
                description: entry.description.as_deref().unwrap_or_default(),
                text: &entry.text,
                parameters: None,
            },
            CatalogBody::Tool(tool) => Source {
                kind: item.id.kind(),
                name: &tool.name,
                description: tool.description.as_deref().unwrap_or_default(),
                text: "",
                parameters: Some(&tool.schema),
            },
        };
        Document { id: item.id.clone(), date: None, chunks: item_chunks(&source) }
    });
    items.collect()
}

/// The date of a note: from its frontmatter, its name (a daily note), or its modification time.
fn date_of(listed: &Listed, zone: &TimeZone) -> Option<Date> {
    let fields = ["date", "created", "day"].into_iter().filter_map(|key| listed.note.frontmatter.get(key));
    let said = fields.filter_map(serde_json::Value::as_str).find_map(leading_date);
    said.or_else(|| file_date(&listed.title, &listed.facts, zone))
}

/// The date in a file's name, or of its last modification.
fn file_date(name: &str, facts: &FileFacts, zone: &TimeZone) -> Option<Date> {
    leading_date(name).or_else(|| {
        let changed = Timestamp::from_millisecond(facts.modified).ok()?;
        Some(changed.to_zoned(zone.clone()).date())
    })
}

fn leading_date(text: &str) -> Option<Date> {
    text.trim_start().get(..10).and_then(|day| day.parse().ok())
}

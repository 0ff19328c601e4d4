//! The tool `recall`: lets the model search and read messages that a fold removed from the prompt.

mod past;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use foreword_core::catalog::{Include, Permission, Tool};
use foreword_core::history::MessageId;
use foreword_core::item::{ItemId, Kind};
use foreword_core::message::Role;
use foreword_search::Embedder;
use foreword_search::chunk::{Source, item_chunks};
use foreword_search::index::{Document, Index, Query, Strategy};
use foreword_store::Sqlite;
use foreword_tools::{Builtin, OWN_SERVER, Output};
use serde::Deserialize;
use serde_json::{Value, json};

pub use past::{OpenStore, Past, Remark, StoredPast};

use foreword_vault_tools::VaultTools;
use foreword_vault_tools::embedding::EmbeddingModel;
use foreword_vault_tools::vectors;

/// The default and largest number of results.
const LIMIT: usize = 10;
const MOST_RESULTS: usize = 15;
/// The size of an excerpt in characters.
const EXCERPT_CHARS: usize = 400;
/// The size of a page of a message, below the limit for tool outputs.
const PAGE_CHARS: usize = 6_000;
/// The searched part of a tool output, from its start and its end.
const OUTPUT_BYTES: usize = 256 << 10;
/// The searched size of all outputs; the oldest are dropped first.
const MOST_OUTPUT_BYTES: usize = 32 << 20;

/// The `recall` tool of a session.
pub struct Recall {
    past: Box<dyn Past>,
    said: Index,
    /// Tool outputs, searched by keyword only.
    outputs: Index,
    kept_outputs: VecDeque<(MessageId, usize)>,
    output_bytes: usize,
    remarks: BTreeMap<MessageId, Remark>,
    meaning: Option<(Arc<EmbeddingModel>, PathBuf)>,
}

/// A search result.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled {
    /// The message.
    pub id: MessageId,
    /// The matching excerpt.
    pub excerpt: String,
    /// The score.
    pub score: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    query: Option<String>,
    id: Option<String>,
    limit: Option<usize>,
    offset: Option<usize>,
}

impl Recall {
    /// Creates the tool for a past. With an embedding model and a cache folder it also searches by meaning.
    pub fn new(past: Box<dyn Past>, meaning: Option<(Arc<EmbeddingModel>, PathBuf)>) -> Self {
        Self {
            past,
            said: Index::new(),
            outputs: Index::new(),
            kept_outputs: VecDeque::new(),
            output_bytes: 0,
            remarks: BTreeMap::new(),
            meaning,
        }
    }

    /// Creates the tool for a session in a store.
    pub fn of_session(desk: &VaultTools, store: PathBuf, session: &str) -> Self {
        let past = StoredPast::new(Box::new(move || Ok(Box::new(Sqlite::open_existing(&store)?))), session);
        Self::new(Box::new(past), Some((desk.meaning_shared(), desk.places().embeddings())))
    }

    /// Indexes new messages.
    fn catch_up(&mut self) -> Result<(), String> {
        for mut remark in self.past.news()? {
            let id = remark.id;
            let document = |text: &str| {
                let name = id.to_string();
                let source = Source { kind: Kind::Note, name: &name, description: "", text, parameters: None };
                Document { id: ItemId::note(&name), date: None, chunks: item_chunks(&source) }
            };
            if remark.role == Role::Tool {
                let searched = ends(&remark.text, OUTPUT_BYTES);
                self.outputs.put(document(&searched));
                self.kept_outputs.push_back((id, searched.len()));
                self.output_bytes += searched.len();
                remark.text = String::new();
            } else {
                self.said.put(document(&format!("{}: {}", remark.who(), remark.text)));
            }
            self.remarks.insert(id, remark);
        }
        while self.output_bytes > MOST_OUTPUT_BYTES
            && let Some((id, bytes)) = self.kept_outputs.pop_front()
        {
            self.outputs.remove(&ItemId::note(&id.to_string()));
            self.output_bytes -= bytes;
        }
        Ok(())
    }

    /// Finds messages: exact matches first, then by keyword and meaning.
    pub fn search(&mut self, question: &str, limit: usize) -> Result<Vec<Recalled>, String> {
        self.catch_up()?;
        let meaning = self.meaning.clone();
        let model: Option<&dyn Embedder> = meaning.as_ref().and_then(|(meaning, folder)| {
            let model = meaning.load(&mut |_| ControlFlow::Continue(())).ok()?;
            vectors::embed(&mut self.said, folder, model, &mut |_, _| ControlFlow::Continue(()));
            Some(model)
        });
        let query = |strategy, embedder| Query {
            embedder,
            strategy,
            top_n: limit,
            top_k: limit.saturating_mul(4),
            floor: Some(0.0),
            include_score: f64::INFINITY,
            ..Query::new(question)
        };
        let mut found: Vec<Recalled> = self.verbatim(question, limit);
        let hits = self.said.search(&query(Strategy::Hybrid, model)).hits.into_iter();
        let outputs = self.outputs.search(&query(Strategy::Keyword, None)).hits.into_iter();
        let mut hits: Vec<Recalled> = hits
            .chain(outputs)
            .filter_map(|hit| {
                Some(Recalled { id: hit.id.name().parse().ok()?, excerpt: around(&hit.chunk.text, question), score: hit.score })
            })
            .collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.id.cmp(&a.id)));
        for hit in hits {
            if !found.iter().any(|known| known.id == hit.id) {
                found.push(hit);
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Messages with an exact match, the newest first, for at most half of the results.
    fn verbatim(&self, question: &str, limit: usize) -> Vec<Recalled> {
        let words = question.trim();
        if words.chars().count() < 3 {
            return Vec::new();
        }
        let having = self.remarks.values().rev().filter(|remark| remark.text.contains(words));
        let recalled = having.map(|remark| Recalled { id: remark.id, excerpt: around(&remark.text, words), score: 1.0 });
        recalled.take(limit.div_ceil(2)).collect()
    }

    fn answer(&mut self, arguments: &Value) -> Result<String, String> {
        let wrong =
            |error: serde_json::Error| format!("{error}. Give {{\"query\": \"…\"}} to search or {{\"id\": \"m12\"}} to read.");
        let Arguments { query, id, limit, offset } = Arguments::deserialize(arguments).map_err(wrong)?;
        match (query, id) {
            (_, Some(id)) => self.read(&id, offset.unwrap_or(0)),
            (Some(query), None) if !query.trim().is_empty() => self.list(&query, limit.unwrap_or(LIMIT).clamp(1, MOST_RESULTS)),
            _ => Err("give a query to search the session for, or the id of a message to read".to_owned()),
        }
    }

    fn list(&mut self, query: &str, limit: usize) -> Result<String, String> {
        let found = self.search(query, limit)?;
        if found.is_empty() {
            return Ok("Nothing that was said in this session fits. Try other words.".to_owned());
        }
        let mut out = format!("{} of {} messages of this session:\n", found.len(), self.remarks.len());
        for Recalled { id, excerpt, .. } in &found {
            let who = self.remarks.get(id).map_or("", Remark::who);
            let run = self.remarks.get(id).map_or(0, |remark| remark.run + 1);
            let _ = write!(out, "\n[{id}] {who}, turn {run}\n{excerpt}\n");
        }
        out.push_str("\nRead one whole with recall({\"id\": \"…\"}).");
        Ok(out)
    }

    fn read(&mut self, id: &str, offset: usize) -> Result<String, String> {
        self.catch_up()?;
        let id: MessageId = id.trim().trim_matches(['[', ']']).parse().map_err(|error| format!("{error}"))?;
        let remark = self
            .remarks
            .get(&id)
            .ok_or_else(|| format!("there is no message {id} in this session: search for it with a query"))?;
        let head = format!("[{id}] {}, turn {}", remark.who(), remark.run + 1);
        let text = if remark.role == Role::Tool { self.past.read(id)?.unwrap_or_default() } else { remark.text.clone() };
        let total = text.chars().count();
        let page: String = text.chars().skip(offset).take(PAGE_CHARS).collect();
        let end = offset.min(total) + page.chars().count();
        let mut out = format!("{head}, characters {} to {end} of {total}\n{page}\n", offset.min(total));
        if end < total {
            let _ = write!(out, "\nGo on with recall({{\"id\": \"{id}\", \"offset\": {end}}}).\n");
        }
        let before = self.remarks.range(..id).next_back().map(|(id, _)| format!("before: [{id}]"));
        let behind = self.remarks.range(id..).nth(1).map(|(id, _)| format!("next: [{id}]"));
        out.extend(before.into_iter().chain(behind).map(|near| format!("{near} ")));
        Ok(out.trim_end().to_owned())
    }
}

impl Builtin for Recall {
    fn tool(&self) -> Tool {
        Tool {
            server: OWN_SERVER.to_owned(),
            name: past::NAME.to_owned(),
            description: Some(
                "Search what was said earlier in this conversation, or read a message of it again. Older messages may no longer stand in \
                 the prompt; a summary names them by ids like [m12]. Use it before asking the user again and before doing work again, and \
                 whenever exact words, numbers or paths from earlier matter."
                    .to_owned(),
            ),
            schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What to look for: words, a name, a path, or a question."},
                    "id": {"type": "string", "description": "A message to read, for example m12."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_RESULTS, "description": "How many results; 10 where it is left out."},
                    "offset": {"type": "integer", "minimum": 0, "description": "Where to go on in a long message, in characters."}
                },
                "additionalProperties": false
            }),
            include: Some(Include::Always),
            permission: Some(Permission::NotRequired),
            read_only: true,
        }
    }

    fn run(&mut self, arguments: &Value) -> Output {
        match self.answer(arguments) {
            Ok(text) => Output::done(text),
            Err(why) => Output::failed(why),
        }
    }
}

/// The start and the end of a long text.
fn ends(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let start = &text[..text.floor_char_boundary(bytes / 2)];
    let end = &text[text.ceil_char_boundary(text.len() - bytes / 2)..];
    format!("{start}\n\n{end}")
}

/// The text around the first match, or its start.
fn around(text: &str, words: &str) -> String {
    let at = text.find(words.trim()).unwrap_or(0);
    let from = text.floor_char_boundary(at.saturating_sub(EXCERPT_CHARS / 2));
    let excerpt: String = text[from..].chars().take(EXCERPT_CHARS).collect();
    let more = from + excerpt.len() < text.len();
    format!("{}{}{}", if from > 0 { "…" } else { "" }, excerpt.trim(), if more { "…" } else { "" })
}

#[cfg(test)]
mod tests;

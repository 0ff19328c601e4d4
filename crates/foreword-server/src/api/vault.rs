//! Notes: the folder tree, reading, searching and completing names.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use foreword_engine::search::Kind;
use foreword_engine::vault::{Show, Tree, Vault};
use foreword_vault_tools::find::{NOTES, Query, SOURCE_BYTES, Select};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Answer;
use super::given::Asked;
use crate::app::{App, blocking};
use crate::problem::{BAD_REQUEST, NOT_FOUND, Problem};

/// A part of the vault.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TreeQuery {
    /// A folder. Default: the whole vault.
    #[serde(default)]
    under: String,
}

/// Returns the folders and notes of the vault.
#[utoipa::path(get, path = "/vault/tree", tag = "vault", params(TreeQuery), responses((status = 200, body = Object), (status = 404, body = Problem)))]
pub(crate) async fn tree(State(app): State<Arc<App>>, Asked(query): Asked<TreeQuery>) -> Answer<Tree> {
    let common = Arc::clone(&app.common);
    let tree = blocking(move || {
        let found = common.vault().tree(&query.under, 32, Show::Files);
        found.ok_or_else(|| Problem::new(NOT_FOUND, format!("no folder {:?} with notes in this vault", query.under)))
    });
    tree.await.map(Json)
}

/// A note.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NoteQuery {
    /// Its path in the vault, or its name as in a link: `Garden/Beds.md`, `Beds`, `Beds#Sizes|the beds`.
    path: String,
}

/// A note.
#[derive(Serialize, ToSchema)]
pub(crate) struct NoteView {
    /// Its path in the vault.
    path: String,
    /// Its text.
    text: String,
}

/// Returns the text of a note of the vault.
#[utoipa::path(get, path = "/vault/note", tag = "vault", params(NoteQuery), responses((status = 200, body = NoteView), (status = 404, body = Problem)))]
pub(crate) async fn note(State(app): State<Arc<App>>, Asked(query): Asked<NoteQuery>) -> Answer<NoteView> {
    let common = Arc::clone(&app.common);
    let note = blocking(move || {
        let vault = common.vault();
        let Some(path) = meant(&vault, &query.path) else {
            return Err(Problem::new(NOT_FOUND, format!("note {:?} not found in this vault", query.path)));
        };
        let (text, _) = vault.read_note(&path).map_err(|error| Problem::new(NOT_FOUND, error))?;
        Ok(NoteView { path, text })
    });
    note.await.map(Json)
}

/// The path of a note: an exact match, or the target of a link with this name.
fn meant(vault: &Vault, name: &str) -> Option<String> {
    if let Some(listed) = vault.get(name) {
        return Some(listed.facts.path.clone());
    }
    let target = name.split(['#', '|']).next().unwrap_or_default().trim();
    if target.is_empty() {
        return None;
    }
    let listed = vault.resolve(target, "").path().and_then(|path| vault.get(path))?;
    Some(listed.facts.path.clone())
}

/// A search.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FindQuery {
    /// A question or keywords. A time (`last week`) limits the search.
    q: String,
    /// The largest number of results.
    #[param(maximum = 20)]
    limit: Option<usize>,
    /// Only these kinds, separated by commas: `note`, `rule`, `reference`.
    kinds: Option<String>,
}

/// A search result.
#[derive(Serialize, ToSchema)]
pub(crate) struct SourceView {
    /// What it is called.
    title: String,
    /// The path in the vault; for items without a file, their ID.
    path: String,
    /// The headings above the passage.
    heading: String,
    /// The passage.
    text: String,
    /// The relevance, from 0 to 1.
    score: f64,
}

/// The search results.
#[derive(Serialize, ToSchema)]
pub(crate) struct FoundView {
    /// The results, the best first.
    results: Vec<SourceView>,
    /// Remarks about the search.
    remarks: Vec<String>,
}

/// The longest query in bytes.
const MOST_QUESTION: usize = 4 << 10;

/// Searches the vault by keyword, and by meaning if the embedding model is available.
#[utoipa::path(get, path = "/vault/search", tag = "vault", params(FindQuery), responses((status = 200, body = FoundView), (status = 400, body = Problem)))]
pub(crate) async fn search(State(app): State<Arc<App>>, Asked(query): Asked<FindQuery>) -> Answer<FoundView> {
    if query.q.trim().is_empty() || query.q.len() > MOST_QUESTION {
        return Err(Problem::new(BAD_REQUEST, format!("a query must have 1 to {MOST_QUESTION} bytes")));
    }
    let kinds = query.kinds.as_deref().unwrap_or("note").split(',').map(|kind| match kind.trim() {
        "note" => Ok(Kind::Note),
        "rule" => Ok(Kind::Rule),
        "reference" => Ok(Kind::Reference),
        other => Err(Problem::new(BAD_REQUEST, format!("cannot search {other:?}: expected note, rule or reference"))),
    });
    let kinds: Vec<Kind> = kinds.collect::<Result<_, _>>()?;
    let common = Arc::clone(&app.common);
    let found = blocking(move || {
        let notes = common.notes()?;
        let found = notes.find(&Query {
            text: &query.q,
            period: None,
            today: notes.now().date(),
            select: Select { top_n: query.limit.unwrap_or(NOTES.top_n), ..NOTES },
            kinds: &kinds,
            source_bytes: SOURCE_BYTES,
        });
        let results = found.sources.into_iter().map(|source| SourceView {
            title: source.title,
            path: source.path,
            heading: source.heading,
            text: source.text,
            score: source.score,
        });
        Ok(FoundView { results: results.collect(), remarks: found.remarks })
    });
    found.await.map(Json)
}

/// A name to complete.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CompleteQuery {
    /// A part of a name.
    #[serde(default)]
    q: String,
    /// The largest number of results.
    limit: Option<usize>,
    /// Only these kinds, separated by commas: `note`, `tag`, `folder`. Default: all.
    kinds: Option<String>,
}

/// The kinds that can be attached by name.
const ATTACHED: [&str; 3] = ["note", "tag", "folder"];

/// Something that can be attached.
#[derive(Serialize, ToSchema)]
pub(crate) struct Completion {
    /// `note`, `tag` or `folder`.
    kind: &'static str,
    /// The label for the user.
    label: String,
    /// The attachment.
    attach: String,
    /// The number of notes.
    notes: usize,
}

/// Completes names of notes, tags and folders, the best matches first. Letters of the name in the right order are sufficient.
#[utoipa::path(get, path = "/vault/complete", tag = "vault", params(CompleteQuery), responses((status = 200, body = [Completion]), (status = 400, body = Problem)))]
pub(crate) async fn complete(State(app): State<Arc<App>>, Asked(query): Asked<CompleteQuery>) -> Answer<Vec<Completion>> {
    let wanted: Vec<String> = match &query.kinds {
        None => ATTACHED.map(str::to_owned).to_vec(),
        Some(kinds) => kinds.split(',').map(|kind| kind.trim().to_owned()).collect(),
    };
    if let Some(other) = wanted.iter().find(|kind| !ATTACHED.contains(&kind.as_str())) {
        return Err(Problem::new(BAD_REQUEST, format!("cannot complete {other:?}: expected note, tag or folder")));
    }
    let common = Arc::clone(&app.common);
    let found = blocking(move || {
        let vault = common.vault();
        let (mut tags, mut folders) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
        let mut all = Vec::new();
        for listed in vault.notes() {
            let path = &listed.facts.path;
            for tag in &listed.note.tags {
                *tags.entry(format!("#{tag}")).or_default() += 1;
            }
            let mut above = path.as_str();
            while let Some((folder, _)) = above.rsplit_once('/') {
                *folders.entry(format!("{folder}/")).or_default() += 1;
                above = folder;
            }
            let label = path.strip_suffix(".md").unwrap_or(path).to_owned();
            all.push(Completion { kind: "note", label, attach: path.clone(), notes: 1 });
        }
        let named = |kind| move |(name, notes): (String, usize)| Completion { kind, label: name.clone(), attach: name, notes };
        all.extend(tags.into_iter().map(named("tag")));
        all.extend(folders.into_iter().map(named("folder")));
        // Before the cut: in a large vault the notes alone would fill the list.
        all.retain(|found| wanted.iter().any(|kind| kind == found.kind));
        Ok(fitting(all, &query.q, query.limit.unwrap_or(20).min(200)))
    });
    found.await.map(Json)
}

/// The matching names, the best first: exact matches, then names that begin with the text, contain a word that does, contain it
/// anywhere, or contain its letters in order and close together. Of equal matches, shorter names come first.
fn fitting(all: Vec<Completion>, begun: &str, limit: usize) -> Vec<Completion> {
    let begun = begun.to_lowercase();
    let rank = |completion: &Completion| {
        let label = completion.label.to_lowercase();
        // Agents and chats are notes too, and rarely what is meant.
        let own = label.starts_with("foreword/");
        let length = if begun.is_empty() { 0 } else { label.chars().count() };
        fit(&label, &begun).map(|fit| (own, fit, length))
    };
    let mut ranked: Vec<((bool, Fit, usize), Completion)> =
        all.into_iter().filter_map(|found| Some((rank(&found)?, found))).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(limit).map(|(_, found)| found).collect()
}

/// How a name fits what was begun, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Exact,
    Begins,
    BeginsPath,
    BeginsWord,
    Holds,
    Letters,
}

/// Both in lower case.
fn fit(label: &str, begun: &str) -> Option<Fit> {
    let whole = label.trim_end_matches('/');
    let last = whole.rsplit('/').next().unwrap_or_default();
    let last = last.strip_prefix('#').filter(|_| !begun.starts_with('#')).unwrap_or(last);
    let folder = begun.strip_suffix('/').filter(|_| label.ends_with('/')).unwrap_or(begun);
    let begins_word = || label.split(|c: char| !c.is_alphanumeric()).any(|word| word.starts_with(begun));
    Some(match () {
        () if last == folder || whole == folder => Fit::Exact,
        () if last.starts_with(begun) => Fit::Begins,
        () if label.starts_with(begun) => Fit::BeginsPath,
        () if begins_word() => Fit::BeginsWord,
        () if label.contains(begun) => Fit::Holds,
        () if has_letters(label, begun) => Fit::Letters,
        () => return None,
    })
}

/// Fewer letters than this are somewhere in every name.
const LEAST_LETTERS: usize = 3;

/// Whether a name has these letters in this order, with no more others between them than there are letters.
fn has_letters(label: &str, begun: &str) -> bool {
    let wanted: Vec<char> = begun.chars().collect();
    let letters: Vec<char> = label.chars().collect();
    let Some(first) = wanted.first().filter(|_| wanted.len() >= LEAST_LETTERS) else { return false };
    let starts = letters.iter().enumerate().filter(|(_, letter)| *letter == first).map(|(at, _)| at);
    let most = 2 * wanted.len();
    starts.into_iter().any(|start| {
        let mut rest = letters[start..].iter().take(most);
        wanted.iter().all(|letter| rest.any(|other| other == letter))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_best_comes_first() {
        let all = [
            "Note 1500",
            "Note 150",
            "Notes/Note 15",
            "Area 3/Note 2",
            "Area 3/",
            "Area 30/",
            "My Area 3 plan",
            "Garden/Beds",
            "#garden",
            "Foreword/Note 15",
        ];
        let check = |begun: &str, expect: &[&str]| {
            let all = all.map(|label| Completion { kind: "note", label: label.to_owned(), attach: label.to_owned(), notes: 1 });
            let found: Vec<String> = fitting(all.into(), begun, 4).into_iter().map(|found| found.label).collect();
            assert_eq!(found, expect, "{begun:?}");
        };
        check("note 15", &["Notes/Note 15", "Note 150", "Note 1500", "Foreword/Note 15"]);
        check("Area 3", &["Area 3/", "Area 30/", "Area 3/Note 2", "My Area 3 plan"]);
        check("area 3/", &["Area 3/", "Area 3/Note 2", "Area 30/"]);
        check("bed", &["Garden/Beds"]);
        check("gard", &["#garden", "Garden/Beds"]);
        check("#gard", &["#garden"]);
        check("plan", &["My Area 3 plan"]);
        check("grdn", &["#garden", "Garden/Beds"]);
        check("gbeds", &[]);
        check("", &["Note 1500", "Note 150", "Notes/Note 15", "Area 3/Note 2"]);
        check("xyz", &[]);
    }
}

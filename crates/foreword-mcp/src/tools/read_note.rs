//! `read_note`: a note in pages, as a model reads it or as it stands in its file.

use foreword_engine::session::{Hash, Version};
use foreword_engine::vault::{FileKind, Vault};
use foreword_vault_tools::one_note;
use foreword_vault_tools::pages::Page;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Definition, Effect, MOST_BYTES, nullable, one_line, read};
use crate::notes::Notes;

pub(super) const DEFINITION: Definition = Definition {
    name: "read_note",
    title: "Read a note",
    description: "Read a note of the user's vault, a canvas or a PDF, in pages. Embedded notes are included and queries are answered; with \
                  `raw` it is the text of the file, with the hash that write_note asks for. Also returns the note's tags, its links and the \
                  notes that link to it.",
    arguments,
    required: &["path"],
    answer,
    effect: Effect::Reads,
    run,
};

/// The largest number of links in an answer.
const MOST_LINKS: usize = 100;

/// The largest number of links that are spelled out for a model.
const MOST_SHOWN: usize = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    heading: Option<String>,
    from_line: Option<usize>,
    lines: Option<usize>,
    raw: Option<bool>,
}

fn arguments() -> Value {
    json!({
        "path": {"type": "string", "description": "The path of the note (`Kitchen/Bread.md`), its name (`Bread`) or a link (`[[Bread#Timing]]`)."},
        "heading": {"type": "string", "description": "Only the section under this heading; `Part > Chapter` for a nested one."},
        "from_line": {"type": "integer", "minimum": 1, "description": "The first line to read; 1 by default."},
        "lines": {"type": "integer", "minimum": 1, "description": "How many lines at most; by default as many as fit."},
        "raw": {"type": "boolean", "description": "The file as it is, without embeds and query results."},
    })
}

fn answer() -> Value {
    let paths = |description: &str| json!({"type": "array", "items": {"type": "string"}, "description": description});
    json!({
        "path": {"type": "string"},
        "text": {"type": "string"},
        "first_line": {"type": "integer"},
        "last_line": {"type": "integer"},
        "all_lines": {"type": "integer"},
        "next_line": nullable("integer", "The from_line of the next page."),
        "hash": nullable("string", "The hash of the file's text, for write_note; only of notes."),
        "tags": paths("The note's tags."),
        "headings": paths("The note's headings."),
        "links": paths("Files that the note links to."),
        "backlinks": paths("Notes that link to it."),
        "remarks": paths("What could not be shown."),
    })
}

fn run(notes: &Notes, arguments: JsonObject) -> Result<Answer, String> {
    let Arguments { path, heading, from_line, lines, raw } = read(arguments)?;
    let heading = heading.as_deref().map(str::trim).filter(|heading| !heading.is_empty());
    let corpus = notes.corpus()?;
    let vault = corpus.vault();
    let (path, content, mut remarks) = if raw.unwrap_or_default() {
        if heading.is_some() {
            return Err("`raw` shows lines of the file, not sections; give from_line and lines instead of a heading".to_owned());
        }
        let path = resolved(vault, &path)?;
        let text = vault.read(&path).map_err(|error| error.to_string())?;
        (path, text.text, text.fault.into_iter().map(str::to_owned).collect::<Vec<String>>())
    } else {
        let found = one_note(vault, &path, heading, &Notes::now()).map_err(|error| {
            format!("cannot read {:?}: {error}; find paths with list_notes and search_notes", one_line(&path))
        })?;
        let remarks: Vec<String> = found.problems.iter().map(|problem| one_line(&problem.to_string())).collect();
        let Some(Version { id, content, .. }) = found.versions.first() else {
            return Err(format!("nothing was read: {}", remarks.join("; ")));
        };
        if FileKind::of(id.name()) == FileKind::Image {
            return Err(format!("{:?} is an image, which has no text", one_line(id.name())));
        }
        // The item of a section is named after the section.
        let path = vault.resolve(id.name().split('#').next().unwrap_or_default(), "").path().unwrap_or(id.name()).to_owned();
        (path, content.to_string(), remarks)
    };
    remarks.truncate(MOST_SHOWN);
    let page = Page::of(&content, from_line.unwrap_or(1), lines.unwrap_or(usize::MAX).max(1), MOST_BYTES);
    let page = page.map_err(|error| error.replace("fromLine", "from_line"))?;
    let listed = vault.get(&path);
    let hash = listed.and_then(|_| Some(Hash::of(vault.read(&path).ok()?.text).to_string()));
    let tags: Vec<&String> = listed.map(|listed| listed.note.tags.iter().take(MOST_LINKS).collect()).unwrap_or_default();
    let headings: Vec<&String> = listed
        .map(|listed| listed.note.headings.iter().map(|heading| &heading.text).take(MOST_LINKS).collect())
        .unwrap_or_default();
    let links: Vec<&str> = vault.outgoing(&path).take(MOST_LINKS).collect();
    let backlinks: Vec<&str> = vault.incoming(&path).take(MOST_LINKS).collect();

    let mut text = format!("{}, {}\n", one_line(&path), page.place().replace("fromLine", "from_line"));
    let mut line = |name: &str, what: Vec<String>| {
        if !what.is_empty() {
            text.extend([name, ": ", &what.join(", "), "\n"]);
        }
    };
    line("links to", links.iter().take(MOST_SHOWN).map(|path| one_line(path)).collect());
    line("linked from", backlinks.iter().take(MOST_SHOWN).map(|path| one_line(path)).collect());
    line("remarks", remarks.clone());
    if raw.unwrap_or_default() {
        line("hash", hash.iter().cloned().collect());
    }
    text.push('\n');
    text.push_str(&page.text);
    let next = (page.last < page.all).then_some(page.last + 1);
    let structured = json!({
        "path": path, "text": page.text, "first_line": page.first, "last_line": page.last, "all_lines": page.all, "next_line": next,
        "hash": hash, "tags": tags, "headings": headings, "links": links, "backlinks": backlinks, "remarks": remarks,
    });
    Ok(Answer { text, structured })
}

/// The path of the note that a name leads to.
fn resolved(vault: &Vault, name: &str) -> Result<String, String> {
    let name = name.trim().trim_start_matches("[[").trim_end_matches("]]");
    let target = name.split(['#', '|']).next().unwrap_or_default();
    let path = vault.get(name).map(|listed| listed.facts.path.as_str()).or_else(|| vault.resolve(target, "").path());
    match path {
        Some(path) if vault.get(path).is_some() => Ok(path.to_owned()),
        Some(path) => Err(format!("{:?} is not a note, so it has no raw text", one_line(path))),
        None => Err(format!("note {:?} not found in the vault; find paths with list_notes and search_notes", one_line(name))),
    }
}

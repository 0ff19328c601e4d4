//! Projects: notes in `Foreword/Projects` with instructions, whose `context` lists material. Both are added to L1 of the project's
//! sessions when they begin.

use foreword_core::catalog::Project;
use foreword_core::tokens::{Chars, Tokenizer as _, Tokens};
use foreword_core::version::Version;
use foreword_vault::attach::Attachment;
use foreword_vault::folder::Problem;
use foreword_vault::index::Vault;
use serde_json::Value;

/// The folder of projects in a vault.
pub const FOLDER: &str = "Foreword/Projects";

/// The content of a project's note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The note.
    pub path: String,
    /// The instructions.
    pub prompt: String,
    /// The listed material.
    pub attachments: Vec<Attachment>,
    /// Problems in the note.
    pub problems: Vec<Problem>,
}

/// The names of a vault's projects.
pub fn list(vault: &Vault) -> Vec<String> {
    let inside = |path: &str| path.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix(".md").map(str::to_owned);
    vault.notes().filter_map(|listed| inside(&listed.facts.path)).filter(|name| !name.contains('/')).collect()
}

/// Reads a project; `None` if it does not exist.
pub fn read(vault: &Vault, name: &str) -> Option<Written> {
    let path = format!("{FOLDER}/{name}.md");
    let (text, note) = vault.read_note(&path).ok()?;
    let prompt = text.get(note.frontmatter.range.end..).unwrap_or_default().trim().to_owned();
    let mut problems = Vec::new();
    let mut attachments = Vec::new();
    let named = match note.frontmatter.get("context") {
        None => Vec::new(),
        Some(Value::Array(list)) => list.iter().collect(),
        Some(one) => vec![one],
    };
    for value in named {
        let Some(text) = value.as_str() else {
            problems.push(Problem::new(&path, format!("context: {value} is not a string; it is ignored")));
            continue;
        };
        match vault.attachment(text) {
            Ok(attachment) => attachments.push(attachment),
            Err(error) => problems.push(Problem::new(&path, format!("context: {error}; it is ignored"))),
        }
    }
    Some(Written { path, prompt, attachments, problems })
}

/// The project for L1, with as much of its material as fits into `room`, and the problems with material that does not fit.
pub fn project(written: &Written, material: &[Version], room: Tokens) -> (Project, Vec<Problem>) {
    let mut context = String::new();
    let mut problems = Vec::new();
    for version in material {
        let part = format!("# {}\n\n{}\n\n", version.id.name(), version.content.trim());
        // Three characters a token is careful for any model.
        if Chars::THREE.count(&context) + Chars::THREE.count(&part) > room {
            let what = format!("{} does not fit the project's context; attach it to a question instead", version.id);
            problems.push(Problem::new(&written.path, what));
        } else {
            context.push_str(&part);
        }
    }
    let filled = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    (Project { system_prompt: filled(&written.prompt), context: filled(&context) }, problems)
}

//! The notes that a chat names, found in the vault as it is now.

use super::{Context, Kind, Warning};

/// A name that contains `, ` was parted when it was read; so many parts are tried together.
const JOINED_PARTS: usize = 4;

/// What the vault has under a path or a bare name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// One note, at this path.
    Found(String),
    /// Several notes of this name.
    Ambiguous(Vec<String>),
    /// None.
    Missing,
}

/// Finds the notes of a context. A name is looked up as it is (a path), then by its last part. What is missing or ambiguous is left out with a
/// warning; all else stays.
pub fn resolve_context(context: &Context, lookup: &dyn Fn(&str) -> Lookup) -> (Context, Vec<Warning>) {
    let mut warnings = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    let mut rest = context.notes.as_slice();
    while let Some((name, others)) = rest.split_first() {
        rest = others;
        let found = match by_path_or_name(name, lookup) {
            Lookup::Found(path) => Some(path),
            Lookup::Ambiguous(paths) => {
                let text = format!("the note {name:?} is left out: its name fits {}; attach the one you mean", paths.join(", "));
                warnings.push(Warning::new(Kind::NoteAmbiguous, text));
                None
            }
            Lookup::Missing => {
                let found = joined(name, others, lookup);
                if let Some((_, parts)) = &found {
                    rest = others.get(*parts..).unwrap_or_default();
                } else {
                    let text =
                        format!("the note {name:?} is left out: it is not in the vault; it may have been renamed or deleted");
                    warnings.push(Warning::new(Kind::NoteMissing, text));
                }
                found.map(|(path, _)| path)
            }
        };
        notes.extend(found.filter(|path| !notes.contains(path)));
    }
    (Context { notes, ..context.clone() }, warnings)
}

fn by_path_or_name(name: &str, lookup: &dyn Fn(&str) -> Lookup) -> Lookup {
    match (lookup(name), name.rsplit_once('/')) {
        (Lookup::Missing, Some((_, last))) if !last.is_empty() => lookup(last),
        (found, _) => found,
    }
}

/// The note whose name is `name` and some of the `others` with `, ` between, and how many of them.
fn joined(name: &str, others: &[String], lookup: &dyn Fn(&str) -> Lookup) -> Option<(String, usize)> {
    let mut whole = name.to_owned();
    others.iter().take(JOINED_PARTS - 1).zip(1..).find_map(|(part, parts)| {
        whole.push_str(", ");
        whole.push_str(part);
        match by_path_or_name(&whole, lookup) {
            Lookup::Found(path) => Some((path, parts)),
            Lookup::Ambiguous(_) | Lookup::Missing => None,
        }
    })
}

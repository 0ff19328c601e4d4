//! The notes that a chat names, found in the vault as it is now.

use std::collections::{BTreeMap, BTreeSet};

use super::{Context, Kind, Warning};
use crate::folder::{name_of, nfc, stem_of};

/// A name that contains `, ` was parted when it was read; so many parts are tried together.
const JOINED_PARTS: usize = 4;

/// Matches beyond so many are not listed.
const MOST_MATCHES: usize = 16;

/// The files that a chat can name, by path and by name. Unlike a link, which has a note it stands in, a bare name in a chat means a
/// file only where no other file has that name.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    paths: BTreeSet<String>,
    /// By file name, with its ending and, for a note, without.
    names: BTreeMap<String, Vec<String>>,
}

/// What a name means.
enum Meant<'a> {
    One(&'a str),
    Several(&'a [String]),
    Nothing,
}

impl Notes {
    /// The files at `paths`.
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let paths: BTreeSet<String> = paths.into_iter().map(|path| nfc(path).into_owned()).collect();
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for path in &paths {
            let (name, stem) = (name_of(path), stem_of(path));
            for name in [Some(name), (stem != name).then_some(stem)].into_iter().flatten() {
                names.entry(name.to_owned()).or_default().push(path.clone());
            }
        }
        Self { paths, names }
    }

    /// The file at exactly `path`; below a folder, `.md` may be missing.
    fn at(&self, path: &str) -> Option<&str> {
        let path = nfc(path);
        let found = self.paths.get(&*path);
        found.or_else(|| self.paths.get(&format!("{path}.md")).filter(|_| path.contains('/'))).map(String::as_str)
    }

    /// The file whose name is the last part of `name`.
    fn called(&self, name: &str) -> Meant<'_> {
        match self.names.get(name_of(&nfc(name))).map(Vec::as_slice) {
            Some([path]) => Meant::One(path),
            Some(paths) => Meant::Several(paths),
            None => Meant::Nothing,
        }
    }
}

/// Finds the notes of a context: by path, else by a name that only one file has. What is missing or ambiguous is left out with a
/// warning; all else stays.
pub fn resolve_context(context: &Context, notes: &Notes) -> (Context, Vec<Warning>) {
    let mut warnings = Vec::new();
    let mut found: Vec<&str> = Vec::new();
    let mut rest = context.notes.as_slice();
    while let Some(name) = rest.first() {
        let (path, parts) = match find(rest, notes) {
            (Meant::One(path), parts) => (Some(path), parts),
            (Meant::Several(paths), parts) => {
                let more = if paths.len() > MOST_MATCHES { " and others" } else { "" };
                let paths = paths.get(..MOST_MATCHES).unwrap_or(paths).join(", ");
                let text = format!("note {name:?} skipped: the name is ambiguous ({paths}{more}); attach the one you mean");
                warnings.push(Warning::new(Kind::NoteAmbiguous, text));
                (None, parts)
            }
            (Meant::Nothing, parts) => {
                let text = format!("note {name:?} skipped: not found in the vault; it may have been renamed or deleted");
                warnings.push(Warning::new(Kind::NoteMissing, text));
                (None, parts)
            }
        };
        found.extend(path);
        rest = rest.get(parts..).unwrap_or_default();
    }
    let mut seen = BTreeSet::new();
    let notes = found.into_iter().filter(|path| seen.insert(*path)).map(str::to_owned).collect();
    (Context { notes, ..context.clone() }, warnings)
}

/// What the first of `names` means, and how many of them are its parts. A path is surer than a name, also one in several parts: `Paris,
/// France.md` must not be taken for the note `Paris`.
fn find<'a>(names: &[String], notes: &'a Notes) -> (Meant<'a>, usize) {
    let Some(first) = names.first() else { return (Meant::Nothing, 1) };
    let joined = || (2..=names.len().min(JOINED_PARTS)).filter_map(|parts| Some((names.get(..parts)?.join(", "), parts)));
    if let Some(path) = notes.at(first) {
        return (Meant::One(path), 1);
    }
    if let Some((path, parts)) = joined().find_map(|(whole, parts)| Some((notes.at(&whole)?, parts))) {
        return (Meant::One(path), parts);
    }
    let by_name = notes.called(first);
    if matches!(by_name, Meant::Nothing)
        && let Some(found) =
            joined().map(|(whole, parts)| (notes.called(&whole), parts)).find(|(meant, _)| !matches!(meant, Meant::Nothing))
    {
        return found;
    }
    (by_name, 1)
}

//! `FROM`: which notes a query is about.

use std::collections::BTreeSet;

use super::evaluate::{Eval, Evaluator};
use super::syntax::{Junction, Source};

/// The paths of the notes a source names, sorted; of all notes where there is none.
pub(super) fn paths<'p>(evaluator: &Evaluator<'p>, source: Option<&Source>) -> Eval<Vec<&'p str>> {
    let all = evaluator.notes.pages.paths();
    let Some(source) = source else { return Ok(all) };
    let chosen = choose(evaluator, source, &all)?;
    Ok(all.into_iter().zip(chosen).filter_map(|(path, is_chosen)| is_chosen.then_some(path)).collect())
}

/// For each path whether the source names it.
fn choose(evaluator: &Evaluator, source: &Source, all: &[&str]) -> Eval<Vec<bool>> {
    evaluator.spend(1 + all.len())?;
    let among = |paths: Vec<String>| {
        let paths: BTreeSet<String> = paths.into_iter().collect();
        all.iter().map(|path| paths.contains(*path)).collect()
    };
    let pages = evaluator.notes.pages;
    Ok(match source {
        Source::Tag(tag) => {
            let tag = tag.to_lowercase();
            let has = |path: &&str| pages.page(path).is_some_and(|page| page.note.tags.iter().any(|own| is_within(own, &tag)));
            all.iter().map(has).collect()
        }
        Source::Path(path) => in_folder(path, all),
        Source::Incoming(target) => among(target_of(evaluator, target).map(|path| pages.incoming(&path)).unwrap_or_default()),
        Source::Outgoing(target) => among(target_of(evaluator, target).map(|path| pages.outgoing(&path)).unwrap_or_default()),
        Source::Not(inner) => choose(evaluator, inner, all)?.into_iter().map(|is_chosen| !is_chosen).collect(),
        Source::Chain(first, rest) => {
            let mut chosen = choose(evaluator, first, all)?;
            for (junction, source) in rest {
                let other = choose(evaluator, source, all)?;
                for (mine, other) in chosen.iter_mut().zip(other) {
                    *mine = match junction {
                        Junction::And => *mine && other,
                        Junction::Or => *mine || other,
                    };
                }
            }
            chosen
        }
    })
}

fn target_of(evaluator: &Evaluator, target: &str) -> Option<String> {
    if target.is_empty() { Some(evaluator.this.to_string()) } else { evaluator.notes.pages.resolve(target, &evaluator.this) }
}

/// Whether a tag is `tag`, which is in lower case, or nested in it.
fn is_within(own: &str, tag: &str) -> bool {
    let own = own.to_lowercase();
    own.strip_prefix(tag).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The notes in a folder and the folders in it; where there are none, the note of that path.
fn in_folder(path: &str, all: &[&str]) -> Vec<bool> {
    let folder = path.trim_matches('/');
    if folder.is_empty() {
        return vec![true; all.len()];
    }
    let inside: Vec<bool> = all.iter().map(|path| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))).collect();
    if inside.contains(&true) {
        return inside;
    }
    all.iter().map(|path| *path == folder || path.strip_suffix(".md") == Some(folder)).collect()
}

//! Ids and names as providers accept them. Models and servers choose theirs freely; a provider refuses what its pattern lacks.

use std::borrow::Cow;

use foreword_core::hash::Hash;

use super::Dialect;

/// `id` as `dialect` accepts it. Ids that differ stay different: a changed one ends in a hash of the original.
pub fn wire_id(dialect: Dialect, id: &str) -> Cow<'_, str> {
    fit(id, id_limit(dialect), false)
}

/// A tool's name as `dialect` accepts it.
pub fn wire_name(dialect: Dialect, name: &str) -> Cow<'_, str> {
    fit(name, 64, dialect == Dialect::Gemini)
}

fn id_limit(dialect: Dialect) -> usize {
    match dialect {
        // Chat Completions refuses longer ones, although its schema does not say so.
        Dialect::OpenAiChat | Dialect::LlamaCpp => 40,
        Dialect::OpenAiResponses | Dialect::Anthropic | Dialect::Gemini => 64,
    }
}

fn fit(text: &str, limit: usize, starts_with_letter: bool) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let start = |c: char| c.is_ascii_alphabetic() || c == '_';
    let good_start = !starts_with_letter || text.starts_with(start);
    if !text.is_empty() && text.len() <= limit && good_start && text.chars().all(fits) {
        return Cow::Borrowed(text);
    }
    let hash = Hash::of(text).short();
    let lead = if good_start { "" } else { "_" };
    let room = limit - hash.len() - 1 - lead.len();
    let kept: String = text.chars().map(|c| if fits(c) { c } else { '_' }).take(room).collect();
    Cow::Owned(format!("{lead}{kept}_{hash}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_ids_stay_and_bad_ones_stay_apart() {
        for good in ["toolu_01AbC-x", "a", "call_0"] {
            assert_eq!(wire_id(Dialect::Anthropic, good), good);
        }
        let long = "x".repeat(65);
        let bad = ["", "a b", "a.b", "a/b", "é", &long, &"x".repeat(66)];
        for dialect in Dialect::ALL {
            let wired: std::collections::BTreeSet<_> = bad.iter().map(|id| wire_id(dialect, id).into_owned()).collect();
            assert_eq!(wired.len(), bad.len());
            for id in wired {
                assert!(id.len() <= id_limit(dialect) && !id.is_empty());
                assert_eq!(wire_id(dialect, &id), id);
            }
        }
    }

    #[test]
    fn gemini_names_start_with_a_letter() {
        assert_eq!(wire_name(Dialect::Anthropic, "2fa"), "2fa");
        assert!(wire_name(Dialect::Gemini, "2fa").starts_with("_2fa_"));
        assert!(wire_name(Dialect::Gemini, &"9".repeat(64)).len() <= 64);
    }
}

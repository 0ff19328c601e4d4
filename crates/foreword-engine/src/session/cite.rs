//! Citations: finds the sources that an answer names, and writes the list of sources below it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A source that can be cited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citable {
    /// Its number, from 1.
    pub number: usize,
    /// Its path in the vault.
    pub path: String,
}

/// The citations of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cited {
    /// Valid source numbers, in the order of first mention.
    pub sources: Vec<usize>,
    /// Invalid source numbers.
    pub unknown: Vec<usize>,
    /// Whether the answer contains or attempts citations.
    pub tried: bool,
}

/// Finds citations: `[^1]` and common variants of models (`[1]`, `[^1, ^2]`, `【1】`, a heading over sources).
pub fn cited(answer: &str, sources: &[Citable]) -> Cited {
    let known: BTreeSet<usize> = sources.iter().map(|source| source.number).collect();
    let mut cited = Cited::default();
    for line in prose(answer) {
        for numbers in brackets(line) {
            cited.tried = true;
            for number in numbers {
                let list = if known.contains(&number) { &mut cited.sources } else { &mut cited.unknown };
                if !list.contains(&number) {
                    list.push(number);
                }
            }
        }
        cited.tried |= is_heading(line);
    }
    cited
}

/// The list of sources for an answer with citations; `None` without citations, or if it has its own list.
pub fn source_list(answer: &str, sources: &[Citable]) -> Option<String> {
    let found = cited(answer, sources);
    if !found.tried {
        return None;
    }
    let defined = |number: usize| answer.lines().any(|line| line.trim_start().starts_with(&format!("[^{number}]:")));
    // Where it only tried, all it could have meant are listed.
    let all = || sources.iter().map(|source| source.number).collect();
    let wanted: Vec<usize> = if found.sources.is_empty() { all() } else { found.sources };
    let mut list = String::new();
    for source in wanted.iter().filter_map(|number| sources.iter().find(|source| source.number == *number)) {
        if !defined(source.number) {
            let name = source.path.strip_suffix(".md").unwrap_or(&source.path);
            // Writing into a string cannot fail.
            let _ = writeln!(list, "[^{}]: [[{name}]]", source.number);
        }
    }
    (!list.is_empty()).then(|| format!("\n\n{}", list.trim_end()))
}

/// The lines outside of code blocks.
fn prose(answer: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    answer.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        fenced ^= fence;
        !fenced && !fence
    })
}

fn is_heading(line: &str) -> bool {
    let word = line.trim().trim_matches(|c: char| matches!(c, '#' | '*' | '_' | ':') || c.is_whitespace());
    line.len() < 60 && ["sources", "references", "citations", "footnotes"].contains(&word.to_ascii_lowercase().as_str())
}

/// The numbers in brackets that contain only numbers.
fn brackets(line: &str) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    for (at, open) in line.char_indices().filter(|(_, c)| matches!(c, '[' | '【')) {
        let close = if open == '[' { ']' } else { '】' };
        let inside = &line[at + open.len_utf8()..];
        // Inline code such as `a[1]` is no citation, nor is a link's text.
        let word_before = line[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == ']' || c == '`');
        let marked = inside.starts_with('^') || open == '【';
        let Some(end) = inside.find(close).filter(|_| marked || !word_before) else { continue };
        let behind = &inside[end + close.len_utf8()..];
        if behind.starts_with('(') && !marked {
            continue;
        }
        let parts = inside[..end].split(',').map(|part| part.trim().trim_start_matches('^').parse::<usize>());
        if let Ok(numbers) = parts.collect::<Result<Vec<_>, _>>() {
            all.push(numbers);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Vec<Citable> {
        let source = |number, path: &str| Citable { number, path: path.to_owned() };
        vec![source(1, "Kitchen/Bread.md"), source(2, "Kitchen/Starter.md"), source(3, "Plan.canvas")]
    }

    #[test]
    fn citations_are_found() {
        let check = |answer: &str, known: &[usize], unknown: &[usize], tried: bool| {
            let expect = Cited { sources: known.to_vec(), unknown: unknown.to_vec(), tried };
            assert_eq!(cited(answer, &sources()), expect, "{answer}");
        };
        check("The loaf was flat[^2], as the starter was weak [^1].", &[2, 1], &[], true);
        check("Twice [^1] and again [^1].", &[1], &[], true);
        check("Both [^1, ^3], [2].", &[1, 3, 2], &[], true);
        check("CJK brackets 【2】.", &[2], &[], true);
        check("Made up [^7].", &[], &[7], true);
        check("Nothing here, not even [x] or [a link](b) or [1](c).", &[], &[], false);
        check("```\na = b[^1]\n```\nNo.", &[], &[], false);
        check("An index a[1] is none.", &[], &[], false);
        check("Text.\n\n## Sources:\nthe notes", &[], &[], true);
        check("[^99999999999999999999999]", &[], &[], false);
        check("", &[], &[], false);
        check("[^", &[], &[], false);
    }

    #[test]
    fn a_list_comes_only_under_an_answer_that_cites() {
        let check = |answer: &str, expect: Option<&str>| {
            assert_eq!(source_list(answer, &sources()).as_deref(), expect, "{answer}");
        };
        check("No.", None);
        check("Yes [^2].", Some("\n\n[^2]: [[Kitchen/Starter]]"));
        check("Yes [^3][^1].", Some("\n\n[^3]: [[Plan.canvas]]\n[^1]: [[Kitchen/Bread]]"));
        check("Yes [^1].\n\n[^1]: [[Kitchen/Bread]]", None);
        check("Yes [^9].", Some("\n\n[^1]: [[Kitchen/Bread]]\n[^2]: [[Kitchen/Starter]]\n[^3]: [[Plan.canvas]]"));
    }
}

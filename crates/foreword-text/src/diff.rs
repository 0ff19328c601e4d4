//! What changed in a note, in the form models know best: a unified diff.

use similar::{Algorithm, TextDiff};

/// From here on, finding the changes costs more than sending the text again.
const MAX_BYTES: usize = 1 << 20;

/// The same, for texts of very short lines.
const MAX_LINES: usize = 50_000;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// The unified diff from `old` to `new`, empty where they are the same; nothing where both are too large to compare.
///
/// `name` stands in the header and must be one line: see [`super::fence::one_line`].
pub fn unified(old: &str, new: &str, name: &str) -> Option<String> {
    let too_large = |text: &str| text.len() > MAX_BYTES || text.lines().nth(MAX_LINES).is_some();
    if too_large(old) && too_large(new) {
        return None;
    }
    // No deadline: a result that depends on the clock would not be the same bytes twice. This algorithm bounds its own work.
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).diff_lines(old, new);
    Some(diff.unified_diff().context_radius(CONTEXT).header(name, name).to_string())
}

/// A diff without its remarks on a missing line break at the end: normalised texts never have one.
pub fn without_end_marks(diff: &str) -> String {
    let lines = diff.split_inclusive('\n').filter(|line| !line.starts_with("\\ No newline at end of file"));
    lines.collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Applies a diff the naive way.
    fn apply(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut out, mut at) = (String::new(), 0);
        let mut lines = diff.split_inclusive('\n').skip(2).peekable();
        while let Some(line) = lines.next() {
            let ends_here = lines.peek().is_some_and(|next| next.starts_with('\\'));
            let body = if ends_here { line[1..].trim_end_matches('\n') } else { &line[1..] };
            match line.as_bytes()[0] {
                b'@' => {
                    let range = line.split_whitespace().nth(1).unwrap();
                    let (start, length) = range[1..].split_once(',').unwrap_or((&range[1..], "1"));
                    let start: usize = start.parse().unwrap();
                    let start = if length == "0" { start } else { start - 1 };
                    out.extend(old[at..start].iter().copied());
                    at = start;
                }
                b' ' => {
                    out.push_str(body);
                    at += 1;
                }
                b'-' => at += 1,
                b'+' => out.push_str(body),
                _ => {}
            }
        }
        out.extend(old[at..].iter().copied());
        out
    }

    #[test]
    fn shape() {
        fn check(old: &str, new: &str, expect: &str) {
            assert_eq!(unified(old, new, "a.md").unwrap(), expect);
        }
        check("same\n", "same\n", "");
        check(
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
            "1\n2\n3\n4\nfive\n6\n7\n8\n9\n",
            "--- a.md\n+++ a.md\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n",
        );
        check("a", "b", "--- a.md\n+++ a.md\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n");
    }

    #[test]
    fn too_large() {
        let large = "x".repeat(MAX_BYTES + 1);
        assert_eq!(unified(&large, &large, "a.md"), None);
        assert!(unified(&large, "small", "a.md").is_some());
        let lines = "x\n".repeat(MAX_LINES + 1);
        assert_eq!(unified(&lines, &lines, "a.md"), None);
    }

    proptest! {
        #[test]
        fn leads_from_old_to_new(old in "([abc]\n|[ab]){0,24}", new in "([abc]\n|[ab]){0,24}") {
            let diff = unified(&old, &new, "a.md").unwrap();
            prop_assert_eq!(apply(&old, &diff), new);
        }
    }
}

//! Whether a program printed what a page shows.

/// Stands for any number of lines, or for the rest of a line.
const ELISION: &str = "…";

/// Whether the output fits what is shown.
pub(super) fn matches(shown: &[String], actual: &[String]) -> bool {
    let parts = parts(shown);
    let (Some((first, others)), actual) = (parts.split_first(), normalised(actual)) else { return actual.is_empty() };
    if others.is_empty() {
        return first.len() == actual.len() && fits(first, &actual);
    }
    if actual.len() < first.len() || !fits(first, &actual[..first.len()]) {
        return false;
    }
    let mut at = first.len();
    let (last, middle) = others.split_last().unwrap_or((first, &[]));
    for part in middle {
        match find(part, &actual[at..]) {
            Some(found) => at += found + part.len(),
            None => return false,
        }
    }
    let rest = &actual[at..];
    rest.len() >= last.len() && fits(last, &rest[rest.len() - last.len()..])
}

/// The first line that differs, in words.
pub(super) fn difference(shown: &[String], actual: &[String]) -> String {
    let printed: Vec<String> = actual.iter().map(|line| line.trim_end().to_owned()).collect();
    let differs = |(shown, actual): &(&String, &String)| !line_fits(&normal(shown), &normal(actual));
    // Behind an elision lines do not stand side by side.
    let before = shown.iter().take_while(|line| line.trim() != ELISION).zip(&printed);
    let first = before.into_iter().find(differs);
    match first {
        Some((shown, actual)) => format!("the page shows `{shown}`, the program prints `{actual}`"),
        None => format!("the page does not show what the program prints:\n    {}", printed.join("\n    ")),
    }
}

/// The output as it is to be shown: elided where it was, and with every line that still fits as it was.
pub(super) fn rewritten(shown: &[String], actual: &[String]) -> Vec<String> {
    let known = |line: &str| {
        let mut lines = shown.iter().filter(|shown| shown.trim() != ELISION);
        lines.find(|shown| line_fits(&normal(shown), &normal(line))).cloned()
    };
    let actual: Vec<String> = actual.iter().map(|line| known(line).unwrap_or_else(|| line.trim_end().to_owned())).collect();
    let parts = parts(shown);
    let elided = |lines: &mut Vec<String>| lines.push(ELISION.to_owned());
    let Some(((first, last), middle)) = parts.split_first().and_then(|(first, others)| {
        let (last, middle) = others.split_last()?;
        Some(((first, last), middle))
    }) else {
        return actual;
    };
    let mut lines: Vec<String> = actual.iter().take(first.len()).cloned().collect();
    let mut at = lines.len();
    for part in middle {
        // What is shown from the middle is found by its first line.
        let begins = part.first().map(|line| normal(line));
        let found = actual[at..].iter().position(|line| begins.as_ref().is_some_and(|begins| line_fits(begins, &normal(line))));
        if let Some(found) = found {
            elided(&mut lines);
            let from = at + found;
            at = (from + part.len()).min(actual.len());
            lines.extend_from_slice(&actual[from..at]);
        }
    }
    elided(&mut lines);
    lines.extend_from_slice(&actual[at.max(actual.len().saturating_sub(last.len()))..]);
    lines
}

/// The shown lines between elisions, as they are compared.
fn parts(shown: &[String]) -> Vec<Vec<String>> {
    shown.split(|line| line.trim() == ELISION).map(normalised).collect()
}

fn find(part: &[String], lines: &[String]) -> Option<usize> {
    (0..=lines.len().checked_sub(part.len())?).find(|at| fits(part, &lines[*at..at + part.len()]))
}

fn fits(shown: &[String], actual: &[String]) -> bool {
    shown.iter().zip(actual).all(|(shown, actual)| line_fits(shown, actual))
}

fn line_fits(shown: &str, actual: &str) -> bool {
    shown == actual || shown.strip_suffix(ELISION).is_some_and(|start| actual.starts_with(start.trim_end()))
}

fn normalised(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| normal(line)).collect()
}

/// A line without what is different in every run: names of sessions, hashes of 64 digits, times of day and durations.
fn normal(line: &str) -> String {
    let mut normal = String::new();
    let mut rest = line.trim_end();
    while let Some(first) = rest.chars().next() {
        if !first.is_ascii_alphanumeric() {
            normal.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        if let Some(after) = after_time(rest) {
            normal.push_str("TIME");
            rest = after;
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if is_session(word) {
            normal.push_str("SESSION");
        } else if word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            normal.push_str("HASH");
        } else if word.bytes().all(|byte| byte.is_ascii_digit()) && is_unit(after) {
            // Of `0.7 s` both parts are no more than a number.
            let whole = normal.strip_suffix("N.").or_else(|| strip_number(&normal)).map(str::len);
            normal.truncate(whole.unwrap_or(normal.len()));
            normal.push('N');
        } else {
            normal.push_str(word);
        }
        rest = after;
    }
    normal
}

/// What stands before a number and its point.
fn strip_number(text: &str) -> Option<&str> {
    let whole = text.strip_suffix('.')?;
    let start = whole.trim_end_matches(|c: char| c.is_ascii_digit());
    (start.len() < whole.len()).then_some(start)
}

/// What follows a date with a time of day.
fn after_time(text: &str) -> Option<&str> {
    let takes = |text: &str, pattern: &str| {
        let fits = |(byte, wanted): (u8, u8)| if wanted == b'0' { byte.is_ascii_digit() } else { byte == wanted };
        text.len() >= pattern.len() && text.bytes().zip(pattern.bytes()).all(fits)
    };
    ["0000-00-00 00:00:00", "0000-00-00T00:00:00", "0000-00-00 00:00"]
        .into_iter()
        .find(|pattern| takes(text, pattern))
        .map(|pattern| &text[pattern.len()..])
}

/// Names of sessions have no vowel, so that none is a word.
fn is_session(word: &str) -> bool {
    word.len() == 10 && word.bytes().all(|byte| b"bcdfghjkmnpqrstvwxyz".contains(&byte))
}

fn is_unit(text: &str) -> bool {
    [" ms", " s"]
        .into_iter()
        .filter_map(|unit| text.strip_prefix(unit))
        .any(|after| !after.starts_with(|c: char| c.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn shown_and_printed() {
        let check = |shown: &str, printed: &str, expect: bool| {
            assert_eq!(matches(&lines(shown), &lines(printed)), expect, "{shown:?} {printed:?}");
        };
        check("a\nb", "a\nb", true);
        check("a\nb", "a\nb\nc", false);
        check("a\nb", "a", false);
        check("", "", true);
        check("", "a", false);
        check("a  ", "a", true);
        check("…", "", true);
        check("…", "a\nb", true);
        check("a\n…", "a\nb\nc", true);
        check("a\n…", "b\na", false);
        check("…\nc", "a\nb\nc", true);
        check("…\nb", "a\nb\nc", false);
        check("a\n…\nc\n…\ne", "a\nb\nc\nd\ne", true);
        check("a\n…\nd\n…\nc", "a\nb\nc\nd", false);
        check("a\n…\na", "a", false);
        check("one two …", "one two three", true);
        check("one two …", "one three", false);
        check("session fnzzwwykds, turn 1", "session bcdfghjkmn, turn 1", true);
        check("session fnzzwwykds, turn 1", "session bcdfghjkmn, turn 2", false);
        check("session something", "session elsewhere", false);
        check("2026-11-15 17:47 x", "2027-01-01 00:00 x", true);
        check("on 2026-11-15", "on 2026-11-16", false);
        check("12 ms, 0.7 s", "3 ms, 10.25 s", true);
        check("12 msgs", "13 msgs", false);
        check(&"a1".repeat(32), &"b2".repeat(32), true);
        check("$0.0008", "$0.0009", false);
    }

    #[test]
    fn what_is_written() {
        let check = |shown: &str, printed: &str, expect: &str| {
            let written = rewritten(&lines(shown), &lines(printed));
            assert_eq!(written.join("\n"), expect, "{shown:?}");
            assert!(matches(&written, &lines(printed)), "{shown:?}");
        };
        check("old", "new\nlines", "new\nlines");
        check("old\n…", "new\nlines\nmore", "new\n…");
        check("old\n…\nend", "a\nb\nc", "a\n…\nc");
        check("a\n…\nc\nold\n…\nz", "a\nb\nc\nd\ne\nz", "a\n…\nc\nd\n…\nz");
        check("a\n…\ngone\n…\nz", "a\nb\nz", "a\n…\nz");
        check("…", "a", "…");
        check("one …\nold", "one two\nnew", "one …\nnew");
        check("session fnzzwwykds\nold", "session bcdfghjkmn\nnew", "session fnzzwwykds\nnew");
    }

    #[test]
    fn differences_are_named() {
        let told = difference(&lines("a\nb"), &lines("a\nc"));
        assert_eq!(told, "the page shows `b`, the program prints `c`");
        assert!(difference(&lines("a"), &lines("a\nc")).ends_with("    a\n    c"));
    }
}

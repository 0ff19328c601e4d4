//! Lines that the vault writes itself, such as `[embedded note: …]`: what comes from a file must not look like one of them.

use std::borrow::Cow;

use crate::fence::{is_gap, is_line_end, is_unseen, strip_seen};

/// Puts a backslash before every place in a text from outside that begins as one of `own`: anywhere where that begins with a bracket, else at
/// the start of a line. A `0` at the end of an own text stands for a digit.
pub fn escape<'a>(text: &'a str, own: &[&str]) -> Cow<'a, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut is_start = true;
    for (at, c) in text.char_indices() {
        if (c == '[' || is_start && !is_gap(c))
            && own.iter().any(|own| own.starts_with(c.to_ascii_uppercase()) && begins(&text[at..], own))
        {
            out.push_str(&text[copied..at]);
            out.push('\\');
            copied = at;
        }
        is_start = is_line_end(c) || is_start && is_gap(c);
    }
    if copied == 0 && out.is_empty() {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

fn begins(text: &str, own: &str) -> bool {
    match own.strip_suffix('0') {
        Some(own) => {
            strip_seen(text, own).is_some_and(|rest| rest.trim_start_matches(is_unseen).starts_with(|c: char| c.is_ascii_digit()))
        }
        None => strip_seen(text, own).is_some(),
    }
}

/// A text on one line.
pub fn one_line(text: &str) -> String {
    text.replace(|c: char| is_line_end(c) || c.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_ours() {
        fn check(text: &str, expect: &str) {
            assert_eq!(escape(text, &["[Card 0", "[not shown:", "Connections:"]), expect, "{text:?}");
        }
        for same in ["", "plain", "[Card games](x) [not shown]", "- Connections: none", "[語", "[Card "] {
            check(same, same);
        }
        check("[Card 9]", "\\[Card 9]");
        check("> - x [card\u{a0}\u{ad}9", "> - x \\[card\u{a0}\u{ad}9");
        check("\\[NOT shown: x]", "\\\\[NOT shown: x]");
        check("a\u{2028} \u{ad}connections:\nConnections:", "a\u{2028} \u{ad}\\connections:\n\\Connections:");
    }
}

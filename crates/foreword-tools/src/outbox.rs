//! Reads a tool output that is not in the prompt, by page or by search. Results are limited in size and say how to continue.
//!
//! Positions are byte offsets, because an output may be a single huge line; line numbers are added for readers.

use std::collections::VecDeque;

use regex_automata::meta::Regex;

use crate::pattern::{self, PatternError};

/// The number of lines shown around a match.
const CONTEXT: usize = 2;

/// Longer lines are shortened.
const LONG_LINE: usize = 400;

/// The number of bytes shown before and after a match in a long line.
const AROUND: usize = 150;

/// The part of `text` from byte `offset`, at most about `limit` bytes, ending at a line break if one is near.
pub fn page(text: &str, offset: usize, limit: usize) -> String {
    let whole = text.len();
    if offset >= whole && offset > 0 {
        return format!("[There is nothing at offset {offset}: the output has {whole} bytes.]");
    }
    let from = text.floor_char_boundary(offset);
    let to = page_end(text, from, limit);
    let line = text[..from].bytes().filter(|byte| *byte == b'\n').count() + 1;
    let shown = &text[from..to];
    let gap = if shown.ends_with('\n') { "" } else { "\n" };
    let rest = if to == whole { "This is the end.".to_owned() } else { format!("Go on with offset {to}.") };
    format!("[Bytes {from} to {to} of {whole}, from line {line}.]\n{shown}{gap}[{rest}]")
}

/// The end of a page: after the last line break in its last quarter, or between two characters.
fn page_end(text: &str, from: usize, limit: usize) -> usize {
    let end = text.floor_char_boundary(from.saturating_add(limit));
    if end <= from {
        return text.ceil_char_boundary((from + 1).min(text.len()));
    }
    if end == text.len() {
        return end;
    }
    let last_quarter = text.ceil_char_boundary(end - (end - from) / 4);
    text[last_quarter..end].rfind('\n').map_or(end, |at| last_quarter + at + 1)
}

/// The lines of `text` that match a regular expression, with line numbers, context and offsets for [`page`]; at most about `limit`
/// bytes.
pub fn grep(text: &str, written: &str, limit: usize) -> Result<String, PatternError> {
    let regex = pattern::compile(written)?;
    let mut found = GrepOutput { out: String::new(), limit, matches: 0, shown: 0 };
    let mut before: VecDeque<Line<'_>> = VecDeque::new();
    let mut after = 0;
    let mut at = 0;
    for (index, whole) in text.split_inclusive('\n').enumerate() {
        let line = Line { number: index + 1, at, text: whole.trim_end_matches(['\n', '\r']) };
        at += whole.len();
        if line.text.len() > LONG_LINE {
            found.in_long_line(&regex, line);
            before.clear();
            after = 0;
        } else if regex.is_match(line.text) {
            if after == 0 {
                found.open(before.front().unwrap_or(&line).at);
                for line in before.drain(..) {
                    found.line(line, '-');
                }
            }
            found.hit(line);
            after = CONTEXT + 1;
        } else if after > 0 {
            found.line(line, '-');
        } else {
            if before.len() == CONTEXT {
                before.pop_front();
            }
            before.push_back(line);
        }
        after = usize::saturating_sub(after, 1);
    }
    Ok(found.told(text.len()))
}

#[derive(Clone, Copy)]
struct Line<'t> {
    number: usize,
    at: usize,
    text: &'t str,
}

struct GrepOutput {
    out: String,
    limit: usize,
    matches: usize,
    shown: usize,
}

impl GrepOutput {
    /// Appends text if it fits.
    fn push(&mut self, piece: &str) -> bool {
        // Once something did not fit, nothing after it is shown: what is missing is the end, not something in the middle.
        let fits = self.out.len() + piece.len() <= self.limit;
        if fits {
            self.out.push_str(piece);
        } else {
            self.limit = 0;
        }
        fits
    }

    fn open(&mut self, at: usize) {
        self.push(&format!("[offset {at}]\n"));
    }

    fn line(&mut self, line: Line<'_>, mark: char) -> bool {
        self.push(&format!("{}{mark}{}\n", line.number, line.text))
    }

    fn hit(&mut self, line: Line<'_>) {
        self.matches += 1;
        self.shown += usize::from(self.line(line, ':'));
    }

    /// Shows each match in a long line with its context.
    fn in_long_line(&mut self, regex: &Regex, line: Line<'_>) {
        let mut covered = 0;
        for found in regex.find_iter(line.text) {
            if found.start() < covered {
                continue;
            }
            let from = line.text.floor_char_boundary(found.start().saturating_sub(AROUND));
            let to = line.text.ceil_char_boundary(found.end().min(found.start() + AROUND) + AROUND);
            covered = to.max(1);
            self.open(line.at + from);
            self.hit(Line { text: &format!("…{}…", &line.text[from..to]), ..line });
        }
    }

    fn told(mut self, whole: usize) -> String {
        let Self { matches, shown, .. } = self;
        let summary = match matches {
            0 => format!("[Nothing matches in {whole} bytes. Patterns are regular expressions; `(?i)` in front ignores case.]"),
            _ if shown == matches => format!("[{matches} matches, all shown. Read on at an offset.]"),
            _ => format!("[{matches} matches, the first {shown} shown. Narrow the pattern, or read on at an offset.]"),
        };
        self.out.push_str(&summary);
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages() {
        #[track_caller]
        fn check(text: &str, offset: usize, limit: usize, expect: &str) {
            assert_eq!(page(text, offset, limit), expect);
        }
        check("one\ntwo\n", 0, 100, "[Bytes 0 to 8 of 8, from line 1.]\none\ntwo\n[This is the end.]");
        check("one\ntwo\nthree", 0, 9, "[Bytes 0 to 8 of 13, from line 1.]\none\ntwo\n[Go on with offset 8.]");
        check("one\ntwo\nthree", 8, 100, "[Bytes 8 to 13 of 13, from line 3.]\nthree\n[This is the end.]");
        check("äöü", 1, 3, "[Bytes 0 to 2 of 6, from line 1.]\nä\n[Go on with offset 2.]");
        check("äöü", 2, 0, "[Bytes 2 to 4 of 6, from line 1.]\nö\n[Go on with offset 4.]");
        check("abc", 3, 9, "[There is nothing at offset 3: the output has 3 bytes.]");
        check("", 0, 9, "[Bytes 0 to 0 of 0, from line 1.]\n\n[This is the end.]");
    }

    #[test]
    fn matches() {
        #[track_caller]
        fn check(text: &str, pattern: &str, limit: usize, expect: &str) {
            assert_eq!(grep(text, pattern, limit).unwrap(), expect);
        }
        let ten = "a1\nb2\nc3\nd4\ne5\nf6\ng7\nh8\ni9\nj10\n";
        check(ten, "d", 999, "[offset 3]\n2-b2\n3-c3\n4:d4\n5-e5\n6-f6\n[1 matches, all shown. Read on at an offset.]");
        check(ten, "[ab]", 999, "[offset 0]\n1:a1\n2:b2\n3-c3\n4-d4\n[2 matches, all shown. Read on at an offset.]");
        check(
            ten,
            "a|j",
            22,
            "[offset 0]\n1:a1\n2-b2\n[2 matches, the first 1 shown. Narrow the pattern, or read on at an offset.]",
        );
        check(
            ten,
            "a|j",
            999,
            "[offset 0]\n1:a1\n2-b2\n3-c3\n[offset 21]\n8-h8\n9-i9\n10:j10\n[2 matches, all shown. Read on at an offset.]",
        );
        check("x\r\n", "^x$", 99, "[offset 0]\n1:x\n[1 matches, all shown. Read on at an offset.]");
        check("x", "y", 99, "[Nothing matches in 1 bytes. Patterns are regular expressions; `(?i)` in front ignores case.]");
    }

    #[test]
    fn long_lines_are_shown_in_part() {
        let text = format!("{}needle{}needle{}", "ä".repeat(1000), "-".repeat(1000), "ö".repeat(1000));
        let found = grep(&text, "needle", 2000).unwrap();
        assert!(found.contains("[offset 1850]") && found.contains("[offset 2856]") && found.len() < 1000, "{found}");
        assert_eq!(found.matches("needle").count(), 2);
    }

    #[test]
    fn patterns_that_cannot_be_used() {
        #[track_caller]
        fn check(pattern: &str, expect: &str) {
            assert_eq!(grep("x", pattern, 99).unwrap_err().to_string(), expect);
        }
        check("(", "the pattern cannot be used: unclosed group");
        check(&"x".repeat(3000), "the pattern has 3000 bytes, and 2000 are the most");
        assert!(grep("x", r"\w{1000}{1000}", 99).is_err());
    }

    proptest! {
        #[test]
        fn pages_in_a_row_are_the_whole_text(text in "(a|ä|€|\n){0,300}", limit in 0usize..40) {
            let (mut all, mut from) = (String::new(), 0);
            while from < text.len() {
                let to = page_end(&text, from, limit);
                prop_assert!(to > from && to - from <= limit.max(4));
                all.push_str(&text[from..to]);
                from = to;
            }
            prop_assert_eq!(all, text);
        }

        #[test]
        fn any_search_is_bounded(text in "(a|ä|\n|a{500}){0,60}", pattern in "[a-z.*?äb(|)^$]{0,6}", limit in 0usize..3000) {
            if let Ok(found) = grep(&text, &pattern, limit) {
                prop_assert!(found.len() <= limit + 150);
            }
        }
    }
}

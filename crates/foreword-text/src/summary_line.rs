//! One line that says what a text is about, taken from the text itself: for summaries that no model writes.

use std::borrow::Cow;

const ELLIPSIS: char = '…';

/// Words in front of a full stop that does not end a sentence, in lower case.
const ABBREVIATIONS: [&str; 16] =
    ["approx", "bzw", "ca", "cf", "dr", "etc", "evtl", "fig", "inc", "mr", "mrs", "ms", "no", "prof", "st", "vs"];

/// The first sentence of `text` on one line, at most `max_chars` characters; a longer one is cut at a word and ends in `…`.
///
/// Marks of headings and lists, fenced code and `<think>` blocks are skipped. Empty only if there is nothing to be seen in
/// the text, or no room.
pub fn first_sentence(text: &str, max_chars: usize) -> String {
    let spoken = without_thoughts(text);
    // No character is longer than four bytes, so what is past this is cut off in any case.
    let enough = max_chars.saturating_mul(4);
    let readings: [&dyn Fn() -> String; 4] = [
        &|| paragraph(&spoken, Code::Skipped, enough),
        &|| paragraph(&spoken, Code::Read, enough),
        // Nothing but marks or thoughts: better those than nothing.
        &|| {
            let thoughts = text.replace("<think>", " ").replace("</think>", " ");
            collapse(&thoughts, enough)
        },
        &|| collapse(text, enough),
    ];
    let line = readings.iter().map(|read| read()).find(|line| !line.is_empty()).unwrap_or_default();
    cut(&line, max_chars)
}

/// Without `<think>…</think>`; a block that is not closed goes to the end.
fn without_thoughts(text: &str) -> Cow<'_, str> {
    if !text.contains("<think>") {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, thought)) = rest.split_once("<think>") {
        out.push_str(before);
        rest = thought.split_once("</think>").map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[derive(Clone, Copy, PartialEq)]
enum Code {
    Skipped,
    Read,
}

/// The first paragraph on one line. A heading, or a line that announces something, goes with what follows it.
fn paragraph(text: &str, code: Code, enough: usize) -> String {
    let mut out = String::new();
    let mut fence: Option<&str> = None;
    let mut announced = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(open) = fence {
            if line.starts_with(open) && line.trim_start_matches(&open[..1]).is_empty() {
                fence = None;
            } else if code == Code::Read {
                add(&mut out, line, enough);
            }
            continue;
        }
        if line.starts_with("```") || line.starts_with("~~~") {
            fence = Some(&line[..3]);
            continue;
        }
        if line.is_empty() {
            if !out.is_empty() && !out.ends_with(':') {
                break;
            }
            continue;
        }
        if is_rule(line) {
            continue;
        }
        let bare = without_marks(line);
        add(&mut out, bare, enough);
        let is_heading = line.starts_with('#') && bare.len() < line.len();
        if is_heading && out.ends_with(char::is_alphanumeric) {
            out.push(':');
            announced = Some(out.len());
        }
        if out.len() > enough {
            break;
        }
    }
    // A heading that nothing follows announces nothing.
    if announced == Some(out.len()) {
        out.pop();
    }
    out
}

/// Adds a line's words, one space apart, until there is enough.
fn add(out: &mut String, line: &str, enough: usize) {
    for word in line.split_whitespace() {
        if out.len() > enough {
            return;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
}

fn collapse(text: &str, enough: usize) -> String {
    let mut out = String::new();
    add(&mut out, text, enough);
    out
}

/// `---`, `***`, `===`: a rule, an underline, the edge of a front matter.
fn is_rule(line: &str) -> bool {
    ['-', '*', '_', '='].iter().any(|mark| line.len() >= 3 && line.chars().all(|c| c == *mark || c == ' '))
}

/// Without the marks of headings, quotes, lists and tasks in front.
fn without_marks(line: &str) -> &str {
    let mut line = line;
    loop {
        let rest = line.trim_start_matches('#');
        let rest = if rest.len() < line.len() && (rest.starts_with(' ') || rest.is_empty()) { rest } else { strip_mark(line) };
        let rest = rest.trim_start();
        if rest.len() == line.len() {
            return line;
        }
        line = rest;
    }
}

fn strip_mark(line: &str) -> &str {
    for mark in ["> ", ">", "- ", "* ", "+ ", "[ ] ", "[x] ", "[X] "] {
        if let Some(rest) = line.strip_prefix(mark) {
            return rest;
        }
    }
    let after = line.trim_start_matches(|c: char| c.is_ascii_digit());
    match line.len() - after.len() {
        1..=3 => after.strip_prefix(". ").or_else(|| after.strip_prefix(") ")).unwrap_or(line),
        _ => line,
    }
}

/// To the end of the first sentence, or to the last word that leaves room for `…`.
fn cut(line: &str, max_chars: usize) -> String {
    let window_end = line.char_indices().nth(max_chars).map_or(line.len(), |(at, _)| at);
    let window = &line[..window_end];
    if let Some(end) = sentence_end(line).filter(|end| *end <= window_end) {
        return line[..end].to_owned();
    }
    if window_end == line.len() {
        return line.to_owned();
    }
    let Some((last, _)) = window.char_indices().next_back() else {
        return String::new();
    };
    // `line` goes on after the window, so a space right behind it ends a word too.
    let room = &window[..last];
    let whole = if line[last..].starts_with(' ') { Some(last) } else { room.rfind(' ') };
    let kept = whole.map_or(room, |end| &room[..end]);
    let kept = kept.trim_end_matches([' ', ',', ';', ':']);
    format!("{}{ELLIPSIS}", if kept.is_empty() { room } else { kept })
}

/// The sentences of a line, in order, without the blanks between them.
pub fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line.trim();
    std::iter::from_fn(move || {
        let end = sentence_end(rest).unwrap_or(rest.len());
        let (sentence, behind) = rest.split_at(end);
        rest = behind.trim_start();
        (!sentence.is_empty()).then_some(sentence)
    })
}

/// Where the first sentence ends, its closing marks included.
fn sentence_end(line: &str) -> Option<usize> {
    for (at, c) in line.char_indices() {
        let after = at + c.len_utf8();
        match c {
            '。' | '！' | '？' => return Some(after),
            '.' | '!' | '?' | ELLIPSIS => {
                let rest = line[after..].trim_start_matches(['.', '!', '?', '"', '\'', ')', ']', '”', '’', '»', '*', '_']);
                let ends = rest.is_empty() || rest.starts_with(' ');
                if ends && !(c == '.' && is_abbreviation(&line[..at], rest)) {
                    return Some(line.len() - rest.len());
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether the full stop after `before` belongs to a word.
fn is_abbreviation(before: &str, rest: &str) -> bool {
    if rest.is_empty() {
        return false;
    }
    let word = before.rsplit([' ', '(', '.', '-']).next().unwrap_or_default();
    let next_is_lower = rest.trim_start().starts_with(char::is_lowercase);
    let one_letter = word.chars().count() == 1 && word.chars().all(char::is_alphabetic) && word != "I";
    let number = !word.is_empty() && word.chars().all(|c| c.is_ascii_digit()) && (next_is_lower || before == word);
    one_letter || number || next_is_lower || ABBREVIATIONS.contains(&word.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_line() {
        fn check(text: &str, max: usize, expect: &str) {
            assert_eq!(first_sentence(text, max), expect, "{text:?}");
        }
        check("", 80, "");
        check(" \n\t", 80, "");
        check("One thing. Another thing.", 80, "One thing.");
        check("Really?! Yes.", 80, "Really?!");
        check("He said \"no.\" Then he left.", 80, "He said \"no.\"");
        check(
            "See e.g. the notes of Dr. Smith, J. Doe and version 1.2 here. Next.",
            80,
            "See e.g. the notes of Dr. Smith, J. Doe and version 1.2 here.",
        );
        check("one\n  two\tthree\n\nfour", 80, "one two three");
        check("# Lesson 4\n\nScales are **next**. More.", 80, "Lesson 4: Scales are **next**.");
        check("# Lesson 4\n", 80, "Lesson 4");
        check("# To do:\n", 80, "To do:");
        check("!# :\n#", 80, "!# :");
        check("## Done!\nText.", 80, "Done!");
        check("Here it is:\n\n- first thing\n- second", 80, "Here it is: first thing second");
        check("- [ ] buy milk\n- [x] sleep", 80, "buy milk sleep");
        check("1. Open it. 2. Close it.", 80, "Open it.");
        check("> quoted words", 80, "quoted words");
        check("```rust\nfn main() {}\n```\nThat is it.", 80, "That is it.");
        check("```rust\nfn main() {}\n```", 80, "fn main() {}");
        check("<think>Hm. What?</think>\n\nThe answer.", 80, "The answer.");
        check("<think>cut off", 80, "cut off");
        check("---\n***", 80, "--- ***");
        check("###", 80, "###");
        check("#tag and C# too", 80, "#tag and C# too");
        check("これは文です。次の文。", 80, "これは文です。");
        check("a long line of words", 12, "a long line…");
        check("a long line of words", 11, "a long…");
        check("a long line, of words", 13, "a long line…");
        check("unbreakable", 5, "unbr…");
        check("unbreakable", 1, "…");
        check("unbreakable", 0, "");
        check("exact", 5, "exact");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn short_one_line_and_never_empty(parts in prop::collection::vec(prop::sample::select(&[
            "#", "# ", "- ", "> ", "1. ", "```", "~~~", "\n", "\n", " ", "\t", "word", "Dr.", ". ", "!", "…", "<think>", "</think>", "é", "語。", "---", ":", ",",
            "\u{a0}", "\u{2028}",
        ][..]), 0..24), max in 0..40_usize) {
            let text = parts.concat();
            let line = first_sentence(&text, max);
            prop_assert!(line.chars().count() <= max);
            prop_assert!(!line.contains(['\n', '\t', '\u{2028}']) && line.trim() == line, "{line:?}");
            prop_assert_eq!(line.is_empty(), max == 0 || text.trim().is_empty());
        }
    }
}

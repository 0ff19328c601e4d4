//! How a text is split before the merges: pieces that no token spans. Written by hand, because the patterns need to look ahead.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// A way to split, by its name in a GGUF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Splitter {
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    Gpt2,
    /// Every digit alone, the rest as [`Splitter::Gpt2`].
    SmolLm,
    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    Llama3,
}

impl Splitter {
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        match name {
            "gpt-2" | "gpt2" => Some(Self::Gpt2),
            "smollm" => Some(Self::SmolLm),
            "llama-bpe" | "llama3" | "llama-v3" => Some(Self::Llama3),
            _ => None,
        }
    }

    /// Hands out the pieces of `text` in order; joined, they are `text`.
    pub(crate) fn split<'a>(self, text: &'a str, mut piece: impl FnMut(&'a str)) {
        match self {
            Self::Gpt2 => each(text, gpt2_piece, piece),
            Self::Llama3 => each(text, llama3_piece, piece),
            Self::SmolLm => {
                for part in text.split_inclusive(char::is_numeric) {
                    let digit = part.chars().next_back().filter(|c| c.is_numeric());
                    let (before, digit) = part.split_at(part.len() - digit.map_or(0, char::len_utf8));
                    each(before, gpt2_piece, &mut piece);
                    if !digit.is_empty() {
                        piece(digit);
                    }
                }
            }
        }
    }
}

fn each<'a>(text: &'a str, length: fn(&str) -> usize, mut piece: impl FnMut(&'a str)) {
    let mut rest = text;
    while !rest.is_empty() {
        let (next, after) = rest.split_at(length(rest));
        piece(next);
        rest = after;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Number,
    Space,
    Other,
}

fn class(c: char) -> Class {
    if c.is_ascii() {
        return match c {
            'a'..='z' | 'A'..='Z' => Class::Letter,
            '0'..='9' => Class::Number,
            ' ' | '\t'..='\r' => Class::Space,
            _ => Class::Other,
        };
    }
    // `char::is_alphabetic` would not do: it holds marks and numerals that are no letters.
    match c.general_category_group() {
        GeneralCategoryGroup::Letter => Class::Letter,
        GeneralCategoryGroup::Number => Class::Number,
        _ if c.is_whitespace() => Class::Space,
        _ => Class::Other,
    }
}

/// The length of the characters of one class at the start.
fn run(text: &str, of: Class) -> usize {
    text.find(|c| class(c) != of).unwrap_or(text.len())
}

fn first(text: &str) -> Option<(char, Class)> {
    text.chars().next().map(|c| (c, class(c)))
}

const CONTRACTIONS: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];

fn gpt2_piece(text: &str) -> usize {
    if let Some(short) = CONTRACTIONS.iter().find(|short| text.starts_with(**short)) {
        return short.len();
    }
    let body = text.strip_prefix(' ').unwrap_or(text);
    match first(body) {
        Some((_, of)) if of != Class::Space => text.len() - body.len() + run(body, of),
        _ => spaces(text),
    }
}

fn llama3_piece(text: &str) -> usize {
    let same = |short: &&&str| text.get(..short.len()).is_some_and(|start| start.eq_ignore_ascii_case(short));
    if let Some(short) = CONTRACTIONS.iter().find(same) {
        return short.len();
    }
    let Some((c, of)) = first(text) else {
        return 0;
    };
    let after = &text[c.len_utf8()..];
    match of {
        Class::Letter => return run(text, Class::Letter),
        Class::Number => {
            let digits = &text[..run(text, Class::Number)];
            return digits.char_indices().nth(3).map_or(digits.len(), |(at, _)| at);
        }
        Class::Space | Class::Other => {}
    }
    if !matches!(c, '\r' | '\n') {
        let letters = run(after, Class::Letter);
        if letters > 0 {
            return c.len_utf8() + letters;
        }
    }
    let body = text.strip_prefix(' ').unwrap_or(text);
    let marks = run(body, Class::Other);
    if marks > 0 {
        let rest = &body[marks..];
        let line_ends = rest.len() - rest.trim_start_matches(['\r', '\n']).len();
        return text.len() - body.len() + marks + line_ends;
    }
    match text[..run(text, Class::Space)].rfind(['\r', '\n']) {
        Some(last) => last + 1,
        None => spaces(text),
    }
}

/// `\s+(?!\S)|\s+`: white space, without its last character where a word follows.
fn spaces(text: &str) -> usize {
    let all = &text[..run(text, Class::Space)];
    let Some((last, _)) = all.char_indices().next_back() else {
        return 0;
    };
    if last == 0 || all.len() == text.len() { all.len() } else { last }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(splitter: Splitter, text: &str) -> Vec<&str> {
        let mut pieces = Vec::new();
        splitter.split(text, |piece| pieces.push(piece));
        pieces
    }

    #[test]
    fn as_the_patterns_do() {
        fn check(splitter: Splitter, text: &str, expect: &[&str]) {
            assert_eq!(pieces(splitter, text), expect, "{text:?}");
        }
        use Splitter::{Gpt2, Llama3, SmolLm};
        check(Gpt2, "", &[]);
        check(Gpt2, "Hello world's  end\n", &["Hello", " world", "'s", " ", " end", "\n"]);
        check(Gpt2, "a''s 'S 12ab!? \t x", &["a", "''", "s", " '", "S", " 12", "ab", "!?", " \t", " x"]);
        check(Gpt2, "\n\nx \u{a0}é\u{301}語  ", &["\n", "\n", "x", " ", "\u{a0}", "é", "\u{301}", "語", "  "]);
        check(SmolLm, "in 2024,  ½x", &["in", " ", "2", "0", "2", "4", ",", "  ", "½", "x"]);
        check(
            Llama3,
            "I'LL (see) 12345\n\n  x !\n\n",
            &["I", "'LL", " (", "see", ")", " ", "123", "45", "\n\n", " ", " x", " !\n\n"],
        );
        check(Llama3, "a\t\tb \n c  ", &["a", "\t", "\tb", " \n", " c", "  "]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in r"([a-c'é語0-9½ \n\t\r!(\u{a0}\u{301}]|'s|'LL){0,30}") {
            for splitter in [Splitter::Gpt2, Splitter::SmolLm, Splitter::Llama3] {
                let found = pieces(splitter, &text);
                prop_assert_eq!(found.concat(), text.as_str());
                prop_assert!(found.iter().all(|piece| !piece.is_empty()));
            }
        }
    }
}

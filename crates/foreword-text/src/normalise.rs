//! One form for every text from outside, made before it is hashed.
//!
//! A note saved by another editor with other line ends is the same Version; and no control character reaches a prompt, where
//! a terminal or a model could be led astray by it.

use std::borrow::Cow;

const BOM: char = '\u{feff}';

/// The uniform form of `text`: no byte order mark, LF line ends, no control characters but LF and tab, no blank lines at its
/// start, no white space at its end.
pub fn normalise(text: &str) -> Cow<'_, str> {
    let kept = trim(text);
    match replace_controls(kept) {
        Some(replaced) => Cow::Owned(replaced),
        None => Cow::Borrowed(kept),
    }
}

/// White space that is white space after [`replace_controls`] too: otherwise a second run would trim what the first did not.
fn is_lasting_space(c: char) -> bool {
    c.is_whitespace() && (matches!(c, '\n' | '\t' | '\r') || !c.is_control())
}

fn trim(text: &str) -> &str {
    let mut text = text;
    loop {
        let bare = text.trim_start_matches(BOM);
        let indented = bare.trim_start_matches(is_lasting_space);
        let blank = &bare[..bare.len() - indented.len()];
        let lines = blank.rfind(['\n', '\r']).map_or(0, |end| end + 1);
        let rest = &bare[lines..];
        if rest.len() == text.len() {
            return text.trim_end_matches(is_lasting_space);
        }
        text = rest;
    }
}

/// CRLF and CR as LF, every other control character but LF and tab as U+FFFD; nothing where there are none.
pub fn replace_controls(text: &str) -> Option<String> {
    // Chunks, because the compiler turns the check of a whole chunk into a few vector instructions: plain text costs no more
    // than reading it. 0xC2 starts the two-byte C1 controls, and also harmless characters that the loop below lets through.
    const CHUNK: usize = 64;
    let suspect = |byte: u8| matches!(byte, 0x00..0x20 | 0x7f | 0xc2) && byte != b'\n' && byte != b'\t';
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut copied = 0;
    for (index, chunk) in bytes.chunks(CHUNK).enumerate() {
        if !chunk.iter().fold(false, |any, byte| any | suspect(*byte)) {
            continue;
        }
        let start = index * CHUNK;
        for (at, byte) in (start..).zip(chunk) {
            let (width, instead) = match *byte {
                b'\n' | b'\t' => continue,
                b'\r' if bytes.get(at + 1) == Some(&b'\n') => (1, ""),
                b'\r' => (1, "\n"),
                0x00..0x20 | 0x7f => (1, "\u{fffd}"),
                0xc2 if matches!(bytes.get(at + 1), Some(0x80..=0x9f)) => (2, "\u{fffd}"),
                _ => continue,
            };
            out.push_str(&text[copied..at]);
            out.push_str(instead);
            copied = at + width;
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn uniform() {
        fn check(text: &str, expect: &str) {
            assert_eq!(normalise(text), expect, "{text:?}");
        }
        check("", "");
        check("a", "a");
        check("\u{feff}a", "a");
        check("a\u{feff}b", "a\u{feff}b");
        check("a\r\nb\rc\r\r\nd", "a\nb\nc\n\nd");
        check("a\tb\0c\u{1b}[0m\u{7f}", "a\tb\u{fffd}c\u{fffd}[0m\u{fffd}");
        check("é\u{85}\u{a0}\u{9f}x", "é\u{fffd}\u{a0}\u{fffd}x");
        check("\n \t\r\n  indented\n\n", "  indented");
        check("\u{feff}\n\u{feff} \n\u{feff}x", "x");
        check("line  \nline \u{a0}\n", "line  \nline");
        check(" \n \r ", "");
        check("x\u{b}", "x\u{fffd}");
        check("\u{85}\nx", "\u{fffd}\nx");
        check("a\r", "a");
        let long = "x".repeat(63);
        check(&format!("{long}\r\ny{long}\u{80}"), &format!("{long}\ny{long}\u{fffd}"));
    }

    #[test]
    fn borrowed_where_nothing_is_replaced() {
        for text in ["plain °C\ntext", "\u{feff}\n plain \n"] {
            assert!(matches!(normalise(text), Cow::Borrowed(_)), "{text:?}");
        }
    }

    fn nasty() -> impl Strategy<Value = String> {
        #[rustfmt::skip]
        const PIECES: &[&str] = &[
            "\u{feff}", "\n", "\r", "\r\n", " ", "\t", "\u{b}", "\u{c}", "\u{85}", "\u{a0}", "\u{2028}", "\u{200b}", "\0",
            "\u{7f}", "\u{9b}", "a", "é", "°", "語", "long enough to fill a chunk of the fast path",
        ];
        prop::collection::vec(prop::sample::select(PIECES), 0..24).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn twice_is_once(text in nasty()) {
            let once = normalise(&text);
            prop_assert_eq!(normalise(&once), once.as_ref());
            prop_assert!(!once.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }

        #[test]
        fn as_the_slow_way(text in nasty()) {
            let slow: String = text
                .replace("\r\n", "\n")
                .replace('\r', "\n")
                .chars()
                .map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c })
                .collect();
            prop_assert_eq!(replace_controls(&text).unwrap_or(text), slow);
        }
    }
}

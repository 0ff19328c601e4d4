//! Splits text into words for keyword search, so that `readFile`, `read_file` and "reads the file" match.
//!
//! Words are in lower case, without accents, in compatibility form (NFKC). An identifier gives its parts and their concatenation.
//! Text in Chinese, Japanese or Korean, which has no spaces, gives each character and each pair.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;

/// Longer words are blobs; what stands behind this many characters is not looked at.
const MAX_CHARS: usize = 64;

/// Fewer letters before a number are part of a name (`mp3`, `h264`), not a word of their own.
const MIN_NUMBERED: usize = 3;

/// Words that hold a sentence together, sorted. In a corpus of tool descriptions "me" is rare; that does not make it telling.
#[rustfmt::skip]
const STOP_WORDS: [&str; 119] = [
    "a", "about", "above", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because",
    "been", "before", "being", "below", "between", "both", "but", "by", "can", "could", "did", "do", "does", "doing", "down",
    "during", "each", "few", "for", "from", "further", "had", "has", "have", "having", "he", "her", "here", "hers", "him",
    "his", "how", "i", "if", "in", "into", "is", "it", "its", "itself", "just", "let", "like", "me", "more", "most", "my",
    "no", "nor", "not", "now", "of", "off", "on", "once", "only", "or", "other", "our", "out", "over", "own", "please", "same",
    "she", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this",
    "those", "through", "to", "too", "under", "until", "up", "very", "was", "we", "were", "what", "when", "where", "which",
    "while", "who", "whom", "why", "will", "with", "would", "you", "your",
];

/// Whether a folded word says nothing about what is asked for.
pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Calls `found` with each word of `text`, in order, folded but not stemmed.
pub fn each_word(text: &str, mut found: impl FnMut(&str)) {
    let mut buffer = String::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        if !is_word_char(next) {
            at += next.len_utf8();
            continue;
        }
        let len = text[at..].find(|c| !is_word_char(c)).unwrap_or(text.len() - at);
        let run = &text[at..at + len];
        // "Anna's", "don't": the letter behind the apostrophe says nothing.
        let mut before = text[..at].chars().rev();
        let ending = run.len() == 1 && matches!(before.next(), Some('\'' | '’')) && before.next().is_some_and(is_word_char);
        if !ending {
            if run.is_ascii() {
                identifier(run, &mut buffer, &mut found);
            } else {
                other_scripts(run, &mut buffer, &mut found);
            }
        }
        at += len;
    }
}

/// The words of `text`, stemmed.
pub fn words(text: &str) -> Vec<String> {
    let stems = Stems::default();
    let mut words = Vec::new();
    each_word(text, |word| words.push(stems.stem(word).into_owned()));
    words
}

/// `readFile` as `read file`: how a name is read by the embedding model, which does not know identifiers.
pub fn spoken(name: &str) -> String {
    let mut spoken = String::with_capacity(name.len() + 8);
    let mut before = None;
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        if matches!(c, '_' | '.' | '-' | '/' | ':') || c.is_whitespace() {
            before = None;
            continue;
        }
        let mut rest = chars.clone();
        let starts = before.is_none_or(|before| is_boundary(before, c, [rest.next(), rest.next()]));
        if starts && !spoken.is_empty() {
            spoken.push(' ');
        }
        spoken.extend(c.to_lowercase());
        before = Some(c);
    }
    spoken
}

/// Takes the endings off English words; words in other alphabets stay as they are.
pub struct Stems(Stemmer);

impl Default for Stems {
    fn default() -> Self {
        Self(Stemmer::create(Algorithm::English))
    }
}

impl Stems {
    /// The stem of a folded word.
    pub fn stem<'a>(&self, word: &'a str) -> Cow<'a, str> {
        if word.bytes().all(|byte| byte.is_ascii_lowercase()) { self.0.stem(word) } else { Cow::Borrowed(word) }
    }
}

fn is_word_char(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() || c == '_' } else { c.is_alphanumeric() || is_accent(c) }
}

/// Accents of Latin, Greek and Cyrillic letters. The vowel signs of other scripts are letters and stay.
fn is_accent(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

fn is_cjk(c: char) -> bool {
    matches!(u32::from(c), 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

/// Whether a word begins with `c`. The last capital of a row begins one (`HTTPServer`), unless only the `s` of a plural follows (`URLs`).
fn is_boundary(before: char, c: char, behind: [Option<char>; 2]) -> bool {
    let is_lower = |c: Option<char>| c.is_some_and(char::is_lowercase);
    let plural = behind[0] == Some('s') && !is_lower(behind[1]);
    c.is_uppercase() && (!before.is_uppercase() || (is_lower(behind[0]) && !plural))
}

/// An ASCII run: its parts, and all of it joined where there are several.
fn identifier(run: &str, buffer: &mut String, found: &mut impl FnMut(&str)) {
    let bytes = &run.as_bytes()[..run.len().min(MAX_CHARS)];
    buffer.clear();
    let mut part = 0;
    let mut parts = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let c = char::from(*byte);
        let near = |at: Option<usize>| at.and_then(|at| bytes.get(at)).map(|byte| char::from(*byte));
        let behind = [near(at.checked_add(1)), near(at.checked_add(2))];
        let ends = c == '_' || near(at.checked_sub(1)).is_some_and(|before| before != '_' && is_boundary(before, c, behind));
        if ends && part < buffer.len() {
            numbered(&buffer[part..], found);
            part = buffer.len();
            parts += 1;
        }
        if c != '_' {
            buffer.push(c.to_ascii_lowercase());
        }
    }
    if part < buffer.len() {
        numbered(&buffer[part..], found);
        parts += 1;
    }
    if parts > 1 {
        found(buffer);
    }
}

/// A part of an identifier; where a number ends it, also without: `server2` is a server.
fn numbered(part: &str, found: &mut impl FnMut(&str)) {
    let word = part.trim_end_matches(|c: char| c.is_ascii_digit());
    if word.len() < part.len() && word.len() >= MIN_NUMBERED {
        found(word);
    }
    found(part);
}

fn other_scripts(run: &str, buffer: &mut String, found: &mut impl FnMut(&str)) {
    let folded = run.chars().take(MAX_CHARS * 64).nfkd().filter(|c| !is_accent(*c)).nfc().flat_map(char::to_lowercase);
    let mut previous: Option<char> = None;
    let mut pair = String::new();
    let mut length = 0;
    buffer.clear();
    for c in folded {
        if is_cjk(c) {
            flush(buffer, found);
            length = 0;
            pair.clear();
            pair.extend(previous);
            pair.push(c);
            found(&pair[previous.map_or(0, char::len_utf8)..]);
            if previous.is_some() {
                found(&pair);
            }
            previous = Some(c);
        } else {
            previous = None;
            if !is_word_char(c) || c == '_' {
                flush(buffer, found);
                length = 0;
            } else if length < MAX_CHARS {
                buffer.push(c);
                length += 1;
            }
        }
    }
    flush(buffer, found);
}

fn flush(buffer: &mut String, found: &mut impl FnMut(&str)) {
    if !buffer.is_empty() {
        found(buffer);
        buffer.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expect: &str) {
        assert_eq!(words(text).join(" "), expect, "{text}");
    }

    #[test]
    fn words_of_all_kinds() {
        check("Reads the files.", "read the file");
        check("readFile", "read file readfil");
        check("read_file", "read file readfil");
        check("HTTPServer2", "http server server2 httpserver2");
        check("getURLs", "get url geturl");
        check("URLs", "url");
        check("listIDsOf", "list id of listidsof");
        check("DNSsec MySQLServer", "dn ssec dnssec my sql server mysqlserv");
        check("step12 mp3 f28", "step step12 mp3 f28");
        check("fs.readFile", "fs read file readfil");
        check("__init__", "init");
        check("Anna's don't o'clock", "anna don o clock");
        check("size 'M' or 'L'", "size m or l");
        check("Café CAFE\u{301} naïve", "cafe cafe naiv");
        check("ﬁle ２０２５", "file 2025");
        check("ΑΘΗΝΑ Привет", "αθηνα привет");
        check("東京都", "東 京 東京 都 京都");
        check("GPT东京", "gpt 东 京 东京");
        check("2025-09-01", "2025 09 01");
        check(" \n…", "");
    }

    #[test]
    fn names_are_spoken() {
        for (name, expect) in [
            ("readFile", "read file"),
            ("todo_manager.handle-action", "todo manager handle action"),
            ("HTTPServer", "http server"),
            ("getURLs", "get urls"),
            ("Payment_1_MakePayment", "payment 1 make payment"),
            ("plain words", "plain words"),
        ] {
            assert_eq!(spoken(name), expect);
        }
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
        assert!(is_stop_word("me") && !is_stop_word("piano"));
    }

    #[test]
    fn a_blob_is_cut() {
        let mut longest = 0;
        each_word(&"x".repeat(100_000), |word| longest = longest.max(word.len()));
        assert_eq!(longest, MAX_CHARS);
    }

    proptest! {
        #[test]
        fn any_text_has_words_without_panic(text in "\\PC*") {
            each_word(&text, |word| assert!(!word.is_empty()));
        }
    }
}

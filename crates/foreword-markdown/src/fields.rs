//! Inline fields as the Dataview plugin reads them: `[key:: value]` and `(key:: value)` anywhere in a line, `Key:: value` as a whole line,
//! and the dates that tasks carry behind an emoji.

use super::inline::{Hidden, Inline};

/// Longer lines hold no fields, as in Dataview.
const LINE_LIMIT: usize = 32_768;

/// Dates of tasks: the key, and the emoji that stand for it.
const DATES: [(&str, &[char]); 5] = [
    ("created", &['\u{2795}']),
    ("start", &['\u{1f6eb}']),
    ("scheduled", &['\u{23f3}', '\u{231b}']),
    ("due", &['\u{1f4c5}', '\u{1f4c6}', '\u{1f5d3}']),
    ("completion", &['\u{2705}']),
];

/// Whether a line may be a field as a whole. That of a task may not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    Yes,
    No,
}

/// The fields of a text of which `line` starts at `offset`; what is hidden there is no mark of a field.
pub(super) fn read(line: &str, offset: usize, inline: &Inline, whole: Whole) -> Vec<(String, String)> {
    if line.len() > LINE_LIMIT || !line.contains("::") {
        return Vec::new();
    }
    let fields = bracketed(line, offset, inline);
    if !fields.is_empty() || whole == Whole::No {
        return fields;
    }
    whole_line(line, offset, inline).into_iter().collect()
}

/// `[key:: value]` and `(key:: value)`. A value may hold pairs of brackets; a key may hold none.
fn bracketed(line: &str, offset: usize, inline: &Inline) -> Vec<(String, String)> {
    let closing = match_brackets(line);
    let mut fields = Vec::new();
    let mut opener: Option<usize> = None;
    // Fields in one kind of bracket do not nest: the inside of the last one is passed over.
    let mut past = [0, 0];
    let bytes = line.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'[' | b'(' => opener = Some(at).filter(|_| !is_hidden(inline, offset + at)),
            b']' | b')' => opener = None,
            b':' if bytes.get(at + 1) == Some(&b':') => {
                let Some(start) = opener.take() else { continue };
                let past = &mut past[usize::from(bytes.get(start) == Some(&b'('))];
                let Some(end) = closing.get(start).copied().filter(|end| *end > at && start >= *past) else { continue };
                let key = bare_key(line.get(start + 1..at).unwrap_or_default());
                if !key.is_empty() {
                    fields.push((key.to_owned(), line.get(at + 2..end).unwrap_or_default().trim().to_owned()));
                    *past = end;
                }
            }
            _ => {}
        }
    }
    fields
}

/// For each opening bracket the place of its closing one, or 0. Each kind is counted by itself.
fn match_brackets(line: &str) -> Vec<usize> {
    let mut closing = vec![0; line.len()];
    let (mut square, mut round) = (Vec::new(), Vec::new());
    let mut escaped = false;
    for (at, byte) in line.bytes().enumerate() {
        if !escaped {
            let opened = match byte {
                b'[' => {
                    square.push(at);
                    None
                }
                b'(' => {
                    round.push(at);
                    None
                }
                b']' => square.pop(),
                b')' => round.pop(),
                _ => None,
            };
            if let Some(place) = opened.and_then(|opened: usize| closing.get_mut(opened)) {
                *place = at;
            }
        }
        escaped = byte == b'\\' && !escaped;
    }
    closing
}

/// `Key:: value`: marks before the key and emphasis around it do not count.
fn whole_line(line: &str, offset: usize, inline: &Inline) -> Option<(String, String)> {
    let at = line.find("::")?;
    if is_hidden(inline, offset + at) {
        return None;
    }
    let key = line.get(..at)?.trim();
    let key = key.trim_start_matches(|c: char| !(c.is_alphabetic() || c.is_ascii_digit() || c == '_'));
    let key = key.trim_end_matches(['_', '*', '~', '`']).trim();
    let value = line.get(at + 2..)?.trim().trim_end_matches("%%").trim_end();
    (!key.is_empty() && key.chars().all(is_key_char)).then(|| (key.to_owned(), value.to_owned()))
}

fn bare_key(key: &str) -> &str {
    key.trim().trim_matches(['*', '_', '~', '`']).trim()
}

fn is_key_char(c: char) -> bool {
    let is_emoji = matches!(c, '\u{200d}' | '\u{fe0f}' | '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}');
    c.is_alphabetic() || c.is_ascii_digit() || c.is_whitespace() || matches!(c, '_' | '/' | '-') || is_emoji
}

/// A comment hides tags and links but, as in Dataview, no fields.
fn is_hidden(inline: &Inline, at: usize) -> bool {
    inline.hidden_as(at).is_some_and(|kind| kind != Hidden::Comment)
}

/// The dates behind an emoji: `📅 2024-01-31`, the first of each kind.
pub(super) fn dates(text: &str) -> Vec<(String, String)> {
    if text.is_ascii() {
        return Vec::new();
    }
    let mut found: Vec<(usize, String, String)> = Vec::new();
    for (key, emoji) in DATES {
        let mut after = text.char_indices().filter(|(_, c)| emoji.contains(c)).map(|(at, c)| (at, text.get(at + c.len_utf8()..)));
        let first = after.find_map(|(at, rest)| Some((at, date(rest?.trim_start_matches('\u{fe0f}').trim_start())?)));
        found.extend(first.map(|(at, date)| (at, key.to_owned(), date.to_owned())));
    }
    found.sort_by_key(|(at, ..)| *at);
    found.into_iter().map(|(_, key, date)| (key, date)).collect()
}

fn date(text: &str) -> Option<&str> {
    let date = text.get(..10)?;
    let fits = |(at, byte): (usize, u8)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() };
    date.bytes().enumerate().all(fits).then_some(date)
}

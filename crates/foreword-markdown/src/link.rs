//! What a link says: the inside of `[[…]]`, the destination of `[…](…)`, and the definitions of `[…][label]`.

use std::ops::Range;

use crate::note::Part;

/// Deeper parentheses in a destination are not a link; so no text makes the search for their end long.
const MAX_PARENTHESES: usize = 32;
/// Longest label of a definition, as in `CommonMark`.
const MAX_LABEL: usize = 999;

/// What stands inside `[[…]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inner {
    /// The note or file; empty for the note itself.
    pub target: String,
    /// What follows the `#`.
    pub part: Option<Part>,
    /// What follows the `|`.
    pub text: Option<String>,
}

/// Reads what stands inside `[[…]]`. In a table the bar is written `\|`.
pub fn link(inner: &str) -> Inner {
    let (address, text) = match inner.split_once('|') {
        Some((address, text)) => (address.strip_suffix('\\').unwrap_or(address), Some(text.trim().replace("\\|", "|"))),
        None => (inner, None),
    };
    let (target, part) = split(address);
    Inner { target: target.trim().replace('\u{a0}', " "), part, text: text.filter(|text| !text.is_empty()) }
}

/// Parts the target from what follows its first `#`.
fn split(address: &str) -> (&str, Option<Part>) {
    let Some((target, sub)) = address.split_once('#') else { return (address, None) };
    let steps = || sub.split('#').map(str::trim).filter(|step| !step.is_empty());
    let part = steps().next_back().map(|last| match last.strip_prefix('^') {
        Some(id) => Part::Block(id.to_owned()),
        None => Part::Heading(steps().map(str::to_owned).collect()),
    });
    (target, part)
}

/// Where a markdown destination leads. An address or a data URI stays whole and as written.
pub(super) fn destination(written: &str) -> (String, Option<Part>) {
    if is_external(written) {
        return (written.to_owned(), None);
    }
    let decoded = decode(written);
    let (target, part) = split(&decoded);
    (target.trim().to_owned(), part)
}

/// Whether a destination begins with a scheme such as `https:`. One letter is a drive.
pub(super) fn is_external(destination: &str) -> bool {
    let scheme = destination
        .bytes()
        .take(33)
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-'))
        .count();
    (2..=32).contains(&scheme)
        && destination.as_bytes().get(scheme) == Some(&b':')
        && destination.starts_with(|first: char| first.is_ascii_alphabetic())
}

/// Takes backslashes before punctuation and percent signs back. What is not UTF-8 afterwards stays as written.
fn decode(written: &str) -> String {
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'\\', [next, tail @ ..]) if next.is_ascii_punctuation() => {
                bytes.push(*next);
                rest = tail;
            }
            (b'%', [high, low, tail @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high * 16 + low);
                    rest = tail;
                }
                _ => bytes.push(first),
            },
            _ => bytes.push(first),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| written.to_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// The destination in `(destination "title")` at the start of a text, and the length of the whole.
pub(super) fn parentheses(text: &str) -> Option<(Range<usize>, usize)> {
    let start = 1 + blanks(text.get(1..)?);
    let (destination, at) = bare_destination(text, start)?;
    let at = at + title(text.get(at..)?);
    (text.as_bytes().get(at) == Some(&b')')).then_some((destination, at + 1))
}

/// A destination and where it ends: `<a b>`, or up to a blank or a parenthesis that it does not open.
fn bare_destination(text: &str, start: usize) -> Option<(Range<usize>, usize)> {
    let rest = text.get(start..)?;
    if rest.starts_with('<') {
        let end = rest.bytes().skip(1).position(|byte| matches!(byte, b'>' | b'<' | b'\n'))? + 1;
        return (rest.as_bytes().get(end) == Some(&b'>')).then_some((start + 1..start + end, start + end + 1));
    }
    let mut depth = 0;
    let mut escaped = false;
    let mut end = rest.len();
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b' ' | b'\t' | b'\n' => {
                end = at;
                break;
            }
            b'(' if !escaped => depth += 1,
            b')' if !escaped && depth == 0 => {
                end = at;
                break;
            }
            b')' if !escaped => depth -= 1,
            _ => {}
        }
        if depth > MAX_PARENTHESES {
            return None;
        }
        escaped = byte == b'\\' && !escaped;
    }
    (depth == 0).then_some((start..start + end, start + end))
}

/// The length of blanks, a title if there is one, and blanks.
fn title(text: &str) -> usize {
    let start = blanks(text);
    let rest = text.get(start..).unwrap_or_default();
    let close = match rest.bytes().next().filter(|_| start > 0) {
        Some(b'(') => b')',
        Some(quote @ (b'"' | b'\'')) => quote,
        _ => return start,
    };
    let is_end = |byte: &u8| *byte == close || (close == b')' && *byte == b'(');
    let Some(end) = rest.bytes().skip(1).position(|byte| is_end(&byte)).map(|end| end + 1) else { return start };
    if rest.as_bytes().get(end) != Some(&close) {
        return start;
    }
    let end = start + end + 1;
    end + blanks(text.get(end..).unwrap_or_default())
}

fn blanks(text: &str) -> usize {
    text.bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n')).count()
}

/// Label and destination of a line `[label]: destination "title"`.
pub(super) fn definition(line: &str) -> Option<(Range<usize>, Range<usize>)> {
    let label = line.strip_prefix('[').filter(|label| !label.starts_with('^'))?;
    let end = label.bytes().take(MAX_LABEL + 1).position(|byte| matches!(byte, b']' | b'['))?;
    let start = end + 3 + blanks(label.get(end..)?.strip_prefix("]:")?);
    label.get(..end).filter(|label| !label.trim().is_empty())?;
    let (destination, at) = bare_destination(line, start)?;
    let at = at + title(line.get(at..)?);
    (!destination.is_empty() && at == line.len()).then_some((1..end + 1, destination))
}

/// A label as labels are compared: without case, blanks collapsed.
pub(super) fn label(text: &str) -> Option<String> {
    if text.len() > MAX_LABEL || text.contains(['[', ']']) {
        return None;
    }
    let words: Vec<_> = text.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" ").to_lowercase())
}

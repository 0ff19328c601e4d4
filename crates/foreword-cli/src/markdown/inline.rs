//! The markers within a line: where one ends, what it says, and whether more has to come before that is known.
//!
//! A marker that is never closed is what it looks like: characters. That is why what it opens is kept back until it is closed, the line
//! ends, or it has become too long to be waited for.

use super::flow::Style;

/// So many bytes are kept back for the end of a marker.
pub(super) const LONGEST: usize = 600;

/// Spans in spans, deeper than anyone writes.
const DEEPEST: usize = 6;

/// A stretch of a line that can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unit<'a> {
    /// Characters.
    Text(&'a str),
    /// `` `code` ``
    Code(&'a str),
    /// `**words**` and the like, with more in them.
    Span(Style, &'a str),
    /// `[words](address)`
    Link(&'a str, &'a str),
    /// `[^1]`
    Citation(&'a str),
    /// `[[Note]]`, as it is.
    Note(&'a str),
}

/// The start of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// So many bytes of it are a unit.
    Take(usize, Unit<'a>),
    /// It cannot be told before this character comes, or any one where there is none, or the line ends.
    Wait(Option<char>),
}

/// Whether more of a line may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Open,
    Ended,
}

/// What the search for the end of a marker came to.
enum Close<'a> {
    At(usize, Unit<'a>),
    /// It is not there so far.
    Missing(Option<char>),
    /// There is none, whatever comes.
    Never,
}

const SPECIAL: [char; 7] = ['\\', '`', '*', '_', '~', '[', '!'];

/// The first unit of `rest`, which is not empty and stands behind the character `before`.
pub(super) fn next(rest: &str, before: Option<char>, line: Line) -> Step<'_> {
    let plain = rest.find(SPECIAL).unwrap_or(rest.len());
    if plain > 0 {
        return Step::Take(plain, Unit::Text(&rest[..plain]));
    }
    let first = rest.chars().next().unwrap_or_default();
    let run = rest.len() - rest.trim_start_matches(first).len();
    let behind = rest[run..].chars().next();
    // A run at the end may grow.
    if behind.is_none() && line == Line::Open && rest.len() <= LONGEST {
        return Step::Wait(None);
    }
    let (marker, found) = match first {
        '\\' => match rest[1..].chars().next() {
            Some(c) if c.is_ascii_punctuation() => return Step::Take(2, Unit::Text(&rest[1..2])),
            _ => (1, Close::Never),
        },
        '`' => (run, code(rest, run, line)),
        '*' | '_' | '~' => (run, span(rest, first, run, before, line)),
        '[' => (1, bracket(rest, line)),
        _ => (1, if behind == Some('[') && run == 1 { image(rest, line) } else { Close::Never }),
    };
    match found {
        Close::At(len, unit) => Step::Take(len, unit),
        Close::Missing(wait) if line == Line::Open && rest.len() <= LONGEST => Step::Wait(wait),
        Close::Missing(_) | Close::Never => Step::Take(marker, Unit::Text(&rest[..marker])),
    }
}

/// A run of `run` backticks is closed by one of the same length.
fn code(rest: &str, run: usize, line: Line) -> Close<'_> {
    let mut at = run;
    while let Some(found) = rest[at..].find('`') {
        let start = at + found;
        at = start + run_of(&rest[start..], '`');
        if at == rest.len() && line == Line::Open {
            return Close::Missing(None);
        }
        if at - start == run {
            return Close::At(at, Unit::Code(unpadded(&rest[run..start])));
        }
    }
    Close::Missing(Some('`'))
}

/// One space on either side belongs to the marker, where there is more than spaces between them.
fn unpadded(text: &str) -> &str {
    let inner = text.strip_prefix(' ').and_then(|text| text.strip_suffix(' '));
    inner.filter(|inner| !inner.trim().is_empty()).unwrap_or(text)
}

/// A run of one to three stars or underscores, or of two tildes, is closed by one of the same length that follows a word.
fn span(rest: &str, marker: char, run: usize, before: Option<char>, line: Line) -> Close<'_> {
    let style = match (marker, run) {
        ('~', 2) => Style::STRUCK,
        ('*' | '_', 1) => Style::ITALIC,
        ('*' | '_', 2) => Style::BOLD,
        ('*' | '_', 3) => Style::BOLD.with(Style::ITALIC),
        _ => return Close::Never,
    };
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let opens = rest[run..].chars().next().is_some_and(|c| !c.is_whitespace()) && !(marker == '_' && is_word(before));
    if !opens {
        return Close::Never;
    }
    let mut at = run;
    let mut last = None;
    while let Some(c) = rest[at..].chars().next() {
        let start = at;
        at += c.len_utf8();
        if c == '\\' {
            at += rest[at..].chars().next().map_or(0, char::len_utf8);
        } else if c == '`' {
            let ticks = run_of(&rest[start..], '`');
            match code(&rest[start..], ticks, line) {
                Close::At(len, _) => at = start + len,
                Close::Missing(wait) if line == Line::Open => return Close::Missing(wait),
                Close::Missing(_) | Close::Never => at = start + ticks,
            }
        } else if c == marker {
            at = start + run_of(&rest[start..], marker);
            let follower = rest[at..].chars().next();
            if follower.is_none() && line == Line::Open {
                return Close::Missing(None);
            }
            let closes = last.is_some_and(|c: char| !c.is_whitespace()) && !(marker == '_' && is_word(follower));
            if at - start == run && closes {
                return Close::At(at, Unit::Span(style, &rest[run..start]));
            }
        }
        last = Some(c);
    }
    Close::Missing(Some(marker))
}

/// `[[Note]]`, `[^1]` or `[words](address)`.
fn bracket(rest: &str, line: Line) -> Close<'_> {
    if rest.starts_with("[[") {
        return match rest.find("]]") {
            Some(end) if end > 2 => Close::At(end + 2, Unit::Note(&rest[..end + 2])),
            Some(_) => Close::Never,
            None => Close::Missing(Some(']')),
        };
    }
    if let Some(label) = rest.strip_prefix("[^") {
        return match label.find([']', ' ']) {
            Some(end) if end > 0 && label[end..].starts_with(']') => Close::At(end + 3, Unit::Citation(&label[..end])),
            Some(_) => Close::Never,
            None => Close::Missing(None),
        };
    }
    link(rest, line)
}

fn link(rest: &str, line: Line) -> Close<'_> {
    let Some(words) = enclosed(rest, ('[', ']')) else { return Close::Missing(Some(']')) };
    let after = &rest[words.len() + 2..];
    if after.is_empty() && line == Line::Open {
        return Close::Missing(None);
    }
    if !after.starts_with('(') {
        return Close::Never;
    }
    let Some(address) = enclosed(after, ('(', ')')) else { return Close::Missing(Some(')')) };
    let len = words.len() + address.len() + 4;
    if words.is_empty() || address.trim().is_empty() { Close::Never } else { Close::At(len, Unit::Link(words, address.trim())) }
}

fn image(rest: &str, line: Line) -> Close<'_> {
    match link(&rest[1..], line) {
        Close::At(len, unit) => Close::At(len + 1, unit),
        other => other,
    }
}

/// What stands between a bracket at the start and the one that closes it.
fn enclosed(text: &str, (open, close): (char, char)) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return Some(&text[1..at]);
            }
        }
    }
    None
}

fn run_of(text: &str, marker: char) -> usize {
    text.len() - text.trim_start_matches(marker).len()
}

/// Shows a unit piece by piece: `show_text` gets plain text and its style.
pub(super) fn show(unit: &Unit<'_>, style: Style, depth: usize, show_text: &mut dyn FnMut(&str, Style)) {
    match *unit {
        Unit::Text(text) => show_text(text, style),
        Unit::Code(text) | Unit::Note(text) => show_text(text, style.with(Style::CYAN)),
        Unit::Citation(label) => show_text(&format!("[{label}]"), style.with(Style::CYAN)),
        Unit::Link(words, address) => {
            whole(words, style.with(Style::UNDERLINE), depth, show_text);
            show_text(&format!(" ({address})"), style.with(Style::DIM));
        }
        Unit::Span(more, inner) => whole(inner, style.with(more), depth, show_text),
    }
}

/// Shows a text that will not go on.
fn whole(text: &str, style: Style, depth: usize, show_text: &mut dyn FnMut(&str, Style)) {
    if depth == DEEPEST {
        return show_text(text, style);
    }
    let (mut rest, mut before) = (text, None);
    while !rest.is_empty() {
        // Where nothing more comes there is nothing to wait for.
        let Step::Take(len, unit) = next(rest, before, Line::Ended) else { return show_text(rest, style) };
        show(&unit, style, depth + 1, show_text);
        before = rest[..len].chars().next_back();
        rest = &rest[len..];
    }
}

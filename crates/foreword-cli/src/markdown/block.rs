//! What kind a line is, from how it begins.

use unicode_width::UnicodeWidthStr as _;

use super::flow::{Lead, Style};
use super::inline::{LONGEST, Line};

/// Lists and quotes in one another, deeper than anyone writes.
const DEEPEST: usize = 8;
/// Wrapped lines are indented so far at most.
const WIDEST_PAD: usize = 16;
/// Longer numbers are no places in a list.
const MOST_DIGITS: usize = 9;

/// A line that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Words: what stands before them, what before the lines they are wrapped into, how they look, and where they begin.
    Words { first: Lead, lead: Lead, style: Style, from: usize },
    /// A row of a table.
    Row,
    /// A line across.
    Rule,
    /// Code follows: what stands before its frame, and the language.
    Fence { fence: Fence, first: Lead, language: String },
}

/// The marker around code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    marker: char,
    run: usize,
    pad: usize,
}

impl Fence {
    /// What stands before each of its lines.
    pub(super) fn indent(&self) -> String {
        " ".repeat(self.pad)
    }

    /// A line of code without the indentation that all of it has.
    pub(super) fn without_indent<'a>(&self, line: &'a str) -> &'a str {
        let spaces = line.bytes().take(self.pad).take_while(|byte| *byte == b' ').count();
        &line[spaces..]
    }

    /// Whether a line that begins like this could be the last.
    pub(super) fn may_close(&self, line: &str) -> bool {
        line.len() <= LONGEST && line.trim_matches(' ').chars().all(|c| c == self.marker)
    }

    /// Whether a line is the last.
    pub(super) fn closes(&self, line: &str) -> bool {
        self.may_close(line) && line.trim_matches(' ').len() >= self.run
    }
}

/// What a line begins with, so far in bytes.
enum Mark {
    /// More has to come.
    Unknown,
    /// Words.
    None,
    Heading(usize),
    Quote(usize),
    Bullet(usize),
    Number(usize),
    Rule,
    Row,
    Fence(char, usize),
}

/// Tells the kind of a line from what there is of it; none where more has to come.
pub(super) fn start(text: &str, line: Line) -> Option<Start> {
    let mut first = Lead::new();
    let mut lead = Lead::new();
    let mut from = 0;
    let mut quoted = false;
    for _ in 0..DEEPEST {
        let pad = run_of(&text[from..], ' ');
        let body = &text[from + pad..];
        let may_grow = line == Line::Open && text.len() <= LONGEST;
        let mark = mark(body, line, may_grow);
        if matches!(mark, Mark::Unknown) {
            return None;
        }
        if pad > 0 && !body.is_empty() {
            first.push((" ".repeat(pad), Style::PLAIN));
            lead.push((" ".repeat(pad.min(WIDEST_PAD)), Style::PLAIN));
        }
        from += pad;
        let mut both = |text: &str, style: Style, rest: &str| {
            first.push((text.to_owned(), style));
            lead.push((rest.to_owned(), style));
        };
        match mark {
            Mark::Quote(len) => {
                quoted = true;
                both("│ ", Style::DIM, "│ ");
                from += len;
            }
            Mark::Bullet(len) => {
                both("• ", Style::DIM, "  ");
                from += len;
            }
            Mark::Number(len) => {
                let number = text[from..from + len].trim_end();
                both(&format!("{number} "), Style::DIM, &" ".repeat(number.len() + 1));
                from += len;
            }
            Mark::Heading(run) => {
                let style = if run == 1 { Style::BOLD.with(Style::UNDERLINE) } else { Style::BOLD };
                from += run + run_of(&text[from + run..], ' ');
                return Some(Start::Words { first, lead, style, from });
            }
            Mark::Rule if from == 0 => return Some(Start::Rule),
            Mark::Row if from == 0 => return Some(Start::Row),
            Mark::Fence(marker, run) if !quoted => {
                let pad = first.iter().map(|(text, _)| text.width()).sum();
                let language = body[run..].trim().to_owned();
                return Some(Start::Fence { fence: Fence { marker, run, pad }, first, language });
            }
            Mark::Unknown | Mark::None | Mark::Rule | Mark::Row | Mark::Fence(..) => break,
        }
    }
    Some(Start::Words { first, lead, style: Style::PLAIN, from })
}

fn mark(body: &str, line: Line, may_grow: bool) -> Mark {
    let unless_more = |mark: Mark| if may_grow { Mark::Unknown } else { mark };
    let Some(marker) = body.chars().next() else { return unless_more(Mark::None) };
    let run = run_of(body, marker);
    let behind = body[run..].chars().next();
    // How long a run is, is known when it is over.
    let over = behind.is_some() || !may_grow;
    let spaced = behind.is_none_or(|c| c == ' ');
    match marker {
        '#' | '>' | '-' | '*' | '+' | '_' | '`' | '~' if !over => Mark::Unknown,
        '#' if run <= 6 && spaced => Mark::Heading(run),
        '>' => Mark::Quote(1 + usize::from(body[1..].starts_with(' '))),
        '-' | '*' | '+' if run == 1 && spaced => Mark::Bullet(body.len().min(2)),
        '-' | '*' | '_' if run >= 3 && body[run..].trim_matches(' ').is_empty() => match line {
            Line::Open => unless_more(Mark::None),
            Line::Ended => Mark::Rule,
        },
        '`' | '~' if run >= 3 && !body[run..].contains('`') => match line {
            Line::Open => unless_more(Mark::None),
            Line::Ended => Mark::Fence(marker, run),
        },
        '0'..='9' => number(body, unless_more(Mark::None)),
        '|' => Mark::Row,
        _ => Mark::None,
    }
}

/// `1. ` or `1) `; `short` where it ends before that can be told.
fn number(body: &str, short: Mark) -> Mark {
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    let mut behind = body[digits..].chars();
    match (behind.next(), behind.next()) {
        _ if digits > MOST_DIGITS => Mark::None,
        (None, _) | (Some('.' | ')'), None) => short,
        (Some('.' | ')'), Some(' ')) => Mark::Number(digits + 2),
        _ => Mark::None,
    }
}

fn run_of(text: &str, marker: char) -> usize {
    text.len() - text.trim_start_matches(marker).len()
}

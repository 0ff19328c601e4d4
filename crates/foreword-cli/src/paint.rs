//! Prints text on a terminal: colours if enabled, and no control characters from outside.

use std::fmt::Display;

use crate::markdown::wrapped;
use crate::terminal::Stream;

/// Colours, if enabled.
#[derive(Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    pub(crate) fn new(terminal: bool) -> Self {
        Self { on: terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }

    pub(crate) fn stderr() -> Self {
        Self::new(Stream::Stderr.is_terminal())
    }

    pub(crate) fn stdout() -> Self {
        Self::new(Stream::Stdout.is_terminal())
    }

    /// Whether colours are enabled.
    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    pub(crate) fn with(self, code: &str, text: impl Display) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// Whether a character could move the cursor or change the writing direction.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// Replaces characters that could move the cursor.
pub(crate) fn shown(text: &str) -> String {
    text.chars().map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect()
}

/// The same for a text of several lines.
pub(crate) fn shown_lines(text: &str) -> String {
    text.chars().map(|c| if is_unsafe(c) && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c }).collect()
}

/// A text on one line, cut to `limit` characters.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = shown(&line);
    if line.chars().count() <= limit { line } else { line.chars().take(limit.saturating_sub(1)).chain(['…']).collect() }
}

/// `1,204`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 note`, `2 notes`.
pub(crate) fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// The terminal's width, or `usize::MAX` without a terminal.
pub(crate) fn width(stream: Stream) -> usize {
    const USUAL: usize = 80;
    if !stream.is_terminal() {
        return usize::MAX;
    }
    terminal_size::terminal_size().map_or(USUAL, |(width, _)| usize::from(width.0))
}

/// Prints a dimmed remark about the result to standard error.
pub(crate) fn aside(text: &str) {
    let line = wrapped(text, width(Stream::Stderr), 0);
    eprintln!("{}", Paint::stderr().with("2", line));
}

/// Prints a note to standard error.
pub(crate) fn note(text: impl Display) {
    eprintln!("{} {text}", Paint::stderr().with("33", "note:"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, expect) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), expect);
        }
    }
}

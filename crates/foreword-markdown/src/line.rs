//! One line of a note, eaten from the left: columns for indentation (a tab reaches to the next multiple of four), bytes for the rest.

/// No indentation that decides anything is wider: three spaces, nine digits, a dot and four spaces.
const WIDEST_INDENT: usize = 32;

/// What is left of a line. It ends before trailing blanks.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    text: &'a str,
    /// Where the rest begins, in the whole text.
    pub(super) at: usize,
    /// Where the line ends, in the whole text.
    pub(super) end: usize,
    column: usize,
    /// Columns left of a tab that was eaten in part.
    spare: usize,
}

impl<'a> Line<'a> {
    /// The line of `text` between two offsets, without its line end.
    pub(super) fn new(text: &'a str, start: usize, end: usize) -> Self {
        let line = text.get(start..end).unwrap_or_default();
        Self { text, at: start, end: start + line.trim_end_matches([' ', '\t', '\r']).len(), column: 0, spare: 0 }
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    pub(super) fn is_blank(&self) -> bool {
        self.at >= self.end
    }

    /// Columns of blanks before the next character, as far as they matter.
    pub(super) fn indent(&self) -> usize {
        let mut columns = self.spare;
        for byte in self.rest().bytes().take(WIDEST_INDENT) {
            match byte {
                b' ' => columns += 1,
                b'\t' => columns += 4 - (self.column + columns) % 4,
                _ => break,
            }
        }
        columns
    }

    /// Eats blanks up to so many columns.
    pub(super) fn eat_columns(&mut self, columns: usize) {
        let mut wanted = columns;
        while wanted > 0 {
            if self.spare == 0 {
                match self.rest().bytes().next() {
                    Some(b' ') => self.spare = 1,
                    Some(b'\t') => self.spare = 4 - self.column % 4,
                    _ => return,
                }
                self.at += 1;
            }
            let eaten = wanted.min(self.spare);
            self.spare -= eaten;
            self.column += eaten;
            wanted -= eaten;
        }
    }

    /// Eats blanks up to the next character.
    pub(super) fn eat_blanks(&mut self) {
        let rest = self.rest();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        self.at += blanks;
        self.column += blanks + self.spare;
        self.spare = 0;
    }

    /// Eats so many bytes that are known to be there and not to be blanks.
    pub(super) fn eat(&mut self, bytes: usize) {
        self.at += bytes;
        self.column += bytes;
        self.spare = 0;
    }

    /// Eats `>` and the blank behind it, if the line begins so.
    pub(super) fn eat_quote_mark(&mut self) -> bool {
        let mut inner = *self;
        inner.eat_blanks();
        if self.indent() >= 4 || !inner.rest().starts_with('>') {
            return false;
        }
        inner.eat(1);
        inner.eat_columns(1);
        *self = inner;
        true
    }

    /// Eats an indentation, if the line has it or is blank.
    pub(super) fn eat_indent(&mut self, columns: usize) -> bool {
        if !self.is_blank() && self.indent() < columns {
            return false;
        }
        self.eat_columns(columns);
        true
    }
}

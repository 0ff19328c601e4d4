//! Words into lines: wraps at a width, keeps the indentation of a block, and sets a style only where it changes.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// How a stretch of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style(u8);

impl Style {
    pub(super) const PLAIN: Self = Self(0);
    pub(super) const BOLD: Self = Self(1);
    pub(super) const DIM: Self = Self(1 << 1);
    pub(super) const ITALIC: Self = Self(1 << 2);
    pub(super) const UNDERLINE: Self = Self(1 << 3);
    pub(super) const STRUCK: Self = Self(1 << 4);
    pub(super) const CYAN: Self = Self(1 << 5);

    /// What a terminal calls each of them.
    const CODES: [(Self, &'static str); 6] = [
        (Self::BOLD, "1"),
        (Self::DIM, "2"),
        (Self::ITALIC, "3"),
        (Self::UNDERLINE, "4"),
        (Self::STRUCK, "9"),
        (Self::CYAN, "36"),
    ];

    /// Both.
    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn code(self) -> String {
        let codes = Self::CODES.iter().filter(|(style, _)| self.0 & style.0 != 0);
        codes.map(|(_, code)| *code).collect::<Vec<_>>().join(";")
    }
}

/// What stands before the text of a line.
pub(super) type Lead = Vec<(String, Style)>;

/// The lines of an answer as they come into being.
#[derive(Debug)]
pub(super) struct Flow {
    width: usize,
    colour: bool,
    out: String,
    /// The style that the terminal is in.
    set: Style,
    column: usize,
    /// What stands before the lines that a long one is wrapped into, and how wide that is.
    lead: Lead,
    lead_width: usize,
    /// Spaces that are written when a word follows on the same line.
    spaces: (usize, Style),
    /// A word that may go on.
    word: Vec<(char, Style)>,
    word_width: usize,
}

impl Flow {
    pub(super) fn new(width: usize, colour: bool) -> Self {
        Self {
            width,
            colour,
            out: String::new(),
            set: Style::PLAIN,
            column: 0,
            lead: Lead::new(),
            lead_width: 0,
            spaces: (0, Style::PLAIN),
            word: Vec::new(),
            word_width: 0,
        }
    }

    /// What can be shown by now.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Whether the line has nothing on it.
    pub(super) fn is_at_start(&self) -> bool {
        self.column == 0 && self.word.is_empty()
    }

    /// Begins a line with `first`; where it is wrapped, `lead` stands before the rest.
    pub(super) fn begin(&mut self, first: &Lead, lead: Lead) {
        for (text, style) in first {
            self.raw(text, *style);
        }
        self.lead_width = lead.iter().map(|(text, _)| text.width()).sum();
        self.lead = lead;
    }

    /// Text that may be wrapped between its words.
    pub(super) fn text(&mut self, text: &str, style: Style) {
        for c in text.chars() {
            if c == ' ' {
                self.end_word();
                self.spaces = (self.spaces.0 + 1, style);
                continue;
            }
            let width = c.width().unwrap_or(0);
            // Scripts without spaces can be parted at each character, and a word without an end is not waited for.
            if width == 2 || self.word_width >= self.width {
                self.end_word();
            }
            self.word.push((c, style));
            self.word_width += width;
            if width == 2 {
                self.end_word();
            }
        }
    }

    /// Text that is not wrapped.
    pub(super) fn raw(&mut self, text: &str, style: Style) {
        self.end_word();
        self.write_spaces();
        self.put(text, style);
        self.column += text.width();
    }

    /// Ends the line.
    pub(super) fn end_line(&mut self) {
        self.end_word();
        self.break_line();
        self.lead.clear();
        self.lead_width = 0;
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let wide = self.column + self.spaces.0 + self.word_width > self.width;
        if wide && self.column > self.lead_width {
            self.break_line();
            for (text, style) in std::mem::take(&mut self.lead) {
                self.put(&text, style);
                self.lead.push((text, style));
            }
            self.column = self.lead_width;
        } else {
            self.write_spaces();
        }
        for (c, style) in std::mem::take(&mut self.word) {
            self.put(c.encode_utf8(&mut [0; 4]), style);
        }
        self.column += std::mem::take(&mut self.word_width);
    }

    fn write_spaces(&mut self) {
        let (count, style) = std::mem::take(&mut self.spaces);
        if count > 0 {
            self.put(&" ".repeat(count), style);
            self.column += count;
        }
    }

    fn break_line(&mut self) {
        self.spaces = (0, Style::PLAIN);
        self.change(Style::PLAIN);
        self.out.push('\n');
        self.column = 0;
    }

    fn put(&mut self, text: &str, style: Style) {
        self.change(style);
        self.out.push_str(text);
    }

    fn change(&mut self, style: Style) {
        if !self.colour || self.set == style {
            return;
        }
        if self.set != Style::PLAIN {
            self.out.push_str("\x1b[0m");
        }
        if style != Style::PLAIN {
            let _ = write!(self.out, "\x1b[{}m", style.code());
        }
        self.set = style;
    }
}

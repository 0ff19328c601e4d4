//! Renders an answer as markdown on the terminal while it streams: headings, emphasis, code, lists, quotes, links and citations,
//! wrapped at the terminal's width. Printed text is never redrawn, so text is held back until its rendering is certain.
//!
//! Text is processed by character, so the boundaries of the streamed parts do not matter.

mod block;
mod flow;
mod inline;

#[cfg(test)]
mod tests;

use crate::paint::is_unsafe;
use block::{Fence, Start};
use flow::{Flow, Style};
use inline::{Line, Step};

/// Longer lines are hard to read.
const WIDEST: usize = 100;
const NARROWEST: usize = 20;

/// Wraps plain text at `width`; all lines but the first are indented.
pub(crate) fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut flow = Flow::new(width, false);
    flow.begin(&Vec::new(), vec![(" ".repeat(indent), Style::PLAIN)]);
    flow.text(text, Style::PLAIN);
    flow.end_line();
    flow.take().trim_end().to_owned()
}

/// The state of the current line.
#[derive(Debug)]
enum LineState {
    /// The kind of line is not known yet.
    Start,
    /// In text.
    Words(Style),
    /// In a line that is printed unchanged.
    Row,
    /// At the start of a line in a code block, which could be the closing fence.
    CodeStart(Fence),
    /// In a line of a code block.
    Code(Fence),
}

/// Markdown on its way to a terminal.
#[derive(Debug)]
pub(crate) struct Markdown {
    flow: Flow,
    place: LineState,
    /// Text that cannot be printed yet.
    held: String,
    /// The character to wait for before `held` is looked at again.
    wait: Option<char>,
    /// The character before `held`.
    before: Option<char>,
}

impl Markdown {
    /// For a terminal of that width.
    pub(crate) fn new(width: usize, colour: bool) -> Self {
        Self {
            flow: Flow::new(width.clamp(NARROWEST, WIDEST), colour),
            place: LineState::Start,
            held: String::new(),
            wait: None,
            before: None,
        }
    }

    /// Adds a part and returns the text that can be printed.
    pub(crate) fn push(&mut self, part: &str) -> String {
        for c in part.chars() {
            match c {
                '\n' => self.end_line(),
                '\r' => {}
                '\t' => "    ".chars().for_each(|space| self.add(space)),
                c if is_unsafe(c) => self.add(char::REPLACEMENT_CHARACTER),
                c => self.add(c),
            }
        }
        self.flow.take()
    }

    /// Ends the text and returns the rest, with a line end.
    pub(crate) fn finish(&mut self) -> String {
        let open = !self.held.is_empty() || !self.flow.is_at_start();
        if open {
            self.end_line();
        }
        if let LineState::CodeStart(fence) = std::mem::replace(&mut self.place, LineState::Start) {
            self.close(&fence);
        }
        self.flow.take()
    }

    fn add(&mut self, c: char) {
        match &self.place {
            LineState::Start => {
                self.held.push(c);
                if let Some(start) = block::start(&self.held, Line::Open) {
                    self.begin(start);
                }
            }
            LineState::Words(style) => {
                let style = *style;
                self.held.push(c);
                // What is too long to be waited for is looked at in any case; a look costs little.
                if self.wait.is_none_or(|wait| wait == c) || self.held.len() > inline::LONGEST {
                    self.words(style, Line::Open);
                }
            }
            LineState::Row => self.flow.raw(c.encode_utf8(&mut [0; 4]), if c == '|' { Style::DIM } else { Style::PLAIN }),
            LineState::CodeStart(fence) => {
                let fence = *fence;
                self.held.push(c);
                if !fence.may_close(&self.held) {
                    self.code_line(fence);
                }
            }
            LineState::Code(_) => self.flow.raw(c.encode_utf8(&mut [0; 4]), Style::PLAIN),
        }
    }

    fn end_line(&mut self) {
        match self.place {
            LineState::Start => {
                if let Some(start) = block::start(&self.held, Line::Ended) {
                    self.begin(start);
                }
                match self.place {
                    // The line has opened code; the frame is drawn already.
                    LineState::CodeStart(_) => return,
                    LineState::Words(style) => self.words(style, Line::Ended),
                    _ => {}
                }
            }
            LineState::Words(style) => self.words(style, Line::Ended),
            LineState::Row => {}
            LineState::CodeStart(fence) => {
                if fence.closes(&self.held) {
                    self.held.clear();
                    self.place = LineState::Start;
                    return self.close(&fence);
                }
                self.code_line(fence);
                self.place = LineState::CodeStart(fence);
                return self.flow.end_line();
            }
            LineState::Code(fence) => {
                self.place = LineState::CodeStart(fence);
                return self.flow.end_line();
            }
        }
        self.flow.end_line();
        self.place = LineState::Start;
        self.held.clear();
        self.before = None;
        self.wait = None;
    }

    /// The kind of the line is known.
    fn begin(&mut self, start: Start) {
        match start {
            Start::Words { first, lead, style, from } => {
                self.flow.begin(&first, lead);
                self.held.drain(..from);
                self.place = LineState::Words(style);
                self.words(style, Line::Open);
            }
            Start::Row => {
                self.place = LineState::Row;
                for c in std::mem::take(&mut self.held).chars() {
                    self.add(c);
                }
            }
            Start::Rule => {
                self.held.clear();
                self.flow.raw(&"─".repeat(NARROWEST), Style::DIM);
            }
            Start::Fence { fence, first, language } => {
                self.held.clear();
                self.flow.begin(&first, Vec::new());
                let language = if language.is_empty() { language } else { format!(" {language}") };
                self.flow.raw(&format!("╭─{language}"), Style::DIM);
                self.flow.end_line();
                self.place = LineState::CodeStart(fence);
            }
        }
    }

    fn close(&mut self, fence: &Fence) {
        self.flow.raw(&format!("{}╰─", fence.indent()), Style::DIM);
        self.flow.end_line();
    }

    /// What is held is the start of a line of code.
    fn code_line(&mut self, fence: Fence) {
        self.flow.raw(&format!("{}│ ", fence.indent()), Style::DIM);
        let held = std::mem::take(&mut self.held);
        self.flow.raw(fence.without_indent(&held), Style::PLAIN);
        self.place = LineState::Code(fence);
    }

    /// Shows what is certain of the held words.
    fn words(&mut self, style: Style, line: Line) {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_str();
        self.wait = None;
        while !rest.is_empty() {
            match inline::next(rest, self.before, line) {
                Step::Wait(wait) => {
                    self.wait = wait;
                    break;
                }
                Step::Take(len, unit) => {
                    inline::show(&unit, style, 0, &mut |text, style| self.flow.text(text, style));
                    self.before = rest[..len].chars().next_back();
                    rest = &rest[len..];
                }
            }
        }
        rest.clone_into(&mut self.held);
    }
}

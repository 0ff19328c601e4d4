//! The blocks of a note: paragraphs, headings, code, tables, and the quotes, list items and footnotes that hold them.
//!
//! The rules of `CommonMark`, and Obsidian's for comments (`%%`) and formulas (`$$`), which may hold blank lines. One pass over the lines with
//! a bounded number of open containers: the time is linear in the text, whatever it holds.

use std::ops::Range;

use super::line::Line;
use super::start::{self, Above, Fence, HtmlEnd};

/// Containers deeper than this are text. People nest about ten deep.
const MAX_DEPTH: usize = 64;

/// What a leaf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Paragraph,
    Heading(u8),
    Table,
    Code,
    Html,
    Comment,
    Math,
    Rule,
    /// Nothing but link definitions.
    Definition,
}

/// A block that holds text.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) kind: Kind,
    /// From its first character to its last, or from fence to fence.
    pub(super) range: Range<usize>,
    /// Its lines without what belongs to containers, by their places in [`Blocks::lines`].
    pub(super) lines: Range<usize>,
    /// The number of the line of the first of them, from 1.
    pub(super) line: u32,
    /// Of a fenced code block, what follows the fence.
    pub(super) info: Range<usize>,
    /// The list item it belongs to.
    pub(super) item: Option<usize>,
    /// The outermost quote it stands in.
    pub(super) quote: Option<usize>,
    /// Whether it stands in no container.
    pub(super) is_top: bool,
    /// The block before it in the same container.
    pub(super) before: Option<Range<usize>>,
}

/// A list item.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) range: Range<usize>,
    pub(super) line: u32,
    pub(super) status: Option<char>,
    pub(super) parent: Option<usize>,
}

/// `[label]: destination`
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) label: Range<usize>,
    pub(super) destination: Range<usize>,
}

/// All blocks of a note, in order.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    pub(super) leaves: Vec<Leaf>,
    pub(super) lines: Vec<Range<usize>>,
    pub(super) items: Vec<Item>,
    pub(super) quotes: Vec<Range<usize>>,
    pub(super) definitions: Vec<Definition>,
}

enum Holder {
    Root,
    Quote(usize),
    /// With the columns its content is indented by, and whether nothing stands in it yet.
    Item {
        item: usize,
        mark: u8,
        content: usize,
        is_empty: bool,
    },
    Footnote,
}

struct Container {
    holder: Holder,
    start: usize,
    end: usize,
    /// The last block in it, and the bullet of its items if it is a list.
    last: Option<(Range<usize>, Option<u8>)>,
}

/// The leaf that the next line may continue.
enum Open {
    Paragraph,
    Table,
    Indented,
    Fenced {
        fence: Fence,
        indent: usize,
    },
    Html(HtmlEnd),
    /// Up to a line with this mark.
    Until(&'static str),
}

struct Builder<'a> {
    text: &'a str,
    /// Where the last `%%` and `$$` stand: a mark without a second one is text.
    last_comment: Option<usize>,
    last_math: Option<usize>,
    blocks: Blocks,
    containers: Vec<Container>,
    open: Option<Open>,
    was_blank: bool,
    line: u32,
}

/// The blocks of `text` from an offset on, which is the start of a line.
pub(super) fn read(text: &str, from: usize) -> Blocks {
    let before = text.get(..from).unwrap_or_default().bytes().filter(|byte| *byte == b'\n').count();
    let mut builder = Builder {
        text,
        last_comment: text.rfind("%%"),
        last_math: text.rfind("$$"),
        blocks: Blocks::default(),
        containers: vec![Container { holder: Holder::Root, start: from, end: from, last: None }],
        open: None,
        was_blank: false,
        line: u32::try_from(before).unwrap_or(u32::MAX),
    };
    let mut at = from;
    for line in text.get(from..).unwrap_or_default().split_inclusive('\n') {
        builder.line = builder.line.saturating_add(1);
        builder.read_line(Line::new(text, at, at + line.strip_suffix('\n').unwrap_or(line).len()));
        at += line.len();
    }
    builder.close_leaf();
    builder.close_containers(1);
    builder.blocks
}

impl Builder<'_> {
    fn read_line(&mut self, mut line: Line<'_>) {
        // One blank line closes what blank lines close; the next ones are passed over, however much is open.
        let was_blank = std::mem::replace(&mut self.was_blank, line.is_blank());
        if was_blank && line.is_blank() && self.open.is_none() {
            return;
        }
        let matched = self.match_containers(&mut line);
        let is_inside = matched == self.containers.len();
        if is_inside && self.continue_verbatim(line) {
            return;
        }
        if line.is_blank() {
            self.close_containers(matched);
            self.close_leaf();
            return;
        }
        let paragraph_above = matches!(self.open, Some(Open::Paragraph));
        let mut above = if is_inside && paragraph_above { Above::Paragraph } else { Above::Nothing };
        let mut has_opened = false;
        while self.open_container(&mut line, above, if has_opened { self.containers.len() } else { matched }) {
            has_opened = true;
            above = Above::Nothing;
        }
        if has_opened && line.is_blank() {
            return;
        }
        if line.indent() >= 4 {
            if paragraph_above && !has_opened {
                self.add_line(line);
                return;
            }
            self.close_containers(if has_opened { self.containers.len() } else { matched });
            self.open_leaf(Kind::Code, Some(Open::Indented), line);
            return;
        }
        let indent = line.indent();
        line.eat_blanks();
        let keep = if has_opened { self.containers.len() } else { matched };
        if self.begin_leaf(line, indent, above, keep) {
            return;
        }
        let goes_on = match self.open {
            Some(Open::Paragraph) => !has_opened,
            Some(Open::Table) => is_inside && !has_opened && !is_block_id(line.rest()),
            _ => false,
        };
        if goes_on {
            self.add_line(line);
        } else {
            self.close_containers(keep);
            self.open_leaf(Kind::Paragraph, Some(Open::Paragraph), line);
        }
    }

    /// Eats the marks of the open containers, and says how many of them the line belongs to.
    fn match_containers(&self, line: &mut Line<'_>) -> usize {
        for (depth, container) in self.containers.iter().enumerate().skip(1) {
            let is_matched = match container.holder {
                Holder::Root => true,
                Holder::Quote(_) => line.eat_quote_mark(),
                Holder::Item { is_empty: true, .. } if line.is_blank() => false,
                Holder::Item { content, .. } => line.eat_indent(content),
                Holder::Footnote => line.eat_indent(4),
            };
            if !is_matched {
                return depth;
            }
        }
        self.containers.len()
    }

    /// Adds the line to an open leaf that is not markdown inside.
    fn continue_verbatim(&mut self, mut line: Line<'_>) -> bool {
        match self.open {
            None | Some(Open::Paragraph | Open::Table) => return false,
            Some(Open::Indented) => {
                if !line.is_blank() && line.indent() < 4 {
                    self.close_leaf();
                    return false;
                }
                if !line.is_blank() {
                    self.add_line(line);
                }
            }
            Some(Open::Fenced { fence, indent }) => {
                let mut rest = line;
                rest.eat_blanks();
                if line.indent() < 4 && fence.is_closed_by(rest.rest()) {
                    self.extend_to(line.end);
                    self.close_leaf();
                } else {
                    line.eat_columns(indent);
                    self.add_line(line);
                }
            }
            Some(Open::Html(HtmlEnd::Blank)) if line.is_blank() => return false,
            Some(Open::Html(end)) => {
                self.add_line(line);
                if end.is_met_by(line.rest()) {
                    self.close_leaf();
                }
            }
            Some(Open::Until(mark)) => match line.rest().find(mark) {
                Some(found) => {
                    let mut inside = line;
                    inside.end = line.at + found;
                    self.add_line(inside);
                    self.extend_to(inside.end + mark.len());
                    self.close_leaf();
                    line.eat(found + mark.len());
                    line.eat_blanks();
                    if !line.is_blank() {
                        self.open_leaf(Kind::Paragraph, Some(Open::Paragraph), line);
                    }
                }
                None => self.add_line(line),
            },
        }
        true
    }

    /// Opens the container that the line begins with, if it does; `keep` containers stay open around it.
    fn open_container(&mut self, line: &mut Line<'_>, above: Above, keep: usize) -> bool {
        let indent = line.indent();
        if line.is_blank() || indent >= 4 || keep >= MAX_DEPTH {
            return false;
        }
        let mut inner = *line;
        inner.eat_blanks();
        let start = inner.at;
        let rest = inner.rest();
        if rest.starts_with('>') {
            self.close_containers(keep);
            self.blocks.quotes.push(start..start);
            let quote = self.blocks.quotes.len() - 1;
            line.eat_quote_mark();
            self.push(Holder::Quote(quote), start, line.end);
            return true;
        }
        if above == Above::Nothing
            && let Some(bytes) = start::footnote(rest)
        {
            self.close_containers(keep);
            inner.eat(bytes);
            *line = inner;
            self.push(Holder::Footnote, start, line.end);
            return true;
        }
        let Some(bullet) = start::bullet(rest).filter(|_| !start::is_rule(rest)) else { return false };
        if above == Above::Paragraph && !(bullet.interrupts && rest.len() > bullet.length) {
            return false;
        }
        self.close_containers(keep);
        inner.eat(bullet.length);
        let blanks = inner.indent();
        let is_empty = inner.is_blank();
        let content = bullet.length + if is_empty || blanks > 4 { 1 } else { blanks };
        inner.eat_columns(content - bullet.length);
        let status = start::task(inner.rest());
        if let Some((_, bytes)) = status {
            inner.eat(bytes);
            inner.eat_blanks();
        }
        let parent = self.containers.iter().rev().find_map(Container::item);
        let range = start..start + bullet.length;
        self.blocks.items.push(Item { range, line: self.line, status: status.map(|(status, _)| status), parent });
        let item = self.blocks.items.len() - 1;
        self.push(Holder::Item { item, mark: bullet.mark, content: indent + content, is_empty }, start, inner.end);
        *line = inner;
        true
    }

    fn push(&mut self, holder: Holder, start: usize, end: usize) {
        self.close_leaf();
        if let Some(Container { holder: Holder::Item { is_empty, .. }, .. }) = self.containers.last_mut() {
            *is_empty = false;
        }
        self.containers.push(Container { holder, start, end, last: None });
    }

    /// Begins a leaf other than a paragraph, if the line does.
    fn begin_leaf(&mut self, line: Line<'_>, indent: usize, above: Above, keep: usize) -> bool {
        let rest = line.rest();
        let paragraph = self.blocks.leaves.last_mut().filter(|_| above == Above::Paragraph);
        if let Some(leaf) = paragraph {
            if let Some(level) = start::underline(rest) {
                leaf.kind = Kind::Heading(level);
                self.extend_to(line.end);
                self.close_leaf();
                return true;
            }
            let head =
                self.blocks.lines.get(leaf.lines.clone()).and_then(|lines| if let [head] = lines { Some(head) } else { None });
            if let Some(cells) = start::delimiter_row(rest)
                && head.and_then(|head| self.text.get(head.clone())).is_some_and(|head| start::cells(head) == cells)
            {
                leaf.kind = Kind::Table;
                self.open = Some(Open::Table);
                self.add_line(line);
                return true;
            }
        }
        let (kind, open) = if let Some(fence) = Fence::open(rest) {
            (Kind::Code, Some(Open::Fenced { fence, indent }))
        } else if let Some((level, _)) = start::heading(rest) {
            (Kind::Heading(level), None)
        } else if start::is_rule(rest) {
            (Kind::Rule, None)
        } else if let Some(end) =
            start::html(rest, if matches!(self.open, Some(Open::Paragraph)) { Above::Paragraph } else { above })
        {
            (Kind::Html, Some(Open::Html(end)).filter(|_| !end.is_met_by(rest)))
        } else if opens(rest, "%%") && self.last_comment > Some(line.at + 1) {
            (Kind::Comment, Some(Open::Until("%%")))
        } else if opens(rest, "$$") && self.last_math > Some(line.at + 1) {
            (Kind::Math, Some(Open::Until("$$")))
        } else {
            return false;
        };
        self.close_containers(keep);
        self.open_leaf(kind, open, line);
        true
    }

    fn open_leaf(&mut self, kind: Kind, open: Option<Open>, mut line: Line<'_>) {
        self.close_leaf();
        let range = line.at..line.end;
        let mut info = line.end..line.end;
        let mut holds_line = true;
        match open {
            Some(Open::Fenced { fence, .. }) => {
                info = line.at + fence.length..line.end;
                holds_line = false;
            }
            Some(Open::Until(mark)) => line.eat(mark.len()),
            _ => {}
        }
        if let Kind::Heading(_) = kind
            && let Some((_, title)) = start::heading(line.rest())
        {
            let marks = line.rest().len() - line.rest().trim_start_matches('#').trim_start().len();
            line.eat(marks.min(line.rest().len() - title.len()));
            line.end = line.at + title.len();
        }
        let item = self.containers.iter().rev().find_map(Container::item);
        let quote = self.containers.iter().find_map(Container::quote);
        let first = self.blocks.lines.len();
        if holds_line {
            self.blocks.lines.push(line.at..line.end);
        }
        let is_top = self.containers.len() == 1;
        let before = self.containers.last().and_then(|container| container.last.as_ref()).map(|(range, _)| range.clone());
        if let Some(Container { holder: Holder::Item { is_empty, .. }, .. }) = self.containers.last_mut() {
            *is_empty = false;
        }
        let number = if holds_line { self.line } else { self.line.saturating_add(1) };
        let lines = first..self.blocks.lines.len();
        self.blocks.leaves.push(Leaf { kind, range, lines, line: number, info, item, quote, is_top, before });
        self.open = open;
        if self.open.is_none() {
            self.end_leaf();
        }
    }

    fn add_line(&mut self, line: Line<'_>) {
        let Some(leaf) = self.blocks.leaves.last_mut() else { return };
        let mut line = line;
        if matches!(self.open, Some(Open::Paragraph | Open::Table)) {
            line.eat_blanks();
        }
        self.blocks.lines.push(line.at..line.end);
        leaf.lines.end = self.blocks.lines.len();
        leaf.range.end = line.end.max(leaf.range.end);
    }

    fn extend_to(&mut self, end: usize) {
        if let Some(leaf) = self.blocks.leaves.last_mut() {
            leaf.range.end = end.max(leaf.range.end);
        }
    }

    /// Closes the open leaf, if there is one.
    fn close_leaf(&mut self) {
        if self.open.take().is_some() {
            self.end_leaf();
        }
    }

    fn end_leaf(&mut self) {
        let Some(leaf) = self.blocks.leaves.last_mut() else { return };
        if leaf.kind == Kind::Paragraph {
            take_definitions(self.text, leaf, &self.blocks.lines, &mut self.blocks.definitions);
        }
        if let Some(container) = self.containers.last_mut() {
            container.last = Some((leaf.range.clone(), None));
            container.end = container.end.max(leaf.range.end);
        }
    }

    /// Closes all but the outermost `keep` containers.
    fn close_containers(&mut self, keep: usize) {
        if self.containers.len() > keep {
            self.close_leaf();
        }
        while self.containers.len() > keep.max(1) {
            let Some(closed) = self.containers.pop() else { return };
            let range = closed.start..closed.end;
            let mark = match closed.holder {
                Holder::Item { item, mark, .. } => {
                    if let Some(item) = self.blocks.items.get_mut(item) {
                        item.range = range.clone();
                    }
                    Some(mark)
                }
                Holder::Quote(quote) => {
                    if let Some(quote) = self.blocks.quotes.get_mut(quote) {
                        *quote = range.clone();
                    }
                    None
                }
                Holder::Root | Holder::Footnote => None,
            };
            let Some(parent) = self.containers.last_mut() else { return };
            parent.end = parent.end.max(range.end);
            match &mut parent.last {
                Some((list, last_mark)) if mark.is_some() && *last_mark == mark => list.end = range.end,
                last => *last = Some((range, mark)),
            }
        }
    }
}

impl Container {
    fn item(&self) -> Option<usize> {
        if let Holder::Item { item, .. } = self.holder { Some(item) } else { None }
    }

    fn quote(&self) -> Option<usize> {
        if let Holder::Quote(quote) = self.holder { Some(quote) } else { None }
    }
}

/// Whether a mark begins the line and stands in it only once.
fn opens(rest: &str, mark: &str) -> bool {
    rest.strip_prefix(mark).is_some_and(|inner| !inner.contains(mark))
}

/// Whether a line is `^id` and nothing else.
fn is_block_id(rest: &str) -> bool {
    super::inline::block_id(rest).is_some_and(|(start, _)| start == 0)
}

/// Takes the definitions at the start of a paragraph out of it.
fn take_definitions(text: &str, leaf: &mut Leaf, lines: &[Range<usize>], definitions: &mut Vec<Definition>) {
    while let Some(line) = lines.get(leaf.lines.clone()).and_then(<[_]>::first) {
        let Some((label, destination)) = text.get(line.clone()).and_then(super::link::definition) else { return };
        let place = |part: Range<usize>| line.start + part.start..line.start + part.end;
        definitions.push(Definition { label: place(label), destination: place(destination) });
        leaf.lines.start += 1;
        leaf.line = leaf.line.saturating_add(1);
        if leaf.lines.is_empty() {
            leaf.kind = Kind::Definition;
        }
    }
}

//! What stands in a line of text: links, tags, code, formulas, comments. The first mark that is closed wins, from left to right, and no
//! search for a closing mark is made twice in vain, so the time is linear in the text.

use std::collections::HashMap;
use std::ops::Range;

use super::link;
use super::start;
use crate::note::{LinkForm, Part};

/// Longer runs of backticks are text.
const MAX_BACKTICKS: usize = 80;

/// A link in a text.
#[derive(Debug)]
pub(super) struct FoundLink {
    pub(super) form: LinkForm,
    pub(super) embed: bool,
    pub(super) target: String,
    pub(super) part: Option<Part>,
    pub(super) text: Option<String>,
    pub(super) range: Range<usize>,
}

/// What hides a stretch of text from the search for tags, links and fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hidden {
    Code,
    Math,
    Html,
    Comment,
    /// A link: its brackets are not those of a field.
    Link,
}

/// All that was found in a text, by byte ranges of it.
#[derive(Debug, Default)]
pub(super) struct Inline {
    pub(super) links: Vec<FoundLink>,
    pub(super) tags: Vec<Range<usize>>,
    pub(super) hidden: Vec<(Hidden, Range<usize>)>,
}

impl Inline {
    /// What hides an offset. Ranges are in order and apart.
    pub(super) fn hidden_as(&self, at: usize) -> Option<Hidden> {
        let place = self.hidden.partition_point(|(_, range)| range.end <= at);
        self.hidden.get(place).filter(|(_, range)| range.contains(&at)).map(|(kind, _)| *kind)
    }
}

/// Destinations of reference links by label.
pub(super) type References = HashMap<String, String>;

/// Where the text stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Surroundings {
    Text,
    /// Where a bar begins a cell.
    Table,
}

struct Bracket {
    at: usize,
    is_image: bool,
    /// How many links there were when it was opened.
    links: usize,
    tags: usize,
    hidden: usize,
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    place: Surroundings,
    references: &'a References,
    found: Inline,
    brackets: Vec<Bracket>,
    /// Brackets below this one are around a link and cannot be one.
    inactive: usize,
    /// The last run of backticks of each length, once one was looked for in vain.
    backticks: Option<Vec<usize>>,
    /// Closing marks that were looked for in vain: there are none ahead.
    spent: Vec<&'static str>,
    /// Where the last tag ended: another may follow at once.
    tag_end: Option<usize>,
}

/// Scans a text.
pub(super) fn scan(text: &str, place: Surroundings, references: &References) -> Inline {
    let mut scanner = Scanner {
        text,
        at: 0,
        place,
        references,
        found: Inline::default(),
        brackets: Vec::new(),
        inactive: 0,
        backticks: None,
        spent: Vec::new(),
        tag_end: None,
    };
    scanner.run();
    let mut found = scanner.found;
    found.links.sort_by_key(|link| link.range.start);
    found
}

/// Bytes at which something may begin.
const fn is_mark(byte: u8) -> bool {
    matches!(byte, b'\\' | b'`' | b'$' | b'%' | b'<' | b'[' | b']' | b'!' | b'#' | b'h' | b'H')
}

impl Scanner<'_> {
    fn run(&mut self) {
        while let Some(step) = self.rest().bytes().position(is_mark) {
            self.at += step;
            let eaten = match self.byte(0) {
                Some(b'\\') => self.escape(),
                Some(b'`') => self.code(),
                Some(b'$') => self.math(),
                Some(b'%') => self.comment(),
                Some(b'<') => self.angle(),
                Some(b'!') => self.embed(),
                Some(b'[') => self.open(),
                Some(b']') => self.close(),
                Some(b'#') => self.tag(),
                _ => self.address(),
            };
            self.at += eaten.max(1);
        }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn hide(&mut self, kind: Hidden, length: usize) -> usize {
        self.found.hidden.push((kind, self.at..self.at + length));
        length
    }

    fn escape(&self) -> usize {
        1 + usize::from(self.byte(1).is_some_and(|next| next.is_ascii_punctuation()))
    }

    /// Hides all up to a closing mark, if there is one.
    fn hide_until(&mut self, kind: Hidden, opening: usize, closing: &'static str) -> usize {
        if !self.spent.contains(&closing) {
            if let Some(inner) = self.text.get(self.at + opening..).and_then(|rest| rest.find(closing)) {
                return self.hide(kind, opening + inner + closing.len());
            }
            self.spent.push(closing);
        }
        opening
    }

    fn code(&mut self) -> usize {
        let length = self.rest().bytes().take_while(|byte| *byte == b'`').count();
        let is_spent = self.backticks.as_ref().is_some_and(|last| last.get(length).is_none_or(|last| *last <= self.at));
        if length > MAX_BACKTICKS || is_spent {
            return length;
        }
        if let Some((end, _)) = runs(self.text, self.at + length).find(|(_, other)| *other == length) {
            return self.hide(Hidden::Code, end + length - self.at);
        }
        let mut last = vec![0; MAX_BACKTICKS + 1];
        for (at, length) in runs(self.text, self.at) {
            if let Some(last) = last.get_mut(length) {
                *last = at;
            }
        }
        self.backticks = Some(last);
        length
    }

    fn math(&mut self) -> usize {
        if self.byte(1) == Some(b'$') {
            return self.hide_until(Hidden::Math, 2, "$$");
        }
        let opens = self.byte(1).is_some_and(|next| !next.is_ascii_whitespace());
        if !opens || self.spent.contains(&"$") {
            return 1;
        }
        let bytes = self.text.as_bytes();
        let closes = |at: &usize| {
            let before = bytes.get(at - 1).copied().unwrap_or(b' ');
            bytes.get(*at) == Some(&b'$')
                && !before.is_ascii_whitespace()
                && before != b'\\'
                && !bytes.get(at + 1).is_some_and(|after| after.is_ascii_digit() || *after == b'$')
        };
        if let Some(end) = (self.at + 2..bytes.len()).find(closes) {
            return self.hide(Hidden::Math, end + 1 - self.at);
        }
        self.spent.push("$");
        1
    }

    fn comment(&mut self) -> usize {
        if self.byte(1) == Some(b'%') { self.hide_until(Hidden::Comment, 2, "%%") } else { 1 }
    }

    fn angle(&mut self) -> usize {
        let rest = self.rest();
        if rest.starts_with("<!--") {
            return self.hide_until(Hidden::Html, 4, "-->");
        }
        let inner = rest.get(1..).unwrap_or_default();
        if link::is_external(inner) {
            let end = inner.bytes().position(|byte| matches!(byte, b'>' | b'<' | b' ' | b'\t' | b'\n'));
            if let Some(end) = end.filter(|end| inner.as_bytes().get(*end) == Some(&b'>')) {
                let target = inner.get(..end).unwrap_or_default().to_owned();
                return self.push_address(target, end + 2);
            }
            return 1;
        }
        match start::tag(rest) {
            Some(length) => self.hide(Hidden::Html, length),
            None => 1,
        }
    }

    fn push_address(&mut self, target: String, length: usize) -> usize {
        let range = self.at..self.at + length;
        self.found.links.push(FoundLink { form: LinkForm::Markdown, embed: false, target, part: None, text: None, range });
        self.hide(Hidden::Link, length)
    }

    fn address(&mut self) -> usize {
        if !matches!(self.byte(1), Some(b't' | b'T')) {
            return 1; // most words with an h
        }
        let before = self.text.get(..self.at).unwrap_or_default().chars().next_back();
        let rest = self.rest();
        let scheme = ["https://", "http://"]
            .into_iter()
            .find(|scheme| rest.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
        let Some(scheme) = scheme.filter(|_| !before.is_some_and(char::is_alphanumeric)) else { return 1 };
        let end =
            rest.find(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '[' | ']' | '"' | '`' | '|')).unwrap_or(rest.len());
        let mut address = rest.get(..end).unwrap_or_default();
        // A closing parenthesis belongs to the address if one in it is opened.
        let mut surplus = address.matches(')').count().saturating_sub(address.matches('(').count());
        loop {
            let shorter = address.trim_end_matches(['?', '!', '.', ',', ':', ';', '*', '_', '~', '\'']);
            let Some(inner) = shorter.strip_suffix(')').filter(|_| surplus > 0) else {
                address = shorter;
                break;
            };
            surplus -= 1;
            address = inner;
        }
        if address.len() <= scheme.len() {
            return scheme.len();
        }
        let (target, length) = (address.to_owned(), address.len());
        self.push_address(target, length)
    }

    fn embed(&mut self) -> usize {
        if self.byte(1) != Some(b'[') {
            return 1;
        }
        if let Some(length) = self.wiki(1) {
            return length;
        }
        self.push_bracket(true);
        2
    }

    fn open(&mut self) -> usize {
        if let Some(length) = self.wiki(0) {
            return length;
        }
        self.push_bracket(false);
        1
    }

    fn push_bracket(&mut self, is_image: bool) {
        let (links, tags, hidden) = (self.found.links.len(), self.found.tags.len(), self.found.hidden.len());
        self.brackets.push(Bracket { at: self.at, is_image, links, tags, hidden });
    }

    /// Reads `[[…]]`, of which `marks` bytes stand before.
    fn wiki(&mut self, marks: usize) -> Option<usize> {
        let inner = self.rest().get(marks..)?.strip_prefix("[[")?;
        let bytes = inner.as_bytes();
        let ends = |at: &usize| {
            let pair = bytes.get(*at..at + 2).unwrap_or_default();
            pair == b"]]" || pair == b"[[" || bytes.get(*at) == Some(&b'\n')
        };
        let end = (0..bytes.len()).find(ends)?;
        let inner = inner.get(..end).filter(|_| bytes.get(end..end + 2) == Some(b"]]"))?;
        let link::Inner { target, part, text } = link::link(inner);
        if target.is_empty() && part.is_none() {
            return None;
        }
        let length = marks + end + 4;
        let range = self.at..self.at + length;
        self.found.links.push(FoundLink { form: LinkForm::Wiki, embed: marks > 0, target, part, text, range });
        Some(self.hide(Hidden::Link, length))
    }

    fn close(&mut self) -> usize {
        let Some(bracket) = self.brackets.pop() else { return 1 };
        let is_inactive = !bracket.is_image && self.brackets.len() < self.inactive;
        self.inactive = self.inactive.min(self.brackets.len());
        if is_inactive {
            return 1;
        }
        let text_start = bracket.at + 1 + usize::from(bracket.is_image);
        let text = self.text.get(text_start..self.at).unwrap_or_default();
        let after = self.text.get(self.at + 1..).unwrap_or_default();
        let (written, length) = match after.bytes().next() {
            Some(b'(') => match link::parentheses(after) {
                Some((destination, length)) => (after.get(destination).unwrap_or_default().to_owned(), 1 + length),
                None => return 1,
            },
            _ if self.references.is_empty() || text.starts_with('^') => return 1,
            Some(b'[') => {
                let end = after.bytes().take(1000).position(|byte| byte == b']').unwrap_or(0);
                let named = after.get(1..end).filter(|label| !label.is_empty()).unwrap_or(text);
                match link::label(named).and_then(|label| self.references.get(&label)) {
                    Some(destination) => (destination.clone(), 2 + end),
                    None => return 1,
                }
            }
            _ => match link::label(text).and_then(|label| self.references.get(&label)) {
                Some(destination) => (destination.clone(), 1),
                None => return 1,
            },
        };
        let end = self.at + length;
        let (target, part) = link::destination(&written);
        let text = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        if !bracket.is_image {
            // No link stands in a link; an image may.
            self.inactive = self.brackets.len();
            let inner = self.found.links.split_off(bracket.links);
            self.found.links.extend(inner.into_iter().filter(|link| link.embed));
        }
        self.found.tags.truncate(bracket.tags);
        self.found.hidden.truncate(bracket.hidden);
        self.found.hidden.push((Hidden::Link, bracket.at..end));
        if !target.is_empty() || part.is_some() {
            let range = bracket.at..end;
            self.found.links.push(FoundLink { form: LinkForm::Markdown, embed: bracket.is_image, target, part, text, range });
        }
        length
    }

    fn tag(&mut self) -> usize {
        let before = self.text.get(..self.at).unwrap_or_default().chars().next_back();
        let may_begin = match before {
            None => true,
            Some('|') => self.place == Surroundings::Table,
            Some(before) => before.is_whitespace() || self.tag_end == Some(self.at),
        };
        let name = self.text.get(self.at + 1..).unwrap_or_default();
        let length = tag_length(name);
        let name = name.get(..length).unwrap_or_default();
        if !may_begin || !is_tag(name) {
            return 1 + length;
        }
        self.found.tags.push(self.at + 1..self.at + 1 + length);
        self.tag_end = Some(self.at + 1 + length);
        1 + length
    }
}

/// The runs of backticks from an offset on, with their lengths.
fn runs(text: &str, from: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut at = from;
    std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        let start = at + rest.find('`')?;
        let length = text.get(start..)?.bytes().take_while(|byte| *byte == b'`').count();
        at = start + length;
        Some((start, length))
    })
}

/// How much of a text can be the name of a tag: no blanks, and of punctuation only `-`, `_` and `/`.
fn tag_length(text: &str) -> usize {
    let ends = |c: char| match c {
        '-' | '_' | '/' | '\u{200d}' => false,
        '\u{2000}'..='\u{206f}' | '\u{2e00}'..='\u{2e7f}' | '\u{3000}'..='\u{303f}' => true,
        _ => c.is_ascii_punctuation() || c.is_whitespace() || c.is_control(),
    };
    text.find(ends).unwrap_or(text.len())
}

/// Whether a name is that of a tag: not only digits.
pub(super) fn is_tag(name: &str) -> bool {
    tag_length(name) == name.len() && name.bytes().any(|byte| !byte.is_ascii_digit())
}

/// The block id at the end of a text: where it begins and what it is.
pub(super) fn block_id(text: &str) -> Option<(usize, &str)> {
    let text = text.trim_end();
    let digits = text.bytes().rev().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'-').count();
    let id = text.get(text.len() - digits..).filter(|id| !id.is_empty())?;
    let before = text.get(..text.len() - digits)?.strip_suffix('^')?;
    before.chars().next_back().is_none_or(char::is_whitespace).then_some((before.len(), id))
}

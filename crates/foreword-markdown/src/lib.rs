//! Reading one note exactly as Obsidian does, and the Dataview plugin for fields and tasks.
//!
//! `blocks` finds paragraphs, headings, lists, code and so on; `inline` what stands in their text; `fields` the inline fields. Each step is
//! one pass in linear time, so a note of any size and any content is read the same way.

mod blocks;
mod fields;
mod find;
pub mod frontmatter;
mod inline;
mod line;
mod link;
pub mod note;
mod plain;
mod properties;
mod start;
mod unit;

use std::collections::HashSet;
use std::ops::Range;

use self::blocks::{Blocks, Kind, Leaf};
use self::fields::Whole;
use self::inline::{Inline, References, Surroundings};
use self::unit::Unit;
use crate::note::{Block, Field, Heading, Link, ListItem, Note, QueryBlock, QueryLanguage};

pub use self::find::{block, section};
pub use self::link::{Inner, link};

#[cfg(test)]
mod tests;

/// Reads a note. Its lines end with `\n` and it has no byte order mark.
pub fn read(text: &str) -> Note {
    let frontmatter = frontmatter::read(text);
    let blocks = blocks::read(text, frontmatter.range.end);
    let mut reader = Reader {
        text,
        references: references(text, &blocks),
        items: blocks.items.iter().map(|_| Own::default()).collect(),
        blocks: &blocks,
        tags_seen: HashSet::new(),
        note: Note::default(),
    };
    reader.note.aliases = properties::aliases(&frontmatter);
    reader.note.links = properties::links(text, &frontmatter);
    for tag in properties::tags(&frontmatter) {
        reader.add_tag(&tag);
    }
    reader.note.frontmatter = frontmatter;
    for leaf in &blocks.leaves {
        reader.read_leaf(leaf);
    }
    reader.end_sections();
    reader.make_items();
    reader.note
}

fn references(text: &str, blocks: &Blocks) -> References {
    let mut references = References::new();
    for definition in &blocks.definitions {
        let label = text.get(definition.label.clone()).and_then(link::label);
        let destination = text.get(definition.destination.clone());
        if let (Some(label), Some(destination)) = (label, destination) {
            references.entry(label).or_insert_with(|| destination.to_owned()); // the first one counts
        }
    }
    references
}

/// What a list item holds itself, nested items aside.
#[derive(Default)]
struct Own {
    text: String,
    tags: Vec<String>,
    block: Option<String>,
}

struct Reader<'a> {
    text: &'a str,
    blocks: &'a Blocks,
    references: References,
    items: Vec<Own>,
    /// Lower case.
    tags_seen: HashSet<String>,
    note: Note,
}

impl Reader<'_> {
    fn read_leaf(&mut self, leaf: &Leaf) {
        let blocks = self.blocks;
        let lines = blocks.lines.get(leaf.lines.clone()).unwrap_or_default();
        match leaf.kind {
            Kind::Paragraph | Kind::Heading(_) => self.read_text(leaf, &Unit::new(self.text, lines)),
            Kind::Table => {
                for (row, line) in (leaf.line..).zip(lines) {
                    let unit = Unit::new(self.text, std::slice::from_ref(line));
                    let inline = inline::scan(&unit.text, Surroundings::Table, &self.references);
                    self.add_fields(row, &unit.text, &inline, leaf.item);
                    self.add_inline(&unit, inline, leaf.item);
                }
            }
            Kind::Comment => {
                for (row, line) in (leaf.line..).zip(lines) {
                    let line = self.text.get(line.clone()).unwrap_or_default();
                    self.add_fields(row, line.trim(), &Inline::default(), leaf.item);
                }
            }
            Kind::Code => self.read_query(leaf, lines),
            Kind::Html | Kind::Math | Kind::Rule | Kind::Definition => {}
        }
    }

    fn read_text(&mut self, leaf: &Leaf, unit: &Unit<'_>) {
        let inline = inline::scan(&unit.text, Surroundings::Text, &self.references);
        let id = inline::block_id(&unit.text).filter(|(start, _)| inline.hidden_as(*start).is_none());
        let own = unit.text.get(..id.map_or(unit.text.len(), |(start, _)| start)).unwrap_or_default().trim_end();
        if let Kind::Heading(level) = leaf.kind
            && leaf.is_top
        {
            let text = plain::plain(own, &inline);
            self.note.headings.push(Heading { level, text, section: leaf.range.start..self.text.len(), line: leaf.line });
        }
        if let Some((start, id)) = id {
            self.add_block(leaf, id, own.is_empty(), unit.origin(start));
        }
        if let Some(item) = leaf.item.and_then(|item| self.items.get_mut(item)) {
            if !item.text.is_empty() && !own.is_empty() {
                item.text.push('\n');
            }
            item.text.push_str(own);
        } else {
            let mut start = 0;
            for (row, line) in (leaf.line..).zip(unit.text.split('\n')) {
                self.add_line_fields(row, line, start, &inline);
                start += line.len() + 1;
            }
        }
        self.add_inline(unit, inline, leaf.item);
    }

    /// A block id: of the leaf that it ends, of the item or quote that ends with that leaf, or, alone, of the block before.
    fn add_block(&mut self, leaf: &Leaf, id: &str, is_alone: bool, id_start: usize) {
        let trimmed =
            |range: Range<usize>| range.start..range.start + without_empty_end(self.text.get(range).unwrap_or_default()).len();
        let upto = |whole: &Range<usize>| whole.start..if whole.end == leaf.range.end { id_start } else { whole.end };
        let range = if is_alone {
            let Some(before) = leaf.before.clone() else { return };
            before
        } else if let Some(item) = leaf.item.and_then(|item| self.blocks.items.get(item)) {
            trimmed(upto(&item.range))
        } else {
            let quote = leaf.quote.and_then(|quote| self.blocks.quotes.get(quote));
            trimmed(upto(quote.filter(|quote| quote.end == leaf.range.end).unwrap_or(&leaf.range)))
        };
        if let Some(item) = leaf.item.and_then(|item| self.items.get_mut(item)).filter(|_| !is_alone) {
            item.block.get_or_insert_with(|| id.to_owned());
        }
        self.note.blocks.push(Block { id: id.to_owned(), range });
    }

    fn add_inline(&mut self, unit: &Unit<'_>, inline: Inline, item: Option<usize>) {
        for range in inline.tags {
            let tag = unit.text.get(range).unwrap_or_default();
            self.add_tag(tag);
            if let Some(own) = item.and_then(|item| self.items.get_mut(item)) {
                own.tags.push(tag.to_owned());
            }
        }
        let links = inline.links.into_iter().map(|found| Link {
            form: found.form,
            embed: found.embed,
            target: found.target,
            part: found.part,
            text: found.text,
            range: unit.origins(&found.range),
        });
        self.note.links.extend(links);
    }

    fn add_tag(&mut self, tag: &str) {
        let tag = tag.trim_end_matches('/');
        if !tag.is_empty() && self.tags_seen.insert(tag.to_lowercase()) {
            self.note.tags.push(tag.to_owned());
        }
    }

    /// Fields of a line that is not text of a list item; in one, they go to its text.
    fn add_fields(&mut self, row: u32, line: &str, inline: &Inline, item: Option<usize>) {
        if item.is_none() {
            self.add_line_fields(row, line, 0, inline);
        }
    }

    fn add_line_fields(&mut self, row: u32, line: &str, start: usize, inline: &Inline) {
        let fields = fields::read(line, start, inline, Whole::Yes).into_iter();
        self.note.fields.extend(fields.map(|(key, value)| Field { key, value, line: row }));
    }

    fn read_query(&mut self, leaf: &Leaf, lines: &[Range<usize>]) {
        let info = self.text.get(leaf.info.clone()).unwrap_or_default();
        let language = match info.split_whitespace().next().map(str::to_ascii_lowercase).as_deref() {
            Some("dataview") => Some(QueryLanguage::Dataview),
            Some("dataviewjs") => Some(QueryLanguage::JavaScript),
            _ => None,
        };
        if let Some(language) = language {
            let lines: Vec<_> = lines.iter().map(|line| self.text.get(line.clone()).unwrap_or_default()).collect();
            self.note.queries.push(QueryBlock { language, text: lines.join("\n"), range: leaf.range.clone() });
        }
    }

    /// A section ends where the next heading of its level or above begins.
    fn end_sections(&mut self) {
        let mut next = [self.text.len(); 7];
        for heading in self.note.headings.iter_mut().rev() {
            let level = usize::from(heading.level).min(6);
            heading.section.end = next[level];
            for end in &mut next[level..] {
                *end = heading.section.start;
            }
        }
    }

    fn make_items(&mut self) {
        let references = &self.references;
        let headings = &self.note.headings;
        let items = self.blocks.items.iter().zip(std::mem::take(&mut self.items)).map(|(item, own)| {
            let above = headings.partition_point(|heading| heading.section.start < item.range.start);
            ListItem {
                fields: item_fields(&own.text, item.status, item.line, references),
                text: own.text,
                status: item.status,
                line: item.line,
                parent: item.parent.and_then(|parent| u32::try_from(parent).ok()),
                heading: above.checked_sub(1).and_then(|place| u32::try_from(place).ok()),
                tags: own.tags,
                block: own.block,
            }
        });
        self.note.items = items.collect();
    }
}

/// A text without blanks at its end, and without last lines that hold only the marks of a quote.
fn without_empty_end(text: &str) -> &str {
    let mut text = text.trim_end();
    while let Some((before, last)) = text.rsplit_once('\n')
        && last.trim_matches([' ', '\t', '>']).is_empty()
    {
        text = before.trim_end();
    }
    text
}

/// The fields of a list item: its lines count as one.
fn item_fields(text: &str, status: Option<char>, line: u32, references: &References) -> Vec<Field> {
    let mut fields = Vec::new();
    if text.contains("::") {
        let joined = text.replace('\n', " ");
        let inline = inline::scan(&joined, Surroundings::Text, references);
        fields = fields::read(&joined, 0, &inline, if status.is_some() { Whole::No } else { Whole::Yes });
    }
    fields.extend(fields::dates(text));
    fields.into_iter().map(|(key, value)| Field { key, value, line }).collect()
}

//! Temporary: just enough of a reader for this branch. The real one replaces this file.

use std::ops::Range;

use crate::note::{Block, Frontmatter, Heading, Link, LinkForm, Note, Part, QueryBlock};

/// Reads a note.
pub fn read(text: &str) -> Note {
    let mut note = Note { frontmatter: frontmatter(text), ..Note::default() };
    note.aliases = list(&note.frontmatter, "aliases");
    note.tags = list(&note.frontmatter, "tags");
    let mut at = 0;
    let mut fence: Option<(usize, bool)> = None;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let start = at;
        at += line.len();
        if start < note.frontmatter.range.end {
            continue;
        }
        if line.starts_with("```") {
            match fence.take() {
                Some((open, true)) => {
                    let head = text[open..].find('\n').map_or(open, |end| open + end + 1);
                    note.queries.push(QueryBlock { text: text[head..start].to_owned(), range: open..at });
                }
                Some(_) => {}
                None => fence = Some((start, line.starts_with("```dataview"))),
            }
            continue;
        }
        if fence.is_some() {
            continue;
        }
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if (1..=6).contains(&level) && line[level..].starts_with(' ') {
            for open in note.headings.iter_mut().filter(|open| open.section.end == usize::MAX && usize::from(open.level) >= level)
            {
                open.section.end = start;
            }
            let section = start..usize::MAX;
            #[allow(clippy::cast_possible_truncation)]
            note.headings.push(Heading { level: level as u8, text: line[level..].trim().to_owned(), section, line: number });
        }
        for (at, word) in line.match_indices('#') {
            let free = line[..at].chars().next_back().is_none_or(char::is_whitespace);
            let end = line[at + 1..]
                .find(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '-' | '_')))
                .unwrap_or(line.len() - at - 1);
            let tag = &line[at + word.len()..at + 1 + end];
            if free && !tag.is_empty() && !note.tags.iter().any(|known| known == tag) {
                note.tags.push(tag.to_owned());
            }
        }
        if let Some((body, id)) = line.trim_end().rsplit_once(" ^") {
            note.blocks.push(Block { id: id.to_owned(), range: start..start + body.len() });
        }
        links(line, start, &mut note.links);
    }
    for heading in &mut note.headings {
        heading.section.end = heading.section.end.min(text.len());
    }
    note
}

/// The section under a heading.
pub fn section(_text: &str, note: &Note, path: &[String]) -> Option<Range<usize>> {
    let last = path.last()?;
    note.headings.iter().find(|heading| heading.text.eq_ignore_ascii_case(last)).map(|heading| heading.section.clone())
}

/// A block by its id.
pub fn block(_text: &str, note: &Note, id: &str) -> Option<Range<usize>> {
    note.blocks.iter().find(|block| block.id.eq_ignore_ascii_case(id)).map(|block| block.range.clone())
}

fn frontmatter(text: &str) -> Frontmatter {
    let Some(rest) = text.strip_prefix("---\n") else { return Frontmatter::default() };
    let Some(end) = rest.find("\n---") else { return Frontmatter::default() };
    let fields = rest[..end].lines().filter_map(|line| line.split_once(':'));
    let fields = fields.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned().into())).collect();
    let tail = &rest[end + 4..];
    let end = 4 + end + 4 + tail.find('\n').map_or(tail.len(), |at| at + 1);
    Frontmatter { range: 0..end, fields, fault: None }
}

fn list(frontmatter: &Frontmatter, key: &str) -> Vec<String> {
    let value = frontmatter.get(key).and_then(|value| value.as_str()).unwrap_or_default();
    value.trim_matches(['[', ']']).split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

fn links(line: &str, offset: usize, out: &mut Vec<Link>) {
    let mut at = 0;
    while let Some(found) = line[at..].find("[[").map(|found| at + found) {
        let Some(end) = line[found..].find("]]").map(|end| found + end) else { break };
        let inner = &line[found + 2..end];
        let (target, text) = inner.split_once('|').map_or((inner, None), |(target, text)| (target, Some(text.to_owned())));
        let (target, part) = target.split_once('#').map_or((target, None), |(target, part)| (target, Some(part)));
        let part = part.map(|part| match part.strip_prefix('^') {
            Some(id) => Part::Block(id.to_owned()),
            None => Part::Heading(part.split('#').map(str::to_owned).collect()),
        });
        let embed = line[..found].ends_with('!');
        let range = offset + found - usize::from(embed)..offset + end + 2;
        out.push(Link { form: LinkForm::Wiki, embed, target: target.to_owned(), part, text, range });
        at = end + 2;
    }
    let mut at = 0;
    while let Some(found) = line[at..].find("](").map(|found| at + found) {
        let Some(end) = line[found..].find(')').map(|end| found + end) else { break };
        let Some(open) = line[..found].rfind('[') else { break };
        let embed = line[..open].ends_with('!');
        let range = offset + open - usize::from(embed)..offset + end + 1;
        let target = line[found + 2..end].replace("%20", " ");
        out.push(Link {
            form: LinkForm::Markdown,
            embed,
            target,
            part: None,
            text: Some(line[open + 1..found].to_owned()),
            range,
        });
        at = end + 1;
    }
}

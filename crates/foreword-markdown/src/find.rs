//! Finding the part of a note that a link names.

use std::ops::Range;

use crate::note::Note;

/// The section of the heading that a chain names: the last heading of the chain, below the one before it. Headings are compared without
/// case, punctuation and repeated blanks, as they are written and as they are shown; the first that fits counts.
pub fn section(text: &str, note: &Note, chain: &[String]) -> Option<Range<usize>> {
    let wanted: Vec<String> = chain.iter().map(|step| comparable(step)).collect();
    if wanted.is_empty() {
        return None;
    }
    // For the heading of each level that the search is inside of: how much of the chain it and those above it match.
    let mut above: Vec<(u8, usize)> = Vec::new();
    for heading in &note.headings {
        while above.last().is_some_and(|(level, _)| *level >= heading.level) {
            above.pop();
        }
        let matched = above.last().map_or(0, |(_, matched)| *matched);
        let step = wanted.get(matched)?;
        let written = || text.get(heading.section.clone()).and_then(|section| section.lines().next()).unwrap_or_default();
        let fits = comparable(&heading.text) == *step || comparable(written()) == *step;
        if fits && matched + 1 == wanted.len() {
            return Some(heading.section.clone());
        }
        above.push((heading.level, matched + usize::from(fits)));
    }
    None
}

/// The block with an id, which is compared without case.
pub fn block(text: &str, note: &Note, id: &str) -> Option<Range<usize>> {
    let block = note.blocks.iter().find(|block| block.id.eq_ignore_ascii_case(id.trim()))?;
    text.get(block.range.clone()).map(|_| block.range.clone())
}

/// A heading as headings are compared. Links cannot hold `#`, `^`, `|` or brackets, so these and their like count as blanks.
fn comparable(heading: &str) -> String {
    let is_mark = |c: char| c.is_whitespace() || (c.is_ascii_punctuation() && !matches!(c, '-' | '_' | '\''));
    let mut text = String::with_capacity(heading.len());
    for word in heading.split(is_mark).filter(|word| !word.is_empty()) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.extend(word.chars().flat_map(char::to_lowercase));
    }
    text
}

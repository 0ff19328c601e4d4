//! Any text is read as a note whose places lie in the text, on character boundaries and in order.

#![no_main]

use std::ops::Range;

use foreword_markdown::note::Part;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let note = foreword_markdown::read(text);
    let holds = |range: &Range<usize>| assert!(range.start <= range.end && text.get(range.clone()).is_some(), "{range:?}");
    holds(&note.frontmatter.range);
    note.headings.iter().for_each(|heading| holds(&heading.section));
    note.blocks.iter().for_each(|block| holds(&block.range));
    note.links.iter().for_each(|link| holds(&link.range));
    note.queries.iter().for_each(|query| holds(&query.range));
    assert!(note.headings.is_sorted_by_key(|heading| heading.section.start));
    assert!(note.queries.is_sorted_by_key(|query| query.range.start));
    let body = note.links.iter().filter(|link| link.range.start >= note.frontmatter.range.end);
    assert!(body.map(|link| link.range.start).is_sorted());

    for link in &note.links {
        assert!(!link.target.is_empty() || link.part.is_some());
        if let Some(Part::Heading(chain)) = &link.part {
            assert!(!chain.is_empty() && chain.iter().all(|step| !step.is_empty()));
        }
    }
    for tag in &note.tags {
        assert!(!tag.is_empty() && !tag.contains(char::is_whitespace) && !tag.contains('#'), "{tag:?}");
    }
    let lines = text.split('\n').count();
    for (place, item) in note.items.iter().enumerate() {
        assert!((1..=lines).contains(&(item.line as usize)));
        assert!(item.parent.is_none_or(|parent| (parent as usize) < place));
        assert!(item.heading.is_none_or(|heading| (heading as usize) < note.headings.len()));
    }
    for field in note.fields.iter().chain(note.items.iter().flat_map(|item| &item.fields)) {
        assert!(!field.key.is_empty() && (1..=lines).contains(&(field.line as usize)));
    }
    assert_eq!(note, foreword_markdown::read(text), "the same text is read the same way");
});

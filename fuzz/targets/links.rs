//! The first line is a link; the rest is the note in which its part is looked for.

#![no_main]

use foreword_markdown::note::Part;

libfuzzer_sys::fuzz_target!(|data: &str| {
    let (inner, text) = data.split_once('\n').unwrap_or((data, data));
    let note = foreword_markdown::read(text);
    match foreword_markdown::link(inner).part {
        Some(Part::Heading(chain)) => {
            if let Some(section) = foreword_markdown::section(text, &note, &chain) {
                assert!(note.headings.iter().any(|heading| heading.section == section));
            }
        }
        Some(Part::Block(id)) => {
            if let Some(block) = foreword_markdown::block(text, &note, &id) {
                assert!(text.get(block).is_some());
            }
        }
        None => {}
    }
    for block in &note.blocks {
        assert!(foreword_markdown::block(text, &note, &block.id).is_some(), "a block is found by its id");
    }
    for heading in note.headings.iter().filter(|heading| heading.text.contains(char::is_alphanumeric)) {
        assert!(foreword_markdown::section(text, &note, &[heading.text.clone()]).is_some(), "a heading is found by its text");
    }
});

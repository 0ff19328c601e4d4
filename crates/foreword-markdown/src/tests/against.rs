//! Our blocks against those of another reader of `CommonMark`, over random notes without what only Obsidian knows.

use proptest::prelude::*;
use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};

use super::sound;

/// What both readers say of a note: headings outside of containers by level, and items by depth.
#[derive(Debug, PartialEq, Eq)]
struct Outline {
    headings: Vec<u8>,
    items: Vec<usize>,
}

fn ours(text: &str) -> Outline {
    let note = sound(text);
    let mut depths: Vec<usize> = Vec::new();
    for item in &note.items {
        depths.push(item.parent.map_or(1, |parent| depths[parent as usize] + 1));
    }
    Outline { headings: note.headings.iter().map(|heading| heading.level).collect(), items: depths }
}

fn theirs(text: &str) -> Outline {
    let mut outline = Outline { headings: Vec::new(), items: Vec::new() };
    let (mut quotes, mut depth) = (0, 0);
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::BlockQuote(_)) => quotes += 1,
            Event::End(TagEnd::BlockQuote(_)) => quotes -= 1,
            Event::Start(Tag::Item) => {
                depth += 1;
                outline.items.push(depth);
            }
            Event::End(TagEnd::Item) => depth -= 1,
            Event::Start(Tag::Heading { level, .. }) if quotes == 0 && depth == 0 => outline.headings.push(level_number(level)),
            _ => {}
        }
    }
    outline
}

fn level_number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

/// A line of a note: marks of containers and blanks, then some content.
fn line() -> impl Strategy<Value = String> {
    let marks = prop::sample::select(vec![
        "", "", "", " ", "  ", "    ", "> ", ">", "- ", "* ", "1. ", "2. ", "10) ", "-\t", "+   ", "-     ",
    ]);
    let content = prop::sample::select(vec![
        "", "", "a", "b c", "# d", "## e ##", "#f", "---", "***", "===", "```", "~~~", "```rust", "````", "-", "1.", "<div>",
        "</div>", "<b>", "<!-- g", "-->", "<pre>", "</pre>", "\\# h",
    ]);
    (prop::collection::vec(marks, 0..4), content).prop_map(|(marks, content)| marks.concat() + content)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn headings_and_items_are_those_of_commonmark(lines in prop::collection::vec(line(), 0..12)) {
        // A first line of dashes would begin frontmatter.
        let text = format!("a\n\n{}", lines.join("\n"));
        prop_assert_eq!(ours(&text), theirs(&text), "{:?}", text);
    }
}

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn source<'a>(kind: Kind, name: &'a str, description: &'a str, text: &'a str) -> Source<'a> {
    Source { kind, name, description, text, parameters: None }
}

fn texts(chunks: &[Chunk]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk.text.as_str()).collect()
}

#[test]
fn seed_formats() {
    let check = |source: Source<'_>, expect: &[&str]| assert_eq!(texts(&seed_chunks(&source)), expect);
    check(source(Kind::Rule, "tone", "How to write", "Be kind.\n\nBe short."), &["tone: How to write", "Be kind.", "Be short."]);
    check(source(Kind::Reference, "tone", "", "Be kind."), &["tone", "Be kind."]);
    check(source(Kind::Tool, "read_file", "Reads.", "ignored"), &["read_file: Reads."]);
    let long = "word ".repeat(120);
    check(source(Kind::Rule, "a", "", &long), &["a", long.trim()]);
    let sentence = format!("{}.", "x".repeat(299));
    check(source(Kind::Rule, "a", "", &format!("{sentence} {sentence} b.")), &["a", &sentence, &format!("{sentence} b.")]);
}

#[test]
fn items_are_read_as_words() {
    let schema = json!({"properties": {"filePath": {"description": "where it is", "enum": ["a", "b"]},
        "more": {"properties": {"inner": {"type": "string"}}}}});
    let tool = Source { parameters: Some(&schema), ..source(Kind::Tool, "fs.readFile", "Reads.", "") };
    let chunks = item_chunks(&tool);
    assert_eq!(texts(&chunks), ["fs read file: Reads.", "fs read file: file path: where it is; more; inner"]);
    assert_eq!(
        (chunks[0].context.as_str(), chunks[0].detail.as_str()),
        ("fs.readFile", "filePath where it is a b more   inner   ")
    );
    assert_eq!(chunks.iter().map(|chunk| chunk.view).collect::<Vec<_>>(), [false, true]);
    assert_eq!(texts(&item_chunks(&source(Kind::Tool, "x1", "", ""))), ["x1"]);
    assert_eq!(texts(&item_chunks(&source(Kind::Note, "D1:3", "", "Anna: hello"))), ["Anna: hello"]);
    assert_eq!(texts(&item_chunks(&source(Kind::Rule, "tone", "", "Be kind.\n\nShort."))), ["tone\nBe kind.\n\nShort."]);
    assert_eq!(texts(&item_chunks(&source(Kind::Rule, "tone", "", ""))), ["tone"]);
}

#[test]
fn notes_by_heading() {
    let text = "---\ntitle: T\nid: 7\ntags:\n  - piano\n---\nIntro.\n\n# One\nA.\n\n```\n# not a heading\n\ncode\n```\n#### Deep\nB.\n## Two\nC.\n";
    let chunks = note_chunks("Note", text);
    let found: Vec<_> = chunks.iter().map(|chunk| (chunk.context.as_str(), &text[chunk.range.clone()])).collect();
    assert_eq!(
        found,
        [
            ("Note", ""),
            ("Note", "Intro."),
            ("Note > One", "# One\nA.\n\n```\n# not a heading\n\ncode\n```\n#### Deep\nB."),
            ("Note > One > Two", "## Two\nC.")
        ]
    );
    assert_eq!(texts(&chunks)[..2], ["Note\nT piano", "Intro."]);
    assert_eq!(texts(&chunks)[3], "One > Two\n## Two\nC.");
    assert_eq!(texts(&note_chunks("Empty", "")), ["Empty"]);
}

#[test]
fn regression_a_renamed_note_kept_its_old_name() {
    let text = "Intro.\n\n# One\nA.\n";
    let (old, new) = (note_chunks("Draft", text), note_chunks("Quagga", text));
    assert_eq!(texts(&old)[1..], texts(&new)[1..], "its text needs no new vectors");
    assert!(new.iter().all(|chunk| chunk.context.starts_with("Quagga")), "every chunk is found by the new name");
}

fn check_cover(text: &str, chunks: &[Chunk]) {
    let mut at = 0;
    for chunk in chunks {
        assert!(chunk.range.start >= at && text.is_char_boundary(chunk.range.start) && text.is_char_boundary(chunk.range.end));
        assert!(text[at..chunk.range.start].trim().is_empty(), "{:?} is in no chunk", &text[at..chunk.range.start]);
        assert!(text[chunk.range.clone()].chars().count() <= CHUNK_CHARS + 4);
        at = chunk.range.end;
    }
    assert!(text[at..].trim().is_empty());
}

proptest! {
    #[test]
    fn chunks_cover_the_text_in_order(text in "([a-zé.!? \n#`-]{0,40}|[\\PC\n]{0,40}|[a-z东]{400,900}|(word\\. ){80,200}){0,8}") {
        prop_assume!(!text.trim_start_matches('\u{feff}').starts_with("---"));
        let chunks = note_chunks("Title", &text);
        let filled: Vec<Chunk> = chunks.into_iter().filter(|chunk| !chunk.range.is_empty()).collect();
        check_cover(&text, &filled);
        let items = item_chunks(&source(Kind::Rule, "r", "", &text));
        let filled: Vec<Chunk> = items.into_iter().filter(|chunk| !chunk.range.is_empty()).collect();
        check_cover(&text, &filled);
        seed_chunks(&source(Kind::Rule, "r", "d", &text));
    }
}

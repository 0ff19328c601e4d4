use proptest::prelude::*;

use super::*;

fn shown(text: &str, width: usize, colour: bool) -> String {
    let mut markdown = Markdown::new(width, colour);
    markdown.push(text) + &markdown.finish()
}

#[test]
fn without_colour() {
    fn check(text: &str, expect: &str) {
        assert_eq!(shown(text, 40, false), expect, "{text:?}");
    }
    check("", "");
    check("Hello.", "Hello.\n");
    check("Hello.\n", "Hello.\n");
    check("a\n\n\nb", "a\n\n\nb\n");
    check("# Title\nText", "Title\nText\n");
    check("#tag is no heading", "#tag is no heading\n");
    check("####### seven", "####### seven\n");
    check("**bold** and *it* and ***both***", "bold and it and both\n");
    check("**bold *it* more**", "bold it more\n");
    check("__a__ _b_ snake_case_name _x_y", "a b snake_case_name _x_y\n");
    check("2 * 3 * 4 and a*b", "2 * 3 * 4 and a*b\n");
    check("**never closed\nnext**", "**never closed\nnext**\n");
    check("~~gone~~ ~one~", "gone ~one~\n");
    check("`a*b*` ``c ` d`` ` open", "a*b* c ` d ` open\n");
    check("**a `**` b**", "a ** b\n");
    check(r"\*no\* \a", "*no* \\a\n");
    check("[words](https://a.example/x_(y))", "words (https://a.example/x_(y))\n");
    check("![alt](pic.png) !important", "alt (pic.png) !important\n");
    check("[not a link] [ ] [x] [](y)", "[not a link] [ ] [x] [](y)\n");
    check("said so[^1], and[^note 2].", "said so[1], and[^note 2].\n");
    check("see [[Bread|my bread]] [[", "see [[Bread|my bread]] [[\n");
    check("- one\n  - two\n* three\n+ four\n-five", "• one\n  • two\n• three\n• four\n-five\n");
    check("1. one\n10) ten\n1.5 kg\n2024", "1. one\n10) ten\n1.5 kg\n2024\n");
    check("> quoted\n> - item", "│ quoted\n│ • item\n");
    check("---\n***\n--\n- - -", "────────────────────\n────────────────────\n--\n• • • \n");
    check("| a | b |\n|---|---|\n| **1** | 2 |", "| a | b |\n|---|---|\n| **1** | 2 |\n");
    check("```rust\nlet a = *b;\n\n  x\n```\nafter", "╭─ rust\n│ let a = *b;\n│ \n│   x\n╰─\nafter\n");
    check("1. x\n   ~~~\n   code\n   ~~~", "1. x\n   ╭─\n   │ code\n   ╰─\n");
    check("1. ```sh\n   ls\n   ```", "1. ╭─ sh\n   │ ls\n   ╰─\n");
    check("````\n```\n````", "╭─\n│ ```\n╰─\n");
    check("```\nopen", "╭─\n│ open\n╰─\n");
    check("```\n", "╭─\n╰─\n");
    check("a\tb\r\n\u{1b}[31mred\u{7}\u{202e}", "a    b\n\u{fffd}[31mred\u{fffd}\u{fffd}\n");
}

#[test]
fn long_lines_are_wrapped_and_keep_their_indentation() {
    fn check(text: &str, expect: &[&str]) {
        let found = shown(text, 20, false);
        assert_eq!(found.lines().collect::<Vec<_>>(), expect, "{text:?}");
    }
    check("one two three four five six", &["one two three four", "five six"]);
    check("- one two three four five six", &["• one two three four", "  five six"]);
    check("> one two three four five six", &["│ one two three four", "│ five six"]);
    check("10. one two three four five", &["10. one two three", "    four five"]);
    check("a https://a.example/a/very/long/address b", &["a", "https://a.example/a/", "very/long/address b"]);
    check("小麦粉と水と塩だけで作る", &["小麦粉と水と塩だけで", "作る"]);
    check("| a | row that is longer than the terminal | is left |", &["| a | row that is longer than the terminal | is left |"]);
    check("```\ncode that is longer than the terminal\n```", &["╭─", "│ code that is longer than the terminal", "╰─"]);
}

#[test]
fn with_colour() {
    fn check(text: &str, expect: &str) {
        let found = shown(text, 40, true).replace('\x1b', "^");
        assert_eq!(found, expect, "{text:?}");
    }
    check("plain", "plain\n");
    check("# T", "^[1;4mT^[0m\n");
    check("## T *i*", "^[1mT ^[0m^[1;3mi^[0m\n");
    check("**a b** c", "^[1ma b^[0m c\n");
    check("`x`[^2]", "^[36mx[2]^[0m\n");
    check("[w](u)", "^[4mw^[0m^[2m (u)^[0m\n");
    check("- x", "^[2m• ^[0mx\n");
}

/// What is certain is shown at once; what is not is kept back.
#[test]
fn parts_are_shown_when_they_are_certain() {
    let mut markdown = Markdown::new(80, false);
    let mut check = |part: &str, expect: &str| assert_eq!(markdown.push(part), expect, "{part:?}");
    check("Hel", "");
    check("lo wor", "Hello");
    check("ld **bo", " world");
    check("ld** is", " bold");
    check(" here `co", " is here");
    check("de` and [a li", " code and");
    check("nk](x) ", " a link (x)");
    check("\n``", "\n");
    check("`py\n", "╭─ py\n");
    check("print(", "│ print(");
    check("1)\n``", "1)\n");
    check("`\n", "╰─\n");
    assert_eq!(markdown.finish(), "");
}

/// Markdown that has all the markers, and some that are broken.
fn markdown_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\n"),
        Just("\n\n"),
        Just(" "),
        Just("**"),
        Just("*"),
        Just("_"),
        Just("__"),
        Just("`"),
        Just("```"),
        Just("~~~"),
        Just("~~"),
        Just("["),
        Just("]"),
        Just("("),
        Just(")"),
        Just("[^1]"),
        Just("[["),
        Just("]]"),
        Just("# "),
        Just("- "),
        Just("1. "),
        Just("> "),
        Just("|"),
        Just("---"),
        Just("\\"),
        Just("!"),
        Just("word"),
        Just("näh"),
        Just("小麦"),
        Just("7"),
        Just("\u{1b}[2J"),
        Just("\t"),
        Just("https://a.example/x"),
        Just("\n```rust\nlet x;\n```\n"),
        Just("    "),
        Just("\r\n"),
    ];
    let long = prop_oneof![9 => Just(1), 1 => Just(300_usize)];
    prop::collection::vec((piece, long), 0..40).prop_map(|pieces| {
        pieces.into_iter().map(|(piece, times)| piece.repeat(times.min(if piece.len() > 3 { 1 } else { 300 }))).collect()
    })
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

proptest! {
    #[test]
    fn any_split_shows_the_same(text in markdown_text(), cuts in prop::collection::vec(0_usize..4000, 0..20), width in 20_usize..90, colour: bool) {
        let mut markdown = Markdown::new(width, colour);
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|at| text.is_char_boundary(*at)).collect();
        cuts.sort_unstable();
        let mut found = String::new();
        let mut from = 0;
        for at in cuts.into_iter().chain([text.len()]) {
            found += &markdown.push(&text[from..at]);
            from = at;
        }
        found += &markdown.finish();
        prop_assert_eq!(found, shown(&text, width, colour));
    }

    #[test]
    fn what_is_said_is_what_is_shown(text in markdown_text(), width in 20_usize..90) {
        let found = shown(&text, width, false);
        prop_assert_eq!(letters(&found), letters(&text));
        prop_assert!(!found.contains(|c: char| c.is_control() && c != '\n'));
        prop_assert!(text.is_empty() || found.is_empty() || found.ends_with('\n'));
    }

    #[test]
    fn colours_change_no_character(text in markdown_text(), width in 20_usize..90) {
        let mut bare = String::new();
        let coloured = shown(&text, width, true);
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once('\x1b') {
            bare += before;
            rest = after.split_once('m').unwrap().1;
        }
        prop_assert_eq!(bare + rest, shown(&text, width, false));
    }
}

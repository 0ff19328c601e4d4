//! Counts are those of `bpe-openai`, which is tested against OpenAI's own tokenizer.

use foreword_tokenizer::{CL100K, O200K, Tokenizer, cl100k, o200k};
use proptest::prelude::*;

fn both() -> [(&'static Tokenizer, &'static bpe_openai::Tokenizer); 2] {
    [(cl100k(), bpe_openai::cl100k_base()), (o200k(), bpe_openai::o200k_base())]
}

#[track_caller]
fn check(text: &str) {
    for (ours, theirs) in both() {
        assert_eq!(ours.count(text), theirs.count(text), "{text:?}");
    }
}

#[test]
fn known_texts() {
    for text in [
        "",
        " ",
        "  ",
        "\n",
        " \n ",
        "a  b",
        "a   \n\n  b ",
        "don't DON'T we'll",
        "12345678",
        "fn main() { println!(\"{}\", 1_000); }\n",
        "//////\r\n\t\tx",
        "Straße, naïve, 東京, مرحبا, 👩‍👩‍👧‍👦",
        "<|endoftext|>",
        "\u{a0}\u{2003}x\u{85}y",
    ] {
        check(text);
    }
    check(include_str!("same_as_peer.rs"));
    check(&"a".repeat(5_000));
    check(&" ".repeat(5_000));
    check(&"ab!?".repeat(2_000));
}

/// A word without an end takes n log n steps, not n².
#[test]
fn a_word_of_a_million_letters_is_counted() {
    assert_eq!(o200k().count(&"x".repeat(1 << 20)), bpe_openai::o200k_base().count("x".repeat(1 << 20).as_str()));
}

proptest! {
    #[test]
    fn any_text(text in prop_oneof![
        "\\PC{0,200}",
        "[a-zA-Z' \\n\\r\\t0-9.,/é]{0,400}",
        "[\\x00-\\x7f]{0,300}",
        "(the |of |and |ing|er|\\s|[A-Z][a-z]+){0,60}",
    ]) {
        check(&text);
    }
}

#[test]
fn a_vocabulary_read_from_a_file_counts_the_same() {
    let loaded = [Tokenizer::cl100k(CL100K.to_vec()), Tokenizer::o200k(O200K.to_vec())];
    for ((built_in, _), loaded) in both().into_iter().zip(loaded) {
        for text in [
            "",
            "You are a helpful assistant.",
            "émigré 🎹 12345678\n\n  x",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ] {
            assert_eq!(loaded.count(text), built_in.count(text), "{text:?}");
        }
    }
}

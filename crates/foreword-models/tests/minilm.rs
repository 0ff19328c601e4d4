//! The embedding model against the reference: its tokens, its vectors, and what is promised about them.
//!
//! These need the weights. `FOREWORD_MODELS` names the folder that holds them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "weights/mod.rs"]
mod test_weights;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use foreword_models::minilm::MiniLm;
use foreword_models::weights::MINILM;
use foreword_models::wordpiece::{MOST_TOKENS, WordPiece};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde::Deserialize;

/// Vectors by a 64-bit implementation of the same model, times 100,000; long texts have the number of their tokens only.
const REFERENCE: &str = include_str!("reference.json");

#[derive(Deserialize)]
struct Row {
    text: String,
    tokens: Tokens,
    vector: Vec<f32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Tokens {
    All(Vec<u32>),
    Count(usize),
}

fn rows() -> Vec<Row> {
    serde_json::from_str(REFERENCE).unwrap()
}

fn test_weights() -> Option<PathBuf> {
    let folder = MINILM.present(&test_weights::test_models()?);
    assert!(folder.is_some(), "FOREWORD_MODELS has no {}", MINILM.name);
    folder
}

fn tokenizer() -> Option<WordPiece> {
    let folder = test_weights()?;
    Some(WordPiece::new(&std::fs::read(folder.join("tokenizer.json")).unwrap()).unwrap())
}

fn model() -> Option<MiniLm> {
    Some(MiniLm::open(&test_weights()?).unwrap())
}

fn threads(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

#[test]
fn tokens_are_those_of_the_reference() {
    let Some(tokenizer) = tokenizer() else { return };
    for row in rows() {
        let found = tokenizer.encode(&row.text);
        match row.tokens {
            Tokens::All(expect) => assert_eq!(found, expect, "{:?}", row.text),
            Tokens::Count(expect) => assert_eq!(found.len(), expect, "{:?}", row.text),
        }
    }
}

#[test]
fn vectors_are_those_of_the_reference() {
    let Some(model) = model() else { return };
    let rows = rows();
    let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
    for (row, found) in rows.iter().zip(model.embed(&texts)) {
        let length = |vector: &[f32]| vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        let cosine = row.vector.iter().zip(found).map(|(a, b)| a * b).sum::<f32>() / length(&row.vector);
        assert!(cosine > 0.999_99, "{:?}: {cosine}", row.text);
        assert!((length(&found) - 1.0).abs() < 1e-5);
    }
}

#[test]
fn any_text_becomes_at_most_256_tokens() {
    let Some(tokenizer) = tokenizer() else { return };
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let texts = prop_oneof![any::<String>(), "\\PC{0,600}", "[\\[\\]CLSEPUNKMASD ]{0,80}", "[a\u{301}é\u{ac00}字]{0,400}"];
    let check = |text: String| {
        let tokens = tokenizer.encode(&text);
        prop_assert!((2..=MOST_TOKENS).contains(&tokens.len()));
        prop_assert!(tokens.iter().all(|token| (*token as usize) < tokenizer.size()));
        Ok(())
    };
    runner.run(&texts, check).unwrap();
}

#[test]
fn a_vector_is_the_same_to_the_bit_in_any_company_and_on_any_number_of_threads() {
    let Some(model) = model() else { return };
    let rows = rows();
    let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
    let model = model.with_threads(threads(1));
    let alone: Vec<_> = texts.iter().map(|text| model.embed(&[text])[0]).collect();
    for count in [1, 2, 3, 4, 9] {
        let model = MiniLm::open(&test_weights().unwrap()).unwrap().with_threads(threads(count));
        assert!(model.embed(&texts) == alone, "{count} threads, all together");
        assert!(model.embed(&texts[..4]) == alone[..4], "{count} threads, a few together");
        for text in [0, 3, 18, 19] {
            assert!(model.embed(&[texts[text]]) == alone[text..=text], "{count} threads, alone: {:?}", texts[text]);
        }
    }
    assert!(model.embed(&[]).is_empty());
}

//! PDF files as other programs write them, one for each thing that is easily got wrong.

#![allow(clippy::unwrap_used, clippy::panic)] // tests: a panic is how they fail

use foreword_documents::pdf::{PdfError, text};

fn read(name: &str) -> Result<String, PdfError> {
    text(&std::fs::read(format!("{}/tests/pdf/{name}.pdf", env!("CARGO_MANIFEST_DIR"))).unwrap())
}

#[track_caller]
fn check(name: &str, expect: &str) {
    let found = read(name).unwrap();
    assert!(found.starts_with(&format!("[Page 1]\n\n{expect}")), "{name}: {found}");
}

#[test]
fn fonts() {
    check("subset", "fpdf2: Żółć naïve ½ “quotes” …\n\nline two");
    check("cjk", "中文测试，今天开会");
}

#[test]
fn columns_are_read_one_after_the_other() {
    let found = read("columns").unwrap();
    let numbers: Vec<usize> = found.split("number ").skip(1).filter_map(|part| part.split(' ').next()?.parse().ok()).collect();
    assert_eq!(numbers, (0..60).collect::<Vec<_>>());
}

#[test]
fn locks() {
    check("owner-locked", "readable without password");
    assert_eq!(read("encrypted"), Err(PdfError::Encrypted));
}

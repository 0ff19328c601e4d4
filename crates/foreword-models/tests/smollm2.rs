//! The real vocabulary, where it is there: `FOREWORD_MODELS` points to a folder with the file.

use std::path::Path;

use foreword_core::tokens::{Tokenizer, Tokens};
use foreword_models::weights::SMOLLM2;

#[test]
fn ids_of_the_real_vocabulary() {
    let Some(folder) = std::env::var_os("FOREWORD_MODELS") else {
        return;
    };
    let Some(folder) = SMOLLM2.present(Path::new(&folder)) else {
        return;
    };
    let bpe = foreword_models::open(&folder.join(SMOLLM2.files[0].file_name())).unwrap();
    // `assistant` is two tokens where no space stands in front.
    assert_eq!(bpe.per_message(), Tokens(6));
    // From the `tokenizers` package with the file's vocabulary and merges.
    for (text, expect) in EXPECTED {
        assert_eq!(bpe.encode(text), *expect, "{text:?}");
        assert_eq!(bpe.count(text), Tokens(expect.len() as u64), "{text:?}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = foreword_models::open(Path::new("/nowhere/model.gguf")).unwrap_err();
    assert!(error.to_string().contains("/nowhere/model.gguf"), "{error}");
}

#[rustfmt::skip]
const EXPECTED: &[(&str, &[u32])] = &[
    ("You are a helpful assistant.", &[2683, 359, 253, 5356, 11173, 30]),
    ("Piano Lessons/Lesson 4.md", &[64, 11206, 20106, 31, 9589, 216, 36, 30, 13738]),
    ("In 2024, 3.14 isn't 22/7.", &[788, 216, 34, 32, 34, 36, 28, 216, 35, 30, 33, 36, 3247, 982, 216, 34, 34, 31, 39, 30]),
    ("fn main() {\n    println!(\"hi\");\n}\n", &[7853, 1085, 1000, 1662, 472, 1628, 34115, 17, 1470, 6004, 21646, 198, 109, 198]),
    ("日本語とémigré 😀", &[23274, 115, 40993, 179, 120, 248, 7365, 118, 2756, 22757, 27968, 40303, 218]),
    ("  two  spaces\n\n\tend ", &[216, 827, 216, 5600, 1116, 197, 486, 216]),
];

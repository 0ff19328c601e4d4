//! Counts tokens exactly as OpenAI's models do.
//!
//! A text is split into words by the pattern of the vocabulary, and each word into tokens by byte-pair encoding: the two neighbours whose
//! joined bytes have the lowest rank become one, until no two neighbours are a token together. Most words are a token by themselves.
//!
//! ```
//! let tokenizer = foreword_tokenizer::o200k();
//! assert_eq!(tokenizer.count("You are a helpful assistant."), 6);
//! ```

mod merge;

use std::collections::HashMap;
use std::sync::LazyLock;

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};
use rustc_hash::FxBuildHasher;

/// The rank of each token by its bytes.
type Ranks = HashMap<&'static [u8], u32, FxBuildHasher>;

/// A vocabulary and the pattern that splits a text into words.
#[derive(Debug)]
pub struct Tokenizer {
    ranks: Ranks,
    /// The first pattern matches words, the second one runs of whitespace. None if a pattern is not valid, which a test rules out.
    words: Option<Regex>,
}

impl Tokenizer {
    fn new(list: &'static [u8], words: &[&str]) -> Self {
        let mut ranks = Ranks::with_capacity_and_hasher(list.len() / 6, FxBuildHasher);
        let mut rest = list;
        while let Some((token, after)) = rest.split_first().and_then(|(length, rest)| rest.split_at_checked(usize::from(*length)))
        {
            let rank = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
            ranks.insert(token, rank);
            rest = after;
        }
        let words = Regex::new_many(&[&words.join("|"), r"\s+"]).ok();
        Self { ranks, words }
    }

    /// The number of tokens of a text. Names of special tokens count as ordinary text.
    pub fn count(&self, text: &str) -> usize {
        self.words(text).map(|word| if self.ranks.contains_key(word) { 1 } else { merge::count(&self.ranks, word) }).sum()
    }

    fn words<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = text;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let found = self.words.as_ref().and_then(|words| words.find(Input::new(rest).anchored(Anchored::Yes)));
            let mut end = found.as_ref().map_or(rest.len(), regex_automata::Match::end);
            let is_whitespace = found.is_some_and(|found| found.pattern().as_usize() == 1);
            if is_whitespace && end < rest.len() {
                // The last space before a word belongs to the word, unless it is alone.
                let last = rest.get(..end).and_then(|run| run.chars().next_back()).map_or(0, char::len_utf8);
                if last < end {
                    end -= last;
                }
            }
            let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            rest = after;
            Some(word.as_bytes())
        })
    }
}

/// The vocabulary of GPT-4 and GPT-3.5.
pub fn cl100k() -> &'static Tokenizer {
    static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
        Tokenizer::new(
            include_bytes!(concat!(env!("OUT_DIR"), "/cl100k")),
            &[
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
                r"[^\r\n\p{L}\p{N}]?\p{L}+",
                r"\p{N}{1,3}",
                r" ?[^\s\p{L}\p{N}]+[\r\n]*",
                r"\s*[\r\n]+",
            ],
        )
    });
    &TOKENIZER
}

/// The vocabulary of GPT-4o and later models.
pub fn o200k() -> &'static Tokenizer {
    static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
        Tokenizer::new(
            include_bytes!(concat!(env!("OUT_DIR"), "/o200k")),
            &[
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                r"\p{N}{1,3}",
                r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
                r"\s*[\r\n]+",
            ],
        )
    });
    &TOKENIZER
}

//! Counts tokens exactly as OpenAI's models do.
//!
//! A text is split into words by the pattern of the vocabulary, and each word into tokens by byte-pair encoding: the two neighbours whose
//! joined bytes have the lowest rank become one, until no two neighbours are a token together. Most words are a token by themselves.
//!
//! ```
//! # #[cfg(feature = "vocabularies")]
//! assert_eq!(foreword_tokenizer::o200k().count("You are a helpful assistant."), 6);
//! ```

mod merge;

use std::borrow::Cow;
use std::collections::HashMap;
#[cfg(feature = "vocabularies")]
use std::sync::LazyLock;

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};
use rustc_hash::FxBuildHasher;

/// The rank of each token by its bytes.
type Ranks = HashMap<Cow<'static, [u8]>, u32, FxBuildHasher>;

/// How a vocabulary splits a text into words.
const CL100K_WORDS: [&str; 5] =
    [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+"];
const O200K_WORDS: [&str; 5] = [
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
];

/// The vocabulary of GPT-4 and GPT-3.5 as [`Tokenizer::cl100k`] reads it.
#[cfg(feature = "vocabularies")]
pub const CL100K: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cl100k"));
/// The vocabulary of GPT-4o and later models as [`Tokenizer::o200k`] reads it.
#[cfg(feature = "vocabularies")]
pub const O200K: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k"));

/// A vocabulary and the pattern that splits a text into words.
#[derive(Debug)]
pub struct Tokenizer {
    ranks: Ranks,
    /// The first pattern matches words, the second one runs of whitespace. None if a pattern is not valid, which a test rules out.
    words: Option<Regex>,
}

impl Tokenizer {
    fn new(list: Cow<'static, [u8]>, words: &[&str]) -> Self {
        let mut ranks = Ranks::with_capacity_and_hasher(list.len() / 6, FxBuildHasher);
        let mut add = |token: Cow<'static, [u8]>| {
            let rank = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
            ranks.insert(token, rank);
        };
        match list {
            Cow::Borrowed(list) => tokens(list).for_each(|token| add(Cow::Borrowed(token))),
            Cow::Owned(list) => tokens(&list).for_each(|token| add(Cow::Owned(token.to_vec()))),
        }
        let words = Regex::new_many(&[&words.join("|"), r"\s+"]).ok();
        Self { ranks, words }
    }

    /// The tokenizer of GPT-4 and GPT-3.5 with a vocabulary that was read from a file: the bytes of `CL100K`.
    pub fn cl100k(list: Vec<u8>) -> Self {
        Self::new(Cow::Owned(list), &CL100K_WORDS)
    }

    /// The tokenizer of GPT-4o and later models with a vocabulary that was read from a file: the bytes of `O200K`.
    pub fn o200k(list: Vec<u8>) -> Self {
        Self::new(Cow::Owned(list), &O200K_WORDS)
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

/// The tokens of a vocabulary: each is one byte with its length, then its bytes.
fn tokens(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first()?;
        let (token, after) = after.split_at_checked(usize::from(*length))?;
        rest = after;
        Some(token)
    })
}

/// The tokenizer of GPT-4 and GPT-3.5.
#[cfg(feature = "vocabularies")]
pub fn cl100k() -> &'static Tokenizer {
    static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::new(Cow::Borrowed(CL100K), &CL100K_WORDS));
    &TOKENIZER
}

/// The tokenizer of GPT-4o and later models.
#[cfg(feature = "vocabularies")]
pub fn o200k() -> &'static Tokenizer {
    static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::new(Cow::Borrowed(O200K), &O200K_WORDS));
    &TOKENIZER
}

//! How large a text is for a model.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

use serde::{Deserialize, Serialize};

/// A number of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tokens(pub u64);

impl Tokens {
    /// None.
    pub const ZERO: Self = Self(0);

    /// The difference, or none.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Tokens {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Tokens {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Mul<f64> for Tokens {
    type Output = f64;
    fn mul(self, price: f64) -> f64 {
        self.0 as f64 * price
    }
}

impl Sum for Tokens {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts tokens. The same text always counts the same.
pub trait Tokenizer: Send + Sync + fmt::Debug {
    /// Its name in settings and on the record.
    fn name(&self) -> &str;

    /// The size of `text`.
    fn count(&self, text: &str) -> Tokens;
}

impl<T: Tokenizer + ?Sized> Tokenizer for &T {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn count(&self, text: &str) -> Tokens {
        (**self).count(text)
    }
}

/// A fixed number of characters a token, rounded up: the estimate that needs no vocabulary.
#[derive(Clone, Copy, Debug)]
pub struct Chars {
    name: &'static str,
    per_token: u64,
}

impl Chars {
    /// Four characters a token.
    pub const FOUR: Self = Self { name: "chars4", per_token: 4 };
    /// Three characters a token: careful, for models whose tokenizer is not public and fine-grained.
    pub const THREE: Self = Self { name: "chars3", per_token: 3 };
}

impl Tokenizer for Chars {
    fn name(&self) -> &str {
        self.name
    }

    fn count(&self, text: &str) -> Tokens {
        Tokens((text.chars().count() as u64).div_ceil(self.per_token))
    }
}

/// An OpenAI vocabulary that was read from a file.
#[derive(Debug)]
pub struct Vocabulary {
    name: &'static str,
    tokenizer: foreword_tokenizer::Tokenizer,
}

impl Vocabulary {
    /// The vocabulary `o200k` or `cl100k`, as `foreword_tokenizer` writes it. `None` for another name.
    pub fn read(name: &str, list: Vec<u8>) -> Option<Self> {
        match name {
            "o200k" => Some(Self { name: "o200k", tokenizer: foreword_tokenizer::Tokenizer::o200k(list) }),
            "cl100k" => Some(Self { name: "cl100k", tokenizer: foreword_tokenizer::Tokenizer::cl100k(list) }),
            _ => None,
        }
    }
}

impl Tokenizer for Vocabulary {
    fn name(&self) -> &str {
        self.name
    }

    fn count(&self, text: &str) -> Tokens {
        Tokens(self.tokenizer.count(text) as u64)
    }
}

/// An OpenAI vocabulary, counted exactly as their own tokenizer does.
#[cfg(feature = "vocabularies")]
#[derive(Clone, Copy)]
pub struct OpenAi {
    name: &'static str,
    vocabulary: fn() -> &'static foreword_tokenizer::Tokenizer,
}

#[cfg(feature = "vocabularies")]
impl OpenAi {
    /// GPT-4o and later.
    pub const O200K: Self = Self { name: "o200k", vocabulary: foreword_tokenizer::o200k };
    /// GPT-4 and GPT-3.5.
    pub const CL100K: Self = Self { name: "cl100k", vocabulary: foreword_tokenizer::cl100k };
}

#[cfg(feature = "vocabularies")]
impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(feature = "vocabularies")]
impl Tokenizer for OpenAi {
    fn name(&self) -> &str {
        self.name
    }

    fn count(&self, text: &str) -> Tokens {
        Tokens((self.vocabulary)().count(text) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        assert_eq!(Chars::FOUR.count("You are a helpful assistant."), Tokens(7));
        assert_eq!(Chars::FOUR.count(""), Tokens(0));
        assert_eq!(Chars::FOUR.count("ééééé"), Tokens(2));
        #[cfg(feature = "vocabularies")]
        assert_eq!(OpenAi::O200K.count("You are a helpful assistant."), Tokens(6));
        #[cfg(feature = "vocabularies")]
        assert_eq!(OpenAi::CL100K.count("hello world"), Tokens(2));
    }
}

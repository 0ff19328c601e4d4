//! The token without which nobody comes in from outside: random, shown once, kept as a hash.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// The hash of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token([u8; 32]);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file.
    #[error("the server's token cannot be kept in {0}: {1}")]
    File(PathBuf, io::Error),
    /// Something else is in it.
    #[error("{0} does not hold the hash of a token; delete it, and the next start makes a new one")]
    Damaged(PathBuf),
    /// The system.
    #[error("cannot make a token: the system gives no random numbers ({0})")]
    NoRandomness(String),
}

impl Token {
    /// Of its text.
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Whether a text is the token. Hashes are compared, and all of their bytes, so that the time it takes tells nothing.
    pub fn is(&self, text: &str) -> bool {
        let other = Self::of(text);
        self.0.iter().zip(other.0).fold(0, |differs, (ours, theirs)| differs | (ours ^ theirs)) == 0
    }

    /// The token whose hash is in a file; where there is no such file, a new one, whose text is given back this once.
    pub fn keep(file: &Path) -> Result<(Self, Option<String>), TokenError> {
        let wrong = |error| TokenError::File(file.to_owned(), error);
        match fs::read_to_string(file) {
            Ok(text) => Ok((Self::from_hex(text.trim()).ok_or_else(|| TokenError::Damaged(file.to_owned()))?, None)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut bytes = [0; 32];
                getrandom::fill(&mut bytes).map_err(|error| TokenError::NoRandomness(error.to_string()))?;
                let text = URL_SAFE_NO_PAD.encode(bytes);
                let token = Self::of(&text);
                if let Some(folder) = file.parent() {
                    fs::create_dir_all(folder).map_err(wrong)?;
                }
                fs::write(file, token.hex() + "\n").map_err(wrong)?;
                Ok((token, Some(text)))
            }
            Err(error) => Err(wrong(error)),
        }
    }

    fn hex(self) -> String {
        let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
        self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_told_once_and_kept_as_a_hash() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/token");
        let (token, text) = Token::keep(&file).unwrap();
        let text = text.unwrap();
        assert!(text.len() >= 43);
        assert!(!fs::read_to_string(&file).unwrap().contains(&text));
        let (again, told) = Token::keep(&file).unwrap();
        assert_eq!((again, told), (token, None));
        assert!(again.is(&text));
        assert!(!again.is(&text[1..]));
        assert!(!again.is(""));
        fs::write(&file, "what else").unwrap();
        assert!(matches!(Token::keep(&file), Err(TokenError::Damaged(_))));
    }
}

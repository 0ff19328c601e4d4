//! Content hashes of Versions, segments, layers and envelopes.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

/// The sha256 of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Hashes `bytes`.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes.as_ref()).into())
    }

    /// The hash itself.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first eight hex digits: enough to tell two things apart on a screen.
    pub fn short(&self) -> String {
        self.to_string()[..8].to_owned()
    }
}

impl From<[u8; 32]> for Hash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.as_chunks_mut().0.iter_mut().zip(self.0) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let bytes = text.as_bytes().as_chunks::<2>().0.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
        let bytes = bytes.collect::<Option<Vec<u8>>>().filter(|_| text.len() == 64).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| de::Error::custom(format!("{text:?} is not a hash: expected 64 hex digits")))
    }
}

/// A hash over parts joined by blank lines, computed incrementally.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JoinedHash {
    #[serde(with = "state")]
    state: Sha256,
    started: bool,
}

/// A hash that is not finished yet, as bytes.
mod state {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
    use sha2::Sha256;
    use sha2::digest::common::hazmat::{SerializableState, SerializedState};

    pub(super) fn serialize<S: Serializer>(state: &Sha256, serializer: S) -> Result<S::Ok, S::Error> {
        state.serialize().as_slice().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sha256, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        let state =
            SerializedState::<Sha256>::try_from(bytes.as_slice()).map_err(|_| de::Error::custom("not the state of a hash"))?;
        Sha256::deserialize(&state).map_err(|_| de::Error::custom("not the state of a hash"))
    }
}

impl JoinedHash {
    /// Adds one part.
    pub fn push(&mut self, part: &str) {
        self.push_parts(&[part]);
    }

    /// Adds one part that is given in several pieces.
    pub fn push_parts(&mut self, pieces: &[&str]) {
        if self.started {
            self.state.update(b"\n\n");
        }
        self.started = true;
        for piece in pieces {
            self.state.update(piece.as_bytes());
        }
    }

    /// The hash so far; the empty hash where nothing was added.
    pub fn get(&self) -> Hash {
        Hash(self.state.clone().finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_read_back() {
        let hash = Hash::of("a");
        let json = serde_json::to_string(&hash).unwrap();
        assert_eq!(serde_json::from_str::<Hash>(&json).unwrap(), hash);
        for bad in ["\"\"", "\"ab\"", &json.replace('c', "x"), &json.replace('c', "")] {
            assert!(serde_json::from_str::<Hash>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn joined_is_the_hash_of_the_joined_text() {
        let mut joined = JoinedHash::default();
        assert_eq!(joined.get(), Hash::of(""));
        joined.push("a");
        joined.push_parts(&["b", "c"]);
        assert_eq!(joined.get(), Hash::of("a\n\nbc"));
    }
}

//! The bytes of the two files. All numbers are little-endian.
//!
//! ```text
//! embeddings.keys          header: magic (8), version u32, dimensions u32, generation u64, sum of these u64
//!                          then for each slot: key (16), sum over key and vector u64
//! vectors-<generation>.f32 for each slot: 384 f32
//! ```
//!
//! Every version begins with this header, so that an older program can tell a newer file from a damaged one.

use std::fs::File;
use std::io::{self, Read};

use super::Key;
use crate::{DIMENSIONS, Vector};

pub(super) const VECTOR_BYTES: usize = size_of::<Vector>();

const MAGIC: [u8; 8] = *b"FwEmbKey";

/// The start of the file of keys.
pub(super) struct Header {
    pub(super) generation: u64,
}

/// Why a header is of no use.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    Damaged,
    Newer { found: u32 },
    Dimensions { found: u32 },
}

impl Header {
    pub(super) const VERSION: u32 = 1;
    pub(super) const BYTES: usize = 32;

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        Self::encode_as(Self::VERSION, DIMENSIONS as u64, self.generation)
    }

    pub(super) fn encode_as(version: u32, dimensions: u64, generation: u64) -> [u8; Self::BYTES] {
        let numbers = u64::from(version) | dimensions << 32;
        let words = [u64::from_le_bytes(MAGIC), numbers, generation];
        let mut bytes = [0; Self::BYTES];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip([words[0], words[1], words[2], sum(words)]) {
            *bytes = word.to_le_bytes();
        }
        bytes
    }

    /// Reads the header; a file too short for one is a damaged one.
    pub(super) fn read(file: &mut File) -> io::Result<Result<Self, HeaderError>> {
        let mut bytes = [0; Self::BYTES];
        match file.read_exact(&mut bytes) {
            Ok(()) => Ok(Self::decode(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Err(HeaderError::Damaged)),
            Err(error) => Err(error),
        }
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, HeaderError> {
        let [magic, numbers, generation, check] = words(bytes);
        #[allow(clippy::cast_possible_truncation)] // two numbers in one word
        let (version, dimensions) = (numbers as u32, (numbers >> 32) as u32);
        if magic.to_le_bytes() != MAGIC || sum([magic, numbers, generation]) != check || version == 0 {
            Err(HeaderError::Damaged)
        } else if version > Self::VERSION {
            Err(HeaderError::Newer { found: version })
        } else if dimensions as usize != DIMENSIONS {
            Err(HeaderError::Dimensions { found: dimensions })
        } else {
            Ok(Self { generation })
        }
    }
}

/// What the file of keys says about one slot.
pub(super) struct Record {
    pub(super) key: Key,
    pub(super) sum: u64,
}

impl Record {
    pub(super) const BYTES: usize = Key::BYTES + size_of::<u64>();

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..Key::BYTES].copy_from_slice(&self.key.0);
        bytes[Key::BYTES..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let [a, b, sum] = words(bytes);
        let mut key = [0; Key::BYTES];
        key[..8].copy_from_slice(&a.to_le_bytes());
        key[8..].copy_from_slice(&b.to_le_bytes());
        Self { key: Key(key), sum }
    }

    /// How many records there may be: 24 GB of vectors. What is behind them is not looked at.
    pub(super) const MOST: u32 = 1 << 24;

    /// How many whole records a file of `length` bytes has.
    pub(super) fn count(length: u64) -> u32 {
        let count = length.saturating_sub(Header::BYTES as u64) / Self::BYTES as u64;
        u32::try_from(count).unwrap_or(u32::MAX).min(Self::MOST)
    }

    /// Where the record of `slot` begins.
    pub(super) fn offset(slot: u32) -> u64 {
        Header::BYTES as u64 + u64::from(slot) * Self::BYTES as u64
    }
}

/// Adds a vector's bytes to `bytes` and returns its record.
pub(super) fn encode(key: &Key, vector: &Vector, bytes: &mut Vec<u8>) -> Record {
    let encoded = vector.map(f32::to_le_bytes);
    bytes.extend(encoded.as_flattened());
    Record { key: *key, sum: sum_of(key, encoded.as_flattened()) }
}

/// The vector of `key`, if these bytes are it.
pub(super) fn decode(key: &Key, bytes: &[u8; VECTOR_BYTES], sum: u64) -> Option<Vector> {
    if sum_of(key, bytes) != sum {
        return None;
    }
    let mut vector = [0.0; DIMENSIONS];
    vector.iter_mut().zip(bytes.as_chunks().0).for_each(|(x, bytes)| *x = f32::from_le_bytes(*bytes));
    Some(vector)
}

fn sum_of(key: &Key, vector: &[u8]) -> u64 {
    let words = key.0.as_chunks().0.iter().chain(vector.as_chunks().0);
    sum(words.map(|word| u64::from_le_bytes(*word)))
}

/// Every step can be undone, so a change within one word always changes the sum; any other does but once in 2^64.
fn sum(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(0x6a09_e667_f3bc_c908, |sum: u64, word| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 32)
    })
}

fn words<const BYTES: usize, const WORDS: usize>(bytes: &[u8; BYTES]) -> [u64; WORDS] {
    const { assert!(BYTES == WORDS * size_of::<u64>()) };
    let mut words = [0; WORDS];
    words.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
    words
}

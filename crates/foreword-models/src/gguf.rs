//! The start of a GGUF file (versions 2 and 3): what it says about itself, and where its tensors lie. Their numbers are not touched.

mod tensors;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// Entries of metadata; real files have some dozens.
const MAX_ENTRIES: u64 = 65_536;
/// Bytes of a key; the format's own limit.
const MAX_KEY: u64 = 65_535;
/// Elements of a list that is kept: vocabularies have some hundred thousand.
const MAX_LIST: u64 = 4_000_000;
/// Bytes of one text that is kept: chat templates have some thousand.
const MAX_TEXT: u64 = 1 << 20;
/// Bytes of all texts that are kept.
const MAX_TEXTS: u64 = 256 << 20;
/// Lists inside lists.
const MAX_DEPTH: u32 = 4;

pub use tensors::{Encoding, Tensor, Tensors};

/// An error in a GGUF file.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The disk failed.
    #[error("reading failed at byte {at}: {source}")]
    Io {
        /// Where.
        at: u64,
        /// What the system says.
        source: io::Error,
    },
    /// Another kind of file.
    #[error("not a GGUF file: it does not start with `GGUF`")]
    NotGguf,
    /// A version that is not known.
    #[error("GGUF version {0} is not supported: expected 2 or 3, little-endian")]
    Version(u32),
    /// The file ends too early.
    #[error("{what} needs {needed} bytes at byte {at}, but only {left} are left: the file is truncated or damaged")]
    CutOff {
        /// What was being read.
        what: String,
        /// Where.
        at: u64,
        /// Its size.
        needed: u64,
        /// The remaining bytes of the file.
        left: u64,
    },
    /// A length that no real file has.
    #[error("{what} is {found}, more than the limit of {limit}: the file is damaged")]
    TooLarge {
        /// What was being read.
        what: String,
        /// The length.
        found: u64,
        /// The largest that is read.
        limit: u64,
    },
    /// A value of another type than the key asks for.
    #[error("`{key}` has the unexpected type {found}")]
    Type {
        /// The key.
        key: String,
        /// The number of the type.
        found: u32,
    },
    /// A tensor that is not as it should be.
    #[error("tensor `{name}` has {found}")]
    Tensor {
        /// The tensor.
        name: String,
        /// What was found.
        found: String,
    },
    /// A text that is not UTF-8.
    #[error("{what} is not UTF-8")]
    Utf8 {
        /// What was being read.
        what: String,
    },
}

/// What a GGUF file says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// `general.name`
    pub name: Option<String>,
    /// `llama.context_length`
    pub context_length: Option<u64>,
    /// `tokenizer.ggml.model`
    pub model: Option<String>,
    /// `tokenizer.ggml.pre`
    pub pre: Option<String>,
    /// `tokenizer.ggml.tokens`
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.token_type`
    pub token_types: Vec<i32>,
    /// `tokenizer.ggml.merges`
    pub merges: Vec<String>,
    /// `tokenizer.chat_template`
    pub chat_template: Option<String>,
    /// `general.architecture`
    pub architecture: Option<String>,
    /// Each other entry that is one number.
    pub numbers: BTreeMap<String, f64>,
}

impl Metadata {
    /// Reads the start of a GGUF file.
    pub fn read(file: impl Read + Seek) -> Result<Self, GgufError> {
        Ok(Self::start(&mut Source::new(file)?)?.0)
    }

    /// Reads up to the table of tensors; gives the number of them too.
    fn start<R: Read + Seek>(source: &mut Source<R>) -> Result<(Self, u64), GgufError> {
        let mut magic = [0; 4];
        if source.left() < 4 {
            return Err(GgufError::NotGguf);
        }
        source.fill("the magic", &mut magic)?;
        if &magic != b"GGUF" {
            return Err(GgufError::NotGguf);
        }
        let version = source.u32("the version")?;
        if !matches!(version, 2 | 3) {
            return Err(GgufError::Version(version));
        }
        let tensors = source.u64("the number of tensors")?;
        let entries = source.u64("the number of entries")?;
        limit("the number of entries", entries, MAX_ENTRIES)?;
        let mut metadata = Self::default();
        for _ in 0..entries {
            let key = source.text("a key", MAX_KEY)?;
            let kind = source.u32(&key)?;
            metadata.entry(source, &key, kind)?;
        }
        Ok((metadata, tensors))
    }

    fn entry<R: Read + Seek>(&mut self, source: &mut Source<R>, key: &str, kind: u32) -> Result<(), GgufError> {
        match key {
            "general.architecture" => self.architecture = Some(source.text_value(key, kind)?),
            "general.name" => self.name = Some(source.text_value(key, kind)?),
            "llama.context_length" => self.context_length = Some(source.number(key, kind)?),
            "tokenizer.ggml.model" => self.model = Some(source.text_value(key, kind)?),
            "tokenizer.ggml.pre" => self.pre = Some(source.text_value(key, kind)?),
            "tokenizer.chat_template" => self.chat_template = Some(source.text_value(key, kind)?),
            "tokenizer.ggml.tokens" => self.tokens = source.list(key, kind, STRING, |source| source.text(key, MAX_TEXT))?,
            "tokenizer.ggml.merges" => self.merges = source.list(key, kind, STRING, |source| source.text(key, MAX_TEXT))?,
            "tokenizer.ggml.token_type" => {
                self.token_types = source.list(key, kind, INT32, |source| Ok(source.u32(key)?.cast_signed()))?;
            }
            _ => match source.scalar(key, kind)? {
                Some(number) => {
                    self.numbers.insert(key.to_owned(), number);
                }
                None => source.skip_value(key, kind, 0)?,
            },
        }
        Ok(())
    }

    /// The integer at `key`.
    pub fn whole(&self, key: &str) -> Option<u64> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a whole number in the range")]
        self.numbers
            .get(key)
            .filter(|number| number.fract() == 0.0 && (0.0..=9e15).contains(*number))
            .map(|number| *number as u64)
    }
}

const UINT32: u32 = 4;
const INT32: u32 = 5;
const FLOAT32: u32 = 6;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const UINT64: u32 = 10;
const FLOAT64: u32 = 12;

/// The size of a value of a type of fixed size.
fn size_of(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

fn limit(what: &str, found: u64, limit: u64) -> Result<(), GgufError> {
    if found <= limit {
        return Ok(());
    }
    Err(GgufError::TooLarge { what: what.to_owned(), found, limit })
}

/// A file that knows where it is and where it ends, so that no length in it is believed before it is checked.
struct Source<R> {
    file: BufReader<R>,
    at: u64,
    end: u64,
    /// Bytes of the texts read so far.
    texts: u64,
}

impl<R: Read + Seek> Source<R> {
    fn new(mut file: R) -> Result<Self, GgufError> {
        let io = |source| GgufError::Io { at: 0, source };
        let end = file.seek(SeekFrom::End(0)).map_err(io)?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        Ok(Self { file: BufReader::with_capacity(1 << 16, file), at: 0, end, texts: 0 })
    }

    fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    fn need(&self, what: &str, needed: u64) -> Result<(), GgufError> {
        if needed <= self.left() {
            return Ok(());
        }
        Err(GgufError::CutOff { what: what.to_owned(), at: self.at, needed, left: self.left() })
    }

    fn fill(&mut self, what: &str, bytes: &mut [u8]) -> Result<(), GgufError> {
        self.need(what, bytes.len() as u64)?;
        let at = self.at;
        self.file.read_exact(bytes).map_err(|source| GgufError::Io { at, source })?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn skip(&mut self, what: &str, bytes: u64) -> Result<(), GgufError> {
        self.need(what, bytes)?;
        let at = self.at;
        let io = |source| GgufError::Io { at, source };
        self.at += bytes;
        match i64::try_from(bytes) {
            Ok(near) => self.file.seek_relative(near).map_err(io),
            Err(_) => self.file.seek(SeekFrom::Start(self.at)).map(|_| ()).map_err(io),
        }
    }

    fn u32(&mut self, what: &str) -> Result<u32, GgufError> {
        let mut bytes = [0; 4];
        self.fill(what, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self, what: &str) -> Result<u64, GgufError> {
        let mut bytes = [0; 8];
        self.fill(what, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn text(&mut self, what: &str, max: u64) -> Result<String, GgufError> {
        let length = self.u64(what)?;
        self.need(what, length)?;
        limit(what, length, max)?;
        self.texts = self.texts.saturating_add(length);
        limit("the size of all texts", self.texts, MAX_TEXTS)?;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        self.fill(what, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| GgufError::Utf8 { what: what.to_owned() })
    }

    fn text_value(&mut self, key: &str, kind: u32) -> Result<String, GgufError> {
        expect(key, kind, STRING)?;
        self.text(key, MAX_TEXT)
    }

    fn number(&mut self, key: &str, kind: u32) -> Result<u64, GgufError> {
        match kind {
            UINT32 => self.u32(key).map(u64::from),
            UINT64 => self.u64(key),
            _ => Err(wrong_type(key, kind)),
        }
    }

    /// The value, where it is one number. Numbers above 2^53 are rounded; none of those in use is near.
    fn scalar(&mut self, key: &str, kind: u32) -> Result<Option<f64>, GgufError> {
        Ok(Some(match kind {
            UINT32 => self.u32(key)?.into(),
            INT32 => self.u32(key)?.cast_signed().into(),
            FLOAT32 => f32::from_bits(self.u32(key)?).into(),
            UINT64 => self.u64(key)? as f64,
            FLOAT64 => f64::from_bits(self.u64(key)?),
            _ => return Ok(None),
        }))
    }

    fn list<T>(
        &mut self,
        key: &str,
        kind: u32,
        of: u32,
        read: impl Fn(&mut Self) -> Result<T, GgufError>,
    ) -> Result<Vec<T>, GgufError> {
        expect(key, kind, ARRAY)?;
        expect(key, self.u32(key)?, of)?;
        let length = self.u64(key)?;
        limit(key, length, MAX_LIST)?;
        // A text takes at least its length's eight bytes: a length that the file cannot hold reserves nothing.
        self.need(key, length * size_of(of).unwrap_or(8))?;
        (0..length).map(|_| read(self)).collect()
    }

    fn skip_value(&mut self, key: &str, kind: u32, depth: u32) -> Result<(), GgufError> {
        match kind {
            STRING => {
                let length = self.u64(key)?;
                self.skip(key, length)
            }
            ARRAY if depth < MAX_DEPTH => {
                let of = self.u32(key)?;
                let length = self.u64(key)?;
                if let Some(size) = size_of(of) {
                    return self.skip(key, length.saturating_mul(size));
                }
                // Each element takes at least eight bytes, so the file's size bounds the loop.
                self.need(key, length.saturating_mul(8))?;
                (0..length).try_for_each(|_| self.skip_value(key, of, depth + 1))
            }
            _ => match size_of(kind) {
                Some(size) => self.skip(key, size),
                None => Err(wrong_type(key, kind)),
            },
        }
    }
}

fn expect(key: &str, found: u32, expected: u32) -> Result<(), GgufError> {
    if found == expected { Ok(()) } else { Err(wrong_type(key, found)) }
}

fn wrong_type(key: &str, found: u32) -> GgufError {
    GgufError::Type { key: key.to_owned(), found }
}

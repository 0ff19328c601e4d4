//! The metadata of a GGUF file (versions 2 and 3), as far as a tokenizer needs it. Tensors are not touched.

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

/// What is wrong with a GGUF file.
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
    #[error("it does not start with `GGUF`: it is not a GGUF file")]
    NotGguf,
    /// A version that is not known.
    #[error("GGUF version {0} is not supported: expected 2 or 3, little-endian")]
    Version(u32),
    /// The file ends too early.
    #[error("{what} takes {needed} bytes at byte {at}, but only {left} are left: the file is cut off or damaged")]
    CutOff {
        /// What was being read.
        what: String,
        /// Where.
        at: u64,
        /// Its size.
        needed: u64,
        /// What is left of the file.
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
    #[error("`{key}` has type {found}, which is not the expected type")]
    Type {
        /// The key.
        key: String,
        /// The number of the type.
        found: u32,
    },
    /// A text that is not UTF-8.
    #[error("{what} is not UTF-8")]
    Utf8 {
        /// What was being read.
        what: String,
    },
}

/// What a GGUF file says about its tokenizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
}

impl Metadata {
    /// Reads the start of a GGUF file.
    pub fn read(file: impl Read + Seek) -> Result<Self, GgufError> {
        let mut source = Source::new(file)?;
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
        source.u64("the number of tensors")?;
        let entries = source.u64("the number of entries")?;
        limit("the number of entries", entries, MAX_ENTRIES)?;
        let mut metadata = Self::default();
        for _ in 0..entries {
            let key = source.text("a key", MAX_KEY)?;
            let kind = source.u32(&key)?;
            metadata.entry(&mut source, &key, kind)?;
        }
        Ok(metadata)
    }

    fn entry<R: Read + Seek>(&mut self, source: &mut Source<R>, key: &str, kind: u32) -> Result<(), GgufError> {
        match key {
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
            _ => source.skip_value(key, kind, 0)?,
        }
        Ok(())
    }
}

const UINT32: u32 = 4;
const INT32: u32 = 5;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const UINT64: u32 = 10;

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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    /// Writes what the tests read.
    pub(crate) struct Writer {
        entries: u64,
        body: Vec<u8>,
    }

    impl Writer {
        pub(crate) fn new() -> Self {
            Self { entries: 0, body: Vec::new() }
        }

        fn raw_text(&mut self, text: &str) {
            self.body.extend((text.len() as u64).to_le_bytes());
            self.body.extend(text.as_bytes());
        }

        fn key(&mut self, key: &str, kind: u32) {
            self.entries += 1;
            self.raw_text(key);
            self.body.extend(kind.to_le_bytes());
        }

        fn list_head(&mut self, of: u32, length: usize) {
            self.body.extend(of.to_le_bytes());
            self.body.extend((length as u64).to_le_bytes());
        }

        pub(crate) fn text(mut self, key: &str, value: &str) -> Self {
            self.key(key, STRING);
            self.raw_text(value);
            self
        }

        pub(crate) fn texts(mut self, key: &str, values: &[&str]) -> Self {
            self.key(key, ARRAY);
            self.list_head(STRING, values.len());
            for value in values {
                self.raw_text(value);
            }
            self
        }

        pub(crate) fn ints(mut self, key: &str, values: &[i32]) -> Self {
            self.key(key, ARRAY);
            self.list_head(INT32, values.len());
            for value in values {
                self.body.extend(value.to_le_bytes());
            }
            self
        }

        fn fixed(mut self, key: &str, kind: u32, bytes: &[u8]) -> Self {
            self.key(key, kind);
            self.body.extend(bytes);
            self
        }

        pub(crate) fn finish(self, version: u32) -> Vec<u8> {
            let mut out = b"GGUF".to_vec();
            out.extend(version.to_le_bytes());
            out.extend(7_u64.to_le_bytes());
            out.extend(self.entries.to_le_bytes());
            out.extend(self.body);
            out
        }
    }

    fn sample() -> Writer {
        let mut nested = Vec::new();
        nested.extend(ARRAY.to_le_bytes());
        nested.extend(1_u64.to_le_bytes());
        nested.extend(0_u32.to_le_bytes());
        nested.extend(3_u64.to_le_bytes());
        nested.extend([1, 2, 3]);
        Writer::new()
            .text("general.name", "Tiny é")
            .text("other.text", "skipped")
            .fixed("llama.context_length", UINT32, &8192_u32.to_le_bytes())
            .fixed("a.float", 12, &1.5_f64.to_le_bytes())
            .fixed("a.bool", 7, &[1])
            .texts("other.list", &["x", "", "yz"])
            .ints("other.ints", &[1, 2])
            .fixed("a.nested", ARRAY, &nested)
            .text("tokenizer.ggml.model", "gpt2")
            .text("tokenizer.ggml.pre", "smollm")
            .texts("tokenizer.ggml.tokens", &["a", "Ġ", "b"])
            .ints("tokenizer.ggml.token_type", &[1, 3, -1])
            .texts("tokenizer.ggml.merges", &["a b"])
            .text("tokenizer.chat_template", "{{ x }}")
    }

    fn read(bytes: &[u8]) -> Result<Metadata, GgufError> {
        Metadata::read(Cursor::new(bytes))
    }

    #[test]
    fn reads_both_versions() {
        for version in [2, 3] {
            let found = read(&sample().finish(version)).unwrap();
            assert_eq!(
                found,
                Metadata {
                    name: Some("Tiny é".into()),
                    context_length: Some(8192),
                    model: Some("gpt2".into()),
                    pre: Some("smollm".into()),
                    tokens: vec!["a".into(), "Ġ".into(), "b".into()],
                    token_types: vec![1, 3, -1],
                    merges: vec!["a b".into()],
                    chat_template: Some("{{ x }}".into()),
                }
            );
        }
    }

    #[test]
    fn faults_are_named() {
        fn check(bytes: &[u8], expect: &str) {
            let found = read(bytes).unwrap_err().to_string();
            assert!(found.contains(expect), "{found}");
        }
        check(b"", "not a GGUF file");
        check(b"PK\x03\x04 and more", "not a GGUF file");
        check(&sample().finish(1), "version 1 is not supported");
        check(&sample().finish(0x0300_0000), "little-endian");
        check(&Writer::new().texts("general.name", &["x"]).finish(3), "`general.name` has type 9");
        check(&Writer::new().fixed("x", 13, &[0; 8]).finish(3), "`x` has type 13");
        check(&Writer::new().fixed("x", STRING, &u64::MAX.to_le_bytes()).finish(3), "cut off");
        let huge = [STRING.to_le_bytes().as_slice(), &3_000_000_u64.to_le_bytes()].concat();
        check(&Writer::new().fixed("tokenizer.ggml.tokens", ARRAY, &huge).finish(3), "cut off");
        let huge = [STRING.to_le_bytes().as_slice(), &u64::MAX.to_le_bytes()].concat();
        check(&Writer::new().fixed("tokenizer.ggml.merges", ARRAY, &huge).finish(3), "more than the limit");
        check(&Writer::new().fixed("x", ARRAY, &huge).finish(3), "cut off");
        let bad = [2_u64.to_le_bytes().as_slice(), &[0xff, 0xfe]].concat();
        check(&Writer::new().fixed("general.name", STRING, &bad).finish(3), "general.name is not UTF-8");
        let deep = [ARRAY.to_le_bytes().as_slice(), &1_u64.to_le_bytes()].concat().repeat(1_000);
        check(&Writer::new().fixed("x", ARRAY, &deep).finish(3), "`x` has type 9");
        let mut entries = sample().finish(3);
        entries[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        check(&entries, "the number of entries is");
    }

    #[test]
    fn a_file_cut_anywhere_is_an_error() {
        let whole = sample().finish(3);
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes);
            let _ = read(&[b"GGUF\x03\0\0\0".as_slice(), &bytes].concat());
        }

        #[test]
        fn any_damage_is_read_or_refused(at in 0..400_usize, byte in any::<u8>(), more in prop::collection::vec((0..400_usize, any::<u8>()), 0..4)) {
            let mut bytes = sample().finish(3);
            for (at, byte) in more.into_iter().chain([(at, byte)]) {
                let length = bytes.len();
                bytes[at % length] = byte;
            }
            let _ = read(&bytes);
        }
    }
}

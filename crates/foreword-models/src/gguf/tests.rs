//! Real shapes of files, their faults, and any damage.

use super::*;
use proptest::prelude::*;
use std::io::Cursor;

/// Writes what the tests read.
pub(crate) struct Writer {
    entries: u64,
    body: Vec<u8>,
    tensors: u64,
    table: Vec<u8>,
    data: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self { entries: 0, body: Vec::new(), tensors: 0, table: Vec::new(), data: Vec::new() }
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

    pub(crate) fn whole(self, key: &str, value: u32) -> Self {
        self.fixed(key, UINT32, &value.to_le_bytes())
    }

    pub(crate) fn real(self, key: &str, value: f32) -> Self {
        self.fixed(key, FLOAT32, &value.to_le_bytes())
    }

    /// A tensor, padded to where the next one starts.
    pub(crate) fn tensor(self, name: &str, shape: &[u64], encoding: u32, bytes: &[u8]) -> Self {
        let start = self.data.len() as u64;
        let mut written = self.tensor_at(name, shape, encoding, start);
        written.data.extend(bytes);
        written.data.resize(written.data.len().next_multiple_of(32), 0);
        written
    }

    fn tensor_at(mut self, name: &str, shape: &[u64], encoding: u32, start: u64) -> Self {
        self.tensors += 1;
        self.table.extend((name.len() as u64).to_le_bytes());
        self.table.extend(name.as_bytes());
        self.table.extend(u32::try_from(shape.len()).unwrap().to_le_bytes());
        self.table.extend(shape.iter().flat_map(|side| side.to_le_bytes()));
        self.table.extend(encoding.to_le_bytes());
        self.table.extend(start.to_le_bytes());
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
        out.extend(self.tensors.to_le_bytes());
        out.extend(self.entries.to_le_bytes());
        out.extend(self.body);
        out.extend(self.table);
        if !self.data.is_empty() {
            out.resize(out.len().next_multiple_of(32), 0);
            out.extend(self.data);
        }
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
                architecture: None,
                numbers: BTreeMap::from([("a.float".into(), 1.5)]),
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
    check(&Writer::new().texts("general.name", &["x"]).finish(3), "`general.name` has the unexpected type 9");
    check(&Writer::new().fixed("x", 13, &[0; 8]).finish(3), "`x` has the unexpected type 13");
    check(&Writer::new().fixed("x", STRING, &u64::MAX.to_le_bytes()).finish(3), "truncated");
    let huge = [STRING.to_le_bytes().as_slice(), &3_000_000_u64.to_le_bytes()].concat();
    check(&Writer::new().fixed("tokenizer.ggml.tokens", ARRAY, &huge).finish(3), "truncated");
    let huge = [STRING.to_le_bytes().as_slice(), &u64::MAX.to_le_bytes()].concat();
    check(&Writer::new().fixed("tokenizer.ggml.merges", ARRAY, &huge).finish(3), "more than the limit");
    check(&Writer::new().fixed("x", ARRAY, &huge).finish(3), "truncated");
    let bad = [2_u64.to_le_bytes().as_slice(), &[0xff, 0xfe]].concat();
    check(&Writer::new().fixed("general.name", STRING, &bad).finish(3), "general.name is not UTF-8");
    let deep = [ARRAY.to_le_bytes().as_slice(), &1_u64.to_le_bytes()].concat().repeat(1_000);
    check(&Writer::new().fixed("x", ARRAY, &deep).finish(3), "`x` has the unexpected type 9");
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

#[test]
fn whole_numbers() {
    fn check(kind: u32, bytes: &[u8], expect: Option<u64>) {
        let metadata = read(&Writer::new().fixed("n", kind, bytes).finish(3)).unwrap();
        assert_eq!(metadata.whole("n"), expect, "{metadata:?}");
    }
    check(UINT32, &7_u32.to_le_bytes(), Some(7));
    check(INT32, &7_i32.to_le_bytes(), Some(7));
    check(INT32, &(-7_i32).to_le_bytes(), None);
    check(UINT64, &70_000_000_000_u64.to_le_bytes(), Some(70_000_000_000));
    check(UINT64, &u64::MAX.to_le_bytes(), None);
    check(FLOAT32, &1.5_f32.to_le_bytes(), None);
    check(FLOAT64, &f64::NAN.to_le_bytes(), None);
    check(7, &[1], None);
}

fn with_tensors() -> Writer {
    sample().tensor("a", &[3], 0, &[1; 12]).tensor("b", &[32, 2], 3, &[2; 40]).tensor("c", &[32], 8, &[3; 34])
}

#[test]
fn where_tensors_lie() {
    let bytes = with_tensors().tensor_at("d", &[7], 99, 0).finish(3);
    let found = Tensors::read(Cursor::new(&bytes)).unwrap();
    assert_eq!(found.metadata, read(&bytes).unwrap());
    let check = |name: &str, encoding: Encoding, shape: &[u64], content: &[u8]| {
        let tensor = &found.table[name];
        assert_eq!((tensor.encoding, tensor.shape.as_slice()), (encoding, shape), "{name}");
        let (start, size) = (usize::try_from(tensor.start).unwrap(), usize::try_from(tensor.bytes).unwrap());
        assert_eq!(&bytes[start..start + size], content, "{name}");
    };
    check("a", Encoding::F32, &[3], &[1; 12]);
    check("b", Encoding::Q4_1, &[32, 2], &[2; 40]);
    check("c", Encoding::Q8_0, &[32], &[3; 34]);
    check("d", Encoding::Other(99), &[7], &[]);
}

#[test]
fn faults_of_tensors_are_named() {
    fn check(file: Writer, expect: &str) {
        let found = Tensors::read(Cursor::new(file.finish(3))).unwrap_err().to_string();
        assert!(found.contains(expect), "{found}");
    }
    check(with_tensors().tensor("a", &[1], 0, &[0; 4]), "`a` has a duplicate name");
    check(with_tensors().tensor_at("d", &[4], 0, 60), "`d` has bytes that overlap `b`");
    check(with_tensors().tensor_at("d", &[64], 0, 64), "of a file of");
    check(with_tensors().tensor_at("d", &[1], 0, u64::MAX), "of a file of");
    check(with_tensors().tensor_at("d", &[33], 3, 0), "cannot be stored as Q4_1");
    check(with_tensors().tensor_at("d", &[u64::MAX, u64::MAX], 0, 0), "cannot be stored as F32");
    check(with_tensors().tensor_at("d", &[1; 5], 0, 0), "5 sides");
    check(with_tensors().whole("general.alignment", 3), "must be a power of two");
    check(with_tensors().whole("general.alignment", 1 << 31), "more than the limit");
    check(with_tensors().tensor_at(&"d".repeat(300), &[1], 0, 0), "the name of a tensor");
    let mut many = with_tensors();
    many.tensors = u64::MAX;
    check(many, "the number of tensors");
}

#[test]
fn a_file_cut_anywhere_has_no_tensors() {
    let whole = with_tensors().finish(3);
    // The last tensor is padded; without the padding it is whole.
    for length in 0..whole.len() - 30 {
        assert!(Tensors::read(Cursor::new(&whole[..length])).is_err(), "{length}");
    }
}

proptest! {
    #[test]
    fn any_damage_leaves_tensors_within_the_file(damage in prop::collection::vec((0..2_000_usize, any::<u8>()), 0..6)) {
        let mut bytes = with_tensors().finish(3);
        for (at, byte) in damage {
            let length = bytes.len();
            bytes[at % length] = byte;
        }
        if let Ok(found) = Tensors::read(Cursor::new(&bytes)) {
            for tensor in found.table.values() {
                prop_assert!(tensor.start + tensor.bytes <= bytes.len() as u64);
            }
        }
    }

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

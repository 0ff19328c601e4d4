//! Reading safetensors: a length, a JSON table of tensors, then their bytes. No length is believed before it is checked.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};

use super::ModelError;

/// The longest table of tensors that is read; the model's has 11 kB.
const TABLE_LIMIT: u64 = 1 << 20;

/// Bytes read at once: they are still in the core's cache when they are looked at.
const BLOCK: usize = 1 << 18;

/// What the table may have beside tensors.
const REMARKS: &str = "__metadata__";

/// An open safetensors file.
pub(super) struct Tensors {
    path: PathBuf,
    table: Table,
    /// Where the tensors' bytes start, and how many there are.
    data: (u64, u64),
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Where each tensor lies. A name that comes twice is refused: readers differ in which of the two they take.
struct Table(BTreeMap<String, Entry>);

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tensors;
        impl<'de> Visitor<'de> for Tensors {
            type Value = Table;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a table of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Table, A::Error> {
                let mut table = BTreeMap::new();
                while let Some(name) = entries.next_key::<String>()? {
                    if name == REMARKS {
                        entries.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let entry = entries.next_value().map_err(|error| A::Error::custom(format!("`{name}`: {error}")))?;
                    if table.contains_key(&name) {
                        return Err(A::Error::custom(format!("`{name}` is a duplicate")));
                    }
                    table.insert(name, entry);
                }
                Ok(Table(table))
            }
        }
        deserializer.deserialize_map(Tensors)
    }
}

impl Table {
    /// What is wrong with where the tensors lie, in a file that has `size` bytes of them.
    fn misplaced(&self, size: u64) -> Option<String> {
        let mut places: Vec<(u64, u64, &str)> =
            self.0.iter().map(|(name, Entry { data_offsets: (start, end), .. })| (*start, *end, name.as_str())).collect();
        places.sort_unstable();
        let mut taken = (0, "");
        for (start, end, name) in places {
            if start > end || end > size {
                return Some(format!("`{name}` is at bytes {start} to {end} of {size}"));
            }
            if start < taken.0 && start < end {
                return Some(format!("`{name}` and `{}` overlap", taken.1));
            }
            taken = taken.max((end, name));
        }
        None
    }
}

impl Tensors {
    /// Reads the table of the file at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, ModelError> {
        let read = |source| ModelError::Read { path: path.to_owned(), source };
        let fault = |found: String| ModelError::Table { path: path.to_owned(), found };

        let mut file = File::open(path).map_err(read)?;
        let size = file.metadata().map_err(read)?.len();
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(read)?;
        let length = u64::from_le_bytes(length);
        if length > TABLE_LIMIT || length + 8 > size {
            return Err(fault(format!("a table of {length} bytes in a file of {size}")));
        }
        let mut table = Vec::new();
        file.take(length).read_to_end(&mut table).map_err(read)?;
        let table: Table = serde_json::from_slice(&table).map_err(|error| fault(error.to_string()))?;
        let data = (8 + length, size - 8 - length);
        match table.misplaced(data.1) {
            Some(found) => Err(fault(found)),
            None => Ok(Self { path: path.to_owned(), table, data }),
        }
    }

    /// A reader of its own for one thread.
    pub(super) fn reader(&self) -> Result<Reader<'_>, ModelError> {
        let file = File::open(&self.path).map_err(|source| ModelError::Read { path: self.path.clone(), source })?;
        Ok(Reader { tensors: self, file, block: Vec::new() })
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<(u64, usize), ModelError> {
        let fault = |found: String| ModelError::Tensor { path: self.path.clone(), name: name.to_owned(), found };
        let entry = self.table.0.get(name).ok_or_else(|| fault("nothing".to_owned()))?;
        if entry.dtype != "F32" || !entry.shape.iter().copied().eq(shape.iter().map(|side| *side as u64)) {
            return Err(fault(format!("{} numbers with the shape {:?}, expected F32 with {shape:?}", entry.dtype, entry.shape)));
        }
        let bytes = shape.iter().product::<usize>() * size_of::<f32>();
        let (start, end) = entry.data_offsets;
        if end.checked_sub(start) != Some(bytes as u64) {
            return Err(fault(format!("the bytes {start} to {end}, expected {bytes} bytes")));
        }
        Ok((self.data.0 + start, bytes))
    }
}

/// Reads tensors of one file, one after the other.
pub(super) struct Reader<'a> {
    tensors: &'a Tensors,
    file: File,
    block: Vec<u8>,
}

impl Reader<'_> {
    /// The bytes of the tensor `name`, which must have `shape`.
    pub(super) fn bytes(&mut self, name: &str, shape: &[usize]) -> Result<Vec<u8>, ModelError> {
        let length = self.go_to(name, shape)?;
        let mut bytes = vec![0; length];
        for block in bytes.chunks_mut(BLOCK) {
            read_block(&mut self.file, block).map_err(|fault| self.tensors.fault(name, fault))?;
        }
        Ok(bytes)
    }

    /// The numbers of the tensor `name`, which must have `shape`.
    pub(super) fn numbers(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        let length = self.go_to(name, shape)?;
        let mut values = Vec::with_capacity(length / size_of::<f32>());
        self.block.resize(BLOCK, 0);
        for start in (0..length).step_by(BLOCK) {
            let block = &mut self.block[..BLOCK.min(length - start)];
            read_block(&mut self.file, block).map_err(|fault| self.tensors.fault(name, fault))?;
            values.extend(numbers(block));
        }
        Ok(values)
    }

    /// Goes to where the tensor starts and gives its bytes.
    fn go_to(&mut self, name: &str, shape: &[usize]) -> Result<usize, ModelError> {
        let (start, length) = self.tensors.find(name, shape)?;
        self.file.seek(SeekFrom::Start(start)).map_err(|error| self.tensors.fault(name, Fault::Read(error)))?;
        Ok(length)
    }
}

enum Fault {
    Read(std::io::Error),
    NotFinite,
}

impl Tensors {
    fn fault(&self, name: &str, fault: Fault) -> ModelError {
        let path = self.path.clone();
        match fault {
            Fault::Read(source) => ModelError::Read { path, source },
            Fault::NotFinite => ModelError::Tensor { path, name: name.to_owned(), found: "an infinite number or NaN".to_owned() },
        }
    }
}

/// Fills `block` with numbers. One that is infinite or none would spread to every text's vector.
fn read_block(file: &mut File, block: &mut [u8]) -> Result<(), Fault> {
    file.read_exact(block).map_err(Fault::Read)?;
    if numbers(block).fold(false, |found, number| found | !number.is_finite()) { Err(Fault::NotFinite) } else { Ok(()) }
}

/// The numbers that `bytes` hold.
pub(super) fn numbers(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

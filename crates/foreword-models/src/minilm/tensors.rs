//! Reading safetensors: a length, a JSON table of tensors, then their bytes. No length is believed before it is checked.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ModelError;

/// The longest table of tensors that is read; the model's has 11 kB.
const TABLE_LIMIT: u64 = 1 << 20;

/// An open safetensors file.
pub(super) struct Tensors {
    path: PathBuf,
    table: BTreeMap<String, Box<RawValue>>,
    /// Where the tensors' bytes start, and how many there are.
    data: (u64, u64),
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
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
        let table = serde_json::from_slice(&table).map_err(|error| fault(error.to_string()))?;
        Ok(Self { path: path.to_owned(), table, data: (8 + length, size - 8 - length) })
    }

    /// A reader of its own for one thread.
    pub(super) fn reader(&self) -> Result<Reader<'_>, ModelError> {
        let file = File::open(&self.path).map_err(|source| ModelError::Read { path: self.path.clone(), source })?;
        Ok(Reader { tensors: self, file })
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<(u64, usize), ModelError> {
        let fault = |found: String| ModelError::Tensor { path: self.path.clone(), name: name.to_owned(), found };
        let entry = self.table.get(name).ok_or_else(|| fault("nothing".to_owned()))?;
        let entry: Entry = serde_json::from_str(entry.get()).map_err(|error| fault(error.to_string()))?;
        if entry.dtype != "F32" || !entry.shape.iter().copied().eq(shape.iter().map(|side| *side as u64)) {
            return Err(fault(format!(
                "{} numbers in the shape {:?}, where F32 in {shape:?} is needed",
                entry.dtype, entry.shape
            )));
        }
        let bytes = shape.iter().product::<usize>() * size_of::<f32>();
        let (start, end) = entry.data_offsets;
        if end > self.data.1 || end.checked_sub(start) != Some(bytes as u64) {
            return Err(fault(format!("bytes {start} to {end} of {}, where {bytes} bytes are needed", self.data.1)));
        }
        Ok((self.data.0 + start, bytes))
    }
}

/// Reads tensors of one file, one after the other.
pub(super) struct Reader<'a> {
    tensors: &'a Tensors,
    file: File,
}

impl Reader<'_> {
    /// The bytes of the tensor `name`, which must have `shape`.
    pub(super) fn bytes(&mut self, name: &str, shape: &[usize]) -> Result<Vec<u8>, ModelError> {
        let (start, length) = self.tensors.find(name, shape)?;
        let read = |source| ModelError::Read { path: self.tensors.path.clone(), source };
        self.file.seek(SeekFrom::Start(start)).map_err(read)?;
        let mut bytes = vec![0; length];
        self.file.read_exact(&mut bytes).map_err(read)?;
        Ok(bytes)
    }

    /// The numbers of the tensor `name`, which must have `shape`.
    pub(super) fn numbers(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        Ok(numbers(&self.bytes(name, shape)?).collect())
    }
}

/// The numbers that `bytes` hold.
pub(super) fn numbers(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

//! A cache of embeddings on disk, keyed by content, so that unchanged text is never embedded twice.
//!
//! The folder contains three files (see `format.rs`):
//!
//! - `embeddings.keys`: a header, then one short record per vector, in the order of their slots. It is read completely when opened.
//! - `vectors-<generation>.f32`: the vectors, one per slot, read on demand. The header names the generation.
//! - `embeddings.lock`: locked by the writer. Readers never wait.
//!
//! Vectors are written before their records, and both only at the end of the files, so an interrupted write leaves a valid prefix.
//! Each record has a checksum over its key and vector, checked on every read: damaged vectors are treated as missing. Compaction
//! writes a new generation and renames it into place. Nothing is synced to disk: vectors lost in a power failure are computed
//! again.

mod disk;
mod format;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use foreword_core::hash::Hash;

use self::disk::Lock;
use self::format::{Header, HeaderError, Record, VECTOR_BYTES};
use crate::Vector;

/// Slots of one read: large enough for the disk, small enough for the cache of the processor.
const RUN: u32 = 1024;
/// Unneeded slots to read rather than starting another read.
const GAP: u32 = 8;
/// Vectors that are written before their records are: what a kill can cost.
const BATCH: usize = 1024;

/// What a vector was made from: model, chunker and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; Key::BYTES]);

impl Key {
    /// Half a sha256: two texts with one key are not to be expected, nor to be made.
    const BYTES: usize = 16;

    /// The key of `text` under a model and a chunker, each named with its version.
    pub fn of(model: &str, chunker: &str, text: &str) -> Self {
        let mut bytes = Vec::with_capacity(model.len() + chunker.len() + text.len() + 16);
        for name in [model, chunker] {
            bytes.extend((name.len() as u64).to_le_bytes());
            bytes.extend(name.as_bytes());
        }
        bytes.extend(text.as_bytes());
        let mut half = [0; Self::BYTES];
        half.copy_from_slice(&Hash::of(bytes).bytes()[..Self::BYTES]);
        Self(half)
    }
}

/// Why the cache cannot be used. It holds nothing that cannot be made again: going on without it is always right.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The system returned an error.
    #[error("{doing} `{path}` failed: {source}; embeddings are computed again when needed")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A newer program wrote it; it is left alone.
    #[error(
        "`{path}` has format {found}, but this version supports format {known}: update Foreword, or choose another cache folder"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// It is for another kind of vectors; it is left alone.
    #[error("`{path}` has embeddings of {found} dimensions, expected {expected}: choose another cache folder")]
    Dimensions {
        /// The file.
        path: PathBuf,
        /// Its dimensions.
        found: u32,
        /// Ours.
        expected: usize,
    },
    /// Another program did not stop writing.
    #[error("`{path}` was locked by another program for {seconds} s: close that program, or try again later")]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// How long.
        seconds: u64,
    },
}

/// Vectors by key, in a folder.
#[derive(Debug)]
pub struct EmbeddingCache {
    folder: PathBuf,
    /// How many vectors there may be.
    most: usize,
    /// The content of the files as far as it was read; `None` if they are missing or damaged.
    current: Option<Generation>,
}

#[derive(Debug)]
struct Generation {
    id: u64,
    vectors: File,
    /// Slots whose records were read.
    slots: u32,
    places: HashMap<Key, StoredVector>,
}

/// Where a vector is, and the sum it must have.
#[derive(Clone, Copy, Debug)]
struct StoredVector {
    slot: u32,
    sum: u64,
}

impl EmbeddingCache {
    /// Opens the cache in `folder`, if there is one. If it would exceed `limit` bytes, the oldest embeddings are deleted.
    pub fn open(folder: impl Into<PathBuf>, limit: u64) -> Result<Self, CacheError> {
        let most = limit / (VECTOR_BYTES + Record::BYTES) as u64;
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(Record::MOST as usize);
        let mut cache = Self { folder: folder.into(), most, current: None };
        cache.refresh()?;
        Ok(cache)
    }

    /// How many vectors are known to be there.
    pub fn len(&self) -> usize {
        self.current.as_ref().map_or(0, |current| current.places.len())
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is a vector for `key`; it may still turn out to be damaged.
    pub fn contains(&self, key: &Key) -> bool {
        self.current.as_ref().is_some_and(|current| current.places.contains_key(key))
    }

    /// The embeddings of `keys`, in order; `None` for missing and damaged ones.
    pub fn get_many(&mut self, keys: &[Key]) -> Vec<Option<Vector>> {
        if keys.iter().any(|key| !self.contains(key)) {
            // Another program may have put it; if that cannot be seen, what is known is still right.
            let _ = self.refresh();
        }
        let mut found = vec![None; keys.len()];
        let Some(current) = &mut self.current else { return found };
        let mut wanted: Vec<(StoredVector, usize)> =
            keys.iter().enumerate().filter_map(|(at, key)| Some((*current.places.get(key)?, at))).collect();
        wanted.sort_unstable_by_key(|(place, at)| (place.slot, *at));
        current.read(&wanted, |place, at, bytes| {
            found[at] = bytes.and_then(|bytes| format::decode(&keys[at], bytes, place.sum));
        });
        for (_, at) in wanted {
            if found[at].is_none() {
                current.places.remove(&keys[at]);
            }
        }
        found
    }

    /// Keeps vectors; those that are there already are not written again.
    pub fn put_many(&mut self, entries: &[(Key, Vector)]) -> Result<(), CacheError> {
        let _lock = Lock::take(&self.folder)?;
        self.refresh()?;
        let mut fresh: HashMap<Key, usize> = HashMap::new();
        for (at, (key, _)) in entries.iter().enumerate().filter(|(_, (key, _))| !self.contains(key)) {
            fresh.entry(*key).or_insert(at);
        }
        let mut fresh: Vec<usize> = fresh.into_values().collect();
        fresh.sort_unstable();
        let fresh = &fresh[fresh.len().saturating_sub(self.most)..];
        if fresh.is_empty() {
            return Ok(());
        }
        let room = self.most - fresh.len();
        if self.current.as_ref().is_none_or(|current| current.slots as usize > room) {
            // Some more than needed goes, so that the next time is not soon.
            self.rewrite(room.min(self.most / 4 * 3), &|_| true)?;
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        for batch in fresh.chunks(BATCH) {
            disk::append(&self.folder, current, batch.iter().map(|at| &entries[*at]))?;
        }
        Ok(())
    }

    /// Deletes embeddings that `keep` rejects, damaged ones and duplicates.
    pub fn compact(&mut self, keep: &dyn Fn(&Key) -> bool) -> Result<(), CacheError> {
        let _lock = Lock::take(&self.folder)?;
        self.refresh()?;
        self.rewrite(self.most, keep)
    }

    /// Writes a new generation with at most the `most` newest of the vectors that `keep` wants. The lock is held.
    fn rewrite(&mut self, most: usize, keep: &dyn Fn(&Key) -> bool) -> Result<(), CacheError> {
        let mut kept: Vec<(StoredVector, Key)> = Vec::new();
        if let Some(current) = &self.current {
            kept.extend(current.places.iter().map(|(key, place)| (*place, *key)).filter(|(_, key)| keep(key)));
        }
        kept.sort_unstable_by_key(|(place, _)| place.slot);
        kept.drain(..kept.len().saturating_sub(most));
        disk::begin(&self.folder, self.current.as_mut(), &kept)?;
        self.refresh()
    }

    /// Reads the records that were added since, or all of them when the generation is another.
    fn refresh(&mut self) -> Result<(), CacheError> {
        let path = disk::keys_path(&self.folder);
        let failed = |source| CacheError::Io { doing: "reading", path: path.clone(), source };
        let mut keys = match File::open(&path) {
            Ok(keys) => keys,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.current = None;
                return Ok(());
            }
            Err(error) => return Err(failed(error)),
        };
        let id = match Header::read(&mut keys).map_err(failed)? {
            Ok(header) => header.generation,
            Err(HeaderError::Damaged) => {
                self.current = None;
                return Ok(());
            }
            Err(HeaderError::Newer { found }) => return Err(CacheError::Newer { path, found, known: Header::VERSION }),
            Err(HeaderError::Dimensions { found }) => {
                return Err(CacheError::Dimensions { path, found, expected: crate::DIMENSIONS });
            }
        };
        let slots = Record::count(keys.metadata().map_err(failed)?.len());
        let known = self.current.take().filter(|current| current.id == id && current.slots <= slots);
        let mut current = match known {
            Some(current) => current,
            None => match Generation::open(&self.folder, id)? {
                Some(generation) => generation,
                None => return Ok(()),
            },
        };
        let read = current.read_records(&mut keys, slots);
        self.current = Some(current);
        read.map_err(failed)
    }
}

impl Generation {
    /// A generation of which no records were read yet; none if its vectors are missing.
    fn open(folder: &Path, id: u64) -> Result<Option<Self>, CacheError> {
        let path = disk::vectors_path(folder, id);
        match File::open(&path) {
            Ok(vectors) => Ok(Some(Self { id, vectors, slots: 0, places: HashMap::new() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(CacheError::Io { doing: "opening", path, source }),
        }
    }

    fn read_records(&mut self, keys: &mut File, slots: u32) -> io::Result<()> {
        keys.seek(SeekFrom::Start(Record::offset(self.slots)))?;
        // A length alone is not to be believed with much memory.
        self.places.reserve((slots - self.slots).min(1 << 20) as usize);
        let mut bytes = vec![0; Record::BYTES * 16_384];
        while self.slots < slots {
            let count = bytes.len().min((slots - self.slots) as usize * Record::BYTES);
            keys.read_exact(&mut bytes[..count])?;
            for record in bytes[..count].as_chunks().0 {
                let Record { key, sum } = Record::decode(record);
                // Later ones replace earlier ones, which were put again because they were damaged.
                self.places.insert(key, StoredVector { slot: self.slots, sum });
                self.slots += 1;
            }
        }
        Ok(())
    }

    /// Hands over the bytes of `wanted`, which is sorted by slot: none where the file has none. Neighbours are read together.
    fn read<T: Copy>(
        &mut self,
        wanted: &[(StoredVector, T)],
        mut take: impl FnMut(StoredVector, T, Option<&[u8; VECTOR_BYTES]>),
    ) {
        let mut buffer = Vec::new();
        for run in runs(wanted, |(place, _)| place.slot) {
            let Some(((first, _), (last, _))) = run.first().zip(run.last()) else { continue };
            buffer.clear();
            let length = u64::from(last.slot - first.slot + 1) * VECTOR_BYTES as u64;
            let start = u64::from(first.slot) * VECTOR_BYTES as u64;
            // What could not be read is not in the buffer, and so not found.
            let _ = self.vectors.seek(SeekFrom::Start(start)).and_then(|_| (&self.vectors).take(length).read_to_end(&mut buffer));
            let vectors = buffer.as_chunks().0;
            for (place, with) in run {
                take(*place, *with, vectors.get((place.slot - first.slot) as usize));
            }
        }
    }
}

/// Cuts what is sorted by slot where a gap is too wide, or a run too long.
fn runs<T>(mut rest: &[T], slot: impl Fn(&T) -> u32) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let first = slot(rest.first()?);
        let joins = |pair: &[T]| slot(&pair[1]) - slot(&pair[0]) <= GAP && slot(&pair[1]) - first < RUN;
        let length = 1 + rest.windows(2).take_while(|pair| joins(pair)).count();
        let (run, behind) = rest.split_at(length);
        rest = behind;
        Some(run)
    })
}

#[cfg(test)]
mod tests;

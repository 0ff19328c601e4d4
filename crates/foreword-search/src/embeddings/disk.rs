//! Everything that writes: the lock, adding to the end, a new generation.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::format::{self, Header, Record, VECTOR_BYTES};
use super::{CacheError, Generation, Key, StoredVector};
use crate::Vector;

const WAIT: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

pub(super) fn keys_path(folder: &Path) -> PathBuf {
    folder.join("embeddings.keys")
}

pub(super) fn vectors_path(folder: &Path, generation: u64) -> PathBuf {
    folder.join(format!("vectors-{generation:016x}.f32"))
}

fn is_vectors(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix("vectors-").and_then(|name| name.strip_suffix(".f32")).is_some_and(|id| id.len() == 16)
}

/// The right to write, until it is dropped or the process ends in whatever way.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(folder: &Path) -> Result<Self, CacheError> {
        fs::create_dir_all(folder).map_err(failed("creating the folder", folder))?;
        let path = folder.join("embeddings.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(failed("opening", &path))?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) if start.elapsed() < WAIT => thread::sleep(LOOK_AGAIN),
                Err(TryLockError::WouldBlock) => return Err(CacheError::Busy { path, seconds: WAIT.as_secs() }),
                Err(TryLockError::Error(source)) => return Err(CacheError::Io { doing: "locking", path, source }),
            }
        }
    }
}

/// Puts entries behind the last whole record. The lock is held, and all records were read.
pub(super) fn append<'a>(
    folder: &Path,
    current: &mut Generation,
    entries: impl Iterator<Item = &'a (Key, Vector)>,
) -> Result<(), CacheError> {
    let (mut vectors, mut records, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for ((key, vector), slot) in entries.zip(current.slots..u32::MAX) {
        let record = format::encode(key, vector, &mut vectors);
        records.extend(record.encode());
        added.push((*key, StoredVector { slot, sum: record.sum }));
    }
    write_behind(&vectors_path(folder, current.id), u64::from(current.slots) * VECTOR_BYTES as u64, &vectors)?;
    write_behind(&keys_path(folder), Record::offset(current.slots), &records)?;
    for (key, place) in added {
        current.places.insert(key, place);
        current.slots = place.slot + 1;
    }
    Ok(())
}

/// Writes from `start` on, in place of whatever a writer that was cut short left there.
fn write_behind(path: &Path, start: u64, bytes: &[u8]) -> Result<(), CacheError> {
    let mut file = OpenOptions::new().write(true).open(path).map_err(failed("opening", path))?;
    let mut write = || {
        file.set_len(start)?;
        file.seek(SeekFrom::Start(start))?;
        file.write_all(bytes)
    };
    let written = write();
    if written.is_err() {
        // Gives a full disk its room back; if that fails too, the next writer does it.
        let _ = file.set_len(start);
    }
    written.map_err(failed("writing", path))
}

/// Starts a generation with the vectors of `kept`, as far as they are whole, and ends the one before. The lock is held.
pub(super) fn begin(folder: &Path, before: Option<&mut Generation>, kept: &[(StoredVector, Key)]) -> Result<(), CacheError> {
    let generation = RandomState::new().build_hasher().finish();
    let (vectors, keys) = (vectors_path(folder, generation), folder.join("embeddings.keys.new"));
    let done = copy(&vectors, &keys, generation, before, kept).and_then(|()| {
        let path = keys_path(folder);
        fs::rename(&keys, &path).map_err(failed("replacing", &path))
    });
    if done.is_err() {
        // The next generation removes what cannot be removed now.
        let _ = fs::remove_file(&vectors);
        let _ = fs::remove_file(&keys);
        return done;
    }
    // Also those of writers that were cut short. One that cannot be removed now is removed by the next generation.
    for file in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if is_vectors(&file) && file != vectors {
            let _ = fs::remove_file(file);
        }
    }
    Ok(())
}

fn copy(
    vectors_path: &Path,
    keys_path: &Path,
    generation: u64,
    before: Option<&mut Generation>,
    kept: &[(StoredVector, Key)],
) -> Result<(), CacheError> {
    let create =
        |path: &Path| File::create(path).map(|file| BufWriter::with_capacity(1 << 20, file)).map_err(failed("creating", path));
    let (mut vectors, mut keys) = (create(vectors_path)?, create(keys_path)?);
    let mut written: io::Result<()> = keys.write_all(&Header { generation }.encode());
    if let Some(before) = before {
        before.read(kept, |place, key, bytes| {
            let Some(bytes) = bytes.filter(|bytes| format::decode(&key, bytes, place.sum).is_some()) else { return };
            if written.is_ok() {
                written = vectors.write_all(bytes).and_then(|()| keys.write_all(&Record { key, sum: place.sum }.encode()));
            }
        });
    }
    written.map_err(failed("writing", vectors_path))?;
    // Before the rename: a generation that is in place must not be lost to a power failure together with the one before.
    let finish = |file: BufWriter<File>| file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all();
    finish(vectors).map_err(failed("writing", vectors_path))?;
    finish(keys).map_err(failed("writing", keys_path))
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError {
    let path = path.to_owned();
    move |source| CacheError::Io { doing, path, source }
}

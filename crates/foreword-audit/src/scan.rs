//! Reading many logs at once, and not reading again what has not changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::agents::{self, Unread};
use crate::find::LogFile;
use crate::log::{FileLog, Lines};

/// What is kept changes with the readers: a file that an older program kept is read again.
const VERSION: u32 = 2;

/// All that was read.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The logs, in the order in which they were found.
    pub logs: Vec<FileLog>,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// Files that were found.
    pub files: usize,
    /// Files that had not changed since they were last read.
    pub unchanged: usize,
    /// The size of all of them.
    pub bytes: u64,
    /// How their lines were read.
    pub lines: Lines,
}

/// What is kept of a file.
#[derive(Serialize, Deserialize)]
struct CachedFile {
    version: u32,
    bytes: u64,
    modified: u128,
    logs: Vec<FileLog>,
}

/// What came of a file, by its place.
type Outcome = (usize, Result<Vec<FileLog>, Unread>);

/// Reads logs with so many threads. `kept` is the folder where what was read is kept for the next time; `progress` hears how many bytes are
/// done.
pub fn scan(found: &[LogFile], kept: Option<&Path>, threads: usize, progress: &(dyn Fn(u64, u64) + Sync)) -> Scan {
    let total: u64 = found.iter().map(|found| found.bytes).sum();
    // The largest first, so that no thread is left with it at the end.
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(found[*at].bytes));
    let (next, done, unchanged) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicUsize::new(0));
    let read: Mutex<Vec<Outcome>> = Mutex::new(Vec::new());
    let work = || {
        let mut mine = Vec::new();
        while let Some(at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let one = &found[*at];
            let logs = if let Some(logs) = kept.and_then(|folder| take(folder, one)) {
                unchanged.fetch_add(1, Ordering::Relaxed);
                Ok(logs)
            } else {
                let logs = agents::read(one.form, &one.path, &one.path.to_string_lossy());
                if let (Some(folder), Ok(logs)) = (kept, &logs) {
                    keep(folder, one, logs);
                }
                logs
            };
            mine.push((*at, logs));
            progress(done.fetch_add(one.bytes, Ordering::Relaxed) + one.bytes, total);
        }
        if let Ok(mut read) = read.lock() {
            read.append(&mut mine);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, 64) {
            scope.spawn(work);
        }
        work();
    });
    let mut read = read.into_inner().unwrap_or_default();
    read.sort_by_key(|(at, _)| *at);
    let mut scan = Scan { files: found.len(), unchanged: unchanged.into_inner(), bytes: total, ..Scan::default() };
    for (_, logs) in read {
        match logs {
            Ok(logs) => {
                for log in logs {
                    scan.lines += log.lines;
                    scan.logs.push(log);
                }
            }
            Err(unread) => scan.unread.push(unread),
        }
    }
    scan
}

fn place(folder: &Path, found: &LogFile) -> PathBuf {
    let mut hash = Sha256::new();
    hash.update(found.path.as_os_str().as_encoded_bytes());
    hash.update(format!("{:?}", found.form));
    let digest = hash.finalize();
    let number = digest.iter().take(16).fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    folder.join(format!("{number:032x}"))
}

fn take(folder: &Path, found: &LogFile) -> Option<Vec<FileLog>> {
    let kept: CachedFile = postcard::from_bytes(&fs::read(place(folder, found)).ok()?).ok()?;
    (kept.version == VERSION && kept.bytes == found.bytes && kept.modified == found.modified).then_some(kept.logs)
}

/// It saves time the next time, and nothing else: a failure is no reason to stop.
fn keep(folder: &Path, found: &LogFile, logs: &[FileLog]) {
    let kept = CachedFile { version: VERSION, bytes: found.bytes, modified: found.modified, logs: logs.to_vec() };
    let Ok(bytes) = postcard::to_stdvec(&kept) else { return };
    let place = place(folder, found);
    let part = place.with_extension(format!("{}", std::process::id()));
    if fs::write(&part, bytes).and_then(|()| fs::rename(&part, &place)).is_err() {
        // A leftover is a cache file with another name: nobody reads it.
        let _ = fs::remove_file(&part);
    }
}

//! One writer per session: a lock on a file, which the system releases when the process ends.
//!
//! A program with many sessions locks one file, its [`Holder`], and creates a hard link to it for each session, which is faster
//! than creating files. If no process holds a link's file, a new file replaces it.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::shared::lock;
use crate::{Result, StoreError, files};

/// How often to retry if the file changes meanwhile.
const TRIES: usize = 16;

/// The lease to write to a session. Dropping it releases the session.
#[derive(Debug, Default)]
pub struct Lease {
    /// `None` if no other process can write.
    held: Option<(PathBuf, Held)>,
}

#[derive(Debug)]
enum Held {
    /// A separate file.
    Own { _file: File },
    /// A hard link to the holder's file.
    Named { holder: Arc<Holder>, session: String },
}

/// A file that a program locks as long as it has the store open.
#[derive(Debug)]
pub(crate) struct Holder {
    path: PathBuf,
    file: File,
    /// The sessions of this holder.
    held: Mutex<BTreeSet<String>>,
}

impl Holder {
    /// Creates a holder for a database; `None` if the system has no hard links.
    pub(crate) fn new(database: &Path) -> Option<Arc<Self>> {
        if !cfg!(unix) {
            return None;
        }
        let folder = folder(database);
        files::private_folder(&folder).ok()?;
        sweep(&folder);
        let path = folder.join(format!("{}.holder", crate::new_session_id().ok()?));
        let file = files::create(&path).ok()?;
        file.try_lock().ok()?;
        Some(Arc::new(Self { path, file, held: Mutex::default() }))
    }

    /// Takes the lease of a session if it is free.
    fn take(&self, path: &Path, session: &str) -> bool {
        let mut held = lock(&self.held);
        // A name may be left that could not be taken away, because the folder was somewhere else for a while.
        let taken = !held.contains(session)
            && (fs::hard_link(&self.path, path).is_ok() || names(&self.file, path).is_ok_and(|names| names > 0));
        if taken {
            held.insert(session.to_owned());
        }
        taken
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // else the next one does it
    }
}

/// Deletes files of processes that have ended.
fn sweep(folder: &Path) {
    let Ok(files) = fs::read_dir(folder) else { return };
    for path in files.filter_map(|file| Some(file.ok()?.path())) {
        let is_holder = path.extension().is_some_and(|extension| extension == "holder");
        // One that was made just now and is not held yet has no other name; without its own it would never get one.
        let left = |file: &File| file.try_lock().is_ok() && age_s(file).is_some_and(|age| age > 60);
        if is_holder && files::open(&path).is_ok_and(|file| left(&file)) {
            // An old lease file that stays holds nothing.
            let _ = fs::remove_file(&path);
        }
    }
}

fn age_s(file: &File) -> Option<u64> {
    Some(file.metadata().ok()?.modified().ok()?.elapsed().ok()?.as_secs())
}

impl Lease {
    /// The path of a session's lock file.
    pub(crate) fn path(database: &Path, session: &str) -> PathBuf {
        folder(database).join(format!("{session}.lock"))
    }

    /// Takes the lease of a session.
    pub(crate) fn take(database: &Path, session: &str, holder: Option<&Arc<Holder>>) -> Result<Self> {
        let failed = |error: io::Error| StoreError::Lock { session: session.to_owned(), why: error.to_string() };
        let path = Self::path(database, session);
        for tried in 0..TRIES {
            if let Some(holder) = holder
                && holder.take(&path, session)
            {
                let held = Held::Named { holder: Arc::clone(holder), session: session.to_owned() };
                return Ok(Self { held: Some((path, held)) });
            }
            let open = || files::open_or_create(&path);
            let file = match open() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    files::private_folder(&folder(database)).and_then(|()| open()).map_err(failed)?
                }
                opened => opened.map_err(failed)?,
            };
            match file.try_lock() {
                Ok(()) => {}
                // It may be held for a moment by whoever looks at another session of a program that ended.
                Err(TryLockError::WouldBlock) if tried < 4 && names(&file, &path).is_ok_and(|names| names > 1) => {
                    thread::sleep(Duration::from_millis(2));
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Err(StoreError::Leased(session.to_owned())),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            match names(&file, &path).map_err(failed)? {
                // Whoever held it took the name away in between.
                0 => {}
                1 => return Ok(Self { held: Some((path, Held::Own { _file: file })) }),
                // Left by a program that ended; others of its sessions have the same file.
                _ => fs::remove_file(&path).map_err(failed)?,
            }
        }
        Err(StoreError::Leased(session.to_owned()))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some((path, held)) = &self.held
            && cfg!(unix)
        {
            // While it is held: whoever opened the file before sees that it has lost its name.
            let _ = fs::remove_file(path);
            if let Held::Named { holder, session } = held {
                lock(&holder.held).remove(session);
            }
        }
    }
}

/// The number of hard links of a file, or 0 if the path is not one of them.
#[cfg(unix)]
fn names(file: &File, path: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let (held, named) = (file.metadata()?, fs::metadata(path));
    let is_same = named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino()));
    Ok(if is_same { held.nlink() } else { 0 })
}

/// Files are never taken away here.
#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps)]
fn names(_file: &File, _path: &Path) -> io::Result<u64> {
    Ok(1)
}

fn folder(database: &Path) -> PathBuf {
    database.parent().unwrap_or(Path::new(".")).join("leases")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    fn is_leased(taken: &Result<Lease>) -> bool {
        matches!(taken, Err(StoreError::Leased(_)))
    }

    #[test]
    fn a_session_is_held_once_whoever_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("store.db");
        let holder = Holder::new(&database);
        assert_eq!(holder.is_some(), cfg!(unix));
        for (first, second) in
            [(None, None), (None, holder.as_ref()), (holder.as_ref(), None), (holder.as_ref(), holder.as_ref())]
        {
            let lease = Lease::take(&database, "s", first).unwrap();
            assert!(is_leased(&Lease::take(&database, "s", second)));
            let other = Lease::take(&database, "other", second).unwrap();
            drop(lease);
            drop(Lease::take(&database, "s", second).unwrap());
            drop(other);
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_sessions_of_a_program_that_ended_are_held_each_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("store.db");
        let holder = Holder::new(&database).unwrap();
        let names = ["a", "b", "c"].map(|session| Lease::path(&database, session));
        for path in &names {
            fs::hard_link(&holder.path, path).unwrap();
        }
        assert!(is_leased(&Lease::take(&database, "a", None)));
        // As if it had been killed: the names stay.
        drop(holder);
        let next = Holder::new(&database);
        let first = Lease::take(&database, "a", None).unwrap();
        let second = Lease::take(&database, "b", next.as_ref()).unwrap();
        let third = Lease::take(&database, "c", None).unwrap();
        assert!(["a", "b", "c"].iter().all(|session| is_leased(&Lease::take(&database, session, None))));
        drop((first, second, third));
        assert!(names.iter().all(|path| !path.exists()));
    }

    #[cfg(unix)]
    #[test]
    fn many_who_come_and_go_never_hold_it_together() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("store.db");
        let (inside, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for thread in 0..4 {
                let (database, inside, taken) = (&database, &inside, &taken);
                scope.spawn(move || {
                    let holder = if thread % 2 == 0 { Holder::new(database) } else { None };
                    for _ in 0..500 {
                        let Ok(lease) = Lease::take(database, "s", holder.as_ref()) else { continue };
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        taken.fetch_add(1, SeqCst);
                        inside.fetch_sub(1, SeqCst);
                        drop(lease);
                    }
                });
            }
        });
        assert!(taken.into_inner() > 0);
    }
}

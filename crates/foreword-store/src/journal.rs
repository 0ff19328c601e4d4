//! What is on its way into the database: files beside it that take a write at once, so that the database can take many of them together a
//! little later.
//!
//! What was written to a file is there when the process ends, however it ends. There are two files, written by turns: while what stands in
//! one is taken into the database, what comes goes to the other. The database keeps how far it has taken them in, in the same transaction,
//! so that whoever finds files that nobody holds takes the rest in once.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use foreword_core::hash::Hash;

use crate::shared::Job;
use crate::{Result, Sqlite, StoreError};

/// Bytes before what a write says: its length, its number, and a sum of both and it.
const HEAD: usize = 4 + 8 + SUM;
const SUM: usize = 8;

/// The bytes of a write that has no number yet.
pub(crate) struct Frame(Vec<u8>);

impl Frame {
    pub(crate) fn new(job: &Job) -> Result<Self> {
        let mut bytes = postcard::to_extend(job, vec![0; HEAD]).map_err(|error| StoreError::Refused(error.to_string()))?;
        let too_long = |_| StoreError::Refused("it is too long to be kept".to_owned());
        let length = u32::try_from(bytes.len() - HEAD).map_err(too_long)?;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        let sum = Hash::of(&bytes[HEAD..]);
        bytes[12..HEAD].copy_from_slice(&sum.bytes()[..SUM]);
        Ok(Self(bytes))
    }
}

/// The files of one process.
#[derive(Debug)]
pub(crate) struct Journal {
    name: String,
    folder: PathBuf,
    files: [File; 2],
    /// The one that is written to, and how far it is filled.
    current: usize,
    end: u64,
    /// The number of the last write; the first is 1.
    last: u64,
}

impl Journal {
    /// Makes the files beside a database.
    pub(crate) fn create(database: &Path) -> Result<Self> {
        let folder = folder(database);
        let name = crate::new_session_id()?;
        Self::make(folder.clone(), name.clone()).map_err(|error| {
            let _ = fs::remove_file(folder.join(format!("{name}.new")));
            remove(&folder, &name);
            refused(&error)
        })
    }

    fn make(folder: PathBuf, name: String) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        let open = |path: &Path| File::options().create_new(true).read(true).write(true).open(path);
        // It gets its name when it is held: before that, whoever looks for files that nobody holds does not find it.
        let new = folder.join(format!("{name}.new"));
        let first = open(&new)?;
        first.try_lock()?;
        let second = open(&path(&folder, &name, 1))?;
        fs::rename(&new, path(&folder, &name, 0))?;
        Ok(Self { name, folder, files: [first, second], current: 0, end: 0, last: 0 })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The number of the last write.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Bytes in the file that is written to.
    pub(crate) fn len(&self) -> u64 {
        self.end
    }

    /// Writes one.
    pub(crate) fn add(&mut self, Frame(mut bytes): Frame) -> Result<()> {
        let number = (self.last + 1).to_le_bytes();
        bytes[4..12].copy_from_slice(&number);
        bytes[12..HEAD].iter_mut().zip(number).for_each(|(byte, more)| *byte ^= more);
        let file = &mut self.files[self.current];
        if let Err(error) = file.write_all(&bytes) {
            // The next one is written over what there is of it.
            file.seek(SeekFrom::Start(self.end)).map_err(|error| refused(&error))?;
            return Err(refused(&error));
        }
        self.end += bytes.len() as u64;
        self.last += 1;
        Ok(())
    }

    /// Goes on with the other file, from its start: what stands there is in the database.
    pub(crate) fn turn(&mut self) -> Result<()> {
        let next = 1 - self.current;
        self.files[next].rewind().map_err(|error| refused(&error))?;
        (self.current, self.end) = (next, 0);
        Ok(())
    }

    /// Leaves nothing in the files but what was written since the last turn: the rest is in the database.
    pub(crate) fn clear(&mut self) -> Result<()> {
        let cut = |file: &File, end: u64| file.set_len(end).map_err(|error| refused(&error));
        cut(&self.files[1 - self.current], 0)?;
        cut(&self.files[self.current], self.end)
    }

    /// Takes the files away, where all of it is in the database.
    pub(crate) fn remove(self) {
        remove(&self.folder, &self.name);
    }
}

/// The journals beside a database. Where the folder cannot be looked into, whoever can does it.
fn names(folder: &Path) -> impl Iterator<Item = String> {
    let files = fs::read_dir(folder).into_iter().flatten();
    files.filter_map(|file| file.ok()?.file_name().to_str()?.strip_suffix(".0").map(str::to_owned))
}

/// Holds a journal, where nobody does.
fn held(folder: &Path, name: &str) -> Option<File> {
    let file = File::options().read(true).write(true).open(path(folder, name, 0)).ok()?;
    file.try_lock().is_ok().then_some(file)
}

/// Whether a process that ended left something behind.
pub(crate) fn is_left(database: &Path) -> bool {
    let folder = folder(database);
    names(&folder).any(|name| held(&folder, &name).is_some())
}

/// Takes into a store what was left behind by processes that ended.
pub(crate) fn recover(store: &mut Sqlite) -> Result<()> {
    let folder = folder(store.path());
    if names(&folder).next().is_none() {
        return Ok(());
    }
    // Whoever comes second waits, so that it finds all of it too.
    let alone = File::options().create(true).write(true).truncate(false).open(folder.join("recovery.lock"));
    let alone = alone.and_then(|file| file.lock().map(|()| file)).map_err(|error| refused(&error))?;
    for name in names(&folder) {
        let Some(_held) = held(&folder, &name) else { continue };
        let (mut writes, mut whole): (Vec<(u64, Job)>, bool) = (Vec::new(), true);
        for at in 0..2 {
            match fs::read(path(&folder, &name, at)) {
                Ok(bytes) => whole &= read(&bytes, &mut writes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(refused(&error)),
            }
        }
        writes.sort_unstable_by_key(|(number, _)| *number);
        let taken = store.taken(&name)?;
        let mut due: Vec<Job> = Vec::new();
        for (number, job) in writes {
            // Where some are missing in between, the machine ended, and took what came before along.
            if number == taken + 1 + due.len() as u64 {
                due.push(job);
            }
        }
        whole &= store.take(&name, taken + 1, &due)?.is_empty();
        if !whole {
            // Nobody else reads it; a person may.
            for at in 0..2 {
                let _ = fs::copy(path(&folder, &name, at), folder.join(format!("{name}.{at}.unread")));
            }
        }
        remove(&folder, &name);
        store.forget_journal(&name)?;
    }
    drop(alone);
    Ok(())
}

/// The writes in a file. What stands behind the last one, left from before or half written, has another number or another sum. Whether
/// all of them could be read.
fn read(mut bytes: &[u8], writes: &mut Vec<(u64, Job)>) -> bool {
    let mut expected = None;
    while let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let number = u64::from_le_bytes([head[4], head[5], head[6], head[7], head[8], head[9], head[10], head[11]]);
        let Some((said, rest)) = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length)) else { break };
        if expected.is_some_and(|expected| number != expected) || sum(number, said) != head[12..] {
            break;
        }
        let Ok(job) = postcard::from_bytes(said) else { return false };
        writes.push((number, job));
        (expected, bytes) = (Some(number + 1), rest);
    }
    true
}

fn sum(number: u64, said: &[u8]) -> [u8; SUM] {
    let mut sum = [0; SUM];
    sum.copy_from_slice(&Hash::of(said).bytes()[..SUM]);
    for (byte, more) in sum.iter_mut().zip(number.to_le_bytes()) {
        *byte ^= more;
    }
    sum
}

fn folder(database: &Path) -> PathBuf {
    database.parent().unwrap_or(Path::new(".")).join("journals")
}

fn path(folder: &Path, name: &str, at: usize) -> PathBuf {
    folder.join(format!("{name}.{at}"))
}

/// The one that is locked goes last: while it is there, the other one is found with it.
fn remove(folder: &Path, name: &str) {
    for at in [1, 0] {
        let _ = fs::remove_file(path(folder, name, at)); // whoever comes next does it
    }
}

fn refused(error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { doing: "write to a session" },
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::ReadOnly { doing: "write to a session" }
        }
        _ => StoreError::Sql { doing: "write to a session", why: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Counts, Document, Entry, NewSession, Shared, Store as _, Write};

    fn new(id: &str) -> NewSession {
        let (agent, setup) = (document(&json!({})), document(&json!({})));
        NewSession { id: id.to_owned(), title: None, created_ms: 1, agent, setup }
    }

    fn document(value: &Value) -> Document {
        Document::of(value).unwrap()
    }

    fn begin(id: &str) -> Job {
        Job::Begin(new(id))
    }

    fn turn(words: &str) -> Write {
        let body = document(&json!({"words": words}));
        Write::Input(Entry { kind: "turn".to_owned(), run: 1, at_ms: 2, cut_off: false, body })
    }

    fn note(inputs: u64, words: &str) -> Job {
        Job::Note("s".to_owned(), Counts { inputs, requests: 0 }, vec![turn(words)])
    }

    fn words(store: &Sqlite) -> Vec<String> {
        let Ok(log) = store.log("s", 0) else { return Vec::new() };
        log.into_iter().map(|logged| logged.body["words"].as_str().unwrap().to_owned()).collect()
    }

    /// A store whose journal was left behind with these writes.
    fn left(folder: &Path, jobs: &[Job]) -> PathBuf {
        let database = folder.join("store.db");
        drop(Sqlite::open(&database).unwrap());
        let mut journal = Journal::create(&database).unwrap();
        for job in jobs {
            journal.add(Frame::new(job).unwrap()).unwrap();
        }
        database
    }

    fn journals(database: &Path) -> usize {
        names(&folder(database)).count()
    }

    #[test]
    fn what_a_process_left_behind_is_taken_in_once() {
        let place = tempfile::tempdir().unwrap();
        let database = left(place.path(), &[begin("s"), note(0, "one"), note(1, "two")]);
        for _ in 0..2 {
            let store = Sqlite::open(&database).unwrap();
            assert_eq!(words(&store), ["one", "two"]);
            assert_eq!(store.check().unwrap(), []);
            assert_eq!(journals(&database), 0);
        }
    }

    #[test]
    fn what_another_version_wrote_is_kept_for_a_person() {
        let place = tempfile::tempdir().unwrap();
        let database = place.path().join("store.db");
        drop(Sqlite::open(&database).unwrap());
        let mut journal = Journal::create(&database).unwrap();
        let said = br#"{"Begin":{"id":"s"}}"#;
        let mut bytes = vec![0; HEAD];
        bytes[..4].copy_from_slice(&u32::try_from(said.len()).unwrap().to_le_bytes());
        bytes[12..].copy_from_slice(&Hash::of(said).bytes()[..SUM]);
        bytes.extend(said);
        journal.add(Frame(bytes)).unwrap();
        drop(journal);
        let store = Sqlite::open(&database).unwrap();
        assert_eq!((store.sessions().unwrap(), journals(&database)), (Vec::new(), 0));
        let kept = fs::read_dir(folder(&database)).unwrap().map(|file| file.unwrap().path());
        let kept = kept.filter(|path| path.extension().is_some_and(|end| end == "unread"));
        assert!(kept.into_iter().any(|path| fs::read(path).unwrap().ends_with(said)));
    }

    #[test]
    fn of_a_file_that_is_cut_anywhere_whole_writes_are_taken_in() {
        let place = tempfile::tempdir().unwrap();
        let database = left(place.path(), &[begin("s"), note(0, "one"), note(1, "two")]);
        let file = fs::read_dir(folder(&database)).unwrap().map(|file| file.unwrap().path());
        let file = file.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
        let bytes = fs::read(&file).unwrap();
        let empty = fs::read(&database).unwrap();
        // What is not written yet is zeros, or what stood there before. A write may end with zeros itself.
        for rest in [0, b'x'] {
            let mut seen = 0;
            for end in 0..=bytes.len() {
                let mut torn = bytes[..end].to_vec();
                torn.resize(bytes.len(), rest);
                fs::write(&file, torn).unwrap();
                let store = Sqlite::open(&database).unwrap();
                let found = words(&store);
                assert!(
                    ["one", "two"].starts_with(&found.iter().map(String::as_str).collect::<Vec<_>>()[..]),
                    "{end}: {found:?}"
                );
                assert!(found.len() >= seen, "{end}: {found:?}");
                seen = found.len();
                drop(store);
                let _ = fs::remove_file(database.with_extension("db-wal"));
                fs::write(&database, &empty).unwrap();
            }
            assert_eq!(seen, 2);
        }
    }

    #[test]
    fn what_is_in_the_database_or_comes_after_a_gap_is_not_taken_in() {
        let check = |taken: u64, kept: &[usize], expect: &[&str]| {
            let place = tempfile::tempdir().unwrap();
            let database = left(place.path(), &[]);
            let mut store = Sqlite::open(&database).unwrap();
            let all = || [begin("s"), note(0, "one"), note(1, "two"), note(2, "three"), note(3, "four")];
            let mut journal = Journal::create(&database).unwrap();
            let name = journal.name().to_owned();
            for (at, job) in all().iter().enumerate() {
                // Two in a file, so that the last one stands before one that is older.
                if at > 0 && at % 2 == 0 {
                    journal.turn().unwrap();
                }
                journal.last = at as u64;
                if kept.contains(&at) {
                    journal.add(Frame::new(job).unwrap()).unwrap();
                }
            }
            store.take(&name, 1, &all()[..usize::try_from(taken).unwrap()]).unwrap();
            // It is held.
            recover(&mut store).unwrap();
            assert_eq!(words(&store).len(), usize::try_from(taken.saturating_sub(1)).unwrap());
            drop(journal);
            recover(&mut store).unwrap();
            assert_eq!(words(&store), expect, "{taken} {kept:?}");
        };
        check(0, &[0, 1, 2, 3], &["one", "two", "three"]);
        check(2, &[0, 1, 2, 3], &["one", "two", "three"]);
        // The fifth is written over the first; the second stands behind it.
        check(2, &[0, 1, 2, 3, 4], &["one", "two", "three", "four"]);
        check(4, &[2, 3, 4], &["one", "two", "three", "four"]);
        check(5, &[2, 3, 4], &["one", "two", "three", "four"]);
        check(2, &[3, 4], &["one"]);
        check(0, &[1, 2, 3], &[]);
    }

    #[test]
    fn what_is_deleted_is_gone_from_the_journal_too() {
        let place = tempfile::tempdir().unwrap();
        let database = place.path().join("store.db");
        let mut shared = Shared::new(Sqlite::open(&database).unwrap()).unwrap();
        let mut quick = shared.unsynced();
        let lease = quick.begin(&new("s")).unwrap();
        let mut counts = Counts::default();
        for at in 0..4 {
            counts = quick.note("s", counts, &mut vec![turn("a secret")]).unwrap();
            if at % 2 == 0 {
                quick.settle(None).unwrap();
            }
        }
        let holds = || {
            let files = fs::read_dir(folder(&database)).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
            files.filter(|bytes| bytes.windows(8).any(|bytes| bytes == b"a secret")).count()
        };
        assert_eq!(holds(), 2);
        shared.delete("s").unwrap();
        assert_eq!(holds(), 0);
        drop((lease, shared, quick));
    }

    #[test]
    fn a_database_that_is_busy_or_full_takes_it_in_later() {
        let place = tempfile::tempdir().unwrap();
        let database = place.path().join("store.db");
        let mut quick = Shared::new(Sqlite::open(&database).unwrap()).unwrap().unsynced();
        let _lease = quick.begin(&new("s")).unwrap();
        quick.settle(None).unwrap();
        quick.limit_pages(Some(1));
        let mut counts = Counts::default();
        for at in 0..50 {
            // Each is long enough to need pages.
            counts = quick.note("s", counts, &mut vec![turn(&format!("{at} {}", "long ".repeat(2000)))]).unwrap();
        }
        assert!(matches!(quick.settle(None), Err(StoreError::Full { .. })));
        // What is there can be read, and more can be told.
        assert!(quick.log("s", 0).unwrap().len() < 50);
        counts = quick.note("s", counts, &mut vec![turn("last")]).unwrap();
        assert_eq!(counts.inputs, 51);
        quick.limit_pages(None);
        quick.settle(None).unwrap();
        assert_eq!(quick.log("s", 0).unwrap().len(), 51);
        assert_eq!(quick.check().unwrap(), []);
    }
}

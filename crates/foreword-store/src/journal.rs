//! The journal: files beside the database that accept writes at once, so that the database can write many of them together a little
//! later.
//!
//! Entries survive a process crash. There are two files, used in turn: while the entries of one are written to the database, new
//! ones go to the other. The database stores how far they were written, in the same transaction, so that after a crash another
//! process writes the rest exactly once.
//!
//! An entry's data is written first, followed by an empty header, and its own header last: an unfinished entry has an empty header,
//! and any other mismatch with its checksum is damage. Damaged files are set aside, never deleted, and losses are recorded.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use foreword_core::hash::Hash;

use crate::files::{self, InUse};
use crate::row::Fault;
use crate::shared::Job;
use crate::{Result, Sqlite, StoreError, acknowledged};

/// Bytes before what a write says: its length, its number, and a sum of both and it.
const HEAD: usize = 4 + 8 + SUM;
const SUM: usize = 8;
const EMPTY: [u8; HEAD] = [0; HEAD];

/// What a file that is set aside ends with.
const DAMAGED: &str = "damaged";

/// So many files that are set aside are named.
const MAX_NAMED: usize = 100;

/// The bytes of a write that has no number yet.
pub(crate) struct Frame {
    /// The length, and the sum of what it says.
    head: [u8; HEAD],
    /// What it says, and an empty head.
    said: Vec<u8>,
}

impl Frame {
    pub(crate) fn new(job: &Job) -> Result<Self> {
        let said = postcard::to_allocvec(job).map_err(|error| StoreError::Refused(error.to_string()))?;
        Self::of(said)
    }

    fn of(mut said: Vec<u8>) -> Result<Self> {
        let too_long = |_| StoreError::Refused("the record is too long".to_owned());
        let length = u32::try_from(said.len()).map_err(too_long)?;
        let mut head = EMPTY;
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[12..].copy_from_slice(&Hash::of(&said).bytes()[..SUM]);
        said.extend(EMPTY);
        Ok(Self { head, said })
    }
}

/// The files of one process.
#[derive(Debug)]
pub(crate) struct Journal {
    name: String,
    folder: PathBuf,
    files: [File; 2],
    in_use: [InUse; 2],
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
            // The first error is the one to report; the next start removes the file.
            let _ = fs::remove_file(folder.join(format!("{name}.new")));
            remove(&folder, &name);
            refused(&error)
        })
    }

    fn make(folder: PathBuf, name: String) -> io::Result<Self> {
        files::private_folder(&folder)?;
        // It gets its name when it is held: before that, whoever looks for files that nobody holds does not find it.
        let new = folder.join(format!("{name}.new"));
        let first = files::create(&new)?;
        first.try_lock()?;
        let paths = [path(&folder, &name, 0), path(&folder, &name, 1)];
        let second = files::create(&paths[1])?;
        fs::rename(&new, &paths[0])?;
        Ok(Self { name, folder, files: [first, second], in_use: paths.map(InUse::new), current: 0, end: 0, last: 0 })
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

    /// Whether whoever opens the store next finds its files.
    pub(crate) fn check(&self) -> Result<()> {
        self.in_use.iter().try_for_each(InUse::check)
    }

    /// Writes one.
    pub(crate) fn add(&mut self, Frame { mut head, said }: Frame) -> Result<()> {
        self.in_use[self.current].check()?;
        let number = self.last + 1;
        head[4..12].copy_from_slice(&number.to_le_bytes());
        mix(&mut head[12..], number ^ key(&self.name));
        let start = self.end + HEAD as u64;
        let written = self.write(start, &said).and_then(|()| self.write(self.end, &head));
        if let Err(error) = written {
            // The next one is written over what there is of it; where none comes, it must not count.
            let _ = self.write(self.end, &EMPTY);
            return Err(refused(&error));
        }
        self.end = start + said.len() as u64 - HEAD as u64;
        self.last = number;
        Ok(())
    }

    /// Writes what says that nothing comes next, to see whether that works.
    pub(crate) fn probe(&mut self) -> Result<()> {
        self.check()?;
        self.write(self.end, &EMPTY).map_err(|error| refused(&error))
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        write_at(&self.files[self.current], at, bytes)
    }

    /// Goes on with the other file, from its start: what stands there is in the database.
    pub(crate) fn turn(&mut self) -> Result<()> {
        write_at(&self.files[1 - self.current], 0, &EMPTY).map_err(|error| refused(&error))?;
        (self.current, self.end) = (1 - self.current, 0);
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

#[cfg(unix)]
fn write_at(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    use std::io::{Seek as _, Write as _};
    file.seek(io::SeekFrom::Start(at))?;
    file.write_all(bytes)
}

/// The journals beside a database. Where the folder cannot be looked into, whoever can does it.
fn names(folder: &Path) -> impl Iterator<Item = String> {
    let files = fs::read_dir(folder).into_iter().flatten();
    files.filter_map(|file| file.ok()?.file_name().to_str()?.strip_suffix(".0").map(str::to_owned))
}

/// Holds a journal, where nobody does.
fn held(folder: &Path, name: &str) -> Option<File> {
    let file = files::open(&path(folder, name, 0)).ok()?;
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
    if fs::symlink_metadata(&folder).is_ok() {
        files::private_folder(&folder).map_err(|error| crate::error::cannot_open(store.path(), error))?;
    }
    if names(&folder).next().is_none() {
        return Ok(());
    }
    // Whoever comes second waits, so that it finds all of it too.
    let alone = files::open_or_create(&folder.join("recovery.lock"));
    let alone = alone.and_then(|file| file.lock().map(|()| file)).map_err(|error| refused(&error))?;
    for name in names(&folder) {
        if let Some(_held) = held(&folder, &name) {
            recover_one(store, &folder, &name)?;
        }
    }
    drop(alone);
    Ok(())
}

/// The same for one journal that nobody holds.
fn recover_one(store: &mut Sqlite, folder: &Path, name: &str) -> Result<()> {
    let taken = store.taken(name)?;
    let mut found = UnreadEntries::default();
    for at in 0..2 {
        match files::open(&path(folder, name, at)).and_then(|mut file| read_all(&mut file)) {
            Ok(bytes) => found.read(&bytes, name, taken),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused(&error)),
        }
    }
    let UnreadEntries { mut writes, damaged, unknown } = found;
    writes.sort_unstable_by_key(|(number, _)| *number);
    writes.dedup_by_key(|(number, _)| *number);
    let (numbers, jobs): (Vec<u64>, Vec<Job>) = writes.into_iter().unzip();
    let last = numbers.last().copied().unwrap_or(taken);
    let missing = last - taken - numbers.len() as u64 - unknown.iter().filter(|number| **number < last).count() as u64;
    // A write that cannot be taken in keeps no other one from it: those of its session behind it say what they follow, and are refused.
    let refused_ones = store.take(name, last, &jobs)?;
    let mut losses: Vec<String> = Vec::new();
    if missing > 0 {
        losses.push(format!("{missing} acknowledged writes could not be read"));
    }
    if damaged && missing == 0 {
        losses.push("a part could not be read; if it was a write, it is lost".to_owned());
    }
    if !unknown.is_empty() {
        losses.push(format!("{} acknowledged writes of another version could not be read", unknown.len()));
    }
    for (at, why) in &refused_ones {
        let whose = jobs[*at].session().map(|session| format!(" of session {session}")).unwrap_or_default();
        losses.push(format!("write {}{whose} could not be replayed: {why}", numbers[*at]));
    }
    if losses.is_empty() {
        remove(folder, name);
    } else {
        for loss in losses {
            acknowledged::record(store.path(), &format!("journal {name}: {loss}")).map_err(|error| refused(&error))?;
        }
        set_aside(folder, name).map_err(|error| refused(&error))?;
    }
    store.forget_journal(name)
}

/// No journal is longer.
const MAX_BYTES: u64 = 1 << 30;

fn read_all(file: &mut File) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Gives the files of a journal names under which nobody takes them in again. The one that is locked goes last, as in [`remove`].
fn set_aside(folder: &Path, name: &str) -> io::Result<()> {
    for at in [1, 0] {
        let from = path(folder, name, at);
        if fs::symlink_metadata(&from).is_ok() {
            fs::rename(&from, folder.join(format!("{name}.{at}.{DAMAGED}")))?;
        }
    }
    Ok(())
}

/// What was lost, and what was set aside because of it.
pub(crate) fn faults(database: &Path) -> Vec<Fault> {
    let (file, losses) = acknowledged::found(database);
    let record = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let fault = |place: String, what: String| Fault { session: None, place, what };
    let mut faults: Vec<Fault> = losses.into_iter().map(|loss| fault(format!("recorded losses in {record}"), loss)).collect();
    let files = fs::read_dir(folder(database)).into_iter().flatten();
    let aside = files.filter_map(|file| {
        let name = file.ok()?.file_name().into_string().ok()?;
        (name.ends_with(DAMAGED) || name.ends_with(".unread")).then_some(name)
    });
    let mut aside: Vec<String> = aside.take(MAX_NAMED).collect();
    aside.sort();
    faults.extend(aside.into_iter().map(|name| {
        let what = "set aside because some writes could not be replayed; the others are in the database".to_owned();
        fault(format!("journals/{name}"), what)
    }));
    faults
}

/// What stands in the files of a journal and is not in the database.
#[derive(Default)]
struct UnreadEntries {
    writes: Vec<(u64, Job)>,
    /// Whether something stands there that is no write.
    damaged: bool,
    /// Writes that are whole and mean nothing to this version.
    unknown: Vec<u64>,
}

impl UnreadEntries {
    /// Reads one of the files. What stands behind the last write is left from before, and in the database.
    fn read(&mut self, bytes: &[u8], name: &str, taken: u64) {
        let key = key(name);
        // So many writes do not fit into one file.
        let most = taken.saturating_add(2 * bytes.len() as u64 / HEAD as u64 + 2);
        let mut at = 0;
        while let Some(head) = bytes.get(at..).and_then(<[u8]>::first_chunk::<HEAD>) {
            let write = whole(bytes, at, head, key);
            // An earlier version had no key, and wrote no empty heads.
            let Some((number, said)) = write.or_else(|| whole(bytes, at, head, 0)) else {
                self.damaged |= *head != EMPTY;
                let wanted = |at: &usize| {
                    bytes.get(*at..).and_then(<[u8]>::first_chunk::<HEAD>).is_some_and(|head| {
                        (taken + 1..=most).contains(&number_of(head)) && whole(bytes, *at, head, key).is_some()
                    })
                };
                match (at + 1..bytes.len()).find(wanted) {
                    Some(next) => at = next,
                    None => return,
                }
                self.damaged = true;
                continue;
            };
            if number > taken {
                match postcard::from_bytes(said) {
                    Ok(job) => self.writes.push((number, job)),
                    Err(_) => self.unknown.push(number),
                }
            }
            at += HEAD + said.len();
        }
        self.damaged |= bytes.get(at..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0));
    }
}

fn number_of(head: &[u8; HEAD]) -> u64 {
    u64::from_le_bytes([head[4], head[5], head[6], head[7], head[8], head[9], head[10], head[11]])
}

/// The write at a place of a file: its number and what it says.
fn whole<'a>(bytes: &'a [u8], at: usize, head: &[u8; HEAD], key: u64) -> Option<(u64, &'a [u8])> {
    let length = usize::try_from(u32::from_le_bytes([head[0], head[1], head[2], head[3]])).ok()?;
    let said = bytes.get(at + HEAD..)?.get(..length)?;
    let number = number_of(head);
    let mut sum = [0; SUM];
    sum.copy_from_slice(&Hash::of(said).bytes()[..SUM]);
    mix(&mut sum, number ^ key);
    (number > 0 && sum == head[12..]).then_some((number, said))
}

/// What the sums of a journal are mixed with. What a client says may look like a write, but not like one of this journal.
fn key(name: &str) -> u64 {
    let mut key = [0; 8];
    key.copy_from_slice(&Hash::of(name).bytes()[..8]);
    u64::from_le_bytes(key)
}

fn mix(sum: &mut [u8], number: u64) {
    sum.iter_mut().zip(number.to_le_bytes()).for_each(|(byte, more)| *byte ^= more);
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
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            StoreError::Full { doing: "write to a session" }
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::ReadOnly { doing: "write to a session" }
        }
        _ => StoreError::Disk { doing: "write to a session", why: error.to_string() },
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
        journal.add(Frame::of(said.to_vec()).unwrap()).unwrap();
        drop(journal);
        let store = Sqlite::open(&database).unwrap();
        assert_eq!((store.sessions().unwrap(), journals(&database)), (Vec::new(), 0));
        let kept = fs::read_dir(folder(&database)).unwrap().map(|file| file.unwrap().path());
        let mut kept = kept.filter(|path| path.extension().is_some_and(|end| end == DAMAGED));
        assert!(kept.any(|path| fs::read(path).unwrap().windows(said.len()).any(|bytes| bytes == said)));
        let faults = store.check().unwrap();
        assert!(faults.iter().any(|fault| fault.what.contains("another version")), "{faults:?}");
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

    /// Sessions that each say one thing, three writes a session, in one file.
    fn many(folder: &Path, sessions: u64) -> (PathBuf, PathBuf) {
        let jobs = (0..sessions).flat_map(|at| {
            let id = format!("s{at}");
            let note = |inputs, words: &str| Job::Note(id.clone(), Counts { inputs, requests: 0 }, vec![turn(words)]);
            [begin(&id), note(0, "one"), note(1, "two")]
        });
        let database = left(folder, &jobs.collect::<Vec<_>>());
        let files = fs::read_dir(super::folder(&database)).unwrap().map(|file| file.unwrap().path());
        let file = files.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
        (database, file)
    }

    #[test]
    fn of_a_damaged_file_all_other_writes_are_taken_in_and_the_file_is_set_aside() {
        let place = tempfile::tempdir().unwrap();
        let (_, file) = many(place.path(), 60);
        let whole = fs::read(&file).unwrap();
        // A bit in the head of a write, in what it says, in the middle and in the last one.
        for at in [1, 5, 13, HEAD + 3, whole.len() / 2, whole.len() / 2 + 7, whole.len() - HEAD - 2] {
            let place = tempfile::tempdir().unwrap();
            let (database, file) = many(place.path(), 60);
            let mut bytes = fs::read(&file).unwrap();
            bytes[at] ^= 4;
            fs::write(&file, &bytes).unwrap();
            let store = Sqlite::open(&database).unwrap();
            let whole = store.sessions().unwrap().into_iter().filter(|row| row.counts.inputs == 2).count();
            assert_eq!(whole, 59, "byte {at}");
            let told = store.check().unwrap();
            assert!(told.iter().any(|fault| fault.place.starts_with("recorded losses")), "byte {at}: {told:?}");
            assert!(told.iter().any(|fault| fault.place.ends_with(DAMAGED)), "byte {at}: {told:?}");
            let aside = fs::read_dir(super::folder(&database)).unwrap().map(|file| file.unwrap().path());
            let kept = aside.filter(|path| path.extension().is_some_and(|end| end == DAMAGED));
            assert!(kept.into_iter().any(|path| fs::read(path).unwrap() == bytes), "byte {at}");
            // What was lost is told again, and nothing is lost twice.
            drop(store);
            assert_eq!(Sqlite::open(&database).unwrap().check().unwrap(), told);
        }
    }

    #[test]
    fn what_a_client_says_is_not_taken_for_a_write() {
        let place = tempfile::tempdir().unwrap();
        let forged = Frame::new(&begin("forged")).unwrap();
        let mut head = forged.head;
        head[4..12].copy_from_slice(&2_u64.to_le_bytes());
        mix(&mut head[12..], 2);
        let mut said: Vec<u8> = head.to_vec();
        said.extend(&forged.said);
        // A write of bytes that look like another one, behind a damaged head.
        let database = left(place.path(), &[begin("s")]);
        let mut journal = Journal::create(&database).unwrap();
        journal.add(Frame::of(said).unwrap()).unwrap();
        let file = path(&folder(&database), journal.name(), 0);
        drop(journal);
        let mut bytes = fs::read(&file).unwrap();
        bytes[2] ^= 1;
        fs::write(&file, &bytes).unwrap();
        let store = Sqlite::open(&database).unwrap();
        assert_eq!(store.sessions().unwrap().into_iter().map(|row| row.id).collect::<Vec<_>>(), ["s"]);
        assert_ne!(store.check().unwrap(), []);
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
                if at > 0 && at % 2 == 0 && kept.contains(&at) {
                    journal.turn().unwrap();
                }
                journal.last = at as u64;
                if kept.contains(&at) {
                    journal.add(Frame::new(job).unwrap()).unwrap();
                }
            }
            store.take(&name, taken, &all()[..usize::try_from(taken).unwrap()]).unwrap();
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

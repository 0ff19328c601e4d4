//! A store in a SQLite file.

mod check;
mod dump;
mod forwarded;
mod lineage;
mod migrate;
mod own;
mod read;
mod search;
mod sums;
mod sweep;
mod taking;
mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreword_core::hash::Hash;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior};
use serde_json::Value;

use crate::acknowledged::{self, Acknowledged};
use crate::error::{PATIENCE_S, cannot_open, doing};
use crate::files::{self, InUse, beside};
use crate::lease::Holder;
use crate::packed::unpack;
use crate::row::{
    Answered, Checkpoint, Counts, Dump, Fault, Fork, Forwarded, Found, Logged, NewForwarded, NewSession, Own, Request,
    SessionRow, Summary, Usage, Write,
};
use crate::shared::{Job, Written};
use crate::{Lease, Result, Store, StoreError, journal};
use sums::add_functions;

/// A store in one file, with lock files beside it.
#[derive(Debug)]
pub struct Sqlite {
    connection: Connection,
    path: PathBuf,
    read_only: bool,
    /// Whether writes wait for the disk.
    synced: bool,
    /// The file with the acknowledged writes, once something was written.
    acknowledged: Option<Acknowledged>,
}

/// How long to wait for other processes to checkpoint the WAL.
const OTHERS_DONE: Duration = Duration::from_secs(2);

/// The number of inputs to index in one transaction.
const INDEXED_AT_ONCE: usize = 1024;

/// Opens a database without locks and without reading its WAL.
fn immutable(path: &Path) -> Result<Connection> {
    read_only(path, "immutable=1")
}

fn read_only(path: &Path, how: &str) -> Result<Connection> {
    let resolved = files::resolved(path).map_err(|error| cannot_open(path, error))?;
    let escaped: String = resolved
        .to_string_lossy()
        .chars()
        .map(|c| if matches!(c, '?' | '#' | '%') { format!("%{:02x}", u32::from(c)) } else { c.to_string() })
        .collect();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Connection::open_with_flags(format!("file:{escaped}?{how}"), flags).map_err(|error| cannot_open(path, error))
}

/// Hardens a connection: a database from someone else must not run code.
fn defend(connection: &Connection) -> rusqlite::Result<()> {
    for (setting, on) in [
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
    ] {
        connection.set_db_config(setting, on)?;
    }
    connection.pragma_update(None, "cell_size_check", true)?;
    add_functions(connection)
}

impl Sqlite {
    /// Opens the store, or creates it. An older format is migrated. A newer one is rejected unchanged, and so is a database with
    /// objects that Foreword did not create. Only the owner can read its files.
    pub fn open(path: &Path) -> Result<Self> {
        let mut store = Self::connect(path)?;
        acknowledged::compare(path, || store.commits())?;
        journal::recover(&mut store)?;
        Ok(store)
    }

    /// Opens another connection to a store that is already open.
    pub(crate) fn connect(path: &Path) -> Result<Self> {
        files::prepare(path)?;
        migrate::refuse_strangers(path)?;
        let resolved = files::resolved(path).map_err(|error| cannot_open(path, error))?;
        let opened = Connection::open_with_flags(
            resolved,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW,
        );
        Self::set_up(opened.map_err(|error| cannot_open(path, error))?, path)
    }

    /// Opens an existing store.
    pub fn open_existing(path: &Path) -> Result<Self> {
        if !path.is_file() {
            return Err(cannot_open(path, "the file does not exist; no session was stored here yet"));
        }
        match Self::open(path) {
            Err(error)
                if matches!(
                    error,
                    StoreError::Open { .. }
                        | StoreError::Full { .. }
                        | StoreError::ReadOnly { .. }
                        | StoreError::Disk { .. }
                        | StoreError::Planted { .. }
                        | StoreError::Sql { .. }
                ) =>
            {
                Self::open_to_read(path).map_err(|_| error)
            }
            opened => opened,
        }
    }

    /// Opens a store that is read-only: because of its medium, because the disk is full, or because it has objects that Foreword
    /// did not create.
    fn open_to_read(path: &Path) -> Result<Self> {
        files::inspect(path)?;
        // With its log, where that can be read.
        Self::only_to_read(read_only(path, "mode=ro")?, path).or_else(|_| Self::only_to_read(immutable(path)?, path))
    }

    fn only_to_read(connection: Connection, path: &Path) -> Result<Self> {
        defend(&connection).map_err(|error| cannot_open(path, error))?;
        let found: u32 =
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(|error| cannot_open(path, error))?;
        if found != migrate::newest() {
            return Err(cannot_open(path, "it has an older format and is read-only"));
        }
        Ok(Self { connection, path: path.to_owned(), read_only: true, synced: true, acknowledged: None })
    }

    /// Whether the store is read-only.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// A store in memory.
    pub fn in_memory() -> Result<Self> {
        let path = Path::new(":memory:");
        Self::set_up(Connection::open_in_memory().map_err(|error| cannot_open(path, error))?, path)
    }

    fn set_up(mut connection: Connection, path: &Path) -> Result<Self> {
        connection.busy_timeout(Duration::from_secs(PATIENCE_S)).map_err(doing("open the store"))?;
        defend(&connection).map_err(doing("open the store"))?;
        migrate::refuse_others(&connection, path)?;
        let open = |connection: &mut Connection| -> rusqlite::Result<()> {
            connection.set_prepared_statement_cache_capacity(64);
            // Else some statements are planned anew for every value that they are given.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            // What it puts aside for a moment is nobody else's to read, and soon gone.
            connection.pragma_update(None, "temp_store", "MEMORY")?;
            connection.pragma_update(None, "foreign_keys", true)
        };
        // While another process makes the file, SQLite says so at once instead of waiting.
        let since = Instant::now();
        while let Err(error) = open(&mut connection).map_err(doing("open the store")) {
            if !matches!(error, StoreError::Busy { .. }) || since.elapsed().as_secs() >= PATIENCE_S {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        migrate::migrate(&mut connection, path)?;
        Ok(Self { connection, path: path.to_owned(), read_only: false, synced: true, acknowledged: None })
    }

    /// The files in use. If one is removed or replaced, other processes would not see new writes.
    pub(crate) fn in_use(&self) -> [InUse; 2] {
        [InUse::new(self.path.clone()), InUse::new(beside(&self.path, "-wal"))]
    }

    /// The number of commits.
    fn commits(&self) -> Result<u64> {
        self.connection.query_row("SELECT number FROM commits", [], |row| row.get(0)).map_err(doing("count writes"))
    }

    /// Writes as little as possible, to test whether writing works.
    pub(crate) fn probe(&mut self) -> Result<()> {
        self.written(false, |_| Ok(()))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Executes jobs in one transaction. A failed job has no effect and does not affect the others.
    pub(crate) fn together(&mut self, jobs: &[Job]) -> Vec<Result<Written>> {
        if let [job] = jobs {
            return vec![self.written(!job.is_light(), |connection| write::job(connection, job))];
        }
        let all = |connection: &Connection| jobs.iter().map(|job| write::job(connection, job).map(Ok)).collect();
        let each = |connection: &Connection| {
            let one = |job| match apart(connection, job) {
                // A full disk, say, takes the whole transaction back.
                Err(error) if connection.is_autocommit() => Err(error),
                done => Ok(done),
            };
            jobs.iter().map(one).collect()
        };
        let synced = !jobs.iter().all(Job::is_light);
        let done = match self.written(synced, all) {
            // To be able to take back one alone costs every other one a copy of the pages that it touches.
            Err(error) if !error.may_pass() => self.written(synced, each),
            done => done,
        };
        match done {
            Ok(done) => done,
            // Whoever keeps others from writing would keep each of them.
            Err(StoreError::Busy { doing, seconds }) => jobs.iter().map(|_| Err(StoreError::Busy { doing, seconds })).collect(),
            // The whole of it failed, each may have its own reason.
            Err(_) => jobs.iter().flat_map(|job| self.together(std::slice::from_ref(job))).collect(),
        }
    }

    /// Runs `work` in one transaction and, if required, waits for the disk.
    fn written<T>(&mut self, synced: bool, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        // By statements that are kept, since this is done for every message.
        let run = |sql: &str| self.connection.prepare_cached(sql)?.execute([]).map(drop);
        let failed = doing("write to a session");
        if !self.connection.is_autocommit() {
            // Whoever was here before panicked.
            run("ROLLBACK").map_err(&failed)?;
        }
        if synced != self.synced {
            let level = if synced { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level).map_err(&failed)?;
            self.synced = synced;
        }
        run("BEGIN IMMEDIATE").map_err(&failed)?;
        let count = || {
            let sql = "UPDATE commits SET number = number + 1 RETURNING number";
            let mut statement = self.connection.prepare_cached(sql).map_err(&failed)?;
            statement.query_row([], |row| row.get::<_, u64>(0)).map_err(&failed)
        };
        let done = work(&self.connection).and_then(|done| Ok((done, count()?)));
        let done = done.and_then(|done| run("COMMIT").map(|()| done).map_err(&failed));
        if done.is_err() && !self.connection.is_autocommit() {
            // The first error is the one to tell of.
            let _ = run("ROLLBACK");
        }
        let (done, commits) = done?;
        self.acknowledge(commits);
        Ok(done)
    }

    /// Stores the number of commits outside of the database, before the last one is acknowledged.
    fn acknowledge(&mut self, commits: u64) {
        if self.acknowledged.is_none() && self.connection.path().is_some_and(|path| !path.is_empty()) {
            self.acknowledged = Acknowledged::open(&self.path).ok();
        }
        if let Some(acknowledged) = &mut self.acknowledged {
            acknowledged.note(commits);
        }
    }

    #[cfg(test)]
    pub(crate) fn limit_pages(&self, most: Option<u32>) {
        let most = most.unwrap_or(1 << 30);
        let set = self.connection.query_row(&format!("PRAGMA max_page_count = {most}"), [], |_| Ok(()));
        set.unwrap_or_default();
    }

    /// The last journal entry that is in the database.
    pub(crate) fn taken(&self, journal: &str) -> Result<u64> {
        taking::taken(&self.connection, journal)
    }

    /// Writes journal entries to the database, all or none; `last` is the number of the last one. Returns the indexes of entries
    /// that can never be written, and why.
    pub(crate) fn take(&mut self, journal: &str, last: u64, jobs: &[Job]) -> Result<Vec<(usize, StoreError)>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        match self.written(false, |connection| taking::all(connection, journal, last, jobs)) {
            Err(error) if !error.may_pass() => self.written(false, |connection| taking::each(connection, journal, last, jobs)),
            done => done.map(|()| Vec::new()),
        }
    }

    /// Reserves numbers for the forwarded requests of a journal; returns the first.
    pub(crate) fn reserve(&mut self, journal: &str, count: u64) -> Result<u64> {
        self.written(false, |connection| taking::reserve(connection, journal, count))
    }

    /// Deletes the record of a journal whose files are gone.
    pub(crate) fn forget_journal(&mut self, journal: &str) -> Result<()> {
        self.written(false, |connection| taking::forget(connection, journal))
    }

    /// Sets the WAL size at which a write checkpoints it.
    pub(crate) fn set_longest_log(&self, pages: u32) -> Result<()> {
        self.connection.pragma_update(None, "wal_autocheckpoint", pages).map_err(doing("open the store"))
    }

    /// Checkpoints the WAL without blocking others.
    pub(crate) fn tidy(&self) -> Result<()> {
        let done = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        done.map_err(doing("checkpoint the database"))
    }

    /// Indexes inputs for search. Returns whether there may be more.
    fn index(&self, most: usize) -> Result<bool> {
        if self.read_only {
            return Ok(false);
        }
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate);
        let transaction = transaction.map_err(doing("index messages for search"))?;
        let indexed = search::index(&transaction, most)?;
        transaction.commit().map_err(doing("index messages for search"))?;
        Ok(indexed == most)
    }
}

/// Whether a power failure may lose the writes: they are parts of an unfinished reply.
fn is_light(writes: &[Write]) -> bool {
    writes.iter().all(|write| matches!(write, Write::Part(_) | Write::Checkpoint(_)))
}

impl Job {
    fn is_light(&self) -> bool {
        match self {
            Self::Commit(_, writes) | Self::Note(_, _, writes) => is_light(writes),
            Self::Sent(..) | Self::SentAbout(..) | Self::Answered(..) | Self::AnsweredAbout(..) | Self::Index(_) => true,
            Self::Begin(_) | Self::Branch(..) => false,
        }
    }
}

/// Executes one job of a transaction, completely or not at all.
fn apart(connection: &Connection, job: &Job) -> Result<Written> {
    let failed = doing("write to a session");
    let run = |sql: &str| connection.prepare_cached(sql)?.execute([]).map(drop);
    run("SAVEPOINT job").map_err(&failed)?;
    let done = write::job(connection, job);
    if connection.is_autocommit() {
        return done;
    }
    if done.is_err() {
        run("ROLLBACK TO job").map_err(&failed)?;
    }
    run("RELEASE job").map_err(&failed)?;
    done
}

/// The current branch of a session.
fn branch_of(connection: &Connection, session: &str) -> Result<i64> {
    let found = connection
        .prepare_cached("SELECT branch FROM sessions WHERE id = ?1")
        .and_then(|mut statement| statement.query_row([session], |row| row.get(0)).optional())
        .map_err(doing("find a session"))?;
    found.ok_or_else(|| StoreError::NoSession(session.to_owned()))
}

impl Store for Sqlite {
    fn begin(&mut self, new: &NewSession) -> Result<Lease> {
        self.written(true, |connection| write::begin(connection, new))?;
        self.lease(&new.id)
    }

    fn sessions(&self) -> Result<Vec<SessionRow>> {
        read::sessions(&self.connection)
    }

    fn session(&self, id: &str) -> Result<SessionRow> {
        read::session(&self.connection, id)
    }

    fn commit(&mut self, session: &str, writes: &[Write]) -> Result<Counts> {
        self.written(!is_light(writes), |connection| write::all(connection, session, writes))
    }

    fn log(&self, session: &str, from: u64) -> Result<Vec<Logged>> {
        read::log(&self.connection, session, from)
    }

    fn log_packed(&self, session: &str, from: u64) -> Result<Vec<Logged>> {
        read::log_packed(&self.connection, session, from)
    }

    fn unpack(&self, packed: Value) -> Result<Value> {
        unpack(packed, &mut |hash| read::text(&self.connection, hash))
    }

    fn parts(&self, session: &str) -> Result<Vec<String>> {
        read::parts(&self.connection, session)
    }

    fn requests(&self, session: &str) -> Result<Vec<Request>> {
        read::requests(&self.connection, session)
    }

    fn request(&self, session: &str, number: u64) -> Result<Request> {
        read::request(&self.connection, session, number)
    }

    fn messages(&self, session: &str, request: u64) -> Result<Vec<Value>> {
        read::messages(&self.connection, session, request)
    }

    fn message_hashes(&self, session: &str, request: u64) -> Result<Vec<Hash>> {
        read::message_hashes(&self.connection, session, request)
    }

    fn context(&self, session: &str, request: u64) -> Result<Vec<Value>> {
        read::context(&self.connection, session, request)
    }

    fn ledger(&self, session: &str) -> Result<Vec<(u64, Usage)>> {
        read::ledger(&self.connection, session)
    }

    fn own(&self, session: Option<&str>, kind: &str) -> Result<BTreeMap<String, Own>> {
        own::own(&self.connection, session, kind)
    }

    fn summaries(&self, session: &str, most: usize) -> Result<Vec<Summary>> {
        read::summaries(&self.connection, session, most)
    }

    fn text(&self, hash: Hash) -> Result<String> {
        read::text(&self.connection, hash)
    }

    fn agent(&self, hash: Hash) -> Result<Value> {
        read::document(&self.connection, &read::text(&self.connection, hash)?)
    }

    fn checkpoint(&self, session: &str) -> Result<Option<Checkpoint>> {
        read::checkpoint(&self.connection, session)
    }

    fn branch(&mut self, session: &str, at: Counts, fork: Option<&Fork>, writes: &[Write]) -> Result<()> {
        self.written(true, |connection| write::branch(connection, session, at, fork, writes))
    }

    fn delete(&mut self, session: &str) -> Result<()> {
        // What a person deletes is overwritten, not only unlinked.
        self.connection.pragma_update(None, "secure_delete", true).map_err(doing("delete a session"))?;
        let deleted = self.written(true, |connection| sweep::delete(connection, session));
        self.connection.pragma_update(None, "secure_delete", false).map_err(doing("delete a session"))?;
        deleted?;
        // So that the pages do not live on in the log of the database.
        let since = Instant::now();
        while self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0))
            .map_err(doing("delete a session"))?
        {
            // While another connection does the same, SQLite says so at once instead of waiting.
            if since.elapsed() > OTHERS_DONE {
                return Err(StoreError::StillThere(session.to_owned()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn search(&self, words: &str, limit: usize) -> Result<Vec<Found>> {
        loop {
            match self.index(INDEXED_AT_ONCE) {
                Ok(true) => {}
                // What cannot be made findable now is the next time; the rest is.
                Ok(false) | Err(StoreError::Busy { .. } | StoreError::Full { .. } | StoreError::ReadOnly { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        search::search(&self.connection, words, limit)
    }

    fn check(&self) -> Result<Vec<Fault>> {
        let mut faults = check::check(&self.connection)?;
        if self.connection.path().is_some_and(|path| !path.is_empty()) {
            faults.extend(journal::faults(&self.path));
        }
        Ok(faults)
    }

    fn backup(&self, file: &Path) -> Result<()> {
        let failed = |why: String| StoreError::Backup { path: file.to_owned(), why };
        if file.exists() {
            return Err(failed("the file exists; choose another name".to_owned()));
        }
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".{}.part", crate::new_session_id()?));
        let part = PathBuf::from(name);
        let target = part.to_str().ok_or_else(|| failed("the name is not UTF-8".to_owned()))?;
        let copied = self.connection.execute("VACUUM INTO ?1", [target]).map_err(|error| failed(error.to_string()));
        let reach = |_| fs::File::open(&part).and_then(|file| file.sync_all()).map_err(|error| failed(error.to_string()));
        let kept = copied.and_then(reach).and_then(|()| fs::rename(&part, file).map_err(|error| failed(error.to_string())));
        if kept.is_err() {
            let _ = fs::remove_file(&part);
        }
        kept
    }

    fn dump(&self, session: &str) -> Result<Dump> {
        dump::dump(&self.connection, session)
    }

    fn load(&mut self, dump: &Dump) -> Result<()> {
        self.written(true, |connection| dump::load(connection, dump))
    }

    fn sent(&mut self, new: NewForwarded) -> Result<u64> {
        self.written(false, |connection| forwarded::sent(connection, None, &new, new.about.as_deref()))
    }

    fn answered(&mut self, number: u64, answered: &Answered) -> Result<()> {
        self.written(false, |connection| forwarded::answered(connection, number, answered, answered.about.as_deref()))
    }

    fn forwarded(&self) -> Result<Vec<Forwarded>> {
        forwarded::all(&self.connection)
    }

    fn forwarded_before(&self, before: Option<u64>, most: usize) -> Result<Vec<Forwarded>> {
        forwarded::before(&self.connection, before, most)
    }

    fn forwarded_of(&self, session: &str) -> Result<Vec<Forwarded>> {
        forwarded::of(&self.connection, session)
    }

    fn forwarded_body(&self, number: u64) -> Result<String> {
        forwarded::body(&self.connection, number)
    }

    fn lease(&self, session: &str) -> Result<Lease> {
        self.lease_by(session, None)
    }
}

impl Sqlite {
    /// Takes the lease of a session, for a holder of many leases.
    pub(crate) fn lease_by(&self, session: &str, holder: Option<&Arc<Holder>>) -> Result<Lease> {
        branch_of(&self.connection, session)?;
        if self.read_only || self.connection.path().is_none_or(str::is_empty) {
            return Ok(Lease::default());
        }
        let lease = Lease::take(&self.path, session, holder)?;
        // A program that had it and was killed may have left something on its way.
        if journal::is_left(&self.path) {
            Self::open(&self.path)?;
        }
        Ok(lease)
    }
}

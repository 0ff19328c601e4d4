//! Pending writes: entries in a [`Journal`] that are not in the database yet.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::PATIENCE_S;
use crate::journal::{Frame, Journal};
use crate::shared::{Job, lock};
use crate::{Lease, Result, Sqlite, StoreError};

/// The largest journal file, in bytes, if the database does not accept writes for a long time.
const LONGEST: u64 = 64 << 20;

/// The number of entries per transaction: about one or two milliseconds of CPU time.
const A_FEW: usize = 32;

/// The number of forwarded-request numbers to reserve at once.
const NUMBERS: u64 = 10_000;

/// The pending writes.
pub(crate) struct PendingWrites {
    /// Held only for the duration of a file write, because every active client waits for it.
    state: Mutex<State>,
    /// Held while entries are written to the database.
    taking: Mutex<()>,
    database: Box<Path>,
}

#[derive(Default)]
struct State {
    /// Created on the first write.
    journal: Option<Journal>,
    /// The entries in the current file, in groups.
    new: Vec<Vec<Job>>,
    /// The entries in the other file that are not in the database yet.
    old: VecDeque<Arc<Vec<Job>>>,
    /// The number of all entries, and of those per session.
    count: usize,
    sessions: HashMap<String, usize>,
    /// Reserved numbers.
    numbers: Range<u64>,
    /// Entries that the database rejects, until their writer is notified: the session and the error.
    lost: Vec<(String, StoreError)>,
    /// Leases to hold until their sessions have no pending writes.
    leases: Vec<(String, Lease)>,
}

impl State {
    /// Records an entry of the journal. Returns whether it is the first one.
    fn push(&mut self, job: Job) -> bool {
        self.count += 1;
        if let Some(session) = job.session() {
            match self.sessions.get_mut(session) {
                Some(count) => *count += 1,
                None => drop(self.sessions.insert(session.to_owned(), 1)),
            }
        }
        match self.new.last_mut() {
            Some(few) if few.len() < A_FEW => few.push(job),
            _ => self.new.push(vec![job]),
        }
        matches!(&self.new[..], [few] if few.len() == 1)
    }

    /// Removes the first old entries, which are in the database, and releases leases that are no longer needed.
    fn pop(&mut self) {
        let few = self.old.pop_front().unwrap_or_default();
        self.count -= few.len();
        for session in few.iter().filter_map(Job::session) {
            match self.sessions.get_mut(session) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.sessions.remove(session)),
            }
        }
        self.leases.retain(|(session, _)| self.sessions.contains_key(session));
    }

    fn journal(&mut self, database: &Path) -> Result<&mut Journal> {
        let journal = match self.journal.take() {
            Some(journal) => journal,
            None => Journal::create(database)?,
        };
        let journal = self.journal.insert(journal);
        if journal.len() > LONGEST {
            return Err(StoreError::Busy { doing: "write to a session", seconds: PATIENCE_S });
        }
        Ok(journal)
    }
}

impl PendingWrites {
    /// The pending writes of a database. If the journal cannot be created now, it is created later.
    pub(crate) fn new(database: &Path) -> Self {
        let state = State { journal: Journal::create(database).ok(), ..State::default() };
        Self { state: Mutex::new(state), taking: Mutex::default(), database: database.into() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.state).count == 0
    }

    /// Prevents other threads from writing entries to the database.
    #[cfg(test)]
    pub(crate) fn block(&self) -> MutexGuard<'_, ()> {
        lock(&self.taking)
    }

    /// Whether a session has pending writes.
    pub(crate) fn has(&self, session: &str) -> bool {
        lock(&self.state).sessions.contains_key(session)
    }

    /// Why a write of a session was lost; returned once.
    pub(crate) fn lost(&self, session: &str) -> Option<StoreError> {
        let mut state = lock(&self.state);
        let lost = state.lost.iter().position(|(whose, _)| whose == session)?;
        Some(state.lost.swap_remove(lost).1)
    }

    /// Holds the lease of a session while it has pending writes.
    pub(crate) fn hold(&self, session: &str, lease: Lease) {
        let mut state = lock(&self.state);
        if state.sessions.contains_key(session) {
            state.leases.push((session.to_owned(), lease));
        }
    }

    /// Adds an entry. Returns whether it is the first one, or returns the entry if it cannot be written.
    pub(crate) fn post(&self, job: Job) -> std::result::Result<bool, Box<(Job, StoreError)>> {
        let frame = match Frame::new(&job) {
            Ok(frame) => frame,
            Err(error) => return Err(Box::new((job, error))),
        };
        let mut state = lock(&self.state);
        if let Err(error) = state.journal(&self.database).and_then(|journal| journal.add(frame)) {
            return Err(Box::new((job, error)));
        }
        Ok(state.push(job))
    }

    /// Writes as little as possible to the journal, to test whether writing works. Creates new files if the old ones are gone and
    /// empty.
    pub(crate) fn probe(&self) -> Result<()> {
        let mut state = lock(&self.state);
        if state.count == 0 && state.journal.as_ref().is_some_and(|journal| journal.check().is_err()) {
            (state.journal, state.numbers) = (None, 0..0);
        }
        state.journal(&self.database)?.probe()
    }

    /// Checks that the journal's files are still in place.
    pub(crate) fn check(&self) -> Result<()> {
        lock(&self.state).journal.as_ref().map_or(Ok(()), Journal::check)
    }

    /// Returns a number for a forwarded request.
    pub(crate) fn number(&self, writer: &Mutex<Sqlite>) -> Result<u64> {
        let mut state = lock(&self.state);
        if let Some(number) = state.numbers.next() {
            return Ok(number);
        }
        let name = state.journal(&self.database)?.name().to_owned();
        // Nobody else is to wait for the database meanwhile.
        drop(state);
        let first = lock(writer).reserve(&name, NUMBERS)?;
        lock(&self.state).numbers = first + 1..first + NUMBERS;
        Ok(first)
    }

    /// Writes all entries to the database. Calls `grown` if there were any.
    pub(crate) fn take_in(&self, writer: &Mutex<Sqlite>, grown: &dyn Fn()) -> Result<()> {
        self.take_in_alone(&lock(&self.taking), writer, grown)
    }

    /// Writes some entries to the database. Returns the remaining entries as a multiple of those.
    pub(crate) fn take_a_few(&self, writer: &Mutex<Sqlite>, grown: &dyn Fn()) -> Result<usize> {
        self.take_a_few_alone(&lock(&self.taking), writer, grown)
    }

    fn take_in_alone(&self, alone: &MutexGuard<'_, ()>, writer: &Mutex<Sqlite>, grown: &dyn Fn()) -> Result<()> {
        // One file, or one after the other: what comes meanwhile is taken in the next time, so that this ends.
        let files = if lock(&self.state).old.is_empty() { 1 } else { 2 };
        for _ in 0..files {
            while self.take_a_few_alone(alone, writer, grown)? > 0 {}
        }
        Ok(())
    }

    /// The same, for the holder of the lock. New entries go to the current file.
    pub(crate) fn take_a_few_alone(&self, _: &MutexGuard<'_, ()>, writer: &Mutex<Sqlite>, grown: &dyn Fn()) -> Result<usize> {
        let mut state = lock(&self.state);
        let State { journal: Some(journal), new, old, count, .. } = &mut *state else { return Ok(0) };
        if old.is_empty() && !new.is_empty() {
            journal.turn()?;
            *old = std::mem::take(new).into_iter().map(Arc::new).collect();
        }
        let Some(few) = old.front().map(Arc::clone) else { return Ok(0) };
        let (name, last) = (journal.name().to_owned(), journal.last() + few.len() as u64 - *count as u64);
        drop(state);
        let done = lock(writer).take(&name, last, &few);
        let mut state = lock(&self.state);
        let never = done?.into_iter().filter_map(|(at, why)| Some((few[at].session()?.to_owned(), why)));
        state.lost.extend(never);
        state.pop();
        let left = state.old.len();
        // To let go of them takes a moment, too.
        drop(state);
        drop(few);
        grown();
        Ok(left)
    }

    /// Removes all entries written until now from the journal's files.
    pub(crate) fn clear(&self, writer: &Mutex<Sqlite>, grown: &dyn Fn()) -> Result<()> {
        let alone = lock(&self.taking);
        self.take_in_alone(&alone, writer, grown)?;
        // All that stood in the other file is in the database.
        lock(&self.state).journal.as_mut().map_or(Ok(()), Journal::clear)
    }

    /// Deletes the journal if it is empty and no more writes follow.
    pub(crate) fn end(&self, writer: &Mutex<Sqlite>) {
        let journal = lock(&self.state).journal.take();
        if let Some(journal) = journal {
            let name = journal.name().to_owned();
            journal.remove();
            let _ = lock(writer).forget_journal(&name); // else a row stays that means nothing
        }
    }
}

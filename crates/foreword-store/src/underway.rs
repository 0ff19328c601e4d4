//! What is on its way into the database: it stands in a [`Journal`] and waits to be taken in together with others.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::PATIENCE_S;
use crate::journal::{Frame, Journal};
use crate::shared::{Job, lock};
use crate::{Lease, Result, Sqlite, StoreError};

/// Bytes in the journal with which it takes no more: where the database has not taken anything for long.
const LONGEST: u64 = 64 << 20;

/// Writes that are taken in at once: about as much as a processor does in a millisecond or two.
const A_FEW: usize = 32;

/// Numbers for requests that are passed on that are set aside at once.
const NUMBERS: u64 = 10_000;

/// All of it.
pub(crate) struct Underway {
    /// Nobody has it for longer than a write to a file takes: every client that speaks just now waits for it.
    state: Mutex<State>,
    /// Held by whoever takes it in.
    taking: Mutex<()>,
    database: Box<Path>,
}

#[derive(Default)]
struct State {
    /// Made when something is first written to it.
    journal: Option<Journal>,
    /// What stands in the file that is written to, a few each.
    new: Vec<Vec<Job>>,
    /// What stands in the other one and is not in the database yet.
    old: VecDeque<Arc<Vec<Job>>>,
    /// How many both are, and how many of which session.
    count: usize,
    sessions: HashMap<String, usize>,
    /// Numbers that are set aside.
    numbers: Range<u64>,
    /// What the database would never take, until whoever wrote it hears of it: the session, and why.
    lost: Vec<(String, StoreError)>,
    /// Leases that must be held until nothing of their sessions is under way.
    leases: Vec<(String, Lease)>,
}

impl State {
    /// Keeps in mind what was written to the journal; whether it is the first.
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

    /// The first of the old ones are in the database: leases that were held for them alone go.
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

impl Underway {
    /// With a journal beside a database; where it cannot be made now, it may be later.
    pub(crate) fn new(database: &Path) -> Self {
        let state = State { journal: Journal::create(database).ok(), ..State::default() };
        Self { state: Mutex::new(state), taking: Mutex::default(), database: database.into() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.state).count == 0
    }

    /// Keeps others from taking it in.
    #[cfg(test)]
    pub(crate) fn block(&self) -> MutexGuard<'_, ()> {
        lock(&self.taking)
    }

    /// Whether something of a session is on its way.
    pub(crate) fn has(&self, session: &str) -> bool {
        lock(&self.state).sessions.contains_key(session)
    }

    /// Why something of a session is lost; that is told once.
    pub(crate) fn lost(&self, session: &str) -> Option<StoreError> {
        let mut state = lock(&self.state);
        let lost = state.lost.iter().position(|(whose, _)| whose == session)?;
        Some(state.lost.swap_remove(lost).1)
    }

    /// Holds the lease of a session until nothing of it is under way.
    pub(crate) fn hold(&self, session: &str, lease: Lease) {
        let mut state = lock(&self.state);
        if state.sessions.contains_key(session) {
            state.leases.push((session.to_owned(), lease));
        }
    }

    /// Writes to the journal. Whether it is the first one there; what cannot be written is given back.
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

    /// Writes as little as possible to the journal, to see whether that works. Where its files are gone and all of it is in the database,
    /// there are new ones.
    pub(crate) fn probe(&self) -> Result<()> {
        let mut state = lock(&self.state);
        if state.count == 0 && state.journal.as_ref().is_some_and(|journal| journal.check().is_err()) {
            (state.journal, state.numbers) = (None, 0..0);
        }
        state.journal(&self.database)?.probe()
    }

    /// Whether the files of the journal are where whoever opens the store next looks for them.
    pub(crate) fn check(&self) -> Result<()> {
        lock(&self.state).journal.as_ref().map_or(Ok(()), Journal::check)
    }

    /// A number for a request that is passed on.
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

    /// Takes what stands in the journal into the database; says so when something was.
    pub(crate) fn take_in(&self, writer: &Mutex<Sqlite>, grown: &dyn Fn()) -> Result<()> {
        self.take_in_alone(&lock(&self.taking), writer, grown)
    }

    /// The same for a few: how many times as much is left of what stood there with them.
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

    /// For whoever is the only one about it. What comes meanwhile stands in the file that is written to.
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

    /// Leaves nothing in the files of the journal of what was written until now.
    pub(crate) fn clear(&self, writer: &Mutex<Sqlite>, grown: &dyn Fn()) -> Result<()> {
        let alone = lock(&self.taking);
        self.take_in_alone(&alone, writer, grown)?;
        // All that stood in the other file is in the database.
        lock(&self.state).journal.as_mut().map_or(Ok(()), Journal::clear)
    }

    /// Takes the journal away, where all of it was taken in and nothing comes any more.
    pub(crate) fn end(&self, writer: &Mutex<Sqlite>) {
        let journal = lock(&self.state).journal.take();
        if let Some(journal) = journal {
            let name = journal.name().to_owned();
            journal.remove();
            let _ = lock(writer).forget_journal(&name); // else a row stays that means nothing
        }
    }
}

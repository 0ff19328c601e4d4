//! What is on its way into the database: it stands in a [`Journal`] and waits to be taken in together with others.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::PATIENCE_S;
use crate::journal::{Frame, Journal};
use crate::shared::{Job, MOST_TOGETHER, lock};
use crate::{Lease, Result, Sqlite, StoreError};

/// Bytes in the journal with which it takes no more: where the database has not taken anything for long.
const LONGEST: u64 = 64 << 20;

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
    /// What stands in the file that is written to.
    new: Vec<Job>,
    /// What stands in the other one, and how many of them are in the database.
    old: Arc<Vec<Job>>,
    taken: usize,
    /// Numbers that are set aside.
    numbers: Range<u64>,
    /// What the database would never take, until whoever wrote it hears of it: the session, and why.
    lost: Vec<(String, StoreError)>,
    /// Leases that must be held until nothing of their sessions is under way.
    leases: Vec<(String, Lease)>,
}

impl State {
    fn is_empty(&self) -> bool {
        self.new.is_empty() && self.old.is_empty()
    }

    /// Whether something of a session is on its way.
    fn has(&self, session: &str) -> bool {
        self.new.iter().chain(&self.old[self.taken..]).any(|job| job.session() == Some(session))
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
        lock(&self.state).is_empty()
    }

    /// Keeps others from taking it in.
    #[cfg(test)]
    pub(crate) fn block(&self) -> MutexGuard<'_, ()> {
        lock(&self.taking)
    }

    /// Whether something of a session is on its way.
    pub(crate) fn has(&self, session: &str) -> bool {
        lock(&self.state).has(session)
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
        if state.has(session) {
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
        state.new.push(job);
        Ok(state.new.len() == 1)
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
        let _alone = lock(&self.taking);
        self.take_in_alone(writer, grown).map(drop)
    }

    /// The same for whoever is the only one about it. What comes meanwhile stands in the file that is written to.
    fn take_in_alone(&self, writer: &Mutex<Sqlite>, grown: &dyn Fn()) -> Result<MutexGuard<'_, State>> {
        let mut state = lock(&self.state);
        // What comes meanwhile is taken in the next time, so that this ends.
        let last = state.journal.as_ref().map_or(0, Journal::last);
        while !state.is_empty() {
            let State { journal: Some(journal), new, old, taken, .. } = &mut *state else { break };
            // The last of the old ones came right before the first of the new ones.
            let first = journal.last() + 1 - (new.len() + old.len() - *taken) as u64;
            if first > last && old.is_empty() {
                break;
            }
            if old.is_empty() {
                journal.turn()?;
                (*old, *taken) = (Arc::new(std::mem::take(new)), 0);
            }
            let name = journal.name().to_owned();
            let jobs = Arc::clone(old);
            let some = &jobs[*taken..jobs.len().min(*taken + MOST_TOGETHER)];
            drop(state);
            let done = lock(writer).take(&name, first, some);
            state = lock(&self.state);
            let never = done?.into_iter().filter_map(|(at, why)| Some((some[at].session()?.to_owned(), why)));
            state.lost.extend(never);
            state.taken += some.len();
            if state.taken == jobs.len() {
                (state.old, state.taken) = (Arc::default(), 0);
            }
            // To let go of so many takes a moment, too.
            drop(state);
            drop(jobs);
            grown();
            state = lock(&self.state);
        }
        let leases = std::mem::take(&mut state.leases);
        state.leases = leases.into_iter().filter(|(session, _)| state.has(session)).collect();
        Ok(state)
    }

    /// Leaves nothing in the files of the journal of what was written until now.
    pub(crate) fn clear(&self, writer: &Mutex<Sqlite>, grown: &dyn Fn()) -> Result<()> {
        let _alone = lock(&self.taking);
        self.take_in_alone(writer, grown)?.journal.as_mut().map_or(Ok(()), Journal::clear)
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

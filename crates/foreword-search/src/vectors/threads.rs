//! One piece of work after the other, taken by whichever thread is free.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A few cores take all that memory gives; more would only wait.
const MOST: usize = 8;

/// How many threads are worth having on this machine.
pub(super) fn available() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(MOST)
}

/// Goes through `work` with this thread and `threads - 1` others, as far as the system lets them start. Each has its own state,
/// made by `start`; all of them are returned, in no particular order.
pub(super) fn share<I, S>(work: I, threads: usize, start: impl Fn() -> S + Sync, step: impl Fn(&mut S, I::Item) + Sync) -> Vec<S>
where
    I: Iterator + Send,
    S: Send,
{
    let work = Mutex::new(work);
    let next = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        let mut state = start();
        while let Some(item) = next() {
            step(&mut state, item);
        }
        state
    };
    thread::scope(|scope| {
        let helper = |_| thread::Builder::new().spawn_scoped(scope, run).ok();
        let helpers: Vec<_> = (1..threads).filter_map(helper).collect();
        let own = run();
        let joined = helpers.into_iter().map(|helper| helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.chain([own]).collect()
    })
}

//! Threads that work on one thing together: how they start, and where they meet.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// How often a waiting thread looks before it sleeps: some microseconds. On an idle machine more make no difference; on a busy one the
/// other thread may be waiting for this very core, and who has slept is let in first.
const LOOKS: usize = 200;

/// What `work` gives on each of `threads` threads, this one among them, in the order of the threads.
pub(crate) fn on_threads<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let mut results = vec![work(0)];
        for other in others {
            match other.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

/// Where a number of threads wait for each other, again and again.
pub(crate) struct Meeting {
    members: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    broken: AtomicBool,
    /// How many sleep.
    asleep: Mutex<usize>,
    wake: Condvar,
}

impl Meeting {
    /// A meeting of `members` threads.
    pub(crate) fn new(members: usize) -> Self {
        Self {
            members,
            arrived: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            asleep: Mutex::new(0),
            wake: Condvar::new(),
        }
    }

    /// Waits until all members are here.
    pub(crate) fn meet(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.members {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            self.wake_all();
            return;
        }
        let wait = || self.round.load(Ordering::Acquire) == round && !self.broken.load(Ordering::Relaxed);
        for _ in 0..LOOKS {
            if !wait() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        *asleep += 1;
        while wait() {
            asleep = self.wake.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        *asleep -= 1;
    }

    fn wake_all(&self) {
        // Who is about to sleep holds the lock from its last look until it sleeps.
        let asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        if *asleep > 0 {
            self.wake.notify_all();
        }
    }

    /// Tells the others not to wait for this thread any more if it panics before it is done.
    pub(crate) fn guard(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a Meeting);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.broken.store(true, Ordering::Relaxed);
                    self.0.wake_all();
                }
            }
        }
        Guard(self)
    }
}

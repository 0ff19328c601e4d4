//! Threads that work on one text together: where they meet, and what they hand each other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use super::aligned::Rows;
use super::matmul::Into;
use super::weights::{HIDDEN, SHARDS};

/// How often a waiting thread looks before it lets others run: some microseconds. On an idle machine more make no difference; on
/// a busy one the other thread may be waiting for this very core.
const LOOKS: usize = 200;

/// What `work` gives on each of `threads` threads, this one among them, in the order of the threads.
pub(super) fn on_threads<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
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

/// What the threads share: the sums that each shard gives, in two sets that take turns, so that one meeting a sum is enough.
pub(super) struct Team {
    sums: [Vec<RwLock<Rows>>; 2],
    members: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    broken: AtomicBool,
}

impl Team {
    /// A team of `members` threads for a text of `tokens`.
    pub(super) fn new(members: usize, tokens: usize) -> Self {
        let sums = || (0..SHARDS).map(|_| RwLock::new(Rows::zeros(tokens, HIDDEN))).collect();
        let sums = [sums(), sums()];
        Self { sums, members, arrived: AtomicUsize::new(0), round: AtomicUsize::new(0), broken: AtomicBool::new(false) }
    }

    /// The sum of what all shards give, where this thread makes the part of those in `mine`; `set` takes turns between 0 and 1.
    pub(super) fn sum(
        &self,
        mine: &[usize],
        set: usize,
        total: &mut Rows,
        tokens: usize,
        mut make: impl FnMut(usize, &mut Rows, Into<'_>),
    ) {
        let sums = &self.sums[set];
        for shard in mine {
            let mut sum = sums[*shard].write().unwrap_or_else(PoisonError::into_inner);
            make(*shard, &mut sum, Into::Replace);
        }
        self.meet();
        for (shard, sum) in sums.iter().enumerate() {
            let sum = sum.read().unwrap_or_else(PoisonError::into_inner);
            for row in 0..tokens {
                let place = total.row_mut(row);
                if shard == 0 {
                    place.copy_from_slice(sum.row(row));
                } else {
                    place.iter_mut().zip(sum.row(row)).for_each(|(place, value)| *place += value);
                }
            }
        }
    }

    /// Waits until all members are here.
    fn meet(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.members {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut looks = 0;
        while self.round.load(Ordering::Acquire) == round && !self.broken.load(Ordering::Relaxed) {
            if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Tells the others not to wait for this thread any more if it panics before it is done.
    pub(super) fn guard(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a Team);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.broken.store(true, Ordering::Relaxed);
                }
            }
        }
        Guard(self)
    }
}

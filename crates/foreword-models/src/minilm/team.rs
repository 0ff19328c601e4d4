//! Threads that work on one text together: what they hand each other.

use std::sync::{PoisonError, RwLock};

use super::weights::{HIDDEN, SHARDS};
use crate::compute::aligned::Rows;
use crate::compute::matmul::Into;
use crate::compute::team::Meeting;

/// What the threads share: the sums that each shard gives, in two sets that take turns, so that one meeting a sum is enough.
pub(super) struct Team {
    sums: [Vec<RwLock<Rows>>; 2],
    meeting: Meeting,
}

impl Team {
    /// A team of `members` threads for a text of `tokens`.
    pub(super) fn new(members: usize, tokens: usize) -> Self {
        let sums = || (0..SHARDS).map(|_| RwLock::new(Rows::zeros(tokens, HIDDEN))).collect();
        Self { sums: [sums(), sums()], meeting: Meeting::new(members) }
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
        self.meeting.meet();
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

    /// Tells the others not to wait for this thread any more if it panics before it is done.
    pub(super) fn guard(&self) -> impl Drop + '_ {
        self.meeting.guard()
    }
}

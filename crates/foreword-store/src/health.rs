//! Whether a store accepts writes.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::StoreError;
use crate::shared::lock;

/// The delay before a store is tried again after a failure.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Whether a store accepts writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Well,
    /// It does not. New data is only in memory.
    Failing {
        /// Whether the disk is full.
        full: bool,
        /// The cause, without paths.
        why: String,
    },
}

impl Health {
    /// The health that an error implies, if any.
    pub fn of(error: &StoreError) -> Option<Self> {
        let why = match error {
            StoreError::Full { .. } => "the disk is full",
            StoreError::ReadOnly { .. } => "the store is read-only (file, folder or disk)",
            StoreError::Gone { .. } => "a file of the store was removed or replaced while in use",
            StoreError::Busy { .. } => "the database has not accepted writes for a long time",
            StoreError::Disk { why, .. } => why,
            _ => return None,
        };
        Some(Self::Failing { full: matches!(error, StoreError::Full { .. }), why: why.to_owned() })
    }

    /// The cause; empty if the store is well.
    pub fn why(&self) -> &str {
        match self {
            Self::Well => "",
            Self::Failing { why, .. } => why,
        }
    }

    /// Whether the store accepts writes.
    pub fn is_well(&self) -> bool {
        *self == Self::Well
    }
}

/// The two ways to write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Database,
    Journal,
}

/// The results of the last writes.
#[derive(Debug, Default)]
pub(crate) struct Outcomes(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failing: [Option<Health>; 2],
    tried: Option<Instant>,
}

impl Outcomes {
    /// Records the result of a write.
    pub(crate) fn note<T>(&self, way: Way, outcome: &Result<T, StoreError>) {
        let failing = match outcome {
            Ok(_) => None,
            Err(error) => match Health::of(error) {
                None => return,
                failing => failing,
            },
        };
        let mut state = lock(&self.0);
        let slot = &mut state.failing[way as usize];
        match (&*slot, &failing) {
            (None, Some(health)) => tracing::error!(?way, why = health.why(), "the store cannot be written"),
            (Some(_), None) => tracing::info!(?way, "the store can be written again"),
            _ => {}
        }
        *slot = failing;
    }

    /// The current health.
    pub(crate) fn health(&self) -> Health {
        lock(&self.0).failing.iter().flatten().next().cloned().unwrap_or(Health::Well)
    }

    /// Whether it is time to try again.
    pub(crate) fn is_due(&self) -> bool {
        let mut state = lock(&self.0);
        let rested = state.tried.is_none_or(|tried| tried.elapsed() >= TRY_AGAIN);
        let due = rested && state.failing.iter().any(Option::is_some);
        if due {
            state.tried = Some(Instant::now());
        }
        due
    }
}

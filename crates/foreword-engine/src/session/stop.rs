//! Stopping a turn.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// Stops the turn that runs. All clones stop the same session.
#[derive(Clone, Debug, Default)]
pub struct Stopper(Arc<Mutex<CancellationToken>>);

impl Stopper {
    /// Stops the turn, and every turn until [`Stopper::reset`]. Returns whether it was stopped before.
    pub fn stop(&self) -> bool {
        let token = self.token();
        let was_stopped = token.is_cancelled();
        token.cancel();
        was_stopped
    }

    /// Whether the turn is stopped.
    pub fn is_stopped(&self) -> bool {
        self.token().is_cancelled()
    }

    /// Lets the next turn run.
    pub fn reset(&self) {
        let mut token = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if token.is_cancelled() {
            *token = CancellationToken::new();
        }
    }

    /// The token that is cancelled when the current turn is stopped.
    pub fn token(&self) -> CancellationToken {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

//! Sessions of clients that bring nothing but a provider's key: each belongs to the key that began it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use foreword_engine::session::Hash;

use crate::caller::Caller;
use crate::problem::Problem;

/// The largest number of remembered sessions. A forgotten one is closed to clients without a key of ours.
const MAX_OWNED: usize = 20_000;

/// The owners of sessions, in memory only, so that nothing derived from a provider's key is stored.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<HashMap<String, Hash>>);

impl Owners {
    /// Remembers whose session this is.
    pub(crate) fn add(&self, caller: &Caller, session: &str) {
        let Some(owner) = caller.owner() else { return };
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if owners.len() >= MAX_OWNED {
            owners.clear();
        }
        owners.insert(session.to_owned(), owner);
    }

    /// Whether a caller may name a session.
    pub(crate) fn may_name(&self, caller: &Caller, session: &str) -> Result<(), Problem> {
        let owner = caller.owner();
        let owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if owner.is_some() && owners.get(session) == owner.as_ref() {
            return Ok(());
        }
        caller.needs_our_key("a session that was begun with another provider key, or before the server's last start,")
    }
}

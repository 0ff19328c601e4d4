//! Verifies the store, the pairing of tool calls, and that each request still renders to its bytes.

use foreword_core::hash::Hash;
use foreword_core::pairing;
use foreword_store::{Fault, Store, StoreError};
use serde::Serialize;

use super::inspect::Stored;
use super::log_entry::LogEntry;
use super::setup::Setup;

/// The result of a verification.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verified {
    /// The number of sessions.
    pub sessions: usize,
    /// The number of inputs.
    pub inputs: u64,
    /// The number of requests, each rendered again.
    pub requests: u64,
    /// The errors.
    pub faults: Vec<Fault>,
}

/// Verifies everything. `each` receives the number of verified requests and of all requests.
pub fn verify(store: &dyn Store, each: &mut dyn FnMut(u64, u64)) -> Result<Verified, StoreError> {
    let mut verified = Verified { faults: store.check()?, ..Verified::default() };
    let sessions = store.sessions()?;
    let all: u64 = sessions.iter().map(|session| session.counts.requests).sum();
    for session in sessions {
        verified.sessions += 1;
        verified.inputs += session.counts.inputs;
        let mut fault = |place: String, what: String| {
            verified.faults.push(Fault { session: Some(session.id.clone()), place, what });
        };
        if let Err(error) = serde_json::from_value::<Setup>(session.setup.clone()) {
            fault("sessions".to_owned(), format!("cannot read its settings: {error}"));
        }
        match store.log(&session.id, 0) {
            Err(error) => fault("log".to_owned(), error.to_string()),
            Ok(entries) => {
                for entry in entries {
                    if let Err(error) = LogEntry::read(&entry.kind, entry.body) {
                        fault(format!("log {}", entry.number), format!("cannot replay it: {error}"));
                    }
                }
            }
        }
        for number in 0..session.counts.requests {
            let place = format!("requests {number}");
            let mut fault = |what: String| {
                verified.faults.push(Fault { session: Some(session.id.clone()), place: place.clone(), what });
            };
            match Stored::read(store, &session.id, number) {
                Err(error) => fault(error.to_string()),
                Ok(stored) => {
                    if let Err(unpaired) = pairing::check(&stored.messages) {
                        fault(unpaired.to_string());
                    }
                    if Hash::of(&stored.body().bytes) != stored.request.wire {
                        fault("rendered again, it does not match the bytes that were sent".to_owned());
                    }
                }
            }
            verified.requests += 1;
            each(verified.requests, all);
        }
    }
    Ok(verified)
}

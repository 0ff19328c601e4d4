//! What a gateway client does to a session: it begins one, and its turns run on it.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use foreword_engine::session::{ChatModel, Line as Past, RecordedSession, SessionAccess, Setup, TurnError};
use foreword_engine::vault::Agent;

use super::{OpenSession, at};
use crate::answer::AnswerModel;
use crate::caller::Caller;
use crate::clock::now_ms;
use crate::problem::Problem;

impl OpenSession {
    /// Begins a session of a client: its chat is not written into the vault.
    pub(crate) fn begin_apart(&mut self, agent: &Agent, setup: &Setup, past: Vec<Past>) -> Result<(), Problem> {
        let models = self.common.config.places.models.clone();
        let store = Box::new(self.common.store().unsynced());
        let setup = Setup { client: true, ..setup.clone() };
        let mut kept = RecordedSession::begin_held(store, &self.id, agent, &setup, Some(&models), now_ms())?;
        if !past.is_empty() {
            kept.import(past, now_ms())?;
        }
        self.attach(&mut kept);
        self.kept = Some(kept);
        Ok(())
    }

    /// Whether the session is open and its model can answer without waiting for anything.
    pub(crate) fn is_ready(&self) -> bool {
        let is_embedded = |kept: &RecordedSession| self.voice.is_none() && kept.setup().is_embedded();
        // Weights may have to be read.
        self.kept.as_ref().is_some_and(|kept| !is_embedded(kept)) && self.common.config.answers.script.is_none()
    }

    /// Gets the session ready for a turn of a client and returns the model that answers. The client has everything that is stored here
    /// too, so its turn does not wait for the disk. A key of the client's own is used for this turn alone.
    pub(crate) fn begin_relay(&mut self, caller: &Caller) -> Result<Option<Box<dyn ChatModel>>, Problem> {
        self.voice()?;
        let model = AnswerModel::take_for_caller(&mut self.voice, &self.common, caller)?;
        if let Some(kept) = &mut self.kept {
            kept.set_store(Box::new(self.common.store().unsynced()));
        }
        (self.done, self.relaying) = (Instant::now(), true);
        Ok(model)
    }

    /// Ends the turn of a client.
    pub(crate) fn end_relay(&mut self, model: Box<dyn ChatModel>) {
        if self.voice.is_none() {
            AnswerModel::put_back(&mut self.voice, model);
        }
        if let Some(kept) = &mut self.kept {
            kept.set_store(Box::new(self.common.store()));
        }
        self.failures();
        (self.done, self.relaying) = (Instant::now(), false);
    }
}

/// An open session, locked only for the moments in which a turn uses it.
pub(crate) struct Locked(pub(crate) Arc<Mutex<OpenSession>>);

impl SessionAccess for Locked {
    fn with<T>(&mut self, work: impl FnOnce(&mut RecordedSession) -> T) -> Result<T, TurnError> {
        at(&self.0).kept.as_mut().map(work).ok_or(TurnError::Closed)
    }
}

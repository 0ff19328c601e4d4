//! What a client of the gateway does to a session: its words are told, and one reply is taken and handed on.

use std::sync::Arc;
use std::time::Instant;

use foreword_engine::session::{
    Client, ClientOptions, Event, Exchange, Input, Line as Past, RecordedSession, Relayed, Reply, Setup, SpeakError, Step,
};
use foreword_engine::vault::Agent;

use super::OpenSession;
use crate::answer::AnswerModel;
use crate::caller::Caller;
use crate::clock::now_ms;
use crate::problem::{INTERNAL, Problem};

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
        kept.set_store(Box::new(self.common.store()));
        self.kept = Some(kept);
        Ok(())
    }

    /// Tells what a client sent and takes one reply. The client has all of it too, so it does not wait for the disk; whatever else is
    /// done to the session does. A key of the client's own is used for this alone.
    pub(crate) fn relay(
        &mut self,
        inputs: Vec<Input>,
        manner: ClientOptions,
        caller: &Caller,
        each: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<Relayed>, Problem> {
        self.voice()?;
        let (Some(kept), Some(voice)) = (self.kept.as_mut(), self.voice.as_mut()) else { return Ok(None) };
        let mut own = voice.for_caller(caller)?;
        let voice = own.as_mut().unwrap_or(voice);
        kept.set_store(Box::new(self.common.store().unsynced()));
        let mut there = None;
        let reply = kept.relay(inputs, manner, voice.speaker(&self.common, &self.line.stop, &mut there), &now_ms, each);
        kept.set_store(Box::new(self.common.store()));
        self.failures();
        Ok(reply?)
    }

    /// The provider that answers, where the session is open and none of what it needs has to be waited for.
    pub(crate) fn provider(&mut self) -> Result<Option<Arc<Client>>, Problem> {
        if self.kept.is_none() || self.common.config.answers.script.is_some() {
            return Ok(None);
        }
        if let (None, Some(kept)) = (&self.voice, &self.kept)
            && kept.setup().is_embedded()
        {
            // Its weights may have to be read.
            return Ok(None);
        }
        self.voice()?;
        match &self.voice {
            Some(AnswerModel::There(client)) => Ok(Some(Arc::clone(client))),
            _ => Ok(None),
        }
    }

    /// The first half of [`Self::relay`], for whoever carries the request itself.
    pub(crate) fn begin_relay(&mut self, inputs: Vec<Input>, manner: ClientOptions) -> Result<Option<Exchange>, Problem> {
        let Some(kept) = self.kept.as_mut() else { return Ok(None) };
        self.done = Instant::now();
        kept.set_store(Box::new(self.common.store().unsynced()));
        let asked = kept.begin_relay(inputs, manner, &now_ms);
        self.relaying = matches!(asked, Ok(Some(_)));
        if !self.relaying {
            kept.set_store(Box::new(self.common.store()));
            self.failures();
        }
        Ok(asked?)
    }

    /// A part of the reply came in.
    pub(crate) fn relay_part(&mut self, exchange: &mut Exchange, part: &str) {
        if let Some(kept) = self.kept.as_mut() {
            kept.relay_part(exchange, part);
        }
    }

    /// The other half.
    pub(crate) fn end_relay(&mut self, exchange: Exchange, answer: Result<Reply, SpeakError>) -> Result<Step, Problem> {
        let kept = self.kept.as_mut().ok_or_else(|| Problem::new(INTERNAL, "the session was closed before the answer arrived"));
        let step = kept.map(|kept| kept.end_relay(exchange, answer, &now_ms));
        self.relaying = matches!(step, Ok(Ok(Step::Again(_))));
        if let (false, Some(kept)) = (self.relaying, self.kept.as_mut()) {
            kept.set_store(Box::new(self.common.store()));
        }
        self.failures();
        self.done = Instant::now();
        Ok(step??)
    }
}

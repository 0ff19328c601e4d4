//! Changes the settings or the model of an existing session.

use std::path::Path;

use foreword_core::catalog::Agent;
use foreword_core::session::InputError;
use foreword_provider::model::Model;

use super::log_entry::LogEntry;
use super::recorded::RecordedSession;
use super::setup::{Setup, SetupError};
use crate::settings::{HistorySettings, SessionSettings, SettingError};
use foreword_templates::{NoTemplate, Shelf};

/// Why a change is not possible.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The template cannot be used.
    #[error(transparent)]
    Template(#[from] NoTemplate),
    /// The model cannot be used.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The agent is invalid.
    #[error(transparent)]
    Input(#[from] InputError),
}

impl RecordedSession {
    /// Changes settings; missing ones are unchanged. Returns whether anything changed; then the manager must be set again.
    pub fn change_settings(&mut self, wanted: &SessionSettings, shelf: &Shelf, at_ms: i64) -> Result<bool, ChangeError> {
        if *wanted == SessionSettings::default() {
            return Ok(false);
        }
        let mut merged = wanted.clone().over(self.setup.wanted.clone());
        if wanted.history == HistorySettings::default() {
            merged.history = HistorySettings::default();
        }
        let template = merged.template().map(|name| shelf.find(name)).transpose()?;
        let mut setup = self.setup.clone();
        setup.set(&merged, template.as_ref())?;
        if setup == self.setup {
            return Ok(false);
        }
        self.store_told(&LogEntry::Settings(Box::new(setup.clone())), at_ms, false, Vec::new());
        self.session.change_settings(&setup.settings);
        self.setup = Setup { settings: self.session.settings().clone(), ..setup };
        Ok(true)
    }

    /// Remembers where its requests go from here on.
    pub fn set_destination(&mut self, destination: Option<String>, at_ms: i64) {
        if self.setup.destination != destination {
            self.setup.destination = destination;
            self.store_told(&LogEntry::Settings(Box::new(self.setup.clone())), at_ms, false, Vec::new());
        }
    }

    /// Lets another model answer from here on, with the same settings. The embedded model cannot use tools: they would only fill its window.
    /// `destination` is where its requests go.
    pub fn use_model(
        &mut self,
        model: Model,
        destination: Option<String>,
        models: Option<&Path>,
        at_ms: i64,
    ) -> Result<(), ChangeError> {
        let old = &self.setup;
        let mut setup = Setup::of(&self.row.id, model, old.settings.layout, 0, models);
        setup.set(&old.wanted, None)?;
        let (agent, project, template) = (old.agent.clone(), old.project.clone(), old.template.clone());
        let mut setup = Setup { agent, project, template, destination, ttl: old.ttl, client: old.client, ..setup };
        setup.choose_tool_style(self.session.agent());
        self.change_model(setup, models, at_ms)?;
        if self.setup.is_embedded() {
            let agent = Agent { servers: Vec::new(), tools: Vec::new(), ..self.session.agent().clone() };
            self.change_agent(agent, at_ms)?;
        }
        Ok(())
    }
}

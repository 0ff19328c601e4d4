//! Changes the settings of an existing session: mode, model, history and approvals.

use std::sync::Arc;

use foreword_engine::config::Chosen;
use foreword_engine::destination::{address, may_move};
use foreword_engine::prepare::servers_of;
use foreword_engine::session::{Agent, HistoryPolicy, Mode, Setup, embedded_file};
use foreword_engine::settings::SessionSettings;
use foreword_engine::vault::agent as load;
use foreword_vault_tools::Asking;

use crate::actor::OpenSession;
use crate::answer::{Tools, asking_of, elsewhere};
use crate::clock::now_ms;
use crate::problem::{CONFLICT, NOT_FOUND, Problem, UNAVAILABLE};

impl OpenSession {
    /// Carries the turns in another way from here on.
    pub(crate) fn set_mode(&mut self, mode: Mode) -> Result<(), Problem> {
        self.kept()?.set_mode(mode, now_ms());
        Ok(())
    }

    /// Asks before tools in another way from here on, as long as the server runs.
    pub(crate) fn set_asking(&mut self, asking: Asking) -> Result<(), Problem> {
        self.kept()?;
        self.asking = Some(asking);
        if let Some(hands) = &mut self.hands {
            hands.set_asking(asking);
        }
        Ok(())
    }

    /// When the user is asked before a tool runs. No tool server is started to find that out.
    pub(crate) fn asking(&mut self) -> Result<Asking, Problem> {
        let agent = self.kept()?.setup().agent.clone();
        let usual = || asking_of(servers_of(&self.common.vault(), agent.as_deref()).unwrap_or_default().1);
        Ok(self.hands.as_ref().map(Tools::asking).or(self.asking).unwrap_or_else(usual))
    }

    /// Changes session settings. Missing ones are unchanged.
    pub(crate) fn set_settings(&mut self, settings: &SessionSettings) -> Result<(), Problem> {
        let shelf = self.common.shelf();
        if self.kept()?.change_settings(settings, &shelf, now_ms())? {
            // Who manages the history, and what the tools work with, is found anew.
            self.close();
            self.hands = None;
        }
        Ok(())
    }

    /// Lets another model answer from here on.
    pub(crate) fn set_model(&mut self, chosen: Chosen) -> Result<(), Problem> {
        let config = Arc::clone(&self.common.config);
        let models = &config.places.models;
        if chosen.client.is_none() && embedded_file(Some(models)).is_none() && config.answers.script.is_none() {
            return Err(Problem::new(UNAVAILABLE, "the embedded model is not downloaded; run `foreword models fetch --all`"));
        }
        let kept = self.kept()?;
        if kept.setup().model.name == chosen.model.name {
            return Ok(());
        }
        let configured = config.answers.choose(Some(&kept.setup().model.name)).ok();
        may_move::<String>(kept.setup(), configured.as_ref(), &chosen, false).map_err(|error| elsewhere(&error, kept))?;
        let destination = chosen.client.as_ref().map(address);
        kept.use_model(chosen.model, destination, Some(models), now_ms())?;
        self.voice = None;
        Ok(())
    }

    /// Reloads the session's agent from its files. New items with the include mode `always` join the session.
    pub(crate) fn take_agent(&mut self) -> Result<(), Problem> {
        let common = Arc::clone(&self.common);
        let kept = self.kept()?;
        let Some(name) = kept.setup().agent.clone() else {
            return Err(Problem::new(CONFLICT, "this session uses the default agent, which has no files"));
        };
        let Some((mut agent, _)) = load(&common.root, Some(&name)) else {
            return Err(Problem::new(NOT_FOUND, format!("agent {name:?} no longer exists in Foreword/Agents of this vault")));
        };
        if let Some(template) = kept.setup().template.as_deref().and_then(|name| common.shelf().find(name).ok()) {
            template.instruct(&mut agent);
        }
        let taken = kept.session().agent().clone();
        let agent = Agent { memory: taken.memory, project: taken.project, servers: taken.servers, tools: taken.tools, ..agent };
        kept.replace_agent(agent, now_ms())?;
        let (servers, _) = servers_of(&common.vault(), Some(&name)).unwrap_or_default();
        let has_servers = !servers.is_empty() && !kept.setup().is_embedded();
        if has_servers && self.hands.as_ref().is_none_or(|hands| hands.servers != servers) {
            // They are started anew, as they are configured now.
            self.hands = None;
            let (kept, hands) = self.equipped()?;
            hands.update(kept)?;
        }
        self.changed();
        Ok(())
    }
}

/// Whether the session has a managed history.
pub(crate) fn is_managed(setup: &Setup) -> bool {
    matches!(setup.settings.history, HistoryPolicy::Managed { .. })
}

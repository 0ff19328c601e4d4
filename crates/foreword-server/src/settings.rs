//! What a person sets in a session that is there: how turns are carried, who answers, what is sent of older messages, when they are asked.

use std::sync::Arc;

use foreword_engine::config::Chosen;
use foreword_engine::manager::policy;
use foreword_engine::prepare::servers_of;
use foreword_engine::session::{Agent, HistoryPolicy, Input, ItemId, Mode, Setup, embedded_file};
use foreword_engine::templates::Template;
use foreword_engine::tools::Asking;
use foreword_engine::vault::{Include, agent as load};

use crate::actor::Desk;
use crate::answer::{Tools, asking_of};
use crate::clock::now_ms;
use crate::problem::{CONFLICT, NOT_FOUND, Problem, UNAVAILABLE};

/// An agent that is also told what a template says about the conversation.
pub(crate) fn instruct(agent: &mut Agent, template: &Template) {
    if let Some(instructions) = &template.parsed.chat_instructions {
        let both = [agent.system_prompt.trim(), instructions.trim()].join("\n\n");
        agent.system_prompt = both.trim().into();
    }
}

impl Desk {
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

    /// Sends older messages by a template from here on, or all of them.
    pub(crate) fn set_history(&mut self, template: Option<Template>) -> Result<(), Problem> {
        let kept = self.kept()?;
        let now = kept.setup().template.as_deref().filter(|_| is_managed(kept.setup()));
        if now != template.as_ref().map(|template| template.name.as_str()) {
            let prompt = kept.setup().settings.budget.prompt;
            let history = template.as_ref().map_or(HistoryPolicy::Full, |template| policy(Some(template), prompt));
            kept.change_history(history, template.map(|template| template.name), now_ms());
            // Who manages it is found anew when the session is opened again.
            self.close();
        }
        Ok(())
    }

    /// Lets another model answer from here on.
    pub(crate) fn set_model(&mut self, chosen: Chosen) -> Result<(), Problem> {
        let config = Arc::clone(&self.common.config);
        let models = &config.places.models;
        if chosen.client.is_none() && embedded_file(Some(models)).is_none() && config.answers.script.is_none() {
            return Err(Problem::new(UNAVAILABLE, "the embedded model is not here; `foreword models fetch --all` fetches it"));
        }
        let kept = self.kept()?;
        let old = kept.setup();
        if old.model.name == chosen.model.name {
            return Ok(());
        }
        let setup = Setup::of(kept.id(), chosen.model, old.settings.layout, 0, Some(models));
        let mut setup = Setup { agent: old.agent.clone(), template: old.template.clone(), ttl: old.ttl, ..setup };
        setup.choose_tool_style(kept.session().agent());
        kept.change_model(setup, Some(models), now_ms())?;
        if kept.setup().is_embedded() {
            // The small model cannot use tools: they would only fill its window.
            let agent = Agent { servers: Vec::new(), tools: Vec::new(), ..kept.session().agent().clone() };
            kept.change_agent(agent, now_ms())?;
        }
        self.voice = None;
        Ok(())
    }

    /// Goes on with the session's agent as its files are now. What joins every session from now on joins this one.
    pub(crate) fn take_agent(&mut self) -> Result<(), Problem> {
        let common = Arc::clone(&self.common);
        let kept = self.kept()?;
        let Some(name) = kept.setup().agent.clone() else {
            return Err(Problem::new(CONFLICT, "this session has the plain agent, which has no files"));
        };
        let Some((mut agent, _)) = load(&common.root, Some(&name)) else {
            return Err(Problem::new(NOT_FOUND, format!("there is no agent {name:?} in Foreword/Agents of this vault any more")));
        };
        if let Some(template) = kept.setup().template.as_deref().and_then(|name| common.shelf().find(name).ok()) {
            instruct(&mut agent, &template);
        }
        let old = kept.session().agent().clone();
        let taken = old.clone();
        let agent = Agent { memory: taken.memory, project: taken.project, servers: taken.servers, tools: taken.tools, ..agent };
        if agent != old {
            kept.change_agent(agent, now_ms())?;
        }
        let (servers, _) = servers_of(&common.vault(), Some(&name)).unwrap_or_default();
        let has_servers = !servers.is_empty() && !kept.setup().is_embedded();
        if has_servers && self.hands.as_ref().is_none_or(|hands| hands.servers != servers) {
            // They are started anew, as they are configured now.
            self.hands = None;
            let (kept, hands) = self.equipped()?;
            hands.update(kept)?;
        }
        let kept = self.kept()?;
        let agent = kept.session().agent();
        let was = |id: &ItemId| old.find(id).is_some_and(|item| item.include == Include::Always);
        let always = agent.items().into_iter().filter(|item| item.include == Include::Always).map(|item| item.id);
        let joining: Vec<ItemId> = always.filter(|id| !was(id)).collect();
        for id in joining {
            if !kept.session().included().iter().any(|(member, _)| *member == id) {
                kept.tell(Input::Add(id), now_ms())?;
            }
        }
        self.changed();
        Ok(())
    }
}

/// Whether a summary stands for older messages.
pub(crate) fn is_managed(setup: &Setup) -> bool {
    matches!(setup.settings.history, HistoryPolicy::Managed { .. })
}

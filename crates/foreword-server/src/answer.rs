//! Who answers in a session and what runs its tools: the model that comes with Foreword, a provider or a script; the workbench over the
//! vault.

use std::sync::{Arc, PoisonError};

use foreword_engine::destination::{DestinationError, Destinations, address};
use foreword_engine::manager::Recall;
use foreword_engine::prepare::{AgentAsking, ServerSpec};
use foreword_engine::session::{
    ChatModel, Client, ClientConfig, Embedded, RecordedSession, Remote, Script, Setup, embedded_file,
};
use foreword_engine::workbench::Workbench;
use foreword_trust::StoredPins;
use foreword_trust::audit::AuditedApprove;
use foreword_vault_tools::{Asking, Toolbox, outputs_of, own_tools};

use crate::app::Common;
use crate::approve::Asker;
use crate::caller::Caller;
use crate::clock::now_ms;
use crate::hub::SessionHandle;
use crate::problem::{CONFLICT, Problem, UNAVAILABLE};

/// The workbench, and what of it depends on the user.
pub(crate) struct Tools {
    pub(crate) bench: Workbench,
    asking: Asking,
    /// The tool servers of the vault as they were configured.
    pub(crate) servers: Vec<ServerSpec>,
    /// Those that the user has not let run.
    withheld: Vec<String>,
}

/// Gets the tools of a session ready, its servers included.
pub(crate) fn workbench(
    common: &Common,
    line: &SessionHandle,
    (servers, asking): (Vec<ServerSpec>, Asking),
    setup: &Setup,
) -> Result<Tools, Problem> {
    let (session, agent) = (&setup.settings.session, setup.agent.as_deref());
    let notes = common.notes()?.for_session(setup.settings.budget.output_chars, setup.select_notes());
    let (store, of) = (common.store(), session.clone());
    let outputs = Box::new(move |digits: &str| outputs_of(&store, &of, digits));
    let named: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    let configs = (common.config.servers)(&common.vault(), agent, servers.clone());
    let withheld = named.into_iter().filter(|name| !configs.iter().any(|config| config.name == *name)).collect();
    let mut own = own_tools(&notes, outputs);
    own.push(Box::new(Recall::of_session(&notes, common.store_file.clone(), session)));
    let asker = Box::new(Asker::new(line.clone()));
    let asker = Box::new(AuditedApprove::new(asker, common.audit.clone(), session));
    let pins = Box::new(StoredPins::new(&common.config.places, &common.root, agent.unwrap_or_default(), &servers));
    let toolbox = Toolbox::new(own, configs, asking, asker, pins);
    let outputs = common.config.answers.script.as_ref().and_then(|file| Some(Script::read(file).ok()?.hands()));
    let bench = Workbench::new(notes, toolbox, setup.room_for_sources()).played(outputs);
    let mut tools = Tools { bench, asking, servers, withheld };
    for (server, message) in tools.problems() {
        line.feed.tell("note", &serde_json::json!({"text": format!("tool server {server}: {message}")}));
    }
    Ok(tools)
}

/// When the user is asked where they did not say.
pub(crate) fn asking_of(agent: AgentAsking) -> Asking {
    if agent == AgentAsking::Always { Asking::Always } else { Asking::Tool }
}

impl Tools {
    /// When the user is asked.
    pub(crate) fn asking(&self) -> Asking {
        self.asking
    }

    /// When the user is asked from here on.
    pub(crate) fn set_asking(&mut self, asking: Asking) {
        self.asking = asking;
        self.bench.toolbox().set_asking(asking);
    }

    /// Servers that are not available, and why.
    pub(crate) fn problems(&mut self) -> Vec<(String, String)> {
        let withheld = self.withheld.iter().map(|name| {
            (
                name.clone(),
                "not started, because it is not allowed; allow it with `foreword trust` or start the server with --trust-servers"
                    .to_owned(),
            )
        });
        withheld.chain(self.bench.toolbox().problems().into_iter().map(|problem| (problem.server, problem.message))).collect()
    }

    /// Updates a session after tools were added or removed.
    pub(crate) fn update(&mut self, kept: &mut RecordedSession) -> Result<(), Problem> {
        Ok(self.bench.update(kept, now_ms())?)
    }
}

/// The model of a session.
pub(crate) enum AnswerModel {
    /// Here: the model that comes with Foreword, or a script.
    Here(Box<dyn ChatModel>),
    /// A provider.
    There(Arc<Client>),
}

/// Why a session does not go to another address, and what the user can do: the page has no way to name one.
pub(crate) fn elsewhere(error: &DestinationError<String>, kept: &RecordedSession) -> Problem {
    let advice = match error {
        DestinationError::Elsewhere { .. } => {
            let command = format!("foreword ask VAULT QUESTION --session {} --base-url ADDRESS", kept.id());
            format!(". Do so once on the command line, and the page goes on there: `{command}`")
        }
        DestinationError::Choose(_) => String::new(),
    };
    Problem::new(CONFLICT, format!("{error}{advice}"))
}

/// Returns the model. A script is read again each time; a model is reused, because it may have cached the last prompt.
pub(crate) fn voice(held: Option<AnswerModel>, common: &Common, kept: &mut RecordedSession) -> Result<AnswerModel, Problem> {
    let answers = &common.config.answers;
    if let Some(file) = &answers.script {
        let script = Script::read(file).map_err(|error| Problem::new(UNAVAILABLE, error))?;
        return Ok(AnswerModel::Here(Box::new(script.go_on(kept)?)));
    }
    if let Some(voice) = held {
        return Ok(voice);
    }
    let (name, dialect) = (kept.setup().model.name.clone(), kept.setup().dialect);
    let choose = |base_url: Option<&str>| answers.choose_at(Some(&name), base_url).map_err(|problem| problem.detail);
    let chosen = Destinations::new(&common.config.places.state).going_on(kept.setup(), None, choose);
    let client = chosen.map_err(|error| elsewhere(&error, kept))?.client;
    if !kept.setup().client {
        kept.set_destination(client.as_ref().map(address), now_ms());
    }
    match client {
        None => Ok(AnswerModel::Here(Box::new(embedded(common)?))),
        // The session's record says how its model is spoken to, whatever the configuration has become.
        Some(client) => Ok(AnswerModel::There(common.client(ClientConfig { dialect, ..client })?)),
    }
}

/// A provider as a caller of the gateway speaks to it: with its own key where it brings one.
pub(crate) fn for_caller(client: Arc<Client>, caller: &Caller) -> Result<Arc<Client>, Problem> {
    if !client.is_opened_by_key_alone() {
        caller.needs_our_key("this provider as it is configured here")?;
    }
    Ok(match caller.key() {
        Some(key) => Arc::new(client.with_key(key.clone())),
        None => client,
    })
}

impl AnswerModel {
    /// The model for a turn. A local one is taken, so that only one turn uses it; [`AnswerModel::put_back`] returns it.
    pub(crate) fn take(held: &mut Option<Self>, common: &Common) -> Option<Box<dyn ChatModel>> {
        match held.take()? {
            Self::Here(model) => Some(model),
            Self::There(client) => {
                *held = Some(Self::There(Arc::clone(&client)));
                Some(Box::new(Remote::shared(client, common.runtime.clone())))
            }
        }
    }

    /// Keeps the model of a turn that is over, unless another one was chosen.
    pub(crate) fn put_back(held: &mut Option<Self>, model: Box<dyn ChatModel>) {
        held.get_or_insert(Self::Here(model));
    }

    /// The same for a gateway client: a provider is used with the client's key, and once, because trying again is for the client to
    /// decide.
    pub(crate) fn take_for_caller(
        held: &mut Option<Self>,
        common: &Common,
        caller: &Caller,
    ) -> Result<Option<Box<dyn ChatModel>>, Problem> {
        if let Some(Self::There(client)) = held {
            let client = Arc::new(for_caller(Arc::clone(client), caller)?.once());
            return Ok(Some(Box::new(Remote::shared(client, common.runtime.clone()))));
        }
        caller.needs_our_key("a model that runs on this machine")?;
        Ok(Self::take(held, common))
    }
}

/// The model that comes with Foreword; its weights are read once for all sessions.
fn embedded(common: &Common) -> Result<Embedded, Problem> {
    let mut held = common.embedded.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(model) = &*held {
        return Ok(model.beside());
    }
    let Some(file) = embedded_file(Some(&common.config.places.models)) else {
        return Err(Problem::new(UNAVAILABLE, "the embedded model is not downloaded; run `foreword models fetch --all`"));
    };
    let model = Embedded::open(&file).map_err(|error| Problem::new(UNAVAILABLE, error))?;
    let own = model.beside();
    *held = Some(model);
    Ok(own)
}

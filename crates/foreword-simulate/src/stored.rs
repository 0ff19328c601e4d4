//! A stored session, run again under other settings: what it would have cost, and what happened.
//!
//! The log says everything that a session was told, and when. It is told to a session with other settings, and each request is shown to a
//! simulated cache. The replies are those that came; nobody is asked anything. A summary of a managed history is the one that was written
//! then, where there is one.

use std::path::Path;

use foreword_core::catalog::Agent;
use foreword_core::session::{Due, Input, InputError};
use foreword_core::settings::HistoryPolicy;
use foreword_core::tokens::Tokens;
use foreword_provider::cost::output_cost;
use foreword_provider::model::Model;
use foreword_provider::table::ModelTable;
use foreword_store::{Request, SessionRow, Store, StoreError, Usage};
use serde::Serialize;
use serde_json::Value;

use super::report::{Report, RequestReport};
use super::setup::{Overrides, Setup as SimulationSetup};
use super::simulation::Simulation;
use foreword_engine::session::{Change, Setup, SetupError, is_fold, log_entry, usd};
use foreword_engine::settings::{HistorySettings, SessionSettings, SettingError};

/// What is different from what happened.
#[derive(Clone, Debug, Default)]
pub struct Otherwise {
    /// The settings that are other ones.
    pub settings: SessionSettings,
    /// The model that answers all the time, if it is another one.
    pub model: Option<Model>,
}

impl Otherwise {
    /// What another layout, provider or model in a scenario is in a stored session.
    pub fn of(overrides: &Overrides) -> Result<Self, StoredError> {
        let table = ModelTable::builtin().map_err(SetupError::from)?;
        let model = match (&overrides.model, &overrides.provider) {
            (Some(name), _) => Some(table.find(name)),
            (None, Some(provider)) => provider.parse().ok().map(|dialect| table.default_for(dialect)),
            (None, None) => None,
        };
        let settings = SessionSettings { layout: overrides.layout, ..SessionSettings::default() };
        Ok(Self { settings, model: model.transpose().map_err(SetupError::from)? })
    }
}

/// Why a stored session cannot be run again.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its settings.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The other settings.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A part of its record.
    #[error("session {session}: {what} cannot be read: {error}; a newer Foreword may have written it")]
    Record {
        /// The session.
        session: String,
        /// Which part.
        what: String,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// An input is refused.
    #[error("session {0} cannot be told again what it was told: {1}")]
    Input(String, InputError),
    /// It was never asked anything.
    #[error("session {0} has no requests: there is nothing to run again")]
    Empty(String),
}

/// What a session's requests held and cost, together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Account {
    /// The layout at its end.
    pub layout: String,
    /// The model at its end.
    pub model: String,
    /// What was sent of older messages: `full`, `window`, `strip` or `managed`.
    pub history: &'static str,
    /// The most tokens of a request, at its end.
    pub budget: Tokens,
    /// How many requests.
    pub requests: usize,
    /// How many did not fit their budget and were not sent.
    pub unsent: usize,
    /// All prompt tokens.
    pub prompt_tokens: u64,
    /// What of them came from the provider's cache.
    pub cached_tokens: u64,
    /// That as a share, from 0 to 1.
    pub cached_share: f64,
    /// The price of prompts and replies, in USD.
    pub cost: f64,
    /// The folds.
    pub folds: Vec<FoldMade>,
    /// What was left out of a request for want of room, once each turn.
    pub left_out: Vec<LeftOutThen>,
}

/// A fold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoldMade {
    /// With which turn, from 1.
    pub turn: u64,
    /// Why.
    pub reason: String,
}

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOutThen {
    /// In which turn, from 1.
    pub turn: u64,
    /// What.
    pub item: String,
    /// Why.
    pub reason: String,
}

/// What happened, and what would have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// The session.
    pub session: String,
    /// What it is about.
    pub title: Option<String>,
    /// From its record: what the provider said.
    pub was: Account,
    /// By the published rules of the provider's cache.
    pub would_be: Account,
}

/// What a session would have cost under other settings, beside what it did cost.
pub fn what_if(store: &dyn Store, session: &str, otherwise: &Otherwise, models: Option<&Path>) -> Result<WhatIf, StoredError> {
    let row = store.session(session)?;
    let requests = store.requests(session)?;
    if requests.is_empty() {
        return Err(StoredError::Empty(session.to_owned()));
    }
    let ledger = store.ledger(session)?;
    let ran = replay(store, &row, otherwise, models)?;
    let outputs: Vec<u64> = requests
        .iter()
        .map(|request| ledger.iter().find(|(number, _)| *number == request.number).map_or(0, |(_, usage)| usage.output))
        .collect();
    let was = recorded(&requests, &ledger, history_of(&ran.recorded.settings.history));
    Ok(WhatIf { session: row.id, title: row.title, was, would_be: simulated(&ran, &outputs) })
}

/// The requests that a stored session would have made, in the form of a simulated scenario.
pub fn run(store: &dyn Store, session: &str, otherwise: &Otherwise, models: Option<&Path>) -> Result<Report, StoredError> {
    let row = store.session(session)?;
    Ok(replay(store, &row, otherwise, models)?.report)
}

struct Ran {
    report: Report,
    unsent: usize,
    /// What it would have run with at its end.
    setup: Setup,
    /// What it did run with.
    recorded: Setup,
}

fn replay(store: &dyn Store, row: &SessionRow, otherwise: &Otherwise, models: Option<&Path>) -> Result<Ran, StoredError> {
    let record = |what: &str, error| StoredError::Record { session: row.id.clone(), what: what.to_owned(), error };
    let refused = |error| StoredError::Input(row.id.clone(), error);
    let mut recorded: Setup = serde_json::from_value(row.setup.clone()).map_err(|error| record("its settings", error))?;
    let agent: Agent = serde_json::from_value(store.agent(row.agent)?).map_err(|error| record("its agent", error))?;
    let mut setup = changed(&recorded, &agent, otherwise, models)?;
    let name = row.title.as_deref().unwrap_or(&row.id);
    let mut simulation = Simulation::new(name, &agent, simulated_by(&setup, models)?).map_err(refused)?;
    let (mut now_ms, mut unsent) = (row.created_ms, 0);
    let mut entries = store.log(&row.id, 0)?.into_iter().peekable();
    while let Some(entry) = entries.next() {
        simulation.pass(u64::try_from(entry.at_ms.saturating_sub(now_ms) / 1000).unwrap_or(0));
        now_ms = now_ms.max(entry.at_ms);
        let ended = entries.peek().is_some_and(|next| log_entry::is_end(&next.kind));
        let change =
            log_entry::change(&entry.kind, entry.body).map_err(|error| record(&format!("entry {}", entry.number), error))?;
        let due = match change {
            // How long the provider remembers is up to the model that answers here.
            Change::None | Change::Input(Input::Idle(_)) => continue,
            Change::Input(input) => {
                let begins = matches!(input, Input::Turn(_) | Input::Past(_));
                if let Some(seconds) = simulation.forgotten_after().filter(|_| begins) {
                    simulation.tell(&Input::Idle(seconds)).map_err(refused)?;
                }
                simulation.tell(&input).map_err(refused)?.0
            }
            Change::Model(model) => {
                let history = recorded.settings.history;
                recorded = *model;
                recorded.settings.history = history;
                setup = changed(&recorded, simulation.session.agent(), otherwise, models)?;
                if otherwise.model.is_some() { Due::Nothing } else { simulation.change_model(simulated_by(&setup, models)?) }
            }
            Change::Settings(settings) => {
                recorded = *settings;
                setup = changed(&recorded, simulation.session.agent(), otherwise, models)?;
                simulation.session.change_settings(&setup.settings);
                Due::Nothing
            }
            Change::History(history) => {
                recorded.settings.history = history;
                setup = changed(&recorded, simulation.session.agent(), otherwise, models)?;
                simulation.session.change_history(setup.settings.history.clone());
                Due::Nothing
            }
        };
        if due == Due::Request
            && !ended
            && let Err(over) = simulation.request()
        {
            unsent += 1;
            simulation.report.error.get_or_insert_with(|| format!("session {}: turn {}: {over}", row.id, entry.run + 1));
        }
    }
    Ok(Ran { report: simulation.finish(), unsent, setup, recorded })
}

/// What a session would run with.
fn changed(recorded: &Setup, agent: &Agent, otherwise: &Otherwise, models: Option<&Path>) -> Result<Setup, StoredError> {
    let mut setup = match &otherwise.model {
        Some(model) => {
            let old = &recorded.settings;
            let mut setup = Setup::of(&old.session, model.clone(), old.layout, 0, models);
            setup.set(&recorded.wanted, None)?;
            setup.settings.history = old.history.clone();
            setup.choose_tool_style(agent);
            setup
        }
        None => recorded.clone(),
    };
    let mut settings = otherwise.settings.clone().over(recorded.wanted.clone());
    if otherwise.settings.history == HistorySettings::default() {
        settings.history = HistorySettings::default();
    }
    setup.set(&settings, None)?;
    Ok(setup)
}

fn simulated_by(setup: &Setup, models: Option<&Path>) -> Result<SimulationSetup, SetupError> {
    Ok(SimulationSetup {
        settings: setup.settings.clone(),
        tokenizer: setup.open_tokenizer(models)?,
        dialect: setup.dialect,
        model: setup.model.clone(),
        ttl: setup.ttl,
    })
}

fn history_of(policy: &HistoryPolicy) -> &'static str {
    match policy {
        HistoryPolicy::Full => "full",
        HistoryPolicy::Window { .. } => "window",
        HistoryPolicy::Strip { .. } => "strip",
        HistoryPolicy::Managed { .. } => "managed",
    }
}

/// What the record says of a session's requests.
fn recorded(requests: &[Request], ledger: &[(u64, Usage)], history: &'static str) -> Account {
    let text = |request: &Request, key: &str| request.record.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut account = Account { history, requests: requests.len(), ..Account::default() };
    for request in requests {
        account.layout = text(request, "layout");
        account.budget = Tokens(request.record.get("budget").and_then(Value::as_u64).unwrap_or(0));
        if let Some(reason) = request.began.as_ref().filter(|reason| is_fold(reason)) {
            account.folds.push(FoldMade { turn: request.run + 1, reason: reason.clone() });
        }
        for left_out in request.record.get("left_out").and_then(Value::as_array).into_iter().flatten() {
            let said = |key: &str| left_out.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            account.leave_out(request.run + 1, said("item"), said("reason"));
        }
        match ledger.iter().find(|(number, _)| *number == request.number) {
            Some((_, usage)) => {
                account.model.clone_from(&usage.model);
                account.prompt_tokens += usage.read + usage.write + usage.uncached;
                account.cached_tokens += usage.read;
                account.cost += usage.cost;
            }
            // Nobody answered it.
            None => account.prompt_tokens += request.tokens,
        }
    }
    account.shared()
}

/// What the requests of a simulation hold and would cost. Replies are those that came.
fn simulated(ran: &Ran, outputs: &[u64]) -> Account {
    let Ran { report, unsent, setup, .. } = ran;
    let mut account = Account {
        layout: setup.settings.layout.as_str().to_owned(),
        model: setup.model.name.clone(),
        history: history_of(&setup.settings.history),
        budget: setup.settings.budget.prompt,
        requests: report.requests.len(),
        unsent: *unsent,
        ..Account::default()
    };
    for (at, request) in report.requests.iter().enumerate() {
        let RequestReport { turn, cache, began, left_out, .. } = request;
        let turn = *turn as u64 + 1;
        if let Some(reason) = began.filter(|reason| reason.is_for_room()) {
            account.folds.push(FoldMade { turn, reason: reason.as_str().to_owned() });
        }
        for left_out in left_out {
            let reason = serde_json::to_value(left_out.reason).ok();
            let reason = reason.and_then(|reason| reason.as_str().map(str::to_owned)).unwrap_or_default();
            account.leave_out(turn, left_out.item.to_string(), reason);
        }
        let prompt = cache.read + cache.write + cache.uncached;
        account.prompt_tokens += prompt.0;
        account.cached_tokens += cache.read.0;
        account.cost += cache.cost + output_cost(&setup.model, prompt, Tokens(outputs.get(at).copied().unwrap_or(0)));
    }
    account.shared()
}

impl Account {
    /// Only what had no room: what the search did not choose is left out whatever the budget.
    fn leave_out(&mut self, turn: u64, item: String, reason: String) {
        let left_out = LeftOutThen { turn, item, reason };
        if left_out.reason == "over_budget" && !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }

    fn shared(mut self) -> Self {
        self.cost = usd(self.cost);
        if self.prompt_tokens > 0 {
            self.cached_share = self.cached_tokens as f64 / self.prompt_tokens as f64;
        }
        self
    }
}

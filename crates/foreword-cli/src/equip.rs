//! Prepares what a session works with: the notes, the search and the tools.

use std::sync::{Arc, Mutex};

use anyhow::Result;
use clap::{Args as ClapArgs, ValueEnum};
use foreword_engine::clock;
use foreword_engine::manager::Recall;
use foreword_engine::prepare::{AgentAsking, ServerSpec};
use foreword_engine::session::{Mode, Setup, Sqlite};
use foreword_engine::vault::Vault;
use foreword_engine::workbench::Workbench;
use foreword_trust::StoredPins;
use foreword_trust::audit::{Audit, AuditedApprove};
use foreword_vault_tools::corpus::Corpus;
use foreword_vault_tools::embedding::{EmbeddingModel, Fetch};
use foreword_vault_tools::{Asking, Toolbox, VaultTools, outputs_of, own_tools};
use jiff::tz::TimeZone;

use crate::approve::approver;
use crate::config;
use crate::kept::Vault as VaultArg;
use crate::paint::{note, shown};
use crate::places::places;
use crate::progress;
use crate::trust;

/// Options about tools.
#[derive(Default, ClapArgs)]
pub(crate) struct ToolArgs {
    /// When to ask before a tool runs [default: the agent's setting]
    #[arg(long, value_name = "WHEN")]
    ask: Option<When>,
    /// Start the vault's tool servers without asking; use only with a vault you trust
    #[arg(long)]
    trust_servers: bool,
}

/// When approval is required.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    /// Before every tool
    Always,
    /// Never
    Never,
    /// Depending on the tool: before tools that write or use the network
    Tool,
}

/// Reads when approval is required.
pub(crate) fn asking(text: &str) -> Result<Asking, String> {
    let when = When::from_str(text, true).map_err(|_| format!("invalid value {text:?}: expected always, tool or never"))?;
    Ok(match when {
        When::Always => Asking::Always,
        When::Never => Asking::Never,
        When::Tool => Asking::Tool,
    })
}

/// The tool settings of an agent's files.
pub(crate) struct AgentTools<'a> {
    /// The agent's name; `None` for the default agent.
    pub(crate) agent: Option<&'a str>,
    pub(crate) servers: Vec<ServerSpec>,
    pub(crate) asking: AgentAsking,
}

impl ToolArgs {
    fn asking(&self, agent: AgentAsking) -> Asking {
        match (self.ask, agent) {
            (Some(When::Always), _) | (None, AgentAsking::Always) => Asking::Always,
            (Some(When::Never), _) => Asking::Never,
            (Some(When::Tool), _) | (None, AgentAsking::Tool) => Asking::Tool,
        }
    }

    /// Opens the notes for search and prepares the tools, including tool servers.
    pub(crate) fn workbench(
        &self,
        vault: &Vault,
        place: &VaultArg,
        wanted: AgentTools<'_>,
        find: Find,
        setup: &Setup,
    ) -> Result<Workbench> {
        let places = places()?;
        let session = &setup.settings.session;
        let audit = Audit::new(&places.state);
        let corpus = Corpus::open(vault.root(), &places, TimeZone::system())?;
        let fetch = match find {
            Find::Fetched => Fetch::Allowed { mirror: config::weights_mirror()? },
            Find::AsIs => Fetch::Never,
        };
        let meaning = EmbeddingModel::new(&places.models, fetch);
        if find == Find::Fetched {
            // If the download fails, the first search reports it.
            let _ = meaning.load(&mut progress::fetching("the embedding model"));
        }
        let AgentTools { agent, servers, asking } = wanted;
        let pins = Box::new(StoredPins::new(&places, vault.root(), agent.unwrap_or_default(), &servers));
        let configs = trust::servers(vault, agent, servers, self.trust_servers)?;
        let desk = VaultTools::new(Arc::new(Mutex::new(corpus)), Arc::new(meaning), places, clock::zoned)
            .for_session(setup.settings.budget.output_chars, setup.select_notes());
        let store = place.store_file()?;
        let past = store.clone();
        let of = session.clone();
        let outputs = Box::new(move |digits: &str| {
            Sqlite::open_existing(&store).map(|store| outputs_of(&store, &of, digits)).unwrap_or_default()
        });
        let mut own = own_tools(&desk, outputs);
        own.push(Box::new(Recall::of_session(&desk, past, session)));
        let approver = Box::new(AuditedApprove::new(approver(), audit, session));
        let toolbox = Toolbox::new(own, configs, self.asking(asking), approver, pins);
        for problem in toolbox.problems() {
            note(shown(&format!("tool server {}: {}", problem.server, problem.message)));
        }
        Ok(Workbench::new(desk, toolbox, setup.room_for_sources()))
    }
}

/// Whether the search may download the embedding model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Find {
    /// Download the embedding model if it is missing.
    Fetched,
    /// Use only what is already downloaded.
    AsIs,
}

impl Find {
    /// A download is worthwhile only if every turn searches.
    pub(crate) fn in_mode(self, mode: Mode) -> Self {
        if mode == Mode::Qa { self } else { Self::AsIs }
    }
}

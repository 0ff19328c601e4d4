//! What a session works with: the notes, what finds them, and the tools.

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use clap::{Args as ClapArgs, ValueEnum};
use foreword_engine::corpus::Corpus;
use foreword_engine::manager::Recall;
use foreword_engine::meaning::{Fetch, Meaning};
use foreword_engine::prepare::{AgentAsking, ServerSpec, server_config};
use foreword_engine::session::{Hash, Kept, Mode, STORE, Sqlite, Stop, Store as _, Tokens};
use foreword_engine::tools::{Asking, Desk, Toolbox, own_tools};
use foreword_engine::workbench::Workbench;
use jiff::Zoned;
use jiff::tz::TimeZone;

use crate::approve::approver;
use crate::kept::now_ms;
use crate::model::stop;
use crate::paint::{note, shown};
use crate::places::places;
use crate::progress;
use crate::trust::trusted;

/// Options about tools.
#[derive(Default, ClapArgs)]
pub(crate) struct ToolArgs {
    /// When you are asked before a tool runs; else as the agent says
    #[arg(long, value_name = "WHEN")]
    ask: Option<When>,
    /// Start the vault's own tool servers without asking; only for a vault that you trust
    #[arg(long)]
    trust_servers: bool,
}

/// When a person is asked.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    /// Before every tool
    Always,
    /// Before none
    Never,
    /// As each tool says: before what writes or reaches out
    Tool,
}

/// Reads when a person is to be asked.
pub(crate) fn asking(text: &str) -> Result<Asking, String> {
    let when = When::from_str(text, true).map_err(|_| format!("{text:?} is not when: expected always, tool or never"))?;
    Ok(match when {
        When::Always => Asking::Always,
        When::Never => Asking::Never,
        When::Tool => Asking::Tool,
    })
}

impl ToolArgs {
    fn asking(&self, agent: AgentAsking) -> Asking {
        match (self.ask, agent) {
            (Some(When::Always), _) | (None, AgentAsking::Always) => Asking::Always,
            (Some(When::Never), _) => Asking::Never,
            // A vault may come from anywhere: its word alone lets nothing run unasked.
            (Some(When::Tool), _) | (None, AgentAsking::Never | AgentAsking::Tool) => Asking::Tool,
        }
    }

    /// Opens the notes for the search and gets the tools ready, servers included.
    pub(crate) fn workbench(
        &self,
        root: &Path,
        servers: Vec<ServerSpec>,
        asking: AgentAsking,
        find: Find,
        window: Tokens,
        session: &str,
    ) -> Result<(Workbench, Stop)> {
        let (places, stop) = (places()?, stop());
        let corpus = Corpus::open(root, &places, TimeZone::system())?;
        let meaning = Meaning::new(&places.models, if find == Find::Fetched { Fetch::Allowed } else { Fetch::Never });
        if find == Find::Fetched
            && let Err(why) = meaning.load(&mut progress::fetching("the embedding model"))
        {
            note(format!("the notes are searched by words alone: {why}"));
        }
        let desk = Desk::new(Arc::new(Mutex::new(corpus)), Arc::new(meaning), places, Zoned::now);
        let store = root.join(STORE);
        let outputs = Box::new(move |hash: Hash| Sqlite::open_existing(&store).ok()?.text(hash).ok());
        let mut configs = Vec::new();
        for server in trusted(root, servers, self.trust_servers)? {
            match server_config(&server, &|name| std::env::var(name).ok()) {
                Ok(config) => configs.push(config),
                Err(why) => note(shown(&format!("the tool server {} was not started: {why}", server.name))),
            }
        }
        let mut own = own_tools(&desk, outputs);
        own.push(Box::new(Recall::of_session(&desk, root.join(STORE), session)));
        let toolbox = Toolbox::new(own, configs, self.asking(asking), approver());
        for problem in toolbox.problems() {
            note(shown(&format!("tool server {}: {}", problem.server, problem.message)));
        }
        Ok((Workbench::new(desk, toolbox, Arc::clone(&stop), window), stop))
    }
}

/// How notes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Find {
    /// By meaning too: the model for it is fetched where it is not here.
    Fetched,
    /// With what is here.
    AsIs,
}

impl Find {
    /// Only where every turn searches is it worth a fetch.
    pub(crate) fn in_mode(self, mode: Mode) -> Self {
        if mode == Mode::Qa { self } else { Self::AsIs }
    }
}

/// Tells a session of tools that came or went since it was last told.
pub(crate) fn update(kept: &mut Kept, bench: &mut Workbench) -> Result<()> {
    if kept.setup().is_embedded() {
        return Ok(());
    }
    let agent = bench.equip(kept.session().agent());
    if agent.tools != kept.session().agent().tools {
        kept.change_agent(agent, now_ms()).context("the tools of this session cannot be brought up to date")?;
    }
    Ok(())
}

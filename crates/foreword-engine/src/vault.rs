//! Opens vaults and lists their agents.

use std::path::Path;

use foreword_vault::agents::{self, OnDisk};

pub use foreword_core::catalog::{Agent, CatalogBody, Catalogued, Include};
pub use foreword_core::item::ItemId;
pub use foreword_vault::attach::Attachment;
pub use foreword_vault::folder::{FileKind, OpenError, Problem, ReadError, Text};
pub use foreword_vault::index::{Changes, Listed, Vault};
pub use foreword_vault::tree::{Show, Tree};
pub use foreword_vault::watch::{WatchError, Watched, Watcher};

use foreword_trust::places::Places;

/// Opens the vault at `root`, using the cached index if it is still valid.
pub fn open(root: &Path, places: &Places) -> Result<Vault, OpenError> {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let opened = Vault::open(&root, Some(&places.vault(&root)))?;
    // Where the listing cannot be kept, opening takes longer the next time: nothing to stop for.
    let _ = opened.vault.save();
    Ok(opened.vault)
}

/// The system prompt of the default agent.
const PLAIN: &str = "You help a person with their notes. Answer from the notes you are given; where they do not say, say so.";

/// Loads an agent with the problems in its files; the default agent without a name. `None` if there is no such agent.
pub fn agent(root: &Path, name: Option<&str>) -> Option<(Agent, Vec<Problem>)> {
    let Some(name) = name else {
        return Some((Agent { system_prompt: PLAIN.to_owned(), ..Agent::default() }, Vec::new()));
    };
    let files = OnDisk::new(root).ok()?;
    let found = agents::list(&files).into_iter().find(|found| found.name == name)?;
    let loaded = agents::load(&files, &found);
    let problems = loaded.problems.into_iter().map(|problem| Problem::new(problem.file, problem.what)).collect();
    Some((loaded.agent, problems))
}

/// An agent of a vault.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct AgentInfo {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: Option<String>,
    /// Its preferred model.
    pub model: Option<String>,
}

/// The agents of a vault, sorted by name.
pub fn agents(root: &Path) -> Vec<AgentInfo> {
    let Ok(files) = OnDisk::new(root) else { return Vec::new() };
    let mut all: Vec<AgentInfo> = agents::list(&files)
        .into_iter()
        .map(|found| {
            let loaded = agents::load(&files, &found);
            AgentInfo { name: found.name, description: loaded.description, model: loaded.model }
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

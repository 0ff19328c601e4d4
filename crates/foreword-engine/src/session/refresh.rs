//! What changed in the vault since a session took it in: notes that the prompt holds, the agent's files, the project.

use foreword_core::catalog::{Agent, Include};
use foreword_core::item::ItemId;
use foreword_core::session::{Input, InputError, TurnInput};
use foreword_core::tokens::Tokens;
use foreword_core::version::Version;
use foreword_vault::attach::{Attachment, Limits};
use foreword_vault::helpers::Own;
use foreword_vault::index::Vault;
use jiff::Zoned;

use super::recorded::RecordedSession;
use crate::prepare::{PrepareError, Prepared, Wanted, prepare};
use foreword_templates::Shelf;
use foreword_trust::places::Places;

/// Adds to a turn the notes of the prompt that changed, and names those that are gone. Each is said in words.
pub fn refresh_notes(kept: &RecordedSession, vault: &Vault, turn: &mut TurnInput, now: &Zoned) -> Vec<String> {
    let own = Own::new(vault, now.clone());
    let mut told = Vec::new();
    for held in kept.session().notes_in_prompt() {
        if turn.attached.iter().any(|attached| attached.id == held.id) {
            continue;
        }
        let path = held.id.name();
        if vault.get(path).is_none() && vault.file(path).is_none() {
            turn.gone.push(held.id.clone());
            if !kept.session().is_removed(&held.id) {
                told.push(format!("{path} is no longer in the vault; the model is told that its text may be out of date"));
            }
            continue;
        }
        let attachment = Attachment::File { target: path.to_owned(), part: None };
        let found = vault.attach(&attachment, now, Limits::default(), &own);
        // What cannot be read now stays as it is.
        if let Some(version) = found.versions.into_iter().find(|version| version.id == held.id && version.hash != held.hash) {
            told.push(format!("{path} changed since it was sent; this question brings its new text"));
            turn.refreshed.push(version);
        }
    }
    told
}

/// The agent of a session as its files and its project are now, with what changed in words; none where nothing did. Memory and tools stay
/// as they are.
pub async fn changed_agent(
    kept: &RecordedSession,
    vault: &Vault,
    places: &Places,
    shelf: &Shelf,
    now: &Zoned,
) -> Result<Option<(Agent, Vec<String>)>, PrepareError> {
    let (setup, old) = (kept.setup(), kept.session().agent());
    if setup.client || (setup.agent.is_none() && setup.project.is_none()) {
        return Ok(None);
    }
    let room = Tokens(setup.model.window.0 / 2);
    let wanted = Wanted { agent: setup.agent.as_deref(), project: setup.project.as_deref(), room };
    let Prepared { mut agent, .. } = prepare(vault, wanted, places, now).await?;
    if let Some(template) = setup.template.as_deref().and_then(|name| shelf.find(name).ok()) {
        template.instruct(&mut agent);
    }
    let project = if setup.project.is_some() { agent.project } else { old.project.clone() };
    let new = Agent { memory: old.memory.clone(), servers: old.servers.clone(), tools: old.tools.clone(), project, ..agent };
    let changes = changes(old, &new, setup.project.as_deref());
    Ok((!changes.is_empty()).then_some((new, changes)))
}

/// What differs between two agents, in words.
fn changes(old: &Agent, new: &Agent, project: Option<&str>) -> Vec<String> {
    let mut told = Vec::new();
    if old.system_prompt != new.system_prompt {
        told.push("the agent's system prompt changed".to_owned());
    }
    if old.project != new.project {
        told.push(format!("the project {} changed", project.unwrap_or_default()));
    }
    let hash = |agent: &Agent, id: &ItemId| agent.find(id).map(|item| Version::catalogued(&item).hash);
    let ids = |agent: &Agent| agent.items().into_iter().map(|item| item.id).collect::<Vec<_>>();
    for id in ids(new) {
        match hash(old, &id) {
            None => told.push(format!("{id} is new")),
            was if was != hash(new, &id) => told.push(format!("{id} changed")),
            _ => {}
        }
    }
    let gone = ids(old).into_iter().filter(|id| hash(new, id).is_none());
    told.extend(gone.map(|id| format!("{id} is gone")));
    told
}

impl RecordedSession {
    /// Goes on with other files of its agent. What joins every session from now on joins this one.
    pub fn replace_agent(&mut self, agent: Agent, at_ms: i64) -> Result<(), InputError> {
        let old = self.session().agent().clone();
        if agent == old {
            return Ok(());
        }
        self.change_agent(agent, at_ms)?;
        let was = |id: &ItemId| old.find(id).is_some_and(|item| item.include == Include::Always);
        let items = self.session().agent().items().into_iter();
        let always = items.filter(|item| item.include == Include::Always).map(|item| item.id);
        let joining: Vec<ItemId> = always.filter(|id| !was(id)).collect();
        for id in joining {
            if !self.session().included().iter().any(|(member, _)| *member == id) {
                self.tell(Input::Add(id), at_ms)?;
            }
        }
        Ok(())
    }
}

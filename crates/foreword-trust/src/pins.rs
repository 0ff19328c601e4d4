//! Accepted tools of servers, stored with the decisions about the vault.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use foreword_core::hash::Hash;
use foreword_tools::{PinnedTool, Pins, SessionPins};
use foreword_vault::agents::ServerSpec;

use super::VaultTrust;
use super::record::{self, PinnedServer, Record, TrustError};
use crate::audit::{Audit, AuditEvent};
use crate::places::Places;

/// The pins of an agent's servers. A server whose entry changed is another one: its tools are accepted with the new entry.
#[derive(Clone, Debug)]
pub struct StoredPins {
    root: PathBuf,
    places: Places,
    agent: String,
    /// The hash of each server's entry.
    entries: BTreeMap<String, Hash>,
    /// Servers that run because the user's record says so.
    decided: Vec<ServerSpec>,
    /// Tools accepted in this session, even if storing them failed.
    accepted: SessionPins,
}

impl StoredPins {
    /// Of an agent in the vault at `root`.
    pub fn new(places: &Places, root: &Path, agent: &str, servers: &[ServerSpec]) -> Self {
        let trust = VaultTrust::open_or_restricted(places, root);
        let decided = servers.iter().filter(|spec| trust.server(agent, spec).is_some()).cloned().collect();
        Self {
            root: trust.root,
            places: places.clone(),
            agent: agent.to_owned(),
            entries: servers.iter().map(|server| (server.name.clone(), Hash::of(server.canonical()))).collect(),
            decided,
            accepted: SessionPins::default(),
        }
    }

    fn id(&self, server: &str) -> String {
        format!("{}/{server}", self.agent)
    }

    fn stored(&self, server: &str) -> Option<PinnedServer> {
        let entry = self.entries.get(server)?;
        let mut record = Record::load(&record::file(&self.places, &self.root), &self.root).ok()?;
        record.pins.remove(&self.id(server)).filter(|pinned| pinned.entry == *entry)
    }

    fn keep(&self, server: &str, tool: &str, pinned: &PinnedTool) -> Result<(), TrustError> {
        let Some(entry) = self.entries.get(server).copied() else { return Ok(()) };
        let audit = Audit::new(&self.places.state);
        let event = AuditEvent::Pinned {
            vault: self.root.display().to_string(),
            tool: format!("{server}/{tool}"),
            sha256: pinned.sha256.clone(),
        };
        audit.record(event).map_err(|error| TrustError::File { file: audit.file().to_owned(), error })?;
        Record::update(&record::file(&self.places, &self.root), &self.root, |record| {
            let known = record.pins.entry(self.id(server)).or_insert_with(|| PinnedServer::new(entry));
            if known.entry != entry {
                *known = PinnedServer::new(entry);
            }
            known.tools.insert(tool.to_owned(), pinned.text.clone());
        })?;
        Ok(())
    }
}

impl Pins for StoredPins {
    fn knows(&self, server: &str) -> bool {
        self.accepted.knows(server) || self.stored(server).is_some()
    }

    fn get(&self, server: &str, tool: &str) -> Option<PinnedTool> {
        let stored = || self.stored(server)?.tools.remove(tool).map(PinnedTool::from_text);
        self.accepted.get(server, tool).or_else(stored)
    }

    fn may_run(&self, server: &str) -> bool {
        let spec = self.decided.iter().find(|spec| spec.name == server);
        spec.is_none_or(|spec| VaultTrust::open_or_restricted(&self.places, &self.root).server(&self.agent, spec).is_some())
    }

    fn put(&mut self, server: &str, tool: &str, pinned: PinnedTool) {
        // Where it cannot be kept, it holds for this session; the next one pins what the server offers then.
        let _ = self.keep(server, tool, &pinned);
        self.accepted.put(server, tool, pinned);
    }
}

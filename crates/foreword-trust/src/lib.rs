//! Workspace trust. A vault may be untrusted: nothing in it is executed, sent or used as an instruction until the user has seen its
//! effect and allowed it. Decisions are stored outside of the vault and apply to exactly the content that was shown.
//!
//! `claim` lists what a vault asks for, `record` stores the user's decisions, `state` distinguishes the user's own `.foreword`
//! folder from one that came with the vault, `pins` stores accepted tools of servers.

pub mod audit;
mod claim;
pub mod memory;
mod pins;
pub mod places;
pub mod private;
pub mod projects;
mod record;
mod state;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use foreword_core::hash::Hash;
use foreword_text::diff;
use foreword_tools::sandbox;
use foreword_tools::write::NoteFolder;
use foreword_vault::agents::ServerSpec;
use foreword_vault::attach::Attachment;
use foreword_vault::index::Vault;
use serde::{Deserialize, Serialize};

use crate::audit::{Audit, AuditEvent};
use crate::places::Places;

pub use claim::{Claim, ClaimKind};
pub use pins::StoredPins;
pub use record::{Decision, Grants, PinnedServer, Record, TrustError};
pub use state::StateFolder;

/// The user's decisions about one vault.
#[derive(Clone, Debug)]
pub struct VaultTrust {
    root: PathBuf,
    places: Places,
    record: Record,
}

/// The state of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum Standing {
    /// The user allowed exactly this.
    Allowed {
        /// What its program may reach.
        grants: Grants,
    },
    /// The user declined this content.
    Declined,
    /// The user has not seen it.
    New,
    /// The user decided about other content under this id.
    Changed {
        /// A unified diff from what was decided to what there is.
        diff: String,
    },
}

impl Standing {
    /// Whether the user has not decided.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::New | Self::Changed { .. })
    }
}

/// A claim with its state, for JSON.
#[derive(Clone, Debug, Serialize)]
pub struct ClaimView {
    /// The claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// What a decision is bound to.
    pub sha256: Hash,
    /// Its state.
    #[serde(flatten)]
    pub standing: Standing,
}

impl From<(Claim, Standing)> for ClaimView {
    fn from((claim, standing): (Claim, Standing)) -> Self {
        Self { sha256: claim.hash(), claim, standing }
    }
}

/// The user's answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The claim.
    pub id: String,
    /// The hash of the content that was shown.
    pub sha256: Hash,
    /// Whether it is allowed.
    pub allowed: bool,
    /// What a program may reach.
    #[serde(default)]
    pub grants: Grants,
}

impl VaultTrust {
    /// The decisions about the vault at `root`.
    pub fn open(places: &Places, root: &Path) -> Result<Self, TrustError> {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let record = Record::load(&record::file(places, &root), &root)?;
        Ok(Self { root, places: places.clone(), record })
    }

    /// The same; where they cannot be read, none: the vault is restricted.
    pub fn open_or_restricted(places: &Places, root: &Path) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let record = Record::load(&record::file(places, &root), &root).unwrap_or_else(|_| Record::new(&root));
        Self { root, places: places.clone(), record }
    }

    /// Everything in the vault that waits for the user or that the user has decided about.
    pub fn claims(&self, vault: &Vault) -> Vec<(Claim, Standing)> {
        let claims = claim::all(vault).into_iter().chain(state::claim(&self.root, &self.record));
        claims.map(|claim| (claim.clone(), self.standing(&claim))).collect()
    }

    /// The state of a claim.
    pub fn standing(&self, claim: &Claim) -> Standing {
        match self.record.decisions.get(&claim.id) {
            None => Standing::New,
            Some(decision) if decision.sha256 == claim.hash() => {
                if !decision.allowed {
                    Standing::Declined
                } else if claim.kind == ClaimKind::State {
                    // State that was allowed got a mark of its own; this is another folder.
                    Standing::New
                } else {
                    Standing::Allowed { grants: decision.grants }
                }
            }
            Some(decision) => {
                let diff = diff::unified(&decision.content, &claim.content, &claim.file);
                let diff = diff.unwrap_or_else(|| "the content changed; it is too large for a diff".to_owned());
                Standing::Changed { diff }
            }
        }
    }

    fn allowed(&self, claim: &Claim) -> Option<Grants> {
        self.record.decision(claim).filter(|decision| decision.allowed).map(|decision| decision.grants)
    }

    /// What a tool server may reach, where the user lets it run exactly as it is configured.
    pub fn server(&self, agent: &str, spec: &ServerSpec) -> Option<Grants> {
        self.allowed(&claim::server(&self.root, agent, "", spec))
    }

    /// Whether these pages of a project may be fetched.
    pub fn project_pages(&self, name: &str, attachments: &[Attachment]) -> bool {
        claim::project(name, "", attachments).is_none_or(|claim| self.allowed(&claim).is_some())
    }

    /// The hosts that pages may be fetched from although they are not public.
    pub fn internal_hosts(&self, vault: &Vault) -> Vec<String> {
        let hosts = &vault.config().web_allow;
        let allowed = claim::internal_hosts(hosts).is_some_and(|claim| self.allowed(&claim).is_some());
        if allowed { hosts.clone() } else { Vec::new() }
    }

    /// The vault's templates that may be used: the file, and the hash of its text.
    pub fn templates(&self) -> BTreeSet<(String, Hash)> {
        let allowed = self.record.decisions.iter().filter(|(_, decision)| decision.allowed);
        allowed.filter_map(|(id, decision)| Some((claim::template_path(id)?.to_owned(), decision.sha256))).collect()
    }

    /// Whether the memory file and rule files may add instructions to prompts.
    pub fn instructions(&self, vault: &Vault) -> bool {
        claim::instructions(vault).is_some_and(|claim| self.allowed(&claim).is_some())
    }

    /// Where the state of the vault is, or would be.
    pub fn state(&self) -> StateFolder {
        state::folder(&self.places, &self.root, &self.record)
    }

    /// The same folder, made where it is not there yet.
    pub fn make_state(&self) -> Result<StateFolder, TrustError> {
        state::make(&self.places, &self.root)
    }

    /// The notes, open for writing. Old versions are stored with the vault's trusted state.
    pub fn note_folder(&self) -> Result<NoteFolder, TrustError> {
        Ok(NoteFolder::new(&self.root, &self.make_state()?.path))
    }

    /// The location of state while the vault's own folder is not used.
    pub fn outside_state(&self) -> StateFolder {
        StateFolder { path: state::outside(&self.places, &self.root), outside: true }
    }

    /// Moves sessions from outside into the vault, if its own state is used. Returns how many were moved, and how many were not
    /// because the vault has a session with the same ID.
    pub fn bring_in_sessions(&self) -> Result<(usize, usize), TrustError> {
        let outside = self.outside_state();
        if self.state().outside || !outside.store().exists() {
            return Ok((0, 0));
        }
        // The folder has its mark before anything is put into it.
        state::bring_in(&outside, &self.make_state()?)
    }

    /// Keeps the user's answers. Nothing is decided about what changed since it was shown.
    pub fn decide(&mut self, vault: &Vault, verdicts: &[Verdict]) -> Result<(), TrustError> {
        let claims = self.claims(vault);
        // Whether the question said that there is no sandbox.
        let unconfined = sandbox::availability().is_err();
        let verdicts: Vec<Verdict> = verdicts
            .iter()
            .map(|verdict| Verdict { grants: Grants { unconfined, ..verdict.grants }, ..verdict.clone() })
            .collect();
        let mut decided = Vec::new();
        for verdict in &verdicts {
            let claim = claims.iter().map(|(claim, _)| claim).find(|claim| claim.id == verdict.id);
            match claim.filter(|claim| claim.hash() == verdict.sha256) {
                Some(claim) => decided.push((claim.clone(), verdict)),
                None => return Err(TrustError::Changed(verdict.id.clone())),
            }
        }
        self.keep(&decided)
    }

    /// Allows what the user has just written through this program: there is nothing to ask.
    pub fn allow_own_change(&mut self, vault: &Vault, file: &str) -> Result<(), TrustError> {
        let claims = claim::all(vault).into_iter().filter(|claim| claim.file == file);
        let claims: Vec<Claim> = claims.filter(|claim| self.allowed(claim).is_none()).collect();
        let verdicts: Vec<(Claim, Verdict)> = claims
            .into_iter()
            .map(|claim| {
                let (id, sha256) = (claim.id.clone(), claim.hash());
                let grants = self.record.decisions.get(&id).map(|decision| decision.grants).unwrap_or_default();
                (claim, Verdict { id, sha256, allowed: true, grants })
            })
            .collect();
        let decided: Vec<(Claim, &Verdict)> = verdicts.iter().map(|(claim, verdict)| (claim.clone(), verdict)).collect();
        if decided.is_empty() { Ok(()) } else { self.keep(&decided) }
    }

    fn keep(&mut self, decided: &[(Claim, &Verdict)]) -> Result<(), TrustError> {
        let file = record::file(&self.places, &self.root);
        // The log comes first: no decision holds without its line.
        for (claim, verdict) in decided {
            let (vault, what) = (self.root.display().to_string(), claim.title.clone());
            self.log(if verdict.allowed {
                AuditEvent::Trusted { vault, what, sha256: claim.hash().to_string() }
            } else {
                AuditEvent::Revoked { vault, what }
            })?;
        }
        let root = self.root.clone();
        let (record, adopted) = Record::update(&file, &root, |record| {
            let mut adopted = Ok(());
            for (claim, verdict) in decided {
                if claim.kind == ClaimKind::State && verdict.allowed {
                    adopted = state::adopt(&root, record);
                    if adopted.is_err() {
                        continue;
                    }
                }
                let decision = Decision {
                    allowed: verdict.allowed,
                    sha256: claim.hash(),
                    content: claim.content.clone(),
                    at: foreword_provider::clock::now(),
                    grants: if claim.program && verdict.allowed { verdict.grants } else { Grants::default() },
                };
                record.decisions.insert(claim.id.clone(), decision);
            }
            adopted
        })?;
        self.record = record;
        adopted.map_err(|error| TrustError::File { file: self.root.join(state::FOLDER), error })
    }

    /// Forgets all decisions about the vault, and that its state is the user's.
    pub fn revoke(&mut self) -> Result<(), TrustError> {
        let allowed = self.record.decisions.values().any(|decision| decision.allowed);
        if allowed || self.record.state_id.is_some() {
            let vault = self.root.display().to_string();
            self.log(AuditEvent::Revoked { vault, what: "everything".to_owned() })?;
        }
        let root = self.root.clone();
        let file = record::file(&self.places, &root);
        self.record = Record::update(&file, &root, |record| *record = Record::new(&root))?.0;
        Ok(())
    }

    /// The user's decisions.
    pub fn record(&self) -> &Record {
        &self.record
    }

    fn log(&self, event: AuditEvent) -> Result<(), TrustError> {
        let audit = Audit::new(&self.places.state);
        audit.record(event).map_err(|error| TrustError::File { file: audit.file().to_owned(), error })
    }
}

/// The records of all vaults, by folder.
pub fn list(places: &Places) -> Result<Vec<Record>, TrustError> {
    let folder = record::folder(places);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(TrustError::File { file: folder, error }),
    };
    let mut records = Vec::new();
    for entry in entries.flatten() {
        let file = entry.path();
        if file.extension().is_some_and(|ending| ending == "json") {
            let text = crate::private::read(&file).map_err(|error| TrustError::File { file: file.clone(), error })?;
            let record = serde_json::from_str(&text.unwrap_or_default());
            records.push(record.map_err(|error: serde_json::Error| TrustError::Damaged { file, error: error.to_string() })?);
        }
    }
    records.sort_by(|a: &Record, b: &Record| a.vault.cmp(&b.vault));
    Ok(records)
}

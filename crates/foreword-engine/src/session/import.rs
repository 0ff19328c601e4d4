//! Imports a conversation from a file as a session.

use std::path::Path;

use foreword_core::catalog::Agent;
use foreword_core::hash::Hash;
use foreword_core::version::Version;
use foreword_store::{Store, StoreError, Write};
use foreword_vault::attach::{Attachment, Limits};
use foreword_vault::helpers::Own;
use foreword_vault::index::Vault;
use foreword_vault::transcript::{Context, Entry, Kind as WarningKind, Role, Warning};
use jiff::{Timestamp, Zoned};

use super::chronicle::{Line, entries};
use super::open::OpenSessionError;
use super::recorded::RecordedSession;
use super::setup::Setup;
use foreword_vault_tools::chats::Imported;

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenIn {
    /// The session.
    pub session: String,
    /// Whether the session existed already and is unchanged.
    pub known: bool,
}

/// Makes a session of a conversation. The same file leads to the same session, however often it is taken in.
///
/// `models` is the folder of local models, whose tokenizers the setup may need.
pub fn take_in(
    store: Box<dyn Store>,
    imported: &Imported,
    agent: &Agent,
    setup: Setup,
    models: Option<&Path>,
) -> Result<TakenIn, OpenSessionError> {
    let session = name(imported);
    let begun = match store.session(&session) {
        Ok(row) if row.counts.inputs > 0 => return Ok(TakenIn { session, known: true }),
        Ok(_) => true, // a program that was killed left it empty
        Err(StoreError::NoSession(_)) => false,
        Err(error) => return Err(error.into()),
    };
    let ours = &imported.transcript;
    let times = ours.messages.iter().filter_map(|entry| entry.time.map(Timestamp::as_millisecond));
    let last = times.max().unwrap_or(ours.epoch_ms);
    let setup = Setup { settings: foreword_core::settings::Settings { session: session.clone(), ..setup.settings }, ..setup };
    let mut kept = if begun {
        RecordedSession::open(store, &session, models, None)?
    } else {
        RecordedSession::begin(store, &session, agent, &setup, models, None, ours.epoch_ms)?
    };
    let lines: Vec<Line> = ours.messages.iter().cloned().map(Line::from).collect();
    let first = ours.messages.iter().find(|entry| entry.role == Role::User).map(|entry| entry.text.as_str());
    let title = ours.topic.clone().unwrap_or_else(|| foreword_vault::transcript::topic(first.unwrap_or_default()));
    let saved = serde_json::to_value(&imported.saved).ok();
    kept.write(std::iter::once(Write::Title(title)).chain(saved.map(Write::Transcript)));
    kept.import(lines, last).map_err(|error| OpenSessionError::Input(session.clone(), error))?;
    match kept.take_failures().into_iter().next() {
        Some(failure) => Err(StoreError::Refused(failure.0).into()),
        None => Ok(TakenIn { session, known: false }),
    }
}

/// The session ID of a file: its own, or one derived from its time and beginning.
fn name(imported: &Imported) -> String {
    let ours = &imported.transcript;
    let is_name = |id: &&String| {
        !id.is_empty()
            && id.as_str() != "last"
            && id.len() <= 64
            && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    if let Some(id) = ours.session.as_ref().filter(is_name) {
        return id.clone();
    }
    let said: Vec<&str> = ours.messages.iter().take(2).map(|entry| entry.text.as_str()).collect();
    foreword_store::session_id(u64::from_le_bytes(first_bytes(Hash::of(format!("{}\n{}", ours.epoch_ms, said.join("\n"))))))
}

fn first_bytes(hash: Hash) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.bytes()[..8]);
    bytes
}

/// The current texts of an imported conversation's attachments, if the session has had no turn since.
pub fn library_of(kept: &RecordedSession, vault: &Vault, now: &Zoned) -> Result<Vec<Version>, StoreError> {
    if kept.counts().requests > 0 || kept.session().turns() == 0 {
        return Ok(Vec::new());
    }
    let own = Own::new(vault, now.clone());
    let mut versions: Vec<Version> = Vec::new();
    let said: Vec<Entry> = entries(kept.store(), kept.id())?;
    for path in said.iter().flat_map(|entry| &entry.context.notes) {
        if versions.iter().any(|version| version.id.name() == path) {
            continue;
        }
        // A note that is gone by now is simply not there.
        if let Ok(attachment) = vault.attachment(path) {
            let found = vault.attach(&attachment, now, Limits::default(), &own);
            versions.extend(found.versions.into_iter().filter(|version| version.id.name() == path));
        }
    }
    for attachment in said.iter().flat_map(|entry| groups(&entry.context)) {
        for version in vault.attach(&attachment, now, Limits::default(), &own).versions {
            if !versions.iter().any(|known| known.id == version.id) {
                versions.push(version);
            }
        }
    }
    Ok(versions)
}

/// The tags and folders that were attached.
fn groups(context: &Context) -> impl Iterator<Item = Attachment> {
    let tags = context.tags.iter().map(|tag| Attachment::Tag(tag.trim_start_matches('#').to_owned()));
    let folders = context.folders.iter().map(|folder| Attachment::Folder(folder.trim_matches('/').to_owned()));
    tags.chain(folders)
}

/// What of a chat's attachments [`library_of`] cannot bring back, in words for whoever takes the chat in.
pub fn not_brought_back(imported: &Imported, vault: &Vault, now: &Zoned) -> Vec<Warning> {
    let own = Own::new(vault, now.clone());
    let mut warnings = Vec::new();
    let mut warn = |number: usize, text: String| {
        warnings.push(Warning { kind: WarningKind::NotBroughtBack, text: format!("message {number}: {text}") });
    };
    for (number, entry) in (1..).zip(&imported.transcript.messages) {
        for attachment in groups(&entry.context) {
            let found = vault.attach(&attachment, now, Limits::default(), &own);
            if found.versions.is_empty() {
                let what = if let Attachment::Tag(_) = attachment { "tag" } else { "folder" };
                warn(number, format!("the {what} {attachment} is left out: the vault has no notes for it; attach what you need"));
            }
        }
        for url in entry.context.urls.iter().chain(&entry.context.web_tabs) {
            warn(
                number,
                format!("the page {url} is left out: nothing is fetched for a chat that is taken in; attach it to send it again"),
            );
        }
    }
    warnings
}

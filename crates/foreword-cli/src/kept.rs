//! Shared by the commands for sessions: the vault argument, and times as the user reads them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args as ClapArgs;
use foreword_engine::clock;
use foreword_engine::session::Sqlite;
use foreword_trust::VaultTrust;
use foreword_vault_tools::NoteFolder;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::paint::{note, shown};
use crate::places::places;
use crate::trust;

/// The vault that stores the sessions.
#[derive(ClapArgs)]
pub(crate) struct Vault {
    /// The folder of notes
    #[arg(long, value_name = "FOLDER", default_value = ".", global = true)]
    pub(crate) vault: PathBuf,
}

impl Vault {
    /// Opens the store; an error if it does not exist.
    pub(crate) fn store(&self) -> Result<Sqlite> {
        let state = VaultTrust::open(&places()?, &self.vault)?.state();
        trust::state_note(&state);
        Ok(Sqlite::open_existing(&state.store())?)
    }

    /// Opens the store, or creates it.
    pub(crate) fn make_store(&self) -> Result<Sqlite> {
        anyhow::ensure!(self.vault.is_dir(), "{} is not a folder", self.vault.display());
        let trust = VaultTrust::open(&places()?, &self.vault)?;
        let state = trust.make_state()?;
        trust::state_note(&state);
        if !state.outside {
            trust::bring_in(&VaultTrust::open(&places()?, &self.vault)?).unwrap_or_else(|error| note(shown(&error.to_string())));
        }
        Ok(Sqlite::open(&state.store())?)
    }

    /// The path of the store's database.
    pub(crate) fn store_file(&self) -> Result<PathBuf> {
        Ok(VaultTrust::open_or_restricted(&places()?, &self.vault).state().store())
    }

    /// The folder's canonical path.
    pub(crate) fn root(&self) -> Result<PathBuf> {
        self.vault.canonicalize().with_context(|| format!("Failed to open the folder {}", self.vault.display()))
    }
}

/// The notes of a vault, open for writing.
pub(crate) fn note_folder(root: &Path) -> Result<NoteFolder> {
    Ok(VaultTrust::open(&places()?, root)?.note_folder()?)
}

/// A time in the user's time zone.
pub(crate) fn moment(at_ms: i64) -> String {
    let Ok(time) = Timestamp::from_millisecond(at_ms) else { return "?".to_owned() };
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    clock::now().as_millisecond()
}

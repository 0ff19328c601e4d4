//! What the commands over sessions share: the vault they are kept in, times and sizes as people read them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args as ClapArgs;
use foreword_engine::session::{STORE, Sqlite};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Where sessions are kept.
#[derive(ClapArgs)]
pub(crate) struct Vault {
    /// The folder of notes whose sessions are meant
    #[arg(long, value_name = "FOLDER", default_value = ".", global = true)]
    pub(crate) vault: PathBuf,
}

impl Vault {
    /// Its store, which must be there.
    pub(crate) fn store(&self) -> Result<Sqlite> {
        Ok(Sqlite::open_existing(&file(&self.vault))?)
    }

    /// Its store; it is made where there is none.
    pub(crate) fn make_store(&self) -> Result<Sqlite> {
        anyhow::ensure!(self.vault.is_dir(), "{} is not a folder", self.vault.display());
        Ok(Sqlite::open(&file(&self.vault))?)
    }

    /// The folder without any `..` in it.
    pub(crate) fn root(&self) -> Result<PathBuf> {
        self.vault.canonicalize().with_context(|| format!("the folder {} cannot be opened", self.vault.display()))
    }
}

/// The store of a vault.
pub(crate) fn file(vault: &Path) -> PathBuf {
    vault.join(STORE)
}

/// A moment as the user's clock shows it.
pub(crate) fn moment(at_ms: i64) -> String {
    let Ok(time) = Timestamp::from_millisecond(at_ms) else { return "?".to_owned() };
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

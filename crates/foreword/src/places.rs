//! Where things are kept on this machine: the environment's word first, then the system's custom.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};
use etcetera::BaseStrategy as _;
use foreword_engine::places::Places;

pub(crate) const HELP: &str = "\
Environment:
  FOREWORD_CONFIG   the configuration (else foreword/config.toml in the user's configuration folder)
  FOREWORD_CACHE    where indexes, vectors and fetched pages are kept (else the user's cache folder)
  FOREWORD_MODELS   where model weights are kept (else `models` in the cache)
  FOREWORD_WEIGHTS_URL  a folder on an https server that weights are fetched from before pip is tried (else `[weights] url`)
  FOREWORD_STATE    where trust decisions, keys and the audit log are kept (else foreword in the user's state folder)
  NO_COLOR          no colours on the terminal";

fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The configuration, where it is or could be, and whether it must be there.
pub(crate) fn config_file() -> Result<(PathBuf, bool)> {
    if let Some(file) = named("FOREWORD_CONFIG") {
        return Ok((file, true));
    }
    let base = etcetera::choose_base_strategy()
        .context("the user's configuration folder cannot be found: set FOREWORD_CONFIG to a file")?;
    Ok((base.config_dir().join("foreword/config.toml"), false))
}

/// The folders that `FOREWORD_CACHE` and `FOREWORD_MODELS` name, or those in the user's cache folder.
pub(crate) fn places() -> Result<Places> {
    let cache = match named("FOREWORD_CACHE") {
        Some(folder) => folder,
        None => etcetera::choose_base_strategy()
            .context("the user's cache folder cannot be found: set FOREWORD_CACHE to a folder that may be written to")?
            .cache_dir()
            .join("foreword"),
    };
    let models = named("FOREWORD_MODELS").unwrap_or_else(|| cache.join("models"));
    Ok(Places { cache, models, state: state()? })
}

/// The folder that `FOREWORD_STATE` names, or the one in the user's state folder.
fn state() -> Result<PathBuf> {
    if let Some(folder) = named("FOREWORD_STATE") {
        return Ok(folder);
    }
    let base = etcetera::choose_base_strategy()
        .context("the user's state folder cannot be found: set FOREWORD_STATE to a folder that only you can write to")?;
    Ok(base.state_dir().unwrap_or_else(|| base.data_dir()).join("foreword"))
}

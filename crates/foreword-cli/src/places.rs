//! The folders and files the program uses: taken from the environment, or from the system's conventions.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};
use etcetera::BaseStrategy as _;
use foreword_trust::places::Places;

pub(crate) const HELP: &str = "\
Environment:
  FOREWORD_CONFIG       configuration file [default: foreword/config.toml in your configuration folder]
  FOREWORD_CACHE        indexes, embeddings and fetched pages [default: your cache folder]
  FOREWORD_MODELS       downloaded model files [default: `models` in the cache]
  FOREWORD_WEIGHTS_URL  https folder to download model files from before trying pip [default: `[weights] url`]
  FOREWORD_STATE        trust decisions, keys and the audit log [default: foreword in your state folder]
  NO_COLOR              disable colours";

fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The path of the configuration file, and whether it must exist.
pub(crate) fn config_file() -> Result<(PathBuf, bool)> {
    if let Some(file) = named("FOREWORD_CONFIG") {
        return Ok((file, true));
    }
    let base =
        etcetera::choose_base_strategy().context("Failed to find your configuration folder; set FOREWORD_CONFIG to a file")?;
    Ok((base.config_dir().join("foreword/config.toml"), false))
}

/// The folders that `FOREWORD_CACHE` and `FOREWORD_MODELS` name, or folders in the user's cache folder.
pub(crate) fn places() -> Result<Places> {
    let cache = match named("FOREWORD_CACHE") {
        Some(folder) => folder,
        None => etcetera::choose_base_strategy()
            .context("Failed to find your cache folder; set FOREWORD_CACHE to a writable folder")?
            .cache_dir()
            .join("foreword"),
    };
    let models = named("FOREWORD_MODELS").unwrap_or_else(|| cache.join("models"));
    Ok(Places { cache, models, state: state()? })
}

/// The folder that `FOREWORD_STATE` names, or `foreword` in the user's state folder.
fn state() -> Result<PathBuf> {
    if let Some(folder) = named("FOREWORD_STATE") {
        return Ok(folder);
    }
    let base = etcetera::choose_base_strategy()
        .context("Failed to find your state folder; set FOREWORD_STATE to a folder that only you can write to")?;
    Ok(base.state_dir().unwrap_or_else(|| base.data_dir()).join("foreword"))
}

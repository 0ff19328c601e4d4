//! `foreword acp`: an agent for editors.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Args as ClapArgs;
use foreword_server::{Answers, Limits, Reach};
use foreword_vault_tools::embedding::Fetch;

use crate::config;
use crate::model::ModelArgs;
use crate::paint::{note, shown};
use crate::places::places;
use crate::serve::allowed_servers;
use crate::settings::SettingsArgs;
use crate::templates;

pub(crate) const LONG_ABOUT: &str = "\
Run as an agent in an editor over the Agent Client Protocol (ACP): Zed, JetBrains, Neovim, Emacs and others start it and speak to it on \
standard input and output. `foreword setup` adds it to the editors on this machine.

Sessions are the same as in `foreword chat` and on the page of `foreword serve`: what begins in the editor can go on there. Without VAULT, the \
folder that is open in the editor is the vault.

A note is changed only after the editor has shown the change and you have allowed it.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword acp ~/Notes
  foreword acp --model claude-sonnet-5
  acpx --agent \"foreword acp examples/vault\" exec \"Why was the loaf flat?\"";

/// Options of `foreword acp`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The folder of notes [default: the folder that is open in the editor]
    vault: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let vault = match &args.vault {
        Some(vault) => {
            anyhow::ensure!(vault.is_dir(), "{} is not a folder", vault.display());
            Some(vault.canonicalize().with_context(|| format!("Failed to open the folder {}", vault.display()))?)
        }
        None => None,
    };
    let configuration = config::load()?;
    args.model.prepare(&args.model.choose(&configuration)?)?;
    args.model.remember_address()?;
    let places = places()?;
    let mirror = config::weights_mirror()?;
    let answers = Answers {
        config: configuration,
        is_set: config::is_set,
        model: args.model.model.clone(),
        base_url: args.model.base_url.clone(),
        window: args.model.window,
        script: args.model.script.clone(),
        settings: args.settings.read()?,
    };
    let prepare = move |vault: &Path| {
        Ok(foreword_server::Config {
            vault: vault.to_owned(),
            places: places.clone(),
            // Standard output belongs to the protocol; notes go to standard error.
            weights: Fetch::InBackground { mirror: mirror.clone(), tell: |line| note(shown(&line)) },
            templates: templates::user_folder(),
            answers: answers.clone(),
            servers: allowed_servers,
            reach: Reach::Open,
            limits: Limits::default(),
            level: None,
        })
    };
    let config = foreword_acp::Config { vault, prepare: Arc::new(prepare) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().max_blocking_threads(64).build()?;
    runtime.block_on(foreword_acp::serve_stdio(config))?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

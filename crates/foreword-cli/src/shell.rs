//! `foreword completions` and `foreword man`: what shells and `man` know about this program, from its own definitions.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args as ClapArgs, Command};
use clap_complete::Shell;

use crate::terminal;

pub(crate) const COMPLETIONS_AFTER_HELP: &str = "\
Examples:
  foreword completions bash > ~/.local/share/bash-completion/completions/foreword
  foreword completions zsh > ~/.zfunc/_foreword
  foreword completions fish > ~/.config/fish/completions/foreword.fish
  foreword completions powershell >> $PROFILE";

pub(crate) const MAN_AFTER_HELP: &str = "\
Examples:
  foreword man | man -l -
  foreword man --all ~/.local/share/man/man1";

/// Options of `foreword completions`.
#[derive(ClapArgs)]
pub(crate) struct CompletionArgs {
    /// The shell
    shell: Shell,
}

/// Options of `foreword man`.
#[derive(ClapArgs)]
pub(crate) struct ManArgs {
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "FOLDER")]
    all: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionArgs, mut program: Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "foreword", &mut script);
    terminal::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs, program: Command) -> Result<ExitCode> {
    let Some(folder) = &args.all else {
        let mut page = Vec::new();
        clap_mangen::Man::new(program).render(&mut page)?;
        terminal::stdout().write_all(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    fs::create_dir_all(folder).with_context(|| format!("Failed to create {}", folder.display()))?;
    clap_mangen::generate_to(program, folder).with_context(|| format!("Failed to write into {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

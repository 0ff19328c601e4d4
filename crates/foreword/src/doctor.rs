//! `foreword doctor`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args as ClapArgs;
use foreword_engine::config::Config;
use foreword_engine::doctor::{Check, Network, Patient, Verdict};

use crate::config::{self, is_set};
use crate::paint::{Paint, shown};
use crate::places::{config_file, places};
use crate::terminal;

pub(crate) const LONG_ABOUT: &str = "\
Check everything that a session needs: the weights on this machine, the configuration, keys, providers, the vault, its agents' tool servers, \
and the store. Each line says what was found and what to do. Nothing is changed and no key is shown; providers are asked for their list of models, \
which costs nothing, unless --offline is given.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword doctor
  foreword doctor ~/Notes --offline
Exit codes: 0 nothing is broken; 1 something is.";

/// Options of `foreword doctor`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The folder of notes
    #[arg(default_value = ".")]
    vault: PathBuf,
    /// Do not ask any provider
    #[arg(long)]
    offline: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let places = places()?;
    let mut failed = false;
    // Whoever stopped reading has seen enough.
    let mut tell = |check: Check| {
        failed |= check.verdict == Verdict::Fail;
        let _ = show(&check, args.json);
    };
    let (checked, config) = configuration()?;
    tell(checked);
    let path = std::env::var_os("PATH");
    let patient = Patient {
        config: &config,
        places: &places,
        vault: &args.vault,
        path: path.as_deref(),
        is_set: &is_set,
        network: if args.offline { Network::LeftAlone } else { Network::Asked },
    };
    patient.examine(&mut tell);
    Ok(ExitCode::from(u8::from(failed)))
}

/// The configuration; where it cannot be used, the built-in one is looked at instead.
fn configuration() -> Result<(Check, Config)> {
    let (file, _) = config_file()?;
    let name = file.display().to_string();
    match config::load() {
        Ok(config) if file.is_file() => Ok((Check::ok("config", name, "can be used"), config)),
        Ok(config) => Ok((Check::ok("config", name, "is not there; nothing needs it"), config)),
        Err(error) => {
            let advice = "correct it; every command that needs it stops there";
            Ok((Check::fail("config", name, format!("{error:#}"), advice), Config::builtin()?))
        }
    }
}

fn show(check: &Check, as_json: bool) -> io::Result<()> {
    let mut out = terminal::stdout();
    if as_json {
        return writeln!(out, "{}", serde_json::to_string(check)?);
    }
    let paint = Paint::stdout();
    let (word, colour) = match check.verdict {
        Verdict::Ok => ("ok  ", "32"),
        Verdict::Warn => ("warn", "33"),
        Verdict::Fail => ("FAIL", "31"),
    };
    let name = paint.with("1", shown(&check.name));
    writeln!(out, "{} {:<9} {name}: {}", paint.with(colour, word), check.area, shown(&check.found))?;
    if let Some(advice) = &check.advice {
        writeln!(out, "     {:<9} → {}", "", shown(advice))?;
    }
    Ok(())
}

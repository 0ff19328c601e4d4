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
Check everything a session needs: model files, configuration, API keys, providers, the vault, its agents' tool servers, \
and the store. Each line shows the result and what to do. Nothing is changed and no key is shown. Providers are asked for their list of models, \
which costs nothing, unless you use --offline.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword doctor
  foreword doctor ~/Notes --offline
Exit codes: 0 no errors; 1 errors were found.";

/// Options of `foreword doctor`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The folder of notes
    #[arg(default_value = ".")]
    vault: PathBuf,
    /// Do not contact providers
    #[arg(long)]
    offline: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let places = places()?;
    let mut failed = false;
    // A closed output is not an error.
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

/// The configuration, or the built-in one if it has errors.
fn configuration() -> Result<(Check, Config)> {
    let (file, _) = config_file()?;
    let name = file.display().to_string();
    match config::load() {
        Ok(config) if file.is_file() => Ok((Check::ok("config", name, "valid"), config)),
        Ok(config) => Ok((Check::ok("config", name, "not found (optional)"), config)),
        Err(error) => {
            let advice = "fix the file; commands that need it fail";
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

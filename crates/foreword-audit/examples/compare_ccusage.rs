//! What `foreword audit` counts in a home folder against what `ccusage` counts there, session by session, with the reason for each
//! difference: `cargo xtask ccusage HOME`.

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use foreword_audit::find::{Homes, logs};
use foreword_audit::log::{Agent, Tokens};
use foreword_audit::report::{Report, report};
use foreword_audit::scan::scan;
use foreword_audit::sessions::{Filter, Sessions};
use foreword_provider::table::ModelTable;
use jiff::tz::TimeZone;
use serde_json::Value;

/// Fresh input, read, written, output with reasoning.
pub(crate) type Counts = [u64; 4];

/// The programs whose logs both read, and what ccusage calls them.
const PROGRAMS: [(Agent, &str); 8] = [
    (Agent::ClaudeCode, "claude"),
    (Agent::Codex, "codex"),
    (Agent::OpenCode, "opencode"),
    (Agent::GeminiCli, "gemini"),
    (Agent::QwenCode, "qwen"),
    (Agent::Pi, "pi"),
    (Agent::Goose, "goose"),
    (Agent::CopilotCli, "copilot"),
];

/// Why two counts of a session differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// So many calls of sub-agents stand in `progress` records alone, which ccusage does not read: without these records both agree.
    Progress { calls: u64 },
    /// ccusage counts what Qwen Code's prompts read from the cache as fresh as well.
    ReadTwice,
    /// ccusage has no sums for a session of Copilot CLI that has not ended.
    NotEnded,
    /// None of these.
    Unknown,
}

/// A session that the two programs do not count alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The program.
    pub(crate) agent: &'static str,
    /// The session.
    pub(crate) session: String,
    /// Our counts.
    pub(crate) ours: Counts,
    /// Those of ccusage, where it has the session.
    pub(crate) theirs: Option<Counts>,
    /// Why.
    pub(crate) why: Why,
}

/// Both counts of a home folder.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// Our calls, by program.
    pub(crate) calls: BTreeMap<&'static str, u64>,
    /// Sessions that are the same.
    pub(crate) same: usize,
    /// Sessions that are not.
    pub(crate) differences: Vec<Difference>,
}

/// Where npm puts the program.
pub(crate) const PROGRAM: &str = "node_modules/.bin/ccusage";

/// Compares what both find in a home folder. ccusage was installed in the folder `modules`.
pub(crate) fn compare(modules: &Path, home: &Path) -> Result<Compared, Box<dyn Error>> {
    let ccusage = modules.join(PROGRAM);
    let ours = audit(home)?;
    let mut compared = Compared::default();
    for (agent, name) in PROGRAMS {
        let mine = sessions(&ours, agent);
        if mine.is_empty() {
            continue;
        }
        compared.calls.insert(agent.name(), mine.values().map(|(calls, _)| calls).sum());
        let theirs = counted_by_ccusage(&ccusage, name, home)?;
        for (session, (calls, counts)) in mine {
            let other = theirs.get(&session).copied();
            if other == Some(counts) {
                compared.same += 1;
                continue;
            }
            let why = match agent {
                Agent::ClaudeCode => without_progress(home, &session, other, calls)?,
                Agent::QwenCode if other == Some([counts[0] + counts[1], counts[1], counts[2], counts[3]]) => Why::ReadTwice,
                Agent::CopilotCli if other.is_none() && counts[..3] == [0; 3] => Why::NotEnded,
                _ => Why::Unknown,
            };
            compared.differences.push(Difference { agent: agent.name(), session, ours: counts, theirs: other, why });
        }
    }
    Ok(compared)
}

fn audit(home: &Path) -> Result<Report, Box<dyn Error>> {
    let homes = Homes { home: home.to_owned(), ..Homes::default() };
    let scanned = scan(&logs(&homes.places()), None, 2, &|_, _| {});
    let sessions = Sessions::join(scanned.logs, &Filter::default());
    Ok(report(&sessions, &ModelTable::builtin()?, &TimeZone::UTC))
}

/// The sessions of one program: calls and counts. What several logs have of one session is one.
fn sessions(report: &Report, agent: Agent) -> BTreeMap<String, (u64, Counts)> {
    let mut found: BTreeMap<String, (u64, Counts)> = BTreeMap::new();
    for session in report.sessions.iter().filter(|session| session.agent == agent) {
        let one = found.entry(session.id.clone()).or_default();
        one.0 += session.calls;
        add(&mut one.1, counts(&session.tokens));
    }
    found
}

fn counts(tokens: &Tokens) -> Counts {
    [tokens.input, tokens.cache_read, tokens.written(), tokens.output]
}

fn add(sum: &mut Counts, more: Counts) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

fn counted_by_ccusage(ccusage: &Path, agent: &str, home: &Path) -> Result<BTreeMap<String, Counts>, Box<dyn Error>> {
    // It looks at variables of each program before it looks at the home folder.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let output = Command::new(ccusage)
        .args([agent, "session", "--json", "--offline"])
        .env_clear()
        .env("PATH", path)
        .env("HOME", home)
        .output()
        .map_err(|error| format!("{}: {error}", ccusage.display()))?;
    if !output.status.success() {
        return Err(format!("ccusage {agent}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let mut found = BTreeMap::new();
    for session in answer.get("sessions").and_then(Value::as_array).into_iter().flatten() {
        let count = |name: &str| session.get(name).and_then(Value::as_u64).unwrap_or_default();
        let prompt = [count("inputTokens"), count("cacheReadTokens"), count("cacheCreationTokens")];
        // It shows Gemini's thoughts in the total alone.
        let output = count("outputTokens").max(count("totalTokens").saturating_sub(prompt.iter().sum()));
        let id = session.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        let [input, read, written] = prompt;
        add(found.entry(name(id).to_owned()).or_default(), [input, read, written, output]);
    }
    Ok(found)
}

/// A session's name: ccusage calls those of Codex by their file, `2026/05/01/rollout-2026-05-01T02-00-00-NAME`.
fn name(id: &str) -> &str {
    const UUID: usize = 36;
    let file = id.rsplit('/').next().unwrap_or(id);
    match file.len().checked_sub(UUID) {
        Some(start) if file.starts_with("rollout-") => file.get(start..).unwrap_or(file),
        _ => file,
    }
}

/// Whether the counts of a session of Claude Code are those of ccusage when its logs have no records of sub-agents' progress.
fn without_progress(home: &Path, session: &str, theirs: Option<Counts>, calls: u64) -> Result<Why, Box<dyn Error>> {
    let copy = tempfile::tempdir()?;
    let from = home.join(".claude/projects");
    for log in logs(std::slice::from_ref(&from)) {
        let text = fs::read(&log.path)?;
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let kept: Vec<u8> = lines.filter(|line| !contains(line, br#""agent_progress""#)).flatten().copied().collect();
        let inside = log.path.strip_prefix(fs::canonicalize(&from)?).unwrap_or(Path::new("log.jsonl"));
        let to = copy.path().join(".claude/projects").join(inside);
        fs::create_dir_all(to.parent().unwrap_or(copy.path()))?;
        fs::write(to, kept)?;
    }
    let (left, counts) = sessions(&audit(copy.path())?, Agent::ClaudeCode).get(session).copied().unwrap_or_default();
    let same = theirs.unwrap_or_default() == counts && left < calls;
    Ok(if same { Why::Progress { calls: calls - left } } else { Why::Unknown })
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [modules, homes @ ..] = arguments.as_slice() else {
        println!("usage: compare_ccusage FOLDER-WITH-node_modules HOME…");
        return ExitCode::from(2);
    };
    match run(modules, homes.iter().map(AsRef::as_ref)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the differences; whether all of them are explained.
fn run<'a>(modules: &OsStr, homes: impl Iterator<Item = &'a Path>) -> Result<bool, Box<dyn Error>> {
    let mut explained = true;
    for home in homes {
        let compared = compare(Path::new(modules), home)?;
        let calls: Vec<String> = compared.calls.iter().map(|(agent, calls)| format!("{agent} {calls}")).collect();
        println!(
            "{}: {} sessions agree, {} differ; calls: {}",
            home.display(),
            compared.same,
            compared.differences.len(),
            calls.join(", ")
        );
        for one in &compared.differences {
            explained &= one.why != Why::Unknown;
            println!("  {} {}: {:?} here, {:?} in ccusage: {:?}", one.agent, one.session, one.ours, one.theirs, one.why);
        }
    }
    Ok(explained)
}

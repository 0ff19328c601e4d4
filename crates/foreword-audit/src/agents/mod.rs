//! One reader for each program: what its log says, as plain values.

mod aider;
mod builder;
mod claude;
mod codex;
mod copilot;
mod databases;
pub(crate) mod foreword;
mod gemini;
mod opencode;
mod pi;
mod qwen;
mod records;

use std::fs::{self, File};
use std::io::{BufReader, Read as _};
use std::path::Path;

use crate::log::{Agent, FileLog};

pub(crate) use databases::read as read_database;

/// A session in one JSON object is read at once; a larger file is none.
const MOST_WHOLE: u64 = 128 << 20;

/// So much of a file is asked for at a time.
const BUFFER: usize = 1 << 18;

/// A log that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {why}")]
pub struct Unread {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub why: String,
}

/// How a log is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// Lines of JSON, or of markdown.
    Lines(Agent),
    /// One JSON object.
    Whole(Agent),
    /// A database.
    Database,
    /// The folder of a session with a file for each message.
    Folder,
}

/// Reads one log. `file` is the name that reports show.
pub(crate) fn read(form: Form, path: &Path, file: &str) -> Result<Vec<FileLog>, Unread> {
    let failed = |why: String| Unread { file: file.to_owned(), why };
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let parent = |levels: usize| {
        path.ancestors().nth(levels).and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    match form {
        Form::Database => read_database(path, file).map_err(failed),
        Form::Folder => read_folder(path, file).map_err(failed),
        Form::Lines(agent) => {
            let from = BufReader::with_capacity(BUFFER, File::open(path).map_err(|error| failed(error.to_string()))?);
            let mut log = FileLog::new(agent, &stem, file);
            match agent {
                Agent::ClaudeCode if stem.starts_with("agent-") => {
                    log.part = true;
                    // `SESSION/subagents/agent-ID.jsonl`; older versions keep it beside the session, and only the records name that.
                    log.session = if parent(1) == "subagents" { parent(2) } else { String::new() };
                }
                Agent::GeminiCli => log.session.clear(),
                Agent::CopilotCli if stem == "events" => log.session = parent(1),
                Agent::Aider => log.project = parent(1),
                _ => {}
            }
            let logs = match agent {
                Agent::Aider => return Ok(nonempty(aider::read(from, &log))),
                _ => read_lines(agent, from, log),
            };
            Ok(vec![named(logs, &stem)])
        }
        Form::Whole(agent) => {
            let text = read_all(path).map_err(failed)?;
            let log = FileLog::new(agent, "", file);
            let log = if agent == Agent::OpenCode {
                opencode::read_export(&text, log)
            } else {
                records::read_whole::<gemini::Reader>(&text, log)
            };
            Ok(vec![named(log, &stem)])
        }
    }
}

/// Reads lines that one program wrote. For tests and fuzzing, which have no file.
pub fn read_lines(agent: Agent, from: impl std::io::BufRead, log: FileLog) -> FileLog {
    match agent {
        Agent::Codex => records::read::<codex::Reader>(from, log),
        Agent::GeminiCli => records::read::<gemini::Reader>(from, log),
        Agent::QwenCode => records::read::<qwen::Reader>(from, log),
        Agent::Pi => records::read::<pi::Reader>(from, log),
        Agent::CopilotCli => records::read::<copilot::Reader>(from, log),
        _ => records::read::<claude::Reader>(from, log),
    }
}

/// Reads a text that is one JSON object, or a history in markdown. For tests and fuzzing.
pub fn read_text(agent: Agent, text: &[u8]) -> Vec<FileLog> {
    let log = FileLog::new(agent, "", "");
    match agent {
        Agent::OpenCode => vec![opencode::read_export(text, log)],
        Agent::Aider => aider::read(text, &log),
        Agent::GeminiCli => vec![records::read_whole::<gemini::Reader>(text, log)],
        agent => vec![read_lines(agent, text, log)],
    }
}

fn named(mut log: FileLog, stem: &str) -> FileLog {
    if log.session.is_empty() {
        stem.clone_into(&mut log.session);
    }
    log
}

fn nonempty(logs: Vec<FileLog>) -> Vec<FileLog> {
    logs.into_iter().filter(|log| !log.calls.is_empty()).collect()
}

fn read_all(path: &Path) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    file.take(MOST_WHOLE + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MOST_WHOLE {
        return Err(format!("it has more than {MOST_WHOLE} bytes"));
    }
    Ok(text)
}

/// A chain's name where its own is not known.
fn rename_main(log: &mut FileLog) {
    if let Some(name) = log.names.iter_mut().find(|name| name.as_str() == builder::MAIN) {
        "sub-agent".clone_into(name);
    }
}

/// `OpenCode` before its database: `storage/message/SESSION/MESSAGE.json`, `storage/part/MESSAGE/PART.json`, `storage/session/PROJECT/SESSION.json`.
fn read_folder(folder: &Path, file: &str) -> Result<Vec<FileLog>, String> {
    let storage = folder.ancestors().nth(2).ok_or("it lies in no storage folder")?;
    let id = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut session = opencode::Session::default();
    let mut parent = None;
    for project in entries(&storage.join("session")) {
        let info = project.join(format!("{id}.json"));
        if let Ok(text) = read_all(&info) {
            parent = opencode::read_info(&mut session, &text);
        }
    }
    let mut log = opencode::empty(parent.as_deref().unwrap_or(&id), file);
    log.part = parent.is_some();
    for message in entries(folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "json")) {
        let Some(name) = message.file_stem().and_then(|stem| stem.to_str()) else { continue };
        let read = read_all(&message).is_ok_and(|text| opencode::read_message(&mut session, name, &text));
        log.lines.skipped += u64::from(!read);
        for part in entries(&storage.join("part").join(name)) {
            log.lines.read += 1;
            let read = read_all(&part).is_ok_and(|text| opencode::read_part(&mut session, name, &text));
            log.lines.skipped += u64::from(!read);
        }
    }
    let mut log = session.finish(log);
    if log.part {
        rename_main(&mut log);
    }
    Ok(nonempty(vec![log]))
}

/// What lies in a folder, in the order of the names; nothing where it cannot be listed.
fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

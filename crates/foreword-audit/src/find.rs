//! Where logs lie, and whose they are: told by their place, else by their first lines.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::agents::Form;
use crate::log::Agent;

/// A log that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// Where it is.
    pub path: PathBuf,
    /// How it is laid out.
    pub form: Form,
    /// Its size.
    pub bytes: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub modified: u128,
}

/// What this machine calls its folders; from the environment, which this crate does not look at.
#[derive(Clone, Debug, Default)]
pub struct Homes {
    /// The user's home.
    pub home: PathBuf,
    /// `CLAUDE_CONFIG_DIR`: folders, with commas between them.
    pub claude: Option<String>,
    /// `CODEX_HOME`.
    pub codex: Option<PathBuf>,
    /// `XDG_DATA_HOME`.
    pub data: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub config: Option<PathBuf>,
    /// `LLM_USER_PATH`.
    pub llm: Option<PathBuf>,
    /// `PI_CODING_AGENT_DIR`.
    pub pi: Option<PathBuf>,
    /// The working folder, where aider keeps its history.
    pub here: Option<PathBuf>,
}

impl Homes {
    /// Where the known programs keep their logs.
    pub fn places(&self) -> Vec<PathBuf> {
        let home = |path: &str| self.home.join(path);
        let config = self.config.clone().unwrap_or_else(|| home(".config"));
        let data = self.data.clone().unwrap_or_else(|| home(".local/share"));
        let mac = home("Library/Application Support");
        let mut places: Vec<PathBuf> = match &self.claude {
            Some(list) => list.split(',').map(|folder| PathBuf::from(folder.trim()).join("projects")).collect(),
            None => vec![home(".claude/projects"), config.join("claude/projects")],
        };
        let codex = self.codex.clone().unwrap_or_else(|| home(".codex"));
        places.extend(["sessions", "archived_sessions"].map(|folder| codex.join(folder)));
        for data in [&data, &mac] {
            places.extend(["opencode", "goose/sessions", "Block/goose/sessions"].map(|folder| data.join(folder)));
        }
        places.extend([".gemini/tmp", ".qwen", ".copilot/session-state"].map(home));
        places.push(self.pi.clone().unwrap_or_else(|| home(".pi/agent")).join("sessions"));
        match &self.llm {
            Some(folder) => places.push(folder.join("logs.db")),
            None => places.extend([&config, &mac].map(|folder| folder.join("io.datasette.llm/logs.db"))),
        }
        places.extend(self.here.iter().map(|here| here.join(".aider.chat.history.md")));
        places
    }
}

/// Deeper folders are not looked into.
const DEEPEST: usize = 24;

/// No more logs are read at once.
const MOST: usize = 1_000_000;

/// Folders in which no program keeps logs, and in which there is much.
const PASSED_OVER: [&str; 6] = ["node_modules", ".git", "target", ".venv", "__pycache__", "file-history"];

/// The logs at and below `paths`, each once, in the order of their names. Links are not followed.
pub fn logs(paths: &[PathBuf]) -> Vec<LogFile> {
    let mut found = Vec::new();
    for path in paths {
        // What was named itself may be a link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        look(&path, 0, true, &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup_by(|a, b| a.path == b.path);
    found
}

fn look(path: &Path, depth: usize, named: bool, found: &mut Vec<LogFile>) {
    let Ok(facts) = fs::symlink_metadata(path) else { return };
    if found.len() >= MOST {
        return;
    }
    if facts.is_file() {
        if let Some(form) = identify(path, named) {
            let mut modified = modified(&facts);
            let mut bytes = facts.len();
            if form == Form::Database
                && let Ok(wal) = fs::metadata(with_suffix(path, "-wal"))
            {
                modified = modified.max(self::modified(&wal));
                bytes += wal.len();
            }
            found.push(LogFile { path: path.to_owned(), form, bytes, modified });
        }
        return;
    }
    if !facts.is_dir() || depth > DEEPEST {
        return;
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if PASSED_OVER.contains(&name) && !named {
        return;
    }
    let storage = |levels: usize| path.ancestors().nth(levels).and_then(Path::file_name).is_some_and(|name| name == "storage");
    let above = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    if storage(2) && above == "message" {
        return folder(path, found);
    }
    if storage(1) && matches!(name, "part" | "session" | "session_diff" | "todo" | "project") {
        return;
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    // Where there is a database, the files of older versions have been taken into it.
    let migrated = name == "opencode" && entries.iter().any(|entry| entry.extension().is_some_and(|end| end == "db"));
    for entry in entries {
        if migrated && entry.file_name().is_some_and(|name| name == "storage") {
            continue;
        }
        look(&entry, depth + 1, false, found);
    }
}

/// The folder of a session with a file for each message.
fn folder(path: &Path, found: &mut Vec<LogFile>) {
    let mut one = LogFile { path: path.to_owned(), form: Form::Folder, bytes: 0, modified: 0 };
    for facts in fs::read_dir(path).into_iter().flatten().flatten().filter_map(|entry| entry.metadata().ok()) {
        one.bytes += facts.len();
        one.modified = one.modified.max(modified(&facts));
    }
    if one.bytes > 0 {
        found.push(one);
    }
}

fn modified(facts: &fs::Metadata) -> u128 {
    facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |since| since.as_nanos())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// How a file is laid out; none where no program that is known wrote it. A file that a person named is asked more closely.
fn identify(path: &Path, named: bool) -> Option<Form> {
    let name = path.file_name()?.to_str()?;
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    match end {
        "jsonl" => lines(path).map(Form::Lines),
        "json" => whole(path),
        "md" if name.ends_with("aider.chat.history.md") => Some(Form::Lines(Agent::Aider)),
        "db" | "sqlite" | "sqlite3" => {
            let known = matches!(name, "sessions.db" | "logs.db" | "foreword.db") || name.starts_with("opencode");
            ((known || named) && head(path, 16).is_some_and(|head| head.starts_with(b"SQLite format 3")))
                .then_some(Form::Database)
        }
        _ => None,
    }
}

fn head(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(most).read_to_end(&mut head).ok()?;
    Some(head)
}

/// So much of a file tells whose it is.
const HEAD: u64 = 1 << 16;

/// The first lines without the white space that some write between names and values.
fn packed(path: &Path) -> Option<String> {
    let head = head(path, HEAD)?;
    Some(String::from_utf8_lossy(&head).chars().filter(|c| !c.is_ascii_whitespace()).collect())
}

fn lines(path: &Path) -> Option<Agent> {
    let head = packed(path)?;
    let has = |text: &str| head.contains(text);
    let below = |folder: &str| path.components().any(|part| part.as_os_str() == folder);
    if has(r#""type":"session_meta""#) || (has(r#""payload":{"#) && has(r#""type":"response_item""#)) {
        Some(Agent::Codex)
    } else if has(r#""type":"session.start""#) || has(r#""type":"assistant.turn_start""#) {
        Some(Agent::CopilotCli)
    } else if has(r#""projectHash":"#) || has(r#"{"$set":"#) {
        Some(Agent::GeminiCli)
    } else if has(r#""usageMetadata":{"#) || below(".qwen") || (has(r#""parentUuid":"#) && has(r#""parts":["#)) {
        Some(Agent::QwenCode)
    } else if has(r#""type":"session""#) && has(r#""cwd":"#) {
        Some(Agent::Pi)
    } else if has(r#""sessionId":"#) && (has(r#""uuid":"#) || has(r#""type":"#))
        || has(r#""leafUuid":"#)
        || has(r#""type":"file-history-"#)
    {
        (!path.ends_with(".claude/history.jsonl")).then_some(Agent::ClaudeCode)
    } else {
        None
    }
}

fn whole(path: &Path) -> Option<Form> {
    let head = packed(path)?;
    if head.contains(r#""sessionId":"#) && (head.contains(r#""projectHash":"#) || head.contains(r#""messages":["#)) {
        Some(Form::Whole(Agent::GeminiCli))
    } else if head.starts_with(r#"{"info":{"#) {
        Some(Form::Whole(Agent::OpenCode))
    } else {
        None
    }
}

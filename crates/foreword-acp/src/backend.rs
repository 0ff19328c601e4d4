//! Where sessions live: the API of the server, called in this process. Everything else in this crate knows sessions only through this
//! module.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use foreword_server::{CallError, Events, InProcess};
use serde_json::{Value, json};

/// The number of vaults that are open at once.
const MOST_VAULTS: usize = 8;

/// Prepares the configuration for the vault at a path, or says why it cannot be used.
pub type Prepare = Arc<dyn Fn(&Path) -> Result<foreword_server::Config, String> + Send + Sync>;

/// Which vaults are used.
#[derive(Clone)]
pub struct Config {
    /// The vault of all sessions; otherwise each session's working folder is its vault.
    pub vault: Option<PathBuf>,
    /// Prepares a vault.
    pub prepare: Prepare,
}

/// The vaults that are open.
pub(crate) struct Backend {
    config: Config,
    open: Mutex<BTreeMap<PathBuf, Vault>>,
}

/// An open vault.
#[derive(Clone)]
pub(crate) struct Vault {
    root: PathBuf,
    api: InProcess,
}

/// Why something failed.
pub(crate) type Failure = CallError;

fn failure(status: u16, detail: impl Into<String>) -> Failure {
    CallError { status, detail: detail.into() }
}

impl Backend {
    pub(crate) fn new(config: Config) -> Self {
        Self { config, open: Mutex::default() }
    }

    /// The vault of all sessions, if there is one.
    pub(crate) fn fixed(&self) -> Option<&Path> {
        self.config.vault.as_deref()
    }

    /// The vault for a session with this working folder.
    pub(crate) fn vault(&self, folder: &Path) -> Result<Vault, Failure> {
        let folder = self.config.vault.as_deref().unwrap_or(folder);
        let root = folder.canonicalize().map_err(|error| failure(404, format!("cannot open {}: {error}", folder.display())))?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(vault) = open.get(&root) {
            return Ok(vault.clone());
        }
        if open.len() >= MOST_VAULTS {
            return Err(failure(
                429,
                format!("{MOST_VAULTS} vaults are open already; start another agent for {}", root.display()),
            ));
        }
        let config = (self.config.prepare)(&root).map_err(|error| failure(500, error))?;
        let api = InProcess::start(config).map_err(|error| failure(500, error.to_string()))?;
        let vault = Vault { root: root.clone(), api };
        open.insert(root, vault.clone());
        Ok(vault)
    }

    /// Stops all turns and stores what came of them.
    pub(crate) async fn close(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        for vault in open.into_values() {
            vault.api.close().await;
        }
    }
}

impl Vault {
    /// Its folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.api.call("GET", path, None).await
    }

    /// Begins a session; its ID.
    pub(crate) async fn begin(&self) -> Result<String, Failure> {
        let session = self.api.call("POST", "/sessions", Some(&json!({}))).await?;
        Ok(text(&session, "id").to_owned())
    }

    /// A page of sessions, the last used first, and where the next page begins.
    pub(crate) async fn sessions(&self, page: usize, after: Option<&str>) -> Result<(Vec<Value>, Option<String>), Failure> {
        let after = after.map(|after| format!("&before={}", encoded(after))).unwrap_or_default();
        let found = self.get(&format!("/sessions?client=false&limit={}{after}", page + 1)).await?;
        let Value::Array(mut rows) = found else { return Ok((Vec::new(), None)) };
        let more = rows.len() > page;
        rows.truncate(page);
        let next = rows.last().filter(|_| more).map(|last| format!("{}-{}", last["touched_ms"], text(last, "id")));
        Ok((rows, next))
    }

    /// A session with its messages.
    pub(crate) async fn session(&self, id: &str) -> Result<Value, Failure> {
        self.get(&format!("/sessions/{}", encoded(id))).await
    }

    pub(crate) async fn delete(&self, id: &str) -> Result<(), Failure> {
        self.api.call("DELETE", &format!("/sessions/{}", encoded(id)), None).await.map(drop)
    }

    /// The settings of a session: `mode`, `model`, `layout`, `template`, `window`.
    pub(crate) async fn settings(&self, id: &str) -> Result<Value, Failure> {
        self.get(&format!("/sessions/{}/settings", encoded(id))).await
    }

    pub(crate) async fn set(&self, id: &str, settings: &Value) -> Result<Value, Failure> {
        self.api.call("PATCH", &format!("/sessions/{}/settings", encoded(id)), Some(settings)).await
    }

    /// The names of the models and of the templates that can be used.
    pub(crate) async fn choices(&self) -> Result<(Vec<String>, Vec<String>), Failure> {
        let names = |rows: &Value, fits: fn(&Value) -> bool| {
            let rows = rows.as_array().into_iter().flatten().filter(|row| fits(row));
            rows.map(|row| text(row, "name").to_owned()).collect()
        };
        let is_usable = |row: &Value| row["trusted"] != json!(false) && row["hidden"] != json!(true);
        Ok((names(&self.get("/models").await?, |_| true), names(&self.get("/templates").await?, is_usable)))
    }

    /// The events of a session from now on.
    pub(crate) fn events(&self, id: &str) -> Result<Events, Failure> {
        self.api.events(id)
    }

    /// Sends a message. The answer comes as events.
    pub(crate) async fn send(&self, id: &str, message: &Value) -> Result<(), Failure> {
        self.api.call("POST", &format!("/sessions/{}/messages", encoded(id)), Some(message)).await.map(drop)
    }

    pub(crate) async fn stop(&self, id: &str) -> Result<(), Failure> {
        self.api.call("POST", &format!("/sessions/{}/stop", encoded(id)), Some(&json!({}))).await.map(drop)
    }

    /// Answers whether a tool may run: `once`, `session` or `no`.
    pub(crate) async fn approve(&self, id: &str, approval: u64, decision: &str) -> Result<(), Failure> {
        let path = format!("/sessions/{}/approvals/{approval}", encoded(id));
        self.api.call("POST", &path, Some(&json!({"decision": decision}))).await.map(drop)
    }

    /// Compacts the session with its next turn.
    pub(crate) async fn fold(&self, id: &str, focus: Option<&str>) -> Result<(), Failure> {
        self.api.call("POST", &format!("/sessions/{}/fold", encoded(id)), Some(&json!({"focus": focus}))).await.map(drop)
    }

    /// Takes the last compaction back with the next turn.
    pub(crate) async fn undo_fold(&self, id: &str) -> Result<(), Failure> {
        self.api.call("DELETE", &format!("/sessions/{}/fold", encoded(id)), None).await.map(drop)
    }

    /// What a session used and cost.
    pub(crate) async fn ledger(&self, id: &str) -> Result<Value, Failure> {
        self.get(&format!("/sessions/{}/ledger", encoded(id))).await
    }

    /// Finds passages in the notes.
    pub(crate) async fn search(&self, words: &str) -> Result<Value, Failure> {
        self.get(&format!("/vault/search?q={}", encoded(words))).await
    }

    /// The text of a note as it is on disk.
    pub(crate) async fn note(&self, path: &str) -> Result<String, Failure> {
        let note = self.get(&format!("/vault/note?path={}", encoded(path))).await?;
        Ok(text(&note, "text").to_owned())
    }
}

/// A text field of an answer; empty if it is missing.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A text for an address.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                out.extend(['%', char::from(DIGITS[usize::from(byte >> 4)]), char::from(DIGITS[usize::from(byte & 15)])]);
            }
        }
    }
    out
}

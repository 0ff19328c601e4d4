//! The agent: which request of the protocol is answered by what.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::backend::{Backend, Failure, Vault, text};
use crate::connection::{Client, IncomingMessage, RpcError};
use crate::options::{Options, is_mode};
use crate::prompt::{Prompt, in_vault};
use crate::turn::{Step, Turn, chunk, usage};
use crate::{commands, tool_calls};

/// The version of the protocol.
const VERSION: u16 = 1;

/// Sessions per page of a list.
const PAGE: usize = 50;

/// Sessions of a client that are open at once.
const MOST_SESSIONS: usize = 256;

type Answer = Result<Value, RpcError>;

/// The agent of one connection.
pub(crate) struct Agent {
    backend: Backend,
    /// Whether the client reads files for the agent.
    reads_files: AtomicBool,
    sessions: Mutex<BTreeMap<String, Open>>,
}

/// A session that the client has opened.
#[derive(Clone)]
struct Open {
    vault: Vault,
    /// Whether the client wants the running turn to end.
    cancelled: Arc<AtomicBool>,
    running: Arc<AtomicBool>,
}

/// Ends the turn of a session, however it ends.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn failed(failure: Failure) -> RpcError {
    match failure.status {
        400 | 404 | 409 | 422 => RpcError::invalid_params(failure.detail),
        401 => RpcError::auth_required(failure.detail),
        _ => RpcError::internal(failure.detail),
    }
}

fn wrong(detail: impl Into<String>) -> RpcError {
    RpcError::invalid_params(detail)
}

/// A text that a request must have.
fn needed<'a>(params: &'a Value, name: &str) -> Result<&'a str, RpcError> {
    params[name].as_str().filter(|text| !text.is_empty()).ok_or_else(|| wrong(format!("`{name}` is missing")))
}

impl Agent {
    pub(crate) fn new(backend: Backend) -> Self {
        Self { backend, reads_files: AtomicBool::new(false), sessions: Mutex::default() }
    }

    /// Stops all turns and stores what came of them.
    pub(crate) async fn close_all(&self) {
        self.backend.close().await;
    }

    /// Takes note of what the client wants, in the order in which it comes: a cancellation is meant for the prompt before it, even if the
    /// task of that has not begun.
    pub(crate) fn arrived(&self, wanted: &IncomingMessage) {
        let open = wanted.params["sessionId"].as_str().and_then(|id| self.sessions().get(id).cloned());
        match (wanted.method.as_str(), open) {
            ("session/prompt", Some(open)) if !open.running.load(Ordering::Acquire) => {
                open.cancelled.store(false, Ordering::Release);
            }
            ("session/cancel", Some(open)) => open.cancelled.store(true, Ordering::Release),
            _ => {}
        }
    }

    /// Does what the client wants.
    pub(crate) async fn take(&self, client: Client, wanted: IncomingMessage) {
        let IncomingMessage { id, method, params } = wanted;
        let Some(id) = id else {
            if method == "session/cancel" {
                self.cancel(&params).await;
            }
            return;
        };
        let answer = match method.as_str() {
            "initialize" => Ok(self.initialize(&params)),
            "authenticate" => Ok(json!({})),
            "session/new" => self.new_session(&params).await,
            "session/load" => self.load(&params, &client).await,
            "session/resume" => self.resume(&params).await,
            "session/list" => self.list(&params).await,
            "session/close" => self.close(&params).await,
            "session/delete" => self.delete(&params).await,
            "session/set_mode" => self.set_mode(&params, &client).await,
            "session/set_config_option" => self.set_option(&params, &client).await,
            "session/prompt" => self.prompt(&params, &client).await,
            other => Err(RpcError::no_method(other)),
        };
        let opened = match (method.as_str(), &answer) {
            ("session/new", Ok(begun)) => begun["sessionId"].as_str().map(str::to_owned),
            ("session/load" | "session/resume", Ok(_)) => params["sessionId"].as_str().map(str::to_owned),
            _ => None,
        };
        client.answer(id, answer).await;
        // A client learns the commands of a session that it knows.
        if let Some(session) = opened {
            let update = json!({"sessionUpdate": "available_commands_update", "availableCommands": commands::list()});
            tell(&client, &session, update).await;
        }
    }

    fn initialize(&self, params: &Value) -> Value {
        let reads = params["clientCapabilities"]["fs"]["readTextFile"] == json!(true);
        self.reads_files.store(reads, Ordering::Release);
        json!({
            "protocolVersion": VERSION,
            "agentInfo": {"name": "foreword", "title": "Foreword", "version": env!("CARGO_PKG_VERSION")},
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
                "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}},
            },
            "authMethods": [],
        })
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Open>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, id: &str, vault: &Vault) -> Result<(), RpcError> {
        let mut sessions = self.sessions();
        if sessions.len() >= MOST_SESSIONS && !sessions.contains_key(id) {
            return Err(wrong(format!("{MOST_SESSIONS} sessions are open; close one")));
        }
        let open = Open { vault: vault.clone(), cancelled: Arc::default(), running: Arc::default() };
        sessions.entry(id.to_owned()).or_insert(open);
        Ok(())
    }

    fn session<'a>(&self, params: &'a Value) -> Result<(Open, &'a str), RpcError> {
        let id = needed(params, "sessionId")?;
        let open = self.sessions().get(id).cloned();
        Ok((open.ok_or_else(|| wrong(format!("session {id} is not open; load or resume it first")))?, id))
    }

    fn vault(&self, params: &Value) -> Result<Vault, RpcError> {
        let folder = Path::new(needed(params, "cwd")?);
        if !folder.is_absolute() {
            return Err(wrong("`cwd` must be an absolute path"));
        }
        self.backend.vault(folder).map_err(failed)
    }

    async fn new_session(&self, params: &Value) -> Answer {
        let vault = self.vault(params)?;
        let id = vault.begin().await.map_err(failed)?;
        self.open(&id, &vault)?;
        let Options { modes, config } = Options::of(&vault, &id).await.map_err(failed)?;
        Ok(json!({"sessionId": id, "modes": modes, "configOptions": config}))
    }

    /// Opens a session and tells the client what was said in it.
    async fn load(&self, params: &Value, client: &Client) -> Answer {
        let (vault, id) = (self.vault(params)?, needed(params, "sessionId")?);
        let session = vault.session(id).await.map_err(failed)?;
        self.open(id, &vault)?;
        for (at, message) in session["messages"].as_array().into_iter().flatten().enumerate() {
            for update in replayed(at, message, &vault) {
                tell(client, id, update).await;
            }
        }
        let Options { modes, config } = Options::of(&vault, id).await.map_err(failed)?;
        Ok(json!({"modes": modes, "configOptions": config}))
    }

    async fn resume(&self, params: &Value) -> Answer {
        let (vault, id) = (self.vault(params)?, needed(params, "sessionId")?);
        vault.session(id).await.map_err(failed)?;
        self.open(id, &vault)?;
        let Options { modes, config } = Options::of(&vault, id).await.map_err(failed)?;
        Ok(json!({"modes": modes, "configOptions": config}))
    }

    /// The folder whose sessions are meant where the client names none.
    fn usual_folder(&self) -> Result<PathBuf, RpcError> {
        match self.backend.fixed() {
            Some(folder) => Ok(folder.to_owned()),
            None => std::env::current_dir().map_err(|error| wrong(error.to_string())),
        }
    }

    async fn list(&self, params: &Value) -> Answer {
        let folder = params["cwd"].as_str().map_or_else(|| self.usual_folder(), |folder| Ok(PathBuf::from(folder)))?;
        let vault = self.backend.vault(&folder).map_err(failed)?;
        let (rows, next) = vault.sessions(PAGE, params["cursor"].as_str()).await.map_err(failed)?;
        let sessions = rows.iter().map(|row| {
            let touched = row["touched_ms"].as_i64().and_then(|at| Timestamp::from_millisecond(at).ok());
            // A client asks for the sessions of its own folder.
            json!({"sessionId": row["id"], "cwd": folder, "title": row["title"], "updatedAt": touched.map(|at| at.to_string())})
        });
        Ok(json!({"sessions": sessions.collect::<Vec<_>>(), "nextCursor": next}))
    }

    async fn close(&self, params: &Value) -> Answer {
        let (open, id) = self.session(params)?;
        open.cancelled.store(true, Ordering::Release);
        open.vault.stop(id).await.map_err(failed)?;
        self.sessions().remove(id);
        Ok(json!({}))
    }

    async fn delete(&self, params: &Value) -> Answer {
        let id = needed(params, "sessionId")?;
        let open = self.sessions().get(id).map(|open| open.vault.clone());
        let vault = match open {
            Some(vault) => vault,
            None => self.backend.vault(&self.usual_folder()?).map_err(failed)?,
        };
        vault.delete(id).await.map_err(failed)?;
        self.sessions().remove(id);
        Ok(json!({}))
    }

    async fn set_mode(&self, params: &Value, client: &Client) -> Answer {
        let ((open, id), mode) = (self.session(params)?, needed(params, "modeId")?);
        if !is_mode(mode) {
            return Err(wrong(format!("there is no mode {mode:?}")));
        }
        Options::set(&open.vault, id, "mode", mode).await.map_err(failed)?;
        tell(client, id, json!({"sessionUpdate": "current_mode_update", "currentModeId": mode})).await;
        Ok(json!({}))
    }

    async fn set_option(&self, params: &Value, client: &Client) -> Answer {
        let ((open, id), option, value) = (self.session(params)?, needed(params, "configId")?, needed(params, "value")?);
        let options = Options::set(&open.vault, id, option, value).await.map_err(failed)?;
        let Options { config, .. } = options.ok_or_else(|| wrong(format!("there is no option {option:?}")))?;
        tell(client, id, json!({"sessionUpdate": "config_option_update", "configOptions": config})).await;
        Ok(json!({"configOptions": config}))
    }

    /// Ends the turn that runs.
    async fn cancel(&self, params: &Value) {
        let Ok((open, id)) = self.session(params) else { return };
        // A turn that has not begun yet is ended once it has.
        let _ = open.vault.stop(id).await;
    }

    /// Runs a turn.
    async fn prompt(&self, params: &Value, client: &Client) -> Answer {
        let (open, id) = self.session(params)?;
        if open.running.swap(true, Ordering::AcqRel) {
            return Err(wrong("a turn of this session is running; cancel it or wait"));
        }
        let _running = Running(Arc::clone(&open.running));
        let vault = &open.vault;
        let mut prompt = Prompt::read(&params["prompt"], vault.root()).map_err(wrong)?;
        if let Some(answer) = commands::run(vault, id, &prompt.words).await.map_err(failed)? {
            tell(client, id, chunk("agent_message_chunk", &answer)).await;
            return Ok(json!({"stopReason": "end_turn"}));
        }
        self.read_through_client(&mut prompt, vault, id, client).await;
        let reason = run(&open, id, prompt, client).await?;
        Ok(json!({"stopReason": reason}))
    }

    /// Reads attached files through the client if it offers that: it knows changes that are not saved yet. Files outside of the vault
    /// are read in no other way.
    async fn read_through_client(&self, prompt: &mut Prompt, vault: &Vault, id: &str, client: &Client) {
        if !self.reads_files.load(Ordering::Acquire) {
            return;
        }
        for note in std::mem::take(&mut prompt.notes) {
            let path = vault.root().join(&note);
            if in_vault(&path, vault.root()).is_some()
                && let Ok(disk) = vault.note(&note).await
                && let Some(shown) = read(client, id, &path).await
                && shown.trim_end() != disk.trim_end()
            {
                prompt.texts.push((format!("file://{} (not saved yet)", path.display()), shown));
            } else {
                prompt.notes.push(note);
            }
        }
        for path in std::mem::take(&mut prompt.files) {
            if let Some(text) = read(client, id, &path).await {
                prompt.texts.push((format!("file://{}", path.display()), text));
            }
        }
    }
}

/// The text of a file as the client has it.
async fn read(client: &Client, session: &str, path: &Path) -> Option<String> {
    let read = client.ask("fs/read_text_file", json!({"sessionId": session, "path": path})).await.ok()?;
    Some(read["content"].as_str()?.to_owned())
}

/// Sends a message and tells the client what happens, until the turn ends; its stop reason.
async fn run(open: &Open, id: &str, prompt: Prompt, client: &Client) -> Result<&'static str, RpcError> {
    let vault = &open.vault;
    let is_cancelled = || open.cancelled.load(Ordering::Acquire);
    let window = vault.settings(id).await.map_err(failed)?["window"].as_u64().unwrap_or_default();
    let mut events = vault.events(id).map_err(failed)?;
    vault.send(id, &prompt.message()).await.map_err(failed)?;
    if is_cancelled() {
        vault.stop(id).await.map_err(failed)?;
    }
    let mut turn = Turn::new(vault);
    loop {
        for (name, data) in events.next().await {
            for step in turn.take(name, data) {
                match step {
                    Step::Tell(update) => tell(client, id, update).await,
                    Step::Ask { approval, call, question } => {
                        let (vault, id, client) = (vault.clone(), id.to_owned(), client.clone());
                        tokio::spawn(async move { ask(&vault, &id, approval, &call, &question, &client).await });
                    }
                    Step::Done(reason, last) => {
                        if let Some(update) = usage(vault, id, &last, window).await {
                            tell(client, id, update).await;
                        }
                        if let Ok(session) = vault.session(id).await
                            && let Some(title) = session["title"].as_str()
                        {
                            tell(client, id, json!({"sessionUpdate": "session_info_update", "title": title})).await;
                        }
                        return Ok(if is_cancelled() { "cancelled" } else { reason });
                    }
                    Step::Failed(_) if is_cancelled() => return Ok("cancelled"),
                    Step::Failed(why) => return Err(RpcError::internal(why)),
                }
            }
        }
    }
}

/// Sends an update to the client.
async fn tell(client: &Client, session: &str, update: Value) {
    client.notify("session/update", json!({"sessionId": session, "update": update})).await;
}

/// Asks the client whether a tool may run, and passes its answer on.
async fn ask(vault: &Vault, id: &str, approval: u64, call: &str, question: &Value, client: &Client) {
    let path = text(&question["arguments"], "path");
    let old = if path.is_empty() { None } else { vault.note(path).await.ok() };
    let params = json!({
        "sessionId": id,
        "toolCall": tool_calls::asked(call, question, old.as_deref(), vault.root()),
        "options": [
            {"optionId": "once", "name": "Allow", "kind": "allow_once"},
            {"optionId": "session", "name": "Allow for this session", "kind": "allow_always"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ],
    });
    let answered = client.ask("session/request_permission", params).await.unwrap_or_default();
    let outcome = &answered["outcome"];
    let decision = match (text(outcome, "outcome"), text(outcome, "optionId")) {
        ("selected", "once") => "once",
        ("selected", "session") => "session",
        // Whatever else comes is no permission.
        _ => "no",
    };
    // A turn that was stopped no longer waits.
    let _ = vault.approve(id, approval, decision).await;
}

/// A message of the past as updates.
fn replayed(at: usize, message: &Value, vault: &Vault) -> Vec<Value> {
    let said = text(message, "text");
    if text(message, "role") == "user" {
        return vec![chunk("user_message_chunk", said)];
    }
    let mut updates = Vec::new();
    if !said.is_empty() {
        updates.push(chunk("agent_message_chunk", said));
    }
    for (number, call) in message["calls"].as_array().into_iter().flatten().enumerate() {
        let id = format!("past-{at}-{number}");
        updates.push(tool_calls::begun(&json!({"id": id, "name": call["name"], "arguments": call["arguments"]}), vault.root()));
        updates.push(tool_calls::ended(&json!({"id": id, "failed": false, "text": call["result"].as_str().unwrap_or_default()})));
    }
    updates
}

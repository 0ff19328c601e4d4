//! The agent: which request of the protocol is answered by what.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, AvailableCommandsUpdate, CancelNotification, ClientCapabilities, CloseSessionRequest, CloseSessionResponse,
    ConfigOptionUpdate, CurrentModeUpdate, DeleteSessionRequest, DeleteSessionResponse, Implementation, InitializeRequest,
    InitializeResponse, ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse, NewSessionRequest,
    NewSessionResponse, PermissionOption, PermissionOptionKind, PromptCapabilities, PromptRequest, PromptResponse,
    ReadTextFileRequest, RequestPermissionOutcome, RequestPermissionRequest, ResumeSessionRequest, ResumeSessionResponse,
    SessionCapabilities, SessionCloseCapabilities, SessionDeleteCapabilities, SessionId, SessionInfo, SessionInfoUpdate,
    SessionListCapabilities, SessionNotification, SessionResumeCapabilities, SessionUpdate, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse, StopReason,
};
use agent_client_protocol::{Client, Error};
use jiff::Timestamp;
use serde_json::Value;

use crate::backend::{Backend, Failure, Vault, text};
use crate::options::{Options, is_mode};
use crate::prompt::{Prompt, in_vault};
use crate::turn::{Step, Turn, chunk, usage};
use crate::{commands, tool_calls};

pub(crate) type Cx = ConnectionTo<Client>;

/// Sessions per page of a list.
const PAGE: usize = 50;

/// Sessions of a client that are open at once.
const MOST_SESSIONS: usize = 256;

/// The agent of one connection.
pub(crate) struct Agent {
    backend: Backend,
    client: Mutex<ClientCapabilities>,
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

/// An error for the client.
fn failed(failure: Failure) -> Error {
    let error = match failure.status {
        400 | 404 | 409 | 422 => Error::invalid_params(),
        401 => Error::auth_required(),
        _ => Error::internal_error(),
    };
    Error::new(error.code, failure.detail)
}

fn wrong(detail: impl Into<String>) -> Error {
    Error::new(Error::invalid_params().code, detail)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agent {
    pub(crate) fn new(backend: Backend) -> Self {
        Self { backend, client: Mutex::default(), sessions: Mutex::default() }
    }

    pub(crate) async fn close_all(&self) {
        self.backend.close().await;
    }

    pub(crate) fn initialize(&self, request: InitializeRequest) -> InitializeResponse {
        *locked(&self.client) = request.client_capabilities;
        let sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .delete(SessionDeleteCapabilities::new())
            .resume(SessionResumeCapabilities::new())
            .close(SessionCloseCapabilities::new());
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
            .session_capabilities(sessions);
        InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(Implementation::new("foreword", env!("CARGO_PKG_VERSION")).title("Foreword".to_owned()))
    }

    fn open(&self, id: &str, vault: &Vault) -> Result<Open, Error> {
        let mut sessions = locked(&self.sessions);
        if sessions.len() >= MOST_SESSIONS && !sessions.contains_key(id) {
            return Err(wrong(format!("{MOST_SESSIONS} sessions are open; close one")));
        }
        let open = Open { vault: vault.clone(), cancelled: Arc::default(), running: Arc::default() };
        Ok(sessions.entry(id.to_owned()).or_insert(open).clone())
    }

    fn session(&self, id: &SessionId) -> Result<Open, Error> {
        let open = locked(&self.sessions).get(&*id.0).cloned();
        open.ok_or_else(|| wrong(format!("session {} is not open; load or resume it first", id.0)))
    }

    fn vault(&self, folder: &std::path::Path) -> Result<Vault, Error> {
        if !folder.is_absolute() {
            return Err(wrong("cwd must be an absolute path"));
        }
        self.backend.vault(folder).map_err(failed)
    }

    pub(crate) async fn new_session(&self, request: NewSessionRequest) -> Result<NewSessionResponse, Error> {
        let vault = self.vault(&request.cwd)?;
        let id = vault.begin().await.map_err(failed)?;
        self.open(&id, &vault)?;
        let options = Options::of(&vault, &id).await.map_err(failed)?;
        Ok(NewSessionResponse::new(id).modes(options.modes).config_options(options.config))
    }

    /// What a client is told after a session was opened.
    pub(crate) fn opened(&self, id: &SessionId, cx: &Cx) -> Result<(), Error> {
        tell(cx, id, SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands::list())))
    }

    /// Opens a session and tells the client what was said in it.
    pub(crate) async fn load(&self, request: LoadSessionRequest, cx: &Cx) -> Result<LoadSessionResponse, Error> {
        let vault = self.vault(&request.cwd)?;
        let id = request.session_id;
        let session = vault.session(&id.0).await.map_err(failed)?;
        self.open(&id.0, &vault)?;
        let messages = session["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (at, message) in messages.iter().enumerate() {
            for update in replayed(at, message, &vault) {
                tell(cx, &id, update)?;
            }
        }
        let options = Options::of(&vault, &id.0).await.map_err(failed)?;
        Ok(LoadSessionResponse::new().modes(options.modes).config_options(options.config))
    }

    pub(crate) async fn resume(&self, request: ResumeSessionRequest) -> Result<ResumeSessionResponse, Error> {
        let vault = self.vault(&request.cwd)?;
        let id = request.session_id;
        vault.session(&id.0).await.map_err(failed)?;
        self.open(&id.0, &vault)?;
        let options = Options::of(&vault, &id.0).await.map_err(failed)?;
        Ok(ResumeSessionResponse::new().modes(options.modes).config_options(options.config))
    }

    pub(crate) async fn list(&self, request: ListSessionsRequest) -> Result<ListSessionsResponse, Error> {
        let folder = match request.cwd {
            Some(folder) => folder,
            None if self.backend.is_fixed() => PathBuf::from("/"),
            None => std::env::current_dir().map_err(|error| wrong(error.to_string()))?,
        };
        let vault = self.vault(&folder)?;
        let (rows, next) = vault.sessions(PAGE, request.cursor.as_deref()).await.map_err(failed)?;
        // A client asks for the sessions of its own folder.
        let folder = if folder.parent().is_none() { vault.root().to_owned() } else { folder };
        let sessions = rows.iter().map(|row| {
            let mut info = SessionInfo::new(text(row, "id").to_owned(), folder.clone());
            info.title = row["title"].as_str().map(str::to_owned);
            info.updated_at =
                row["touched_ms"].as_i64().and_then(|at| Some(Timestamp::from_millisecond(at).ok()?.to_string()));
            info
        });
        let mut response = ListSessionsResponse::new(sessions.collect());
        response.next_cursor = next;
        Ok(response)
    }

    pub(crate) async fn close(&self, request: CloseSessionRequest) -> Result<CloseSessionResponse, Error> {
        let open = self.session(&request.session_id)?;
        open.cancelled.store(true, Ordering::Release);
        open.vault.stop(&request.session_id.0).await.map_err(failed)?;
        locked(&self.sessions).remove(&*request.session_id.0);
        Ok(CloseSessionResponse::new())
    }

    pub(crate) async fn delete(&self, request: DeleteSessionRequest) -> Result<DeleteSessionResponse, Error> {
        let id = request.session_id;
        let open = locked(&self.sessions).get(&*id.0).cloned();
        let vault = match open {
            Some(open) => open.vault,
            None => {
                let folder = std::env::current_dir().map_err(|error| wrong(error.to_string()))?;
                self.vault(&folder)?
            }
        };
        vault.delete(&id.0).await.map_err(failed)?;
        locked(&self.sessions).remove(&*id.0);
        Ok(DeleteSessionResponse::new())
    }

    pub(crate) async fn set_mode(&self, request: SetSessionModeRequest, cx: &Cx) -> Result<SetSessionModeResponse, Error> {
        let (open, id, mode) = (self.session(&request.session_id)?, request.session_id, request.mode_id);
        if !is_mode(&mode.0) {
            return Err(wrong(format!("there is no mode {:?}", mode.0)));
        }
        Options::set(&open.vault, &id.0, "mode", &mode.0).await.map_err(failed)?;
        tell(cx, &id, SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(mode)))?;
        Ok(SetSessionModeResponse::new())
    }

    pub(crate) async fn set_option(
        &self,
        request: SetSessionConfigOptionRequest,
        cx: &Cx,
    ) -> Result<SetSessionConfigOptionResponse, Error> {
        let (open, id) = (self.session(&request.session_id)?, request.session_id);
        let value = request.value.as_value_id().ok_or_else(|| wrong("the value must be one of the option's values"))?;
        let options = Options::set(&open.vault, &id.0, &request.config_id.0, &value.0).await.map_err(failed)?;
        let options = options.ok_or_else(|| wrong(format!("there is no option {:?}", request.config_id.0)))?;
        tell(cx, &id, SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(options.config.clone())))?;
        Ok(SetSessionConfigOptionResponse::new(options.config))
    }

    /// Ends the turn that runs.
    pub(crate) async fn cancel(&self, request: CancelNotification) -> Result<(), Error> {
        let Ok(open) = self.session(&request.session_id) else { return Ok(()) };
        open.cancelled.store(true, Ordering::Release);
        // A turn that has not begun yet is ended once it has.
        let _ = open.vault.stop(&request.session_id.0).await;
        Ok(())
    }

    /// Runs a turn.
    pub(crate) async fn prompt(&self, request: PromptRequest, cx: &Cx) -> Result<PromptResponse, Error> {
        let (open, id) = (self.session(&request.session_id)?, request.session_id);
        if open.running.swap(true, Ordering::AcqRel) {
            return Err(wrong("a turn of this session is running; cancel it or wait"));
        }
        let ended = self.run(&open, &id, request.prompt, cx).await;
        open.running.store(false, Ordering::Release);
        ended.map(PromptResponse::new)
    }

    async fn run(
        &self,
        open: &Open,
        id: &SessionId,
        blocks: Vec<agent_client_protocol::v1::schema::ContentBlock>,
        cx: &Cx,
    ) -> Result<StopReason, Error> {
        open.cancelled.store(false, Ordering::Release);
        let vault = &open.vault;
        let mut prompt = Prompt::read(blocks, vault.root()).map_err(wrong)?;
        if let Some(answer) = commands::run(vault, &id.0, &prompt.words).await.map_err(failed)? {
            tell(cx, id, SessionUpdate::AgentMessageChunk(chunk(&answer)))?;
            return Ok(StopReason::EndTurn);
        }
        self.read_through_client(&mut prompt, vault, id, cx).await;
        let window = vault.settings(&id.0).await.map_err(failed)?["window"].as_u64().unwrap_or_default();
        let mut events = vault.events(&id.0).map_err(failed)?;
        vault.send(&id.0, &prompt.message()).await.map_err(failed)?;
        if open.cancelled.load(Ordering::Acquire) {
            vault.stop(&id.0).await.map_err(failed)?;
        }
        let mut turn = Turn::new(vault);
        loop {
            for (name, data) in events.next().await {
                for step in turn.take(name, data) {
                    match step {
                        Step::Tell(update) => tell(cx, id, update)?,
                        Step::Ask { approval, call, question } => {
                            let (vault, id, client) = (vault.clone(), id.clone(), cx.clone());
                            cx.spawn(async move { ask(&vault, &id, approval, &call, &question, &client).await })?;
                        }
                        Step::Done(reason, last) => {
                            if let Some(update) = usage(vault, &id.0, &last, window).await {
                                tell(cx, id, update)?;
                            }
                            self.tell_title(vault, id, cx).await?;
                            let cancelled = open.cancelled.load(Ordering::Acquire);
                            return Ok(if cancelled { StopReason::Cancelled } else { reason });
                        }
                        Step::Failed(_) if open.cancelled.load(Ordering::Acquire) => return Ok(StopReason::Cancelled),
                        Step::Failed(why) => return Err(Error::new(Error::internal_error().code, why)),
                    }
                }
            }
        }
    }

    /// Reads attached files through the client if it offers that: it knows changes that are not saved yet. Files outside of the vault
    /// are read in no other way.
    async fn read_through_client(&self, prompt: &mut Prompt, vault: &Vault, id: &SessionId, cx: &Cx) {
        let offers = locked(&self.client).fs.read_text_file;
        let notes = std::mem::take(&mut prompt.notes);
        for note in notes {
            let path = vault.root().join(&note);
            if offers && in_vault(&path, vault.root()).is_some() {
                let disk = vault.note(&note).await.ok();
                let read = cx.send_request(ReadTextFileRequest::new(id.clone(), path.clone())).block_task().await;
                if let (Ok(read), Some(disk)) = (read, disk)
                    && read.content.trim_end() != disk.trim_end()
                {
                    prompt.texts.push((format!("file://{} (not saved yet)", path.display()), read.content));
                    continue;
                }
            }
            prompt.notes.push(note);
        }
        for path in std::mem::take(&mut prompt.files).into_iter().filter(|_| offers) {
            if let Ok(read) = cx.send_request(ReadTextFileRequest::new(id.clone(), path.clone())).block_task().await {
                prompt.texts.push((format!("file://{}", path.display()), read.content));
            }
        }
    }

    async fn tell_title(&self, vault: &Vault, id: &SessionId, cx: &Cx) -> Result<(), Error> {
        let Ok(session) = vault.session(&id.0).await else { return Ok(()) };
        let Some(title) = session["title"].as_str() else { return Ok(()) };
        tell(cx, id, SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(title.to_owned())))
    }
}

/// Sends an update to the client.
fn tell(cx: &Cx, id: &SessionId, update: SessionUpdate) -> Result<(), Error> {
    cx.send_notification(SessionNotification::new(id.clone(), update))
}

/// Asks the client whether a tool may run, and passes its answer on.
async fn ask(vault: &Vault, id: &SessionId, approval: u64, call: &str, question: &Value, cx: &Cx) -> Result<(), Error> {
    let path = text(&question["arguments"], "path");
    let old = if path.is_empty() { None } else { vault.note(path).await.ok() };
    let asked = tool_calls::asked(call, question, old.as_deref(), vault.root());
    let options = vec![
        PermissionOption::new("once", "Allow", PermissionOptionKind::AllowOnce),
        PermissionOption::new("session", "Allow for this session", PermissionOptionKind::AllowAlways),
        PermissionOption::new("no", "Reject", PermissionOptionKind::RejectOnce),
    ];
    let answered = cx.send_request(RequestPermissionRequest::new(id.clone(), asked, options)).block_task().await;
    let decision = match answered.map(|answered| answered.outcome) {
        Ok(RequestPermissionOutcome::Selected(selected)) if &*selected.option_id.0 == "once" => "once",
        Ok(RequestPermissionOutcome::Selected(selected)) if &*selected.option_id.0 == "session" => "session",
        // Whatever else comes is no permission.
        _ => "no",
    };
    // A turn that was stopped no longer waits.
    let _ = vault.approve(&id.0, approval, decision).await;
    Ok(())
}

/// A message of the past as updates.
fn replayed(at: usize, message: &Value, vault: &Vault) -> Vec<SessionUpdate> {
    let said = chunk(text(message, "text"));
    if text(message, "role") == "user" {
        return vec![SessionUpdate::UserMessageChunk(said)];
    }
    let mut updates = Vec::new();
    if !text(message, "text").is_empty() {
        updates.push(SessionUpdate::AgentMessageChunk(said));
    }
    for (number, call) in message["calls"].as_array().into_iter().flatten().enumerate() {
        let id = format!("past-{at}-{number}");
        let begun = serde_json::json!({"id": id, "name": call["name"], "arguments": call["arguments"]});
        updates.push(SessionUpdate::ToolCall(tool_calls::begun(&begun, vault.root())));
        let output = call["result"].as_str().unwrap_or_default();
        let ended = serde_json::json!({"id": id, "failed": false, "text": output});
        updates.push(SessionUpdate::ToolCallUpdate(tool_calls::ended(&ended)));
    }
    updates
}

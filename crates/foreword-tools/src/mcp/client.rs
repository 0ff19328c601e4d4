//! One server over its life: running, crashed, started again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use foreword_core::catalog::Tool;
use rmcp::model::{CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, ServerResult};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::{Map, Value};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::background::{Background, Pending, Waited};
use super::connect::{self, Connection, Listener};
use super::process::Tail;
use super::secrets::Secrets;
use super::{content, listing};
use crate::toolbox::Problem;
use crate::{Output, ServerConfig};

/// The pause before a server is started again, doubled with each failure in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// A pause up to this is waited for; a longer one is told.
const PATIENCE: Duration = Duration::from_secs(1);

/// A call that shows progress may take this many times the time of one that does not.
const STRETCH: u32 = 10;

/// After so many calls in a row without an answer a server is taken for hung, and started again.
const SILENCES: u32 = 2;

/// How long a program that closed its output is given to tell how it ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

type Started = Result<(Connection, Vec<rmcp::model::Tool>), String>;

pub(crate) struct Client {
    config: Arc<ServerConfig>,
    /// What makes its sandbox; none where it has none, or where there is none on this machine.
    bwrap: Option<Arc<Path>>,
    secrets: Secrets,
    connection: Option<Connection>,
    /// The last list that was read; it stays when the server crashes, because it can be started again.
    tools: Vec<Tool>,
    /// How often a list was read.
    lists: u64,
    refused: Vec<String>,
    /// Why it is not running, or does not tell its tools.
    down: Option<String>,
    listener: Listener,
    tail: Tail,
    failures: u32,
    silences: u32,
    not_before: Option<Instant>,
}

/// Starts servers, all at once, and waits for them.
pub(crate) fn start_all(clients: &mut [Client], background: Option<&Background>) {
    let starting: Vec<_> = clients.iter().map(|client| Some(background?.begin(client.start(background?)?))).collect();
    for (client, pending) in clients.iter_mut().zip(starting) {
        client.started(pending.and_then(|pending| pending.wait()));
    }
}

/// Ends servers, all at once, and waits for it.
pub(crate) fn close_all(clients: &mut [Client], background: &Background) {
    let closing: Vec<_> = clients.iter_mut().filter_map(|client| client.close(background)).collect();
    for pending in closing {
        // A server that does not answer is killed.
        let _ = pending.wait();
    }
}

impl Client {
    pub(crate) fn new(config: ServerConfig, bwrap: Option<Arc<Path>>) -> Self {
        Self {
            secrets: Secrets::of(&config),
            config: Arc::new(config),
            bwrap,
            connection: None,
            tools: Vec::new(),
            lists: 0,
            refused: Vec::new(),
            down: None,
            listener: Listener { changed: Arc::default() },
            tail: Tail::default(),
            failures: 0,
            silences: 0,
            not_before: None,
        }
    }

    pub(crate) fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// Sorted by name.
    pub(crate) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// A tool as the server describes it now.
    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        let at = self.tools.binary_search_by(|tool| tool.name.as_str().cmp(name)).ok()?;
        self.tools.get(at)
    }

    /// How often its list was read: never where it has not been running yet.
    pub(crate) fn lists(&self) -> u64 {
        self.lists
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        let problem =
            |message: &String, stderr: String| Problem { server: self.config.name.clone(), message: message.clone(), stderr };
        let down = self.down.iter().map(move |message| problem(message, self.secrets.hide(&self.tail.text())));
        down.chain(self.refused.iter().chain(&self.config.notes).map(move |message| problem(message, String::new())))
    }

    /// Starts it; [`Client::started`] takes the result.
    fn start(&self, background: &Background) -> Option<impl Future<Output = Started> + Send + 'static> {
        let (config, guest) = (Arc::clone(&self.config), background.guest()?);
        Some(connect::start(config, self.bwrap.clone(), self.listener.clone(), self.tail.clone(), guest))
    }

    fn started(&mut self, started: Option<Started>) {
        match started.unwrap_or_else(|| Err("the thread that speaks to servers has ended".to_owned())) {
            Ok((connection, listed)) => {
                self.connection = Some(connection);
                self.down = None;
                self.silences = 0;
                self.listener.changed.store(false, Ordering::Relaxed);
                self.take(listed);
                tracing::info!(server = %self.config.name, tools = self.tools.len(), "tool server started");
            }
            Err(reason) => self.failed(reason),
        }
    }

    /// Begins to end it in good order.
    fn close(&mut self, background: &Background) -> Option<Pending<()>> {
        let mut connection = self.connection.take()?;
        Some(background.begin(async move {
            // After the timeout the process is killed.
            let _ = connection.service.close_with_timeout(PATIENCE).await;
        }))
    }

    fn take(&mut self, listed: Vec<rmcp::model::Tool>) {
        (self.tools, self.refused) = listing::tools(&self.config, listed);
        self.lists += 1;
    }

    /// Reads the list again where the server has said that it changed; whether what is known is what the server has now.
    pub(crate) fn refresh(&mut self, background: &Background) -> bool {
        if !self.listener.changed.swap(false, Ordering::Relaxed) {
            return true;
        }
        let Some(connection) = &self.connection else { return true };
        let (peer, limit) = (connection.service.peer().clone(), self.config.timeouts.start);
        let listing = background.begin(async move { timeout(limit, connect::list(&peer)).await });
        match listing.wait() {
            Some(Ok(Ok(listed))) => {
                self.take(listed);
                self.down = None;
                return true;
            }
            Some(Ok(Err(error))) => {
                self.down = Some(self.secrets.line(&format!("its list of tools changed and cannot be read: {error}")));
            }
            _ => self.down = Some("its list of tools changed and it does not tell the new one".to_owned()),
        }
        self.listener.changed.store(true, Ordering::Relaxed);
        false
    }

    /// Sees to it that the server runs and that its list is the one it has now. A call must not start it: a server that was started again may
    /// have other tools than those that were looked at. What is said otherwise is for the model.
    pub(crate) fn ready(&mut self, background: &Background, stop: &CancellationToken) -> Result<(), String> {
        self.ensure_running(background, stop)?;
        if self.refresh(background) {
            return Ok(());
        }
        let reason = self.down.as_deref().unwrap_or("its list of tools cannot be read");
        Err(format!("the server {} is not to be trusted now: {reason}.", self.config.name))
    }

    /// Runs one of its tools, once it is [`Client::ready`].
    pub(crate) fn call(
        &mut self,
        background: &Background,
        tool: &str,
        arguments: &Map<String, Value>,
        stop: &CancellationToken,
    ) -> Output {
        let name = format!("{}/{tool}", self.config.name);
        let Some(connection) = &self.connection else {
            return Output::failed(format!("{name} was not run: its server is not running."));
        };
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = Some(arguments.clone());
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let (peer, limit) = (connection.service.peer().clone(), self.config.timeouts.call);
        let answered = background.begin(answer(peer, request, limit, stop.clone())).wait();
        self.told(&name, answered.unwrap_or(Err(ServiceError::TransportClosed)))
    }

    fn told(&mut self, name: &str, answered: Result<ServerResult, ServiceError>) -> Output {
        if !matches!(answered, Err(ServiceError::Timeout { .. })) {
            self.silences = 0;
        }
        match answered {
            Ok(ServerResult::CallToolResult(result)) => {
                self.failures = 0;
                content::output(&result)
            }
            Ok(_) => {
                Output::failed(format!("{name} asked for something that is not possible here (input, or to be waited for)."))
            }
            Err(ServiceError::McpError(error)) => {
                Output::failed(format!("{name} was refused by its server: {}", self.secrets.hide(&error.message)))
            }
            Err(ServiceError::Cancelled { .. }) => {
                Output::failed(format!("{name} was stopped by the user; what it had done by then is not known."))
            }
            Err(ServiceError::Timeout { timeout }) => {
                self.silences += 1;
                if self.silences >= SILENCES {
                    self.crashed("it did not answer".to_owned());
                }
                Output::failed(format!(
                    "{name} gave no answer within {} s and was cancelled; what it had done by then is not known.",
                    timeout.as_secs_f64()
                ))
            }
            Err(error) => {
                let how = self.last_words().unwrap_or_else(|| self.secrets.line(&error.to_string()));
                self.crashed(format!("it ended in the middle of a call ({how})"));
                Output::failed(format!(
                    "{name} failed: its server ended ({how}). What it had done by then is not known. It is started again at the next call."
                ))
            }
        }
    }

    /// How its program ended, for which it is given a moment.
    fn last_words(&self) -> Option<String> {
        let process = self.connection.as_ref()?.process.as_ref()?;
        let until = Instant::now() + LAST_WORDS;
        while process.ended().is_none() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        process.ended()
    }

    fn crashed(&mut self, reason: String) {
        self.connection = None;
        self.failed(reason);
    }

    fn failed(&mut self, reason: String) {
        let pause = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(self.failures)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        tracing::warn!(server = %self.config.name, failures = self.failures, "tool server is down");
        tracing::trace!(server = %self.config.name, %reason, "why the tool server is down");
        self.not_before = Some(Instant::now() + pause);
        self.down = Some(reason);
    }

    /// Starts it again where it has ended, once; what is said otherwise is for the model.
    fn ensure_running(&mut self, background: &Background, stop: &CancellationToken) -> Result<(), String> {
        match &self.connection {
            Some(connection) if !connection.service.peer().is_transport_closed() => return Ok(()),
            Some(_) => {
                let how = self.last_words().unwrap_or_else(|| "the connection was closed".to_owned());
                self.crashed(format!("it ended ({how})"));
            }
            None => {}
        }
        let server = &self.config.name;
        let pause = self.not_before.map(|at| at.saturating_duration_since(Instant::now())).unwrap_or_default();
        if pause > PATIENCE {
            let reason = self.down.as_deref().unwrap_or("it is not running");
            return Err(format!(
                "the server {server} is not there: {reason}. It can be tried again in {} s.",
                pause.as_secs() + 1
            ));
        }
        thread::sleep(pause);
        let starting = self.start(background).ok_or("the toolbox is closing.")?;
        // One that comes up after a stop is ended again, because nobody takes it.
        let started = match background.begin_unless(stop.clone(), starting).wait() {
            Some(Waited::Stopped) => return Err("the user stopped this turn.".to_owned()),
            Some(Waited::Done(started)) => started,
            None => None,
        };
        self.started(started);
        match &self.down {
            Some(reason) => Err(format!("its server had ended and cannot be started again: {reason}.")),
            None => Ok(()),
        }
    }
}

/// Makes a call and waits for the answer; when it is to stop, the server is told so.
async fn answer(
    peer: Peer<RoleClient>,
    request: ClientRequest,
    limit: Duration,
    stop: CancellationToken,
) -> Result<ServerResult, ServiceError> {
    let reason = || Some("the user stopped it".to_owned());
    let longest = limit.saturating_mul(STRETCH);
    let options = PeerRequestOptions::with_timeout(limit).reset_timeout_on_progress().with_max_total_timeout(longest);
    // A server that reads nothing any more can keep even the question from leaving.
    let handle = tokio::select! {
        sent = timeout(limit, peer.send_request_with_option(request, options)) => {
            sent.unwrap_or(Err(ServiceError::Timeout { timeout: limit }))?
        }
        () = stop.cancelled() => return Err(ServiceError::Cancelled { reason: reason() }),
    };
    let id = handle.id.clone();
    tokio::select! {
        answer = handle.await_response() => answer,
        () = stop.cancelled() => {
            let told = CancelledNotificationParam::new(Some(id), reason());
            // The call has ended for us, whether the server knows it or not.
            let _ = timeout(PATIENCE, peer.notify_cancelled(told)).await;
            Err(ServiceError::Cancelled { reason: reason() })
        }
    }
}

//! The way to a connection with a server, and what it has.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::model::{
    self, ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams, ProtocolVersion, ServerNotification,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer, RoleClient, RunningService,
    ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, model::SubscriptionFilter};

use super::background::Guest;
use super::bounded::MAX_LINE;
use super::listing::MAX_TOOLS;
use super::process::{self, Process, Program, Tail};
use super::secrets::Secrets;
use crate::{ServerConfig, Transport};

/// Most pages of a tool list.
const MAX_PAGES: usize = 100;

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// A connection to a server, and its program where it is one of ours.
pub(super) struct Connection {
    pub(super) service: RunningService<RoleClient, Listener>,
    pub(super) process: Option<Process>,
}

/// What a server may tell or ask us. It can say that its list changed; whatever it asks for is declined.
#[derive(Clone)]
pub(super) struct Listener {
    pub(super) changed: Arc<AtomicBool>,
}

impl ClientHandler for Listener {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Relaxed);
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("foreword", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }
}

/// Connects and lists the tools, within the time that the server has to start.
pub(super) async fn start(
    config: Arc<ServerConfig>,
    bwrap: Option<Arc<Path>>,
    listener: Listener,
    tail: Tail,
    guest: Guest,
) -> Result<(Connection, Vec<model::Tool>), String> {
    let secrets = Secrets::of(&config);
    let limit = config.timeouts.start;
    let starting = async {
        let connection = connect(&config, bwrap.as_deref(), listener, &tail, &guest).await?;
        let tools = list(connection.service.peer()).await.map_err(|error| format!("it did not list its tools: {error}"))?;
        subscribe(&connection.service).await;
        Ok((connection, tools))
    };
    let started: Result<_, String> = tokio::time::timeout(limit, starting).await.unwrap_or_else(|_| {
        Err(format!("it did not start within {} s; raise the timeout, or check what it is waiting for", limit.as_secs_f64()))
    });
    started.map_err(|reason| secrets.line(&reason))
}

/// First as the current revision of the protocol has it, which servers of the previous one refuse politely; a server that cannot even
/// do that is met anew in the previous way.
async fn connect(
    config: &ServerConfig,
    bwrap: Option<&Path>,
    listener: Listener,
    tail: &Tail,
    guest: &Guest,
) -> Result<Connection, String> {
    let auto = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    match attempt(config, bwrap, listener.clone(), tail, guest, auto).await {
        Err(Failure::Handshake(_)) => {}
        Err(Failure::Final(reason)) => return Err(reason),
        Ok(connection) => return Ok(connection),
    }
    attempt(config, bwrap, listener, tail, guest, ClientLifecycleMode::Initialize).await.map_err(|failure| match failure {
        Failure::Handshake(reason) | Failure::Final(reason) => reason,
    })
}

/// Why there is no connection.
enum Failure {
    /// Another way of greeting might help.
    Handshake(String),
    /// Nothing will.
    Final(String),
}

async fn attempt(
    config: &ServerConfig,
    bwrap: Option<&Path>,
    listener: Listener,
    tail: &Tail,
    guest: &Guest,
    lifecycle: ClientLifecycleMode,
) -> Result<Connection, Failure> {
    let connection = match &config.transport {
        Transport::Stdio { command, args, env, cwd } => {
            let sandbox = config.sandbox.as_ref().zip(bwrap);
            let missing = sandbox.map(|(sandbox, _)| sandbox.missing()).unwrap_or_default();
            let program = Program { file: command, args, env, cwd, sandbox };
            let (process, stdout, stdin) = process::start(&program, tail, guest.clone())
                .map_err(|error| Failure::Final(unstartable(command, cwd, &error)))?;
            // The line limit is kept by `stdout` itself.
            let transport = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(usize::MAX);
            let service = serve_client_with_lifecycle(listener, transport, lifecycle).await;
            let service = service
                .map_err(|error| Failure::Handshake(format!("it does not answer like an MCP server: {error}{missing}")))?;
            Connection { service, process: Some(process) }
        }
        Transport::Http { url, headers } => {
            let transport = http_transport(url, headers).map_err(Failure::Final)?;
            let service = serve_client_with_lifecycle(listener, transport, lifecycle).await.map_err(|error| refused(&error))?;
            Connection { service, process: None }
        }
    };
    // A list is asked for only when it may have changed, so an old answer is never what is wanted.
    connection.service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
    Ok(connection)
}

fn unstartable(command: &Path, cwd: &Path, error: &std::io::Error) -> String {
    let (command, cwd) = (command.display(), cwd.display());
    format!("its program `{command}` cannot be started in {cwd}: {error}; check that it is installed and its name is correct")
}

fn refused(error: &ClientInitializeError) -> Failure {
    if error.is_authorization_required() {
        return Failure::Final("it requires authentication: set its API key as a header (`Authorization`)".to_owned());
    }
    Failure::Handshake(format!("it cannot be reached, or does not answer like an MCP server: {}", causes(error)))
}

/// An error with what it says about its causes, where they add something.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

fn http_transport(
    url: &str,
    headers: &std::collections::BTreeMap<String, String>,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    // Two clients of one process set this both; the first one counts, and they are the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .no_proxy()
        // A key in a header must not travel to where a server sends us.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .build()
        .map_err(|error| format!("cannot connect: {}", causes(&error)))?;
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let header = HeaderName::try_from(name).map_err(|_| format!("{name:?} is not a valid header name"))?;
        let value = HeaderValue::try_from(value).map_err(|_| format!("the value of the header {name:?} is invalid"))?;
        custom.insert(header, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(custom).max_sse_event_size(MAX_LINE);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// All tools of a server, page by page.
pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<Vec<model::Tool>, ServiceError> {
    if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
        return Ok(Vec::new());
    }
    let (mut tools, mut cursor) = (Vec::new(), None);
    // One tool more than may be, so that what is left out is noticed.
    for _ in 0..MAX_PAGES {
        let page = peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() > MAX_TOOLS {
            break;
        }
    }
    Ok(tools)
}

/// Asks to be told when the list changes. The previous revision tells unasked; a server that does not take the question is let be.
async fn subscribe(service: &RunningService<RoleClient, Listener>) {
    let tells = service.peer_info().is_some_and(|info| {
        info.protocol_version >= ProtocolVersion::V_2026_07_28
            && info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true))
    });
    if !tells {
        return;
    }
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let Ok(Ok(mut subscription)) = tokio::time::timeout(CONNECT, service.peer().listen(filter)).await else { return };
    let changed = Arc::clone(&service.service().changed);
    tokio::spawn(async move {
        while let Ok(Some(notification)) = subscription.next().await {
            if matches!(notification, ServerNotification::ToolListChangedNotification(_)) {
                changed.store(true, Ordering::Relaxed);
            }
        }
    });
}

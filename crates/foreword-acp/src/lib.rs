//! Foreword as an agent of the Agent Client Protocol (ACP), version 1: editors start it and speak to it on standard input and output.
//!
//! Sessions are those of the server, called in this process, so they are the same in an editor, on the page and in the terminal. A file is
//! changed only after the client has allowed it. Files outside of the vault are read only through the client.

mod agent;
mod backend;
mod commands;
mod options;
mod prompt;
mod tool_calls;
mod turn;

use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    CancelNotification, CloseSessionRequest, DeleteSessionRequest, InitializeRequest, ListSessionsRequest, LoadSessionRequest,
    NewSessionRequest, PromptRequest, ResumeSessionRequest, SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use agent_client_protocol::{Agent as AgentRole, ConnectTo, Stdio, on_receive_notification, on_receive_request};

pub use backend::{Config, Prepare};

use agent::Agent;
use backend::Backend;

/// Why the agent ended.
#[derive(Debug, thiserror::Error)]
#[error("the connection to the client failed: {0}")]
pub struct ServeError(String);

/// Serves one client on standard input and output, until it closes them.
pub async fn serve_stdio(config: Config) -> Result<(), ServeError> {
    serve(config, Stdio::new()).await
}

/// Serves one client. Requests that take time run as tasks of their own, so that a cancellation is heard meanwhile.
pub async fn serve(config: Config, transport: impl ConnectTo<AgentRole> + 'static) -> Result<(), ServeError> {
    let agent = Arc::new(Agent::new(Backend::new(config)));
    /// A handler that answers in a task.
    macro_rules! answer {
        ($request:ty, |$agent:ident, $wanted:ident, $cx:ident| $answer:expr) => {{
            let shared = Arc::clone(&agent);
            async move |$wanted: $request, responder: agent_client_protocol::v1::Responder<_>, cx: agent::Cx| {
                let ($agent, $cx) = (Arc::clone(&shared), cx.clone());
                cx.spawn(async move {
                    let _ = (&$agent, &$cx);
                    responder.respond_with_result($answer.await)
                })
            }
        }};
    }
    let (first, beginning, loading, resuming) = (Arc::clone(&agent), Arc::clone(&agent), Arc::clone(&agent), Arc::clone(&agent));
    let cancelling = Arc::clone(&agent);
    let served = AgentRole
        .v1()
        .name("foreword")
        .on_receive_request(
            async move |request: InitializeRequest, responder: agent_client_protocol::v1::Responder<_>, _: agent::Cx| {
                responder.respond(first.initialize(request))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder: agent_client_protocol::v1::Responder<_>, cx: agent::Cx| {
                let (agent, client) = (Arc::clone(&beginning), cx.clone());
                cx.spawn(async move {
                    let begun = agent.new_session(request).await;
                    let id = begun.as_ref().ok().map(|begun| begun.session_id.clone());
                    responder.respond_with_result(begun)?;
                    id.map_or(Ok(()), |id| agent.opened(&id, &client))
                })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest, responder: agent_client_protocol::v1::Responder<_>, cx: agent::Cx| {
                let (agent, client) = (Arc::clone(&loading), cx.clone());
                cx.spawn(async move {
                    let id = request.session_id.clone();
                    let loaded = agent.load(request, &client).await;
                    let is_open = loaded.is_ok();
                    responder.respond_with_result(loaded)?;
                    if is_open { agent.opened(&id, &client) } else { Ok(()) }
                })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ResumeSessionRequest, responder: agent_client_protocol::v1::Responder<_>, cx: agent::Cx| {
                let (agent, client) = (Arc::clone(&resuming), cx.clone());
                cx.spawn(async move {
                    let id = request.session_id.clone();
                    let resumed = agent.resume(request).await;
                    let is_open = resumed.is_ok();
                    responder.respond_with_result(resumed)?;
                    if is_open { agent.opened(&id, &client) } else { Ok(()) }
                })
            },
            on_receive_request!(),
        )
        .on_receive_request(answer!(ListSessionsRequest, |agent, wanted, cx| agent.list(wanted)), on_receive_request!())
        .on_receive_request(answer!(CloseSessionRequest, |agent, wanted, cx| agent.close(wanted)), on_receive_request!())
        .on_receive_request(answer!(DeleteSessionRequest, |agent, wanted, cx| agent.delete(wanted)), on_receive_request!())
        .on_receive_request(answer!(SetSessionModeRequest, |agent, wanted, cx| agent.set_mode(wanted, &cx)), on_receive_request!())
        .on_receive_request(
            answer!(SetSessionConfigOptionRequest, |agent, wanted, cx| agent.set_option(wanted, &cx)),
            on_receive_request!(),
        )
        .on_receive_request(answer!(PromptRequest, |agent, wanted, cx| agent.prompt(wanted, &cx)), on_receive_request!())
        .on_receive_notification(
            async move |request: CancelNotification, cx: agent::Cx| {
                let agent = Arc::clone(&cancelling);
                cx.spawn(async move { agent.cancel(request).await })
            },
            on_receive_notification!(),
        )
        .connect_to(transport)
        .await;
    // Turns that run are stopped and stored.
    agent.close_all().await;
    served.map_err(|error| ServeError(error.to_string()))
}

//! The conversations of clients whose requests are passed on: each a session, with what its requests cost and where its cache broke.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use foreword_gateway::{ClientBreak, ClientLayer, ClientRequest, ClientSession, client_session, client_sessions};
use serde::Serialize;
use utoipa::ToSchema;

use super::Answer;
use super::given::Path;
use crate::app::App;
use crate::problem::{NOT_FOUND, Problem};

/// A session of a client.
#[derive(Serialize, ToSchema)]
pub(crate) struct ClientSessionView {
    /// Its name.
    id: String,
    /// The session that it is a side call of.
    parent: Option<String>,
    /// What it is about.
    title: Option<String>,
    /// The program.
    client: Option<String>,
    /// The model of its last request.
    model: String,
    /// The level of its last request.
    level: String,
    /// When it began, in milliseconds since 1970.
    created_ms: i64,
    /// When its last request came.
    touched_ms: i64,
    /// Requests.
    requests: u64,
    /// Requests without an answer, or with a refusal.
    failed: u64,
    /// Tokens read from the provider's cache.
    read: u64,
    /// Tokens written to it.
    write: u64,
    /// Tokens of prompts that were neither.
    uncached: u64,
    /// Tokens of replies.
    output: u64,
    /// What it cost, in USD.
    cost: f64,
    /// What it would have cost without a cache.
    cost_uncached: f64,
}

impl From<ClientSession> for ClientSessionView {
    fn from(session: ClientSession) -> Self {
        let ClientSession { id, parent, title, client, model, level, created_ms, touched_ms, requests, failed, .. } = session;
        let ClientSession { read, write, uncached, output, cost, cost_uncached, .. } = session;
        Self {
            id,
            parent,
            title,
            client,
            model,
            level,
            created_ms,
            touched_ms,
            requests,
            failed,
            read,
            write,
            uncached,
            output,
            cost,
            cost_uncached,
        }
    }
}

/// A part of a request.
#[derive(Serialize, ToSchema)]
pub(crate) struct ClientLayerView {
    /// `tools`, `system`, `history` or `input`.
    id: &'static str,
    /// Its share of the prompt's tokens.
    tokens: u64,
    /// The part of it that came from the provider's cache.
    cached: u64,
    /// The hash of it.
    sha256: String,
    /// The hash of everything up to its end.
    prefix: String,
}

/// Where a request stopped being a continuation of the one before it.
#[derive(Serialize, ToSchema)]
pub(crate) struct ClientBreakView {
    /// The first place that differs, for example `messages[3].content[0].text`.
    path: String,
    /// Why: `tools_changed`, `system_changed`, `message_changed`, `message_removed`, `model_changed`, `expired`.
    cause: &'static str,
    /// What stood there.
    before: Option<String>,
    /// What stands there now.
    now: Option<String>,
    /// Tokens that could not be read again.
    tokens: u64,
    /// What those cost beyond what reading them would have, in USD.
    cost: f64,
}

/// A request of a client's session.
#[derive(Serialize, ToSchema)]
pub(crate) struct ClientRequestView {
    /// Its number: `/forwarded/{number}` has its body.
    number: u64,
    /// Its place in the session, from 1.
    place: u64,
    /// When, in milliseconds since 1970.
    at_ms: i64,
    /// The API it is in.
    front: String,
    /// The model.
    model: String,
    /// Its level.
    level: String,
    /// The status of its answer.
    status: Option<u16>,
    /// What was added to it.
    added: Vec<String>,
    /// Tokens read from the provider's cache.
    read: u64,
    /// Tokens written to it.
    write: u64,
    /// Tokens of the prompt that were neither.
    uncached: u64,
    /// Tokens of the reply.
    output: u64,
    /// What it cost, in USD.
    cost: f64,
    /// Its layers.
    layers: Vec<ClientLayerView>,
    /// Where its cache broke.
    broke: Option<ClientBreakView>,
}

impl From<ClientRequest> for ClientRequestView {
    fn from(request: ClientRequest) -> Self {
        let ClientRequest { number, place, at_ms, front, model, level, status, added, .. } = request;
        let ClientRequest { read, write, uncached, output, cost, layers, broke, .. } = request;
        let layer = |ClientLayer { id, tokens, cached, sha256, prefix }| ClientLayerView {
            id,
            tokens,
            cached,
            sha256: sha256.to_string(),
            prefix: prefix.to_string(),
        };
        let layers = layers.into_iter().map(layer).collect();
        let broke = broke.map(|ClientBreak { path, cause, before, now, tokens, cost }| ClientBreakView {
            path,
            cause,
            before,
            now,
            tokens,
            cost,
        });
        Self { number, place, at_ms, front, model, level, status, added, read, write, uncached, output, cost, layers, broke }
    }
}

/// The sessions of clients whose requests are passed on, the last used first.
#[utoipa::path(get, path = "/clients", tag = "ledger", responses((status = 200, body = [ClientSessionView])))]
pub(crate) async fn list(State(app): State<Arc<App>>) -> Answer<Vec<ClientSessionView>> {
    let found = app.common.with_store(|store| Ok(client_sessions(store)?.into_iter().map(ClientSessionView::from).collect()));
    found.await.map(Json)
}

/// The requests of one, with their layers and where the cache broke, the first one first.
#[utoipa::path(get, path = "/clients/{session}", tag = "ledger", params(("session" = String, Path)), responses((status = 200, body = [ClientRequestView]), (status = 404, body = Problem)))]
pub(crate) async fn show(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<Vec<ClientRequestView>> {
    let config = app.config.answers.config.clone();
    let found = app.common.with_store(move |store| {
        let requests = client_session(store, &session, &config)?;
        if requests.is_empty() {
            return Err(Problem::new(NOT_FOUND, format!("no client has a session {session:?}")));
        }
        Ok(requests.into_iter().map(ClientRequestView::from).collect())
    });
    found.await.map(Json)
}

//! Forwarded requests, byte for byte. API keys are sent as headers and never stored.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use foreword_engine::session::{Forwarded, Store as _};
use foreword_gateway::About;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Answer;
use super::given::{Asked, Path, next_page};
use crate::app::App;
use crate::problem::{NOT_FOUND, Problem};

/// The default and largest page size.
const USUAL: usize = 100;
const MOST: usize = 1000;

/// A forwarded request.
#[derive(Serialize, ToSchema)]
pub(crate) struct ForwardedView {
    /// Its number.
    number: u64,
    /// Its time in milliseconds since 1970.
    at_ms: i64,
    /// The API it is in: `chat`, `responses`, `messages`, `gemini`, `embeddings` …
    front: String,
    /// The model.
    model: String,
    /// Its session.
    session: Option<String>,
    /// The session that it is a side call of.
    parent: Option<String>,
    /// The level at which it was passed on.
    level: String,
    /// The program that it comes from.
    client: Option<String>,
    /// Whether its tokens are an estimate, since its provider did not count them.
    estimated: bool,
    /// The status of its answer; none where there was none, or none yet.
    status: Option<u16>,
    /// Tokens read from the provider's cache.
    read: u64,
    /// Tokens written to the cache.
    write: u64,
    /// Other tokens of the prompt.
    uncached: u64,
    /// Tokens of the reply.
    output: u64,
    /// The cost in USD.
    cost: f64,
    /// The cost without a cache.
    cost_uncached: f64,
    /// Milliseconds to the beginning of the answer.
    first_token_ms: Option<u64>,
    /// Milliseconds to the end of the answer.
    total_ms: Option<u64>,
}

impl From<Forwarded> for ForwardedView {
    fn from(passed: Forwarded) -> Self {
        let Forwarded { number, at_ms, front, session, status, usage, about, came } = passed;
        let About { level, client, parent, .. } = About::read(about.as_deref());
        Self {
            parent,
            level,
            client,
            estimated: came.is_some_and(|came| came.contains("\"estimated\":true")),
            number,
            at_ms,
            front,
            model: usage.model,
            session,
            status,
            read: usage.read,
            write: usage.write,
            uncached: usage.uncached,
            output: usage.output,
            cost: usage.cost,
            cost_uncached: usage.cost_uncached,
            first_token_ms: usage.first_token_ms,
            total_ms: usage.total_ms,
        }
    }
}

/// Which requests to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ForwardedQuery {
    /// Only requests with a lower number: the last one of the previous page.
    before: Option<u64>,
    /// The page size.
    #[param(maximum = 1000)]
    limit: Option<usize>,
}

/// Lists requests that the gateway forwarded unchanged, the latest first. The `Link` header leads to the next page.
#[utoipa::path(get, path = "/forwarded", tag = "ledger", params(ForwardedQuery), responses((status = 200, body = [ForwardedView])))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Asked(query): Asked<ForwardedQuery>,
) -> Result<(HeaderMap, Json<Vec<ForwardedView>>), Problem> {
    let limit = query.limit.unwrap_or(USUAL).min(MOST);
    let mut rows = app.common.with_store(move |store| Ok(store.forwarded_before(query.before, limit + 1)?)).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| more).map(|row| row.number);
    let next = next_page(last.map(|before| format!("/api/v1/forwarded?before={before}&limit={limit}")));
    Ok((next, Json(rows.into_iter().map(ForwardedView::from).collect())))
}

/// A forwarded request with its body.
#[derive(Serialize, ToSchema)]
pub(crate) struct ForwardedDetail {
    #[serde(flatten)]
    request: ForwardedView,
    /// The exact body.
    body: String,
}

/// Returns a forwarded request with its exact body.
#[utoipa::path(get, path = "/forwarded/{number}", tag = "ledger", params(("number" = u64, Path)), responses((status = 200, body = ForwardedDetail), (status = 404, body = Problem)))]
pub(crate) async fn show(State(app): State<Arc<App>>, Path(number): Path<u64>) -> Answer<ForwardedDetail> {
    let found = app.common.with_store(move |store| {
        let row = store.forwarded_before(number.checked_add(1), 1)?.pop().filter(|row| row.number == number);
        let none = || Problem::new(NOT_FOUND, format!("there is no forwarded request {number}"));
        Ok(ForwardedDetail { request: row.ok_or_else(none)?.into(), body: store.forwarded_body(number)? })
    });
    found.await.map(Json)
}

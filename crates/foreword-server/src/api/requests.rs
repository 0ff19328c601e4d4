//! Requests of the past: what they held and why, their exact bytes, where two of them part.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use foreword_engine::session::{
    Bar, Difference, Inspection, LayerText, Store as _, bars, diff as compare, inspect, layer_texts, wire as bytes,
};
use foreword_engine::vault::{Agent, ItemId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Answer;
use super::catalog::{Told, told};
use super::given::{Asked, Path};
use super::sessions::named;
use super::shapes;
use crate::app::App;
use crate::problem::{NOT_FOUND, Problem};

/// The requests of a session: their sizes by layer, what the cache served, what broke it, what they cost.
#[utoipa::path(get, path = "/sessions/{session}/requests", tag = "requests", params(("session" = String, Path)), responses((status = 200, body = [shapes::Bar]), (status = 404, body = Problem)))]
pub(crate) async fn list(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<Vec<Bar>> {
    app.common.with_store(move |store| Ok(bars(store, &named(store, &session)?)?)).await.map(Json)
}

/// A request with what is known of its items.
#[derive(Serialize, ToSchema)]
pub(crate) struct RequestView {
    /// The record: layers with their segments, items with include mode, score, layer, form and tokens, what was left out and why.
    #[serde(flatten)]
    #[schema(value_type = shapes::Inspection)]
    inspection: Inspection,
    /// Names, descriptions and priorities of the items, by item.
    items: BTreeMap<String, Told>,
}

/// What a request held, from its record.
#[utoipa::path(get, path = "/sessions/{session}/requests/{request}", tag = "requests", params(("session" = String, Path), ("request" = u64, Path, description = "from 0")), responses((status = 200, body = RequestView), (status = 404, body = Problem)))]
pub(crate) async fn show(State(app): State<Arc<App>>, Path((session, request)): Path<(String, u64)>) -> Answer<RequestView> {
    let found = app.common.with_store(move |store| {
        let id = named(store, &session)?;
        let inspection = inspect(store, &id, request)?;
        let agent: Agent = serde_json::from_value(store.agent(store.session(&id)?.agent)?).unwrap_or_default();
        let context = inspection.context.iter().map(|entry| &entry.item);
        let all: Vec<&ItemId> = context.chain(inspection.left_out.iter().map(|left_out| &left_out.item)).collect();
        let items = all.into_iter().map(|item| (item.to_string(), told(&agent, item))).collect();
        Ok(RequestView { inspection, items })
    });
    found.await.map(Json)
}

/// What each layer of a request says.
#[utoipa::path(get, path = "/sessions/{session}/requests/{request}/layers", tag = "requests", params(("session" = String, Path), ("request" = u64, Path)), responses((status = 200, body = [shapes::LayerText]), (status = 404, body = Problem)))]
pub(crate) async fn layers(State(app): State<Arc<App>>, Path((session, request)): Path<(String, u64)>) -> Answer<Vec<LayerText>> {
    app.common.with_store(move |store| Ok(layer_texts(store, &named(store, &session)?, request)?)).await.map(Json)
}

/// The exact bytes of a request.
#[utoipa::path(get, path = "/sessions/{session}/requests/{request}/wire", tag = "requests", params(("session" = String, Path), ("request" = u64, Path)), responses((status = 200, body = Object), (status = 404, body = Problem)))]
pub(crate) async fn wire(
    State(app): State<Arc<App>>,
    Path((session, request)): Path<(String, u64)>,
) -> Result<impl IntoResponse, Problem> {
    let body = app.common.with_store(move |store| Ok(bytes(store, &named(store, &session)?, request)?)).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body))
}

/// What to compare with.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DiffQuery {
    /// The earlier request; the one before where it is left out.
    before: Option<u64>,
    /// The session of the earlier request; the same where it is left out.
    session: Option<String>,
}

/// Where a request parts from an earlier one: the byte, the item, the cause, the price.
#[utoipa::path(get, path = "/sessions/{session}/requests/{request}/diff", tag = "requests", params(("session" = String, Path), ("request" = u64, Path), DiffQuery), responses((status = 200, body = shapes::Difference), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn diff(
    State(app): State<Arc<App>>,
    Path((session, request)): Path<(String, u64)>,
    Asked(query): Asked<DiffQuery>,
) -> Answer<Difference> {
    let found = app.common.with_store(move |store| {
        let id = named(store, &session)?;
        let other = query.session.as_deref().map_or_else(|| Ok(id.clone()), |other| named(store, other))?;
        let Some(before) = query.before.or_else(|| request.checked_sub(1)) else {
            return Err(Problem::new(NOT_FOUND, "there is no request before the first"));
        };
        Ok(compare(store, (&other, before), (&id, request))?)
    });
    found.await.map(Json)
}

//! Pins: messages and items that every fold keeps.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use foreword_engine::session::Pinned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Answer;
use super::given::{Asked, Given, Path};
use super::sessions::full_name;
use super::shapes;
use crate::app::App;
use crate::clock::now_ms;
use crate::problem::Problem;

/// Something to pin.
#[derive(Deserialize, Serialize, ToSchema, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct What {
    /// A message (`m12`), or an attached item: `note:Path.md`, or its path.
    what: String,
}

/// Lists the pins: messages, then items.
#[utoipa::path(get, path = "/sessions/{session}/pins", tag = "history", params(("session" = String, Path)), responses((status = 200, body = [shapes::Pinned]), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn list(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<Vec<Pinned>> {
    let id = full_name(&app, session).await?;
    app.hub.ask(&id, |desk| Ok(desk.kept()?.pins())).await.map(Json)
}

/// Pins a message or an item, so that every fold keeps it.
#[utoipa::path(post, path = "/sessions/{session}/pins", tag = "history", params(("session" = String, Path)), request_body = What, responses((status = 200, body = [shapes::Pinned]), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Given(pin): Given<What>,
) -> Answer<Vec<Pinned>> {
    let id = full_name(&app, session).await?;
    let pinned = app.hub.change(&id, move |desk| {
        desk.kept()?.pin(&pin.what, now_ms())?;
        desk.changed();
        Ok(desk.kept()?.pins())
    });
    pinned.await.map(Json)
}

/// Removes a pin.
#[utoipa::path(delete, path = "/sessions/{session}/pins", tag = "history", params(("session" = String, Path), What), responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Asked(pin): Asked<What>,
) -> Result<StatusCode, Problem> {
    let id = full_name(&app, session).await?;
    let unpinned = app.hub.change(&id, move |desk| {
        desk.kept()?.unpin(&pin.what, now_ms())?;
        desk.changed();
        Ok(())
    });
    unpinned.await?;
    Ok(StatusCode::NO_CONTENT)
}

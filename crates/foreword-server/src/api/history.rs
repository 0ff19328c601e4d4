//! Going back and folding.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use foreword_engine::session::{Fork, Input, Store as _, fork as fork_session, new_session_id, turns};
use serde::Deserialize;
use utoipa::ToSchema;

use super::given::Given;
use super::sessions::{SessionView, full_name, named};
use crate::app::App;
use crate::clock::now_ms;
use crate::problem::Problem;

/// Where a fork begins.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFork {
    /// After which turn; after the last where it is left out.
    #[serde(default)]
    turn: Option<u64>,
    /// What it is about.
    #[serde(default)]
    title: Option<String>,
}

/// Begins a session beside another one that shares its turns up to one of them.
#[utoipa::path(post, path = "/sessions/{session}/fork", tag = "history", params(("session" = String, Path)), request_body = NewFork, responses((status = 201, body = SessionView), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn fork(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Given(new): Given<NewFork>,
) -> Result<(StatusCode, Json<SessionView>), Problem> {
    let row = app.common.with_store(move |store| {
        let id = named(store, &session)?;
        let turn = match new.turn {
            Some(turn) => turn,
            None => turns(store, &id)?.0,
        };
        let fork = Fork { id: new_session_id()?, title: new.title, created_ms: now_ms() };
        fork_session(store, &id, turn, &fork)?;
        Ok(store.session(&fork.id)?)
    });
    let row = row.await?;
    Ok((StatusCode::CREATED, Json(SessionView::new(&app, &row))))
}

/// A turn to go back to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Back {
    /// Which, from 1; 0 is before the first.
    turn: u64,
}

/// Takes a session back to the end of a turn.
#[utoipa::path(post, path = "/sessions/{session}/rewind", tag = "history", params(("session" = String, Path)), request_body = Back, responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn rewind(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Given(back): Given<Back>,
) -> Result<StatusCode, Problem> {
    let id = full_name(&app, session).await?;
    app.hub.ask(&id, move |desk| desk.rewind(back.turn)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Folds with the next turn: old runs become the summary.
#[utoipa::path(post, path = "/sessions/{session}/fold", tag = "history", params(("session" = String, Path)), responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn fold(State(app): State<Arc<App>>, Path(session): Path<String>) -> Result<StatusCode, Problem> {
    tell(&app, session, Input::Fold).await
}

/// Takes the last fold back with the next turn.
#[utoipa::path(delete, path = "/sessions/{session}/fold", tag = "history", params(("session" = String, Path)), responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn undo_fold(State(app): State<Arc<App>>, Path(session): Path<String>) -> Result<StatusCode, Problem> {
    tell(&app, session, Input::UndoFold).await
}

pub(super) async fn tell(app: &App, session: String, input: Input) -> Result<StatusCode, Problem> {
    let id = full_name(app, session).await?;
    app.hub.ask(&id, move |desk| desk.tell(input)).await?;
    Ok(StatusCode::NO_CONTENT)
}

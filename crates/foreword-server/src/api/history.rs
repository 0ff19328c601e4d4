//! Going back and folding.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use foreword_engine::manager::View;
use foreword_engine::session::{Fork, Input, LeftOut, Spoken, Store as _, fork as fork_session, new_session_id, turns};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Answer;
use super::given::{Given, Path};
use super::sessions::{SessionView, full_name, named};
use super::shapes;
use crate::app::App;
use crate::clock::now_ms;
use crate::problem::{OVER_BUDGET, Problem};

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
    app.hub.change(&id, move |desk| desk.rewind(back.turn)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What a fold would do.
#[derive(Serialize, ToSchema)]
pub(crate) struct FoldView {
    /// The size of the prompt now, in tokens.
    before: u64,
    /// And behind the fold.
    after: u64,
    /// Messages that would not be shown any more.
    messages: Vec<SpokenView>,
    /// Items that would leave.
    #[schema(value_type = Vec<shapes::LeftOut>)]
    items: Vec<LeftOut>,
    /// What would stand for them.
    summary: Option<String>,
}

/// A message of the history.
#[derive(Serialize, ToSchema)]
pub(crate) struct SpokenView {
    /// Its name: `m12`.
    id: String,
    /// `user`, `assistant` or `tool`.
    role: &'static str,
    /// What it says, its start.
    text: String,
}

/// So much of a message is told.
const SHOWN: usize = 500;

/// What a fold would take out of the prompt, before it does. Nothing is changed.
#[utoipa::path(get, path = "/sessions/{session}/fold", tag = "history", params(("session" = String, Path)), responses((status = 200, body = FoldView), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn preview_fold(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<FoldView> {
    let id = full_name(&app, session).await?;
    let fold = app.hub.ask(&id, |desk| {
        let fold = desk.kept()?.session().preview_fold().map_err(|error| Problem::new(OVER_BUDGET, error))?;
        let spoken = |spoken: Spoken| SpokenView {
            id: spoken.id.to_string(),
            role: spoken.role.as_str(),
            text: spoken.text.chars().take(SHOWN).collect(),
        };
        Ok(FoldView {
            before: fold.before.0,
            after: fold.after.0,
            messages: fold.messages.into_iter().map(spoken).collect(),
            items: fold.items,
            summary: fold.summary,
        })
    });
    fold.await.map(Json)
}

/// How to fold.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NewFold {
    /// What the summary of a managed history is to look at above all.
    focus: Option<String>,
}

/// Folds with the next turn: old runs become the summary.
#[utoipa::path(post, path = "/sessions/{session}/fold", tag = "history", params(("session" = String, Path)), request_body = NewFold, responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn fold(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Given(new): Given<NewFold>,
) -> Result<StatusCode, Problem> {
    let id = full_name(&app, session).await?;
    app.hub.change(&id, move |desk| desk.fold(new.focus)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// How a session's history was managed.
#[derive(Serialize, ToSchema)]
pub(crate) struct SummariesView {
    /// What stands in the prompt for older messages now.
    shown: Option<String>,
    /// Each try to write a summary, the last first: by which template, from what, what the check found, why there is none.
    #[schema(value_type = Vec<Object>)]
    views: Vec<Managed>,
}

/// One try.
#[derive(Serialize)]
struct Managed {
    at_ms: i64,
    #[serde(flatten)]
    view: View,
}

/// So many are told.
const MOST_VIEWS: usize = 100;

/// The summary that stands for older messages, and how each came about. Its lines end with the names of the messages they are from: `[m12]`.
#[utoipa::path(get, path = "/sessions/{session}/summaries", tag = "history", params(("session" = String, Path)), responses((status = 200, body = SummariesView), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn summaries(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<SummariesView> {
    let id = full_name(&app, session).await?;
    let found = app.hub.ask(&id, |desk| {
        let kept = desk.kept()?;
        let rows = kept.store().summaries(kept.id(), MOST_VIEWS)?;
        let views = rows.iter().rev().filter_map(|row| Some(Managed { at_ms: row.at_ms, view: View::of(row).ok()? }));
        Ok(SummariesView { shown: kept.session().shown_summary().0, views: views.collect() })
    });
    found.await.map(Json)
}

/// Takes the last fold back with the next turn.
#[utoipa::path(delete, path = "/sessions/{session}/fold", tag = "history", params(("session" = String, Path)), responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn undo_fold(State(app): State<Arc<App>>, Path(session): Path<String>) -> Result<StatusCode, Problem> {
    tell(&app, session, Input::UndoFold).await
}

pub(super) async fn tell(app: &App, session: String, input: Input) -> Result<StatusCode, Problem> {
    let id = full_name(app, session).await?;
    app.hub.change(&id, move |desk| desk.tell(input)).await?;
    Ok(StatusCode::NO_CONTENT)
}

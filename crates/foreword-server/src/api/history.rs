//! Forks, rewinds and folds.

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

/// Options of a fork.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFork {
    /// The last shared turn. Default: the last turn.
    #[serde(default)]
    turn: Option<u64>,
    /// The title of the new session.
    #[serde(default)]
    title: Option<String>,
}

/// Creates a session that shares the turns up to a given one.
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

/// A turn to rewind to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Back {
    /// The turn, from 1; 0 is before the first.
    turn: u64,
}

/// Rewinds a session to the end of a turn.
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

/// A preview of a fold (compaction).
#[derive(Serialize, ToSchema)]
pub(crate) struct FoldView {
    /// The prompt's current size in tokens.
    before: u64,
    /// The prompt's size after the fold.
    after: u64,
    /// Messages that the summary replaces.
    messages: Vec<SpokenView>,
    /// Items that are removed.
    #[schema(value_type = Vec<shapes::LeftOut>)]
    items: Vec<LeftOut>,
    /// The new summary.
    summary: Option<String>,
}

/// A message of the history.
#[derive(Serialize, ToSchema)]
pub(crate) struct SpokenView {
    /// The message's ID: `m12`.
    id: String,
    /// `user`, `assistant` or `tool`.
    role: &'static str,
    /// The beginning of its text.
    text: String,
}

/// The longest text of a message, in characters.
const SHOWN: usize = 500;

/// Previews a fold. Nothing is changed.
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

/// Options of a fold.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NewFold {
    /// The focus of a managed history's summary.
    focus: Option<String>,
}

/// Folds (compacts) a session with its next turn: a summary replaces old turns.
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

/// The summaries of a session.
#[derive(Serialize, ToSchema)]
pub(crate) struct SummariesView {
    /// The summary in the current prompt.
    shown: Option<String>,
    /// All summaries, the latest first: template, sources, result of the check, or why there is none.
    #[schema(value_type = Vec<Object>)]
    views: Vec<Managed>,
}

/// A summary.
#[derive(Serialize)]
struct Managed {
    at_ms: i64,
    #[serde(flatten)]
    view: View,
}

/// The largest number of summaries to list.
const MOST_VIEWS: usize = 100;

/// Returns the summary of older messages and how all summaries were written.
///
/// Lines of a summary end with the messages they are from: `[m12]`.
#[utoipa::path(get, path = "/sessions/{session}/summaries", tag = "history", params(("session" = String, Path)), responses((status = 200, body = SummariesView), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn summaries(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<SummariesView> {
    let id = full_name(&app, session).await?;
    let found = app.hub.ask(&id, |desk| {
        let kept = desk.kept()?;
        let rows = kept.store().summaries(kept.id(), MOST_VIEWS)?;
        let view = |row| {
            let mut view = View::of(row).ok()?;
            // Each holds a whole prompt; `foreword inspect --side` shows them.
            view.sections.iter_mut().for_each(|section| section.body.clear());
            Some(view)
        };
        let views = rows.iter().rev().filter_map(|row| Some(Managed { at_ms: row.at_ms, view: view(row)? }));
        Ok(SummariesView { shown: kept.session().shown_summary().0, views: views.collect() })
    });
    found.await.map(Json)
}

/// Undoes the last fold with the next turn.
#[utoipa::path(delete, path = "/sessions/{session}/fold", tag = "history", params(("session" = String, Path)), responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn undo_fold(State(app): State<Arc<App>>, Path(session): Path<String>) -> Result<StatusCode, Problem> {
    tell(&app, session, Input::UndoFold).await
}

pub(super) async fn tell(app: &App, session: String, input: Input) -> Result<StatusCode, Problem> {
    let id = full_name(app, session).await?;
    app.hub.change(&id, move |desk| desk.tell(input)).await?;
    Ok(StatusCode::NO_CONTENT)
}

//! A session that has not begun: what its first request would hold, and which tools it would have. Nothing is kept of either.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use foreword_engine::session::{Preview, new_session_id};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::Answer;
use super::given::{Asked, Given};
use super::sessions::NewSession;
use super::settings::{self, ToolsView};
use crate::actor::Desk;
use crate::app::{App, blocking};
use crate::feed::Feed;
use crate::hub::Line;
use crate::problem::Problem;

/// The first message of a session that has not begun.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FirstMessage {
    /// The words. What they link to with `[[a note]]` is attached.
    words: String,
    /// What else is attached: a note, a folder, a tag, lines, an address.
    #[serde(default)]
    attach: Vec<String>,
    /// The note that is open in front of the user: it is attached, and its images are sent along.
    #[serde(default)]
    active_note: Option<String>,
    /// How the session would begin.
    #[serde(default)]
    session: NewSession,
}

/// A desk that no session is on yet. It is not among the open ones, and is gone when it was looked at.
async fn apart<T: Send + 'static>(
    app: &App,
    look: impl FnOnce(&mut Desk) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let (id, name) = (new_session_id()?, new_session_id()?);
    let common = Arc::clone(&app.common);
    blocking(move || look(&mut Desk::new(id, Line::new(Arc::new(Feed::new(name))), common))).await
}

/// What a first message would lead to: its layers, items, tokens and expected price. Nothing is sent, nothing is kept, no session begins.
#[utoipa::path(post, path = "/preview", tag = "messages", request_body = FirstMessage, responses((status = 200, body = Object), (status = 400, body = Problem), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn preview(State(app): State<Arc<App>>, Given(first): Given<FirstMessage>) -> Answer<Preview> {
    super::messages::check(&first.words, &first.attach)?;
    let begin = first.session.read(&app)?;
    apart(&app, move |desk| desk.preview_first(begin, first.words, &first.attach, first.active_note.as_deref())).await.map(Json)
}

/// Whose tools.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ToolsQuery {
    /// The agent, as it is called in the vault; the plain one where it is left out.
    agent: Option<String>,
    /// The model, as the model table calls it; the server's where it is left out.
    model: Option<String>,
}

/// The tools that a new session would have. Its tool servers are named, not started.
#[utoipa::path(get, path = "/tools", tag = "tools", params(ToolsQuery), responses((status = 200, body = ToolsView), (status = 400, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn tools(State(app): State<Arc<App>>, Asked(query): Asked<ToolsQuery>) -> Answer<ToolsView> {
    let ToolsQuery { agent, model } = query;
    let begin = NewSession::of(agent, model).read(&app)?;
    let look = move |desk: &mut Desk| {
        let servers = desk.sketch(begin)?;
        let mut view = ToolsView::of(desk)?;
        view.problems.extend(servers.into_iter().map(|server| settings::ServerProblem {
            server,
            message: "its tools are available after the session has begun".to_owned(),
        }));
        Ok(view)
    };
    apart(&app, look).await.map(Json)
}

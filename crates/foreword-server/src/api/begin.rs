//! Previews and tools of a session that has not begun. Nothing is stored.

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
use crate::actor::{Message, OpenSession};
use crate::app::{App, blocking};
use crate::feed::Feed;
use crate::hub::SessionHandle;
use crate::problem::Problem;

/// The first message of a new session.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FirstMessage {
    /// The text. Notes linked with `[[a note]]` are attached.
    words: String,
    /// Further attachments: a note, folder, tag, line range or URL.
    #[serde(default)]
    attach: Vec<String>,
    /// The note that is open in the user's editor. It is attached, and its images are sent.
    #[serde(default)]
    active_note: Option<String>,
    /// The options of the new session.
    #[serde(default)]
    session: NewSession,
}

/// Runs a job on a temporary session that is not registered.
async fn apart<T: Send + 'static>(
    app: &App,
    look: impl FnOnce(&mut OpenSession) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let (id, name) = (new_session_id()?, new_session_id()?);
    let common = Arc::clone(&app.common);
    blocking(move || look(&mut OpenSession::new(id, SessionHandle::new(Arc::new(Feed::new(name))), common))).await
}

/// Previews the first request of a new session: layers, items, tokens and expected cost. Nothing is sent or stored.
#[utoipa::path(post, path = "/preview", tag = "messages", request_body = FirstMessage, responses((status = 200, body = Object), (status = 400, body = Problem), (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn preview(State(app): State<Arc<App>>, Given(first): Given<FirstMessage>) -> Answer<Preview> {
    super::messages::check(&first.words, &first.attach)?;
    let begin = first.session.read(&app)?;
    let message =
        Message { words: first.words, attach: first.attach, active: first.active_note, frozen: false, given: Vec::new() };
    apart(&app, move |desk| desk.preview_first(begin, message)).await.map(Json)
}

/// The options of a new session.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ToolsQuery {
    /// The agent's name. Default: the default agent.
    agent: Option<String>,
    /// The model's name. Default: the server's model.
    model: Option<String>,
}

/// Lists the tools of a new session. Its tool servers are named, but not started.
#[utoipa::path(get, path = "/tools", tag = "tools", params(ToolsQuery), responses((status = 200, body = ToolsView), (status = 400, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn tools(State(app): State<Arc<App>>, Asked(query): Asked<ToolsQuery>) -> Answer<ToolsView> {
    let ToolsQuery { agent, model } = query;
    let begin = NewSession::of(agent, model).read(&app)?;
    let look = move |desk: &mut OpenSession| {
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

//! A session that has not begun: what its first request would hold, and which tools it would have. Nothing is kept of either.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use foreword_engine::Layout;
use foreword_engine::session::{Preview, new_session_id};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::Answer;
use super::given::{Asked, Given};
use super::settings::{self, ToolsView};
use crate::actor::{Begin, Desk};
use crate::app::{App, blocking};
use crate::feed::Feed;
use crate::hub::Line;
use crate::problem::{BAD_REQUEST, Problem};

/// The first message of a session that has not begun.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FirstMessage {
    /// The words. What they link to with `[[a note]]` is attached.
    words: String,
    /// What else is attached: a note, a folder, a tag, lines, an address.
    attach: Vec<String>,
    /// The model, as the model table calls it; the server's where it is left out.
    model: Option<String>,
    /// `log` (where it is left out) or `library`.
    layout: Option<String>,
    /// The agent, as it is called in the vault.
    agent: Option<String>,
    /// The project, as it is called in the vault.
    project: Option<String>,
    /// How turns are carried: `chat`, `qa`, `plan` or `agent`.
    mode: Option<String>,
    /// What is sent of older messages: `full` or `managed`.
    history: Option<String>,
    /// The template of a managed history.
    template: Option<String>,
}

impl FirstMessage {
    fn begin(&self, app: &App) -> Result<Begin, Problem> {
        let layout = match self.layout.as_deref() {
            None | Some("log") => Layout::Log,
            Some("library") => Layout::Library,
            Some(other) => return Err(Problem::new(BAD_REQUEST, format!("{other:?} is no layout: expected `log` or `library`"))),
        };
        Ok(Begin {
            agent: self.agent.clone(),
            project: self.project.clone(),
            mode: self.mode.as_deref().map(settings::mode).transpose()?,
            chosen: app.config.answers.choose(self.model.as_deref())?,
            layout,
            template: settings::template(app, self.history.as_deref(), self.template.as_deref())?,
            asking: None,
        })
    }
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
    if first.words.trim().is_empty() {
        return Err(Problem::new(BAD_REQUEST, "a message without words is not sent"));
    }
    let begin = first.begin(&app)?;
    apart(&app, move |desk| desk.preview_first(begin, first.words, &first.attach)).await.map(Json)
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
    let begin = FirstMessage { model, agent, ..FirstMessage::default() }.begin(&app)?;
    let look = move |desk: &mut Desk| {
        let servers = desk.sketch(begin)?;
        let mut view = ToolsView::of(desk)?;
        view.problems.extend(servers.into_iter().map(|server| settings::ServerProblem {
            server,
            message: "its tools are known once a session has begun".to_owned(),
        }));
        Ok(view)
    };
    apart(&app, look).await.map(Json)
}

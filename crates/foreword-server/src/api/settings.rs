//! How a session is carried: its mode, its model, what is sent of older messages, when the person is asked.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use foreword_engine::manager::DEFAULT_TEMPLATE;
use foreword_engine::session::Mode;
use foreword_engine::templates::Template;
use foreword_engine::tools::Asking;
use foreword_engine::vault::Include;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Answer;
use super::given::{Given, Path};
use super::sessions::full_name;
use crate::actor::Desk;
use crate::answer::Tools;
use crate::app::App;
use crate::problem::{BAD_REQUEST, Problem};
use crate::settings::is_managed;

/// The settings of a session.
#[derive(Serialize, ToSchema)]
pub(crate) struct SettingsView {
    /// The agent, as it is called in the vault; none for the plain one.
    agent: Option<String>,
    /// The model that answers now.
    model: String,
    /// Its window, in tokens.
    window: u64,
    /// `chat`, `qa`, `plan` or `agent`.
    mode: String,
    /// `log` or `library`.
    layout: String,
    /// `full` or `managed`.
    history: String,
    /// The template of a managed history.
    template: Option<String>,
    /// When the person is asked before a tool runs: `always`, `tool` or `never`.
    asking: String,
}

impl SettingsView {
    fn of(desk: &mut Desk) -> Result<Self, Problem> {
        let asking = desk.asking()?;
        let kept = desk.kept()?;
        let setup = kept.setup();
        let managed = is_managed(setup);
        let template = setup.template.clone().unwrap_or_else(|| DEFAULT_TEMPLATE.to_owned());
        Ok(Self {
            agent: setup.agent.clone(),
            model: setup.model.name.clone(),
            window: setup.model.window.0,
            mode: kept.mode().as_str().to_owned(),
            layout: setup.settings.layout.as_str().to_owned(),
            history: if managed { "managed" } else { "full" }.to_owned(),
            template: managed.then_some(template),
            asking: word(asking).to_owned(),
        })
    }
}

pub(super) fn word(asking: Asking) -> &'static str {
    match asking {
        Asking::Always => "always",
        Asking::Tool => "tool",
        Asking::Never => "never",
    }
}

/// When the person is asked.
pub(super) fn asking(word: &str) -> Result<Asking, Problem> {
    match word {
        "always" => Ok(Asking::Always),
        "tool" => Ok(Asking::Tool),
        "never" => Ok(Asking::Never),
        other => Err(Problem::new(BAD_REQUEST, format!("{other:?} is not when to ask: expected always, tool or never"))),
    }
}

/// How turns are carried.
pub(super) fn mode(word: &str) -> Result<Mode, Problem> {
    word.parse().map_err(|error: String| Problem::new(BAD_REQUEST, error))
}

/// The template that is meant; none where all of the history is to be sent.
pub(super) fn template(app: &App, history: Option<&str>, template: Option<&str>) -> Result<Option<Template>, Problem> {
    match (history, template) {
        (None | Some("full"), None) => Ok(None),
        (None | Some("managed"), name) => Ok(Some(app.common.shelf().find(name.unwrap_or(DEFAULT_TEMPLATE))?)),
        (Some("full"), Some(_)) => {
            Err(Problem::new(BAD_REQUEST, "a template is for a managed history; leave it out, or say `managed`"))
        }
        (Some(other), _) => Err(Problem::new(BAD_REQUEST, format!("{other:?} is no history: expected full or managed"))),
    }
}

/// How a session is carried.
#[utoipa::path(get, path = "/sessions/{session}/settings", tag = "sessions", params(("session" = String, Path)), responses((status = 200, body = SettingsView), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn show(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<SettingsView> {
    let id = full_name(&app, session).await?;
    app.hub.ask(&id, SettingsView::of).await.map(Json)
}

/// What to set. What is left out stays as it is.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SetSettings {
    /// How turns are carried: `chat`, `qa`, `plan` or `agent`.
    mode: Option<String>,
    /// Who answers from here on.
    model: Option<String>,
    /// What is sent of older messages: `full` (as far as the budget goes) or `managed` (a summary by a template, and the last runs).
    history: Option<String>,
    /// The template of a managed history.
    template: Option<String>,
    /// When the person is asked before a tool runs: `always`, `tool` (as each tool says) or `never`. It holds until the server ends.
    asking: Option<String>,
}

/// Sets how a session is carried from here on.
#[utoipa::path(patch, path = "/sessions/{session}/settings", tag = "sessions", params(("session" = String, Path)), request_body = SetSettings, responses((status = 200, body = SettingsView), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn set(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Given(set): Given<SetSettings>,
) -> Answer<SettingsView> {
    // Everything is checked before anything is set.
    let mode = set.mode.as_deref().map(mode).transpose()?;
    let asking = set.asking.as_deref().map(asking).transpose()?;
    let chosen = set.model.as_deref().map(|name| app.config.answers.choose(Some(name))).transpose()?;
    let history = match (&set.history, &set.template) {
        (None, None) => None,
        (history, name) => Some(template(&app, history.as_deref(), name.as_deref())?),
    };
    let id = full_name(&app, session).await?;
    let job = move |desk: &mut Desk| {
        chosen.map_or(Ok(()), |chosen| desk.set_model(chosen))?;
        mode.map_or(Ok(()), |mode| desk.set_mode(mode))?;
        history.map_or(Ok(()), |template| desk.set_history(template))?;
        asking.map_or(Ok(()), |asking| desk.set_asking(asking))?;
        desk.changed();
        SettingsView::of(desk)
    };
    app.hub.change(&id, job).await.map(Json)
}

/// Reads the session's agent anew: what changed in its files takes effect with the next question.
#[utoipa::path(post, path = "/sessions/{session}/agent", tag = "catalog", params(("session" = String, Path)), responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn take_agent(State(app): State<Arc<App>>, Path(session): Path<String>) -> Result<StatusCode, Problem> {
    let id = full_name(&app, session).await?;
    app.hub.change(&id, Desk::take_agent).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The tools of a session.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolsView {
    /// When the person is asked: `always`, `tool` or `never`.
    asking: &'static str,
    /// Whether the model is told of them; the small one that comes with Foreword cannot use tools.
    used: bool,
    /// The servers, by name.
    servers: Vec<ServerView>,
    /// What is missing, and why.
    pub(super) problems: Vec<ServerProblem>,
}

/// A tool server.
#[derive(Serialize, ToSchema)]
pub(crate) struct ServerView {
    /// Its name; `foreword` for the tools that come with Foreword.
    server: String,
    /// Its tools, by name.
    tools: Vec<ToolView>,
}

/// A tool.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolView {
    /// Its item: `tool:server/name`.
    item: String,
    /// Its name.
    name: String,
    /// What it is for.
    description: Option<String>,
    /// How it may come in: `always`, `manual`, `agent`.
    #[schema(value_type = String)]
    include: Include,
    /// How it came into the session; none where it is not in it.
    #[schema(value_type = Option<String>)]
    in_session: Option<Include>,
    /// Whether the person is asked before it runs, as things are set now.
    asks: bool,
    /// Whether it only reads.
    read_only: bool,
}

/// Why a server, or a tool of it, is not there.
#[derive(Serialize, ToSchema)]
pub(crate) struct ServerProblem {
    /// The server.
    pub(super) server: String,
    /// What happened and what can be done.
    pub(super) message: String,
}

impl ToolsView {
    pub(super) fn of(desk: &mut Desk) -> Result<Self, Problem> {
        let (kept, hands) = desk.equipped()?;
        let used = !kept.setup().is_embedded();
        if used {
            hands.update(kept)?;
        }
        let session = kept.session();
        let agent = hands.equip(session.agent());
        let asking = hands.asking();
        let mut servers: Vec<ServerView> = Vec::new();
        for tool in &agent.tools {
            let id = tool.id();
            let view = ToolView {
                in_session: session.included().iter().find(|(member, _)| used && *member == id).map(|(_, include)| *include),
                item: id.to_string(),
                name: tool.name.clone(),
                description: tool.description.clone(),
                include: agent.tool_include(tool),
                asks: asking.asks(agent.tool_permission(tool)),
                read_only: tool.read_only,
            };
            match servers.iter_mut().find(|server| server.server == tool.server) {
                Some(server) => server.tools.push(view),
                None => servers.push(ServerView { server: tool.server.clone(), tools: vec![view] }),
            }
        }
        servers.sort_by(|a, b| a.server.cmp(&b.server));
        let problems = Tools::problems(hands).into_iter().map(|(server, message)| ServerProblem { server, message });
        Ok(Self { asking: word(asking), used, servers, problems: problems.collect() })
    }
}

/// The tools of a session by server, with what is missing and why.
#[utoipa::path(get, path = "/sessions/{session}/tools", tag = "tools", params(("session" = String, Path)), responses((status = 200, body = ToolsView), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn tools(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<ToolsView> {
    let id = full_name(&app, session).await?;
    app.hub.ask(&id, ToolsView::of).await.map(Json)
}

//! The settings of a session: mode, model, history, approvals and tools.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use foreword_engine::Layout;
use foreword_engine::manager::DEFAULT_TEMPLATE;
use foreword_engine::session::{HistoryPolicy, Mode};
use foreword_engine::settings::{HistorySettings, HistoryStrategy, SessionSettings, from_json};
use foreword_engine::vault::Include;
use foreword_vault_tools::Asking;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::Answer;
use super::given::{Given, Path};
use super::sessions::full_name;
use crate::actor::OpenSession;
use crate::answer::Tools;
use crate::app::App;
use crate::problem::{BAD_REQUEST, Problem};
use crate::settings::is_managed;

/// The settings of a session.
#[derive(Serialize, ToSchema)]
pub(crate) struct SettingsView {
    /// The agent's name; null for the default agent.
    agent: Option<String>,
    /// The current model.
    model: String,
    /// The model's context window in tokens.
    window: u64,
    /// The mode: `chat`, `qa`, `plan` or `agent`.
    mode: String,
    /// The layout: `log` or `library`.
    layout: String,
    /// The history strategy: `full`, `window`, `strip` or `managed`.
    history: String,
    /// The template of a managed history.
    template: Option<String>,
    /// The settings that were set explicitly (see docs/settings.md). Others have the model's values or defaults.
    #[schema(value_type = Object)]
    settings: SessionSettings,
    /// The largest prompt in tokens.
    budget: u64,
    /// When tools require approval: `always`, `tool` or `never`.
    asking: String,
}

impl SettingsView {
    fn of(desk: &mut OpenSession) -> Result<Self, Problem> {
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
            history: history_word(&setup.settings.history).to_owned(),
            settings: setup.wanted.clone(),
            budget: setup.settings.budget.prompt.0,
            template: managed.then_some(template),
            asking: word(asking).to_owned(),
        })
    }
}

fn history_word(history: &HistoryPolicy) -> &'static str {
    let strategy = match history {
        HistoryPolicy::Full => HistoryStrategy::Full,
        HistoryPolicy::Window { .. } => HistoryStrategy::Window,
        HistoryPolicy::Strip { .. } => HistoryStrategy::Strip,
        HistoryPolicy::Managed { .. } => HistoryStrategy::Managed,
    };
    strategy.as_str()
}

pub(super) fn word(asking: Asking) -> &'static str {
    match asking {
        Asking::Always => "always",
        Asking::Tool => "tool",
        Asking::Never => "never",
    }
}

/// Parses when tools require approval.
pub(super) fn asking(word: &str) -> Result<Asking, Problem> {
    match word {
        "always" => Ok(Asking::Always),
        "tool" => Ok(Asking::Tool),
        "never" => Ok(Asking::Never),
        other => Err(Problem::new(BAD_REQUEST, format!("invalid value {other:?}: expected always, tool or never"))),
    }
}

/// Parses a mode.
pub(super) fn mode(word: &str) -> Result<Mode, Problem> {
    word.parse().map_err(|error: String| Problem::new(BAD_REQUEST, error))
}

/// The session settings of a request, merged with its separate fields.
pub(super) fn session_settings(
    app: &App,
    layout: Option<&str>,
    history: Option<&str>,
    template: Option<&str>,
    more: Option<Value>,
) -> Result<SessionSettings, Problem> {
    let layout = layout.map(|word| one_of(word, "layout", Layout::ALL, Layout::as_str)).transpose()?;
    let history = history.map(|word| one_of(word, "history", HistoryStrategy::ALL, HistoryStrategy::as_str)).transpose()?;
    if template.is_some() && history.is_some_and(|history| history != HistoryStrategy::Managed) {
        return Err(Problem::new(BAD_REQUEST, "a template requires the history `managed`"));
    }
    let strategy = history.or(template.map(|_| HistoryStrategy::Managed));
    let named = SessionSettings {
        layout,
        history: HistorySettings { strategy, template: template.map(str::to_owned), ..HistorySettings::default() },
        ..SessionSettings::default()
    };
    let more = more.map(from_json).transpose().map_err(|error| Problem::new(BAD_REQUEST, error))?.unwrap_or_default();
    let settings = named.over(more);
    if let Some(name) = settings.template() {
        app.common.shelf().find(name)?;
    }
    Ok(settings)
}

fn one_of<T: Copy, const N: usize>(word: &str, what: &str, all: [T; N], name: fn(T) -> &'static str) -> Result<T, Problem> {
    let expected = || format!("invalid {what} {word:?}: expected {}", all.map(name).join(", "));
    all.into_iter().find(|value| name(*value) == word).ok_or_else(|| Problem::new(BAD_REQUEST, expected()))
}

/// Returns the settings of a session.
#[utoipa::path(get, path = "/sessions/{session}/settings", tag = "sessions", params(("session" = String, Path)), responses((status = 200, body = SettingsView), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn show(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<SettingsView> {
    let id = full_name(&app, session).await?;
    app.hub.ask(&id, SettingsView::of).await.map(Json)
}

/// Settings to change. Missing fields are unchanged.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SetSettings {
    /// The mode: `chat`, `qa`, `plan` or `agent`.
    mode: Option<String>,
    /// The new model.
    model: Option<String>,
    /// The layout: `log` or `library`. A change makes the next request miss the provider's cache.
    layout: Option<String>,
    /// How older messages are sent: `full` (up to the token budget), `window` (the newest ones), `strip` (the last turns and an
    /// automatic summary) or `managed` (the last turns and a summary made from a template).
    history: Option<String>,
    /// The template of a managed history.
    template: Option<String>,
    /// Further settings: `budget`, `history`, `search` and more (see docs/settings.md).
    #[schema(value_type = Option<Object>)]
    settings: Option<Value>,
    /// When tools require approval: `always`, `tool` (depending on the tool) or `never`. Lasts until the server ends.
    asking: Option<String>,
}

/// Changes the settings of a session.
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
    let (layout, history, template) = (set.layout.as_deref(), set.history.as_deref(), set.template.as_deref());
    let settings = session_settings(&app, layout, history, template, set.settings)?;
    let id = full_name(&app, session).await?;
    let job = move |desk: &mut OpenSession| {
        chosen.map_or(Ok(()), |chosen| desk.set_model(chosen))?;
        mode.map_or(Ok(()), |mode| desk.set_mode(mode))?;
        desk.set_settings(&settings)?;
        asking.map_or(Ok(()), |asking| desk.set_asking(asking))?;
        desk.changed();
        SettingsView::of(desk)
    };
    app.hub.change(&id, job).await.map(Json)
}

/// Reloads the session's agent. Changes take effect with the next message.
#[utoipa::path(post, path = "/sessions/{session}/agent", tag = "catalog", params(("session" = String, Path)), responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn take_agent(State(app): State<Arc<App>>, Path(session): Path<String>) -> Result<StatusCode, Problem> {
    let id = full_name(&app, session).await?;
    app.hub.change(&id, OpenSession::take_agent).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The tools of a session.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolsView {
    /// When tools require approval: `always`, `tool` or `never`.
    asking: &'static str,
    /// Whether the model can use tools; the embedded small model cannot.
    used: bool,
    /// The tool servers, sorted by name.
    servers: Vec<ServerView>,
    /// Tool servers that are not available, and why.
    pub(super) problems: Vec<ServerProblem>,
}

/// A tool server.
#[derive(Serialize, ToSchema)]
pub(crate) struct ServerView {
    /// The server's name; `foreword` for built-in tools.
    server: String,
    /// Its tools, sorted by name.
    tools: Vec<ToolView>,
}

/// A tool.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolView {
    /// The tool's ID: `tool:server/name`.
    item: String,
    /// The tool's name.
    name: String,
    /// The tool's description.
    description: Option<String>,
    /// The include mode: `always`, `manual`, `agent`.
    #[schema(value_type = String)]
    include: Include,
    /// How it was included in the session, or null.
    #[schema(value_type = Option<String>)]
    in_session: Option<Include>,
    /// Whether it requires approval with the current settings.
    asks: bool,
    /// Whether it is read-only.
    read_only: bool,
}

/// Why a server or one of its tools is not available.
#[derive(Serialize, ToSchema)]
pub(crate) struct ServerProblem {
    /// The server.
    pub(super) server: String,
    /// The cause and what to do.
    pub(super) message: String,
}

impl ToolsView {
    pub(super) fn of(desk: &mut OpenSession) -> Result<Self, Problem> {
        let (kept, hands) = desk.equipped()?;
        let used = !kept.setup().is_embedded();
        if used {
            hands.update(kept)?;
        }
        let session = kept.session();
        let agent = hands.bench.equip(session.agent());
        let asking = hands.asking();
        let mut servers: Vec<ServerView> = Vec::new();
        for tool in &agent.tools {
            let id = tool.id();
            let include = agent.tool_include(tool);
            let member = session.included().iter().find(|(member, _)| used && *member == id);
            let view = ToolView {
                in_session: member.map(|(_, how)| if include == Include::Always { Include::Always } else { *how }),
                item: id.to_string(),
                name: tool.name.clone(),
                description: tool.description.clone(),
                include,
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

/// Lists the tools of a session by server, and problems with servers.
#[utoipa::path(get, path = "/sessions/{session}/tools", tag = "tools", params(("session" = String, Path)), responses((status = 200, body = ToolsView), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn tools(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<ToolsView> {
    let id = full_name(&app, session).await?;
    app.hub.ask(&id, ToolsView::of).await.map(Json)
}

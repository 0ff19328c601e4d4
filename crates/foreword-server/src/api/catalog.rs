//! Agents, their items, the items of a session, and the models.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use foreword_engine::session::{Hash, Input};
use foreword_engine::vault::{Agent, AgentInfo, CatalogBody, Catalogued, Include, ItemId, agents as all_agents};
use foreword_vault_tools::agents::Catalog;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Answer;
use super::given::{Asked, Given, Path};
use super::history::tell;
use super::items::{seen, tagged};
use super::sessions::full_name;
use super::shapes;
use crate::app::{App, blocking};
use crate::problem::{BAD_REQUEST, Problem};

/// A description of an item.
#[derive(Clone, Serialize, ToSchema)]
pub(crate) struct LeftOutView {
    /// The kind: `rule`, `reference`, `tool`, `note` …
    kind: &'static str,
    /// The name, unique per kind; a tool's name is without its server.
    name: String,
    /// The tool's server.
    server: Option<String>,
    /// The description.
    description: Option<String>,
    /// The position in the order, 0 to 999; tools and notes have none.
    priority: Option<u16>,
}

/// Describes an item.
pub(super) fn told(agent: &Agent, item: &ItemId) -> LeftOutView {
    let known = agent.find(item);
    let (server, name) = match (item.kind().as_str(), item.name().split_once('/')) {
        ("tool", Some((server, name))) => (Some(server.to_owned()), name.to_owned()),
        // Its own name is a hash, which tells nobody anything.
        ("output", _) => (None, "tool output".to_owned()),
        _ => (None, item.name().to_owned()),
    };
    let description = known.as_ref().and_then(|known| match known.body {
        CatalogBody::Rule(entry) | CatalogBody::Reference(entry) => entry.description.clone(),
        CatalogBody::Tool(tool) => tool.description.clone(),
    });
    let priority = known.filter(|known| !matches!(known.body, CatalogBody::Tool(_))).map(|known| known.priority.get());
    LeftOutView { kind: item.kind().as_str(), name, server, description, priority }
}

/// An item of an agent.
#[derive(Serialize, ToSchema)]
pub(crate) struct ItemView {
    /// The item's ID: `rule:tone`.
    item: String,
    #[serde(flatten)]
    told: LeftOutView,
    /// The include mode: `always`, `manual`, `agent`.
    #[schema(value_type = String)]
    include: Include,
    /// How it was included in the session, or null.
    #[schema(value_type = Option<String>)]
    in_session: Option<Include>,
    /// The text for the model; for a tool, its schema.
    text: String,
    /// The version of its file, required for changes; null if it has no file of its own. A tool has the version of its server's
    /// configuration file, and only its include mode can be changed.
    #[schema(value_type = Option<String>)]
    version: Option<Hash>,
}

impl ItemView {
    pub(super) fn new(agent: &Agent, item: &Catalogued<'_>, in_session: Option<Include>, version: Option<Hash>) -> Self {
        let text = match item.body {
            CatalogBody::Rule(entry) | CatalogBody::Reference(entry) => entry.text.clone(),
            CatalogBody::Tool(tool) => serde_json::to_string_pretty(&tool.schema()).unwrap_or_default(),
        };
        // What joins every session is no choice of a person's, also where it joined this one later.
        let in_session = in_session.map(|how| if item.include == Include::Always { Include::Always } else { how });
        Self { item: item.id.to_string(), told: told(agent, &item.id), include: item.include, in_session, text, version }
    }
}

/// Lists the agents of the vault.
#[utoipa::path(get, path = "/agents", tag = "catalog", responses((status = 200, body = [shapes::AgentInfo])))]
pub(crate) async fn agents(State(app): State<Arc<App>>) -> Answer<Vec<AgentInfo>> {
    let root = app.common.root.clone();
    blocking(move || Ok(all_agents(&root))).await.map(Json)
}

/// An agent with its items.
#[derive(Serialize, ToSchema)]
pub(crate) struct AgentView {
    /// The agent's name.
    name: String,
    /// The system prompt.
    system_prompt: String,
    /// The version of the system prompt, required for changes; null if it is part of a settings file.
    #[schema(value_type = Option<String>)]
    prompt_version: Option<Hash>,
    /// Its rules, references and tools.
    items: Vec<ItemView>,
    /// Problems in its files.
    problems: Vec<String>,
}

/// Returns an agent with its rules, references and tools. Its `ETag` is required to change the system prompt.
#[utoipa::path(get, path = "/agents/{agent}", tag = "catalog", params(("agent" = String, Path)), responses((status = 200, body = AgentView), (status = 404, body = Problem)))]
pub(crate) async fn agent(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Response, Problem> {
    let notes = app.common.note_folder.clone();
    let view = blocking(move || {
        let catalog = Catalog::open(&notes, &name)?;
        let agent = catalog.agent();
        let items = agent.items().iter().map(|item| ItemView::new(agent, item, None, catalog.version(&item.id))).collect();
        let (system_prompt, prompt_version) = (agent.system_prompt.clone(), catalog.prompt_version());
        Ok(AgentView { name, items, problems: catalog.problems(), system_prompt, prompt_version })
    });
    let view = view.await?;
    let version = view.prompt_version;
    Ok(tagged(Json(view), version))
}

/// Changes to an agent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangedAgent {
    /// The new system prompt.
    system_prompt: String,
}

/// Changes an agent's system prompt if `If-Match` names its current version.
///
/// Open sessions keep the old prompt until they reload their agent.
#[utoipa::path(patch, path = "/agents/{agent}", tag = "catalog", params(("agent" = String, Path), ("if-match" = String, Header, description = "the agent's ETag")), request_body = ChangedAgent, responses((status = 204), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem), (status = 412, body = Problem), (status = 428, body = Problem)))]
pub(crate) async fn edit_agent(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Given(changed): Given<ChangedAgent>,
) -> Result<Response, Problem> {
    if changed.system_prompt.trim().is_empty() {
        return Err(Problem::new(BAD_REQUEST, "the system prompt is missing"));
    }
    let (notes, seen) = (app.common.note_folder.clone(), seen(&headers)?);
    let version = blocking(move || Ok(Catalog::open(&notes, &name)?.edit_prompt(seen, &changed.system_prompt)?)).await?;
    Ok(tagged(StatusCode::NO_CONTENT, Some(version)))
}

/// Lists the items of a session and those that can be added.
#[utoipa::path(get, path = "/sessions/{session}/items", tag = "catalog", params(("session" = String, Path)), responses((status = 200, body = [ItemView]), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn items(State(app): State<Arc<App>>, Path(session): Path<String>) -> Answer<Vec<ItemView>> {
    let id = full_name(&app, session).await?;
    let notes = app.common.note_folder.clone();
    let items = app.hub.ask(&id, move |desk| {
        let kept = desk.kept()?;
        let catalog = kept.setup().agent.as_deref().and_then(|name| Catalog::open(&notes, name).ok());
        let version = |id: &ItemId| catalog.as_ref().and_then(|catalog| catalog.version(id));
        let session = kept.session();
        let member = |id: &ItemId| session.included().iter().find(|(member, _)| member == id).map(|(_, include)| *include);
        let agent = session.agent();
        Ok(agent.items().iter().map(|item| ItemView::new(agent, item, member(&item.id), version(&item.id))).collect())
    });
    items.await.map(Json)
}

/// An item.
#[derive(Deserialize, ToSchema, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemName {
    /// The item's ID: `rule:tone`, `tool:server/name`, `note:Path.md`.
    item: String,
}

impl ItemName {
    fn id(&self) -> Result<ItemId, Problem> {
        self.item.parse().map_err(|error| Problem::new(BAD_REQUEST, format!("{error}")))
    }
}

/// Adds an item of the agent to a session.
#[utoipa::path(post, path = "/sessions/{session}/items", tag = "catalog", params(("session" = String, Path)), request_body = ItemName, responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Given(name): Given<ItemName>,
) -> Result<StatusCode, Problem> {
    tell(&app, session, Input::Add(name.id()?)).await
}

/// Removes an item from a session. It is not sent again.
#[utoipa::path(delete, path = "/sessions/{session}/items", tag = "catalog", params(("session" = String, Path), ItemName), responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    Path(session): Path<String>,
    Asked(name): Asked<ItemName>,
) -> Result<StatusCode, Problem> {
    tell(&app, session, Input::Remove(name.id()?)).await
}

/// A model.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModelView {
    /// The model's name.
    name: String,
    /// Its provider; null for the embedded model.
    provider: Option<String>,
    /// Its context window in tokens.
    window: u64,
    /// Whether it is the default model of new sessions.
    default: bool,
}

/// Lists the models that a session can use: the embedded one, and those whose provider has a key or needs none.
#[allow(clippy::unused_async)] // a handler is a future
#[utoipa::path(get, path = "/models", tag = "catalog", responses((status = 200, body = [ModelView])))]
pub(crate) async fn models(State(app): State<Arc<App>>) -> Answer<Vec<ModelView>> {
    let answers = &app.config.answers;
    let default = answers.choose(None)?.model.name;
    let usable =
        answers.config.models(&answers.is_set).into_iter().filter(|listed| listed.has_key || listed.model.name == default);
    let view = usable.map(|listed| ModelView {
        default: listed.model.name == default,
        window: listed.model.window.0,
        name: listed.model.name,
        provider: listed.provider,
    });
    Ok(Json(view.collect()))
}

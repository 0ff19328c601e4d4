//! Creates, changes and deletes rules and references of an agent. Each is a file, and changes must name the version they are based
//! on.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use foreword_engine::session::Hash;
use foreword_engine::vault::{Include, ItemId};
use foreword_vault_tools::agents::{Catalog, Change, Priority, create_agent as begin};
use serde::Deserialize;
use utoipa::ToSchema;

use super::catalog::ItemView;
use super::given::{Given, Path};
use crate::app::{App, blocking};
use crate::problem::{BAD_REQUEST, CHANGED, NO_VERSION, NOT_FOUND, Problem};

/// A new agent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAgent {
    /// The agent's name, which must be a valid folder name.
    name: String,
    /// The system prompt.
    system_prompt: String,
}

/// Creates an agent: a folder in `Foreword/Agents` of the vault.
#[utoipa::path(post, path = "/agents", tag = "catalog", request_body = NewAgent, responses((status = 201), (status = 400, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn create_agent(State(app): State<Arc<App>>, Given(new): Given<NewAgent>) -> Result<StatusCode, Problem> {
    if new.system_prompt.trim().is_empty() {
        return Err(Problem::new(BAD_REQUEST, "the text is missing"));
    }
    let notes = app.common.note_folder.clone();
    blocking(move || Ok(begin(&notes, &new.name, &new.system_prompt)?)).await?;
    Ok(StatusCode::CREATED)
}

/// A new rule or reference.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewItem {
    /// The item's ID: `rule:tone` or `reference:prices`.
    item: String,
    /// The text for the model.
    text: String,
    /// The description.
    #[serde(default)]
    description: Option<String>,
    /// The include mode: `always`, `manual` (default) or `agent`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    include: Option<Include>,
    /// The position in the order, 0 to 999. Default: 500.
    #[serde(default)]
    priority: Option<u16>,
}

/// Changes to a rule or reference. Missing fields are unchanged.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ChangedItem {
    /// The text for the model.
    text: Option<String>,
    /// The description; an empty string removes it.
    description: Option<String>,
    /// The include mode: `always`, `manual` or `agent`.
    #[schema(value_type = Option<String>)]
    include: Option<Include>,
    /// The position in the order, 0 to 999.
    priority: Option<u16>,
}

impl ChangedItem {
    fn change(self) -> Result<Change, Problem> {
        let priority = self.priority.map(Priority::try_from).transpose().map_err(|error| Problem::new(BAD_REQUEST, error))?;
        Ok(Change { text: self.text, description: self.description, include: self.include, priority })
    }
}

fn id(item: &str) -> Result<ItemId, Problem> {
    item.parse().map_err(|error| Problem::new(BAD_REQUEST, format!("{error}")))
}

/// The version in `If-Match`.
pub(super) fn seen(headers: &HeaderMap) -> Result<Hash, Problem> {
    let given = headers.get(header::IF_MATCH).and_then(|value| value.to_str().ok());
    let given = given.ok_or_else(|| {
        Problem::new(NO_VERSION, "send the ETag of the item in `If-Match` to avoid overwriting a newer version")
    })?;
    // A tag that is none of ours fits no version.
    serde_json::from_value(given.trim().trim_matches('"').into())
        .map_err(|_| Problem::new(CHANGED, "the ETag in `If-Match` does not belong to this item"))
}

pub(super) fn tagged(answer: impl IntoResponse, version: Option<Hash>) -> Response {
    match version {
        Some(version) => ([(header::ETAG, format!("\"{version}\""))], answer).into_response(),
        None => answer.into_response(),
    }
}

/// Returns a rule or reference of an agent. Its `ETag` is required for changes.
#[utoipa::path(get, path = "/agents/{agent}/items/{item}", tag = "catalog", params(("agent" = String, Path), ("item" = String, Path, description = "`rule:tone`")), responses((status = 200, body = ItemView), (status = 404, body = Problem)))]
pub(crate) async fn show(State(app): State<Arc<App>>, Path((agent, item)): Path<(String, String)>) -> Result<Response, Problem> {
    let (notes, id) = (app.common.note_folder.clone(), id(&item)?);
    let (view, version) = blocking(move || {
        let catalog = Catalog::open(&notes, &agent)?;
        let version = catalog.version(&id);
        let view = catalog.agent().find(&id).map(|item| ItemView::new(catalog.agent(), &item, None, version));
        let view = view.ok_or_else(|| Problem::new(NOT_FOUND, format!("agent {agent:?} has no {id}")))?;
        Ok((view, version))
    })
    .await?;
    Ok(tagged(Json(view), version))
}

/// Creates a rule or reference of an agent.
#[utoipa::path(post, path = "/agents/{agent}/items", tag = "catalog", params(("agent" = String, Path)), request_body = NewItem, responses((status = 201), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Path(agent): Path<String>,
    Given(new): Given<NewItem>,
) -> Result<Response, Problem> {
    let (notes, id) = (app.common.note_folder.clone(), id(&new.item)?);
    let NewItem { text, description, include, priority, .. } = new;
    let change = ChangedItem { text: Some(text), description, include, priority }.change()?;
    let version = blocking(move || Ok(Catalog::open(&notes, &agent)?.create(&id, &change)?)).await?;
    Ok(tagged(StatusCode::CREATED, Some(version)))
}

/// Changes a rule or reference of an agent if `If-Match` names its current version.
#[utoipa::path(patch, path = "/agents/{agent}/items/{item}", tag = "catalog", params(("agent" = String, Path), ("item" = String, Path), ("if-match" = String, Header, description = "the item's ETag")), request_body = ChangedItem, responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem), (status = 412, body = Problem), (status = 428, body = Problem)))]
pub(crate) async fn edit(
    State(app): State<Arc<App>>,
    Path((agent, item)): Path<(String, String)>,
    headers: HeaderMap,
    Given(changed): Given<ChangedItem>,
) -> Result<Response, Problem> {
    let (notes, id, seen, change) = (app.common.note_folder.clone(), id(&item)?, seen(&headers)?, changed.change()?);
    let version = blocking(move || Ok(Catalog::open(&notes, &agent)?.edit(&id, seen, &change)?)).await?;
    Ok(tagged(StatusCode::NO_CONTENT, Some(version)))
}

/// Deletes a rule or reference of an agent if `If-Match` names its current version.
#[utoipa::path(delete, path = "/agents/{agent}/items/{item}", tag = "catalog", params(("agent" = String, Path), ("item" = String, Path), ("if-match" = String, Header, description = "the item's ETag")), responses((status = 204), (status = 404, body = Problem), (status = 412, body = Problem), (status = 428, body = Problem)))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    Path((agent, item)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let (notes, id, seen) = (app.common.note_folder.clone(), id(&item)?, seen(&headers)?);
    blocking(move || Ok(Catalog::open(&notes, &agent)?.remove(&id, seen)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

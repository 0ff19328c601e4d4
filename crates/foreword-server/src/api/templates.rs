//! Templates: list, show and check.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use foreword_engine::manager::DEFAULT_TEMPLATE;
use foreword_templates::{Listed, Parsed, Template, parse};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Answer;
use super::given::{Given, Path};
use crate::app::{App, blocking};
use crate::problem::{BAD_REQUEST, Problem};

/// The largest template in bytes.
const MOST_BYTES: usize = 256 << 10;

/// A template in the list.
#[derive(Serialize, ToSchema)]
pub(crate) struct ListedView {
    /// Name, origin, file, description, whether another template hides it, and the number of errors.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    listed: Listed,
    /// Whether it is the default of managed histories.
    default: bool,
}

/// Lists all templates, sorted by name.
#[utoipa::path(get, path = "/templates", tag = "templates", responses((status = 200, body = [ListedView])))]
pub(crate) async fn list(State(app): State<Arc<App>>) -> Answer<Vec<ListedView>> {
    let common = Arc::clone(&app.common);
    let view = |listed: Listed| ListedView { default: listed.name == DEFAULT_TEMPLATE && !listed.hidden, listed };
    blocking(move || Ok(common.shelf().list().into_iter().map(view).collect())).await.map(Json)
}

/// A template.
#[derive(Serialize, ToSchema)]
pub(crate) struct TemplateView {
    /// The parsed steps and errors.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    template: Template,
    /// The unchanged text.
    text: String,
}

/// Returns a template as text and as parsed.
#[utoipa::path(get, path = "/templates/{template}", tag = "templates", params(("template" = String, Path)), responses((status = 200, body = TemplateView), (status = 404, body = Problem)))]
pub(crate) async fn show(State(app): State<Arc<App>>, Path(name): Path<String>) -> Answer<TemplateView> {
    let common = Arc::clone(&app.common);
    let found = blocking(move || {
        let (template, text) = common.shelf().to_look_at().read(&name)?;
        Ok(TemplateView { template, text })
    });
    found.await.map(Json)
}

/// The text of a template.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemplateText {
    /// The text.
    text: String,
}

/// Parses a text as a template and returns its errors. Nothing is stored.
#[utoipa::path(post, path = "/templates/check", tag = "templates", request_body = TemplateText, responses((status = 200, body = Object), (status = 400, body = Problem)))]
pub(crate) async fn check(Given(given): Given<TemplateText>) -> Answer<Parsed> {
    if given.text.len() > MOST_BYTES {
        return Err(Problem::new(BAD_REQUEST, format!("a template has at most {MOST_BYTES} bytes")));
    }
    blocking(move || Ok(parse(&given.text))).await.map(Json)
}
